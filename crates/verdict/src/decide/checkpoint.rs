//! A checkpoint call: records steps and children under the lease, and what follows: going on, waiting, a report.
//!
//! The call takes effect as a whole or not at all. It renews the lease and implies the start. What was recorded
//! before is recognised by its key and digest and recorded once; the same key with another digest refuses the call.
//!
//! An answer that carries the cancel signal starts the grace period, as a heartbeat's does. With a cancel pending a wait
//! does not suspend: no worker would be left to honour the cancel.

use super::call_items::{Items, Resolved, WaitOutcome};
use super::caller::{self, Call};
use super::run::{answered, loaded};
use super::{approvals, budget, cancel, engine, plan, report};
use crate::bounds;
use crate::event::{Event, Subject};
use crate::request::Report;
use crate::run::limits::WAIT_DEFAULT;
use crate::run::{CheckpointCall, Checkpointed, RunAnswer, Then, Wait, WaitCall, WaitRecord};
use crate::task::{Lease, State, Task};
use crate::time::{Moment, Time};
use crate::verdict::{CancelSignal, Context, ReadSet, Refusal, Verdict};

pub(super) fn decide(read_set: ReadSet<'_>, call: &CheckpointCall, at: Moment) -> Verdict {
    if let Err(refusal) = caller::recognise(read_set, &call.caller, at) {
        return Verdict::refuse(refusal);
    }
    if let Some(stored) = stored_answer(read_set, call) {
        return stored;
    }
    let resolved = caller::authorise(read_set, &call.caller, Call::Checkpoint, at)
        .and_then(|(task, lease)| Ok((task, lease, resolve(read_set, task, call, at)?)));
    match resolved {
        Err(refusal) => Verdict::refuse(refusal),
        Ok((task, lease, resolved)) => follow(task, lease, call, resolved, at),
    }
}

/// The call that closed its attempt gets its answer again. While the attempt is open, its items are recognised by key.
fn stored_answer(read_set: ReadSet<'_>, call: &CheckpointCall) -> Option<Verdict> {
    if matches!(call.then, Then::Report { .. }) {
        return report::stored_answer(read_set, &call.caller, call.digest);
    }
    let closed = read_set.context.closed.filter(|closed| closed.lease == call.caller.lease)?;
    let is_suspended = closed.outcome.is_suspension() && closed.report == Some(call.digest);
    let is_stopped = budget::stopped_call(closed, call.digest);
    if !is_suspended && !is_stopped {
        return None;
    }
    let known = read_set.context.run;
    let child = |key| known.and_then(|loaded| loaded.child(key)).map(|child| child.id);
    let answer = Checkpointed {
        // As the first answer said. The task may be running again by now, under a lease that is not the caller's.
        state: if is_stopped { State::Halted } else { State::Waiting },
        replayed: true,
        replayed_keys: call.steps.iter().map(|step| step.key.clone()).collect(),
        children: call
            .children
            .iter()
            .filter_map(|asked| Some((asked.key.clone(), child(&asked.key)?)))
            .collect(),
        wait: None,
        expires_at: None,
        cancel: None,
    };
    Some(Verdict::new(answered(RunAnswer::Checkpointed(answer)), Vec::new()))
}

/// What of the call is new. A call that does not fit is refused before anything of it is looked at.
fn resolve(
    read_set: ReadSet<'_>,
    task: &Task,
    call: &CheckpointCall,
    at: Moment,
) -> Result<Resolved, Refusal> {
    plan::check_call(task, call).map_err(Refusal::Run)?;
    let has_flow = call.children.iter().any(|child| child.submit.flow.is_some());
    let flows = read_set.context.flows.filter(|_| has_flow);
    let context = Context { flows, ..read_set.context };
    let resolved = Items::new(task, loaded(read_set), context, at.now).resolve(call)?;
    // A report ends what has begun, and needs no more room than one without steps.
    let is_report = matches!(call.then, Then::Report { .. }) && resolved.new_children == 0;
    if !is_report && !bounds::has_room_for_call(task, resolved.new_children) {
        return Err(Refusal::HistoryFull { state: task.state() });
    }
    Ok(resolved)
}

