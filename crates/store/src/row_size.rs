//! Estimated sizes of rows in bytes, and the byte budget of one read.
//!
//! A limit on rows does not bound memory: one task may have an output of 256 KiB, one history a hundred stack
//! traces. So a read of many rows stops at a number of bytes, but returns at least one row.

use verdict::event::{Event, Next};
use verdict::plan::PlanEvent;
use verdict::request::{Outcome, Report, Request};
use verdict::run::{Checkpoint, Inherited, Recorded, RunEvent, RunRequest, StepOutcome, Waiting};
use verdict::{ClosedAttempt, End, Fault, Json, Phase, Subject, Text};

use crate::row::{Entry, PAGE_BYTES_MAX, Spec, StoredTask, TaskBundle};
use crate::runs::{RunRecord, StoredSignal, StoredStep};

/// Names, numbers and times of one task, including their JSON.
pub(crate) const ROW_BYTES: usize = 1_024;

/// The same for one attempt or one history entry.
const PART_BYTES: usize = 512;

/// The same for one item of a wait, or one reference to a child.
const ITEM_BYTES: usize = 128;

/// How many bytes one read may still take.
pub struct ByteBudget {
    left: usize,
    is_untouched: bool,
}

impl ByteBudget {
    pub fn new(bytes: usize) -> Self {
        Self { left: bytes, is_untouched: true }
    }

    pub fn page() -> Self {
        Self::new(PAGE_BYTES_MAX)
    }

    /// Whether this fits into the budget. The first item always does.
    pub fn takes(&mut self, bytes: usize) -> bool {
        let fits = self.is_untouched || bytes <= self.left;
        self.is_untouched = false;
        self.left = self.left.saturating_sub(bytes);
        fits
    }
}

/// The leading items that fit into the budget.
pub fn take_fitting<T>(
    rows: Vec<T>,
    mut budget: ByteBudget,
    size_of: impl Fn(&T) -> usize,
) -> Vec<T> {
    rows.into_iter().take_while(|row| budget.takes(size_of(row))).collect()
}

pub fn task(found: &StoredTask) -> usize {
    let Spec { input, goal, asset_id, labels, .. } = &found.spec;
    let texts: usize = [goal, asset_id].into_iter().map(|it| text(it.as_ref())).sum();
    let labels: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
    let ended = match &found.subject {
        Subject::Done(done) => end(&done.end),
        Subject::Live(task) => match &task.phase {
            Phase::Waiting(next) => waiting(next),
            _ => 0,
        },
        Subject::Absent => 0,
    };
    ROW_BYTES + input.as_str().len() + texts + labels + ended
}

pub fn entry(entry: &Entry) -> usize {
    let decided: usize = entry.events.iter().map(event).sum();
    PART_BYTES + request(&entry.request) + decided
}

/// What a request brings along to be kept.
pub fn request(request: &Request) -> usize {
    match request {
        Request::Report(asked) => report(asked),
        Request::Run(asked) => run_request(asked),
        _ => 0,
    }
}

pub fn closed(closed: &ClosedAttempt) -> usize {
    PART_BYTES + json(closed.claims.as_ref()) + fault(closed.fault.as_ref())
}

pub fn checkpoint(checkpoint: &Checkpoint) -> usize {
    let content = match &checkpoint.recorded {
        Recorded::Step(step) => outcome(&step.outcome),
        Recorded::Wait(wait) => wait.taken.len() * ITEM_BYTES,
        Recorded::Child(_) => 0,
    };
    PART_BYTES + content
}

fn outcome(outcome: &StepOutcome) -> usize {
    match outcome {
        StepOutcome::Succeeded { result } => json(result.as_ref()),
        StepOutcome::Failed { fault: failed, .. } => fault(Some(failed)),
    }
}

pub fn step(stored: &StoredStep) -> usize {
    PART_BYTES + stored.spec.input.as_str().len() + stored.step.upstreams.len() * ITEM_BYTES
}

pub fn signal(stored: &StoredSignal) -> usize {
    PART_BYTES + json(stored.signal.payload.as_ref())
}

/// What a reader of one record holds.
pub(crate) fn record(record: &RunRecord) -> usize {
    match record {
        RunRecord::Started(_) => PART_BYTES,
        RunRecord::Checkpoint { checkpoint: recorded, taken, end: ended } => {
            let taken: usize = taken.iter().map(|(_, stored)| signal(stored)).sum();
            checkpoint(recorded) + taken + ended.as_ref().map_or(0, end)
        }
    }
}

fn run_request(request: &RunRequest) -> usize {
    match request {
        RunRequest::Checkpoint(call) => {
            let steps: usize =
                call.steps.iter().map(|it| PART_BYTES + outcome(&it.step.outcome)).sum();
            steps + call.children.len() * PART_BYTES
        }
        RunRequest::Signal(call) => json(call.payload.as_ref()),
        RunRequest::Metered(_) | RunRequest::Plan(_) => match request.wrapped() {
            Some(Request::Report(asked)) => report(asked),
            Some(Request::Run(asked)) => run_request(asked),
            _ => PART_BYTES,
        },
        RunRequest::Inherit(asked) => asked.items.iter().map(inherited).sum(),
        RunRequest::Message(_) | RunRequest::Resume | RunRequest::Unpin | RunRequest::Decide(_) => {
            PART_BYTES
        }
    }
}

