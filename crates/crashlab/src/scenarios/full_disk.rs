//! A full disk: writes are refused, nothing is lost, and service resumes when there is space again.

use anyhow::{Result, bail, ensure};

use super::{LabOptions, Tally};
use crate::crash_scenario::CrashScenario;
use crate::rng::SeededRng;
use crate::test_cluster::TestCluster;
use crate::waits::within;

/// A few dozen of these fill the disk.
const INPUT_BYTES: usize = 64 << 10;
/// Far more than fit on the disk.
const SUBMISSIONS_MAX: usize = 1_024;

pub(crate) async fn on_a_disk_that_is_full(options: &LabOptions) -> Result<Tally> {
    let seed = options.seed ^ 0xf0;
    let mut rng = SeededRng::new(seed);
    let cluster = TestCluster::new(&options.binary, options.mutant, &mut rng)?.on_small_disk()?;
    let mut scenario = CrashScenario::on(cluster, rng, seed)?;
    scenario.load = scenario.load.clone().with_bytes(INPUT_BYTES);
    scenario.cluster.disk()?.lay_ballast()?;
    within("the disk to be full", fill(&scenario)).await??;
    // Killed while the disk is full, it restarts and may refuse or accept, but loses nothing.
    tokio::task::block_in_place(|| scenario.kill(0, "on a full disk"))?;
    scenario.cluster.disk()?.drop_ballast()?;
    tokio::task::block_in_place(|| scenario.restart(0, None))?;
    let me = scenario.load.recording_as("client-full");
    let again = scenario.load.retry_until_decided(|| me.submit(scenario.load.plain_run(), "after"));
    within("service to go on when there is room", again).await??;
    scenario.load = scenario.load.clone().with_bytes(0);
    scenario.start_load();
    scenario.settle("full-disk", options).await
}

async fn fill(scenario: &CrashScenario) -> Result<()> {
    let me = scenario.load.recording_as("client-full");
    for n in 0..SUBMISSIONS_MAX {
        if let Err(error) = me.submit(scenario.load.plain_run(), &format!("fill-{n}")).await {
            ensure!(error.status() == Some(503), "a full disk is a refusal: {error}");
            return Ok(());
        }
    }
    bail!("the disk is never full")
}
