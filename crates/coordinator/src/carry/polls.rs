//! Workers that wait for work. Polls exist in memory only: a worker repeats a poll that is lost.
//!
//! A waiting poll costs nothing. It is indexed by its queues ([`lines`]), its timeout, its name and its tenant, and a
//! batch never visits polls that wait for something else. A disconnected worker is noticed when its turn comes, when
//! its poll times out, or when its seat is needed.

mod lines;
mod overview;
mod round;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use store::{Backlog, PausedQueues, PollRef, PolledQueues};
use tokio::time::Instant;
use verdict::Name;

pub(super) use self::lines::{LineId, PollId};
use self::lines::{Lines, PollFilter};
pub(super) use self::round::{GRANT_BYTES_MAX, Round, RoundResult};
use crate::intake::CountPolls;
use crate::item::{BatchGrant, Outage, Poll, RequestError, WaitingPoll};

/// How many workers may wait at once. Each is an open connection; more than this is a misconfiguration.
const POLLS_MAX: usize = 16_384;

/// When all seats are taken, this many are checked for a disconnected worker before a poll is refused. Successive
/// checks cover all seats in turn, so the seats of a restarted fleet are free again within a few polls.
const DISCONNECT_CHECKS_MAX: usize = 64;

/// Named polls whose earlier leases one commit looks up: as many as arrive with one.
const RECALLED_POLLS_MAX: usize = 1_024;

/// When polls are looked at again that may take something and that a round which granted nothing could not look at. Often
/// enough that they do not wait noticeably, and seldom enough that thousands of polls which ask in vain keep no processor busy.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(super) struct Polls {
    seats: BTreeMap<PollId, Seat>,
    lines: Lines,
    ends: BTreeSet<(Instant, PollId)>,
    names: HashMap<PollRef, PollId>,
    tenants: HashMap<Name, Tenant>,
    /// Tenants, sorted by their number of seats.
    sizes: BTreeSet<(usize, Name)>,
    /// Named polls whose earlier leases no batch has looked up yet.
    unrecalled: BTreeSet<PollId>,
    /// The tenant that had the last turn.
    turn: Option<Name>,
    /// When to look again at polls for which the last round had no looks left.
    look_again_at: Option<Instant>,
    came: u64,
}

struct Seat {
    waiting: WaitingPoll,
    line: LineId,
}

/// A tenant that has seats.
#[derive(Default)]
struct Tenant {
    seats: BTreeSet<PollId>,
    /// The workspace and queue that had the last turn.
    turn: Option<(Name, Name)>,
    /// The seat that was last checked for a disconnected worker.
    looked_at: Option<PollId>,
}

impl Polls {
    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// The queues at which polls wait.
    pub(super) fn polled(&self) -> &dyn PolledQueues {
        &self.lines
    }

    pub(super) fn add(&mut self, poll: WaitingPoll) {
        self.replace_duplicate(&poll);
        if self.seats.len() < POLLS_MAX || self.make_room(&poll.poll.scope.tenant) {
            self.seat(poll);
        } else {
            answer(poll, Err(RequestError::Overloaded));
        }
    }

    fn seat(&mut self, waiting: WaitingPoll) {
        self.came += 1;
        let id = PollId(self.came);
        let line = self.lines.join(id, PollFilter::of(&waiting.poll));
        self.ends.insert((waiting.poll.until, id));
        if let Some(name) = named(&waiting.poll) {
            self.names.insert(name, id);
            self.unrecalled.insert(id);
        }
        let tenant = &waiting.poll.scope.tenant;
        self.resize(tenant, |seats| seats.insert(id));
        self.seats.insert(id, Seat { waiting, line });
    }

