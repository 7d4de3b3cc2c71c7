//! Integration tests of the store, one binary.

mod sqlite;
