//! Three coordinators over one database: one of them dies, or what they stand on does.

use std::time::Duration;

use anyhow::{Context, Result};
use faultpoint::{Over, Point};
use historyck::event::{DOWN, Phase};

use super::points::{die_at, places};
use super::{PERCENT_ON_A_DATABASE, Tally, Wishes};
use crate::chance::Chance;
use crate::load::LEASE_MS;
use crate::site::Site;
use crate::storm::Storm;

pub(super) const COORDINATORS: usize = 3;
/// Which of them dies at named places; the others go on, so that theirs are the locks and the load.
const VICTIM: usize = 2;
/// What must happen between two faults, so that each meets work in hand.
pub(super) const EVENTS_BETWEEN: usize = 60;
/// How long until the next one is killed at any time.
const LIFE_MS_MAX: u64 = 300;
/// How often sessions are cut, statements ended and tables held.
const CUTS: usize = 12;
/// Longer than a batch waits for a lock.
const LOCK_SECONDS: u32 = 3;
/// How often the database dies.
const FALLS: usize = 4;
/// How much longer than a lease it stays away; nobody may lose one for that.
const AWAY_MS_MAX: u64 = 1_500;

fn begin(wishes: &Wishes, salt: u64) -> Result<Storm> {
    let seed = wishes.seed ^ salt;
    let mut chance = Chance::new(seed);
    let site = Site::new(&wishes.binary, wishes.mutant, &mut chance)?;
    let site = site.on_a_database(COORDINATORS, &mut chance)?;
    let mut storm = Storm::on(site, chance, seed)?;
    storm.rage();
    Ok(storm)
}

/// Places that such a coordinator passes. The first key was made by the first of them all, and leases get time
/// back only when nobody listened, which does not happen while others do.
fn passed() -> Vec<&'static Point> {
    let is_passed = |point: &&Point| !point.name.starts_with("recover.");
    places(Over::Postgres).into_iter().filter(is_passed).collect()
}

pub(crate) async fn one_of_three_killed_at_every_place(wishes: &Wishes) -> Result<Tally> {
    let places = passed();
    let mut storm = begin(wishes, 0xdb01)?;
    storm.further(EVENTS_BETWEEN).await?;
    tokio::task::block_in_place(|| storm.kill(VICTIM, "to begin with"))?;
    let wanted = wishes.kills * PERCENT_ON_A_DATABASE / 200;
    for _ in 0..wanted.div_ceil(places.len()).max(1) {
        for point in &places {
            die_at(&mut storm, VICTIM, point)
                .await
                .with_context(|| format!("at {}", point.name))?;
        }
    }
    let tally = storm.settle("pg-points", wishes).await?;
    Ok(Tally { points: places.len(), ..tally })
}

pub(crate) async fn one_of_three_killed_at_any_time(wishes: &Wishes) -> Result<Tally> {
    let mut storm = begin(wishes, 0xdb02)?;
    for _ in 0..(wishes.kills * PERCENT_ON_A_DATABASE / 200).max(1) {
        let victim = storm.chance.below(COORDINATORS as u64) as usize;
        let life = Duration::from_millis(storm.chance.below(LIFE_MS_MAX));
        tokio::time::sleep(life).await;
        tokio::task::block_in_place(|| storm.kill(victim, "at any time"))?;
        tokio::task::block_in_place(|| storm.rise(victim, None))?;
    }
    storm.settle("pg-random", wishes).await
}

/// Every session ends, every statement takes too long, or a table is held by somebody else; in turn.
pub(crate) async fn sessions_cut_and_statements_ended(wishes: &Wishes) -> Result<Tally> {
    let mut storm = begin(wishes, 0xdb03)?;
    for n in 0..CUTS {
        storm.further(EVENTS_BETWEEN).await?;
        let fault = ["sessions cut", "statements ended", "table held"][n % 3];
        storm.note(fault, Phase::Begin, None);
        tokio::task::block_in_place(|| -> Result<()> {
            let database = storm.site.database()?;
            match n % 3 {
                0 => database.cut_connections(),
                1 => database.time_statements_out(),
                _ => database.hold_table(LOCK_SECONDS),
            }
        })?;
        tokio::task::block_in_place(|| storm.verify()).with_context(|| fault.to_owned())?;
        storm.all_still_run()?;
    }
    storm.settle("pg-cut", wishes).await
}

/// The database dies as if its power failed, stays away for a while, and comes back.
pub(crate) async fn killed_under_its_coordinators(wishes: &Wishes) -> Result<Tally> {
    let mut storm = begin(wishes, 0xdb04)?;
    for n in 0..FALLS {
        storm.further(EVENTS_BETWEEN).await?;
        storm.note(DOWN, Phase::Begin, Some("the database"));
        tokio::task::block_in_place(|| storm.site.database()?.fall())?;
        let away = Duration::from_millis(LEASE_MS + storm.chance.below(AWAY_MS_MAX));
        tokio::time::sleep(away).await;
        tokio::task::block_in_place(|| storm.site.database()?.rise())?;
        storm.note(DOWN, Phase::End, Some("the database"));
        storm.all_serve(&format!("fall-{n}")).await?;
        tokio::task::block_in_place(|| storm.verify()).context("after the database died")?;
    }
    storm.settle("pg-restart", wishes).await
}
