//! Several served coordinators over one database share keys, limits and the audit.

use std::path::Path;

use coordinator::admit::seal::{self, SealReport};
use coordinator::admit::{Keyring, KeyringError, NewKey, Role};
use coordinator::{Options, SeededEntropy, ServeError, ServeOptions, Server, serve};
use serde_json::{Value, json};
use store::postgres::{self, Notify};
use store::{PostgresStore, Store};
use storetest::Database;
use tokio_postgres::NoTls;
use verdict::Scope;

use super::test_server::browser;

pub(super) type Serving = Server;

async fn try_to_serve(
    database: &Database,
    key_file: &Path,
    new_keys: Vec<NewKey>,
) -> Result<Serving, ServeError> {
    let options = postgres::Options { notify: Notify::Off, ..postgres::Options::new("test") };
    let store = PostgresStore::open(database.url(), options).await.expect("the database opens");
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), key_file);
    options.new_keys = new_keys;
    options.coordinator = Options::default();
    serve(store, options).await
}

fn admin() -> NewKey {
    NewKey::generate(&mut SeededEntropy::new(11), Scope::default(), &Role::ALL)
}

/// Two coordinators on one machine, and the key of an administrator.
pub(super) async fn two(database: &Database, key_file: &Path) -> ([Serving; 2], String) {
    let key = admin();
    let text = key.text().to_owned();
    let one = try_to_serve(database, key_file, vec![key]).await.unwrap();
    let two = try_to_serve(database, key_file, Vec::new()).await.unwrap();
    ([one, two], text)
}

pub(super) async fn post(server: &Serving, path: &str, key: &str, body: Value) -> (u16, Value) {
    let url = format!("http://{}{path}", server.local_addr());
    let request = browser().build().unwrap().post(url).bearer_auth(key).json(&body);
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or(Value::Null))
}

async fn get(server: &Serving, path: &str, key: &str) -> Value {
    let url = format!("http://{}{path}", server.local_addr());
    let answer = browser().build().unwrap().get(url).bearer_auth(key).send().await.unwrap();
    answer.json().await.unwrap()
}

async fn audit(database: &Database, key_file: &Path) -> SealReport {
    let options = postgres::Options {
        notify: Notify::Off,
        missing: postgres::Missing::Refuse,
        ..postgres::Options::new("look")
    };
    let store = PostgresStore::open(database.url(), options).await.unwrap();
    let keyring = Keyring::look(store.browse(), key_file).await.unwrap().expect("there are keys");
    let anchor = seal::read_anchor(&seal::anchor_path(key_file)).unwrap();
    seal::verify(store.browse(), &keyring, anchor).await.unwrap()
}

