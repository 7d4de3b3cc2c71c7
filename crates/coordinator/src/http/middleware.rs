//! The middleware of every request: path spelling, authentication, panics, problem bodies.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http_body::Body as _;
use verdict::Name;
use wire::Code;

use super::api_error::ApiError;
use super::app_state::{AppState, RequestId};
use super::audit::{RefusedItems, note_denial, with_refused_items};
use super::authenticate::{KeyOf, TenantOf, authenticate};
use super::byte_budget::{UnreadAnswer, too_much_held};
use super::console_session;
use super::read_share::TENANT;
use super::routes::{Audience, LEASES, PriorityClass, Route, RouteIndex, answering};

/// Every path and query of this API fits into a few hundred bytes.
const URI_BYTES_MAX: usize = 4 * 1024;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The state of the middleware: the application, and the table of routes.
type Served = (AppState, Arc<RouteIndex>, Door);

/// What a caller has to show before the audience of a route is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// Nothing: the credential of the audience says who it is.
    Credential,
    /// A session of the console, which stands for its key.
    Session,
}

pub(super) async fn handle(State(served): State<Served>, request: Request, next: Next) -> Response {
    let route = MatchedRequest::of(&request, &served.1).route().cloned();
    if !route.is_some_and(|route| route.is_act()) {
        return serve(served, request, next).await;
    }
    // An act goes on when its caller hangs up: every act, and every refusal of one, has its record.
    let background = served.0.inner.background.clone();
    let acting = background.spawn(serve(served, request, next));
    acting.await.unwrap_or_else(|_| {
        ApiError::new(Code::Internal, "the coordinator stopped in the middle of this call")
            .into_response()
    })
}

async fn serve((app, routes, door): Served, mut request: Request, next: Next) -> Response {
    let matched = MatchedRequest::of(&request, &routes);
    let request_id = app.request_id();
    request.extensions_mut().insert(RequestId(request_id.clone()));
    // A panic in a route is a bug that must not close the connection.
    let answered =
        AssertUnwindSafe(answer(&app, &matched, door, request, next)).catch_unwind().await;
    let response = answered.unwrap_or_else(|_| {
        tracing::error!("a route panicked");
        ApiError::new(
            Code::Internal,
            "internal error of the coordinator; report it with the requestId",
        )
        .into_response()
    });
    let mut response = attach_problem(&app, response, &matched, &request_id);
    faultpoint::point!("answer.leaving");
    let id = HeaderValue::from_str(&request_id).expect("request ids are hexadecimal");
    response.headers_mut().insert(REQUEST_ID, id);
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// The route's answer, once the path is well-formed and the caller is one the route accepts.
async fn answer(
    app: &AppState,
    matched: &MatchedRequest<'_>,
    door: Door,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Err(error) = admit(app, matched, door, &mut parts).await {
        return error.into_response();
    }
    let tenant = parts.extensions.get::<TenantOf>().cloned();
    let key = parts.extensions.get::<KeyOf>().cloned();
    let answering = with_refused_items(next.run(Request::from_parts(parts, body)));
    let Some(TenantOf(tenant)) = tenant else { return answering.await };
    let route = matched.route();
    if route.is_some_and(|route| route.intake != Some(PriorityClass::Leased))
        && let Err(full) = app.inner.answers.room(&tenant)
    {
        return too_much_held(full, ANSWERS).into_response();
    }
    let mut answered = TENANT.scope(tenant.clone(), answering).await;
    if let Some(key) = key {
        let is_read = route.is_some_and(|route| route.intake.is_none());
        if is_read && let Err(invalid) = app.check_still_valid(&key.id) {
            return invalid.into_response();
        }
        answered.extensions_mut().insert(key);
    }
    hold_until_read(app, route, &tenant, answered)
}

/// What is said of answers where too many are not read.
const ANSWERS: &str = "answers";

/// Counts an answer until it is read. One for which there is no room is refused, unless it says what was done: leases that are not
/// answered go back to their queues.
fn hold_until_read(
    app: &AppState,
    route: Option<&Route>,
    tenant: &Name,
    mut answered: Response,
) -> Response {
    let bytes = answered.body().size_hint().exact().unwrap_or(0);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut held = app.inner.answers.begin(tenant);
    let may_refuse = route.is_some_and(|it| it.intake.is_none() || it.path == LEASES);
    match may_refuse {
        true => {
            if let Err(full) = held.grow(bytes) {
                return too_much_held(full, ANSWERS).into_response();
            }
        }
        false => held.grow_anyway(bytes),
    }
    answered.extensions_mut().insert(UnreadAnswer::new(held));
    answered
}

async fn admit(
    app: &AppState,
    matched: &MatchedRequest<'_>,
    door: Door,
    parts: &mut Parts,
) -> Result<(), ApiError> {
    check_spelling(&parts.uri)?;
    match matched.route() {
        Some(route) => {
            if door == Door::Session && !console_session::is_login(route) {
                console_session::enter(app, parts)?;
            }
            authenticate(app, route, parts).await
        }
        // The router answers that there is no such path or method.
        None => Ok(()),
    }
}

/// A request's route, for its answer and for the audit.
struct MatchedRequest<'a> {
    method: Method,
    path: Option<MatchedPath>,
    /// The rows of the path.
    rows: &'a [Route],
}

impl<'a> MatchedRequest<'a> {
    fn of(request: &Request, routes: &'a RouteIndex) -> Self {
        let path = request.extensions().get::<MatchedPath>().cloned();
        let rows = routes.at(path.as_ref());
        Self { method: request.method().clone(), path, rows }
    }

