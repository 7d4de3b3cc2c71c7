//! The stored form of durable runs, field by field: requests, events, the state of a run and messages.
//!
//! As in [`super::forms`], members that are absent or zero are left out: most are.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::approval::{Approval, ApprovalCall, Approvals, DecideCall, Vote};
use verdict::budget::{Balance, BudgetEvent, Charge};
use verdict::event::Submitted;
use verdict::plan::{PlanEvent, PlanMessage, PlanRequest, PlanState};
use verdict::request::{Caller, Cancel, CancelMode, Outcome, Submit};
use verdict::run::{
    Awaited, AwaitedEvent, Body, Checkpoint, CheckpointCall, Child, ChildCall, ChildEnd, ChildRef,
    Closing, Divergence, Inherit, Items, Lineage, Message, MessageNumber, Metered, Recorded,
    RunEvent, RunRequest, RunState, Signal, SignalCall, SignalCounts, Slice, Spend, Step, StepCall,
    StepOutcome, Taken, Then, Wait, WaitCall, WaitMode, WaitRecord, Waiting,
};
use verdict::{Build, Digest, End, Fault, FlowKey, Json, Name, Span, State, TaskId, Text, Time};

use super::approval_forms::{
    ApprovalsForm, DecideCallForm, OutcomeForm as ApprovalOutcomeForm, approval_calls,
    boxed_approval, boxed_vote, names,
};
use super::budget_forms::{self, MeteredForm};
use super::build_forms;
use super::flow_forms;
use super::forms::{
    CallerForm, CancelForm, CancelModeForm, EndForm, FaultForm, OutcomeForm, SubmitForm,
    boxed_submitted,
};
use super::inherit_forms::{InheritForm, boxed_inherited_child};
use super::plan_forms::{self, PlanRequestForm, optional_halt};
use super::scalars::{as_number, as_text};
use super::step_forms::PlanMessageForm;

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_false(value: &bool) -> bool {
    !*value
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RunRequest", rename_all = "snake_case")]
pub(super) enum RunRequestForm {
    Checkpoint(#[serde(with = "CheckpointCallForm")] CheckpointCall),
    Signal(#[serde(with = "SignalCallForm")] SignalCall),
    Message(#[serde(with = "MessageForm")] Message),
    Resume,
    Unpin,
    Decide(#[serde(with = "DecideCallForm")] DecideCall),
    Metered(#[serde(with = "MeteredForm")] Metered),
    Inherit(#[serde(with = "InheritForm")] Inherit),
    Plan(#[serde(with = "PlanRequestForm")] PlanRequest),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CheckpointCall")]
struct CheckpointCallForm {
    #[serde(with = "CallerForm")]
    caller: Caller,
    #[serde(with = "as_text")]
    digest: Digest,
    #[serde(with = "steps", default, skip_serializing_if = "Vec::is_empty")]
    steps: Vec<StepCall>,
    #[serde(with = "children", default, skip_serializing_if = "Vec::is_empty")]
    children: Vec<ChildCall>,
    #[serde(with = "ThenForm")]
    then: Then,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    asked_by: Option<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "StepCall")]
struct StepCallForm {
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "as_text")]
    digest: Digest,
    #[serde(with = "StepForm", flatten)]
    step: Step,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Step")]
struct StepForm {
    #[serde(with = "StepOutcomeForm")]
    outcome: StepOutcome,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    input: Option<Digest>,
    #[serde(with = "SpendForm", default, skip_serializing_if = "is_zero")]
    spend: Spend,
    #[serde(rename = "savepoint", default, skip_serializing_if = "is_zero")]
    is_savepoint: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "StepOutcome", rename_all = "snake_case")]
enum StepOutcomeForm {
    Succeeded {
        #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
        result: Option<Json>,
    },
    Failed {
        #[serde(with = "FaultForm")]
        fault: Fault,
        #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Spend")]
pub(super) struct SpendForm {
    #[serde(default, skip_serializing_if = "is_zero")]
    cost_micros: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    tool_calls: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ChildCall")]
pub(super) struct ChildCallForm {
    #[serde(with = "as_text")]
    key: Name,
    #[serde(rename = "detached", default, skip_serializing_if = "is_zero")]
    is_detached: bool,
    #[serde(with = "SubmitForm")]
    submit: Submit,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Then", rename_all = "snake_case")]
enum ThenForm {
    Continue,
    Wait(#[serde(with = "WaitCallForm")] WaitCall),
    Diverged(#[serde(with = "DivergenceForm")] Divergence),
    Report {
        #[serde(with = "OutcomeForm")]
        outcome: Outcome,
        #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
        claims: Option<Json>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "WaitCall")]
struct WaitCallForm {
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "as_text")]
    digest: Digest,
    #[serde(with = "WaitModeForm")]
    mode: WaitMode,
    #[serde(with = "items")]
    items: Items,
    #[serde(with = "approval_calls", default, skip_serializing_if = "Vec::is_empty")]
    approvals: Vec<ApprovalCall>,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    max: Option<Span>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "WaitMode", rename_all = "snake_case")]
enum WaitModeForm {
    All,
    Any,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Awaited")]
pub(super) struct AwaitedForm {
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "AwaitedEventForm", flatten)]
    event: AwaitedEvent,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AwaitedEvent", rename_all = "snake_case")]
enum AwaitedEventForm {
    Time(#[serde(with = "as_number")] Time),
    Signal(#[serde(with = "as_text")] Name),
    Child(#[serde(with = "as_text")] Name),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SignalCall")]
struct SignalCallForm {
    #[serde(with = "as_text")]
    name: Name,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    key: Option<Name>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    payload: Option<Json>,
    #[serde(with = "as_text")]
    digest: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Signal")]
pub(super) struct SignalForm {
    number: u32,
    #[serde(with = "as_text")]
    name: Name,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    key: Option<Name>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    payload: Option<Json>,
    #[serde(with = "as_text")]
    digest: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Message")]
struct MessageForm {
    #[serde(with = "as_text")]
    from: TaskId,
    #[serde(with = "MessageNumberForm", flatten)]
    number: MessageNumber,
    #[serde(with = "as_text")]
    to: TaskId,
    #[serde(with = "BodyForm")]
    body: Body,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MessageNumber")]
struct MessageNumberForm {
    entry: u32,
    index: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Body", rename_all = "snake_case")]
pub(super) enum BodyForm {
    Spawn {
        #[serde(with = "boxed_submit")]
        submit: Box<Submit>,
        #[serde(with = "LineageForm")]
        lineage: Lineage,
    },
    ChildEnded {
        #[serde(with = "as_text")]
        key: Name,
        #[serde(with = "as_text")]
        state: State,
        #[serde(with = "as_text")]
        record: Digest,
        #[serde(
            with = "budget_forms::optional_charge",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        charge: Option<Box<Charge>>,
        #[serde(with = "optional_halt", default, skip_serializing_if = "Option::is_none")]
        halt: Option<Box<End>>,
        #[serde(rename = "unneeded", default, skip_serializing_if = "is_false")]
        is_unneeded: bool,
        #[serde(with = "names", default, skip_serializing_if = "Vec::is_empty")]
        done_by: Vec<Name>,
    },
    Cancel(#[serde(with = "CancelForm")] Cancel),
    Signal(#[serde(with = "SignalCallForm")] SignalCall),
    Plan(#[serde(with = "PlanMessageForm")] PlanMessage),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Lineage", rename_all = "snake_case")]
pub(super) enum LineageForm {
    Child {
        #[serde(with = "as_text")]
        run: TaskId,
        #[serde(with = "as_text")]
        parent: TaskId,
        #[serde(with = "as_text")]
        key: Name,
    },
    Detached {
        #[serde(with = "as_text")]
        cause: TaskId,
        #[serde(with = "as_text")]
        key: Name,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RunEvent", rename_all = "snake_case")]
pub(super) enum RunEventForm {
    Spawned {
        #[serde(with = "boxed_submitted")]
        submitted: Box<Submitted>,
        #[serde(with = "LineageForm")]
        lineage: Lineage,
    },
    Checkpointed(#[serde(with = "boxed_checkpoint")] Box<Checkpoint>),
    ChildSpawned(#[serde(with = "boxed_child")] Box<ChildCall>),
    ChildInherited(#[serde(with = "boxed_inherited_child")] Box<Child>),
    SignalReceived(#[serde(with = "boxed_signal")] Box<Signal>),
    WaitAdvanced {
        missing: u32,
    },
    Closing(#[serde(with = "EndForm")] End, #[serde(with = "CancelModeForm")] CancelMode),
    ChildrenCancelled {
        #[serde(with = "child_refs")]
        children: Vec<ChildRef>,
        #[serde(with = "CancelModeForm", rename = "manner")]
        mode: CancelMode,
        has_more: bool,
    },
    Hastened,
    Resumed,
    BuildNoted(#[serde(with = "build_forms::optional_build")] Option<Box<Build>>),
    Unpinned,
    ApprovalOpened(#[serde(with = "boxed_approval")] Box<Approval>),
    ApprovalVoted {
        number: u32,
        #[serde(with = "boxed_vote")]
        vote: Box<Vote>,
    },
    ApprovalClosed {
        number: u32,
        #[serde(with = "ApprovalOutcomeForm")]
        outcome: verdict::approval::Outcome,
    },
    Forked {
        #[serde(with = "as_text")]
        from: TaskId,
        #[serde(with = "as_text")]
        record: Digest,
    },
    Budget(#[serde(with = "budget_forms::boxed_budget_event")] Box<BudgetEvent>),
    Plan(#[serde(with = "plan_forms::boxed_plan_event")] Box<PlanEvent>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Checkpoint")]
pub(super) struct CheckpointForm {
    number: u32,
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "as_text")]
    digest: Digest,
    attempt: u32,
    #[serde(with = "as_number")]
    at: Time,
    #[serde(with = "RecordedForm")]
    recorded: Recorded,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Recorded", rename_all = "snake_case")]
pub(super) enum RecordedForm {
    Step(#[serde(with = "StepForm")] Step),
    Wait(#[serde(with = "WaitRecordForm")] WaitRecord),
    Child(#[serde(with = "ChildEndForm")] ChildEnd),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "WaitRecord")]
struct WaitRecordForm {
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    winner: Option<Name>,
    #[serde(with = "takens", default, skip_serializing_if = "Vec::is_empty")]
    taken: Vec<Taken>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Taken")]
struct TakenForm {
    #[serde(with = "as_text")]
    item: Name,
    signal: u32,
    bytes: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ChildEnd")]
struct ChildEndForm {
    #[serde(with = "as_text")]
    child: TaskId,
    #[serde(with = "as_text")]
    state: State,
    #[serde(with = "as_text")]
    record: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ChildRef")]
struct ChildRefForm {
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "as_text")]
    id: TaskId,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Waiting", rename_all = "snake_case")]
pub(super) enum WaitingForm {
    For(#[serde(with = "WaitForm")] Wait),
    Ready {
        #[serde(with = "as_number")]
        due: Time,
    },
    Diverged(#[serde(with = "DivergenceForm")] Divergence),
    Closing(#[serde(with = "ClosingForm")] Closing),
    Blocked {
        #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
        due: Option<Time>,
    },
    Steps,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Wait")]
struct WaitForm {
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "as_text")]
    digest: Digest,
    #[serde(with = "WaitModeForm")]
    mode: WaitMode,
    /// Left out where the row of a task refers to another table.
    #[serde(with = "items", default, skip_serializing_if = "is_without_items")]
    items: Items,
    missing: u32,
    #[serde(with = "as_number")]
    gives_up_at: Time,
}

fn is_without_items(items: &Items) -> bool {
    items.is_empty()
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Divergence")]
struct DivergenceForm {
    #[serde(with = "as_text")]
    branch: Text,
    index: u32,
    #[serde(with = "as_text")]
    recorded: Text,
    #[serde(with = "as_text")]
    actual: Text,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Closing")]
struct ClosingForm {
    #[serde(with = "EndForm")]
    end: End,
    #[serde(with = "CancelModeForm", rename = "manner")]
    mode: CancelMode,
    #[serde(with = "optional_slice", default, skip_serializing_if = "Option::is_none")]
    slice: Option<Slice>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Slice")]
struct SliceForm {
    #[serde(with = "as_number")]
    due: Time,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    after: Option<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RunState")]
pub(super) struct RunStateForm {
    #[serde(with = "optional_lineage", default, skip_serializing_if = "Option::is_none")]
    lineage: Option<Lineage>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    forked_from: Option<TaskId>,
    #[serde(default, skip_serializing_if = "is_zero")]
    checkpoints: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    steps: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    savepoint: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    children: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    live_children: u32,
    #[serde(with = "SignalCountsForm", default, skip_serializing_if = "is_zero")]
    signals: SignalCounts,
    #[serde(with = "SpendForm", default, skip_serializing_if = "is_zero")]
    spend: Spend,
    #[serde(default, skip_serializing_if = "is_zero")]
    forgiven: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    suspensions: u32,
    #[serde(with = "ApprovalsForm", default, skip_serializing_if = "is_zero")]
    approvals: Approvals,
    #[serde(
        with = "budget_forms::optional_balance",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    balance: Option<Box<Balance>>,
    #[serde(with = "flow_forms::optional_flow", default, skip_serializing_if = "Option::is_none")]
    flow: Option<Box<FlowKey>>,
    #[serde(with = "plan_forms::optional_plan", default, skip_serializing_if = "Option::is_none")]
    plan: Option<Box<PlanState>>,
    #[serde(
        with = "build_forms::optional_build",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    build: Option<Box<Build>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SignalCounts")]
struct SignalCountsForm {
    received: u32,
    pending: u32,
    pending_bytes: u32,
}

/// Remote forms in a list.
macro_rules! list {
    ($module:ident, $list:ty, $type:ty, $form:literal) => {
        pub(super) mod $module {
            use super::*;

            pub(in super::super) fn serialize<S: Serializer>(
                values: &[$type],
                to: S,
            ) -> Result<S::Ok, S::Error> {
                #[derive(Serialize)]
                struct Form<'a>(#[serde(with = $form)] &'a $type);
                to.collect_seq(values.iter().map(Form))
            }

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<$list, D::Error> {
                #[derive(Deserialize)]
                struct Form(#[serde(with = $form)] $type);
                Ok(Vec::<Form>::deserialize(from)?.into_iter().map(|Form(value)| value).collect())
            }
        }
    };
}

pub(super) use list;

list!(steps, Vec<StepCall>, StepCall, "StepCallForm");
list!(children, Vec<ChildCall>, ChildCall, "ChildCallForm");
list!(items, Items, Awaited, "AwaitedForm");
list!(takens, Vec<Taken>, Taken, "TakenForm");
list!(child_refs, Vec<ChildRef>, ChildRef, "ChildRefForm");

super::forms::optional!(optional_slice, Slice, "SliceForm");
super::forms::optional!(optional_lineage, Lineage, "LineageForm");
super::forms::boxed!(boxed_submit, Submit, SubmitForm);
super::forms::boxed!(boxed_checkpoint, Checkpoint, CheckpointForm);
super::forms::boxed!(boxed_child, ChildCall, ChildCallForm);
super::forms::boxed!(boxed_signal, Signal, SignalForm);
super::forms::boxed!(boxed_run_request, RunRequest, RunRequestForm);
super::forms::boxed!(boxed_run_event, RunEvent, RunEventForm);
super::forms::boxed!(boxed_waiting, Waiting, WaitingForm);
