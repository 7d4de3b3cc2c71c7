//! The client and the worker against a coordinator that misbehaves on purpose. The tests judge them
//! by the calls that this coordinator received.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report, in its helpers too")]

mod announcing;
mod authority;
mod batching;
mod cancelling;
mod client;
mod codec;
mod connections;
mod coordinator;
mod draining;
mod durable;
mod durable_calls;
mod failing;
mod heartbeats;
mod kinds;
mod lines;
mod log;
mod metrics;
mod resources;
mod roles;
mod runs;
mod stages;
mod starts;
mod submissions;
mod suspending;
mod tracing;
mod transport;
mod waits;
mod worker;
