//! Workers that wait for work. They live in memory only: a lost poll is asked again.

use prometheus_client::metrics::gauge::Gauge;
use store::{PollRef, Want};
use tokio::time::Instant;

use crate::intake::Polling;
use crate::item::{Granted, Outage, Poll, Trouble, WaitingPoll};

/// Workers that may wait at once. Each is an open connection; more than this is a misconfiguration.
const POLLS_MAX: usize = 16_384;

/// Tasks granted in one commit, so that one poll for many cannot make all others wait long.
const GRANTS_MAX: usize = 1_024;

pub(super) struct Polls {
    waiting: Vec<WaitingPoll>,
    /// How many of the first ones were asked for before: their names need not be looked up again.
    seen: usize,
    gauge: Gauge,
}

impl Polls {
    pub(super) fn new(gauge: Gauge) -> Self {
        Self { waiting: Vec::new(), seen: 0, gauge }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn add(&mut self, poll: WaitingPoll) {
        self.replace_twin(&poll);
        if self.waiting.len() < POLLS_MAX {
            self.waiting.push(poll);
        } else {
            answer(poll, Err(Trouble::Overloaded));
        }
        self.gauge.set(self.waiting.len() as i64);
    }

    /// The same poll asked again means that its first answer has nobody to go to.
    fn replace_twin(&mut self, poll: &WaitingPoll) {
        if poll.poll.poll.is_none() {
            return;
        }
        let twin = self.waiting.iter().position(|waiting| is_twin(&waiting.poll, &poll.poll));
        if let Some(twin) = twin {
            self.remove(twin).into_iter().for_each(|poll| answer(poll, Ok(Vec::new())));
        }
    }

    /// Says how many workers wait for such a task; who asked may have left.
    pub(super) fn tell_count(&self, asked: Polling) {
        let Polling { scope, queue, kind, reply } = asked;
        let wants = |WaitingPoll { poll, reply }: &&WaitingPoll| {
            !reply.is_closed()
                && poll.scope == scope
                && poll.queues.contains(&queue)
                && poll.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind))
        };
        let _ = reply.send(self.waiting.iter().filter(wants).count());
    }

    /// Forgets polls whose worker has hung up.
    pub(super) fn forget_gone(&mut self) {
        drop(self.take_where(|_, waiting| waiting.reply.is_closed()));
    }

    /// Takes out all polls of a kind in one pass over those that wait; their order stays.
    fn take_where(
        &mut self,
        mut is_taken: impl FnMut(usize, &WaitingPoll) -> bool,
    ) -> Vec<WaitingPoll> {
        let (mut place, mut seen_taken) = (0, 0);
        let taken = self.waiting.extract_if(.., |waiting| {
            let is_taken = is_taken(place, waiting);
            seen_taken += usize::from(is_taken && place < self.seen);
            place += 1;
            is_taken
        });
        let taken: Vec<WaitingPoll> = taken.collect();
        self.seen -= seen_taken;
        if !taken.is_empty() {
            self.gauge.set(self.waiting.len() as i64);
        }
        taken
    }

    fn remove(&mut self, index: usize) -> Option<WaitingPoll> {
        if index < self.seen {
            self.seen -= 1;
        }
        let poll = self.waiting.remove(index);
        self.gauge.set(self.waiting.len() as i64);
        Some(poll)
    }

    /// Named polls that have not been looked up yet, with their places.
    pub(super) fn unseen_names(&self) -> (Vec<usize>, Vec<PollRef>) {
        let unseen = self.waiting.iter().enumerate().skip(self.seen);
        unseen.filter_map(|(index, poll)| Some((index, named(poll)?))).unzip()
    }

    /// What all polls together want, first come first served, up to one commit's worth.
    pub(super) fn wants(&self, except: &[usize]) -> (Vec<usize>, Vec<Want>) {
        let mut left = GRANTS_MAX;
        let mut wants = (Vec::new(), Vec::new());
        for (index, WaitingPoll { poll, .. }) in self.waiting.iter().enumerate() {
            let max = poll.max.min(left);
            if max == 0 || except.contains(&index) {
                continue;
            }
            left -= max;
            wants.0.push(index);
            wants.1.push(Want {
                scope: poll.scope.clone(),
                queues: poll.queues.clone(),
                kinds: poll.kinds.clone(),
                max,
            });
        }
        wants
    }

    pub(super) fn get(&self, index: usize) -> &WaitingPoll {
        &self.waiting[index]
    }

    /// Hands grants to their workers after the commit; returns those nobody took.
    pub(super) fn answer(&mut self, mut grants: Vec<(usize, Vec<Granted>)>) -> Vec<Granted> {
        self.seen = self.waiting.len();
        grants.sort_by_key(|(index, _)| *index);
        let mut places = grants.iter().map(|(index, _)| *index).peekable();
        let served = self.take_where(|place, _| places.next_if_eq(&place).is_some());
        let mut unclaimed = Vec::new();
        for (poll, (_, granted)) in served.into_iter().zip(grants) {
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
        let overdue = self.take_where(|_, waiting| waiting.poll.until <= now);
        overdue.into_iter().for_each(|poll| answer(poll, nothing.clone()));
    }

    pub(super) fn answer_all_empty(&mut self) {
        self.seen = 0;
        self.waiting.drain(..).for_each(|poll| answer(poll, Ok(Vec::new())));
        self.gauge.set(0);
    }

    pub(super) fn earliest_end(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.poll.until).min()
    }
}

/// The poll's worker may have left; then there is nobody to tell.
fn answer(poll: WaitingPoll, granted: Result<Vec<Granted>, Trouble>) {
    drop(poll.reply.send(granted));
}

fn is_twin(one: &Poll, other: &Poll) -> bool {
    one.poll == other.poll && one.worker == other.worker && one.scope == other.scope
}

fn named(waiting: &WaitingPoll) -> Option<PollRef> {
    let poll = &waiting.poll;
    Some(PollRef {
        scope: poll.scope.clone(),
        owner: poll.worker.clone(),
        poll: poll.poll.clone()?,
    })
}
