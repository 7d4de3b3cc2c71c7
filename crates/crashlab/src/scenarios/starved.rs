//! A disk that is full: refusals, nothing lost, and service goes on when there is room again.

use anyhow::{Result, bail, ensure};

use super::{Tally, Wishes};
use crate::chance::Chance;
use crate::site::Site;
use crate::storm::Storm;
use crate::waits::within;

/// A few dozen of these fill the disk.
const INPUT_BYTES: usize = 64 << 10;
/// Far more than fit.
const SUBMISSIONS_MAX: usize = 1_024;

pub(crate) async fn on_a_disk_that_is_full(wishes: &Wishes) -> Result<Tally> {
    let seed = wishes.seed ^ 0xf0;
    let mut chance = Chance::new(seed);
    let site = Site::new(&wishes.binary, wishes.mutant, &mut chance)?.on_small_disk()?;
    let mut storm = Storm::on(site, chance, seed)?;
    storm.load = storm.load.clone().with_bytes(INPUT_BYTES);
    storm.site.disk()?.lay_ballast()?;
    within("the disk to be full", fill(&storm)).await??;
    // Killed while there is no room, it comes back and still refuses or takes, but loses nothing.
    tokio::task::block_in_place(|| storm.kill(0, "on a full disk"))?;
    storm.site.disk()?.drop_ballast()?;
    tokio::task::block_in_place(|| storm.rise(0, None))?;
    let me = storm.load.as_who("client-full");
    let again = storm.load.insist(|| me.submit(storm.load.plain_run(), "after"));
    within("service to go on when there is room", again).await??;
    storm.load = storm.load.clone().with_bytes(0);
    storm.rage();
    storm.settle("full-disk", wishes).await
}

async fn fill(storm: &Storm) -> Result<()> {
    let me = storm.load.as_who("client-full");
    for n in 0..SUBMISSIONS_MAX {
        if let Err(error) = me.submit(storm.load.plain_run(), &format!("fill-{n}")).await {
            ensure!(error.status() == Some(503), "a full disk is a refusal: {error}");
            return Ok(());
        }
    }
    bail!("the disk is never full")
}
