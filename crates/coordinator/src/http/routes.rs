//! Every route of the API in one table: method, path, audience, rate class, priority class and handler.
//!
//! The router, authentication, the rate limiter and the error format use the row of the matched route, so a path
//! is matched once and its text decides nothing afterwards. A test compares the OpenAPI document with the table.
//! A run that the path names must be of a queue that the caller's key may use ([`super::queue_limit`]). Whether a
//! caller may act on the object otherwise is decided by the handler and the rules.
//!
//! Invariant: a request reaches a handler only through a row, and after the audience of that row was
//! authenticated.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::MatchedPath;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};

use super::app_state::AppState;
use super::middleware::Door;
use super::{
    approvals, audit, budgets, cancel, checkpoint, checkpoints, children, completed, console,
    console_session, deployments, effects, endpoints, errors, explain, flow_keys, fork, health,
    heartbeat, heartbeats, history, keys, kinds, lease, limits, logs, metrics, middleware, openapi,
    pauses, queues, record, records, recovery, reports, retry, runs, schedules, session, set_aside,
    signals, signing, started, starts, steps, submit, waits, workers,
};
pub use crate::intake::PriorityClass;

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// No credential is read.
    Anyone,
    /// An API key with the role client.
    Client,
    /// An API key with the role client or reader.
    Reader,
    /// An API key with the role worker.
    Worker,
    /// An API key with the role worker, even one that was revoked, rotated or has expired: it names the scope, and
    /// the task token of each item is what authorises the item.
    LeaseHolder,
    /// An API key with the role admin.
    Admin,
    /// An API key with the role admin, or with the role reader and without a limit to queues.
    Auditor,
    /// An API key with the role approver or admin. The approval itself says which of them may decide.
    Approver,
    /// An API key with the role approver or admin, or client or reader without a limit to queues.
    ApprovalReader,
    /// A valid API key, whatever its roles: the answer is about the key itself.
    KeyHolder,
    /// The token of one attempt. Every refusal carries a verdict, because the contract requires one.
    TaskToken,
    /// Anyone if the operator opened `/metrics`, else an auditor of everything.
    Scraper,
}

/// Whether a call counts against the request rate of its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateClass {
    /// It takes one request from the rate, or is refused with 429.
    Tenant,
    /// It is never limited. Refusing a worker that holds a lease would lose work in progress, an administrator
    /// must be able to correct a wrong limit and to pause a queue while its clients use up the rate, and a route without
    /// a key has no tenant.
    Exempt,
}

/// What is known about a route before its handler runs.
#[derive(Clone, Debug)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub audience: Audience,
    pub rate: RateClass,
    /// The priority class in which its requests wait for a batch; `None` for a route that only reads.
    pub intake: Option<PriorityClass>,
}

impl Route {
    /// Whether a person in charge acts with it: such a call, or its refusal, goes into the audit.
    pub(super) fn is_act(&self) -> bool {
        self.intake.is_some() && matches!(self.audience, Audience::Admin | Audience::Approver)
    }
}

/// A route with its handler.
pub(super) struct ServedRoute {
    route: Route,
    handler: MethodRouter<AppState>,
}

