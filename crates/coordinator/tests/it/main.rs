//! The coordinator's integration tests, in one binary.

mod approval_crowds;
mod backoff;
mod carry;
mod crowds;
mod durable_peers;
mod faults;
mod faulty;
mod flow_attacks;
mod flow_keys;
mod harness;
mod http;
mod idle_polls;
mod late_effects;
mod messages;
mod peers;
mod retention;
mod rules;
mod schedule_crowds;
mod schedule_peers;
mod schedule_waking;
mod set_aside;
mod silence;
mod slowness;
mod spans;
mod two_carriers;
mod waking;
