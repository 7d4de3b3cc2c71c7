//! Killed at every named place, and at any time.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use faultpoint::{Over, POINTS, Point, Reached};
use rustix::process::Signal;
use wire::admin::CreateKey;

use super::{PERCENT_AT_PLACES, Tally, Wishes};
use crate::load::REST;
use crate::recorded::Recorded;
use crate::storm::Storm;

/// Small numbers kill a server that has hardly begun, large ones one that is busy.
const TIMES_MAX: u64 = 24;
/// What must have happened before a start can be interesting: there are leases to give time back to.
const EVENTS_FIRST: usize = 100;
/// How long a server lives that is killed at any time.
const LIFE_MS_MAX: u64 = 400;
/// So many kills that lose no answer mean that no answers are lost at all.
const KILLS_MAX: usize = 1_000;

pub(crate) async fn killed_at_every_place(wishes: &Wishes) -> Result<Tally> {
    let mut tally = Tally::default();
    let places = places(Over::Sqlite);
    let wanted = (wishes.kills * PERCENT_AT_PLACES / 100).max(places.len());
    for round in 0..wanted.div_ceil(places.len()) {
        let seed = wishes.seed.wrapping_add(round as u64);
        let mut storm = Storm::begin(wishes, seed)?;
        storm.rage();
        storm.further(EVENTS_FIRST).await?;
        tokio::task::block_in_place(|| storm.kill(0, "to begin with"))?;
        for point in &places {
            die_at(&mut storm, 0, point).await.with_context(|| format!("at {}", point.name))?;
        }
        tally.add(&storm.settle(&format!("points-{round}"), wishes).await?);
    }
    tally.points = places.len();
    Ok(tally)
}

/// Where a server over such a store can be made to die.
pub(super) fn places(over: Over) -> Vec<&'static Point> {
    use Reached::{Administering, Serving, Starting, Stopping};
    let is_of_a_server = |point: &&Point| {
        matches!(point.reached, Serving | Starting | Stopping | Administering)
            && (point.over == Over::Any || point.over == over)
    };
    POINTS.iter().filter(is_of_a_server).collect()
}

/// Starts a server that will die at the place, and does what leads there.
pub(super) async fn die_at(storm: &mut Storm, at: usize, point: &Point) -> Result<()> {
    let time = match point.reached {
        Reached::Serving => 1 + storm.chance.below(TIMES_MAX),
        _ => 1,
    };
    let blow = format!("kill@{}#{time}", point.name);
    tokio::task::block_in_place(|| storm.rise(at, Some(&blow)))?;
    if point.reached == Reached::Stopping {
        storm.server(at)?.signal(Signal::TERM)?;
    }
    let administering = (point.reached == Reached::Administering)
        .then(|| tokio::spawn(administer(storm.load.at(at, "admin"))));
    let status = tokio::task::block_in_place(|| storm.server(at)?.wait_for_death(&blow));
    if let Some(administering) = administering {
        administering.abort();
    }
    let status = status?;
    if status.signal() != Some(Signal::KILL.as_raw()) {
        bail!("{blow}: the server ended by itself, {status}");
    }
    storm.reached();
    tokio::task::block_in_place(|| storm.died(at, &blow))
}

/// Makes keys until somebody ends it. The server dies with one of the calls; that nothing half-made is left is
/// what verify looks at.
async fn administer(me: Recorded) {
    let name = Some("lab".to_owned());
    let wanted = CreateKey { name, roles: vec![wire::Role::Client], ..CreateKey::default() };
    loop {
        let _ = me.client().create_key(&wanted).await;
        tokio::time::sleep(REST).await;
    }
}

pub async fn killed_at_any_time(wishes: &Wishes, wanted: usize) -> Result<Tally> {
    let mut storm = Storm::begin(wishes, wishes.seed ^ 0x5eed)?;
    storm.rage();
    let mut killed = 0;
    // Until a call that nobody answered was made again, too: else nothing was tested.
    while killed < wanted || (storm.repeated().0 == 0 && killed < KILLS_MAX) {
        let life = Duration::from_millis(storm.chance.below(LIFE_MS_MAX));
        tokio::time::sleep(life).await;
        tokio::task::block_in_place(|| storm.kill(0, "at any time"))?;
        tokio::task::block_in_place(|| storm.rise(0, None))?;
        killed += 1;
    }
    let (replayed, unanswered) = storm.repeated();
    if replayed == 0 || unanswered == 0 {
        bail!("{killed} kills, and no answer was ever lost");
    }
    storm.settle("random", wishes).await
}
