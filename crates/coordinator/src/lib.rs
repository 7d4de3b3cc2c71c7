//! Carries requests to verdicts: a library that a program may embed, with an HTTP door.
//!
//! ```text
//!   http, admit   parse, limit, authenticate       (optional: embedders call [`Coordinator`])
//!       │  an Item with its scope
//!   intake        two bounded lanes; what is waiting goes into the next batch
//!       │
//!   carry         load ─► decide ─► save ─► commit; grants and sweeps ride along
//!       │
//!   answer        each caller gets its own, only after the commit is durable
//! ```
//!
//! No rule lives here, and no state that could not be lost: waiting polls, wake-ups and caches.
//! Clock, randomness and transport come in from outside.

pub mod admit;
mod allowances;
mod aside;
pub mod carry;
mod coordinator;
pub mod http;
pub mod ids;
mod intake;
pub mod item;
pub mod metrics;
pub mod server;
mod tally;
pub mod trace;
mod watch;

pub use aside::Case;
pub use coordinator::{Coordinator, Ended, Host, Options};
pub use ids::{Entropy, OsEntropy, SeededEntropy};
pub use item::{Answered, Granted, Outage, Poll, Reply, Shortage, Submission, Trouble};
pub use server::{Plaintext, ServeError, ServeOptions, Server, TlsFiles, serve};
pub use verdict::Retention;