/// The table.
fn table() -> Vec<ServedRoute> {
    use Audience::{
        Admin, Anyone, ApprovalReader, Approver, Auditor, Client, LeaseHolder, Reader, Scraper,
        TaskToken, Worker,
    };
    use PriorityClass::{Leased, NewWork};
    use RateClass::{Exempt, Tenant};
    vec![
        post("/v1/runs", Client, Tenant, Some(NewWork), submit::submit),
        get("/v1/runs", Reader, Tenant, None, runs::list),
        post("/v1/waits", Reader, Tenant, None, waits::wait),
        get("/v1/runs/{run}", Reader, Tenant, None, runs::show),
        post("/v1/runs/{run}/cancel", Client, Tenant, Some(NewWork), cancel::cancel),
        post("/v1/runs/{run}/retry", Client, Tenant, Some(NewWork), retry::retry),
        post("/v1/runs/{run}/fork", Client, Tenant, Some(NewWork), fork::fork),
        get("/v1/runs/{run}/history", Reader, Tenant, None, history::history),
        get("/v1/runs/{run}/logs", Reader, Tenant, None, logs::logs),
        get("/v1/runs/{run}/record", Reader, Tenant, None, record::record),
        get("/v1/runs/{run}/explain", Reader, Tenant, None, explain::explain),
        get("/v1/runs/{run}/steps", Reader, Tenant, None, records::steps),
        get("/v1/runs/{run}/children", Reader, Tenant, None, children::children),
        get("/v1/runs/{run}/plan", Reader, Tenant, None, steps::steps),
        post("/v1/runs/{run}/signals", Client, Tenant, Some(NewWork), signals::send),
        post("/v1/runs/{run}/resume", Client, Tenant, Some(NewWork), signals::resume),
        post("/v1/runs/{run}/unpin", Client, Tenant, Some(NewWork), signals::unpin),
        get("/v1/queues", Reader, Tenant, None, queues::queues),
        post("/v1/queues/{queue}/pause", Admin, Exempt, Some(NewWork), pauses::pause),
        post("/v1/queues/{queue}/resume", Admin, Exempt, Some(NewWork), pauses::resume),
        get("/v1/approvals", ApprovalReader, Tenant, None, approvals::list),
        get("/v1/approvals/{approval}", ApprovalReader, Tenant, None, approvals::show),
        post("/v1/approvals/{approval}/decide", Approver, Tenant, Some(NewWork), approvals::decide),
        post("/v1/endpoints", Admin, Exempt, Some(NewWork), endpoints::create),
        get("/v1/endpoints", Auditor, Exempt, None, endpoints::list),
        get("/v1/endpoints/{endpoint}", Auditor, Exempt, None, endpoints::show),
        post("/v1/endpoints/{endpoint}", Admin, Exempt, Some(NewWork), endpoints::update),
        post("/v1/endpoints/{endpoint}/rotate", Admin, Exempt, Some(NewWork), endpoints::rotate),
        post("/v1/endpoints/{endpoint}/delete", Admin, Exempt, Some(NewWork), endpoints::delete),
        get("/v1/effects", Auditor, Exempt, None, effects::list),
        post("/v1/effects/redrive", Admin, Exempt, Some(NewWork), effects::redrive_many),
        get("/v1/effects/{effect}", Auditor, Exempt, None, effects::show),
        post("/v1/effects/{effect}/redrive", Admin, Exempt, Some(NewWork), effects::redrive),
        post("/v1/effects/{effect}/release", Admin, Exempt, Some(NewWork), effects::release),
        post("/v1/effects/{effect}/reconcile", Admin, Exempt, Some(NewWork), effects::reconcile),
        post("/v1/schedules", Client, Tenant, Some(NewWork), schedules::create),
        get("/v1/schedules", Reader, Tenant, None, schedules::list),
        get("/v1/schedules/{schedule}", Reader, Tenant, None, schedules::show),
        get("/v1/schedules/{schedule}/history", Reader, Tenant, None, schedules::history),
        get("/v1/schedules/{schedule}/preview", Reader, Tenant, None, schedules::preview),
        post("/v1/schedules/{schedule}/update", Client, Tenant, Some(NewWork), schedules::update),
        post("/v1/schedules/{schedule}/pause", Client, Tenant, Some(NewWork), schedules::pause),
        post("/v1/schedules/{schedule}/resume", Client, Tenant, Some(NewWork), schedules::resume),
        post("/v1/schedules/{schedule}/trigger", Client, Tenant, Some(NewWork), schedules::trigger),
        post(
            "/v1/schedules/{schedule}/backfill",
            Client,
            Tenant,
            Some(NewWork),
            schedules::backfill,
        ),
        post("/v1/schedules/{schedule}/delete", Client, Tenant, Some(NewWork), schedules::delete),
        get("/v1/workers", Reader, Tenant, None, workers::workers),
        get("/v1/kinds", Reader, Tenant, None, kinds::kinds),
        get("/v1/flow-keys", Reader, Tenant, None, flow_keys::flow_keys),
        post(LEASES, Worker, Tenant, Some(NewWork), lease::lease),
        post("/v1/tasks/{task}/started", TaskToken, Exempt, Some(Leased), started::started),
        post("/v1/tasks/{task}/heartbeat", TaskToken, Exempt, Some(Leased), heartbeat::heartbeat),
        post("/v1/tasks/{task}/completed", TaskToken, Exempt, Some(Leased), completed::completed),
        post(
            "/v1/tasks/{task}/checkpoints",
            TaskToken,
            Exempt,
            Some(Leased),
            checkpoint::checkpoint,
        ),
        get("/v1/tasks/{task}/checkpoints", TaskToken, Exempt, None, checkpoint::list),
        post("/v1/checkpoints", LeaseHolder, Exempt, Some(Leased), checkpoints::checkpoints),
        post("/v1/reports", LeaseHolder, Exempt, Some(Leased), reports::reports),
        post("/v1/starts", LeaseHolder, Exempt, Some(Leased), starts::starts),
        post("/v1/heartbeats", LeaseHolder, Exempt, Some(Leased), heartbeats::heartbeats),
        post("/v1/keys", Admin, Exempt, Some(NewWork), keys::create),
        get("/v1/keys", Admin, Exempt, None, keys::list),
        post("/v1/keys/{key}/rotate", Admin, Exempt, Some(NewWork), keys::rotate),
        post("/v1/keys/{key}/revoke", Admin, Exempt, Some(NewWork), keys::revoke),
        post("/v1/signing-keys/rotate", Admin, Exempt, Some(NewWork), signing::rotate),
        post("/v1/limits", Admin, Exempt, Some(NewWork), limits::set),
        get("/v1/limits", Auditor, Exempt, None, limits::list),
        post("/v1/budgets", Admin, Exempt, Some(NewWork), budgets::set),
        get("/v1/budgets", Auditor, Exempt, None, budgets::list),
        get("/v1/set-aside", Auditor, Exempt, None, set_aside::list),
        get("/v1/audit", Auditor, Exempt, None, audit::audit),
        get("/v1/audit/verify", Auditor, Exempt, None, audit::verify),
        get("/livez", Anyone, Exempt, None, health::livez),
        get("/readyz", Anyone, Exempt, None, health::readyz),
        get("/version", Anyone, Exempt, None, health::version),
        get("/metrics", Scraper, Exempt, None, metrics::metrics),
        get("/openapi.json", Anyone, Exempt, None, openapi::openapi),
        get("/errors/{page}", Anyone, Exempt, None, errors::explain),
    ]
}

