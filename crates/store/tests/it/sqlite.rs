//! What only the SQLite engine guarantees: files, locks, commits and power loss.

#![expect(clippy::unwrap_used, reason = "in what tests share, too, a panic is the report")]

mod basics;
mod checkpoints;
mod codec;
mod constraints;
mod disk;
mod in_place;
mod keys;
mod kind_queues;
mod nth_call;
mod opening;
mod plan_pack;
mod power;
mod retention;
mod run_codec;
mod run_pack;
mod run_tampering;
mod tables;
mod tampering;
mod test_coordinator;
mod vfs;
