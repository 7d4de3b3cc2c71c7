//! The coordinator's HTTP API: parse, limit, authenticate, translate, ask, answer.
//!
//! Nothing is decided here. A request that passes all checks goes to the [`Coordinator`], and its answer is
//! serialised as JSON. Errors are `application/problem+json` together with the members of the worker contract
//! (`error`, `message`, `verdict`, …); see [`api_error`].
//!
//! [`routes`] is the table of all routes. Order of checks: the row's audience is authenticated before the body is
//! read. Task calls check the token's signature, then the body's shape, then the token against path and body; the
//! rules do the rest.

mod api_error;
mod app_state;
mod approvals;
mod audit;
mod authenticate;
mod awaited;
mod body;
mod budget_view;
mod budgets;
pub(crate) mod byte_budget;
mod caller;
mod cancel;
mod checkpoint;
mod checkpoints;
mod children;
mod completed;
mod console;
mod console_session;
mod delivery;
mod deployments;
mod durable_view;
mod effects;
mod endpoints;
mod ends;
mod errors;
mod explain;
mod flow_keys;
mod fork;
mod health;
mod heartbeat;
mod heartbeats;
mod history;
mod item_batch;
mod keys;
mod kinds;
mod lease;
mod limits;
mod logs;
mod metrics;
mod middleware;
mod next_stage;
mod openapi;
mod pauses;
mod plans_at_hand;
mod queue_counts;
mod queue_depths;
mod queue_limit;
mod queue_metrics;
mod queues;
mod read_share;
mod record;
mod records;
mod recovery;
mod reports;
mod retry;
mod routes;
mod run_view;
mod runs;
mod same_origin;
mod schedules;
mod session;
mod set_aside;
mod sight;
mod signals;
mod signing;
mod stages;
mod started;
mod starts;
mod steps;
mod submit;
mod token_grace;
mod translate;
mod waits;
mod workers;

pub use api_error::ApiError;
pub use app_state::{AppState, Timeouts};
pub use body::SlowBodyLimits;
pub(crate) use completed::report_item;
pub(crate) use lease::{push_envelope, seed_of};
pub(crate) use routes::router_of_metrics;
pub use routes::{Audience, PriorityClass, RateClass, Route, router, routes};
pub(crate) use same_origin::ConsoleHosts;
pub(crate) use session::code_path;
