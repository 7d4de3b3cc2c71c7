//! The rules of Tenure, and nothing else.
//!
//! [`decide`] takes the state of one task, a request and the moment, and returns an answer for the
//! caller and the events to record. It is total and pure. [`apply`] applies the verdict to a task
//! and returns what to record of it. There is no clock, no randomness, no I/O and no storage format
//! here; ids and times come in with the request. The server, the simulator and the checks all run
//! this very code.
//!
//! Invariants held here and nowhere else:
//! - a task has a lease exactly while it is running, and at most one;
//! - the claim version only grows, so a fence is larger than every fence before it;
//! - attempts are numbered at acquisition and only there;
//! - an ended task never changes;
//! - every state change has exactly one owner ([`transition`]).

pub mod allowance;
pub mod apply;
pub mod approval;
pub mod attempt;
pub mod bounds;
pub mod budget;
pub mod build;
pub mod decide;
pub mod desk;
pub mod done;
pub mod effect;
pub mod event;
pub mod explain;
#[cfg(not(feature = "museum"))]
mod faultpoint;
pub mod flow;
pub mod fork;
pub mod id;
pub mod key;
pub mod known;
pub mod log;
pub mod object;
pub mod plan;
mod planted;
pub mod policy;
pub mod progress_clock;
pub mod push;
pub mod record;
pub mod recovery;
pub mod redrive;
pub mod renewals;
pub mod request;
pub mod reserved;
pub mod retention;
pub mod rules;
pub mod run;
pub mod schedule;
pub mod scope_budget;
pub mod stall;
pub mod subject;
pub mod submission;
pub mod task;
pub mod time;
pub mod time_to_live;
pub mod token_grace;
pub mod topology;
pub mod transition;
pub mod verdict;

pub use allowance::{
    CHILDREN_PER_RUN, Headroom, Quota, Rate, RateUsage, TASKS_PER_REQUEST, Unfinished, requests_for,
};
pub use apply::{Applied, Settled, apply, apply_verdict, closed_attempts};
pub use attempt::{AttemptOutcome, ClosedAttempt};
pub use budget::{Amounts, Balance, Budget, BudgetEvent, Charge, Limits, OnSoft, StageShare, Unit};
pub use build::Build;
pub use done::{Category, Done, End, Fault, Reason};
pub use event::{Event, Next, Subject};
pub use flow::{FlowKey, FlowUses, KeyUse};
pub use id::{Digest, Fence, Json, LeaseId, Name, Scope, TaskId, Text};
pub use key::{FlowRef, IdempotencyKey, KeyOwner, TaskKey, UniqueKey};
pub use object::{Object, ObjectKey, ObjectType};
pub use planted::decide;
pub use policy::Policy;
pub use progress_clock::{OnStall, ProgressClock, ProgressMark};
pub use renewals::Renewals;
pub use request::Request;
pub use reserved::Reserved;
pub use retention::Retention;
pub use rules::{Rules, SupportedRules};
pub use run::{
    Lineage, Loaded, Message, RunAnswer, RunEvent, RunRefusal, RunRequest, RunState, Waiting,
};
pub use submission::{Resources, Spec, Submission};
pub use task::{CancelRequest, Lease, Phase, Progress, State, Task};
pub use time::{Moment, Span, Time};
pub use verdict::{Answer, Context, KeyHolder, ReadSet, Refusal, Verdict, WorkerVerdict};
