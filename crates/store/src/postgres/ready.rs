//! Taking ready tasks: candidates from memory, locked by their key, looked at again. Those that are likely to be given
//! are locked ahead, on the way that reads the clock. Nothing here reads a queue: what is lacking is looked at beside the
//! batch ([`super::looking`]).

use std::collections::{HashMap, HashSet};

use verdict::{Name, Scope, Task, TaskId, Time};

use super::batch::PostgresBatch;
use super::candidates::LaneKey;
use super::lane::Refill;
use super::looking;
use super::own::Locked;
use super::place::Place;
use super::reads;
use crate::failure::Failure;
use crate::row::{Ready, Stock, Want};
use crate::seam::Polled;

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
    /// Those of them that this very batch made ready, by queue.
    own: HashMap<(Scope, Name), Vec<(Place, Name)>>,
    /// Not to be had in this call.
    gone: HashSet<TaskId>,
}

impl Known {
    /// What this batch made ready for a lane.
    fn own_of(&self, lane: &LaneKey) -> impl Iterator<Item = Place> {
        let queue = (lane.scope.clone(), lane.queue.clone());
        let own = self.own.get(&queue).into_iter().flatten();
        own.filter(move |(_, kind)| lane.takes_kind(kind)).map(|(place, _)| *place)
    }
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
    /// Which polled queues hold something, as far as is known. Those that are polled for the first time are looked at
    /// from now on, beside this batch.
    pub(super) fn expected_stocks(&self, polled: &dyn Polled) -> Vec<Stock> {
        let shared = &self.writer.shared;
        let (mut memory, now) = (shared.memory(), shared.clock.now());
        let is_any_new = memory.candidates.note_polled(polled, tokio::time::Instant::now());
        if memory.candidates.ripen(now) || is_any_new {
            shared.looks.wake();
        }
        memory.candidates.stocks(polled)
    }

    /// The same, with what this batch made ready and with the queues that were polled for the first time. What a fellow has
    /// made ready since the last look is not among them, until a hint or the next look tells of it.
    pub(super) async fn find_stocks(&mut self, polled: &dyn Polled, now: Time) -> Vec<Stock> {
        let shared = self.writer.shared.clone();
        let (is_any_needed, unseen) = {
            let (mut memory, here) = (shared.memory(), tokio::time::Instant::now());
            memory.candidates.note_polled(polled, here);
            (memory.candidates.ripen(now), memory.candidates.unseen(here))
        };
        if is_any_needed || !unseen.is_empty() {
            shared.looks.wake();
        }
        if !unseen.is_empty() {
            shared.wait_for(&unseen, looking::patience()).await;
        }
        let mut stocks = {
            let mut memory = shared.memory();
            memory.candidates.ripen(now);
            memory.candidates.stocks(polled)
        };
        self.add_own(polled, now, &mut stocks);
        stocks
    }

    fn add_own(&self, polled: &dyn Polled, now: Time, stocks: &mut Vec<Stock>) {
        let mut own: HashMap<(Scope, Name), usize> = HashMap::new();
        for task in self.own.live().filter(|task| is_claimable(task, now)) {
            *own.entry((task.scope.clone(), task.queue.clone())).or_default() += 1;
        }
        for stock in stocks.iter_mut() {
            let more = own.remove(&(stock.scope.clone(), stock.queue.clone()));
            stock.tasks = stock.tasks.saturating_add(more.unwrap_or(0));
        }
        let polled = own.into_iter().filter(|((scope, queue), _)| polled.contains(scope, queue));
        stocks.extend(polled.map(|((scope, queue), tasks)| Stock { scope, queue, tasks }));
    }

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
        self.writer.shared.memory().candidates.ripen(now);
        let (mut asked, until) = (HashSet::new(), looking::patience());
        for _ in 0..ROUNDS_MAX {
            let mut lacking = self.lacking(&searches, now, &known);
            lacking.retain(|need| asked.insert(need.clone()));
            self.writer.shared.look_at(lacking.into_iter().collect(), until).await;
            // A page has delayed tasks apart, those whose time has come among them.
            self.writer.shared.memory().candidates.ripen(now);
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
        let queues: HashSet<(&Scope, &Name)> = searches
            .iter()
            .flat_map(|search| search.lanes.iter().map(|lane| (&lane.scope, &lane.queue)))
            .collect();
        let is_wanted =
            |task: &&Task| is_claimable(task, now) && queues.contains(&(&task.scope, &task.queue));
        let own: Vec<Task> = self.own.live().filter(is_wanted).cloned().collect();
        let mut specs = self.specs(&own).await?;
        let mut known = Known::default();
        for task in own {
            let Some(spec) = specs.remove(&task.id) else { continue };
            let place = Place::new(task.priority, task.id);
            let queue = (task.scope.clone(), task.queue.clone());
            known.own.entry(queue).or_default().push((place, task.kind.clone()));
            known.locked.insert(task.id, Ready { task, spec });
        }
        Ok(known)
    }

    fn is_free(&self, id: TaskId, known: &Known) -> bool {
        !self.own.contains(id) && !known.gone.contains(&id) && !self.avoided.contains(&id)
    }

    /// What must be read before the wants can be served, each once.
    fn lacking(
        &self,
        searches: &[Search<'_>],
        now: Time,
        known: &Known,
    ) -> HashSet<(LaneKey, Refill)> {
        let lanes =
            searches.iter().flat_map(|search| search.lanes.iter().map(move |lane| (search, lane)));
        lanes.filter_map(|(search, lane)| self.lacks(lane, search, now, known)).collect()
    }

    fn lacks(
        &self,
        lane: &LaneKey,
        search: &Search<'_>,
        now: Time,
        known: &Known,
    ) -> Option<(LaneKey, Refill)> {
        let memory = self.writer.shared.memory();
        let is_free = |id| {
            self.is_free(id, known) && !memory.candidates.is_reserved_by_another(id, self.number)
        };
        memory.candidates.needs(lane, now, search.want.max, is_free)
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
                let own = known.own_of(lane).filter(|place| !taken.contains(&place.id()));
                places.extend(heads.into_iter().chain(own).map(|place| (lane.clone(), place)));
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
            if is_claimable(&ready.task, now) {
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

fn is_claimable(task: &Task, now: Time) -> bool {
    task.claimable_at().is_some_and(|due| due.has_come(now))
}
