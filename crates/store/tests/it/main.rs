//! Integration tests of the store, one binary.

mod conformance;
mod memory;
mod sqlite;
