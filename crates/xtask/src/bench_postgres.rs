//! `cargo xtask bench-postgres`: the benchmark against a PostgreSQL server of its own, started for it and removed
//! afterwards.
//!
//! As durable as PostgreSQL is by default: every commit waits for the disk.

use std::path::Path;

use anyhow::Result;
use pgserver::Server;

use crate::steps;

/// What an operator of a small machine would set. Durability is the default's, and said all the same.
const SETTINGS: [(&str, &str); 5] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("shared_buffers", "512MB"),
    ("max_wal_size", "4GB"),
];

pub(crate) fn run(root: &Path, more: &[&str]) -> Result<()> {
    let server = SETTINGS.iter().fold(Server::builder(), |it, (name, value)| it.set(name, value));
    let server = server.start()?;
    let url = server.url("postgres");
    let bench = ["run", "--release", "--package", "tenure", "--", "bench", "--store", &url];
    steps::cargo(root, &[&bench, more].concat())
}
