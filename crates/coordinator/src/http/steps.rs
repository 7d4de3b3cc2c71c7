//! The steps of a plan with edges: the input of a step for its worker, and what became of each for clients.
//!
//! A step's input is stored as it was written. Outputs of upstreams are the ends of children under the root, so references are
//! replaced here, after the grant and outside of any batch, as for stages ([`super::stages`]). The output of a run is composed
//! when it is read (S2-84). Nothing here reads a plan whole: a run shows its first steps, and a list has pages.

use std::collections::{BTreeSet, HashMap};

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use store::runs::StoredStep;
use store::{Browse, Failure, RowsAfter, TaskKey};
use verdict::plan::PlanState;
use verdict::{End, Name, State as TaskState, Subject, Text};
use wire::answers::{PlanStage, PlanSteps, Run};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::plan::{self, references};
use wire::requests::RecordsQuery;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::caller::RunPath;
use super::stages::{StageInput, asked};
use super::translate::{json, query, state, time};
use crate::admit::ReaderPrincipal;
use crate::item::Granted;
use crate::plan_outputs::{Ends, Wanted, ends_of_steps, stored_json, too_large};

/// Steps that the view of a run has: a few screens. The rest is in pages of their own.
const SHOWN_MAX: usize = 100;

/// Upstreams of a step that are read at once, for whoever asks what it waits for.
const UPSTREAMS_PER_READ: usize = 500;

/// Steps of a plan whose outputs are composed to the output of its run: each is read on its own. The outputs of a larger plan
/// are those of its steps.
const COMPOSED_MAX: u32 = 1_000;

/// The size of a composed output: what one reader may hold in memory.
const COMPOSED_BYTES_MAX: usize = store::row::PAGE_BYTES_MAX;

/// The input of a step that was granted; `None` for a task that is no step, or whose input has no references.
pub(super) async fn input(
    app: &AppState,
    granted: &Granted,
) -> Result<Option<StageInput>, ApiError> {
    let has_references = granted.task.step_terms().is_some_and(|terms| terms.has_references);
    let lineage = granted.task.run.as_ref().and_then(|run| run.lineage.as_ref());
    let parent = lineage.and_then(|lineage| lineage.parent());
    let (true, Some((root, _))) = (has_references, parent) else { return Ok(None) };
    let written = json(&granted.spec.input);
    let found = references::of(&written);
    let names: BTreeSet<Name> = found.iter().map(|it| Name::from(it.step.as_str())).collect();
    let key = TaskKey { scope: granted.task.scope.clone(), id: root };
    let Some(outputs) = app.read(outputs(app.coordinator.browse(), &key, names)).await? else {
        return Ok(Some(StageInput::Unresolved(Text::from(too_large()))));
    };
    let output = |step: &str| outputs.get(&Name::from(step));
    Ok(Some(match plan::resolve(&written, output) {
        Ok(input) => StageInput::Ready(input),
        Err(wrong) => StageInput::Unresolved(Text::from(wrong.to_string())),
    }))
}

/// What steps under these keys returned; `None` if it is too large together.
async fn outputs<B: Browse>(
    browse: &B,
    root: &TaskKey,
    keys: BTreeSet<Name>,
) -> Result<Option<HashMap<Name, wire::Json>>, Failure> {
    let ends = ends_of_steps(browse, root, Wanted::outputs_of(keys)).await?;
    let Ends::Found { ends, .. } = ends else { return Ok(None) };
    let output = |(key, end): (Name, End)| Some((key, stored_json(&end.output?)));
    Ok(Some(ends.into_iter().filter_map(output).collect()))
}

/// `GET /v1/runs/{runId}/plan`: a page of the steps of a run's plan, in the order of the plan.
pub(super) async fn steps(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    RunPath(run): RunPath,
    uri: Uri,
) -> Result<Json<PlanSteps>, ApiError> {
    let RecordsQuery { after, limit } = query(&uri)?;
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let browse = app.coordinator.browse();
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let reading = async {
        if browse.find(&key).await?.is_none() {
            return Ok(None);
        }
        page(browse, &key, after.unwrap_or(0), limit).await.map(Some)
    };
    let page = app.read(reading).await?;
    page.map(Json).ok_or_else(ApiError::run_not_found)
}

/// Steps from this place on. An empty page is the last.
async fn page<B: Browse>(
    browse: &B,
    root: &TaskKey,
    from: u32,
    limit: usize,
) -> Result<PlanSteps, Failure> {
    let stored = browse.rows(root, RowsAfter::Step(from), limit).await?.steps;
    let next_after = stored.last().map(|last| last.place + 1);
    let steps = views(browse, root, &stored).await?;
    Ok(PlanSteps { steps, next_after })
}

