//! The digest of the provenance record: one number that identifies the submission, every attempt
//! and the end.
//!
//! The task keeps it as a hash chain with one link per closed attempt, so that ending a task never
//! loads its attempts. Anyone with the rows can recompute it.

use crate::attempt::ClosedAttempt;
use crate::budget::{Budget, Limits, OnSoft, Unit};
use crate::done::{End, Fault};
use crate::event::Submitted;
use crate::flow::{Debounced, FlowKey, Hold, Rate};
use crate::id::{Digest, Name, TaskId};
use crate::run::{Checkpoint, Child, ChildCall, Lineage, Recorded, Spend, WaitRecord};
use crate::task::Task;
use crate::time::{Span, Time};

const FORMAT: &[u8] = b"tenure record 1";

pub(crate) fn begin(submitted: &Submitted) -> Digest {
    let plain = Digest::of(&[
        FORMAT,
        submitted.scope.tenant.as_str().as_bytes(),
        submitted.scope.workspace.as_str().as_bytes(),
        &submitted.id.as_u128().to_be_bytes(),
        submitted.kind.as_str().as_bytes(),
        submitted.queue.as_str().as_bytes(),
        submitted.input.bytes(),
    ]);
    let funded =
        submitted.budget.as_ref().map_or(plain, |budget| extend_with_budget(plain, budget));
    submitted.flow.as_ref().map_or(funded, |flow| extend_with_flow(funded, flow))
}

/// Adds the key of the task. A task without one has the record that it always had.
fn extend_with_flow(chain: Digest, flow: &FlowKey) -> Digest {
    let FlowKey { name, limit, rate, debounce, hold, above } = flow;
    let limited =
        Digest::of(&[chain.bytes(), b"flow", name.as_str().as_bytes(), &limit.to_be_bytes()]);
    let with_rate =
        |rate: &Rate| Digest::of(&[limited.bytes(), b"rate", &rate.rank().to_be_bytes()]);
    let rated = rate.as_ref().map_or(limited, with_rate);
    let with_debounce = |it: &Debounced| {
        let spans = [it.span, it.max].map(|span| span.millis().to_be_bytes());
        let since = it.since.millis().to_be_bytes();
        Digest::of(&[rated.bytes(), b"debounce", &spans[0], &spans[1], &since])
    };
    let debounced = debounce.as_ref().map_or(rated, with_debounce);
    let held = match hold {
        Hold::Lease => debounced,
        Hold::Life => Digest::of(&[debounced.bytes(), b"life"]),
    };
    let share =
        |chain: Digest, key: &Name| Digest::of(&[chain.bytes(), b"under", key.as_str().as_bytes()]);
    above.iter().fold(held, share)
}

/// Adds what the task may use. A task without a budget has the record that it always had.
fn extend_with_budget(chain: Digest, budget: &Budget) -> Digest {
    let absent = u64::MAX;
    let limits = |limits: &Limits| Unit::ALL.map(|unit| limits.get(unit).unwrap_or(absent));
    let spans = [budget.wall, budget.active].map(|span| span.map_or(absent, Span::millis));
    let until = budget.until.map_or(absent, |time| time.millis() as u64);
    let reserve = Unit::ALL.map(|unit| budget.reserve.get(unit));
    let numbers = [limits(&budget.limits), limits(&budget.soft), reserve].concat();
    let numbers = numbers.into_iter().chain(spans).chain([until]);
    let bytes: Vec<u8> = numbers.flat_map(u64::to_be_bytes).collect();
    let word: &[u8] = match budget.on_soft {
        OnSoft::Note => b"budget",
        OnSoft::Ask => b"budget that asks",
    };
    Digest::of(&[chain.bytes(), word, &bytes])
}

/// Adds one closed attempt to a chain.
pub fn extend(chain: Digest, closed: &ClosedAttempt) -> Digest {
    let fault = closed.fault.as_ref().map(fault_digest);
    Digest::of(&[
        chain.bytes(),
        &closed.attempt.to_be_bytes(),
        &closed.lease.as_u128().to_be_bytes(),
        &closed.fence.as_u64().to_be_bytes(),
        closed.owner.as_str().as_bytes(),
        &closed.granted_at.millis().to_be_bytes(),
        &closed.started_at.map_or(i64::MIN, Time::millis).to_be_bytes(),
        &closed.closed_at.millis().to_be_bytes(),
        closed.outcome.name().as_bytes(),
        closed.reason.map_or("", |reason| reason.name()).as_bytes(),
        fault.as_ref().map_or(&[], |digest| digest.bytes().as_slice()),
        closed.report.as_ref().map_or(&[], |digest| digest.bytes().as_slice()),
    ])
}