/// The routes of recovery.
fn recovery_table() -> Vec<ServedRoute> {
    use Audience::{Admin, Approver, Reader};
    use PriorityClass::NewWork;
    use RateClass::{Exempt, Tenant};
    vec![
        get("/v1/recovery/policies", Reader, Tenant, None, recovery::list_policies),
        post("/v1/recovery/policies/{policy}", Admin, Exempt, Some(NewWork), recovery::set_policy),
        post(
            "/v1/recovery/policies/{policy}/delete",
            Admin,
            Exempt,
            Some(NewWork),
            recovery::delete_policy,
        ),
        get("/v1/recovery/candidates", Reader, Tenant, None, recovery::list),
        get("/v1/recovery/candidates/{candidate}", Reader, Tenant, None, recovery::show),
        get("/v1/recovery/candidates/{candidate}/history", Reader, Tenant, None, recovery::history),
        post(
            "/v1/recovery/candidates/{candidate}/decide",
            Approver,
            Tenant,
            Some(NewWork),
            recovery::decide,
        ),
    ]
}

/// The routes about the key of the caller.
fn key_table() -> Vec<ServedRoute> {
    use Audience::KeyHolder;
    use RateClass::Tenant;
    vec![
        get("/v1/session", KeyHolder, Tenant, None, session::session),
        post(CONSOLE_CODES, KeyHolder, Tenant, None, session::create_code),
    ]
}

