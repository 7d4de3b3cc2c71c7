//! A store that moves: what it does to those who worked on the old one, and what is refused.

use serde_json::Value;
use tenure::Error;
use wire::Verdict;

use crate::home::Home;
use crate::operate_backup::{client, lease, start, stop, success};

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_from_before_a_move_is_cancelled() {
    // S3-24, S3-20: the move raises the epoch and takes the signing key along, so that whoever held a lease
    // before learns that its authority is lost: 410 with the verdict CANCELLED.
    let home = Home::new();
    let server = home.serve();
    let id = home.submit(&["k", "--queue", "q", "--lease-ms", "8000", "--heartbeat-ms", "500"]);
    let before = lease(&client(&home)).await;
    start(&client(&home), &before).await;
    stop(server);
    let from = format!("sqlite:{}", home.store().display());
    let move_on = ["migrate", "--from", &from, "--to", "sqlite:moved.db", "--json"];
    let planned = home.json(&[&move_on[..], &["--dry-run"]].concat());
    assert_eq!((&planned["live"], &planned["dryRun"]), (&1.into(), &true.into()));
    assert!(!home.path().join("moved.db").exists());
    let moved = home.json(&move_on);
    assert_eq!((&moved["digest"], &moved["live"]), (&planned["digest"], &1.into()));
    // Where this home's servers look for their store.
    for suffix in ["db", "key"] {
        let moved = home.path().join(format!("moved.{suffix}"));
        std::fs::rename(moved, home.store().with_extension(suffix)).unwrap();
    }

    let _server = home.serve();
    let late = client(&home)
        .completed(&before.task_id, &before.task_token, &success(&before))
        .await
        .unwrap_err();
    let Error::Refused(problem) = late else { panic!("{late:?}") };
    assert_eq!((problem.status, problem.verdict), (410, Some(Verdict::Cancelled)));
    let after = lease(&client(&home)).await;
    assert!(after.fence > before.fence, "{} after {}", after.fence, before.fence);
    start(&client(&home), &after).await;
    client(&home).completed(&after.task_id, &after.task_token, &success(&after)).await.unwrap();
    assert_eq!(home.run_view(&id)["state"], "succeeded");
}

#[test]
fn a_move_refuses_what_is_open_what_is_there_and_what_was_cut_short() {
    // S3-24, S2-104: each with a code, and nothing is touched.
    let home = Home::new();
    let server = home.serve();
    home.submit(&["k", "--queue", "q"]);
    let from = format!("sqlite:{}", home.store().display());
    let migrate = |to: &str, more: &[&str]| {
        home.run(&[&["migrate", "--from", &from, "--to", to], more].concat())
    };
    let open = migrate("sqlite:moved.db", &[]);
    open.complains(4, "store_closed", "already open in process", "stop that process");
    stop(server);
    std::fs::write(home.path().join("moved.db"), "something").unwrap();
    let there = migrate("sqlite:moved.db", &[]);
    there.complains(4, "store_not_empty", "moved.db", "empty place");
    migrate(&from, &[]).complains(2, "same_store", "where it is", "two places");
    std::fs::write(home.path().join("other.db.arriving"), "").unwrap();
    let half = migrate("sqlite:other.db", &[]);
    half.complains(4, "copy_interrupted", "not finished", "--discard");
    let whole = migrate("sqlite:other.db", &["--discard"]);
    assert_eq!(whole.code, 0, "{whole:?}");
    assert!(whole.stdout.contains("CANCELLED") && whole.stderr.contains("unchanged"), "{whole:?}");
    let verified = home.json(&["verify", "--json", "--store", "other.db"]);
    assert_eq!((&verified["tasks"], &verified["findings"]), (&1.into(), &Value::Array(vec![])));
    home.run(&["migrate", "--from", "sqlite:none.db", "--to", "sqlite:new.db"]).complains(
        3,
        "store_missing",
        "none.db",
        "--from",
    );
}

#[test]
fn a_store_that_was_brought_back_by_hand_begins_a_new_epoch() {
    // S3-24: for whoever restores with other tools than ours.
    let home = Home::new();
    let server = home.serve();
    let open = home.run(&["epoch", "raise"]);
    open.complains(4, "store_closed", "already open in process", "stop that process");
    stop(server);
    let raised = home.json(&["epoch", "raise", "--json"]);
    assert!(raised["epoch"].as_u64() > raised["before"].as_u64(), "{raised}");
    let again = home.json(&["epoch", "raise", "--json"]);
    assert_eq!(again["before"], raised["epoch"]);
}
