//! Taking ready tasks: candidates from memory, locked by their key, looked at again. Those that are likely to be given
//! are locked ahead, on the way that reads the clock.

use std::collections::{HashMap, HashSet};

use verdict::{Scope, Task, TaskId, Time};

use super::batch::PostgresBatch;
use super::candidates::{LaneKey, PAGE, Page, Refill};
use super::own::Locked;
use super::place::Place;
use super::reads::{self, Client, Read};
use crate::failure::Failure;
use crate::row::{Ready, Want};

/// How often candidates that turned out to be gone are replaced by others in one call. More would only
/// hold the batch's locks longer; what is left waits for the next batch.
const ROUNDS_MAX: usize = 8;

/// One want with the lanes it may be served from.
struct Search<'a> {
    want: &'a Want,
    lanes: Vec<LaneKey>,
}

/// What the search has found out so far.
#[derive(Default)]
struct Known {
    /// Locked, waiting and due.
    locked: HashMap<TaskId, Ready>,
    /// Not to be had in this call.
    gone: HashSet<TaskId>,
}

/// Candidates to lock in one go with whatever is asked next, and what came of it.
#[derive(Default)]
pub(super) struct Ahead {
    chosen: Vec<(LaneKey, Place)>,
    /// Once they were asked for.
    taken: Option<Vec<(Locked, Ready)>>,
}

impl Ahead {
    /// What to ask for, if anything.
    pub(super) fn ids(&self) -> Vec<TaskId> {
        self.chosen.iter().map(|(_, place)| place.id()).collect()
    }

    pub(super) fn scopes(&self) -> impl Iterator<Item = &Scope> {
        self.chosen.iter().map(|(lane, _)| &lane.scope)
    }

    pub(super) fn took(&mut self, taken: Vec<(Locked, Ready)>) {
        self.taken = Some(taken);
    }
}

