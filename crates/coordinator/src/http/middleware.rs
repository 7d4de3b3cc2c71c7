//! What every request passes on its way in and out: spelling of the path, panics, problem bodies.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use store::Store;
use wire::Code;

use super::api_error::ApiError;
use super::app_state::{AppState, RequestId};
use super::audit::note_denial;

/// Every path and query of ours fits into a few hundred bytes.
const URI_BYTES_MAX: usize = 4 * 1024;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Whether the contract wants a verdict in every answer of the route.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// `started`, `heartbeat` and `completed`.
    WorkerUnderLease,
    Anybody,
}

pub(super) async fn handle<S: Store>(
    State(app): State<AppState<S>>,
    mut request: Request,
    next: Next,
) -> Response {
    let matched = MatchedRequest::of(&request);
    let request_id = app.request_id();
    request.extensions_mut().insert(RequestId(request_id.clone()));
    let response = match check_spelling(request.uri()) {
        Err(error) => error.into_response(),
        Ok(()) => {
            // A panic in a route is a defect of ours that must not take the connection with it.
            let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
            answered.unwrap_or_else(|_| {
                tracing::error!("a route panicked");
                ApiError::new(Code::Internal, "a defect of the coordinator").into_response()
            })
        }
    };
    let mut response = attach_problem(&app, response, &matched, &request_id);
    faultpoint::point!("answer.leaving");
    let id = HeaderValue::from_str(&request_id).expect("request ids are hexadecimal");
    response.headers_mut().insert(REQUEST_ID, id);
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// What a request asked for, for its answer and for the record.
struct MatchedRequest {
    method: Method,
    path: Option<MatchedPath>,
}

impl MatchedRequest {
    fn of(request: &Request) -> Self {
        let path = request.extensions().get::<MatchedPath>().cloned();
        Self { method: request.method().clone(), path }
    }

    fn audience(&self) -> Audience {
        match self.path.as_ref().map(MatchedPath::as_str) {
            Some(path) if path.starts_with("/v1/tasks/") => Audience::WorkerUnderLease,
            Some(_) | None => Audience::Anybody,
        }
    }

    /// The route and not the path: what a caller made up is not repeated.
    fn route(&self) -> String {
        let path = self.path.as_ref().map_or("", MatchedPath::as_str);
        format!("{} {path}", self.method)
    }
}

/// No path of ours needs escapes, so that no id has two spellings (X25).
fn check_spelling(uri: &Uri) -> Result<(), ApiError> {
    let length = uri.path_and_query().map_or(0, |text| text.as_str().len());
    if length > URI_BYTES_MAX {
        let message =
            format!("the path and query have {length} bytes; {URI_BYTES_MAX} are allowed");
        return Err(ApiError::new(Code::UriTooLong, message));
    }
    let path = uri.path();
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"%;\\".contains(&byte));
    let has_dots = path.split('/').any(|segment| matches!(segment, "." | ".."));
    if !is_plain || has_dots || path.contains("//") {
        let message = "the path must be spelled without escapes, dot segments and empty segments";
        return Err(ApiError::new(Code::InvalidArgument, message));
    }
    Ok(())
}

/// Gives a refused request its problem body.
fn attach_problem<S: Store>(
    app: &AppState<S>,
    mut response: Response,
    matched: &MatchedRequest,
    request_id: &str,
) -> Response {
    let Some(error) = response.extensions_mut().remove::<ApiError>() else { return response };
    note_denial(app, &error, || matched.route(), request_id);
    let verdict = match matched.audience() {
        Audience::WorkerUnderLease => error.worker_verdict(),
        Audience::Anybody => None,
    };
    let code = error.code;
    // Whoever is refused together does not come back together (F59).
    let retry_after = error.retry_after().map(|wait| app.spread(wait));
    let error = ApiError { retry_after, ..error };
    let mut problem = error.problem(request_id.to_owned(), app.server_time());
    problem.verdict = verdict;
    let body = serde_json::to_vec(&problem).expect("a problem is plain strings and numbers");
    let mut explained = (response.status(), body).into_response();
    let headers = explained.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(allow) = response.headers_mut().remove(ALLOW) {
        headers.insert(ALLOW, allow);
    }
    if let Some(pause) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(pause)));
    }
    if code.status() == 401 {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    explained
}

/// The header knows only whole seconds; too late is polite, too early is not, and zero is no pause.
fn whole_seconds(pause: Duration) -> u64 {
    pause.as_millis().div_ceil(1_000).max(1) as u64
}

pub(super) async fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "there is nothing at this path; see /openapi.json")
}

pub(super) async fn method_not_allowed() -> ApiError {
    ApiError::new(Code::MethodNotAllowed, "this path does not take that method; see /openapi.json")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::routing::get;
    use store::memory::{ManualClock, MemoryStore};
    use tower::ServiceExt;

    use super::*;
    use crate::admit::{ApiKeys, Keyring};
    use crate::coordinator::{Coordinator, Host, Options};
    use crate::http::Timeouts;
    use crate::ids::SeededEntropy;

    async fn defect() -> &'static str {
        panic!("a defect with a secret in it")
    }

    #[tokio::test]
    async fn a_panic_in_a_route_is_an_answer() {
        let store = MemoryStore::new(Arc::new(ManualClock::default()));
        let options = Options {
            host: Host::Task,
            entropy: Box::new(SeededEntropy::new(1)),
            ..Options::default()
        };
        let coordinator = Coordinator::start(store, options).await.unwrap();
        let keyring = Keyring::from_bytes([1; 32]);
        let keys = ApiKeys::default();
        let (url, timeouts) = (String::new(), Timeouts::default());
        let app = AppState::new(coordinator, keyring, keys, url, timeouts, SeededEntropy::new(2));
        let routes = Router::new()
            .route("/v1/tasks/{task}/defect", get(defect))
            .layer(axum::middleware::from_fn_with_state(app, handle::<MemoryStore>));
        let request = Request::get("/v1/tasks/x/defect").body(Body::empty()).unwrap();
        let response = routes.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 500);
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let problem: wire::answers::Problem = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(problem.error, "internal");
        assert_eq!(problem.verdict, Some(wire::Verdict::Rejected));
        assert!(!problem.message.contains("secret"));
    }
}