/// What became of these steps: each is a task of its own.
async fn views<B: Browse>(
    browse: &B,
    root: &TaskKey,
    stored: &[StoredStep],
) -> Result<Vec<PlanStage>, Failure> {
    let mut views = Vec::with_capacity(stored.len());
    for step in stored {
        let key = TaskKey { scope: root.scope.clone(), id: step.step.child.submit.id };
        let found = browse.find(&key).await?;
        views.push(view(step, &found.map_or(Subject::Absent, |found| found.subject)));
    }
    Ok(views)
}

/// A task that does not exist yet waits to be spawned.
fn view(stored: &StoredStep, subject: &Subject) -> PlanStage {
    let submit = &stored.step.child.submit;
    let now = subject.state().unwrap_or(TaskState::Blocked);
    let missing = Some(stored.missing).filter(|missing| *missing > 0 && !now.is_terminal());
    let (end, started_at, completed_at) = match subject {
        Subject::Absent => (None, None, None),
        Subject::Live(task) => (None, task.started_at, None),
        Subject::Done(done) => (Some(&done.end), done.started_at, Some(done.completed_at)),
    };
    let fault = end.and_then(|end| end.fault.as_ref());
    PlanStage {
        key: stored.key().to_string(),
        kind: submit.kind.to_string(),
        queue: submit.queue.to_string(),
        state: state(now),
        reason: end.and_then(|end| end.reason).map(|reason| reason.name().to_owned()),
        message: fault.map(|fault| fault.message.to_string()),
        depends_on: stored.step.upstreams.iter().map(Name::to_string).collect(),
        waits_for: missing,
        task_id: Some(submit.id.to_string()),
        approval_id: subject.live().and_then(asked),
        started_at: started_at.map(time),
        completed_at: completed_at.map(time),
    }
}

/// A run with the first of its steps and, once it has ended, its output.
pub(super) async fn with_steps<B: Browse>(
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
    let Some(PlanState::Root(root)) = of_run.and_then(|run| run.plan.as_deref()) else {
        return Ok(run);
    };
    let plan = page(browse, key, 0, SHOWN_MAX).await?.steps;
    let output = match !is_live && root.steps <= COMPOSED_MAX {
        true => composed(browse, key).await?,
        false => None,
    };
    Ok(Run { plan, plan_steps: Some(root.steps), output, ..run })
}

/// The map of step key to output, in the order of the plan; `None` if it is larger than one reader may hold.
async fn composed<B: Browse>(browse: &B, root: &TaskKey) -> Result<Option<wire::Json>, Failure> {
    let (mut all, mut from, mut bytes) = (Vec::new(), 0, 0);
    loop {
        let stored = browse.rows(root, RowsAfter::Step(from), SHOWN_MAX).await?.steps;
        let Some(last) = stored.last() else { break };
        from = last.place + 1;
        let keys: Vec<Name> = stored.iter().map(|step| step.key().clone()).collect();
        let wanted = keys.iter().cloned().collect();
        let Some(mut outputs) = outputs(browse, root, wanted).await? else { return Ok(None) };
        for key in keys {
            let Some(output) = outputs.remove(&key) else { continue };
            bytes += output.text().len();
            all.push((key, output));
        }
        if bytes > COMPOSED_BYTES_MAX {
            return Ok(None);
        }
    }
    Ok(Some(plan::output(all.iter().map(|(key, output)| (key.as_str(), Some(output))))))
}

/// What a blocked step waits for: some of its upstreams that have not ended, and how many there are.
pub(super) async fn missing_upstreams<B: Browse>(
    browse: &B,
    subject: &Subject,
    max: usize,
) -> Result<Option<(Vec<String>, u32)>, Failure> {
    let Some((scope, lineage)) = subject.live().and_then(|task| {
        task.step_terms()?;
        Some((task.scope.clone(), task.run.as_ref()?.lineage.clone()?))
    }) else {
        return Ok(None);
    };
    let Some((root, key)) = lineage.parent() else { return Ok(None) };
    let root = TaskKey { scope, id: root };
    let found = browse.rows(&root, RowsAfter::StepKey(key), 1).await?.steps;
    let Some(step) = found.into_iter().next() else { return Ok(None) };
    let (mut names, upstreams) = (Vec::new(), &step.step.upstreams);
    for keys in upstreams.chunks(UPSTREAMS_PER_READ) {
        let children = browse.rows(&root, RowsAfter::Keys(keys), keys.len()).await?.children;
        let has_ended = |key: &Name| {
            let child = children.iter().find(|started| started.child.key == *key);
            child.is_some_and(|started| started.child.end.is_some())
        };
        names.extend(keys.iter().filter(|key| !has_ended(key)).map(Name::to_string));
        if names.len() >= max {
            break;
        }
    }
    names.truncate(max);
    Ok(Some((names, step.missing)))
}