impl PostgresBatch<'_> {
    /// Chooses what these wants would be given by what is known now. Lanes that must be read first give nothing.
    pub(super) fn choose_ahead(&mut self, wants: &[Want]) {
        let now = self.writer.shared.clock.now();
        let mut searches: Vec<Search<'_>> =
            wants.iter().map(|want| Search { want, lanes: LaneKey::of(want) }).collect();
        let known = Known::default();
        let is_settled = |search: &Search<'_>| {
            search.lanes.iter().all(|lane| self.lacks(lane, search, now, &known).is_none())
        };
        searches.retain(is_settled);
        let chosen: Vec<_> = self.pick(&searches, &known).into_iter().flatten().collect();
        let ids = chosen.iter().map(|(_, place)| place.id());
        self.writer.shared.memory().candidates.reserve(ids, self.number);
        self.ahead = Ahead { chosen, taken: None };
    }

    pub(super) async fn take_ready(
        &mut self,
        wants: &[Want],
        now: Time,
    ) -> Result<Vec<Vec<Ready>>, Failure> {
        let searches: Vec<Search<'_>> =
            wants.iter().map(|want| Search { want, lanes: LaneKey::of(want) }).collect();
        let mut known = self.own_ready(&searches, now).await?;
        if let Ahead { chosen, taken: Some(taken) } = std::mem::take(&mut self.ahead) {
            self.learn(chosen, taken, now, &mut known);
        }
        for _ in 0..ROUNDS_MAX {
            for search in &searches {
                self.refill(search, now, &known).await?;
            }
            let picked = self.pick(&searches, &known);
            let unknown: Vec<(LaneKey, Place)> = picked
                .into_iter()
                .flatten()
                .filter(|(_, place)| !known.locked.contains_key(&place.id()))
                .collect();
            if unknown.is_empty() {
                break;
            }
            self.lock_candidates(unknown, now, &mut known).await?;
        }
        let picked = self.pick(&searches, &known);
        let take = |places: Vec<(LaneKey, Place)>| {
            let ready = places.iter().filter_map(|(_, place)| known.locked.get(&place.id()));
            ready.cloned().collect::<Vec<Ready>>()
        };
        Ok(picked.into_iter().map(take).collect())
    }

    /// What this very batch made ready, and what it took away.
    async fn own_ready(&mut self, searches: &[Search<'_>], now: Time) -> Result<Known, Failure> {
        let is_wanted = |task: &&Task| {
            task.claimable_at().is_some_and(|due| due.has_come(now))
                && searches.iter().any(|search| search.takes(task))
        };
        let own: Vec<Task> = self.own.live().filter(is_wanted).cloned().collect();
        let mut specs = self.specs(&own).await?;
        let locked = own.into_iter().filter_map(|task| {
            let spec = specs.remove(&task.id)?;
            Some((task.id, Ready { task, spec }))
        });
        Ok(Known { locked: locked.collect(), gone: HashSet::new() })
    }

    fn is_free(&self, id: TaskId, known: &Known) -> bool {
        !self.own.contains(id) && !known.gone.contains(&id)
    }

    /// Reads what the lanes of a want lack.
    async fn refill(
        &mut self,
        search: &Search<'_>,
        now: Time,
        known: &Known,
    ) -> Result<(), Failure> {
        for lane in &search.lanes {
            if let Some(refill) = self.lacks(lane, search, now, known) {
                let began = {
                    let memory = self.writer.shared.memory();
                    memory.candidates.begin_reading(self.writer.shared.clock.instant())
                };
                let page = self.read_page(lane, refill, now).await?;
                let mut memory = self.writer.shared.memory();
                memory.candidates.fill(lane.clone(), refill, page, began);
            }
        }
        Ok(())
    }

    fn lacks(
        &self,
        lane: &LaneKey,
        search: &Search<'_>,
        now: Time,
        known: &Known,
    ) -> Option<Refill> {
        let memory = self.writer.shared.memory();
        let is_free = |id| {
            self.is_free(id, known) && !memory.candidates.is_reserved_by_another(id, self.number)
        };
        memory.candidates.needs(lane, now, search.want.max, is_free)
    }

    async fn read_page(
        &mut self,
        lane: &LaneKey,
        refill: Refill,
        now: Time,
    ) -> Result<Page, Failure> {
        let setting = self.scopes.add(std::iter::once(&lane.scope));
        let lane = lane.clone();
        let work = move |client: Client| async move {
            let (set, page) = futures_util::join!(
                reads::set_scopes(&client, setting),
                read_page(&client, &lane, refill, now)
            );
            set?;
            page
        };
        self.transaction().run("looking for ready tasks", work).await
    }

    /// Serves the wants in order from what is known: each place once, by priority and age.
    fn pick(&self, searches: &[Search<'_>], known: &Known) -> Vec<Vec<(LaneKey, Place)>> {
        let memory = self.writer.shared.memory();
        let mut taken: HashSet<TaskId> = HashSet::new();
        let mut picked = Vec::new();
        for search in searches {
            let is_free = |id| {
                self.is_free(id, known)
                    && !taken.contains(&id)
                    && !memory.candidates.is_reserved_by_another(id, self.number)
            };
            let mut places: Vec<(LaneKey, Place)> = Vec::new();
            for lane in &search.lanes {
                let heads = memory.candidates.heads(lane, search.want.max, is_free);
                places.extend(heads.into_iter().map(|place| (lane.clone(), place)));
                let own = known.locked.values().filter(|ready| {
                    self.own.contains(ready.task.id)
                        && lane.takes(&ready.task)
                        && !taken.contains(&ready.task.id)
                });
                let own = own.map(|ready| Place::new(ready.task.priority, ready.task.id));
                places.extend(own.map(|place| (lane.clone(), place)));
            }
            places.sort_by_key(|(_, place)| *place);
            places.truncate(search.want.max);
            taken.extend(places.iter().map(|(_, place)| place.id()));
            picked.push(places);
        }
        picked
    }

    async fn lock_candidates(
        &mut self,
        candidates: Vec<(LaneKey, Place)>,
        now: Time,
        known: &mut Known,
    ) -> Result<(), Failure> {
        let ids: Vec<TaskId> = candidates.iter().map(|(_, place)| place.id()).collect();
        let setting = self.scopes.add(candidates.iter().map(|(lane, _)| &lane.scope));
        self.writer.shared.memory().candidates.reserve(ids.iter().copied(), self.number);
        let work = move |client| async move {
            let (set, taken) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::take(&client, &ids)
            );
            set?;
            taken
        };
        let taken = self.transaction().run("taking ready tasks", work).await?;
        self.learn(candidates, taken, now, known);
        Ok(())
    }

    /// Takes in which of the candidates are locked now; the others are not worth trying again.
    fn learn(
        &mut self,
        candidates: Vec<(LaneKey, Place)>,
        taken: Vec<(Locked, Ready)>,
        now: Time,
        known: &mut Known,
    ) {
        for (locked, ready) in taken {
            self.locked.insert(ready.task.id, locked);
            if ready.task.claimable_at().is_some_and(|due| due.has_come(now)) {
                known.locked.insert(ready.task.id, ready);
            }
        }
        let mut memory = self.writer.shared.memory();
        for (lane, place) in candidates {
            if !known.locked.contains_key(&place.id()) {
                known.gone.insert(place.id());
                memory.candidates.drop_place(&lane, place);
            }
        }
    }
}

impl Search<'_> {
    fn takes(&self, task: &Task) -> bool {
        self.lanes.iter().any(|lane| lane.takes(task))
    }
}

async fn read_page(client: &Client, lane: &LaneKey, refill: Refill, now: Time) -> Read<Page> {
    let kinds: Option<Vec<String>> =
        lane.kinds.as_ref().map(|kinds| kinds.iter().map(|kind| kind.to_string()).collect());
    let (scope, queue, kinds) = (&lane.scope, lane.queue.as_str(), kinds.as_ref());
    let after = match refill {
        Refill::Head => None,
        Refill::After(place) => Some(place),
    };
    let delayed = async {
        match refill {
            Refill::Head => reads::delayed(client, scope, queue, kinds, PAGE).await,
            Refill::After(_) => Ok(Vec::new()),
        }
    };
    let (places, delayed) =
        futures_util::join!(reads::waiting(client, scope, queue, kinds, after, PAGE), delayed);
    let (places, delayed) = (places?, delayed?);
    let is_last = places.len() < PAGE;
    let (come, later): (Vec<_>, Vec<_>) =
        delayed.into_iter().partition(|(due, _)| due.has_come(now));
    // A whole page of tasks whose time has come may hide more of them: look again soon.
    let next_due = if come.len() == PAGE { Some(now) } else { later.first().map(|(due, _)| *due) };
    let matured = come.into_iter().map(|(_, place)| place).collect();
    Ok(Page { places, is_last, matured, next_due })
}
