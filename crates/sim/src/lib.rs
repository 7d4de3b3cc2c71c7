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
//! Seeds from a million on are about one thing each (`setting`).

mod bystander;
pub mod campaign;
mod client;
mod clock;
mod conduct;
mod database;
mod decisions;
mod dice;
pub mod fault;
mod history;
mod host;
mod judge;
mod lateness;
mod lease;
pub mod log;
pub mod mark;
mod nemesis;
mod network;
mod options;
mod order;
mod plant;
mod scopes;
mod seat;
pub mod setting;
mod stage;
mod weather;
mod worker;
mod world;

pub use plant::Plant;
pub use setting::Setting;
pub use world::{DRAINED_WITHIN_MS, Outcome, is_fair_to_workers, run};
