//! Granting: gives ready tasks, including those that became ready in this batch, to waiting polls.
//!
//! [`super::polls`] chooses the poll, the store finds ready tasks, and the rules decide each grant. Answers to polls
//! are sent after the commit ([`super::commit`]).

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

use store::row_size::ByteBudget;
use store::{Backlog, Batch, Claimable, Failure, FlowRef, Lookup, TaskWithSpec, Want};
use verdict::request::Grant;
use verdict::{Answer, Moment, Request, Time};

use super::batch::{Aborted, BackgroundWork, OpenBatch, catch_task_panic};
use super::polls::{GRANT_BYTES_MAX, LineId, PollId, Round};
use super::working_set::WorkingSet;
use crate::item::BatchGrant;
use crate::trace::TraceEvent;

/// Leases that polls were granted before, and that they are told of again.
#[derive(Default)]
struct Recall {
    leases: Vec<(PollId, Vec<BatchGrant>)>,
    /// Polls that need not be looked up again.
    looked_up: Vec<PollId>,
    /// Polls whose leases did not fit into this commit: a later one looks them up, and until then they are granted nothing.
    later: Vec<PollId>,
}

impl Recall {
    fn count(&self) -> usize {
        self.leases.iter().map(|(_, leases)| leases.len()).sum()
    }
}

