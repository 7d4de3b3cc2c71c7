//! The stages of a run with a plan: the input of the present one for its worker, and what became of each for clients.
//!
//! The plan is stored as it was written, as the input of its run. Outputs of stages are checkpoints under their keys, so
//! references are replaced here, after the grant and outside of any batch. An input that refers to what is not there ends the
//! stage, as a decision: the grant is handed back, and the rules are told. The output of a run is composed when it is
//! read (S2-84).

use std::collections::{BTreeSet, HashMap};

use serde_json::value::RawValue;
use store::{Browse, Failure, TaskKey};
use verdict::plan::{PlanState, StagesState};
use verdict::{Name, Reason, RunState, Subject, Task, Text};
use wire::answers::{PlanStage, Run};
use wire::plan::{self, references};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::translate::state;
use crate::item::Granted;
use crate::plan_outputs::{Ends, StageEnd, Wanted, ends_of_stages, too_large};

/// What a stage's worker gets as input.
pub(super) enum StageInput {
    Ready(wire::Json),
    /// No repetition helps: outputs never change.
    Unresolved(Text),
}

pub(super) fn stages_of(run: Option<&RunState>) -> Option<&StagesState> {
    match run?.plan.as_deref()? {
        PlanState::Stages(stages) => Some(stages),
        PlanState::Root(_) | PlanState::Step(_) => None,
    }
}

/// The input of the stage that was granted; `None` for a task without stages.
pub(super) async fn input(
    app: &AppState,
    granted: &Granted,
) -> Result<Option<StageInput>, ApiError> {
    let Some(stages) = stages_of(granted.task.run.as_deref()) else { return Ok(None) };
    let Some(written) = written(granted.spec.input.as_str(), stages.current as usize) else {
        let message = "the plan of the run cannot be read";
        return Ok(Some(StageInput::Unresolved(Text::from(message))));
    };
    if !stages.stage().has_references {
        return Ok(Some(StageInput::Ready(written)));
    }
    let key = granted.key();
    let names = references::of(&written).into_iter().map(|it| Name::from(it.step)).collect();
    let reading = ends_of_stages(app.coordinator.browse(), &key, Wanted::outputs_of(names));
    let Ends::Found { ends, .. } = app.read(reading).await? else {
        return Ok(Some(StageInput::Unresolved(Text::from(too_large()))));
    };
    let output = |step: &str| ends.get(&Name::from(step))?.as_ref().ok()?.as_ref();
    Ok(Some(match plan::resolve(&written, output) {
        Ok(input) => StageInput::Ready(input),
        Err(wrong) => StageInput::Unresolved(Text::from(wrong.to_string())),
    }))
}

/// A plan of which only the inputs are read: it was checked when it was submitted, and every lease reads it.
#[derive(serde::Deserialize)]
struct Inputs<'a> {
    #[serde(borrow)]
    steps: Vec<StepInput<'a>>,
}

#[derive(serde::Deserialize)]
struct StepInput<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// The input of a stage as it was written.
fn written(plan: &str, place: usize) -> Option<wire::Json> {
    let plan: Inputs<'_> = serde_json::from_str(plan).ok()?;
    let input = plan.steps.get(place)?.input;
    let Some(input) = input else { return Some(wire::Json::null()) };
    wire::Json::from_text(input.get().to_owned()).ok()
}

/// How stages ended, and with the outputs whether they are all there: if they are too large together, none is.
async fn ends<B: Browse>(
    browse: &B,
    key: &TaskKey,
    stages: &StagesState,
    with_outputs: bool,
) -> Result<(HashMap<Name, StageEnd>, bool), Failure> {
    let names: BTreeSet<Name> = stages.stages.iter().map(|stage| stage.key.clone()).collect();
    if with_outputs
        && let Ends::Found { ends, .. } =
            ends_of_stages(browse, key, Wanted::outputs_of(names.clone())).await?
    {
        return Ok((ends, true));
    }
    let wanted = Wanted { names: names.into_iter().collect(), outputs: BTreeSet::new() };
    match ends_of_stages(browse, key, wanted).await? {
        Ends::Found { ends, .. } => Ok((ends, false)),
        Ends::TooLarge => unreachable!("no output is kept"),
    }
}

/// A run with what became of its stages and, once it has ended, its output.
pub(super) async fn with_stages<B: Browse>(
    browse: &B,
    key: &TaskKey,
    subject: &Subject,
    run: Run,
) -> Result<Run, Failure> {
    let (of_run, is_live) = match subject {
        Subject::Absent => return Ok(run),
        Subject::Live(task) => (task.run.as_deref(), true),
        Subject::Done(done) => (done.run.as_deref(), false),
    };
    let Some(stages) = stages_of(of_run) else { return Ok(run) };
    let (ends, has_outputs) = ends(browse, key, stages, !is_live).await?;
    let current = is_live.then_some(stages.current as usize);
    let asked = subject.live().and_then(asked);
    let view = |(place, stage): (usize, &verdict::plan::Stage)| {
        let end = ends.get(&stage.key);
        let state = match end {
            Some(Ok(_)) => verdict::State::Succeeded,
            Some(Err(reason)) if is_halt(reason.as_ref()) => verdict::State::Halted,
            Some(Err(Some(reason))) if reason.as_str() == Reason::ConditionFalse.name() => {
                verdict::State::Skipped
            }
            Some(Err(_)) => verdict::State::Failed,
            None if current == Some(place) => subject.state().unwrap_or(verdict::State::Queued),
            None if is_live && Some(place) > current => verdict::State::Blocked,
            None => verdict::State::Skipped,
        };
        PlanStage {
            key: stage.key.to_string(),
            kind: stage.kind.to_string(),
            queue: stage.queue.to_string(),
            state: self::state(state),
            reason: end.and_then(|end| end.as_ref().err()?.as_ref()).map(Text::to_string),
            message: None,
            depends_on: Vec::new(),
            waits_for: None,
            task_id: None,
            approval_id: asked.clone().filter(|_| current == Some(place)),
            started_at: None,
            completed_at: None,
        }
    };
    let plan = stages.stages.iter().enumerate().map(view).collect();
    let outputs = stages.stages.iter().map(|stage| {
        let output = ends.get(&stage.key).and_then(|end| end.as_ref().ok()?.as_ref());
        (stage.key.as_str(), output)
    });
    let output = has_outputs.then(|| plan::output(outputs));
    Ok(Run { plan, output, ..run })
}

/// Whether a stage ended because it, or its run, had used what it may use.
fn is_halt(reason: Option<&Text>) -> bool {
    let halts = [Reason::BudgetExhausted, Reason::BudgetTimeExhausted];
    reason.is_some_and(|reason| halts.iter().any(|it| it.name() == reason.as_str()))
}

/// What people are asked by the step that a task is in.
pub(super) fn asked(task: &Task) -> Option<String> {
    let (key, _) = task.asking()?;
    let open = &task.run.as_ref()?.approvals.open;
    let approval = open.iter().find(|approval| approval.key == *key)?;
    Some(approval.id(task.id).to_string())
}
