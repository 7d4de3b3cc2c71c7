//! Decides requests and commits their verdicts: a library that a program may embed, with an HTTP API.
//!
//! ```text
//!   http, admit   parse, limit, authenticate       (optional: embedders call [`Coordinator`])
//!       │  an Item with its scope
//!   intake        two bounded priority classes; what is waiting goes into the next batch
//!       │
//!   carry         load ─► decide ─► save ─► commit; grants and sweeps ride along
//!       │
//!   answer        each caller gets its own, only after the commit is durable
//! ```
//!
//! [`admit`], [`http`] and [`server`] need the cargo feature `http`, which is on by default. A program that embeds the
//! coordinator can disable it and build requests with [`requests`]; `examples/embed.rs` shows how.
//!
//! This crate contains no rules and no state that must not be lost: only waiting polls, wake-ups and caches. Clock,
//! randomness and transport are injected.

#[cfg(feature = "http")]
pub mod admit;
mod allowances;
#[cfg(feature = "http")]
mod announcements;
mod batch_metrics;
#[cfg(feature = "http")]
mod budget_alerts;
pub mod carry;
mod coordinator;
mod directory;
mod ended_feed;
pub mod engines;
pub mod forks;
#[cfg(feature = "http")]
pub mod http;
pub mod ids;
mod intake;
pub mod item;
pub mod metrics;
mod outbox;
mod plan_outputs;
mod preparing;
#[cfg(feature = "http")]
mod push;
mod recent_runs;
mod recovery;
pub mod requests;
pub mod retries;
pub mod schedules;
mod scope_budgets;
#[cfg(feature = "http")]
pub mod server;
mod set_aside;
mod spend_metrics;
mod subjects;
mod submit_defaults;
mod task_watch;
mod tenant_turns;
mod topologies;
pub mod trace;
#[cfg(not(feature = "http"))]
mod unsealed;
mod weight;
mod worker_build;
mod worker_signals;

#[cfg(feature = "http")]
pub(crate) use admit::seal::Sealer;
pub use coordinator::{Coordinator, Options, StopReason};
pub use ids::{Entropy, OsEntropy, SeededEntropy};
pub use intake::PriorityClass;
pub use item::{
    Answered, Granted, Outage, Poll, Reply, RequestError, Submission, UnavailableReason,
    WaitingPage, WaitingPolls, WaitingWorker,
};
#[cfg(feature = "http")]
pub use server::{Plaintext, ServeError, ServeOptions, Server, TlsFiles, serve};
pub use set_aside::SetAsideTask;
pub use submit_defaults::{FlowDefaults, PolicyDefaults, SubmitDefaults};
pub use task_watch::{Awaited, Occasion};
#[cfg(not(feature = "http"))]
pub(crate) use unsealed::Sealer;
pub use verdict::Retention;
pub use worker_build::WorkerBuild;
