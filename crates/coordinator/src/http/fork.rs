//! `POST /v1/runs/{runId}/fork`.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use edge::digests;
use store::objects::ObjectFilter;
use store::{Browse, Failure, TaskKey};
use verdict::fork::NotForkable;
use verdict::{ObjectType, Scope, Text};
use wire::requests::ForkRun;
use wire::{Code, TraceContext};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{API_BYTES_MAX, JsonBody};
use super::caller::RunPath;
use super::lease::seed_of;
use super::queue_limit::check_queue;
use super::run_view::submitted;
use super::submit::{answer_one, key_header, trace_header};
use super::translate::state;
use crate::admit::ClientPrincipal;
use crate::forks::{self, ForkCall, ForkRefused, ForkSource};
use crate::requests::budget;

/// How many forks of one run its view names, the oldest first.
const SHOWN_MAX: usize = 100;

pub(super) async fn fork(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    RunPath(run): RunPath,
    headers: HeaderMap,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let asked: ForkRun = wire::parse(&body)?;
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let source = app.read(find(&app, &key)).await?;
    let source = source.ok_or_else(ApiError::run_not_found)?;
    check_queue(&principal, "submit to", source.submitted.queue.as_str())?;
    let call = call(&headers, &key, asked)?;
    let browse = app.coordinator.browse();
    let reading = forks::fork(browse, source, call, app.coordinator.now());
    let submission = app.read(reading).await?;
    let submission = submission.ok_or_else(ApiError::run_not_found)??;
    // Children that start again may be in other queues than the run that the key may see.
    submission
        .queues()
        .try_for_each(|queue| check_queue(&principal, "submit to", queue.as_str()))?;
    answer_one(&app, submission).await
}

fn call(headers: &HeaderMap, key: &TaskKey, asked: ForkRun) -> Result<ForkCall, ApiError> {
    let trace = trace_header(headers).and_then(|text| TraceContext::parse(&text));
    let fingerprint = digests::fork(key.id, &asked);
    let ForkRun { budget: asked, from_step } = asked;
    Ok(ForkCall {
        key: key_header(headers)?.map(Text::from),
        traceparent: trace.map(|trace| Text::from(trace.to_string())),
        budget: asked.map(|asked| Box::new(budget(asked))),
        from_step: from_step.map(Into::into),
        fingerprint,
    })
}

/// The run with its submission. A child is part of its run and is not continued alone.
async fn find(app: &AppState, key: &TaskKey) -> Result<Option<ForkSource>, Failure> {
    let Some(found) = app.coordinator.browse().find(key).await? else { return Ok(None) };
    if found.subject.is_child() {
        return Ok(None);
    }
    Ok(submitted(app, key).await?.map(|submitted| {
        let seed = submitted.policy.seed.unwrap_or_else(|| seed_of(key.id));
        ForkSource { found, submitted, seed }
    }))
}

/// The runs that were forked from this one, or repeat it.
pub(super) async fn linked_to<B: Browse>(
    browse: &B,
    scope: &Scope,
    run: &str,
    how: &str,
) -> Result<Vec<String>, Failure> {
    let filter = ObjectFilter {
        scope: Some(scope.clone()),
        object_type: Some(ObjectType::Fork),
        status: Some(how.into()),
        parent: Some(run.into()),
        limit: SHOWN_MAX,
        ..ObjectFilter::default()
    };
    let found = browse.objects(&filter).await?;
    Ok(found.into_iter().map(|object| object.key.id.to_string()).collect())
}

impl From<ForkRefused> for ApiError {
    fn from(refused: ForkRefused) -> Self {
        let message = match refused.why {
            NotForkable::NotEnded => {
                "the run has not ended; wait for its end or cancel it, then continue it"
            }
            NotForkable::Succeeded => "the run succeeded: nothing of it is left to do",
            NotForkable::HasPlan => {
                "a run with a plan is not continued; retry it (`tenure runs retry --from-scratch`), which executes all of its steps again"
            }
            NotForkable::HaltedPlan => {
                "a run with a plan is not continued, and one that stopped at a limit of its budget is not retried; submit the plan as a new run with a larger budget"
            }
            NotForkable::Reserved => {
                "the run is the server's own work, a work order or an evaluation of recovery, which it starts again where that is needed"
            }
            NotForkable::NoTime => {
                "the deadline of the run was not after its start, so a continuation would fail at once; submit a new run \
                 with a later deadline"
            }
            NotForkable::UnknownStep => "the run has recorded nothing under the key in `fromStep`",
            NotForkable::ApprovalIsUsed => {
                "people approved once what would be done again, or what was cancelled since; continue the run from the step that asks them (`--from-step`, `fromStep`), or submit it again"
            }
            NotForkable::TooLarge => {
                "the run has recorded more than a continuation takes over (10000 records, 16 MiB of results)"
            }
        };
        let state = Some(state(refused.state));
        Self { state, ..Self::new(Code::RunNotForkable, message) }
    }
}
