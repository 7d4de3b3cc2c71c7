//! A coordinator and its database become separated: slow queries, a network that drops everything, a primary that was
//! replaced, a standby with a different clock. Workers lose nothing, and no caller gets stale data.

use std::time::Duration;

use futures_util::future::join_all;
use pgserver::{Server, give_to_server_user};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::database::{BETWEEN_TRIES, Served, TRIES_MAX, UNHURRIED, all_calls, client, run};

/// The approximate interval between a worker's calls.
const RHYTHM: Duration = Duration::from_millis(100);

async fn heartbeat(served: &Served, lease: &Value) -> (u16, Value) {
    let path = format!("/v1/tasks/{}/heartbeat", lease["taskId"].as_str().unwrap());
    let (got, _) = served.at_last(&path, token(lease), &said(lease, json!({}))).await;
    (got.status, got.body)
}

async fn completed(served: &Served, lease: &Value) -> (u16, Value) {
    let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
    let report = said(lease, json!({"outcome": "SUCCEEDED", "output": 1}));
    let (got, _) = served.at_last(&path, token(lease), &report).await;
    (got.status, got.body)
}

fn token(lease: &Value) -> &str {
    lease["taskToken"].as_str().unwrap()
}

fn said(lease: &Value, more: Value) -> Value {
    super::test_server::merged(json!({"attempt": lease["attempt"], "workerId": "w"}), more)
}

/// Sessions of coordinators that wait for a lock.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity \
    WHERE application_name LIKE 'tenure %' AND wait_event_type = 'Lock'";
/// How many queries for callers of one tenant run at once.
const READERS: i64 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn questions_that_take_long_keep_no_worker_waiting() {
    // F44, A8, B6: every connection for callers is held. Heartbeats, new work, results, keys and health still work.
    let database = Server::builder().without_fsync().start().unwrap();
    let (admin, other) = (client(&database).await, client(&database).await);
    let served = Served::at(&database.conninfo("postgres"), UNHURRIED).await;
    served.submit("first").await;
    let lease = served.lease().await;
    other.batch_execute("BEGIN; LOCK TABLE tenure.audit IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let asking = join_all((0..2 * READERS).map(|_| served.get("/v1/audit")));
    let working = async {
        while admin.query_one(WAITING, &[]).await.unwrap().get::<_, i64>(0) < READERS {
            tokio::task::yield_now().await;
        }
        let path = format!("/v1/tasks/{}/heartbeat", lease["taskId"].as_str().unwrap());
        for _ in 0..10 {
            let beat =
                served.ask("POST", &path, token(&lease), Some(said(&lease, json!({})))).await;
            assert_eq!(beat.status, 200, "{:?}", beat.body);
            assert_eq!(served.get("/readyz").await.status, 200);
            tokio::time::sleep(RHYTHM).await;
        }
        assert_eq!(served.submit("second").await.status, 201);
        let second = served.lease().await;
        for lease in [&lease, &second] {
            let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
            let report = said(lease, json!({"outcome": "SUCCEEDED", "output": 1}));
            let done = served.ask("POST", &path, token(lease), Some(report)).await;
            assert_eq!(done.body["verdict"], "COMMITTED", "{:?}", done.body);
        }
        served.server.reload_api_keys().await.expect("keys and limits are read");
        let waiting: i64 = admin.query_one(WAITING, &[]).await.unwrap().get(0);
        assert_eq!(waiting, READERS, "they were held all the time");
        other.batch_execute("ROLLBACK").await.unwrap();
    };
    let (asked, ()) = tokio::join!(asking, working);
    let answered = asked.iter().filter(|got| got.status == 200).count();
    assert!(answered >= READERS as usize, "who had a connection is answered in the end");
}

/// A proxy to a server that can be cut: connections stay open, and nothing passes.
struct Cuttable {
    port: u16,
    is_cut: watch::Sender<bool>,
}

impl Cuttable {
    async fn before(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, to) = (listener.local_addr().unwrap().port(), server.port());
        let (is_cut, cut) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)).await else { continue };
                let ((from_near, to_near), (from_far, to_far)) =
                    (near.into_split(), far.into_split());
                tokio::spawn(pass_on(from_near, to_far, cut.clone()));
                tokio::spawn(pass_on(from_far, to_near, cut.clone()));
            }
        });
        Self { port, is_cut }
    }

    fn address(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port)
    }
}

