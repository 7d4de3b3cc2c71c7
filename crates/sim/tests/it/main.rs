//! The simulation's own promises, and a thousand worlds.

mod canary;
mod corpus;
mod determinism;
mod worlds;
