//! The answers. Answers may gain members; clients ignore unknown ones.
//!
//! An absent member means that there is no value; null is never sent except inside opaque JSON.

mod budgets;
mod durable;
mod explaining;
mod flow;
mod kinds;
mod leasing;
mod logs;
mod problem;
mod records;
mod reporting;
mod runs;
mod serving;
mod session;
mod starting;
mod submitting;
mod waiting;
mod workers;

pub use self::budgets::{BudgetAmounts, BudgetLeft, BudgetView};
pub use self::durable::{
    AwaitedView, Checkpoint, CheckpointAck, CheckpointAnswer, CheckpointAnswers, CheckpointError,
    Checkpoints, ChildView, Children, Divergence, DurableView, Ending, OpenWait, RunBuild,
    RunResumed, RunUnpinned, SignalAccepted, Spent, StartedChild, Steps, TakenSignal, WaitOutcome,
    WaitingView,
};
pub use self::explaining::{Explanation, Gate};
pub use self::flow::{FlowKeyView, FlowKeys};
pub use self::kinds::{KindView, Kinds};
pub use self::leasing::{
    Envelope, HeartbeatAck, HeartbeatAnswer, HeartbeatAnswers, Leases, Signal,
};
pub use self::logs::{LoggedLine, Logs};
pub use self::problem::Problem;
pub use self::records::{
    AttemptClaims, AttemptView, History, HistoryEntry, Record, RecordedRun, ToolCall,
};
pub use self::reporting::{CompletedAck, ReportAnswer, ReportAnswers};
pub use self::runs::{
    CancelAccepted, Lease, PageStop, Parent, PlanStage, PlanSteps, RefusedCall, RetryPolicy, Run,
    RunError, RunList,
};
pub use self::serving::{QueueView, Queues, Ready, ReadyCheck, Version};
pub use self::session::{ConsoleCode, Session};
pub use self::starting::{StartAnswer, StartAnswers, StartedAck};
pub use self::submitting::{RunAccepted, SubmitResult, SubmitResults};
pub use self::waiting::WaitAnswer;
pub use self::workers::{WorkerLeases, WorkerPolls, WorkerView, Workers};
