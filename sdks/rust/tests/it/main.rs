//! The client and the worker against a coordinator that misbehaves on purpose. What they owe is proven
//! by what that coordinator received.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report, in its helpers too")]

mod authority;
mod batching;
mod cancelling;
mod client;
mod coordinator;
mod draining;
mod failing;
mod heartbeats;
mod log;
mod runs;
mod suspending;
mod tracing;
mod transport;
mod worker;
