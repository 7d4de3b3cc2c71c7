//! The columns of durable runs. A plain task has NULL in each of those that it shares.

use std::borrow::Cow;
use std::sync::Arc;

use verdict::plan::{Blame, PlanState, PlanStep, Stage, StagesState};
use verdict::run::{
    Awaited, Body, Checkpoint, Items, Recorded, RunState, Signal, Step, StepOutcome, Wait, Waiting,
};
use verdict::{Digest, Json, Name, Phase, Policy, State, Subject, Task, TaskId, Text, Time};

use super::columns;
use crate::row::{Spec, TaskKey};
use crate::runs::{CountedStep, SavedMessage, StoredChild, StoredStep};

/// Maximum items of a wait that a task's own row holds. Each arrival writes that row again; the items never change, so
/// longer lists have a row of their own in `waits`, which is written once.
const INLINE_ITEMS_MAX: usize = 16;

columns! {
    /// Where a task comes from, in `inputs`: NULL for a root, which is the run itself.
    Descent(subject: &Subject) {
        root: Option<TaskId> = run_of(subject).as_ref(),
        parent: Option<TaskId> = parent_of(subject).as_ref(),
    }
}

columns! {
    /// What a live task of a durable run has besides.
    LiveRun(task: &Task) reads LiveRunRow {
        run: Option<RunState> = run_in_row(task).as_deref(),
        waiting: Option<Waiting> = waiting_in_row(task).as_ref(),
        deadline: Option<Time> = own_deadline(task).as_ref(),
    }
}

columns! {
    /// The same of an ended task.
    DoneRun(run: Option<&RunState>) reads DoneRunRow {
        run: Option<RunState> = run,
    }
}

columns! {
    /// A checkpoint. The result of a step has a column of its own: a batch reads checkpoints without results.
    CheckpointColumns(checkpoint: &Checkpoint) reads CheckpointRow {
        number: u32 = &checkpoint.number,
        key: Name = &checkpoint.key,
        digest: Digest = &checkpoint.digest,
        attempt: u32 = &checkpoint.attempt,
        at: Time = &checkpoint.at,
        recorded: Recorded = &without_result(&checkpoint.recorded),
        result: Option<Json> = result_of(&checkpoint.recorded),
    }
}

columns! {
    /// A child as its parent knows it. Only `ended` ever changes, once.
    ChildColumns(started: &StoredChild) reads ChildRow {
        number: u32 = &started.number,
        key: Name = &started.child.key,
        child: TaskId = &started.child.id,
        digest: Digest = &started.child.digest,
        detached: bool = &started.child.is_detached,
        at: Time = &started.at,
        ended: Option<State> = started.child.end.as_ref(),
    }
}

columns! {
    /// A step of a plan. The upstreams have a column of their own: a batch reads most steps without them.
    StepColumns(stored: &StoredStep) reads StepColumnsRow {
        place: u32 = &stored.place,
        key: Name = stored.key(),
        step: PlanStep = &without_upstreams(&stored.step),
        upstreams: Vec<Name> = &stored.step.upstreams.to_vec(),
        spec: Spec = &stored.spec,
    }
}

columns! {
    /// An edge of a plan.
    EdgeColumns(upstream: &Name, downstream: &Name) {
        upstream: Name = upstream,
        downstream: Name = downstream,
    }
}

columns! {
    /// What a step waits for, and what keeps it from running. Steps without upstreams have no such row.
    CountColumns(counted: CountedStep<'_>) {
        key: Name = counted.key,
        missing: u32 = &counted.missing,
        blame: Option<Blame> = counted.blame,
    }
}

columns! {
    /// A signal. Only `taken` ever changes, once.
    SignalColumns(signal: &Signal, is_taken: bool) reads SignalRow {
        number: u32 = &signal.number,
        name: Name = &signal.name,
        key: Option<Name> = signal.key.as_ref(),
        payload: Option<Json> = signal.payload.as_ref(),
        digest: Digest = &signal.digest,
        taken: bool = &is_taken,
    }
}

columns! {
    /// The items of a long wait.
    WaitColumns(wait: &Wait) {
        items: Vec<Awaited> = &wait.items.to_vec(),
    }
}

columns! {
    /// The key of a saved message, in its order.
    MessageKeyColumns(to: &TaskKey, from: TaskId, entry: u32, place: u32) reads MessageKeyRow {
        addressee: TaskId = &to.id,
        sender: TaskId = &from,
        entry: u32 = &entry,
        place: u32 = &place,
        tenant: Name = &to.scope.tenant,
        workspace: Name = &to.scope.workspace,
    }
}

