//! Workers that wait for work. They live in memory only: a lost poll is asked again.
//!
//! A poll costs nothing while it waits. It is found by its queues ([`lines`]), its end, its name and its tenant, and
//! nothing that a batch does walks over those that wait for something else. That its worker has hung up is noticed
//! when its turn comes, when its time is over, or when its seat is needed.

mod lines;
mod round;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use prometheus_client::metrics::gauge::Gauge;
use store::{PollRef, Polled, Stock};
use tokio::time::Instant;
use verdict::Name;

use self::lines::{Asks, Lines};
pub(super) use self::lines::{LineId, PollId};
pub(super) use self::round::{Round, Rounded};
use crate::intake::Polling;
use crate::item::{Granted, Outage, Poll, Trouble, WaitingPoll};

/// Workers that may wait at once. Each is an open connection; more than this is a misconfiguration.
const POLLS_MAX: usize = 16_384;

/// When all seats are taken, so many are looked at for a worker that has hung up before anybody is refused. All of
/// them are looked at in turn, so that seats of a fleet that was restarted are free again within a few polls.
const LOOKS_MAX: usize = 64;

pub(super) struct Polls {
    seats: BTreeMap<PollId, Seat>,
    lines: Lines,
    ends: BTreeSet<(Instant, PollId)>,
    names: HashMap<PollRef, PollId>,
    tenants: HashMap<Name, Tenant>,
    /// Tenants by how many seats they have.
    sizes: BTreeSet<(usize, Name)>,
    /// Named polls that no batch has looked up yet.
    unseen: BTreeSet<PollId>,
    /// The tenant that had the last turn.
    turn: Option<Name>,
    came: u64,
    gauge: Gauge,
}

struct Seat {
    waiting: WaitingPoll,
    line: LineId,
}

/// One that has seats.
#[derive(Default)]
struct Tenant {
    seats: BTreeSet<PollId>,
    /// Workspace and queue that had the last turn.
    turn: Option<(Name, Name)>,
    /// The seat that was looked at last, for a worker that has hung up.
    looked_at: Option<PollId>,
}

