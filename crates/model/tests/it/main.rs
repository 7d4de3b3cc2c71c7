//! The rules hold in every state of every small world, and the checker finds rules that do not.
#![expect(clippy::unwrap_used, reason = "a test fails where it is surprised")]

mod debounce;
mod escrow;
mod exploration;
mod firing;
mod flow;
mod plans;
mod planted;
mod runs;
