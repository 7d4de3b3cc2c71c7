//! Kills at every named fault point, and at random times.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use faultpoint::{POINTS, Point, StoreKind, Trigger};
use rustix::process::Signal;

use super::{LabOptions, PERCENT_AT_PLACES, Tally};
use crate::crash_scenario::CrashScenario;
use crate::load::RETRY_DELAY;
use crate::recording_client::RecordingClient;

/// Small numbers kill a server that has just started, large ones a busy server.
const TIMES_MAX: u64 = 24;
/// Events to wait for before a restart is interesting: there must be leases to extend.
const EVENTS_FIRST: usize = 100;
/// Longest life of a server that is killed at a random time.
const LIFE_MS_MAX: u64 = 400;
/// This many kills without a lost answer mean that the experiment loses none.
const KILLS_MAX: usize = 1_000;

pub(crate) async fn killed_at_every_place(options: &LabOptions) -> Result<Tally> {
    let mut tally = Tally::default();
    let places = places(StoreKind::Sqlite);
    let wanted = (options.kills * PERCENT_AT_PLACES / 100).max(places.len());
    for round in 0..wanted.div_ceil(places.len()) {
        let seed = options.seed.wrapping_add(round as u64);
        let mut scenario = CrashScenario::begin(options, seed)?;
        scenario.start_load();
        scenario.wait_for_events(EVENTS_FIRST).await?;
        tokio::task::block_in_place(|| scenario.kill(0, "to begin with"))?;
        for point in &places {
            die_at(&mut scenario, 0, point).await.with_context(|| format!("at {}", point.name))?;
        }
        tally.add(&scenario.settle(&format!("points-{round}"), options).await?);
    }
    tally.points = places.len();
    Ok(tally)
}

/// The fault points at which a server over such a store can be killed.
pub(super) fn places(over: StoreKind) -> Vec<&'static Point> {
    use Trigger::{Administering, Serving, Starting, Stopping};
    let is_of_a_server = |point: &&Point| {
        matches!(point.trigger, Serving | Starting | Stopping | Administering)
            && (point.store == StoreKind::Any || point.store == over)
    };
    POINTS.iter().filter(is_of_a_server).collect()
}

/// Starts a server that will die at the fault point, and triggers the operation that reaches it.
pub(super) async fn die_at(scenario: &mut CrashScenario, at: usize, point: &Point) -> Result<()> {
    let time = match point.trigger {
        Trigger::Serving => 1 + scenario.rng.below(TIMES_MAX),
        _ => 1,
    };
    let fault_spec = format!("kill@{}#{time}", point.name);
    tokio::task::block_in_place(|| scenario.restart(at, Some(&fault_spec)))?;
    if point.trigger == Trigger::Stopping {
        scenario.server(at)?.signal(Signal::TERM)?;
    }
    let administering = (point.trigger == Trigger::Administering)
        .then(|| tokio::spawn(administer(scenario.load.at(at, "admin"))));
    let status = tokio::task::block_in_place(|| scenario.server(at)?.wait_for_death(&fault_spec));
    if let Some(administering) = administering {
        administering.abort();
    }
    let status = status?;
    if status.signal() != Some(Signal::KILL.as_raw()) {
        bail!("{fault_spec}: the server ended by itself, {status}");
    }
    scenario.reached();
    tokio::task::block_in_place(|| scenario.note_death(at, &fault_spec))
}

/// Creates keys until it is stopped. The server dies during one of the calls; `verify` checks that nothing incomplete
/// is left.
async fn administer(me: RecordingClient) {
    loop {
        let _ = me.client().keys().create([wire::Role::Client]).name("lab").await;
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

pub async fn killed_at_any_time(options: &LabOptions, wanted: usize) -> Result<Tally> {
    let mut scenario = CrashScenario::begin(options, options.seed ^ 0x5eed)?;
    scenario.start_load();
    let mut killed = 0;
    // It continues until an unanswered call was also retried: otherwise nothing was tested.
    while killed < wanted || (scenario.repeated().0 == 0 && killed < KILLS_MAX) {
        let life = Duration::from_millis(scenario.rng.below(LIFE_MS_MAX));
        tokio::time::sleep(life).await;
        tokio::task::block_in_place(|| scenario.kill(0, "at any time"))?;
        tokio::task::block_in_place(|| scenario.restart(0, None))?;
        killed += 1;
    }
    let (replayed, unanswered) = scenario.repeated();
    if replayed == 0 || unanswered == 0 {
        bail!("{killed} kills, and no answer was ever lost");
    }
    scenario.settle("random", options).await
}