async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut cut: watch::Receiver<bool>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        // The channel ends with the test.
        if cut.wait_for(|is_cut| !is_cut).await.is_err()
            || to.write_all(&buffer[..length]).await.is_err()
        {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_cut_off_from_the_database_says_so_and_tells_nothing_old() {
    // F49, C3, C7: nothing refuses and nothing answers on the way. Other coordinators go on meanwhile; this one
    // answers every call with 503, and afterwards with the real outcome.
    let database = Server::builder().on_a_port().without_fsync().start().unwrap();
    let way = Cuttable::before(&database).await;
    let apart = Served::at(&way.address(), Duration::from_secs(1)).await;
    let other = apart.beside(&database.conninfo("postgres")).await;
    let submitted = apart.submit("first").await;
    let run_id = submitted.body["runId"].as_str().unwrap().to_owned();
    let lease = apart.lease().await;
    let path = format!("/v1/runs/{run_id}");
    assert_eq!(apart.get(&path).await.body["state"], "running");
    way.is_cut.send_replace(true);
    assert_eq!(completed(&other, &lease).await.1["verdict"], "COMMITTED");
    for (call, code) in all_calls(&apart, &lease, &run_id).await {
        let codes = ["unavailable", "unknown_outcome", "overloaded"];
        assert!(codes.contains(&code.as_str()), "{call}: {code}");
    }
    assert_eq!(apart.get("/readyz").await.status, 503);
    assert_eq!(apart.get("/livez").await.status, 200, "no reason to restart it");
    assert_eq!(other.get(&path).await.body["state"], "succeeded");
    way.is_cut.send_replace(false);
    apart.is_ready_again().await;
    for _ in 0..TRIES_MAX {
        let got = apart.get(&path).await;
        if got.status == 200 {
            assert_eq!(got.body["state"], "succeeded");
            apart.verify().await;
            return;
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    panic!("it cannot be read again");
}

/// Two servers, the second a standby of the first; and the address of both.
fn pair(standbys: &str) -> (Server, Server, String) {
    let first = Server::builder().start().unwrap();
    first.sql("postgres", CLOCK_OF_A_FILE).unwrap();
    let second = first.standby("s1").unwrap();
    if !standbys.is_empty() {
        first.set("synchronous_standby_names", standbys).unwrap();
        first.until_followed("sync").unwrap();
    }
    let both = format!(
        "host={},{} port={},{} user=postgres dbname=postgres",
        first.folder().display(),
        second.folder().display(),
        first.port(),
        second.port()
    );
    (first, second, both)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_revoked_after_a_failover_is_refused_by_who_still_reads_the_old_primary() {
    // C7, X12: the old primary stays up and every connection of an idle coordinator leads there.
    let (first, second, both) = pair("");
    let idle = Served::at(&both, UNHURRIED).await;
    let made = idle.post("/v1/keys", json!({"roles": ["client"]})).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let (key_id, secret) = (made.body["key"]["keyId"].as_str(), made.body["secret"].as_str());
    let (key_id, secret) = (key_id.unwrap(), secret.unwrap());
    assert_eq!(idle.ask("GET", "/v1/runs", secret, None).await.status, 200);
    first.until_caught_up().unwrap();
    second.promote().unwrap();
    let other = idle.beside(&second.conninfo("postgres")).await;
    let revoked = other.post(&format!("/v1/keys/{key_id}/revoke"), json!({})).await;
    assert_eq!(revoked.status, 200, "{:?}", revoked.body);
    for _ in 0..TRIES_MAX {
        let got = idle.ask("GET", "/v1/runs", secret, None).await;
        if ![200, 503].contains(&got.status) {
            assert_eq!(got.status, 401, "{:?}", got.body);
            assert_eq!(first.sql("postgres", "SELECT pg_is_in_recovery()").unwrap(), "f");
            idle.is_ready_again().await;
            return;
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    panic!("the revoked key stays good");
}

/// Sessions find this clock before the server's. It is ahead by the number of seconds in a file of the server.
const CLOCK_OF_A_FILE: &str = "CREATE SCHEMA lab; \
    CREATE FUNCTION lab.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE SECURITY DEFINER AS \
        $$SELECT pg_catalog.clock_timestamp() + make_interval(secs => \
            coalesce(pg_catalog.pg_read_file('lab_clock', 0, 20, true), '0')::float8)$$; \
    GRANT USAGE ON SCHEMA lab TO public; \
    ALTER DATABASE postgres SET search_path = lab, pg_catalog";

fn set_clock(server: &Server, ahead: i32) {
    let file = server.data().join("lab_clock");
    std::fs::write(&file, ahead.to_string()).unwrap();
    give_to_server_user(&file).unwrap();
}

/// Shorter than the clock difference, and long enough for repeated calls on a slow machine.
const LEASE_MS: u64 = 3_000;

/// A standby with a different clock takes over. A worker that sends heartbeats keeps its lease, a silent one loses it
/// in time.
async fn take_over_with_a_clock(ahead: i32) {
    let (first, second, both) = pair("s1");
    let served = Served::at(&both, UNHURRIED).await;
    let mut leases = Vec::new();
    for name in ["silent", "heard"] {
        let body = super::test_server::merged(run(name, json!({})), json!({"leaseMs": LEASE_MS}));
        assert_eq!(served.post("/v1/runs", body).await.status, 201);
        leases.push(served.lease().await);
    }
    let (silent, heard) = (&leases[0], &leases[1]);
    set_clock(&second, ahead);
    assert_eq!(heartbeat(&served, heard).await.0, 200);
    first.kill().unwrap();
    second.promote().unwrap();
    second.set("synchronous_standby_names", "").unwrap();
    let poll = json!({"workerId": "v", "queues": ["q"], "max": 1});
    let mut again = Value::Null;
    for _ in 0..TRIES_MAX {
        let (beat, body) = heartbeat(&served, heard).await;
        assert_eq!(beat, 200, "A8: who is heard of keeps its lease: {body:?}");
        let (got, _) = served.at_last("/v1/leases", &served.key, &poll).await;
        again = got.body["leases"][0].clone();
        if !again.is_null() {
            break;
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    assert_eq!(again["taskId"], silent["taskId"], "the lease of who is silent ends");
    let late = completed(&served, silent).await;
    assert_ne!(late.1["verdict"], "COMMITTED", "A1: {late:?}");
    assert_eq!(completed(&served, heard).await.1["verdict"], "COMMITTED");
    served.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_whose_clock_is_behind_takes_over() {
    // F47, A1, A4, A8: by minutes, so that a lease that waited for the clock would not expire during the test.
    take_over_with_a_clock(-600).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_whose_clock_is_ahead_takes_over() {
    // F47, A1, A4, A8: by ten leases.
    take_over_with_a_clock(30).await;
}
