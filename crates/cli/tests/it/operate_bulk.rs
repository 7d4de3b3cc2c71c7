//! Cancelling many runs at once, and never more than intended.

use serde_json::Value;

use crate::home::{Home, Process};

fn states(home: &Home, queue: &str) -> Vec<String> {
    let runs = home.json(&["runs", "list", "--json", "--queue", queue]);
    let state = |run: &Value| run["state"].as_str().unwrap().to_owned();
    runs.as_array().unwrap().iter().map(state).collect()
}

#[test]
fn a_dry_run_says_what_would_happen_and_does_nothing() {
    let home = Home::new();
    let _server = home.serve();
    for _ in 0..12 {
        home.submit(&["k", "--queue", "q"]);
    }
    let ran = home.run(&["runs", "cancel", "--queue", "q", "--dry-run"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("… and 2 others"), "{ran:?}");
    assert!(ran.stdout.contains("would cancel 12 runs; nothing was done"), "{ran:?}");
    assert!(states(&home, "q").iter().all(|state| state == "queued"));
}

#[test]
fn only_what_matches_every_filter_is_cancelled() {
    let home = Home::new();
    let _server = home.serve();
    for n in ["1", "2"] {
        let label = format!("n={n}");
        home.submit(&["resize", "--queue", "q", "--label", &label]);
        home.submit(&["other", "--queue", "q", "--label", &label]);
        home.submit(&["resize", "--queue", "p", "--label", &label]);
    }
    let arguments = ["runs", "cancel", "--json", "--yes", "--queue", "q"];
    let one = home.json(&[&arguments[..], &["--kind", "resize", "--label", "n=1"]].concat());
    assert_eq!((one["cancelled"].as_u64(), one["matched"].as_array().unwrap().len()), (Some(1), 1));
    assert_eq!(states(&home, "q").iter().filter(|state| *state == "cancelled").count(), 1);
    let rest = home.json(&[&arguments[..], &["--state", "queued"]].concat());
    assert_eq!(rest["cancelled"], 3);
    assert!(states(&home, "q").iter().all(|state| state == "cancelled"));
    assert!(states(&home, "p").iter().all(|state| state == "queued"), "the other queue stays");
}

#[test]
fn what_waits_is_cancelled_before_what_runs_and_never_starts() {
    // A run that is cancelled frees the slot of its key: nothing that is to be cancelled as well may take it.
    let home = Home::new();
    let _server = home.serve();
    let worker =
        ["work", "--json", "--queue", "q", "--concurrency", "4", "--exec", "sleep", "--", "600"];
    let _worker = Process::start(home.tenure(&worker));
    let submit = || home.submit(&["k", "--queue", "q", "--flow", "one=1"]);
    let first = submit();
    home.until(&first, "the start", |run| run["state"] == "running");
    let parked: Vec<String> = (0..20).map(|_| submit()).collect();
    let outcome = home.json(&["runs", "cancel", "--json", "--yes", "--force", "--queue", "q"]);
    assert_eq!(outcome["cancelled"], 21, "{outcome}");
    for run in parked {
        let run = home.run_view(&run);
        assert_eq!((&run["state"], &run["attempt"]), (&"cancelled".into(), &0.into()), "{run}");
    }
}

#[test]
fn what_runs_is_asked_to_stop_and_what_waits_ends() {
    // S2-23: a waiting run ends at once; a running one gets the signal with its next heartbeat.
    let home = Home::new();
    let _server = home.serve();
    let worker = ["work", "--json", "--queue", "q", "--exec", "sleep", "--", "600"];
    let _worker = Process::start(home.tenure(&worker));
    let first = home.submit(&["k", "--queue", "q", "--lease-ms", "20000", "--heartbeat-ms", "500"]);
    home.until(&first, "the start", |run| run["state"] == "running");
    home.submit(&["k", "--queue", "q", "--delay", "1h"]);
    let outcome = home.json(&["runs", "cancel", "--json", "--yes", "--queue", "q"]);
    assert_eq!((outcome["asked"].as_u64(), outcome["cancelled"].as_u64()), (Some(1), Some(1)));
    assert_eq!(home.ended(&first)["state"], "cancelled");
}

#[test]
fn without_a_yes_a_filter_or_an_open_state_nothing_is_done() {
    let home = Home::new();
    let _server = home.serve();
    home.submit(&["k", "--queue", "q"]);
    let unsure = home.run(&["runs", "cancel", "--queue", "q"]);
    assert_eq!(unsure.code, 2, "{unsure:?}");
    assert!(unsure.stderr.contains("--dry-run"), "{unsure:?}");
    assert_eq!(home.run(&["runs", "cancel"]).code, 2, "not everything by accident");
    assert_eq!(home.run(&["runs", "cancel", "--yes"]).code, 2, "not everything by accident");
    assert_eq!(home.run(&["runs", "cancel", "run_x", "--queue", "q"]).code, 2);
    let ended = home.run(&["runs", "cancel", "--queue", "q", "--state", "failed", "--yes"]);
    ended.assert_error(2, "state_ended", "have ended", "--state queued");
    assert_eq!(states(&home, "q"), ["queued"]);
    let none = home.run(&["runs", "cancel", "--queue", "none", "--yes"]);
    assert_eq!(none.code, 0, "{none:?}");
}

#[test]
fn more_than_the_limit_is_left_for_another_time() {
    let home = Home::new();
    let _server = home.serve();
    for _ in 0..5 {
        home.submit(&["k", "--queue", "q"]);
    }
    let arguments = ["runs", "cancel", "--json", "--yes", "--queue", "q", "--limit", "3"];
    let some = home.json(&arguments);
    assert_eq!((some["cancelled"].as_u64(), some["more"].as_bool()), (Some(3), Some(true)));
    let rest = home.json(&arguments);
    assert_eq!((rest["cancelled"].as_u64(), rest["more"].as_bool()), (Some(2), Some(false)));
}
