//! The server is killed, asked to stop, or suspended, always under load; its answers stay true and
//! its grants stay valid.
//!
//! The experiments are those of the crash lab, on the binary that people use. The results are
//! judged by `historyck`, which sees every call, every answer and every decision, and by `tenure
//! verify`.

use std::path::PathBuf;

use crashlab::scenarios::{asked_to_stop, killed_at_any_time, stopped_for_longer_than_a_lease};
use crashlab::{LabOptions, Tally};

/// The environment variable that repeats a seed.
const SEED: &str = "TENURE_CRASH_SEED";

/// The lab kills far more often, and at named fault points.
const KILLS: usize = 12;

fn options() -> LabOptions {
    let seed = match std::env::var(SEED) {
        Ok(text) => text.parse().expect("a seed is a number"),
        Err(_) => getrandom::u64().unwrap(),
    };
    LabOptions {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_tenure")),
        kills: KILLS,
        mutant: None,
        keep: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        seed,
    }
}

/// Returns what an experiment did, or fails with the command that repeats it.
fn expect_passed(options: &LabOptions, tried: Result<Tally, crashlab::Error>) -> Tally {
    tried.unwrap_or_else(|error| panic!("with {SEED}={}: {error:#}", options.seed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f01_f03_killed_again_and_again_it_forgets_nothing_it_acknowledged() {
    // Proves: S2-106: all memory is lost at any moment, and every answer and grant was on disk before it was sent.
    // S2-104, S2-105, W-20. S2-43,
    // S2-56, S2-100, S2-103: every accepted run is granted until it ends, even one whose worker
    // went silent or whose grant was lost with a dying server. S0-48: another worker takes over.
    // S3-53, S3-62: lost answers are requested again and are the recorded ones. S2-44, S0-46,
    // S0-47, S2-111: completion is recorded once, and no late report changes it. S2-112, S2-113:
    // attempts, fences and times only grow, whichever server wrote them. S2-114, W-5: every ended
    // run has its record. S2-115: no submission created a second run. S3-11: a late report is
    // answered CANCELLED.
    let options = options();
    let tally = expect_passed(&options, killed_at_any_time(&options, KILLS).await);
    assert!(tally.kills >= KILLS && tally.unanswered > 0 && tally.runs > 0, "{tally}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f11_asked_to_stop_under_load_it_drains_and_keeps_every_lease() {
    // S2-106: leases are in the store; no other worker gets one, and their workers continue after
    // the restart.
    let options = options();
    let tally = expect_passed(&options, asked_to_stop(&options).await);
    assert!(tally.runs > 0, "{tally}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f09_stopped_for_longer_than_a_lease_it_costs_no_honest_worker_its_lease() {
    // S0-48, S2-100: but no lease lasts for ever; workers that go silent are replaced under the
    // same load.
    let options = options();
    let tally = expect_passed(&options, stopped_for_longer_than_a_lease(&options).await);
    assert!(tally.runs > 0, "{tally}");
}
