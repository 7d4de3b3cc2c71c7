//! The experiments. Each starts a place of its own, breaks it, and has its history judged.

mod commands;
pub(crate) mod failover;
mod outages;
mod points;
mod starved;
mod storm;

use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use anyhow::Result;

/// What is asked of every experiment.
#[derive(Clone, Debug)]
pub(crate) struct Wishes {
    pub(crate) binary: PathBuf,
    pub(crate) kills: usize,
    pub(crate) mutant: Option<u8>,
    pub(crate) keep: PathBuf,
    pub(crate) seed: u64,
}

/// What an experiment did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) kills: usize,
    pub(crate) points: usize,
    pub(crate) runs: usize,
    pub(crate) events: usize,
    pub(crate) unanswered: usize,
    pub(crate) verified: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.kills += other.kills;
        self.points += other.points;
        self.runs += other.runs;
        self.events += other.events;
        self.unanswered += other.unanswered;
        self.verified += other.verified;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { kills, points, runs, events, unanswered, verified } = self;
        write!(
            f,
            "{kills:4} kills at {points:2} places, {runs:5} runs, {events:6} events checked, "
        )?;
        write!(f, "{unanswered:4} calls unanswered, {verified:4} stores verified")
    }
}

type Future<'w> = Pin<Box<dyn std::future::Future<Output = Result<Tally>> + 'w>>;
type Scenario = for<'w> fn(&'w Wishes) -> Future<'w>;

/// Adding an experiment is a function and a row.
pub(crate) const SCENARIOS: &[(&str, Scenario)] = &[
    ("points", |wishes| Box::pin(points::killed_at_every_place(wishes))),
    ("random", |wishes| Box::pin(points::killed_at_any_time(wishes))),
    ("commands", |wishes| Box::pin(commands::killed_while_copying_and_forgetting(wishes))),
    ("paused", |wishes| Box::pin(outages::stopped_for_longer_than_a_lease(wishes))),
    ("outage", |wishes| Box::pin(outages::down_for_longer_than_a_lease(wishes))),
    ("full-disk", |wishes| Box::pin(starved::on_a_disk_that_is_full(wishes))),
];

/// Only an experiment that fails waits for this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
