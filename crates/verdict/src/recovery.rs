//! Recovery: what becomes of runs that ended by lost workers or spent attempts, within limits that people set.
//!
//! A policy ([`RecoveryPolicy`]) says for which runs recovery is wanted and what it may do. A run that ends so and is covered
//! by a policy leaves a note ([`FailedRun`]) in the commit of its end. Notes with the same failure signature
//! ([`Signature`]) belong to one candidate ([`Candidate`]), which is claimed and evaluated as a task; the evaluation, or a person,
//! names an action, and the rules check it against the policy.
//!
//! Nothing here takes or returns a task: recovery changes candidates and nothing else (S2-17, S2-18). What an action submits
//! is a new run, decided like any other submission, and the run that failed stays as it is.
//!
//! Invariants:
//! - a signature has at most one live candidate (A2-18);
//! - the attempts of a candidate only grow, and only a signature that was quiet for [`QUIET`] begins anew;
//! - the evaluation of a candidate is never recovered itself, so recovery cannot feed itself;
//! - a run that recovery submitted counts how often that was done to its line ([`may_fork_again`]), so that a failure that
//!   changes its words each time ends as well.

mod candidate;
mod escalation;
mod policy;
mod suggestion;

use crate::done::{Category, Done, Reason};
use crate::id::{Digest, Name, TaskId, Text};
use crate::task::State;
use crate::time::{Span, Time};

pub use candidate::{
    Candidate, CandidateState, Chosen, Decider, Decision, ForkOutcome, Round, Sample, Standing,
};
pub use escalation::{Deciders, QUESTION_KEY, QUESTION_NUMBER, Question, Word};
pub use policy::{PolicyCall, PolicyRequest, RecoveryPolicies, policy_key};
pub use suggestion::{AUTOMATIC_MIN, Because, CONFIDENCE_MAX, Suggestion, automatic};

/// The kind and the queue of the tasks by which workers evaluate candidates. Clients cannot submit to them; workers may lease from
/// the queue like from any other.
pub const KIND: &str = "tenure.recovery";
pub const QUEUE: &str = "tenure.recovery";

/// The kind and the queue of the evaluations that the coordinator makes itself. The queue is apart, so that it takes none from
/// workers and no worker decides in its place ([`crate::reserved`]).
pub const KIND_BUILT_IN: &str = "tenure.recovery.builtin";
pub const QUEUE_BUILT_IN: &str = "tenure.recovery.builtin";

/// The kind of the runs that ask people about what was escalated. They are in [`QUEUE`] too, and no worker ever gets them.
pub const KIND_APPROVAL: &str = "tenure.recovery.approval";

/// What the idempotency key of every run that recovery submits begins with. Clients cannot use such keys.
pub const KEY_PREFIX: &str = "recovery/";

/// What ids of candidates begin with.
pub const ID_PREFIX: &str = "rec_";

/// After how long without a failure of its signature a candidate has all attempts again: what comes back after a week
/// is news, not a loop.
pub const QUIET: Span = Span::from_secs(7 * 24 * 60 * 60);

/// The most bytes of a message that a note keeps: enough to recognise a failure; the run has the rest.
const MESSAGE_MAX: usize = 500;

/// The most bytes of a message that tell signatures apart.
const PATTERN_MAX: usize = 200;

/// What may be done about a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Submit the runs once more, from the beginning.
    Retry,
    /// Fork the runs from what they recorded.
    Continue,
    /// Tell those who subscribed to it.
    Notify,
    /// Let people decide.
    Escalate,
    /// Do nothing. Always allowed.
    Skip,
}

impl Action {
    pub const ALL: [Action; 5] =
        [Action::Retry, Action::Continue, Action::Notify, Action::Escalate, Action::Skip];

    pub const fn name(self) -> &'static str {
        match self {
            Action::Retry => "retry",
            Action::Continue => "continue",
            Action::Notify => "notify",
            Action::Escalate => "escalate",
            Action::Skip => "skip",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }

    /// Whether it submits runs.
    pub const fn forks(self) -> bool {
        matches!(self, Action::Retry | Action::Continue)
    }
}

/// Who evaluates candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evaluator {
    /// The coordinator, by [`automatic`].
    BuiltIn,
    /// Workers that lease from [`QUEUE`].
    Workers,
}

impl Evaluator {
    pub const ALL: [Evaluator; 2] = [Evaluator::BuiltIn, Evaluator::Workers];

