//! The HTTP API over a real loopback socket, on both engines.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a panic in a test is its report")]

mod answers;
mod apart;
mod approvals;
mod audit;
mod batches;
mod cancels;
mod database;
mod delivery;
mod documents;
mod durable;
mod durable_children;
mod durable_waits;
mod embedding;
mod explains;
mod filters;
mod hostile_input;
mod hostile_transport;
mod keys;
mod limits;
mod lists;
mod liveness;
mod matrix;
mod metrics;
mod outages;
mod pauses;
mod plans;
mod principals;
mod queue_limits;
mod reads;
mod retries;
mod routes;
mod scenarios;
mod scraping;
mod seats;
mod secure;
mod serving;
mod shared;
mod signing;
mod submits;
mod test_server;
mod tokens;
mod traces;
mod worker_behaviour;
mod workers;
