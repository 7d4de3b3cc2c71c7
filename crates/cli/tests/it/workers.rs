//! `tenure workers`, and commands that do not exist.

use crate::home::{Home, Process, wait_until};

#[test]
fn workers_shows_who_polls_and_who_works() {
    let home = Home::new();
    let _server = home.serve();
    let none = home.run(&["workers"]);
    assert!(none.code == 0 && none.stderr.contains("tenure work"), "{none:?}");
    let busy = ["work", "--json", "--name", "busy", "--queue", "q", "--exec", "sleep", "--", "600"];
    let _busy = Process::start(home.tenure(&busy));
    let id = home.submit(&["k", "--queue", "q"]);
    home.until(&id, "the start", |run| run["state"] == "running");
    let idle = ["work", "--json", "--name", "idle", "--queue", "other", "--exec", "cat"];
    let _idle = Process::start(home.tenure(&idle));
    wait_until("both are listed", || {
        let workers = home.json(&["workers", "--json"]);
        let workers = workers.as_array().unwrap();
        let named = |name: &str| {
            workers.iter().find(|it| it["workerId"].as_str().unwrap().starts_with(name)).cloned()
        };
        named("busy").is_some_and(|busy| busy["leases"][0]["count"] == 1)
            && named("idle").is_some_and(|idle| idle["polls"][0]["queues"][0] == "other")
    });
    let table = home.run(&["workers"]).stdout;
    assert!(table.lines().next().unwrap().contains("POLLS FOR"), "{table}");
    assert!(table.contains("busy-") && table.contains("other"), "{table}");
}

#[test]
fn an_unknown_command_is_not_answered_with_a_dangerous_one() {
    let home = Home::new();
    let retry = home.run(&["retry"]);
    assert_eq!(retry.code, 2, "{retry:?}");
    assert!(
        retry.stderr.contains("'runs retry'") && !retry.stderr.contains("restore"),
        "{retry:?}"
    );
    let run = home.run(&["run"]);
    assert!(run.stderr.contains("'runs'") && !run.stderr.contains("prune"), "{run:?}");
    let nothing_like_it = home.run(&["destroy"]);
    assert!(!nothing_like_it.stderr.contains("similar"), "{nothing_like_it:?}");
}
