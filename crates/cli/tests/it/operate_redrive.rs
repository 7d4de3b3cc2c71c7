//! Redoing thousands of runs by filter: page after page, each once, and linked in both directions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tenure::{Client, Ctx, Failure, Worker};
use tokio_util::sync::CancellationToken;

use crate::home::{Home, wait_until};
use crate::operate_backup::client;

/// More than a page of the server, of each kind.
const EACH: usize = 1_500;
/// As many as a command takes here; without it, it takes a thousand.
const LIMIT: &str = "2000";

async fn refuse(_: Ctx, _: Value) -> Result<(), Failure> {
    Err(Failure::permanent("no"))
}

/// Submits one run for each number, and returns their ids.
fn submit_all(home: &Home, queue: &str, more: &Value) -> BTreeSet<String> {
    let line = |number: usize| {
        let mut run = json!({"kind": "k", "queue": queue, "input": number});
        run.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{run}\n")
    };
    let file = home.path().join(format!("{queue}.jsonl"));
    std::fs::write(&file, (0..EACH).map(line).collect::<String>()).unwrap();
    let ran = home.run(&["submit", "--from", file.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ids = |run: &Value| run["runId"].as_str().unwrap().to_owned();
    listed(home, &["--queue", queue]).iter().map(ids).collect()
}

fn listed(home: &Home, filters: &[&str]) -> Vec<Value> {
    let all = ["runs", "list", "--json", "--limit", "10000"];
    home.json(&[&all[..], filters].concat()).as_array().unwrap().clone()
}

/// What a command did with many runs.
fn redo(home: &Home, command: &[&str]) -> Value {
    home.json(&[command, &["--json", "--yes", "--limit", LIMIT]].concat())
}

/// Who was made of whom, read from the new runs; and that every old run names the same one.
async fn check_links(client: &Client, made: &[Value], old: &BTreeSet<String>, member: &str) {
    let text = |run: &Value, member: &str| run[member].as_str().unwrap().to_owned();
    let of: BTreeMap<String, String> =
        made.iter().map(|run| (text(run, member), text(run, "runId"))).collect();
    assert_eq!(made.len(), EACH, "none was made twice");
    assert_eq!(of.keys().cloned().collect::<BTreeSet<_>>(), *old, "each has one");
    let mut reads = tokio::task::JoinSet::new();
    for (old, new) in of {
        let run = client.run(old);
        reads.spawn(async move { (run.status().await.unwrap(), new) });
        if reads.len() >= 32 {
            let (run, new) = reads.join_next().await.unwrap().unwrap();
            assert_eq!([run.retries, run.forks].concat(), [new]);
        }
    }
    while let Some(read) = reads.join_next().await {
        let (run, new) = read.unwrap();
        assert_eq!([run.retries, run.forks].concat(), [new]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_failed_and_halted_runs_are_redone_once() {
    let home = Home::new();
    let _server = home.serve();
    let client = client(&home);
    let failed = tokio::task::block_in_place(|| submit_all(&home, "failing", &json!({})));
    let halted = tokio::task::block_in_place(|| {
        submit_all(&home, "halting", &json!({"budget": {"wallMs": 1}}))
    });
    let stop = CancellationToken::new();
    let worker = Worker::new(client.clone()).queue("failing").concurrency(64).handle("k", refuse);
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    tokio::task::block_in_place(|| {
        let ended = |state: &str| listed(&home, &["--state", state]).len();
        wait_until("all have ended", || ended("failed") == EACH && ended("halted") == EACH);
    });
    stop.cancel();
    worker.await.unwrap().unwrap();
    let (retried, continued) = tokio::task::block_in_place(|| {
        let retry = ["runs", "retry", "--state", "failed"];
        let go_on = ["runs", "continue", "--state", "halted", "--budget", "wall=1h"];
        for (command, done, already) in [
            (&retry[..], "retried", "alreadyRetried"),
            (&go_on[..], "continued", "alreadyContinued"),
        ] {
            let first = redo(&home, command);
            assert_eq!(first[done].as_array().map(Vec::len), Some(EACH), "{command:?}");
            assert_eq!((&first["refused"], &first["more"]), (&json!([]), &json!(false)));
            // The same command once more, as after an interruption.
            let again = redo(&home, command);
            assert_eq!(again[done], json!([]), "{command:?}");
            assert_eq!(again[already], EACH, "{command:?}");
        }
        (
            listed(&home, &["--label", "tenure.retry-of"]),
            listed(&home, &["--label", "tenure.fork-of"]),
        )
    });
    check_links(&client, &retried, &failed, "retryOf").await;
    check_links(&client, &continued, &halted, "forkOf").await;
}
