//! Simulates the whole system in one thread, from one seed.
//!
//! ```text
//!   clients, workers ── network ──► hosts: the real routes, intake and carrier ──► memory engine
//!          ▲               │           │ crash, pause, drift                          │ refuse, stall,
//!          └───────────────┘           └── nemesis ────────────────────────────────────┘ lose a commit
//! ```
//!
//! This is the production coordinator: its routes, tokens, intake, carrier, sweeps and stall detection. Only its
//! inputs are simulated: time, randomness, transport and the store's disk. Each host has a separate runtime whose
//! time advances only when the world advances it. So a crash can occur at any await point, a pause leaves one host
//! behind, and clocks drift apart.
//!
//! [`run`] is a function of its seed: the same seed produces the same trace, byte for byte. A seed draws which faults
//! are enabled (`options`). The world injects them for a while, then stops and requires everything to end. All calls
//! and answers become a history for the checker, and every row of the store must be consistent with its history. Each
//! million of seeds from 1,000,000 on is one scenario (`scenario`).

mod actor_context;
mod background_actors;
pub mod campaign;
mod client;
mod clock;
mod committer_faults;
pub mod coverage;
mod database;
mod decisions;
mod deployments;
mod durable;
mod durable_bugs;
mod escrow;
pub mod fault;
mod flows;
mod history;
mod host;
mod judge;
mod lateness;
mod lease;
pub mod log;
mod nemesis;
mod network;
mod options;
mod people;
mod planted_bug;
mod program;
mod recovery;
mod rng;
mod run_spec;
pub mod scenario;
mod schedules;
mod scopes;
mod store_faults;
mod worker;
mod worker_behaviour;
mod world;

pub use planted_bug::PlantedBug;
pub use scenario::Scenario;
pub use world::{DRAINED_WITHIN_MS, Outcome, is_fair_to_workers, run};