    fn remove(&mut self, id: PollId) -> Option<WaitingPoll> {
        let Seat { waiting, line } = self.seats.remove(&id)?;
        self.lines.leave(id, line);
        self.ends.remove(&(waiting.poll.until, id));
        if let Some(name) = named(&waiting.poll) {
            self.names.remove(&name);
            self.unrecalled.remove(&id);
        }
        self.resize(&waiting.poll.scope.tenant, |seats| seats.remove(&id));
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

    /// A repeated poll replaces the first one: its worker no longer waits for that answer.
    fn replace_duplicate(&mut self, poll: &WaitingPoll) {
        let duplicate = named(&poll.poll).and_then(|name| self.names.get(&name).copied());
        let duplicate = duplicate.and_then(|duplicate| self.remove(duplicate));
        duplicate.into_iter().for_each(|duplicate| answer(duplicate, Ok(Vec::new())));
    }

    /// Whether there is a seat now for a poll of this tenant. The tenant with the most seats loses one to a tenant with
    /// fewer, so that a tenant with many workers cannot shut out another.
    fn make_room(&mut self, tenant: &Name) -> bool {
        let Some((most, largest)) = self.sizes.last().cloned() else { return true };
        self.drop_disconnected(&largest);
        if self.seats.len() < POLLS_MAX {
            return true;
        }
        let has = self.tenants.get(tenant).map_or(0, |tenant| tenant.seats.len());
        let newest = self.tenants.get(&largest).and_then(|it| it.seats.last().copied());
        match newest {
            Some(newest) if has + 1 < most => {
                let displaced = self.remove(newest);
                displaced.into_iter().for_each(|poll| answer(poll, Err(RequestError::Overloaded)));
                true
            }
            _ => false,
        }
    }

    /// Checks some of a tenant's seats, from where the last check stopped, and frees those whose worker has
    /// disconnected.
    fn drop_disconnected(&mut self, tenant: &Name) {
        use std::ops::Bound::{Excluded, Unbounded};
        let Some(known) = self.tenants.get_mut(tenant) else { return };
        let from = known.looked_at.map_or(Unbounded, Excluded);
        let next = known.seats.range((from, Unbounded)).chain(known.seats.iter());
        let looked_at: Vec<PollId> = next.take(DISCONNECT_CHECKS_MAX).copied().collect();
        known.looked_at = looked_at.last().copied();
        for id in looked_at {
            if self.is_disconnected(id) {
                self.remove(id);
            }
        }
    }

    fn is_disconnected(&self, id: PollId) -> bool {
        self.seats.get(&id).is_some_and(|seat| seat.waiting.reply.is_closed())
    }

    /// Answers how many workers wait for such a task; the caller may be gone.
    pub(super) fn answer_count(&self, asked: CountPolls) {
        let CountPolls { scope, queue, kind, reply } = asked;
        let takers = self.lines.takers(&scope, &queue, &kind);
        let _ = reply.send(takers.filter(|poll| !self.is_disconnected(*poll)).count());
    }

    /// Named polls whose earlier leases have not been looked up yet, and those of them that wait for a later commit. Tenants take
    /// turns: one that repeats many polls delays its own.
    pub(super) fn unrecalled_names(&self) -> (Vec<PollId>, Vec<PollRef>, Vec<PollId>) {
        let waits = |id: &&PollId| !self.is_disconnected(**id);
        let name = |id: &PollId| Some((*id, named(&self.seats.get(id)?.waiting.poll)?));
        let named = self.unrecalled.iter().filter(waits).filter_map(name);
        let mut before: HashMap<Name, usize> = HashMap::new();
        let mut in_turn: Vec<(usize, PollId, PollRef)> = Vec::new();
        for (id, name) in named {
            let turn = before.entry(name.scope.tenant.clone()).or_default();
            in_turn.push((*turn, id, name));
            *turn += 1;
        }
        in_turn.sort_by_key(|(turn, id, _)| (*turn, *id));
        let later = in_turn.split_off(in_turn.len().min(RECALLED_POLLS_MAX));
        let (ids, names) = in_turn.into_iter().map(|(_, id, name)| (id, name)).unzip();
        (ids, names, later.into_iter().map(|(_, id, _)| id).collect())
    }

    /// Begins a round over the tasks of these queues, without the polls in `except`, which are already answered, in a commit that
    /// has granted some leases before. Nothing is asked for from a paused queue.
    pub(super) fn round(
        &self,
        backlogs: Vec<Backlog>,
        except: HashSet<PollId>,
        paused: &PausedQueues,
        granted: usize,
    ) -> Round {
        Round::new(backlogs, self, except, paused.clone(), granted)
    }

    fn last_tenant(&self) -> Option<&Name> {
        self.turn.as_ref()
    }

    fn last_queue(&self, tenant: &Name) -> Option<(&Name, &Name)> {
        let (workspace, queue) = self.tenants.get(tenant)?.turn.as_ref()?;
        Some((workspace, queue))
    }

    /// The first polls of a line, enough to take this many tasks, each with the number it takes. Polls of disconnected
    /// workers are removed on the way.
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

    /// Sends grants to their workers after the commit. Returns those that reached no worker.
    pub(super) fn answer(&mut self, round_result: RoundResult) -> Vec<BatchGrant> {
        let RoundResult { grants, resume_point, is_cut, looked_up, .. } = round_result;
        for id in looked_up {
            self.unrecalled.remove(&id);
        }
        self.look_again_at = is_cut.then(|| tokio::time::Instant::now() + LOOK_AGAIN_AFTER);
        for (scope, queue, end) in resume_point.searched {
            self.lines.searched(&scope, &queue, end);
        }
        self.turn = resume_point.tenant.or(self.turn.take());
        for (tenant, workspace, queue) in resume_point.queues {
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

    /// Answers polls that timed out with no lease. While the store refuses they get the outage as an error instead: "no
    /// work" would be a guess, and another coordinator may have work.
    pub(super) fn answer_expired(&mut self, now: Instant, outage: Option<Outage>) {
        // Its batch has looked, or the store refuses batches, and the next one that it takes looks anyway.
        self.look_again_at = self.look_again_at.filter(|at| *at > now);
        let nothing =
            outage.map_or(Ok(Vec::new()), |outage| Err(RequestError::Unavailable(outage)));
        while let Some((_, id)) = self.ends.first().copied().filter(|(until, _)| *until <= now) {
            let expired = self.remove(id);
            expired.into_iter().for_each(|poll| answer(poll, nothing.clone()));
        }
    }

    pub(super) fn answer_all_empty(&mut self) {
        while let Some((id, _)) = self.seats.first_key_value() {
            let id = *id;
            self.remove(id).into_iter().for_each(|poll| answer(poll, Ok(Vec::new())));
        }
    }

    /// When a poll times out, or is to be looked at again.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let end = self.ends.first().map(|(until, _)| *until);
        // Once the last poll has left there is nothing to look at.
        end.map(|end| self.look_again_at.map_or(end, |at| at.min(end)))
    }
}

/// Sends the answer, which is dropped if the worker has disconnected.
fn answer(poll: WaitingPoll, granted: Result<Vec<BatchGrant>, RequestError>) {
    drop(poll.reply.send(granted));
}

fn named(poll: &Poll) -> Option<PollRef> {
    let name = poll.poll.clone()?;
    Some(PollRef { scope: poll.scope.clone(), owner: poll.worker.clone(), poll: name })
}
