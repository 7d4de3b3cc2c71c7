//! The coordinator's integration tests, in one binary.

mod aside;
mod backoff;
mod carry;
mod crowds;
mod faults;
mod faulty;
mod fellows;
mod harness;
mod http;
mod idle_polls;
mod lanes;
mod retention;
mod rules;
mod silence;
mod slowness;
mod spans;
mod waking;
