//! What is said of a run that has ended: how, why, and what a person can do about it, as far as the rules allow it.

use store::TaskKey;
use verdict::Done;
use verdict::plan::PlanState;
use verdict::redrive::{self, NotRetryable, Repeat};
use wire::answers::Gate;
use wire::names::repair_text;

use super::super::api_error::ApiError;
use super::super::app_state::AppState;
use super::super::translate::time;
use crate::retries::{self, RunSource};

/// What an explanation repeats of a failure: a sentence or two.
const FAULT_BYTES_MAX: usize = 300;

/// The task has ended: nothing changes it any more.
pub(super) async fn gate(app: &AppState, key: &TaskKey, done: &Done) -> Result<Gate, ApiError> {
    let why = done.end.reason.map(|reason| format!(" ({})", reason.name())).unwrap_or_default();
    let (state, attempt) = (done.end.state.name(), done.attempt);
    let (fault, way_on) = (fault_of(done), way_on(app, key, done).await?);
    let at = time(done.completed_at);
    let now = format!("{state}{why} with attempt {attempt} at {at}{fault}{way_on}");
    Ok(Gate { gate: "ended".to_owned(), now, change: None, at: None })
}

/// Why an attempt failed, as its worker or the server said it.
fn fault_of(done: &Done) -> String {
    let Some(fault) = &done.end.fault else { return String::new() };
    let message = repair_text(fault.message.as_str(), FAULT_BYTES_MAX);
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

/// What a person can do about a run that ended without success, as far as the rules allow it.
async fn way_on(app: &AppState, key: &TaskKey, done: &Done) -> Result<String, ApiError> {
    if done.end.state == verdict::State::Succeeded {
        return Ok(String::new());
    }
    let is_step = done
        .run
        .as_ref()
        .is_some_and(|run| matches!(run.plan.as_deref(), Some(PlanState::Step(_))));
    if is_step {
        // What can be done is done with the run of its plan.
        return Ok(String::new());
    }
    let reading = retries::find(app.coordinator.browse(), key);
    let Some(RunSource { submitted, has_done_steps, .. }) = app.read(reading).await? else {
        return Ok(String::new());
    };
    let (name, run) = (key.id.run_name(), done.run.as_deref());
    let repeat = Repeat::Unrecorded;
    Ok(match redrive::may_retry(&submitted, done.end.state, run, has_done_steps, repeat) {
        Ok(()) => format!("; `tenure runs retry {name}` submits it again"),
        Err(NotRetryable::Recorded) => {
            format!("; `tenure runs continue {name}` goes on behind its recorded steps")
        }
        Err(NotRetryable::Halted) => format!(
            "; `tenure runs continue {name} --budget …` goes on behind its recorded steps, with a larger budget"
        ),
        Err(NotRetryable::DoneSteps) => format!(
            "; `tenure runs retry {name} --from-scratch` submits it again, and repeats the steps that have succeeded"
        ),
        Err(NotRetryable::HaltedPlan) => {
            "; submit its plan as a new run with a larger budget (`tenure submit --plan FILE --budget …`)".to_owned()
        }
        Err(NotRetryable::NotEnded | NotRetryable::Succeeded | NotRetryable::Reserved | NotRetryable::NoTime) => {
            String::new()
        }
    })
}
