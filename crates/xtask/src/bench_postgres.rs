//! `cargo xtask bench-postgres`: runs the benchmark against a private PostgreSQL server, which it starts and removes.
//!
//! The server is as durable as PostgreSQL is by default: every commit waits for the disk.

use std::path::Path;

use anyhow::Result;
use pgserver::Server;

use crate::steps;

/// Typical settings for a small machine. Durability is the default, and stated explicitly.
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
