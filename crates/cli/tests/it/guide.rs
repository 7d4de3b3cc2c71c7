//! The guide for people who know only curl, run as written.

use serde_json::Value;

use crate::guides::{self, Reader};
use crate::home::Home;

const GUIDE: &str = include_str!("../../../../docs/guide/worker-in-any-language.md");

/// Runs blocks in one shell after the pasted lines; returns the answer of each. Anything beside it would not be JSON.
fn follow(home: &Home, pasted: &str, blocks: &[&str]) -> Vec<Value> {
    let mut reader = Reader::new(home);
    reader.follow(pasted);
    let answer =
        |text: String| serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    blocks.iter().map(|block| answer(reader.follow(block))).collect()
}

#[test]
fn somebody_with_curl_alone_finishes_a_task_by_the_guide() {
    let home = Home::new();
    let (_dev, pasted) = guides::dev(&home);
    let blocks = guides::blocks(GUIDE);
    let [submit, lease, started, heartbeat, report, look] = blocks[..] else {
        panic!("the guide has {} blocks: each has its own check here", blocks.len());
    };
    // Both calls that the guide says may be repeated are repeated.
    let script = [submit, submit, lease, started, heartbeat, report, report, look];
    let answers = follow(&home, &pasted, &script);
    let [first, second, leases, started, heartbeat, report, again, run] = &answers[..] else {
        panic!("every block has one answer: {answers:?}");
    };

    assert_eq!((&first["state"], &first["runId"]), (&"queued".into(), &second["runId"]));
    let lease = &leases["leases"][0];
    assert_eq!((&lease["input"]["name"], &lease["attempt"]), (&"Ada".into(), &1.into()));
    for member in ["taskToken", "leaseExpiresAt", "heartbeatIntervalMs", "fence"] {
        assert!(!lease[member].is_null(), "{member} in {lease}");
    }
    assert_eq!(started["verdict"], "COMMITTED");
    assert_eq!(
        (&heartbeat["verdict"], &heartbeat["shouldCancel"]),
        (&"COMMITTED".into(), &false.into())
    );
    // S3-11, S3-62: one verdict, and the same one for the repeated report.
    assert_eq!((&report["verdict"], &report["replayed"]), (&"COMMITTED".into(), &false.into()));
    assert_eq!((&again["verdict"], &again["replayed"]), (&"COMMITTED".into(), &true.into()));
    assert_eq!((&run["runId"], &run["state"]), (&first["runId"], &"succeeded".into()));
    assert_eq!(run["output"]["text"], "Hello, Ada");
}

#[test]
fn a_failure_is_reported_as_the_guide_shows() {
    let home = Home::new();
    let (_dev, pasted) = guides::dev(&home);
    let shown = GUIDE.split_once("\n```json\n").unwrap().1.split_once("\n```").unwrap().0;
    std::fs::write(home.path().join("failure.json"), shown).unwrap();
    let blocks = guides::blocks(GUIDE);
    let (head, _output) = blocks[4].rsplit_once("-d").expect("the report has a body");
    let report = format!("{head}-d @failure.json");
    let answers = follow(&home, &pasted, &[blocks[0], blocks[1], blocks[2], &report, blocks[5]]);
    // A failure is a report like any other, and its category makes it retryable.
    let (answer, run) = (&answers[3], &answers[4]);
    assert_eq!(
        (&answer["verdict"], &answer["finalState"]),
        (&"COMMITTED".into(), &"FAILED".into())
    );
    assert_eq!((&answer["state"], &run["state"]), (&"retry".into(), &"retry".into()));
}
