//! Tests of the simulation itself, and of the system in many simulated worlds.

mod canary;
mod corpus;
mod determinism;
mod durable;
mod escrow;
mod scenarios;
mod two_committers;
mod worlds;
