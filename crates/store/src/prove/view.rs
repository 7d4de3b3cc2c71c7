//! The story of a task as plain values, for printing. Times are milliseconds since the Unix epoch.

use verdict::run::{Checkpoint, Recorded, StepOutcome};
use verdict::{ClosedAttempt, Digest, Done, Subject, Task};

use super::story::TaskStory;

/// One task of a proved run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    pub task: String,
    pub depth: usize,
    /// Its key in its parent.
    pub key: Option<String>,
    pub tenant: String,
    pub workspace: String,
    pub kind: String,
    pub queue: String,
    pub goal: Option<String>,
    pub state: &'static str,
    pub reason: Option<&'static str>,
    pub error: Option<String>,
    pub input_digest: String,
    pub output_digest: Option<String>,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub completed_at: Option<i64>,
    pub decisions: u64,
    /// The versions of the rules that decided.
    pub rules: Vec<u32>,
    pub attempts: u64,
    pub first_attempts: Vec<AttemptLine>,
    pub checkpoints: u64,
    pub first_checkpoints: Vec<CheckpointLine>,
    pub children: u64,
    pub signals: u64,
    pub refused_calls: u64,
    pub cost_micros: u64,
    pub tokens: u64,
    pub tool_calls: u64,
    /// The digest of the record; `None` until the task ends.
    pub record: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptLine {
    pub attempt: u32,
    pub worker: String,
    pub fence: u64,
    pub outcome: &'static str,
    pub reason: Option<&'static str>,
    pub granted_at: i64,
    pub closed_at: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointLine {
    pub number: u32,
    /// `step`, `wait` or `child`.
    pub kind: &'static str,
    pub key: String,
    pub has_failed: bool,
    /// The attempt that recorded it; 0 if no worker did.
    pub attempt: u32,
    pub at: i64,
    /// The digest of what was recorded; of the child's record, for the end of a child.
    pub digest: String,
}

impl TaskView {
    pub fn of(story: &TaskStory) -> Self {
        let spend = story.spend();
        let (task, spec) = (&story.task, &story.task.spec);
        let scope = task.key().scope;
        let shared = Shared::of(&task.subject);
        Self {
            task: task.key().id.to_string(),
            depth: story.depth,
            key: story.key.as_ref().map(ToString::to_string),
            tenant: scope.tenant.to_string(),
            workspace: scope.workspace.to_string(),
            kind: shared.kind,
            queue: shared.queue,
            goal: spec.goal.as_ref().map(ToString::to_string),
            state: task.subject.state().map_or("absent", |state| state.name()),
            reason: shared.reason,
            error: shared.error,
            input_digest: Digest::of(&[spec.input.as_str().as_bytes()]).to_string(),
            output_digest: shared.output_digest,
            created_at: shared.created_at,
            started_at: shared.started_at,
            completed_at: shared.completed_at,
            decisions: story.decisions,
            rules: story.rules.iter().copied().collect(),
            attempts: story.attempts,
            first_attempts: story.first_attempts.iter().map(AttemptLine::of).collect(),
            checkpoints: story.checkpoints,
            first_checkpoints: story.first_checkpoints.iter().map(CheckpointLine::of).collect(),
            children: story.children,
            signals: story.signals,
            refused_calls: story.refused_calls,
            cost_micros: spend.cost_micros,
            tokens: spend.tokens,
            tool_calls: spend.tool_calls,
            record: shared.record,
        }
    }
}

/// What live and ended tasks have in different places.
#[derive(Default)]
struct Shared {
    kind: String,
    queue: String,
    reason: Option<&'static str>,
    error: Option<String>,
    output_digest: Option<String>,
    created_at: i64,
    started_at: Option<i64>,
    completed_at: Option<i64>,
    record: Option<String>,
}

impl Shared {
    fn of(subject: &Subject) -> Self {
        match subject {
            Subject::Live(task) => Self::live(task),
            Subject::Done(done) => Self::done(done),
            Subject::Absent => Self::default(),
        }
    }

    fn live(task: &Task) -> Self {
        Self {
            kind: task.kind.to_string(),
            queue: task.queue.to_string(),
            created_at: task.created_at.millis(),
            started_at: task.started_at.map(|at| at.millis()),
            ..Self::default()
        }
    }

    fn done(done: &Done) -> Self {
        let digest = |text: &str| Digest::of(&[text.as_bytes()]).to_string();
        Self {
            kind: done.kind.to_string(),
            queue: done.queue.to_string(),
            reason: done.end.reason.map(|reason| reason.name()),
            error: done.end.fault.as_ref().map(|fault| fault.message.to_string()),
            output_digest: done.end.output.as_ref().map(|output| digest(output.as_str())),
            created_at: done.created_at.millis(),
            started_at: done.started_at.map(|at| at.millis()),
            completed_at: Some(done.completed_at.millis()),
            record: Some(done.record.to_string()),
        }
    }
}

impl AttemptLine {
    fn of(closed: &ClosedAttempt) -> Self {
        Self {
            attempt: closed.attempt,
            worker: closed.owner.to_string(),
            fence: closed.fence.as_u64(),
            outcome: closed.outcome.name(),
            reason: closed.reason.map(|reason| reason.name()),
            granted_at: closed.granted_at.millis(),
            closed_at: closed.closed_at.millis(),
        }
    }
}

impl CheckpointLine {
    fn of(checkpoint: &Checkpoint) -> Self {
        let (kind, digest, has_failed) = match &checkpoint.recorded {
            Recorded::Step(step) => {
                let has_failed = matches!(step.outcome, StepOutcome::Failed { .. });
                ("step", checkpoint.digest, has_failed)
            }
            Recorded::Wait(_) => ("wait", checkpoint.digest, false),
            Recorded::Child(end) => ("child", end.record, end.state != verdict::State::Succeeded),
        };
        Self {
            number: checkpoint.number,
            kind,
            key: checkpoint.key.to_string(),
            has_failed,
            attempt: checkpoint.attempt,
            at: checkpoint.at.millis(),
            digest: digest.to_string(),
        }
    }
}
