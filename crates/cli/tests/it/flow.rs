//! Flow keys from the command line, as the guide shows them.

use crate::home::{Home, Process, wait_until};

const GUIDE: &str = include_str!("../../../../docs/guide/flow-control.md");

#[test]
fn a_key_lets_one_run_go_on_and_shows_who_waits() {
    // The commands of the guide are the ones that are run here.
    for command in ["--flow customer-7=1", "tenure flow list", "tenure explain RUN"] {
        assert!(GUIDE.contains(command), "{command}");
    }
    let home = Home::new();
    let _server = home.serve();
    let none = home.run(&["flow", "list"]);
    assert!(none.code == 0 && none.stderr.contains("--flow KEY=N"), "{none:?}");
    let submit = || home.submit(&["import", "--queue", "imports", "--flow", "customer-7=1"]);
    let (first, second) = (submit(), submit());
    let work = ["work", "--json", "--queue", "imports", "--exec", "sleep", "--", "600"];
    let _worker = Process::start(home.tenure(&work));
    let _other = Process::start(home.tenure(&work));
    home.until(&first, "the start", |run| run["state"] == "running");
    let task = first.replace("run_", "task_");
    wait_until("the key is listed with its holder", || {
        let keys = home.json(&["flow", "list", "--json"]);
        keys[0]["key"] == "customer-7" && keys[0]["parked"] == 1 && keys[0]["holders"][0] == *task
    });
    let table = home.run(&["flow", "list"]).stdout;
    assert!(table.contains("customer-7") && table.contains(&task), "{table}");
    assert!(table.contains("when a slot is free"), "{table}");
    // It waits for the key, not for a worker.
    let listed = home.run(&["runs", "list", "--state", "queued"]).stdout;
    assert!(listed.contains("waits for a slot of customer-7 (1 of 1"), "{listed}");
    let queues = home.run(&["queues"]);
    assert!(queues.stdout.lines().next().unwrap().contains("PARKED"), "{queues:?}");
    let explained = home.run(&["explain", &second]);
    assert!(explained.stdout.contains("flow_key"), "{explained:?}");
    assert!(explained.stdout.contains(&task), "{explained:?}");
    assert_eq!(home.run_view(&second)["state"], "queued");
    // Another limit is refused with its page, and the first run gives its slot back.
    let other = home.run(&["submit", "import", "--queue", "imports", "--flow", "customer-7=2"]);
    assert!(other.code != 0 && other.stderr.contains("flow_limit_conflict"), "{other:?}");
    assert_eq!(home.run(&["runs", "cancel", &first, "--force"]).code, 0);
    home.until(&second, "the slot", |run| run["state"] == "running");
}

#[test]
fn the_last_of_those_that_follow_closely_runs() {
    // The command of the guide is the one that is run here.
    let command = "tenure submit reindex --queue search --flow document-7 --debounce 5s";
    assert!(GUIDE.contains(command), "{command}");
    let words: Vec<&str> = command.split(' ').skip(2).collect();
    let home = Home::new();
    let _server = home.serve();
    let submit = || home.submit(&words);
    let (first, second) = (submit(), submit());
    let replaced = home.run_view(&first);
    assert_eq!(replaced["state"], "cancelled", "{replaced}");
    let shown = home.run(&["runs", "show", &first]).stdout;
    assert!(shown.contains(&format!("replaced by {second}")), "{shown}");
    assert!(shown.contains("document-7, waits 5 s for a newer run, 1 h at most"), "{shown}");
    let explained = home.run(&["explain", &second]);
    assert!(
        explained.stdout.contains("debounce") && explained.stdout.contains("document-7"),
        "{explained:?}"
    );
    let max = [&words[..], &["--debounce-max", "5s"]].concat();
    let third = home.submit(&max);
    assert_eq!(home.run_view(&third)["flow"]["debounceMaxMs"], 5_000);
    let work = ["work", "--json", "--queue", "search", "--exec", "true"];
    let _worker = Process::start(home.tenure(&work));
    home.until(&third, "the end of its wait", |run| run["state"] == "succeeded");
    assert_eq!(home.run_view(&second)["state"], "cancelled");
    let wrong = home.run(&["submit", "reindex", "--queue", "search", "--debounce", "5s"]);
    assert!(wrong.code != 0 && wrong.stderr.contains("--flow"), "{wrong:?}");
}