    pub const fn name(self) -> &'static str {
        match self {
            Evaluator::BuiltIn => "builtIn",
            Evaluator::Workers => "workers",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|evaluator| evaluator.name() == name)
    }

    /// The one whose tasks are of this kind; `None` if tasks of this kind do not evaluate.
    pub fn of(kind: &Name) -> Option<Self> {
        Self::ALL.into_iter().find(|evaluator| evaluator.kind() == kind.as_str())
    }

    /// The kind of its tasks.
    pub const fn kind(self) -> &'static str {
        match self {
            Evaluator::BuiltIn => KIND_BUILT_IN,
            Evaluator::Workers => KIND,
        }
    }

    /// The queue in which they wait.
    pub const fn queue(self) -> &'static str {
        match self {
            Evaluator::BuiltIn => QUEUE_BUILT_IN,
            Evaluator::Workers => QUEUE,
        }
    }
}

/// For which runs recovery is wanted, and what it may do: set by administrators.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecoveryPolicy {
    pub name: Name,
    /// Runs of every queue without it.
    pub queue: Option<Name>,
    /// Runs of every kind without it.
    pub kind: Option<Name>,
    pub terms: Terms,
    pub is_deleted: bool,
}

/// What recovery may do (A2-13).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Besides [`Action::Skip`], which is always allowed.
    pub actions: Vec<Action>,
    /// How many candidates one signature may have, one after the other.
    pub attempts: u32,
    /// How many runs one candidate may submit.
    pub runs_max: u32,
    /// What each of them may cost at most; what it was submitted with, if that is less.
    pub cost_micros: Option<u64>,
    /// How long a candidate may be acted on.
    pub expires: Span,
    pub evaluator: Evaluator,
    /// Who decides about what is escalated.
    pub deciders: Deciders,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            actions: vec![Action::Retry, Action::Notify, Action::Escalate],
            attempts: 1,
            runs_max: 100,
            cost_micros: None,
            expires: Span::from_secs(24 * 60 * 60),
            evaluator: Evaluator::BuiltIn,
            deciders: Deciders::default(),
        }
    }
}

impl Terms {
    pub fn allows(&self, action: Action) -> bool {
        action == Action::Skip || self.actions.contains(&action)
    }
}

impl RecoveryPolicy {
    /// One that allows nothing: for a policy that is stored and cannot be read.
    pub fn closed(name: Name) -> Self {
        Self { name, queue: None, kind: None, terms: Terms::default(), is_deleted: true }
    }

    fn covers(&self, queue: &Name, kind: &Name) -> bool {
        !self.is_deleted
            && self.queue.as_ref().is_none_or(|it| it == queue)
            && self.kind.as_ref().is_none_or(|it| it == kind)
    }

    /// The policy of runs of this queue and kind: the most particular one, and the first by name among equals.
    pub fn of<'a>(
        policies: impl Iterator<Item = &'a RecoveryPolicy>,
        queue: &Name,
        kind: &Name,
    ) -> Option<&'a RecoveryPolicy> {
        let rank = |policy: &RecoveryPolicy| (policy.kind.is_some(), policy.queue.is_some());
        policies
            .filter(|policy| policy.covers(queue, kind))
            .max_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| b.name.cmp(&a.name)))
    }
}

/// What a run leaves behind that recovery looks at: who failed, where and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FailedRun {
    pub run: TaskId,
    pub kind: Name,
    pub queue: Name,
    pub reason: Reason,
    pub category: Option<Category>,
    pub message: Text,
    pub failed_at: Time,
}

impl FailedRun {
    /// The note of an end that recovery is for: a whole run that lost its workers or spent its attempts, and that nobody
    /// had asked to stop.
    pub fn of(done: &Done) -> Option<Self> {
        let reason = done.end.reason.filter(|reason| is_recoverable(*reason))?;
        if done.end.state != State::Failed || done.cancel.is_some() || is_own(&done.kind) {
            return None;
        }
        let fault = done.end.fault.as_ref();
        let message = fault.map_or("", |fault| fault.message.as_str());
        Some(Self {
            run: done.id,
            kind: done.kind.clone(),
            queue: done.queue.clone(),
            reason,
            category: fault.map(|fault| fault.category),
            message: Text::from(cut(message, MESSAGE_MAX)),
            failed_at: done.completed_at,
        })
    }
}

/// Whether tasks of this kind evaluate candidates.
pub fn is_evaluation(kind: &Name) -> bool {
    Evaluator::of(kind).is_some()
}

