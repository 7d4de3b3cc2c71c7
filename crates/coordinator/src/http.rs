//! The coordinator's HTTP API: read, limit, authenticate, translate, ask, answer.
//!
//! Nothing is decided here. A request that passes is handed to the [`Coordinator`], and what comes
//! back is spelled as JSON. Errors are `application/problem+json` with the worker contract's own
//! members beside (`error`, `message`, `verdict`, …); see [`api_error`].
//!
//! Order of checks: routes with API keys authenticate before they read the body. Task calls check the
//! token's signature, then the body's shape, then the token against path and body, and the rules do
//! the rest.

mod api_error;
mod app_state;
mod audit;
mod body;
mod caller;
mod cancel;
mod completed;
mod delivery;
mod errors;
mod explain;
mod health;
mod heartbeat;
mod heartbeats;
mod history;
mod keys;
mod lease;
mod limits;
mod metrics;
mod middleware;
mod openapi;
mod queue_counts;
mod queues;
mod record;
mod reports;
mod run_view;
mod runs;
mod set_aside;
mod signing;
mod started;
mod submission;
mod submit;
mod token_grace;
mod translate;

use axum::Router;
use axum::routing::{get, post};
use store::Store;

pub use api_error::ApiError;
pub use app_state::{AppState, Timeouts};
pub use body::SlowBodyLimits;

/// Every route, ready to be served.
pub fn router<S: Store>(app: AppState<S>) -> Router {
    Router::new()
        .route("/v1/runs", post(submit::submit::<S>).get(runs::list::<S>))
        .route("/v1/runs/{run}", get(runs::show::<S>))
        .route("/v1/runs/{run}/cancel", post(cancel::cancel::<S>))
        .route("/v1/runs/{run}/history", get(history::history::<S>))
        .route("/v1/runs/{run}/record", get(record::record::<S>))
        .route("/v1/runs/{run}/explain", get(explain::explain::<S>))
        .route("/v1/queues", get(queues::queues::<S>))
        .route("/v1/leases", post(lease::lease::<S>))
        .route("/v1/tasks/{task}/started", post(started::started::<S>))
        .route("/v1/tasks/{task}/heartbeat", post(heartbeat::heartbeat::<S>))
        .route("/v1/tasks/{task}/completed", post(completed::completed::<S>))
        .route("/v1/reports", post(reports::reports::<S>))
        .route("/v1/heartbeats", post(heartbeats::heartbeats::<S>))
        .route("/v1/keys", post(keys::create::<S>).get(keys::list::<S>))
        .route("/v1/keys/{key}/rotate", post(keys::rotate::<S>))
        .route("/v1/keys/{key}/revoke", post(keys::revoke::<S>))
        .route("/v1/signing-keys/rotate", post(signing::rotate::<S>))
        .route("/v1/limits", post(limits::set::<S>).get(limits::list::<S>))
        .route("/v1/set-aside", get(set_aside::list::<S>))
        .route("/v1/audit", get(audit::audit::<S>))
        .route("/v1/audit/verify", get(audit::verify::<S>))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz::<S>))
        .route("/version", get(health::version))
        .route("/metrics", get(metrics::metrics::<S>))
        .route("/openapi.json", get(openapi::openapi))
        .route("/errors/{page}", get(errors::explain))
        .fallback(middleware::not_found)
        .method_not_allowed_fallback(middleware::method_not_allowed)
        .layer(axum::middleware::from_fn_with_state(app.clone(), middleware::handle::<S>))
        .with_state(app)
}

/// `/metrics` and nothing else, for a listener that the operator opened to scrapers.
pub(crate) fn router_of_metrics<S: Store>(app: AppState<S>) -> Router {
    Router::new()
        .route("/metrics", get(metrics::metrics::<S>))
        .fallback(metrics::only_metrics)
        .method_not_allowed_fallback(middleware::method_not_allowed)
        .layer(axum::middleware::from_fn_with_state(app.clone(), middleware::handle::<S>))
        .with_state(app)
}