/// Acts as an attacker who reaches the database and removes its guards.
async fn tamper(database: &Database, sql: &str) {
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(&format!("SET session_replication_role = replica; {sql}")).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_several_administer_is_one_sealed_chain() {
    // X45: one chain without gaps, whichever coordinator wrote; and each way of changing it in the
    // database is detected.
    let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
    let key_file = folder.path().join("tenure.key");
    let (both, key) = two(&database, &key_file).await;
    let made = |n: usize| {
        let (server, key) = (&both[n % 2], &key);
        async move { post(server, "/v1/keys", key, json!({"roles": ["client"]})).await.0 }
    };
    let made = futures_util::future::join_all((0..12).map(made)).await;
    assert!(made.iter().all(|status| (200..300).contains(status)), "{made:?}");
    let whole = audit(&database, &key_file).await;
    assert_eq!((whole.entries, whole.sealed, whole.findings), (13, 13, Vec::new()));
    // All seals removed, and no anchor: this database has sealed its audit from the first entry on.
    let anchor = seal::anchor_path(&key_file);
    let noted = std::fs::read(&anchor).unwrap();
    std::fs::remove_file(&anchor).unwrap();
    tamper(&database, "CREATE TABLE seals AS SELECT n, seal FROM tenure.audit").await;
    tamper(&database, "UPDATE tenure.audit SET seal = NULL").await;
    let bare = audit(&database, &key_file).await.findings;
    assert_eq!((bare.len(), bare[0].n), (1, 1), "{bare:?}");
    assert!(bare[0].what.starts_with("entries 1 to 13 have no seals"), "{bare:?}");
    std::fs::write(&anchor, noted).unwrap();
    let back = "UPDATE tenure.audit a SET seal = s.seal FROM seals s WHERE s.n = a.n";
    tamper(&database, back).await;
    tamper(&database, "UPDATE tenure.audit SET actor = 'nobody' WHERE n = 4").await;
    assert_eq!(audit(&database, &key_file).await.findings[0].n, 4);
    tamper(&database, "DELETE FROM tenure.audit WHERE n = 9").await;
    let found = audit(&database, &key_file).await.findings;
    assert_eq!(found.iter().map(|finding| finding.n).collect::<Vec<_>>(), [4, 9]);
    tamper(&database, "DELETE FROM tenure.audit WHERE n > 2").await;
    assert!(audit(&database, &key_file).await.findings[0].what.contains("was truncated"));
}

#[tokio::test]
async fn who_has_another_key_file_does_not_start() {
    // X11: all other coordinators would refuse its tokens.
    let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
    let first = try_to_serve(&database, &folder.path().join("a.key"), vec![admin()]).await.unwrap();
    let missing = folder.path().join("b.key");
    let refused = try_to_serve(&database, &missing, Vec::new()).await.err();
    let Some(ServeError::Keyring(KeyringError::NotCopied { path })) = refused else {
        panic!("{refused:?}")
    };
    assert!(path == missing && !missing.exists(), "nothing is made that looks like a key");
    Keyring::open(&missing).unwrap();
    let refused = try_to_serve(&database, &missing, Vec::new()).await.err();
    assert!(
        matches!(refused, Some(ServeError::Keyring(KeyringError::Differs { .. }))),
        "{refused:?}"
    );
    let copy = folder.path().join("c.key");
    std::fs::copy(folder.path().join("a.key"), &copy).unwrap();
    let second = try_to_serve(&database, &copy, Vec::new()).await.unwrap();
    second.shutdown().await;
    first.shutdown().await;
}

#[tokio::test]
async fn a_rotation_through_one_holds_for_the_others() {
    // X07: tokens from before and after are valid everywhere, without another copy of a file.
    let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
    let key_file = folder.path().join("tenure.key");
    let ([one, two], key) = two(&database, &key_file).await;
    let before = std::fs::read(&key_file).unwrap();
    let run = json!({"kind": "k", "queue": "q", "input": {}});
    let poll = json!({"workerId": "w", "queues": ["q"], "max": 1, "waitMs": 20_000});
    let mut kids = std::collections::BTreeSet::new();
    for through in [&one, &two, &one] {
        assert_eq!(post(&one, "/v1/runs", &key, run.clone()).await.0, 201);
        let (_, leased) = post(&one, "/v1/leases", &key, poll.clone()).await;
        let lease = &leased["leases"][0];
        // A coordinator that rotates knows the keys of the last rotation, or reports that it does not yet.
        let rotated = loop {
            let rotated = post(through, "/v1/signing-keys/rotate", &key, json!({})).await;
            if rotated.0 != 503 {
                break rotated;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(rotated.0, 200, "{rotated:?}");
        assert!(kids.insert(rotated.1["kid"].as_str().unwrap().to_owned()));
        let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
        let report = json!({"attempt": 1, "workerId": "w", "outcome": "SUCCEEDED", "output": 1});
        let token = lease["taskToken"].as_str().unwrap();
        let answer = post(&two, &path, token, report).await;
        assert_eq!(answer.1["verdict"], "COMMITTED", "{answer:?}");
    }
    assert_eq!(std::fs::read(&key_file).unwrap(), before, "the file is copied once and for all");
    assert_eq!(audit(&database, &key_file).await.findings, Vec::new());
}

#[tokio::test]
async fn a_quota_is_exact_whoever_is_asked() {
    // F77: concurrent submissions through both coordinators together get exactly the quota.
    const MAY_HAVE: usize = 7;
    let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
    let (both, key) = two(&database, &folder.path().join("tenure.key")).await;
    let limits = json!({"tenantId": "default", "unfinishedRuns": MAY_HAVE});
    let set = post(&both[0], "/v1/limits", &key, limits).await;
    assert_eq!(set.0, 200, "{set:?}");
    both[1].reload_api_keys().await.unwrap();
    let submit = |n: usize| {
        let (server, key) = (&both[n % 2], &key);
        async move {
            let run = json!({"kind": "k", "queue": "q", "input": {}});
            post(server, "/v1/runs", key, run).await
        }
    };
    let answers = futures_util::future::join_all((0..24).map(submit)).await;
    let accepted = answers.iter().filter(|(status, _)| *status == 201).count();
    assert_eq!(accepted, MAY_HAVE, "{answers:?}");
    let refused = answers.iter().find(|(status, _)| *status != 201).unwrap();
    assert_eq!(refused.1["error"], "quota_reached");
    // The reported use is that of all coordinators together, at either of them: for the limits, and for a
    // blocked run.
    let one_of_them = answers.iter().find(|(status, _)| *status == 201).unwrap();
    let explain = format!("/v1/runs/{}/explain", one_of_them.1["runId"].as_str().unwrap());
    for server in &both {
        let listed = get(server, "/v1/limits", &key).await;
        assert_eq!(listed["limits"][0]["unfinishedRunsNow"], MAY_HAVE, "{listed}");
        let gates = get(server, &explain, &key).await["gates"].take();
        let is_held = |gate: &&Value| gate["gate"] == "tenant_runs";
        let gate = gates.as_array().unwrap().iter().find(is_held).expect("it is full");
        let said = format!("has {MAY_HAVE} of {MAY_HAVE} unfinished runs");
        assert!(gate["now"].as_str().unwrap().contains(&said), "{gate}");
    }
}

#[tokio::test]
async fn a_budget_is_counted_through_both_and_people_are_told_once() {
    // S2-67: what workers say to one coordinator refuses submissions at the other.
    let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
    let (both, key) = two(&database, &folder.path().join("tenure.key")).await;
    let wanted = json!({"workspaceId": "default", "tokens": 100, "soft": {"tokens": 40}});
    assert_eq!(post(&both[0], "/v1/budgets", &key, wanted).await.0, 200);
    both[1].reload_api_keys().await.unwrap();
    let run = json!({"kind": "k", "queue": "q", "input": {}});
    let poll = json!({"workerId": "w", "queues": ["q"], "max": 1, "waitMs": 20_000});
    for n in 0..10 {
        let (one, other) = (&both[n % 2], &both[(n + 1) % 2]);
        let submitted = post(one, "/v1/runs", &key, run.clone()).await;
        assert_eq!(submitted.0, 201, "{n}: {submitted:?}");
        let (_, leased) = post(other, "/v1/leases", &key, poll.clone()).await;
        let lease = &leased["leases"][0];
        let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
        let report = json!({"attempt": 1, "workerId": "w", "outcome": "SUCCEEDED",
            "spend": {"tokens": 10}});
        let answer = post(one, &path, lease["taskToken"].as_str().unwrap(), report).await;
        assert_eq!(answer.1["verdict"], "COMMITTED", "{answer:?}");
    }
    for server in &both {
        let refused = post(server, "/v1/runs", &key, run.clone()).await;
        assert_eq!((refused.0, &refused.1["error"]), (409, &json!("budget_spent")), "{refused:?}");
        let listed = get(server, "/v1/budgets", &key).await;
        assert_eq!(listed["budgets"][0]["used"]["tokens"], 100, "{listed}");
    }
    // Whoever was second to look wrote nothing: the log has the budget and one entry for each level.
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let entries =
        "SELECT body FROM tenure.object_log WHERE object_type = 'budget' ORDER BY revision";
    let told = loop {
        let rows = client.query(entries, &[]).await.unwrap();
        let told: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        if told.last().is_some_and(|body| body.contains("\"spent\"")) {
            break told;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[1].contains("\"soft\"}"), "{told:?}");
    let mut alerts = 0;
    for server in &both {
        let url = format!("http://{}/metrics", server.local_addr());
        let text = browser().build().unwrap().get(url).bearer_auth(&key).send().await.unwrap();
        let text = text.text().await.unwrap();
        alerts +=
            text.lines().filter(|line| line.starts_with("tenure_budget_alerts_total{")).count();
    }
    assert!(alerts >= 1, "somebody counted them");
}

#[tokio::test]
async fn a_repeated_pause_waits_for_batches_under_way_and_writes_nothing() {
    // If it wrote the pause again, a queue that a peer resumed meanwhile would be paused without a record.
    let database = Database::create();
    let folder = tempfile::tempdir().unwrap();
    let ([one, two], key) = two(&database, &folder.path().join("keys")).await;
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let version = async || -> i64 {
        client.query_one("SELECT pauses FROM tenure.meta", &[]).await.unwrap().get(0)
    };
    let (status, first) = post(&one, "/v1/queues/q/pause", &key, json!({})).await;
    assert_eq!(status, 200, "{first}");
    let written = version().await;
    let marker = "INSERT INTO tenure.batches (committer, n, at) \
        VALUES (decode(repeat('ab', 16), 'hex'), 1, 1)";
    client.batch_execute(&format!("BEGIN; {marker}")).await.unwrap();
    let again =
        tokio::spawn(async move { post(&two, "/v1/queues/q/pause", &key, json!({})).await });
    for _ in 0..500 {
        assert!(!again.is_finished(), "a batch is under way");
        version().await;
    }
    client.batch_execute("COMMIT").await.unwrap();
    let (status, second) = again.await.unwrap();
    assert_eq!((status, second), (200, first));
    assert_eq!(version().await, written);
}

#[tokio::test]
async fn a_queue_that_one_pauses_is_paused_for_all() {
    // The other coordinator does not know of the pause yet: its commit is refused, and it decides again.
    let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
    let (both, key) = two(&database, &folder.path().join("tenure.key")).await;
    let [one, other] = &both;
    for _ in 0..3 {
        assert_eq!(post(one, "/v1/runs", &key, json!({"kind": "k", "queue": "q"})).await.0, 201);
    }
    let poll =
        |wait_ms: u64| json!({"workerId": "w", "queues": ["q"], "max": 1, "waitMs": wait_ms});
    let leased = |answer: (u16, Value)| answer.1["leases"].as_array().unwrap().len();
    assert_eq!(leased(post(other, "/v1/leases", &key, poll(10_000)).await), 1);
    let (status, paused) = post(one, "/v1/queues/q/pause", &key, json!({})).await;
    assert_eq!(status, 200, "{paused}");
    for server in [other, one] {
        assert_eq!(leased(post(server, "/v1/leases", &key, poll(0)).await), 0);
    }
    assert!(get(other, "/v1/queues", &key).await["queues"][0]["pause"].is_object());
    let (waiting, (status, _)) = tokio::join!(
        post(other, "/v1/leases", &key, poll(30_000)),
        post(one, "/v1/queues/q/resume", &key, json!({}))
    );
    assert_eq!((status, leased(waiting)), (200, 1));
}
