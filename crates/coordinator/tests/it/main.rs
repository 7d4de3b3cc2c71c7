//! The coordinator's integration tests, in one binary.

mod carry;
mod faults;
mod faulty;
mod harness;
mod http;