/// The routes of deployments.
fn topology_table() -> Vec<ServedRoute> {
    use Audience::{Admin, Approver, Client, Reader, Worker};
    use PriorityClass::{Leased, NewWork};
    use RateClass::{Exempt, Tenant};
    vec![
        get("/v1/deployments", Reader, Tenant, None, deployments::list),
        get(DEPLOYMENT, Reader, Tenant, None, deployments::show),
        post(DEPLOYMENT, Admin, Exempt, Some(NewWork), deployments::apply),
        post("/v1/deployments/{deployment}/plan", Reader, Tenant, None, deployments::plan),
        post(
            "/v1/deployments/{deployment}/pause",
            Admin,
            Exempt,
            Some(NewWork),
            deployments::pause,
        ),
        post(
            "/v1/deployments/{deployment}/resume",
            Admin,
            Exempt,
            Some(NewWork),
            deployments::resume,
        ),
        post(
            "/v1/deployments/{deployment}/delete",
            Admin,
            Exempt,
            Some(NewWork),
            deployments::delete,
        ),
        get(ARTIFACTS, Reader, Tenant, None, deployments::artifacts::list),
        post(ARTIFACTS, Client, Tenant, Some(NewWork), deployments::artifacts::create),
        get(ARTIFACT, Reader, Tenant, None, deployments::artifacts::show),
        post(
            "/v1/deployments/{deployment}/artifacts/{type}/{artifact}/transition",
            Client,
            Tenant,
            Some(NewWork),
            deployments::artifacts::transition,
        ),
        post(
            "/v1/deployments/{deployment}/artifacts/{type}/{artifact}/approve",
            Approver,
            Tenant,
            Some(NewWork),
            deployments::artifacts::approve,
        ),
        post(
            "/v1/deployments/{deployment}/events",
            Client,
            Tenant,
            Some(NewWork),
            deployments::request_event,
        ),
        get(
            "/v1/deployments/{deployment}/workorders",
            Reader,
            Tenant,
            None,
            deployments::orders::list,
        ),
        get(
            "/v1/deployments/{deployment}/claims",
            Reader,
            Tenant,
            None,
            deployments::orders::claims,
        ),
        get(
            "/v1/deployments/{deployment}/pause-states",
            Reader,
            Tenant,
            None,
            deployments::orders::pauses,
        ),
        post(
            "/v1/deployments/{deployment}/pause-states/close",
            Client,
            Tenant,
            Some(NewWork),
            deployments::orders::close_pause,
        ),
        post(TURNS, Worker, Tenant, Some(NewWork), deployments::turns::take),
        post(RENEWALS, Worker, Exempt, Some(Leased), deployments::turns::renew),
        post(RETURNS, Worker, Exempt, Some(Leased), deployments::turns::give_back),
        post(PROPOSALS, Worker, Exempt, Some(NewWork), deployments::turns::propose),
    ]
}

pub(super) const LEASES: &str = "/v1/leases";
const CONSOLE_CODES: &str = "/v1/console-codes";
const DEPLOYMENT: &str = "/v1/deployments/{deployment}";
const TURNS: &str = "/v1/deployments/{deployment}/roles/{role}/turns";
const RENEWALS: &str = "/v1/deployments/{deployment}/roles/{role}/turns/renew";
const RETURNS: &str = "/v1/deployments/{deployment}/roles/{role}/turns/return";
const PROPOSALS: &str = "/v1/deployments/{deployment}/roles/{role}/proposals";
const ARTIFACTS: &str = "/v1/deployments/{deployment}/artifacts/{type}";
const ARTIFACT: &str = "/v1/deployments/{deployment}/artifacts/{type}/{artifact}";

/// All tables.
fn all() -> Vec<ServedRoute> {
    let tables = [table(), recovery_table(), topology_table(), key_table()];
    tables.into_iter().flatten().collect()
}

/// What is known about every route.
pub fn routes() -> Vec<Route> {
    all().into_iter().map(|served| served.route).collect()
}

/// Every route, ready to be served, and the console unless it was left out.
pub fn router(app: AppState) -> Router {
    let mut table = all();
    if !app.inner.has_console {
        return serve(table, middleware::not_found, app);
    }
    table.extend(console::table());
    let of_sessions = serve_behind(Door::Session, API, of_console(), app.clone());
    serve(table, middleware::not_found, app).nest(API, console::guarded(of_sessions))
}

