//! Push: work is sent to endpoints that are registered for queues, for workers that cannot poll (R-23, S4-73).
//!
//! ```text
//!   endpoint with queues ─► claim ─► lease, as the worker `push:NAME` ─► sign, send ─► acknowledged, answered, handed back
//! ```
//!
//! A push is a poll that this coordinator makes for somebody else: grants, leases, attempts, fences and envelopes are those of
//! every worker. So the same rules decide, and nothing here knows a state of a task. [`dispatcher`] follows the registered
//! endpoints, a [`lane`] leases for one of them, and a [`call`] hands over one attempt.
//!
//! What a call cannot hand over is not sent again: the lease is handed back or runs out, and the next attempt is another one.

mod call;
mod claim;
pub(crate) mod dispatcher;
mod lane;
pub(crate) mod under_way;
