//! The experiments. Each one starts a cluster, breaks it, and has its history judged.

mod clocks;
mod commands;
mod database;
mod durable;
mod effects;
pub mod failover;
mod full_disk;
mod moving;
mod outages;
mod pg_effects;
mod points;
mod topologies;

use std::path::PathBuf;
use std::pin::Pin;

use anyhow::Result;

pub use outages::{asked_to_stop, stopped_for_longer_than_a_lease};
pub use points::killed_at_any_time;

/// The options of every experiment.
#[derive(Clone, Debug)]
pub struct LabOptions {
    pub binary: PathBuf,
    /// How many kills, over all experiments.
    pub kills: usize,
    pub mutant: Option<u8>,
    /// Folder for histories that violate an invariant.
    pub keep: PathBuf,
    pub seed: u64,
}

/// The counts of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub kills: usize,
    pub points: usize,
    pub runs: usize,
    pub events: usize,
    pub unanswered: usize,
    pub verified: usize,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
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
type ScenarioFn = for<'w> fn(&'w LabOptions) -> Future<'w>;

/// To add an experiment, write a function and add a row.
pub const SCENARIOS: &[(&str, ScenarioFn)] = &[
    ("points", |options| Box::pin(points::killed_at_every_place(options))),
    ("random", |options| Box::pin(points::killed_at_any_time(options, share(options)))),
    ("commands", |options| Box::pin(commands::killed_while_copying_and_forgetting(options))),
    ("move", |options| Box::pin(moving::killed_while_moving(options))),
    ("stop", |options| Box::pin(outages::asked_to_stop(options))),
    ("paused", |options| Box::pin(outages::stopped_for_longer_than_a_lease(options))),
    ("outage", |options| Box::pin(outages::down_for_longer_than_a_lease(options))),
    ("full-disk", |options| Box::pin(full_disk::on_a_disk_that_is_full(options))),
    ("effects", |options| Box::pin(effects::killed_while_delivering(options))),
    ("durable", |options| Box::pin(durable::killed_at_every_place(options))),
    ("topologies", |options| Box::pin(topologies::killed_at_every_place(options))),
    ("pg-durable", |options| Box::pin(durable::one_of_three_killed_at_every_place(options))),
    ("pg-effects", |options| Box::pin(pg_effects::one_of_three_killed_while_delivering(options))),
    ("pg-topologies", |options| Box::pin(topologies::one_of_three_killed_at_every_place(options))),
    ("pg-points", |options| Box::pin(database::one_of_three_killed_at_every_place(options))),
    ("pg-random", |options| Box::pin(database::one_of_three_killed_at_any_time(options))),
    ("pg-cut", |options| Box::pin(database::sessions_cut_and_statements_ended(options))),
    ("pg-clocks", |options| Box::pin(clocks::that_jump_on_one_of_three(options))),
    ("pg-restart", |options| Box::pin(database::killed_under_its_coordinators(options))),
];

fn share(options: &LabOptions) -> usize {
    (options.kills * PERCENT_AT_ANY_TIME / 100).max(1)
}

/// Percentage of all kills that happen at named fault points of a server with a file, ...
const PERCENT_AT_PLACES: usize = 60;
/// ... at random times, ...
const PERCENT_AT_ANY_TIME: usize = 20;
/// ... and on one of three servers with a database, half of them at named fault points.
const PERCENT_ON_A_DATABASE: usize = 20;
