//! `tenure migrate`, killed at each of its fault points, from a file into a database and back. The old store is
//! unchanged, an unfinished new store is refused with a remedy, the remedy works, and the new store never has the
//! epoch of the old one.

use std::process::Output;

use anyhow::{Context, Result, ensure};
use faultpoint::{Point, StoreKind, Trigger};
use pgserver::Server;
use serde_json::Value;
use tokio::task::block_in_place;

use super::commands::{dies, places};
use super::{LabOptions, Tally};
use crate::crash_scenario::CrashScenario;
use crate::waits;

/// Enough for more than one page of tasks, so that the first page is not all of them.
const EVENTS_FIRST: usize = 1_200;

/// The error of a command whose database did not answer within seconds, which is normal on a busy machine.
const UNREACHABLE: &str = "no connection to the database";
const TRIES_MAX: usize = 20;

/// What a kill at a fault point leaves in place of the new store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing that prevents another try.
    Nothing,
    /// Not a store, and refused as such.
    Unfinished,
    /// The new store.
    Store,
}

impl Left {
    fn by(point: &Point, to: StoreKind) -> Left {
        match (point.name, to) {
            ("move.opened", _) | ("move.keys", StoreKind::Sqlite) => Left::Nothing,
            ("move.finished", _) => Left::Store,
            _ => Left::Unfinished,
        }
    }
}

pub(crate) async fn killed_while_moving(options: &LabOptions) -> Result<Tally> {
    let mut scenario = CrashScenario::begin(options, options.seed ^ 0x30)?;
    scenario.start_load();
    scenario.wait_for_events(EVENTS_FIRST).await?;
    let mut tally = scenario.settle("move", options).await?;
    let server = block_in_place(|| Server::builder().without_fsync().start())?;
    let moves = Moves { scenario: &scenario, server: &server };
    let killed = block_in_place(|| moves.there_and_back())?;
    tally.kills += killed;
    tally.points = places(Trigger::Moving).count();
    tally.verified += killed;
    Ok(tally)
}

/// The fault points that a move into such a store reaches.
fn passed(to: StoreKind) -> impl Iterator<Item = &'static Point> {
    places(Trigger::Moving).filter(move |point| [StoreKind::Any, to].contains(&point.store))
}

struct Moves<'s> {
    scenario: &'s CrashScenario,
    server: &'s Server,
}

