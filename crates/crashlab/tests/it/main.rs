//! Several coordinators over one PostgreSQL database: it fails over, they join and leave. The lab itself judges; this
//! is the short run for every change. `cargo xtask failover --times 20` runs more of the same.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::path::Path;
use std::process::Command;

/// Runs one part of the lab with the server that was built with it, and returns its output.
fn lab(only: &str, failovers: u32) -> String {
    let crashlab = Path::new(env!("CARGO_BIN_EXE_crashlab"));
    let server = crashlab.with_file_name("tenure");
    assert!(server.exists(), "build the server first: cargo build --package tenure");
    let keep = tempfile::tempdir().unwrap().keep();
    let ran = Command::new(crashlab)
        .args(["--only", only, "--failovers", &failovers.to_string(), "--binary"])
        .arg(server)
        .arg("--keep")
        .arg(&keep)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}\nhistories are in {}", keep.display());
    std::fs::remove_dir_all(keep).unwrap();
    said
}

#[test]
fn no_acknowledged_write_and_no_lease_is_lost_with_a_synchronous_standby() {
    // S2-108, S3-60: three failovers under load; every acknowledged write is present, decided once, and verified.
    let said = lab("synchronous", 3);
    assert!(said.contains("nothing acknowledged was lost"), "{said}");
    assert_eq!(said.matches("promoted after").count(), 3, "{said}");
    for judged in ["runs are read", "events are judged", "tasks are verified"] {
        assert!(said.contains(judged), "{said}");
    }
}

#[test]
fn what_an_asynchronous_standby_loses_is_counted_and_no_fence_is_given_twice() {
    // S3-24: leases from before a failover that lost commits are void.
    let said = lab("asynchronous", 1);
    assert!(said.contains("submissions and") && said.contains("results lost of"), "{said}");
}

#[test]
fn coordinators_come_and_go_and_no_worker_of_the_sdk_sees_an_error() {
    // S2-104: each is restarted under load, then each is killed.
    let said = lab("rolling", 1);
    assert!(said.contains("no worker saw an error"), "{said}");
}

#[test]
fn one_joins_one_leaves_and_one_dies_under_load() {
    // S2-104, S3-60: a coordinator that joins grants leases at once; one that leaves or dies loses nothing.
    let said = lab("joining", 1);
    assert!(said.contains("the newcomer took its share"), "{said}");
}
