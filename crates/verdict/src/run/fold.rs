//! The fold of a durable run's events into its task. See [`crate::event`] for the fold of all others.

use crate::bounds::next;
use crate::plan;
use crate::progress_clock;
use crate::record;
use crate::request::CancelMode;
use crate::task::{Phase, Task};
use crate::time::Time;

use super::checkpoint::{Checkpoint, Recorded};
use super::event::RunEvent;
use super::loaded::{Child, ChildRef};
use super::request::ChildCall;
use super::signal::Signal;
use super::state::RunState;
use super::wait::{Wait, WaitRecord};
use super::waiting::{Closing, Slice, Waiting};

/// Applies an event to a task that exists.
pub(crate) fn change(task: &mut Task, event: &RunEvent, now: Time) {
    match event {
        RunEvent::Spawned { .. } => unreachable!("a live task is not spawned again"),
        RunEvent::Checkpointed(checkpoint) => record_checkpoint(task, checkpoint, now),
        RunEvent::ChildSpawned(child) => spawn(task, child, now),
        RunEvent::ChildInherited(child) => inherit(task, child),
        RunEvent::Forked { from, record } => {
            task.chain = record::extend_with_fork(task.chain, *from, *record);
            run_of(task).forked_from = Some(*from);
        }
        RunEvent::SignalReceived(signal) => receive(run_of(task), signal),
        RunEvent::WaitAdvanced { missing } => wait_of(task).missing = *missing,
        RunEvent::Closing(end, mode) => {
            let closing = Closing::begin(end.clone(), *mode, now);
            task.phase = Phase::Waiting(Box::new(Waiting::Closing(closing)));
        }
        RunEvent::ChildrenCancelled { children, has_more, .. } => {
            let closing = closing_of(task);
            closing.slice = slice_after(closing.slice.take(), children, *has_more, now);
        }
        RunEvent::Hastened => {
            let closing = closing_of(task);
            *closing = Closing::begin(closing.end.clone(), CancelMode::Immediate, now);
        }
        RunEvent::ApprovalOpened(approval) => run_of(task).approvals.note_opened(approval),
        RunEvent::ApprovalVoted { number, vote } => run_of(task).approvals.note_vote(*number, vote),
        RunEvent::ApprovalClosed { number, .. } => run_of(task).approvals.note_closed(*number),
        RunEvent::Budget(event) => {
            let balance = task.balance_mut().expect("only a task with a budget has such events");
            balance.note(event);
        }
        RunEvent::Plan(event) => plan::fold::change(task, event, now),
        RunEvent::BuildNoted(build) => run_of(task).build.clone_from(build),
        RunEvent::Unpinned => run_of(task).build = None,
        RunEvent::Resumed => task.phase = Phase::Waiting(Box::new(Waiting::Ready { due: now })),
    }
}

/// The state of a durable run, which a task has from its first such event on.
fn run_of(task: &mut Task) -> &mut RunState {
    task.run.get_or_insert_default()
}

fn record_checkpoint(task: &mut Task, checkpoint: &Checkpoint, now: Time) {
    let is_counted = is_counted(task, checkpoint);
    task.chain = record::extend_with_checkpoint(task.chain, checkpoint);
    let run = run_of(task);
    run.checkpoints = next(run.checkpoints);
    match &checkpoint.recorded {
        Recorded::Step(step) => {
            run.steps = next(run.steps);
            if is_counted {
                run.spend = run.spend.plus(step.spend);
                if let Some(balance) = &mut run.balance {
                    balance.step(step.spend);
                }
            }
            if step.is_savepoint {
                run.savepoint = run.checkpoints;
            }
            forgive(task);
            progress_clock::advance(task, now);
        }
        Recorded::Wait(wait) => {
            take(run, wait);
            forgive(task);
            progress_clock::advance(task, now);
            if let Phase::Waiting(waiting) = &mut task.phase {
                **waiting = Waiting::Ready { due: now };
            }
        }
        Recorded::Child(_) => {
            run.live_children = run.live_children.checked_sub(1).expect("a child ends once");
        }
    }
}

/// Whether a step is one of the task's own. What no worker of the task recorded was used elsewhere, and the end of a stage is no
/// step of its worker.
fn is_counted(task: &Task, checkpoint: &Checkpoint) -> bool {
    let is_stage =
        task.stages().is_some_and(|it| it.stages.iter().any(|stage| stage.key == checkpoint.key));
    checkpoint.attempt > 0 && !is_stage
}

/// Progress was made: the limits on failures and lost workers count anew, up to the limit for the whole task.
fn forgive(task: &mut Task) {
    let counted = task.failures.saturating_add(task.lost);
    (task.failures, task.lost, task.undelivered) = (0, 0, 0);
    let run = run_of(task);
    run.forgiven = run.forgiven.saturating_add(counted);
}

fn take(run: &mut RunState, wait: &WaitRecord) {
    let bytes = wait.taken.iter().map(|taken| taken.bytes).sum();
    let counts = &mut run.signals;
    counts.pending = counts.pending.checked_sub(wait.taken.len() as u32).expect("taken once");
    counts.pending_bytes = counts.pending_bytes.checked_sub(bytes).expect("taken once");
}

fn spawn(task: &mut Task, child: &ChildCall, now: Time) {
    task.chain = record::extend_with_child(task.chain, child);
    let run = run_of(task);
    run.checkpoints = next(run.checkpoints);
    run.children = next(run.children);
    if !child.is_detached {
        run.live_children = next(run.live_children);
        if let (Some(balance), Some(ceiling)) = (&mut run.balance, &child.submit.budget) {
            balance.hold(&ceiling.limits);
        }
    }
    progress_clock::advance(task, now);
}

fn inherit(task: &mut Task, child: &Child) {
    task.chain = record::extend_with_inherited(task.chain, child);
    let run = run_of(task);
    run.checkpoints = next(run.checkpoints);
    run.children = next(run.children);
}

fn receive(run: &mut RunState, signal: &Signal) {
    run.signals.received = signal.number;
    run.signals.pending = next(run.signals.pending);
    run.signals.pending_bytes = run.signals.pending_bytes.saturating_add(signal.bytes());
}

fn slice_after(
    slice: Option<Slice>,
    children: &[ChildRef],
    has_more: bool,
    now: Time,
) -> Option<Slice> {
    let before = slice.and_then(|slice| slice.after);
    let after = children.last().map(|child| child.key.clone()).or(before);
    has_more.then_some(Slice { due: now, after })
}

fn wait_of(task: &mut Task) -> &mut Wait {
    match &mut task.phase {
        Phase::Waiting(waiting) => match &mut **waiting {
            Waiting::For(wait) => wait,
            other => unreachable!("nothing is awaited in {other:?}"),
        },
        _ => unreachable!("the event needs a wait and the task has none"),
    }
}

fn closing_of(task: &mut Task) -> &mut Closing {
    match &mut task.phase {
        Phase::Waiting(waiting) => match &mut **waiting {
            Waiting::Closing(closing) => closing,
            other => unreachable!("the event needs a closing task, and it is {other:?}"),
        },
        _ => unreachable!("the event needs a closing task"),
    }
}
