//! The closed vocabularies of the wire. Case is part of the interface: outcomes and verdicts are in
//! upper case, states of a task in lower case.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A word that is not in the vocabulary; the message lists the valid ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    word: String,
    allowed: String,
}

/// Enough to recognise a mistake in a message without echoing a whole body.
const ECHO_CHARS_MAX: usize = 40;

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not one of {}", self.word, self.allowed)
    }
}

impl std::error::Error for UnknownWord {}

// Derived serde would also accept a unit variant spelled as an object, `{"FAILED": null}`, and the
// schema would have to repeat each rename; one list of words serves all three.
macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;
            fn from_str(word: &str) -> Result<$name, UnknownWord> {
                match word {
                    $($word => Ok($name::$variant),)+
                    _ => Err(UnknownWord {
                        word: word.chars().take(ECHO_CHARS_MAX).collect(),
                        allowed: [$($word,)+].join(", "),
                    }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                struct Word;
                impl de::Visitor<'_> for Word {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "one of {}", [$($word,)+].join(", "))
                    }
                    fn visit_str<E: de::Error>(self, word: &str) -> Result<$name, E> {
                        word.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Word)
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some([$($word,)+]))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed(stringify!($name))
            }
        }
    };
}

vocabulary! {
    /// The coordinator's answer to a worker's call.
    Verdict {
        /// What was reported counts and is durable.
        Committed = "COMMITTED",
        /// The worker has lost its authority: stop, and report nothing more.
        Cancelled = "CANCELLED",
        /// The call itself is invalid; repeating it cannot help.
        Rejected = "REJECTED",
    }
}

vocabulary! {
    /// What a worker says became of its attempt.
    Outcome {
        Succeeded = "SUCCEEDED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
        /// The worker stops and hands the task back unfinished: neither a failure nor a lost worker.
        Released = "RELEASED",
    }
}

vocabulary! {
    /// What became of an attempt: the worker's word, or what the coordinator had to conclude.
    AttemptOutcome {
        Succeeded = "SUCCEEDED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
        /// The lease ran out.
        Lost = "LOST",
        /// The lease was granted but the worker never made a call under it.
        Undelivered = "UNDELIVERED",
        /// The coordinator took the lease back before it ran out.
        Revoked = "REVOKED",
        /// The worker handed the task back because it stops; counts neither as a failure nor as lost.
        Released = "RELEASED",
        /// The run waits for something that was not there; the next attempt follows when it is.
        Suspended = "SUSPENDED",
        /// The worker's code does not fit what the run recorded.
        Diverged = "DIVERGED",
    }
}

vocabulary! {
    /// How much a line of a log matters.
    #[derive(Default)]
    LogLevel {
        Trace = "trace",
        Debug = "debug",
        #[default]
        Info = "info",
        Warn = "warn",
        Error = "error",
    }
}

