//! Integration tests of the store, one binary.

mod conformance;
mod differential;
mod memory;
mod moving;
mod postgres;
mod proving;
mod sqlite;
mod states;
mod tables;
mod verifying;