fn inherited(item: &Inherited) -> usize {
    match item {
        Inherited::Checkpoint(recorded) => checkpoint(recorded),
        Inherited::Signal(it) => PART_BYTES + json(it.payload.as_ref()),
        Inherited::Child(_) | Inherited::Again(_) => PART_BYTES,
    }
}

fn run_event(event: &RunEvent) -> usize {
    match event {
        RunEvent::Checkpointed(recorded) => checkpoint(recorded),
        RunEvent::SignalReceived(signal) => json(signal.payload.as_ref()),
        RunEvent::Closing(closing, _) => end(closing),
        RunEvent::ChildrenCancelled { children, .. } => children.len() * ITEM_BYTES,
        RunEvent::ChildSpawned(_)
        | RunEvent::ChildInherited(_)
        | RunEvent::Forked { .. }
        | RunEvent::Spawned { .. }
        | RunEvent::ApprovalVoted { .. }
        | RunEvent::BuildNoted(_)
        | RunEvent::Budget(_) => PART_BYTES,
        RunEvent::ApprovalOpened(approval) => {
            let content = approval.terms.content.as_ref();
            PART_BYTES + content.map_or(0, |content| content.as_str().len())
        }
        RunEvent::Plan(event) => plan_event(event),
        RunEvent::ApprovalClosed { .. } => 0,
        RunEvent::WaitAdvanced { .. }
        | RunEvent::Hastened
        | RunEvent::Resumed
        | RunEvent::Unpinned => 0,
    }
}

fn plan_event(event: &PlanEvent) -> usize {
    match event {
        PlanEvent::StepsSpawned(steps) => {
            let upstreams: usize = steps.iter().map(|it| it.step.upstreams.len()).sum();
            steps.len() * PART_BYTES + upstreams * ITEM_BYTES
        }
        PlanEvent::DownstreamsTold { told, .. } => told.len() * ITEM_BYTES,
        PlanEvent::Prepared { shown: Some(shown) } => PART_BYTES + shown.bytes(),
        _ => PART_BYTES,
    }
}

fn waiting(waiting: &Waiting) -> usize {
    match waiting {
        Waiting::For(wait) => wait.items.len() * ITEM_BYTES,
        Waiting::Closing(closing) => end(&closing.end),
        Waiting::Ready { .. } | Waiting::Diverged(_) | Waiting::Blocked { .. } | Waiting::Steps => {
            PART_BYTES
        }
    }
}

fn report(report: &Report) -> usize {
    let outcome = match &report.outcome {
        Outcome::Succeeded { output } | Outcome::Cancelled { output } => json(output.as_ref()),
        Outcome::Failed(failed) => fault(Some(failed)),
        Outcome::Released => 0,
    };
    json(report.claims.as_ref()) + outcome
}

fn event(event: &Event) -> usize {
    match event {
        Event::AttemptClosed { closed: attempt, next: Next::End(ended) } => {
            closed(attempt) + end(ended)
        }
        Event::AttemptClosed { closed: attempt, next: Next::Wait(next) } => {
            closed(attempt) + waiting(next)
        }
        Event::AttemptClosed { closed: attempt, next: Next::Retry { .. } | Next::Stage(_) } => {
            closed(attempt)
        }
        Event::Ended(ended) => end(ended),
        Event::Run(event) => run_event(event),
        _ => 0,
    }
}

fn end(end: &End) -> usize {
    json(end.output.as_ref()) + fault(end.fault.as_ref())
}

fn fault(fault: Option<&Fault>) -> usize {
    fault.map_or(0, |fault| text(Some(&fault.message)) + text(fault.stack_trace.as_ref()))
}

fn json(json: Option<&Json>) -> usize {
    json.map_or(0, |json| json.as_str().len())
}

fn text(text: Option<&Text>) -> usize {
    text.map_or(0, |text| text.as_str().len())
}

/// An entry repeats a message of at most 4 KiB; an attempt has a stack trace of at most 32 KiB.
const ENTRY_BYTES_USUAL_MAX: usize = 16 * 1024;
const ATTEMPT_BYTES_USUAL_MAX: usize = 64 * 1024;

/// A result of a step is usually small; one of the largest size makes its task's pages end early.
const RECORD_BYTES_USUAL_MAX: usize = 32 * 1024;

/// An upper estimate of a task with all its rows, from the task's own row. The rows of a task with steps are their inputs,
/// of which its own row knows nothing: it is read in parts.
pub(crate) fn estimated_total(it: &StoredTask) -> usize {
    if it.step_count() > 0 {
        return BUNDLE_BYTES_MAX + 1;
    }
    let (entries, attempts) = it.row_counts();
    let parts =
        entries as usize * ENTRY_BYTES_USUAL_MAX + attempts as usize * ATTEMPT_BYTES_USUAL_MAX;
    task(it) + parts + it.record_count() as usize * RECORD_BYTES_USUAL_MAX
}

/// The largest estimated size of tasks that are read in one piece, together.
pub(crate) const BUNDLE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Whether a task is read together with all its rows. A larger one is alone in its page and is read in parts.
pub(crate) fn fits_one_read(found: &StoredTask) -> bool {
    estimated_total(found) <= BUNDLE_BYTES_MAX
}

impl TaskBundle {
    /// A task whose rows are read separately, or not at all.
    pub fn without_rows(found: StoredTask) -> Self {
        Self { task: found, rows: None }
    }
}