impl Polls {
    pub(super) fn new(gauge: Gauge) -> Self {
        Self {
            seats: BTreeMap::new(),
            lines: Lines::default(),
            ends: BTreeSet::new(),
            names: HashMap::new(),
            tenants: HashMap::new(),
            sizes: BTreeSet::new(),
            unseen: BTreeSet::new(),
            turn: None,
            came: 0,
            gauge,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// The queues at which somebody waits.
    pub(super) fn polled(&self) -> &dyn Polled {
        &self.lines
    }

    pub(super) fn add(&mut self, poll: WaitingPoll) {
        self.replace_twin(&poll);
        if self.seats.len() < POLLS_MAX || self.makes_room(&poll.poll.scope.tenant) {
            self.seat(poll);
        } else {
            answer(poll, Err(Trouble::Overloaded));
        }
    }

    fn seat(&mut self, waiting: WaitingPoll) {
        self.came += 1;
        let id = PollId(self.came);
        let line = self.lines.join(id, Asks::of(&waiting.poll));
        self.ends.insert((waiting.poll.until, id));
        if let Some(name) = named(&waiting.poll) {
            self.names.insert(name, id);
            self.unseen.insert(id);
        }
        let tenant = &waiting.poll.scope.tenant;
        self.resize(tenant, |seats| seats.insert(id));
        self.seats.insert(id, Seat { waiting, line });
        self.gauge.set(self.seats.len() as i64);
    }

    fn remove(&mut self, id: PollId) -> Option<WaitingPoll> {
        let Seat { waiting, line } = self.seats.remove(&id)?;
        self.lines.leave(id, line);
        self.ends.remove(&(waiting.poll.until, id));
        if let Some(name) = named(&waiting.poll) {
            self.names.remove(&name);
            self.unseen.remove(&id);
        }
        self.resize(&waiting.poll.scope.tenant, |seats| seats.remove(&id));
        self.gauge.set(self.seats.len() as i64);
        Some(waiting)
    }

    fn resize(&mut self, name: &Name, change: impl FnOnce(&mut BTreeSet<PollId>) -> bool) {
        let tenant = self.tenants.entry(name.clone()).or_default();
        let before = tenant.seats.len();
        change(&mut tenant.seats);
        let after = tenant.seats.len();
        self.sizes.remove(&(before, name.clone()));
        if after == 0 {
            self.tenants.remove(name);
        } else {
            self.sizes.insert((after, name.clone()));
        }
    }

    /// The same poll asked again means that its first answer has nobody to go to.
    fn replace_twin(&mut self, poll: &WaitingPoll) {
        let twin = named(&poll.poll).and_then(|name| self.names.get(&name).copied());
        let twin = twin.and_then(|twin| self.remove(twin));
        twin.into_iter().for_each(|twin| answer(twin, Ok(Vec::new())));
    }

    /// Whether there is a seat now for a poll of this tenant. Whoever has most seats gives one up to those who have
    /// fewer: no tenant waits in vain because another has many workers.
    fn makes_room(&mut self, tenant: &Name) -> bool {
        let Some((most, largest)) = self.sizes.last().cloned() else { return true };
        self.forget_gone(&largest);
        if self.seats.len() < POLLS_MAX {
            return true;
        }
        let has = self.tenants.get(tenant).map_or(0, |tenant| tenant.seats.len());
        let newest = self.tenants.get(&largest).and_then(|it| it.seats.last().copied());
        match newest {
            Some(newest) if has + 1 < most => {
                let displaced = self.remove(newest);
                displaced.into_iter().for_each(|poll| answer(poll, Err(Trouble::Overloaded)));
                true
            }
            _ => false,
        }
    }

    /// Looks at some of a tenant's seats, where it stopped last time, and forgets those whose worker has hung up.
    fn forget_gone(&mut self, tenant: &Name) {
        use std::ops::Bound::{Excluded, Unbounded};
        let Some(known) = self.tenants.get_mut(tenant) else { return };
        let from = known.looked_at.map_or(Unbounded, Excluded);
        let next = known.seats.range((from, Unbounded)).chain(known.seats.iter());
        let looked_at: Vec<PollId> = next.take(LOOKS_MAX).copied().collect();
        known.looked_at = looked_at.last().copied();
        for id in looked_at {
            if self.is_gone(id) {
                self.remove(id);
            }
        }
    }

    fn is_gone(&self, id: PollId) -> bool {
        self.seats.get(&id).is_some_and(|seat| seat.waiting.reply.is_closed())
    }

    /// Says how many workers wait for such a task; who asked may have left.
    pub(super) fn tell_count(&self, asked: Polling) {
        let Polling { scope, queue, kind, reply } = asked;
        let takers = self.lines.takers(&scope, &queue, &kind);
        let _ = reply.send(takers.filter(|poll| !self.is_gone(*poll)).count());
    }

    /// Named polls that have not been looked up yet.
    pub(super) fn unseen_names(&self) -> (Vec<PollId>, Vec<PollRef>) {
        let waits = |id: &&PollId| !self.is_gone(**id);
        let name = |id: &PollId| Some((*id, named(&self.seats.get(id)?.waiting.poll)?));
        self.unseen.iter().filter(waits).filter_map(name).unzip()
    }

    /// Begins to hand out what these queues hold, but not to those who are answered already.
    pub(super) fn round(&self, stocks: Vec<Stock>, except: HashSet<PollId>) -> Round {
        Round::new(stocks, self, except)
    }

    fn last_tenant(&self) -> Option<&Name> {
        self.turn.as_ref()
    }

    fn last_queue(&self, tenant: &Name) -> Option<(&Name, &Name)> {
        let (workspace, queue) = self.tenants.get(tenant)?.turn.as_ref()?;
        Some((workspace, queue))
    }

    /// The first polls of a line, as many as take so many tasks, each with what it takes. Those whose worker has hung
    /// up are forgotten on the way.
    fn seated(
        &mut self,
        line: LineId,
        tasks: usize,
        except: &HashSet<PollId>,
    ) -> VecDeque<(PollId, usize)> {
        let (mut seated, mut gone, mut room) = (VecDeque::new(), Vec::new(), 0);
        let waiting = self.lines.get(line).into_iter().flat_map(|line| line.polls.iter());
        for id in waiting.copied().filter(|id| !except.contains(id)) {
            if room >= tasks {
                break;
            }
            match self.seats.get(&id) {
                Some(Seat { waiting, .. }) if !waiting.reply.is_closed() => {
                    room += waiting.poll.max;
                    seated.push_back((id, waiting.poll.max));
                }
                _ => gone.push(id),
            }
        }
        gone.into_iter().for_each(|id| drop(self.remove(id)));
        seated
    }

    pub(super) fn get(&self, id: PollId) -> Option<&Poll> {
        self.seats.get(&id).map(|seat| &seat.waiting.poll)
    }

    /// Hands grants to their workers after the commit; returns those nobody took.
    pub(super) fn answer(&mut self, rounded: Rounded) -> Vec<Granted> {
        let Rounded { grants, stop, .. } = rounded;
        self.unseen.clear();
        self.turn = stop.tenant.or(self.turn.take());
        for (tenant, workspace, queue) in stop.queues {
            if let Some(tenant) = self.tenants.get_mut(&tenant) {
                tenant.turn = Some((workspace, queue));
            }
        }
        let mut unclaimed = Vec::new();
        for (id, granted) in grants {
            let Some(poll) = self.remove(id) else {
                unclaimed.extend(granted);
                continue;
            };
            if let Err(Ok(granted)) = poll.reply.send(Ok(granted)) {
                unclaimed.extend(granted);
            }
        }
        unclaimed
    }

    /// Whose time is over gets nothing. While the store cannot be asked that would be a guess, and another
    /// coordinator may know better, so that the trouble is told instead.
    pub(super) fn answer_overdue(&mut self, now: Instant, outage: Option<Outage>) {
        let nothing = outage.map_or(Ok(Vec::new()), |outage| Err(Trouble::Unavailable(outage)));
        while let Some((_, id)) = self.ends.first().copied().filter(|(until, _)| *until <= now) {
            let overdue = self.remove(id);
            overdue.into_iter().for_each(|poll| answer(poll, nothing.clone()));
        }
    }

    pub(super) fn answer_all_empty(&mut self) {
        while let Some((id, _)) = self.seats.first_key_value() {
            let id = *id;
            self.remove(id).into_iter().for_each(|poll| answer(poll, Ok(Vec::new())));
        }
    }

    pub(super) fn earliest_end(&self) -> Option<Instant> {
        self.ends.first().map(|(until, _)| *until)
    }
}

/// The poll's worker may have left; then there is nobody to tell.
fn answer(poll: WaitingPoll, granted: Result<Vec<Granted>, Trouble>) {
    drop(poll.reply.send(granted));
}

fn named(poll: &Poll) -> Option<PollRef> {
    let name = poll.poll.clone()?;
    Some(PollRef { scope: poll.scope.clone(), owner: poll.worker.clone(), poll: name })
}