#[test]
fn a_run_holds_its_slot_for_life() {
    let command = "tenure submit order --queue orders --flow track-7=1 --flow-life";
    assert!(GUIDE.contains(command), "{command}");
    let words: Vec<&str> = command.split(' ').skip(2).collect();
    let home = Home::new();
    let _server = home.serve();
    // The first one fails, and waits for its retry with its slot.
    let retried = ["--max-attempts", "2", "--retry-base-ms", "600000", "--retry-cap-ms", "600000"];
    let first = home.submit(&[&words[..], &retried[..]].concat());
    let second = home.submit(&words);
    let work = ["work", "--json", "--queue", "orders", "--exec", "false"];
    let _worker = Process::start(home.tenure(&work));
    home.until(&first, "its retry", |run| run["state"] == "retry");
    let task = first.replace("run_", "task_");
    let explained = home.run(&["explain", &second]).stdout;
    assert!(explained.contains(&task) && explained.contains("track-7"), "{explained}");
    let keys = home.json(&["flow", "list", "--json"]);
    assert_eq!((&keys[0]["held"], &keys[0]["holders"][0]), (&1.into(), &task.into()), "{keys}");
    let shown = home.run(&["runs", "show", &first]).stdout;
    assert!(shown.contains("track-7, 1 at once, held until its end"), "{shown}");
    assert_eq!(home.run_view(&second)["state"], "queued");
    assert_eq!(home.run(&["runs", "cancel", &first]).code, 0);
    home.until(&second, "its turn", |run| run["state"] != "queued");
}

#[test]
fn an_operator_limits_a_queue_and_a_kind() {
    // The tables of the guide are the ones that are read here.
    let tables = GUIDE.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let home = Home::new();
    std::fs::write(home.path().join("tenure.toml"), tables.unwrap()).unwrap();
    let serve = ["serve", "--json", "--listen", "127.0.0.1:0", "--write-profile"];
    let serve = [&serve[..], &["--config", "tenure.toml"]].concat();
    let mut server = Process::start(home.tenure(&serve));
    server.line();
    home.submit(&["import", "--queue", "imports"]);
    home.submit(&["export", "--queue", "imports"]);
    home.submit(&["export", "--queue", "imports", "--flow", "own=1"]);
    home.submit(&["export", "--queue", "other"]);
    let keys = home.json(&["flow", "list", "--json"]);
    let listed: Vec<(&str, u64)> = keys
        .as_array()
        .unwrap()
        .iter()
        .map(|key| (key["key"].as_str().unwrap(), key["limit"].as_u64().unwrap()))
        .collect();
    assert_eq!(listed, [("kind:import", 2), ("own", 1), ("queue:imports", 8)]);
    // What a schedule submits belongs to its queue too.
    let nightly = ["schedules", "create", "nightly", "--every", "1h", "--kind", "export"];
    assert_eq!(home.run(&[&nightly[..], &["--queue", "imports"]].concat()).code, 0);
    assert_eq!(home.run(&["schedules", "trigger", "nightly"]).code, 0);
    let keys = home.json(&["flow", "list", "--json"]);
    assert!(keys[2]["key"] == "queue:imports" && keys[2]["live"] == 2, "{keys}");
    let taken = home.run(&["submit", "import", "--queue", "imports", "--flow", "queue:imports=9"]);
    assert!(taken.code != 0 && taken.stderr.contains("operator configured"), "{taken:?}");
    let shown = home.run(&["config", "--config", "tenure.toml"]).stdout;
    assert!(shown.contains("kinds.import.flow-limit"), "{shown}");
    // The newest run of a kind that waits replaces the one before.
    let (older, newer) =
        (home.submit(&["reindex", "--queue", "q"]), home.submit(&["reindex", "--queue", "q"]));
    assert_eq!(home.run_view(&older)["state"], "cancelled");
    assert_eq!(home.run_view(&newer)["flow"]["key"], "kind:reindex");
    let order = home.submit(&["order", "--queue", "q"]);
    assert_eq!(home.run_view(&order)["flow"]["hold"], "life");
}