/// Whether tasks of this kind are recovery's own: they evaluate candidates, or ask people about them.
pub fn is_own(kind: &Name) -> bool {
    is_evaluation(kind) || kind.as_str() == KIND_APPROVAL
}

/// Whether a run that failed for this reason lost its workers or spent its attempts. The others were stopped, came too late or
/// were judged: another try would change nothing.
const fn is_recoverable(reason: Reason) -> bool {
    match reason {
        Reason::AttemptsExhausted
        | Reason::HeartbeatTimeout
        | Reason::Undelivered
        | Reason::AttemptTimeout
        | Reason::ReleasesExhausted
        | Reason::Stalled
        | Reason::StepFailed => true,
        Reason::NotRetryable
        | Reason::NotApproved
        | Reason::HandedBack
        | Reason::DeadlineExceeded
        | Reason::CancelRequested
        | Reason::CancelForced
        | Reason::CancelTimeout
        | Reason::CancelledByWorker
        | Reason::HistoryFull
        | Reason::Released
        | Reason::Suspended
        | Reason::Diverged
        | Reason::WaitTimeout
        | Reason::UpstreamFailed
        | Reason::InputUnresolved
        | Reason::ConditionFalse
        | Reason::BudgetExhausted
        | Reason::BudgetTimeExhausted
        | Reason::TtlExpired => false,
    }
}

/// What failures have in common: where, why, and the words without what differs from run to run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    pub kind: Name,
    pub queue: Name,
    pub reason: Reason,
    pub category: Option<Category>,
    /// The first line of the message, with `#` for every word that has a digit.
    pub pattern: Text,
}

impl Signature {
    pub fn of(failed: &FailedRun) -> Self {
        Self {
            kind: failed.kind.clone(),
            queue: failed.queue.clone(),
            reason: failed.reason,
            category: failed.category,
            pattern: pattern(failed.message.as_str()),
        }
    }

    /// The id of its candidate.
    pub fn id(&self) -> Name {
        let digest = Digest::of(&[
            self.kind.as_str().as_bytes(),
            self.queue.as_str().as_bytes(),
            self.reason.name().as_bytes(),
            self.category.map_or("", Category::name).as_bytes(),
            self.pattern.as_str().as_bytes(),
        ]);
        // Half of the digest: enough that no two signatures of a workspace meet, and still readable.
        Name::from(format!("{ID_PREFIX}{}", &digest.to_string()[..32]))
    }
}

fn pattern(message: &str) -> Text {
    let first = message.lines().next().unwrap_or_default();
    let words =
        first.split_whitespace().map(|word| match word.bytes().any(|it| it.is_ascii_digit()) {
            true => "#",
            false => word,
        });
    Text::from(cut(&words.collect::<Vec<_>>().join(" "), PATTERN_MAX))
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// The idempotency key of the run that recovery submits for one that failed: a run is recovered once, whoever does it.
pub fn fork_key(failed: TaskId) -> Text {
    Text::from(format!("{KEY_PREFIX}{}", failed.run_name()))
}

/// Whether a run whose line was recovered so often may be recovered once more. The signatures of a line may differ, its length
/// may not.
pub const fn may_fork_again(recovered: u32, terms: &Terms) -> bool {
    recovered < terms.attempts
}

/// Why a request about recovery was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecoveryRefusal {
    NotFound,
    /// No policy has this name.
    PolicyNotFound,
    /// Nothing is open to be decided.
    Closed {
        state: CandidateState,
    },
    OutOfScope(OutOfScope),
    /// The report of an evaluation does not name an action.
    NoAction,
}

/// Which limit an action does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutOfScope {
    /// The policy does not allow the action.
    Action,
    /// The policy was deleted.
    Revoked,
    /// The time of the candidate is over.
    Expired,
    /// Nobody may be so unsure and act: people decide (A2-16).
    Unsure,
    /// The policy has another evaluator now. What this one thinks is left to people.
    Evaluator,
}

impl RecoveryRefusal {
    pub const fn name(self) -> &'static str {
        match self {
            RecoveryRefusal::NotFound | RecoveryRefusal::PolicyNotFound => "recovery_not_found",
            RecoveryRefusal::Closed { .. } => "recovery_closed",
            RecoveryRefusal::OutOfScope(_) => "recovery_out_of_scope",
            RecoveryRefusal::NoAction => "invalid_argument",
        }
    }
}

/// The answer to a request about a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryAnswer {
    pub id: Name,
    pub candidate: Candidate,
}
