//! Merges states that no rule can tell apart: counters, digests and times that are only recorded are reset.

use verdict::plan::PlanMessage;
use verdict::run::{Body, Checkpoint, Message, MessageNumber, RunEvent};
use verdict::{
    AttemptOutcome, ClosedAttempt, Digest, Done, Event, Fence, Lease, Phase, RunState, Subject,
    Task, TaskId, Time,
};

use super::world::{RunRow, RunWorld, START};

const ZERO: Digest = Digest::from_bytes([0; 32]);
const UNNUMBERED: MessageNumber = MessageNumber { entry: 0, index: 0 };

pub(super) fn normalise(world: &mut RunWorld) {
    world.tasks.iter_mut().for_each(normalise_row);
    normalise_messages(&mut world.saved, &mut world.decided);
}

/// The same for the messages of a world that were not decided, and for those that were.
pub(crate) fn normalise_messages(saved: &mut [Message], decided: &mut Vec<Message>) {
    for message in saved.iter_mut().chain(&mut *decided) {
        message.number = UNNUMBERED;
        if let Body::ChildEnded { record, .. } = &mut message.body {
            *record = ZERO;
        }
    }
    // Any message may be decided next, so their order does not matter.
    saved.sort_by_key(order);
    decided.sort_by_key(order);
    decided.dedup();
}

/// No two different messages of these worlds have the same place in this order.
fn order(message: &Message) -> (TaskId, TaskId, u8) {
    let kind = match &message.body {
        Body::Spawn { .. } => 0,
        Body::ChildEnded { state, .. } => 10 + *state as u8,
        Body::Cancel(cancel) => 1 + cancel.mode as u8,
        Body::Signal(_) => 3,
        Body::Plan(PlanMessage::Spawn { .. }) => 4,
        Body::Plan(PlanMessage::Release { .. }) => 5,
        Body::Plan(PlanMessage::Skip { .. }) => 6,
    };
    (message.to, message.from, kind)
}

/// The same for one task.
pub(crate) fn normalise_subject(subject: &mut Subject) {
    match subject {
        Subject::Absent => {}
        Subject::Live(task) => normalise_task(task),
        Subject::Done(done) => normalise_done(done),
    }
}

fn normalise_row(row: &mut RunRow) {
    normalise_subject(&mut row.subject);
    row.closed.iter_mut().for_each(normalise_closed);
}

fn normalise_task(task: &mut Task) {
    (task.created_at, task.decided_at) = (START, START);
    task.started_at = task.started_at.map(|_| START);
    (task.revision, task.entries, task.claim_version, task.chain) = (0, 0, 0, ZERO);
    task.run.iter_mut().for_each(|run| normalise_run(run));
    match &mut task.phase {
        Phase::Running(lease) => normalise_lease(lease),
        Phase::Queued { due } | Phase::Retry { due } => *due = (*due).max(START),
        Phase::Waiting(_) => {}
    }
}

fn normalise_run(run: &mut RunState) {
    (run.checkpoints, run.suspensions, run.forgiven, run.savepoint) = (0, 0, 0, 0);
}

fn normalise_lease(lease: &mut Lease) {
    (lease.acquired_at, lease.heartbeat_at) = (START, START);
    lease.started_at = lease.started_at.map(|_| START);
    lease.fence = Fence::new(lease.fence.epoch(), 1);
}

fn normalise_done(done: &mut Done) {
    (done.created_at, done.completed_at, done.started_at) = (START, START, None);
    (done.failures, done.lost, done.claim_version, done.entries) = (0, 0, 0, 0);
    done.record = ZERO;
    done.cancel.iter_mut().for_each(|cancel| {
        (cancel.requested_at, cancel.signalled_at) = (START, None);
    });
    done.run.iter_mut().for_each(|run| normalise_run(run));
}

pub(crate) fn normalise_closed(closed: &mut ClosedAttempt) {
    (closed.granted_at, closed.started_at, closed.closed_at) = (START, None, START);
    closed.fence = Fence::new(closed.fence.epoch(), 1);
    (closed.reason, closed.fault) = (None, None);
    if closed.report.is_none() {
        closed.outcome = AttemptOutcome::Lost;
    }
}

/// The events without what is only recorded.
pub(crate) fn stripped(events: &[Event]) -> Vec<Event> {
    let strip = |event: &Event| match event {
        Event::Run(event) => match &**event {
            RunEvent::Checkpointed(checkpoint) => {
                let bare = Checkpoint {
                    number: 0,
                    attempt: 0,
                    at: Time::from_millis(0),
                    ..(**checkpoint).clone()
                };
                Event::Run(Box::new(RunEvent::Checkpointed(Box::new(bare))))
            }
            _ => Event::Run(event.clone()),
        },
        event => event.clone(),
    };
    events.iter().map(strip).collect()
}
