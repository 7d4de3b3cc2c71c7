//! Killed at every named place, and at any time.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use faultpoint::{POINTS, Point, Reached};
use rustix::process::Signal;
use wire::admin::CreateKey;

use super::storm::Storm;
use super::{PATIENCE, Tally, Wishes};

/// Of all kills, so many in a hundred fall at named places.
const PERCENT_AT_PLACES: usize = 75;
/// Small numbers kill a server that has hardly begun, large ones one that is busy.
const TIMES_MAX: u64 = 24;
/// What must have happened before a start can be interesting: there are leases to give time back to.
const EVENTS_FIRST: usize = 100;
/// How long a server lives that is killed at any time.
const LIFE_MS_MAX: u64 = 400;

pub(crate) async fn killed_at_every_place(wishes: &Wishes) -> Result<Tally> {
    let mut tally = Tally::default();
    let places: Vec<&Point> = POINTS.iter().filter(|point| is_of_a_server(point)).collect();
    let wanted = (wishes.kills * PERCENT_AT_PLACES / 100).max(places.len());
    for round in 0..wanted.div_ceil(places.len()) {
        let seed = wishes.seed.wrapping_add(round as u64);
        let mut storm = Storm::begin(wishes, seed)?;
        storm.rage();
        storm.further(EVENTS_FIRST).await?;
        tokio::task::block_in_place(|| storm.kill("to begin with"))?;
        for point in &places {
            die_at(&mut storm, point).await.with_context(|| format!("at {}", point.name))?;
        }
        tally.add(&storm.settle(&format!("points-{round}"), wishes).await?);
    }
    tally.points = places.len();
    Ok(tally)
}

fn is_of_a_server(point: &Point) -> bool {
    use Reached::{Administering, Serving, Starting, Stopping};
    matches!(point.reached, Serving | Starting | Stopping | Administering)
}

/// The server that runs is replaced by one that will die at the place, and what leads there is done.
async fn die_at(storm: &mut Storm, point: &Point) -> Result<()> {
    let time = match point.reached {
        Reached::Serving => 1 + storm.chance.below(TIMES_MAX),
        _ => 1,
    };
    let blow = format!("kill@{}#{time}", point.name);
    tokio::task::block_in_place(|| storm.rise(Some(&blow)))?;
    match point.reached {
        Reached::Stopping => storm.server()?.signal(Signal::TERM)?,
        Reached::Administering => administer(storm).await,
        _ => {}
    }
    let died = tokio::task::block_in_place(|| storm.server()?.wait_for_death(PATIENCE))?;
    let Some(status) = died else { bail!("{blow} was never reached") };
    if std::os::unix::process::ExitStatusExt::signal(&status) != Some(Signal::KILL.as_raw()) {
        bail!("{blow}: the server ended by itself, {status}");
    }
    storm.reached();
    tokio::task::block_in_place(|| storm.died(&blow))
}

async fn administer(storm: &Storm) {
    let name = Some("lab".to_owned());
    let wanted = CreateKey { name, roles: vec![wire::Role::Client], ..CreateKey::default() };
    // The server dies with the call; that nothing half-made is left is what verify looks at.
    let _ = storm.load.as_who("admin").client.create_key(&wanted).await;
}

pub(crate) async fn killed_at_any_time(wishes: &Wishes) -> Result<Tally> {
    let mut storm = Storm::begin(wishes, wishes.seed ^ 0x5eed)?;
    storm.rage();
    for _ in 0..(wishes.kills * (100 - PERCENT_AT_PLACES) / 100).max(1) {
        let life = Duration::from_millis(storm.chance.below(LIFE_MS_MAX));
        tokio::time::sleep(life).await;
        tokio::task::block_in_place(|| storm.kill("at any time"))?;
        tokio::task::block_in_place(|| storm.rise(None))?;
    }
    storm.settle("random", wishes).await
}