/// Adds where a child comes from.
pub(crate) fn extend_with_lineage(chain: Digest, lineage: &Lineage) -> Digest {
    let (link, run, origin, key) = match lineage {
        Lineage::Child { run, parent, key } => ("child", run.as_u128(), parent.as_u128(), key),
        Lineage::Detached { cause, key } => ("detached", 0, cause.as_u128(), key),
    };
    Digest::of(&[
        chain.bytes(),
        link.as_bytes(),
        &run.to_be_bytes(),
        &origin.to_be_bytes(),
        key.as_str().as_bytes(),
    ])
}

/// Adds a child that the task asked for.
pub(crate) fn extend_with_child(chain: Digest, child: &ChildCall) -> Digest {
    Digest::of(&[
        chain.bytes(),
        b"spawned",
        child.key.as_str().as_bytes(),
        &child.submit.id.as_u128().to_be_bytes(),
        child.submit.fingerprint.bytes(),
    ])
}

/// Adds a child that the task took over with its record.
pub(crate) fn extend_with_inherited(chain: Digest, child: &Child) -> Digest {
    Digest::of(&[
        chain.bytes(),
        b"inherited",
        child.key.as_str().as_bytes(),
        &child.id.as_u128().to_be_bytes(),
        child.digest.bytes(),
    ])
}

/// Adds the record of the run that the task is a fork of.
pub(crate) fn extend_with_fork(chain: Digest, from: TaskId, record: Digest) -> Digest {
    Digest::of(&[chain.bytes(), b"fork", &from.as_u128().to_be_bytes(), record.bytes()])
}

/// Adds what was planned.
pub(crate) fn extend_with_plan(chain: Digest, plan: Digest) -> Digest {
    Digest::of(&[chain.bytes(), b"plan", plan.bytes()])
}

/// Adds one checkpoint. The end of a child brings the digest of its whole record.
pub fn extend_with_checkpoint(chain: Digest, checkpoint: &Checkpoint) -> Digest {
    let (kind, content) = match &checkpoint.recorded {
        Recorded::Step(step) => ("step", step_digest(checkpoint.digest, step.spend)),
        Recorded::Wait(wait) => ("wait", wait_digest(checkpoint.digest, wait)),
        Recorded::Child(end) => ("child", end.record),
    };
    Digest::of(&[
        chain.bytes(),
        kind.as_bytes(),
        &checkpoint.number.to_be_bytes(),
        checkpoint.key.as_str().as_bytes(),
        content.bytes(),
        &checkpoint.attempt.to_be_bytes(),
        &checkpoint.at.millis().to_be_bytes(),
    ])
}

fn step_digest(asked: Digest, spend: Spend) -> Digest {
    let Spend { cost_micros, tokens, tool_calls } = spend;
    let numbers = [cost_micros, tokens, tool_calls].map(u64::to_be_bytes);
    Digest::of(&[asked.bytes(), &numbers[0], &numbers[1], &numbers[2]])
}

fn wait_digest(asked: Digest, wait: &WaitRecord) -> Digest {
    let winner = wait.winner.as_ref().map_or("", |winner| winner.as_str());
    let start = Digest::of(&[asked.bytes(), winner.as_bytes()]);
    wait.taken.iter().fold(start, |digest, taken| {
        let item = taken.item.as_str().as_bytes();
        Digest::of(&[digest.bytes(), item, &taken.signal.to_be_bytes()])
    })
}

/// The chain closed by the task's end.
pub(crate) fn seal(task: &Task, end: &End, now: Time) -> Digest {
    seal_chain(task.chain, end, task.created_at, now)
}

/// Closes a chain with an end. A reader computes this from the rows to check a record.
pub fn seal_chain(chain: Digest, end: &End, created_at: Time, completed_at: Time) -> Digest {
    let fault = end.fault.as_ref().map(fault_digest);
    Digest::of(&[
        chain.bytes(),
        end.state.name().as_bytes(),
        end.reason.map_or("", |reason| reason.name()).as_bytes(),
        end.output.as_ref().map_or("", |output| output.as_str()).as_bytes(),
        fault.as_ref().map_or(&[], |digest| digest.bytes().as_slice()),
        &created_at.millis().to_be_bytes(),
        &completed_at.millis().to_be_bytes(),
    ])
}

fn fault_digest(fault: &Fault) -> Digest {
    Digest::of(&[
        fault.category.name().as_bytes(),
        fault.message.as_str().as_bytes(),
        fault.stack_trace.as_ref().map_or("", |trace| trace.as_str()).as_bytes(),
        &[fault.retryable.map_or(2, u8::from)],
    ])
}
