//! Pausing and resuming queues from the command line.

use crate::home::{Home, Process};

#[test]
fn a_paused_queue_waits_and_says_why() {
    let home = Home::new();
    let _server = home.serve();
    let paused = home.run(&["queues", "pause", "q", "--reason", "a migration"]);
    assert_eq!(paused.code, 0, "{paused:?}");
    assert!(paused.stdout.contains("q is paused since"), "{paused:?}");
    let _worker = Process::start(home.tenure(&["work", "--json", "--queue", "q", "--exec", "cat"]));
    let id = home.submit(&["k", "--queue", "q"]);
    let explained = home.run(&["explain", &id]);
    assert!(explained.stdout.contains("queue_paused"), "{explained:?}");
    assert!(explained.stdout.contains("a migration"), "{explained:?}");
    let listed = home.run(&["queues", "list"]);
    assert!(listed.stdout.contains("PAUSE") && listed.stdout.contains("a migration"), "{listed:?}");
    assert_eq!(home.run_view(&id)["state"], "queued");
    let resumed = home.run(&["queues", "resume", "q"]);
    assert!(resumed.stdout.contains("q is not paused"), "{resumed:?}");
    assert_eq!(home.ended(&id)["state"], "succeeded");
    let audit = home.json(&["audit", "--json"]);
    let actions: Vec<&str> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["action"].as_str())
        .collect();
    assert!(actions.starts_with(&["queue.resumed", "queue.paused"]), "{actions:?}");
}
