//! A store that is migrated: the effect on leases of the old one, and what is refused.

use pgserver::Server;
use serde_json::Value;
use tenure::{Client, Error};
use wire::Verdict;
use wire::answers::Envelope;

use crate::home::{Home, Process};
use crate::operate_backup::{client, lease, start, stop, success};

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_from_before_a_move_is_cancelled() {
    // S3-24, S3-20: the migration raises the epoch and copies the signing key, so that a worker
    // with a lease from before learns that its authority is lost: 410 with the verdict CANCELLED.
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
    // The paths where this home's servers expect their store.
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
    open.assert_error(4, "store_closed", "already open in process", "stop that process");
    stop(server);
    std::fs::write(home.path().join("moved.db"), "something").unwrap();
    let there = migrate("sqlite:moved.db", &[]);
    there.assert_error(4, "store_not_empty", "moved.db", "empty destination");
    migrate(&from, &[]).assert_error(2, "same_store", "the same store", "two different stores");
    std::fs::write(home.path().join("other.db.arriving"), "").unwrap();
    let half = migrate("sqlite:other.db", &[]);
    half.assert_error(4, "copy_interrupted", "not finished", "--discard");
    // Its key file may be there already, and is no sign of a store that was lost.
    let key = home.path().join("other.key");
    std::fs::write(&key, "").unwrap();
    let served = home.run(&["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:other.db"]);
    served.assert_error(4, "copy_interrupted", "not finished", "--discard");
    std::fs::remove_file(key).unwrap();
    let whole = migrate("sqlite:other.db", &["--discard"]);
    assert_eq!(whole.code, 0, "{whole:?}");
    assert!(whole.stdout.contains("CANCELLED") && whole.stderr.contains("unchanged"), "{whole:?}");
    let verified = home.json(&["verify", "--json", "--store", "other.db"]);
    assert_eq!((&verified["tasks"], &verified["findings"]), (&1.into(), &Value::Array(vec![])));
    home.run(&["migrate", "--from", "sqlite:none.db", "--to", "sqlite:new.db"]).assert_error(
        3,
        "store_missing",
        "none.db",
        "--from",
    );
}

#[test]
fn a_store_that_was_brought_back_by_hand_begins_a_new_epoch() {
    // S3-24: for operators who restore with other tools.
    let home = Home::new();
    let server = home.serve();
    let open = home.run(&["epoch", "raise"]);
    open.assert_error(4, "store_closed", "already open in process", "stop that process");
    stop(server);
    let raised = home.json(&["epoch", "raise", "--json"]);
    assert!(raised["epoch"].as_u64() > raised["before"].as_u64(), "{raised}");
    let again = home.json(&["epoch", "raise", "--json"]);
    assert_eq!(again["before"], raised["epoch"]);
}

/// A server on the named store. The profile keeps the key that was created for the first one.
fn serve_on(home: &Home, store: &str) -> (Process, Client) {
    let key = client_key(home);
    let arguments = ["serve", "--json", "--listen", "127.0.0.1:0", "--store", store];
    let mut server = Process::start(home.tenure(&arguments));
    let ready = server.line();
    assert!(ready["apiKey"].is_null(), "a store that moved has its keys: {ready}");
    (server, Client::new(ready["url"].as_str().unwrap(), &key).unwrap())
}

fn client_key(home: &Home) -> String {
    let profile: Value = serde_json::from_slice(&std::fs::read(home.profile()).unwrap()).unwrap();
    profile["apiKey"].as_str().unwrap().to_owned()
}

/// Leases a task that the worker still holds when the store has moved.
async fn hold(client: &Client) -> Envelope {
    let envelope = lease(client).await;
    start(client, &envelope).await;
    envelope
}

async fn is_cancelled(client: &Client, held: &Envelope) {
    let late = client.completed(&held.task_id, &held.task_token, &success(held)).await.unwrap_err();
    let Error::Refused(problem) = late else { panic!("{late:?}") };
    assert_eq!((problem.status, problem.verdict), (410, Some(Verdict::Cancelled)), "{problem:?}");
}

/// Migrates a store and returns the printed result.
fn moved(home: &Home, from: &str, to: &str) -> Value {
    let moved = home.json(&["migrate", "--json", "--from", from, "--to", to]);
    let audit = home.json(&["audit", "verify", "--json", "--store", to]);
    assert_eq!(audit["findings"], Value::Array(vec![]), "{audit}");
    assert_eq!((&audit["sealed"], &audit["anchored"]), (&audit["entries"], &true.into()));
    assert_eq!(audit["entries"], moved["auditEntries"], "{audit}");
    moved
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_tokens_limits_and_the_audit_go_to_a_database_and_back() {
    // S3-24, X07, X45: the signing keys are copied, including those that only a rotation in the
    // database created, so that a lease from before is CANCELLED and not refused as unknown; API
    // keys and limits stay valid, every seal of the audit is checked with the keys that made it,
    // and each migration begins a higher epoch.
    let (home, database) = (Home::new(), Server::builder().without_fsync().start().unwrap());
    let (file, there, back) =
        (format!("sqlite:{}", home.store().display()), database.url("postgres"), "sqlite:back.db");
    let server = home.serve();
    let submit = ["k", "--queue", "q", "--lease-ms", "3600000"];
    home.submit(&submit);
    home.submit(&submit);
    home.json(&["limits", "set", "--json", "default", "--unfinished-runs", "77"]);
    home.json(&["keys", "rotate-signing", "--json"]);
    let first = hold(&client(&home)).await;
    stop(server);

    let up = moved(&home, &file, &there);
    let (server, in_database) = serve_on(&home, &there);
    is_cancelled(&in_database, &first).await;
    let rotated = in_database.keys().rotate_signing().await.unwrap();
    assert!(rotated.previous_until.is_some(), "{rotated:?}");
    let second = hold(&in_database).await;
    stop(server);

    let down = moved(&home, &there, back);
    assert!(down["epoch"].as_u64() > up["epoch"].as_u64(), "{down} after {up}");
    let (server, in_file) = serve_on(&home, back);
    is_cancelled(&in_file, &second).await;
    let limits = in_file.limits().list().await.unwrap().limits;
    assert_eq!(limits[0].unfinished_runs, Some(77), "{limits:?}");
    stop(server);
}

#[test]
fn a_move_leaves_the_keys_of_others_alone() {
    // X11: where another store's keys lie, no store is created that would then use them.
    let home = Home::new();
    stop(home.serve());
    let from = format!("sqlite:{}", home.store().display());
    let other = home.path().join("other.db");
    let mut server = Process::start(home.tenure(&[
        "serve",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--store",
        "sqlite:other.db",
    ]));
    server.line();
    stop(server);
    std::fs::remove_file(other).unwrap();
    for more in [&[][..], &["--dry-run"]] {
        let arguments = [&["migrate", "--from", &from, "--to", "sqlite:other.db"], more].concat();
        home.run(&arguments).assert_error(4, "store_not_empty", "other.key", "empty destination");
    }
    assert!(!home.path().join("other.db").exists());
}