columns! {
    /// A saved message.
    MessageColumns(saved: &SavedMessage) reads MessageRow {
        body: Body = &saved.message.body,
        spec: Option<Spec> = saved.spec.as_ref(),
        due: Time = &saved.due,
        parked: Option<Text> = saved.parked.as_ref(),
    }
}

fn state_of(subject: &Subject) -> Option<&RunState> {
    match subject {
        Subject::Absent => None,
        Subject::Live(task) => task.run.as_deref(),
        Subject::Done(done) => done.run.as_deref(),
    }
}

fn run_of(subject: &Subject) -> Option<TaskId> {
    state_of(subject)?.lineage.as_ref()?.run()
}

fn parent_of(subject: &Subject) -> Option<TaskId> {
    state_of(subject)?.lineage.as_ref()?.parent().map(|(parent, _)| parent)
}

/// The deadline of the stage that the task is in, or of a step, which begins when the step is released. That of every other
/// task is in `inputs` and never changes.
fn own_deadline(task: &Task) -> Option<Time> {
    match task.plan()? {
        PlanState::Stages(_) | PlanState::Step(_) => task.policy.deadline,
        PlanState::Root(_) => None,
    }
}

/// The run as a live task's row has it: its stages are stored with its terms, once.
fn run_in_row(task: &Task) -> Option<Cow<'_, RunState>> {
    let run = task.run.as_deref()?;
    let Some(PlanState::Stages(stages)) = run.plan.as_deref() else {
        return Some(Cow::Borrowed(run));
    };
    let plan = PlanState::Stages(StagesState { stages: Arc::default(), ..stages.clone() });
    Some(Cow::Owned(RunState { plan: Some(Box::new(plan)), ..run.clone() }))
}

/// The run as the rules know it. Rows from before stages were stored with the terms have their own.
pub(crate) fn with_stages(mut run: RunState, terms: Arc<[Stage]>) -> RunState {
    if let Some(PlanState::Stages(state)) = run.plan.as_deref_mut()
        && state.stages.is_empty()
    {
        state.stages = terms;
    }
    run
}

/// The policy of a task whose plan has stages is that of its stage. The policy of a step has its own deadline.
pub(crate) fn present_policy(
    run: Option<&RunState>,
    deadline: Option<Time>,
    submitted: Policy,
) -> Policy {
    match run.and_then(|run| run.plan.as_deref()) {
        Some(PlanState::Stages(stages)) => match stages.stages.get(stages.current as usize) {
            Some(stage) => Policy { deadline, ..stage.policy.clone() },
            None => submitted,
        },
        Some(PlanState::Step(_)) => Policy { deadline, ..submitted },
        Some(PlanState::Root(_)) | None => submitted,
    }
}

fn without_upstreams(step: &PlanStep) -> PlanStep {
    let (child, terms) = (step.child.clone(), step.terms.clone());
    PlanStep { child, upstreams: [].into(), terms }
}

/// The wait that is stored in `waits`, if the task's row leaves its items out.
pub(crate) fn long_wait(task: &Task) -> Option<&Wait> {
    match &task.phase {
        Phase::Waiting(waiting) => match &**waiting {
            Waiting::For(wait) if wait.items.len() > INLINE_ITEMS_MAX => Some(wait),
            _ => None,
        },
        _ => None,
    }
}

fn waiting_in_row(task: &Task) -> Option<Waiting> {
    let Phase::Waiting(waiting) = &task.phase else { return None };
    let Some(wait) = long_wait(task) else { return Some((**waiting).clone()) };
    Some(Waiting::For(Wait { items: Items::default(), ..wait.clone() }))
}

/// A wait as the rules know it, from the task's row and the row of its items, if it has one.
pub(crate) fn with_items(waiting: Waiting, items: Option<Vec<Awaited>>) -> Waiting {
    match (waiting, items) {
        (Waiting::For(wait), Some(items)) if wait.items.is_empty() => {
            Waiting::For(Wait { items: items.into(), ..wait })
        }
        (waiting, _) => waiting,
    }
}

pub(crate) fn result_of(recorded: &Recorded) -> Option<&Json> {
    match recorded {
        Recorded::Step(Step { outcome: StepOutcome::Succeeded { result }, .. }) => result.as_ref(),
        Recorded::Step(_) | Recorded::Wait(_) | Recorded::Child(_) => None,
    }
}

fn without_result(recorded: &Recorded) -> Recorded {
    with_result(recorded.clone(), None)
}

pub(crate) fn with_result(mut recorded: Recorded, json: Option<Json>) -> Recorded {
    if let Recorded::Step(Step { outcome: StepOutcome::Succeeded { result }, .. }) = &mut recorded {
        *result = json;
    }
    recorded
}