    fn route(&self) -> Option<&'a Route> {
        answering(self.rows, &self.method)
    }

    /// Whether every answer carries a verdict, including the refusal of a wrong method.
    fn wants_verdict(&self) -> bool {
        self.rows.iter().any(|row| row.audience == Audience::TaskToken)
    }

    /// The pattern, not the path: text made up by a caller is not repeated.
    fn pattern(&self) -> String {
        let path = self.path.as_ref().map_or("", MatchedPath::as_str);
        format!("{} {path}", self.method)
    }
}

/// No path of this API needs escapes, so no id has two spellings (X25).
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
        let message = "the path must not contain escapes, dot segments or empty segments";
        return Err(ApiError::new(Code::InvalidArgument, message));
    }
    Ok(())
}

/// Writes the problem body of a refused request.
fn attach_problem(
    app: &AppState,
    mut response: Response,
    matched: &MatchedRequest<'_>,
    request_id: &str,
) -> Response {
    let key = response.extensions_mut().remove::<KeyOf>().map(|key| Box::new((key.id, key.scope)));
    if let Some(refused) = response.extensions_mut().remove::<RefusedItems>() {
        refused.note(app, key.as_deref(), || matched.pattern(), request_id);
    }
    let Some(error) = response.extensions_mut().remove::<ApiError>() else { return response };
    let error = ApiError { by: error.by.or(key), ..error };
    note_denial(app, &error, || matched.pattern(), request_id);
    let verdict = error.worker_verdict().filter(|_| matched.wants_verdict());
    let code = error.code;
    // Callers that are refused together must not return together (F59).
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

/// The header has whole seconds only. It rounds up, because too early is worse than too late, and zero means no
/// pause.
fn whole_seconds(pause: Duration) -> u64 {
    pause.as_millis().div_ceil(1_000).max(1) as u64
}

pub(super) async fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "nothing exists at this path; see /openapi.json")
}

pub(super) async fn method_not_allowed() -> ApiError {
    ApiError::new(
        Code::MethodNotAllowed,
        "this path does not support the method; see /openapi.json",
    )
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::handler::Handler;
    use axum::http::header::AUTHORIZATION;
    use storetest::{ManualClock, MemoryStore};
    use tower::ServiceExt;
    use verdict::{Scope, Time};

    use super::*;
    use crate::admit::AdminPrincipal;
    use crate::admit::{ApiKeys, Keyring, NewKey, Role};
    use crate::coordinator::{Coordinator, Options};
    use crate::http::Timeouts;
    use crate::http::routes::{RateClass, ServedRoute, get, serve};
    use crate::ids::SeededEntropy;

    async fn defect() -> &'static str {
        panic!("a defect with a secret in it")
    }

    async fn wants_admin(_: AdminPrincipal) -> &'static str {
        "administered"
    }

    /// A row that any caller may use, whatever principal its handler extracts.
    fn open<T: 'static>(
        path: &'static str,
        audience: Audience,
        handler: impl Handler<T, AppState>,
    ) -> ServedRoute {
        get(path, audience, RateClass::Exempt, None, handler)
    }

    /// What a coordinator with one key answers to that key.
    async fn ask(table: Vec<ServedRoute>, path: &str) -> Response {
        let store = MemoryStore::new(Arc::new(ManualClock::default()));
        let options = Options { entropy: Box::new(SeededEntropy::new(1)), ..Options::default() };
        let coordinator = Coordinator::start(store, options).await.unwrap();
        let keyring = Keyring::from_bytes([1; 32]);
        let key = NewKey::generate(&mut SeededEntropy::new(3), Scope::default(), &Role::ALL);
        let keys = ApiKeys::of([key.row(Time::default())]);
        let (url, timeouts) = (String::new(), Timeouts::default());
        let app = AppState::new(coordinator, keyring, keys, url, timeouts, SeededEntropy::new(2));
        let request = Request::get(path).header(AUTHORIZATION, format!("Bearer {}", key.text()));
        let request = request.body(Body::empty()).unwrap();
        serve(table, not_found, app).oneshot(request).await.unwrap()
    }

    async fn problem(response: Response) -> wire::answers::Problem {
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[tokio::test]
    async fn a_panic_in_a_route_is_an_answer() {
        let response = ask(vec![open("/defect", Audience::Anyone, defect)], "/defect").await;
        assert_eq!(response.status(), 500);
        let problem = problem(response).await;
        assert_eq!((problem.error.as_str(), problem.verdict), ("internal", None));
        assert!(!problem.message.contains("secret"));
    }

    #[tokio::test]
    async fn a_refusal_carries_a_verdict_where_the_row_is_for_a_task_token() {
        for (audience, verdict) in
            [(Audience::TaskToken, Some(wire::Verdict::Rejected)), (Audience::Client, None)]
        {
            // The key is no token, and the client's handler panics: both refuse, and the path is the same.
            let table = vec![open("/v1/tasks/one", audience, defect)];
            let response = ask(table, "/v1/tasks/one").await;
            assert_eq!(problem(response).await.verdict, verdict, "{audience:?}");
        }
    }

    #[tokio::test]
    async fn a_handler_gets_only_the_principal_of_its_row() {
        // X10: the key has all roles, and still reaches an administrator's handler only through such a row.
        for (audience, status) in [
            (Audience::Admin, 200),
            (Audience::Client, 500),
            (Audience::Worker, 500),
            (Audience::Anyone, 500),
        ] {
            let response = ask(vec![open("/one", audience, wants_admin)], "/one").await;
            assert_eq!(response.status(), status, "{audience:?}");
        }
    }
}
