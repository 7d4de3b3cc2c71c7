//! What people meet on their first day: a wait that ends too early, a run that nothing takes, a command that is almost
//! right. Each answer says what to do next.

use crate::home::{Home, Process};

#[test]
fn a_wait_that_ends_too_early_says_where_the_reason_is() {
    let home = Home::new();
    let _server = home.serve();
    let waited = home.run(&["submit", "k", "--queue", "q", "--wait", "--timeout", "10ms"]);
    assert_eq!(waited.code, 124, "{waited:?}");
    let run = waited.stderr.split("tenure explain ").nth(1).expect("a command to paste");
    let run = run.split('`').next().unwrap();
    assert!(home.run(&["explain", run]).stdout.contains("no_worker"), "{waited:?}");
}

#[test]
fn a_run_that_waits_for_a_worker_says_so() {
    let home = Home::new();
    let _server = home.serve();
    home.submit(&["k", "--queue", "q"]);
    let listed = home.run(&["runs", "list"]).stdout;
    assert!(listed.contains("waits for a worker since"), "{listed}");
    home.submit(&["k", "--queue", "later", "--delay", "2h"]);
    let listed = home.run(&["runs", "list", "--queue", "later"]).stdout;
    assert!(listed.contains(" in 1 h") && !listed.contains("waits for"), "{listed}");
}

#[test]
fn a_retry_that_no_worker_takes_has_no_countdown() {
    let home = Home::new();
    let _server = home.serve();
    let fails = ["work", "--json", "--queue", "q", "--exec", "false"];
    let mut worker = Process::start(home.tenure(&fails));
    let id = home.submit(&["k", "--queue", "q", "--retry-base-ms", "1000"]);
    worker.line();
    drop(worker);
    home.until(&id, "the end of the pause", |run| {
        run["nextAttemptAt"].as_str().is_some_and(|at| Some(at) <= run["serverTime"].as_str())
    });
    let shown = home.run(&["runs", "show", &id]).stdout;
    assert!(shown.contains("next try  waits for a worker since"), "{shown}");
}

#[test]
fn the_record_of_a_run_that_goes_on_is_no_matter_of_versions() {
    let home = Home::new();
    let _server = home.serve();
    let id = home.submit(&["k", "--queue", "q"]);
    let early = home.run(&["runs", "record", &id]);
    early.assert_error(3, "not_found", "has not ended", "tenure runs watch");
}

#[test]
fn a_dry_run_of_one_cancel_says_what_would_happen() {
    let home = Home::new();
    let _server = home.serve();
    let id = home.submit(&["k", "--queue", "q"]);
    let dry = home.run(&["runs", "cancel", &id, "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(dry.stdout.contains(&id) && dry.stdout.contains("would cancel 1 run;"), "{dry:?}");
    assert_eq!(home.run_view(&id)["state"], "queued", "nothing was done");
    assert_eq!(home.run(&["runs", "cancel", &id, "--yes"]).code, 0);
    let ended = home.run(&["runs", "cancel", &id, "--dry-run"]);
    ended.assert_error(2, "state_ended", "is cancelled", "runs show");
}

#[test]
fn a_submission_says_how_many_workers_it_may_lose() {
    let home = Home::new();
    let _server = home.serve();
    let id = home.submit(&["k", "--queue", "q", "--lost-max", "7"]);
    assert_eq!(home.run_view(&id)["lostMax"], 7);
}

#[test]
fn an_empty_list_of_limits_says_how_to_set_some() {
    let home = Home::new();
    let _server = home.serve();
    let none = home.run(&["limits", "list"]);
    assert!(none.stdout.is_empty() && none.stderr.contains("limits set"), "{none:?}");
    assert_eq!(home.json(&["limits", "list", "--json"]), serde_json::json!([]));
}

#[test]
fn a_store_that_a_server_uses_is_pruned_by_that_server() {
    let home = Home::new();
    let prune = ["prune", "--older-than", "7d"];
    home.run(&prune).assert_error(3, "store_missing", "no store", "`tenure serve` creates one");
    let _server = home.serve();
    home.run(&prune).assert_error(4, "store_closed", "already open in", "--retain-for");
    let database = [&prune[..], &["--store", "postgres://u@127.0.0.1:9/d"]].concat();
    home.run(&database).assert_error(2, "sqlite_only", "SQLite", "--retain-for");
    let second = home.run(&["serve", "--listen", "127.0.0.1:0"]);
    second.assert_error(4, "store_closed", "already open in process", "another file with --store");
}
