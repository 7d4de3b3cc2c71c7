//! The simulation's own promises, and many worlds.

mod canary;
mod corpus;
mod determinism;
mod scenarios;
mod two_committers;
mod worlds;
