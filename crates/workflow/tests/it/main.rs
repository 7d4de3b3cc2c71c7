//! The engine from outside: functions driven in memory, crashed, changed and replayed.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report, in its helpers too")]

mod approvals;
mod changes;
mod crashes;
mod determinism;
mod joins;
mod misuse;
mod operations;
mod program;
mod savepoints;
mod vectors;