impl Moves<'_> {
    /// Moves from a file into databases, and from the last of them into files.
    fn there_and_back(&self) -> Result<usize> {
        let first = self.scenario.cluster.store();
        let digest = self.digest(&first)?;
        let mut killed = 0;
        let mut last = first.clone();
        for (n, point) in passed(StoreKind::Postgres).enumerate() {
            last = self.database(&format!("moved{n}"))?;
            let experiment = Experiment { point, from: &first, to: &last, digest: &digest };
            let left = Left::by(point, StoreKind::Postgres);
            self.killed(&experiment, left)
                .with_context(|| format!("{} into a database", point.name))?;
            killed += 1;
        }
        for point in passed(StoreKind::Sqlite) {
            let file = self.scenario.cluster.path().join(format!("{}.db", point.name));
            let file = format!("sqlite:{}", file.display());
            let experiment = Experiment { point, from: &last, to: &file, digest: &digest };
            let left = Left::by(point, StoreKind::Sqlite);
            self.killed(&experiment, left)
                .with_context(|| format!("{} into a file", point.name))?;
            killed += 1;
        }
        for store in [&first, &last] {
            ensure!(self.digest(store)? == digest, "{store} was changed by being copied");
            self.still_serves(store)?;
        }
        Ok(killed)
    }

    fn database(&self, name: &str) -> Result<String> {
        self.server.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.server.url(name))
    }

    fn killed(&self, experiment: &Experiment<'_>, left: Left) -> Result<()> {
        let Experiment { point, from, to, digest } = *experiment;
        let before = self.epoch(from)?;
        let arguments = ["migrate", "--json", "--from", from, "--to", to];
        self.dies(&arguments, point)?;
        self.scenario.cluster.verify_store(from).context("the old store")?;
        let again = self.run(&arguments)?;
        let arrived = match left {
            Left::Nothing => members(&again)?["digest"].clone(),
            Left::Unfinished => {
                refused(&again, "copy_interrupted")?;
                let served = self.run(&["serve", "--listen", "127.0.0.1:0", "--store", to])?;
                refused(&served, "copy_interrupted")?;
                let moved = self.run(&[&arguments[..], &["--discard"]].concat())?;
                members(&moved)?["digest"].clone()
            }
            Left::Store => {
                refused(&again, "store_not_empty")?;
                self.digest(to)?
            }
        };
        ensure!(arrived == *digest, "another digest: {arrived}");
        self.scenario.cluster.verify_store(to).context("the new store")?;
        let (old, new) = (self.epoch(from)?, self.epoch(to)?);
        ensure!(old == before, "the old store had epoch {before} and has {old}");
        ensure!(new > old, "epoch {new} does not follow {old}");
        Ok(())
    }

    /// Checks that a server on this store finds all tasks and shuts down when asked.
    fn still_serves(&self, store: &str) -> Result<()> {
        let cluster = &self.scenario.cluster;
        let mut server =
            cluster.start_on(&cluster.listen[0], store, None)?.expect_ready(cluster)?;
        server.signal(rustix::process::Signal::TERM)?;
        let ended = server.wait_for_death("a server that has nothing to do")?;
        ensure!(ended.success(), "{store} is served no more: {ended}");
        Ok(())
    }

    /// The epoch of a store.
    fn epoch(&self, store: &str) -> Result<u64> {
        if let Some((_, name)) =
            store.strip_prefix("postgres:").and_then(|url| url.rsplit_once('/'))
        {
            return Ok(self.server.sql(name, "SELECT epoch FROM tenure.meta")?.trim().parse()?);
        }
        let copied = self.run(&["backup", "epoch.db", "--force", "--json", "--store", store])?;
        members(&copied)?["epoch"].as_u64().context("a backup says its epoch")
    }

    /// A digest of a store's contents.
    fn digest(&self, store: &str) -> Result<Value> {
        let nowhere = "sqlite:nowhere.db";
        let counted =
            self.run(&["migrate", "--dry-run", "--json", "--from", store, "--to", nowhere])?;
        Ok(members(&counted)?["digest"].clone())
    }

    /// Runs a command that is killed at the fault point. If the connection fails before that point, it discards the
    /// unfinished target and starts again.
    fn dies(&self, arguments: &[&str], point: &Point) -> Result<()> {
        let arguments = [arguments, &["--discard"]].concat();
        let mut died = dies(self.scenario, &arguments, point, None);
        for _ in 1..TRIES_MAX {
            match died {
                Err(error) if error.to_string().contains(UNREACHABLE) => {
                    died = dies(self.scenario, &arguments, point, None);
                }
                _ => break,
            }
        }
        died
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        let mut ran = waits::run(&mut self.scenario.cluster.tenure(arguments, None))?;
        for _ in 1..TRIES_MAX {
            if !String::from_utf8_lossy(&ran.stderr).contains(UNREACHABLE) {
                break;
            }
            ran = waits::run(&mut self.scenario.cluster.tenure(arguments, None))?;
        }
        Ok(ran)
    }
}

/// One move that is killed.
#[derive(Clone, Copy)]
struct Experiment<'e> {
    point: &'e Point,
    from: &'e str,
    to: &'e str,
    /// The digest of the old store.
    digest: &'e Value,
}

fn members(ran: &Output) -> Result<Value> {
    ensure!(ran.status.success(), "it failed: {}", String::from_utf8_lossy(&ran.stderr));
    Ok(serde_json::from_slice(&ran.stdout)?)
}

fn refused(ran: &Output, code: &str) -> Result<()> {
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(!ran.status.success() && said.contains(code), "not refused with {code}: {said}");
    Ok(())
}