impl LogLevel {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

vocabulary! {
    /// What a worker says of a step.
    StepOutcome {
        Succeeded = "SUCCEEDED",
        Failed = "FAILED",
    }
}

vocabulary! {
    /// How something recorded ended, or that a child was started.
    CheckpointOutcome {
        Started = "STARTED",
        Succeeded = "SUCCEEDED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
    }
}

vocabulary! {
    /// What was recorded.
    CheckpointKind {
        Step = "STEP",
        Wait = "WAIT",
        Child = "CHILD",
    }
}

vocabulary! {
    /// Whether all items of a wait must be there, or any one of them.
    WaitMode {
        All = "all",
        Any = "any",
    }
}

vocabulary! {
    /// Which builds may continue a durable run that has recorded something.
    Builds {
        /// Every build.
        Any = "any",
        /// Only the build that recorded it.
        Pin = "pin",
    }
}

vocabulary! {
    /// Why an attempt failed, as its worker sees it.
    ErrorCategory {
        /// Exceptions and assertions of the user's code; retried by default.
        UserCode = "USER_CODE",
        /// The input does not pass validation; not retried by default.
        DataQuality = "DATA_QUALITY",
        /// Services, memory, disk; retried by default.
        Infrastructure = "INFRASTRUCTURE",
        /// Missing variables, invalid settings; not retried by default.
        Configuration = "CONFIGURATION",
        /// A deadline passed; retried by default.
        Timeout = "TIMEOUT",
        /// Only together with outcome CANCELLED; never retried.
        Cancelled = "CANCELLED",
    }
}

vocabulary! {
    /// The condition of a task or run.
    State {
        Queued = "queued",
        Running = "running",
        /// Waiting for its next attempt after a failed or lost one.
        Retry = "retry",
        /// A durable run without a worker: it waits for time, a signal, a child, an operator, or its next worker.
        Waiting = "waiting",
        Succeeded = "succeeded",
        Failed = "failed",
        /// Stopped by policy; partial results are kept.
        Halted = "halted",
        Cancelled = "cancelled",
        /// A step of a plan whose upstreams have not all ended, or that no worker has leased since.
        Blocked = "blocked",
        /// A step of a plan that did not run, because an upstream did not succeed.
        Skipped = "skipped",
    }
}

vocabulary! {
    /// What a failure of a step means for its plan.
    OnError {
        /// The step fails at its first reported failure, and the steps that depend on it are skipped.
        Abort = "abort",
        /// The step is retried as its policy says. If it fails for good, the plan goes on without it.
        Continue = "continue",
        /// The step is retried as its policy says. If it fails for good, the steps that depend on it are skipped.
        Retry = "retry",
    }
}

vocabulary! {
    /// What an API key may be used for.
    Role {
        /// Submits, reads and cancels runs.
        Client = "client",
        /// Leases tasks and reports on them.
        Worker = "worker",
        /// Administers keys and reads the audit.
        Admin = "admin",
        /// Reads what clients and administrators see, and changes nothing.
        Reader = "reader",
        /// Decides approvals.
        Approver = "approver",
    }
}

vocabulary! {
    /// What a person says of an approval.
    ApprovalDecision {
        Approved = "APPROVED",
        Rejected = "REJECTED",
    }
}

vocabulary! {
    /// What came of an approval.
    ApprovalOutcome {
        Approved = "APPROVED",
        Rejected = "REJECTED",
        /// Nobody decided in time, and there was no default.
        Expired = "EXPIRED",
        /// Its run no longer waits for it.
        Withdrawn = "WITHDRAWN",
    }
}

vocabulary! {
    /// What becomes of an instant of a schedule while the run before it has not ended.
    Overlap {
        /// It is left out.
        Skip = "skip",
        /// It waits until that run has ended.
        Queue = "queue",
        /// That run is cancelled, and it fires at once.
        CancelOlder = "cancelOlder",
        /// It fires at once.
        Allow = "allow",
    }
}

vocabulary! {
    /// What becomes of instants of a schedule that passed while no server ran.
    CatchUp {
        /// The latest of them fires.
        One = "one",
        /// All of them fire, at most the latest hundred.
        All = "all",
    }
}

vocabulary! {
    /// What may be done about runs that failed alike.
    RecoveryAction {
        /// Submit them once more, from the beginning.
        Retry = "retry",
        /// Fork them from what they recorded.
        Continue = "continue",
        /// Tell the endpoints that subscribed to `recovery.notified`.
        Notify = "notify",
        /// Let people decide.
        Escalate = "escalate",
        /// Do nothing.
        Skip = "skip",
    }
}

vocabulary! {
    /// Who evaluates recovery candidates.
    RecoveryEvaluator {
        /// The server.
        BuiltIn = "builtIn",
        /// Workers that lease from the queue `tenure.recovery`.
        Workers = "workers",
    }
}

vocabulary! {
    CandidateState {
        /// Waits for its evaluation.
        Pending = "pending",
        /// Waits for people.
        Escalated = "escalated",
        /// Runs are being submitted.
        Executing = "executing",
        Succeeded = "succeeded",
        Failed = "failed",
        Skipped = "skipped",
        Expired = "expired",
        /// No attempts are left.
        Exhausted = "exhausted",
    }
}

vocabulary! {
    ScheduleState {
        Active = "active",
        Paused = "paused",
        Deleted = "deleted",
    }
}

vocabulary! {
    ApprovalState {
        Pending = "pending",
        Closed = "closed",
    }
}

vocabulary! {
    /// When the budget of a tenant or workspace begins anew.
    BudgetPeriod {
        /// Never.
        Total = "total",
        /// Every day, at midnight in UTC.
        Day = "day",
        /// With the first day of every month, in UTC.
        Month = "month",
    }
}

vocabulary! {
    /// How far the budget of a tenant or workspace is used up.
    BudgetState {
        Open = "open",
        /// A soft limit is reached.
        Soft = "soft",
        /// A limit is reached: no new run is accepted.
        Spent = "spent",
    }
}

vocabulary! {
    EndpointState {
        Enabled = "enabled",
        /// Its effects wait.
        Disabled = "disabled",
        /// Its effects are given up.
        Deleted = "deleted",
    }
}

vocabulary! {
    /// What becomes of an aggregate whose oldest effect is dead.
    OnDead {
        /// It waits until a person redrives or releases the effect.
        Block = "block",
        /// It goes on, and the receiver is told of the gap.
        Skip = "skip",
    }
}

vocabulary! {
    /// Where the delivery of an effect stands.
    EffectState {
        /// Behind another effect of its aggregate.
        Queued = "queued",
        /// To be sent when it is due.
        Pending = "pending",
        InFlight = "in_flight",
        Delivered = "delivered",
        /// Sent, and nobody knows whether it arrived.
        Unknown = "unknown",
        /// Given up.
        Dead = "dead",
    }
}

vocabulary! {
    /// The condition of a deployment.
    DeploymentState {
        Active = "active",
        /// Its roles do nothing until it is resumed.
        Paused = "paused",
        Deleted = "deleted",
    }
}

vocabulary! {
    /// Whether a work order was judged, and how.
    WorkOrderState {
        /// It is executed or judged, or waits for either.
        Active = "active",
        Passed = "passed",
        Failed = "failed",
    }
}

vocabulary! {
    /// Whether something waits for a person.
    PauseStateState {
        Open = "open",
        /// Somebody has seen to it.
        Closed = "closed",
    }
}

impl State {
    /// Whether the state is final.
    pub const fn is_terminal(self) -> bool {
        match self {
            State::Queued | State::Running | State::Retry | State::Waiting | State::Blocked => {
                false
            }
            State::Succeeded
            | State::Failed
            | State::Halted
            | State::Cancelled
            | State::Skipped => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back_as_itself() {
        // S4-27, S3-12: outcomes and verdicts are spelled as the contract spells them.
        for outcome in Outcome::ALL {
            assert_eq!(outcome.as_str().parse(), Ok(*outcome));
        }
        for state in State::ALL {
            assert_eq!(serde_json::to_string(state).unwrap(), format!("\"{state}\""));
            assert_eq!(state.as_str(), state.as_str().to_lowercase());
        }
        let categories: Vec<&str> = ErrorCategory::ALL.iter().map(|c| c.as_str()).collect();
        let contract = [
            "USER_CODE",
            "DATA_QUALITY",
            "INFRASTRUCTURE",
            "CONFIGURATION",
            "TIMEOUT",
            "CANCELLED",
        ];
        assert_eq!(categories, contract);
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_known_ones() {
        let problem = serde_json::from_str::<Outcome>("\"succeeded\"").unwrap_err().to_string();
        assert!(
            problem.contains("`succeeded` is not one of SUCCEEDED, FAILED, CANCELLED, RELEASED"),
            "{problem}"
        );
        assert!(serde_json::from_str::<Outcome>(r#"{"FAILED":null}"#).is_err());
    }
}