impl<B: Batch> OpenBatch<'_, B> {
    /// The wants of the first polls at queues that probably hold tasks. The store reads those tasks in the same round
    /// trip as the rest of the batch.
    pub(super) async fn likely_wants(&mut self) -> Result<Vec<Want>, Aborted> {
        let has_background = self.options.background != BackgroundWork::None;
        if !has_background || !self.options.role.grants() || self.options.may_wait_for_lock() {
            return Ok(Vec::new());
        }
        let backlogs = self.batch.backlogs(self.polls.polled(), Claimable::Likely).await?;
        if backlogs.is_empty() {
            return Ok(Vec::new());
        }
        let asked = self.round(backlogs, HashSet::new(), 0).ask(self.polls);
        Ok(asked.into_iter().map(|(_, want)| want).collect())
    }

    /// Runs one round of turns, for at most `left` tasks.
    pub(super) async fn grant(&mut self, at: Moment, mut left: usize) -> Result<(), Aborted> {
        let recall = self.recall(at.now).await?;
        let answered = recall.leases.iter().map(|(poll, _)| poll);
        let except = answered.chain(&recall.later).copied().collect();
        let backlogs = self.batch.backlogs(self.polls.polled(), Claimable::By(at.now)).await?;
        // A lease that is told of again is read as one that is granted.
        let mut round = self.round(backlogs, except, recall.count());
        loop {
            let (lines, wants): (Vec<LineId>, Vec<Want>) =
                round.ask(self.polls).into_iter().unzip();
            if wants.is_empty() || left == 0 {
                break;
            }
            // Earlier grants are saved first, so that the store does not find those tasks again.
            self.save().await?;
            let ready = self.batch.ready(&cap_wants(wants, left), at.now).await?;
            self.look_up_flows(&ready).await?;
            for (line, tasks) in lines.into_iter().zip(ready) {
                left = left.saturating_sub(tasks.len());
                self.grant_to_line(&mut round, line, tasks, at)?;
            }
        }
        let mut round_result = round.end();
        self.result.more_due |= !recall.later.is_empty();
        round_result.looked_up = recall.looked_up;
        round_result.grants.extend(recall.leases);
        // Where something is granted the next round follows at once: there may be more.
        let is_fruitful = !round_result.grants.is_empty();
        self.result.more_due |= round_result.is_spent || (round_result.is_cut && is_fruitful);
        self.result.round_result = Some(round_result);
        Ok(())
    }

    /// Learns how the flow keys of these tasks are used, which the store has locked with them. What the batch decided is
    /// saved, and the store knows it.
    async fn look_up_flows(&mut self, ready: &[Vec<TaskWithSpec>]) -> Result<(), Aborted> {
        let tasks = ready.iter().flatten();
        let flows = tasks.filter(|it| !it.task.holds_for_life());
        let flows: BTreeSet<FlowRef> = flows.filter_map(|it| FlowRef::of(&it.task)).collect();
        if flows.is_empty() {
            return Ok(());
        }
        let flows: Vec<FlowRef> = flows.into_iter().collect();
        let found = self.batch.look_up(Lookup::flows(&flows)).await?.flows;
        self.work.put_flows(flows, found);
        Ok(())
    }

    /// A round over these backlogs, without those of paused queues: the rules would refuse each of their tasks. So many leases
    /// were granted already.
    fn round(&self, mut backlogs: Vec<Backlog>, except: HashSet<PollId>, granted: usize) -> Round {
        let paused = &self.work.paused;
        backlogs.retain(|backlog| !paused.contains(&backlog.scope, &backlog.queue));
        self.polls.round(backlogs, except, paused, granted)
    }

    /// Leases that named polls were granted before, of as many polls as one commit takes.
    async fn recall(&mut self, now: Time) -> Result<Recall, Aborted> {
        let (named, names, mut later) = self.polls.unrecalled_names();
        if names.is_empty() {
            return Ok(Recall::default());
        }
        let found = self.batch.look_up(Lookup::polls(&names)).await?.leased;
        let (mut leases, mut looked_up) = (Vec::new(), Vec::new());
        for (id, found) in named.into_iter().zip(found) {
            let Some(found) = found else {
                later.push(id);
                continue;
            };
            looked_up.push(id);
            let recalled = self.recalled(id, found, now);
            leases.extend((!recalled.is_empty()).then_some((id, recalled)));
        }
        Ok(Recall { leases, looked_up, later })
    }

    /// What a poll is told of its leases. It is told of queues that it names, and of no other: a limited key may know the name of
    /// another's poll. Under a name that many polls share it is told of no more than one poll is granted.
    fn recalled(&self, id: PollId, leases: Vec<TaskWithSpec>, now: Time) -> Vec<BatchGrant> {
        let Some(poll) = self.polls.get(id) else { return Vec::new() };
        let mut room = ByteBudget::new(GRANT_BYTES_MAX);
        let is_told = |lease: &TaskWithSpec| {
            poll.queues.contains(&lease.task.queue) && room.takes(lease.spec.input_bytes())
        };
        let told = leases.into_iter().filter(is_told);
        told.map(|lease| BatchGrant::new(lease, now)).collect()
    }

    /// Grants tasks to the polls of a line, the oldest first.
    fn grant_to_line(
        &mut self,
        round: &mut Round,
        line: LineId,
        tasks: Vec<TaskWithSpec>,
        at: Moment,
    ) -> Result<(), Failure> {
        self.background_done.extend(tasks.iter().map(|ready| ready.task.id));
        round.found(line, tasks.len());
        for ready in tasks {
            let poll = round.taker(line, ready.spec.input_bytes());
            let Some(poll) = poll.and_then(|poll| self.polls.get(poll)) else { break };
            round.took(&ready.task);
            let request = Request::Grant(Grant {
                lease: self.ids.lease(at.now),
                owner: poll.worker.clone(),
                poll: poll.poll.clone(),
                build: poll.build.as_ref().and_then(|build| build.for_task(&ready.task)),
            });
            if let Some(granted) = grant_task(&mut self.work, ready, request, at)? {
                round.give(line, granted);
            }
        }
        Ok(())
    }
}

/// Decides one grant; `None` if the rules refuse it.
fn grant_task(
    work: &mut WorkingSet,
    ready: TaskWithSpec,
    request: Request,
    at: Moment,
) -> Result<Option<BatchGrant>, Failure> {
    let TaskWithSpec { task, spec } = ready;
    let key = work.adopt(task);
    let waiting = work.task(&key).filter(|_| work.trace_events.is_some()).cloned();
    let decide = || work.decide(&key, Cow::Owned(request), at);
    if catch_task_panic(key.id, decide)? != Answer::Granted {
        return Ok(None);
    }
    let task = work.task(&key).expect("a granted task is live").clone();
    if let (Some(waiting), Some(lease)) = (waiting, task.lease()) {
        let traceparent = spec.traceparent().cloned();
        let event = TraceEvent::granted(&waiting, traceparent, task.attempt, lease.id, at.now);
        work.trace_events.get_or_insert_default().push(event);
    }
    Ok(Some(BatchGrant { task, spec, at: at.now }))
}

/// Caps the wants to `left` tasks in total; lines that asked first come first.
fn cap_wants(mut wants: Vec<Want>, mut left: usize) -> Vec<Want> {
    for want in &mut wants {
        want.max = want.max.min(left);
        left -= want.max;
    }
    wants
}
