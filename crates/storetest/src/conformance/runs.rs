//! Durable runs: what an engine loads and stores of them.
//!
//! [`family`] carries requests and the messages that follow from them, and compares what the engine loads for each with
//! the reference of the rules ([`verdict::run::Records`]). Every scenario ends with `verify`.

pub mod budgets;
pub mod builds;
pub mod checkpoints;
pub mod children;
pub mod family;
pub mod forks;
pub mod life;
pub mod messages;
pub mod plans;
pub mod sample;
pub mod stages;
pub mod waits;