fn follow(
    task: &Task,
    lease: &Lease,
    call: &CheckpointCall,
    resolved: Resolved,
    at: Moment,
) -> Verdict {
    match (&call.then, &resolved.wait) {
        (Then::Report { outcome, claims }, _) => {
            let report = Report {
                caller: call.caller.clone(),
                outcome: outcome.clone(),
                digest: call.digest,
                claims: claims.clone(),
                by: call.asked_by.clone(),
            };
            conclude(task, &report, resolved, at)
        }
        (Then::Diverged(_), _) if task.cancel.is_some() => {
            let after = after_items(task, &resolved, at.now);
            close(resolved, cancel::diverged(&after, engine::diverged(call.digest), at.now))
        }
        (Then::Diverged(divergence), _) => {
            close(resolved, engine::park(task, call.digest, divergence.clone(), at.now))
        }
        (Then::Wait(wait), Some(WaitOutcome::Missing(missing))) if task.cancel.is_none() => {
            let opened = approvals::ask(task, wait, at.now);
            let wait = begin(wait, *missing, at.now);
            let mut resolved = resolved;
            resolved.events.extend(opened);
            close(resolved, engine::suspend(task, call.digest, wait, at.now))
        }
        (Then::Wait(_) | Then::Continue, _) => go_on(task, lease, resolved, at),
    }
}

fn begin(call: &WaitCall, missing: u32, now: Time) -> Wait {
    Wait {
        key: call.key.clone(),
        digest: call.digest,
        mode: call.mode,
        items: call.items.clone(),
        missing,
        gives_up_at: now.plus(call.max.unwrap_or(WAIT_DEFAULT)),
    }
}

/// The worker keeps its lease.
fn go_on(task: &Task, lease: &Lease, resolved: Resolved, at: Moment) -> Verdict {
    let expires_at = task.lease_end(lease.acquired_at, at.now).max(lease.expires_at);
    let started = lease.started_at.is_none().then_some(Event::Started);
    let renewed = Event::Renewed { expires_at, progress: None };
    let is_first = task.cancel.as_ref().is_some_and(|cancel| cancel.signalled_at.is_none());
    let signalled = is_first.then_some(Event::CancelSignalled);
    let cancel = task.cancel.as_ref().map(|cancel| CancelSignal { reason: cancel.reason.clone() });
    let (events, answer) = resolved.into_answer(State::Running, Some(expires_at), cancel);
    let events = started.into_iter().chain([renewed]).chain(events).chain(signalled).collect();
    Verdict::new(answered(RunAnswer::Checkpointed(answer)), events)
}

/// The attempt is closed by the call.
fn close(resolved: Resolved, closed: Event) -> Verdict {
    let state = closed.next_state().expect("the event closes the attempt");
    let (mut events, answer) = resolved.into_answer(state, None, None);
    events.push(closed);
    Verdict::new(answered(RunAnswer::Checkpointed(answer)), events)
}

/// The report is decided as if the steps and children had come in a call before it.
fn conclude(task: &Task, report: &Report, resolved: Resolved, at: Moment) -> Verdict {
    let after = after_items(task, &resolved, at.now);
    let lease = after.lease().expect("no step or child ends a lease");
    let verdict = report::commit(&after, lease, report, at);
    let events = resolved.events.into_iter().chain(verdict.events).collect();
    Verdict::new(verdict.answer, events)
}

/// The task with the steps and children of the call. An end must wait for children that the same call spawns.
fn after_items(task: &Task, resolved: &Resolved, now: Time) -> Task {
    match Subject::Live(task.clone()).settle(&resolved.events, now) {
        Subject::Live(task) => task,
        Subject::Absent | Subject::Done(_) => unreachable!("no step or child ends a task"),
    }
}

impl Resolved {
    fn into_answer(
        self,
        state: State,
        expires_at: Option<Time>,
        cancel: Option<CancelSignal>,
    ) -> (Vec<Event>, Checkpointed) {
        let wait: Option<WaitRecord> = match self.wait {
            Some(WaitOutcome::Satisfied(record) | WaitOutcome::Replayed(record)) => Some(record),
            Some(WaitOutcome::Missing(_)) | None => None,
        };
        let replayed = self.events.is_empty() && expires_at.is_some();
        let answer = Checkpointed {
            state,
            replayed,
            replayed_keys: self.replayed,
            children: self.children,
            wait,
            expires_at,
            cancel,
        };
        (self.events, answer)
    }
}
