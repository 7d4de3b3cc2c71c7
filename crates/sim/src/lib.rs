//! The whole system in one thread and one seed.
//!
//! ```text
//!   clients, workers ── network ──► hosts: the real routes, intake and carrier ──► memory engine
//!          ▲               │           │ crash, pause, drift                          │ refuse, stall,
//!          └───────────────┘           └── nemesis ────────────────────────────────────┘ lose a commit
//! ```
//!
//! What runs here is the coordinator of production: its routes, tokens, intake, carrier, sweeps and
//! hearing. Only what it is handed is simulated: time, randomness, transport and the store's disk. Each
//! host has a runtime of its own whose time stands still until the world moves it, so that a crash can
//! strike wherever something waits, a pause leaves one host behind, and clocks drift apart.
//!
//! [`run`] is a function of its seed: the same seed gives the same trace, byte for byte. A seed draws which
//! faults are on (`options`), breaks things for a while, then stops and wants everything to end. What
//! everybody was told becomes a history for the checker, and every row of the store must explain itself.
//! Seeds from a million on are about one thing each (`scenario`).

mod actor_context;
mod background_actors;
pub mod campaign;
mod client;
mod clock;
mod committer_faults;
pub mod coverage;
mod database;
mod decisions;
pub mod fault;
mod history;
mod host;
mod judge;
mod lateness;
mod lease;
pub mod log;
mod nemesis;
mod network;
mod options;
mod planted_bug;
mod rng;
mod run_spec;
pub mod scenario;
mod scopes;
mod store_faults;
mod worker;
mod worker_behaviour;
mod world;

pub use planted_bug::PlantedBug;
pub use scenario::Scenario;
pub use world::{DRAINED_WITHIN_MS, Outcome, is_fair_to_workers, run};
