//! A durable run that moves between coordinators: over one database, with hints and without, and over one file.

use coordinator::{Coordinator, Granted, Options, Poll, requests};
use serde_json::{Value, json};
use store::postgres::{self, Notify};
use store::{Browse, PostgresStore};
use storetest::Database;
use verdict::run::RunAnswer;
use verdict::{Answer, Policy, Scope, State, TaskId};

use crate::harness::{PATIENCE, accepted, key, patient, submission, world};

const CHILDREN: usize = 12;

pub(crate) async fn start(database: &Database, notify: Notify) -> Coordinator {
    let options = postgres::Options { notify, ..postgres::Options::new("test") };
    let store = PostgresStore::open(database.url(), options).await.expect("the database opens");
    Coordinator::start(store, Options::default()).await.expect("it starts")
}

/// The state in which the call leaves its task.
pub(crate) async fn checkpoint(coordinator: &Coordinator, granted: &Granted, more: Value) -> State {
    let mut call = json!({"attempt": granted.task.attempt, "workerId": "w"});
    call.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let call = serde_json::from_str(&call.to_string()).expect("a call");
    let request = requests::checkpoint(granted.caller(), &Scope::default(), call).expect("valid");
    let reply = coordinator.checkpoint(granted.key(), request).await.expect("the store works");
    match reply.answer {
        Answer::Run(answer) => match *answer {
            RunAnswer::Checkpointed(done) => done.state,
            other => panic!("not a checkpoint: {other:?}"),
        },
        other => panic!("refused: {other:?}"),
    }
}

async fn complete(coordinator: &Coordinator, granted: &Granted, steps: Value) -> State {
    let report = json!({"attempt": granted.task.attempt, "workerId": "w", "outcome": "SUCCEEDED",
        "steps": steps});
    let report = serde_json::from_str(&report.to_string()).expect("a report");
    let request = requests::last_call(granted.caller(), &Scope::default(), report).expect("valid");
    let reply = coordinator.checkpoint(granted.key(), request).await.expect("the store works");
    match reply.answer {
        Answer::Committed { state, .. } => state,
        other => panic!("refused: {other:?}"),
    }
}

async fn lease(coordinator: &Coordinator, max: usize) -> Vec<Granted> {
    let poll = Poll { max, ..patient("w") };
    let granted = coordinator.lease(poll).await.expect("the store works");
    assert!(!granted.is_empty(), "something is leased in time");
    granted
}

async fn lease_root(coordinator: &Coordinator, root: TaskId) -> Granted {
    let granted = lease(coordinator, 1).await.remove(0);
    assert_eq!(granted.task.id, root);
    granted
}

fn fork() -> Value {
    let keys: Vec<String> = (0..CHILDREN).map(|n| format!("c#{n}")).collect();
    let child = |key: &String| json!({"key": key, "kind": "k", "queue": "q", "input": key});
    let children: Vec<Value> = keys.iter().map(child).collect();
    let items: Vec<Value> = keys.iter().map(|key| json!({"key": key, "child": key})).collect();
    let steps = json!([{"key": "first", "outcome": "SUCCEEDED", "result": 1}]);
    json!({"steps": steps, "children": children, "wait": {"key": "join", "mode": "all", "for": items}})
}

/// Forks at one, joins at the other, gets a signal through the first and ends at the second.
async fn live_through(one: &Coordinator, two: &Coordinator) {
    // S2-52, E6: whatever coordinator decides, every child starts once and its end arrives once.
    let unhurried = coordinator::Submission { policy: Policy::default(), ..submission("k") };
    let (root, _) = accepted(&one.submit(vec![unhurried]).await[0]);
    let parent = lease_root(two, root).await;
    assert_eq!(checkpoint(one, &parent, fork()).await, State::Waiting);
    let mut done = 0;
    while done < CHILDREN {
        let (here, there) = if done % 2 == 0 { (one, two) } else { (two, one) };
        for child in lease(here, 5).await {
            assert_eq!(child.task.run_id(), root);
            assert_eq!(complete(there, &child, json!([])).await, State::Succeeded);
            done += 1;
        }
    }
    let parent = lease_root(one, root).await;
    let wait = json!({"wait": {"key": "w", "mode": "all", "for": [{"key": "go", "signal": "go"}]}});
    assert_eq!(checkpoint(two, &parent, wait).await, State::Waiting);
    let signal = serde_json::from_str(r#"{"name":"go","payload":1}"#).expect("a signal");
    let signal = requests::signal(signal, Some("once".to_owned())).expect("valid");
    one.signal(key(root), signal.clone()).await.expect("the store works");
    two.signal(key(root), signal).await.expect("the store works");
    let parent = lease_root(two, root).await;
    let last = json!([{"key": "last", "outcome": "SUCCEEDED"}]);
    assert_eq!(complete(one, &parent, last).await, State::Succeeded);
    assert_eq!(ends(two, root).await, State::Succeeded);
    let saved = one.browse().saved_messages(None, 1).await.expect("the store works");
    assert!(saved.is_empty(), "{saved:?}");
}

async fn ends(coordinator: &Coordinator, task: TaskId) -> State {
    let look = |_| async {
        let found = coordinator.browse().find(&key(task)).await?;
        let state = found.and_then(|found| found.subject.state());
        Ok(state.filter(|state| state.is_terminal()))
    };
    let state = coordinator
        .watch_until(task, coordinator::Awaited::End, PATIENCE, look)
        .await
        .expect("it can be read");
    state.expect("it ends in time")
}

#[tokio::test]
async fn a_durable_run_lives_through_two_coordinators() {
    let database = Database::create();
    let (one, two) = (start(&database, Notify::On).await, start(&database, Notify::On).await);
    live_through(&one, &two).await;
}

#[tokio::test]
async fn a_durable_run_lives_without_hints() {
    let database = Database::create();
    let (one, two) = (start(&database, Notify::Off).await, start(&database, Notify::Off).await);
    live_through(&one, &two).await;
}

#[tokio::test]
async fn a_durable_run_lives_with_one_coordinator() {
    // One coordinator on PostgreSQL has two carriers: messages cross between them.
    let database = Database::create();
    let one = start(&database, Notify::On).await;
    live_through(&one, &one).await;
    let alone = world().await;
    live_through(&alone.coordinator, &alone.coordinator).await;
}