/// Where the console's pages call the API with their session in the place of a key.
const API: &str = "/console/api";

/// The routes that a session opens: what people do. No browser is a worker, and a session makes no codes for others.
fn of_console() -> Vec<ServedRoute> {
    let mut table = all();
    table.extend(console_session::table());
    table.retain(|served| {
        let Route { audience, path, .. } = &served.route;
        let is_of_workers =
            matches!(audience, Audience::Worker | Audience::LeaseHolder | Audience::TaskToken);
        !is_of_workers && *path != CONSOLE_CODES
    });
    table
}

/// `/metrics` and nothing else, for a listener that the operator opened to scrapers.
pub(crate) fn router_of_metrics(app: AppState) -> Router {
    let mut table = all();
    table.retain(|served| served.route.audience == Audience::Scraper);
    serve(table, metrics::only_metrics, app)
}

/// A router over `table` that answers every other path with `not_found`.
pub(super) fn serve<T: 'static>(
    table: Vec<ServedRoute>,
    not_found: impl Handler<T, AppState>,
    app: AppState,
) -> Router {
    layered(table, not_found, app, Door::Credential, "")
}

/// The same for routes below `prefix` whose callers come through a door.
fn serve_behind(
    door: Door,
    prefix: &'static str,
    table: Vec<ServedRoute>,
    app: AppState,
) -> Router {
    layered(table, middleware::not_found, app, door, prefix)
}

fn layered<T: 'static>(
    table: Vec<ServedRoute>,
    not_found: impl Handler<T, AppState>,
    app: AppState,
    door: Door,
    prefix: &'static str,
) -> Router {
    let index = Arc::new(RouteIndex::of(prefix, table.iter().map(|served| &served.route)));
    let router = table.into_iter().fold(Router::new(), |router, ServedRoute { route, handler }| {
        router.route(route.path, handler)
    });
    router
        .fallback(not_found)
        .method_not_allowed_fallback(middleware::method_not_allowed)
        .layer(axum::middleware::from_fn_with_state((app.clone(), index, door), middleware::handle))
        .with_state(app)
}

/// The rows of each path, found by the pattern that the router matched.
pub(super) struct RouteIndex {
    /// What comes before the patterns of the rows.
    prefix: &'static str,
    by_path: HashMap<&'static str, Vec<Route>>,
}

impl RouteIndex {
    fn of<'a>(prefix: &'static str, routes: impl Iterator<Item = &'a Route>) -> Self {
        let mut by_path: HashMap<_, Vec<_>> = HashMap::new();
        for route in routes {
            by_path.entry(route.path).or_default().push(route.clone());
        }
        Self { prefix, by_path }
    }

    /// All rows of a path, whatever their method; none for a path that is not served.
    pub(super) fn at(&self, path: Option<&MatchedPath>) -> &[Route] {
        let pattern = path.and_then(|path| path.as_str().strip_prefix(self.prefix));
        pattern.and_then(|it| self.by_path.get(it)).map_or(&[], Vec::as_slice)
    }
}

/// The row that answers `method`. The router lets GET answer HEAD.
pub(super) fn answering<'a>(rows: &'a [Route], method: &Method) -> Option<&'a Route> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    rows.iter().find(|row| row.method == *method)
}

pub(super) fn get<T: 'static>(
    path: &'static str,
    audience: Audience,
    rate: RateClass,
    intake: Option<PriorityClass>,
    handler: impl Handler<T, AppState>,
) -> ServedRoute {
    let route = Route { method: Method::GET, path, audience, rate, intake };
    ServedRoute { route, handler: on(MethodFilter::GET, handler) }
}

pub(super) fn post<T: 'static>(
    path: &'static str,
    audience: Audience,
    rate: RateClass,
    intake: Option<PriorityClass>,
    handler: impl Handler<T, AppState>,
) -> ServedRoute {
    let route = Route { method: Method::POST, path, audience, rate, intake };
    ServedRoute { route, handler: on(MethodFilter::POST, handler) }
}
