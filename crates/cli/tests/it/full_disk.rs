//! A full disk: clear refusals, nothing lost, and service resumes when there is space again.
//!
//! The disk is a small file system in memory that only these processes see.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crashlab::small_disk::{DISK_BYTES, SmallDisk};
use serde_json::Value;
use tenure::{Client, Error, NewRun, Retries};
use wire::answers::{Envelope, HeartbeatAck};
use wire::requests::{Completed, Heartbeat, LeaseRequest};
use wire::{Code, Outcome, State, Verdict};

use crate::home::{CommandOutput, Home, Process};

/// A few dozen of these fill the disk.
const INPUT_BYTES: usize = 64 << 10;
/// Far more than fit.
const SUBMISSIONS_MAX: usize = 4 * DISK_BYTES / INPUT_BYTES;

fn small_disk(home: &Home) -> SmallDisk {
    SmallDisk::mount(&home.path().join("disk")).unwrap()
}

/// A command of the binary that sees the disk.
fn tenure(home: &Home, disk: &SmallDisk, arguments: &[&str]) -> Command {
    let plain = home.tenure(arguments);
    let mut command = disk.enter(Path::new(plain.get_program()));
    command.args(plain.get_args()).stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn store(disk: &SmallDisk) -> String {
    format!("sqlite:{}", disk.inside().join("tenure.db").display())
}

/// A server whose store is on the disk, and a client without retries.
fn serve(home: &Home, disk: &SmallDisk) -> (Process, Client) {
    let store = store(disk);
    let arguments = ["serve", "--json", "--listen", "127.0.0.1:0", "--store", &store];
    let mut command = tenure(home, disk, &arguments);
    command.stderr(fs::File::create(log(home)).unwrap());
    let mut server = Process::start(command);
    let ready = server.line();
    let text = |name: &str| ready[name].as_str().unwrap();
    let client = Client::new(text("url"), text("apiKey")).unwrap();
    (server, client.with_retries(Retries::NONE))
}

fn log(home: &Home) -> PathBuf {
    home.path().join("log")
}

fn big_run() -> NewRun {
    NewRun::new("heavy", &"x".repeat(INPUT_BYTES)).queue("disk")
}

/// Submits until the disk is full. Returns the keys and runs that were acknowledged, and the key
/// that was not.
async fn fill(client: &Client) -> (Vec<(String, String)>, String) {
    let mut acknowledged = Vec::new();
    for n in 0..SUBMISSIONS_MAX {
        let key = format!("fill-{n}");
        match client.submit_run(big_run()).idempotency_key(&key).await {
            Ok(run) => acknowledged.push((key, run.id().to_owned())),
            Err(error) => {
                // A definite refusal, not a broken connection: the call may be repeated.
                assert_eq!(error.code(), Some(Code::Unavailable), "{error}");
                assert!(error.is_retryable() && error.status() == Some(503), "{error}");
                assert!(error.to_string().contains("its disk is full"), "{error}");
                return (acknowledged, key);
            }
        }
    }
    panic!("{SUBMISSIONS_MAX} submissions of {INPUT_BYTES} bytes fit on {DISK_BYTES}");
}

async fn all_are_there(client: &Client, acknowledged: &[(String, String)]) {
    for (key, id) in acknowledged {
        let run = client.run(id).status().await.unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(run.input.unwrap().text().len(), INPUT_BYTES + 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f19_a_full_disk_is_refused_clearly_and_service_goes_on_when_there_is_room() {
    let home = Home::new();
    let disk = small_disk(&home);
    let (mut server, client) = serve(&home, &disk);
    disk.lay_ballast().unwrap();

    let (mut acknowledged, refused) = fill(&client).await;
    assert!(!acknowledged.is_empty());
    // S2-104: a refused call has no effect. Reads continue, and find exactly what was acknowledged.
    let again = || client.submit_run(big_run()).idempotency_key(&refused);
    assert!(again().await.is_err(), "there is still no room");
    all_are_there(&client, &acknowledged).await;
    // The log tells the operator, who can free space, what is wrong.
    assert!(fs::read_to_string(log(&home)).unwrap().contains("disk is full"));
    let waiting = client.queues().list().await.unwrap().queues.pop().unwrap();
    assert_eq!(waiting.ready, acknowledged.len() as u64);

    disk.drop_ballast().unwrap();
    // The same server accepts the very call that it refused.
    let accepted = again().accept().await.expect("there is room again");
    assert_eq!(accepted.replayed, None, "nothing of the refused call was kept");
    acknowledged.push((refused, accepted.run_id));
    assert!(server.child.try_wait().unwrap().is_none(), "the server never went away");
    work_off(&client, acknowledged.len()).await;
    all_are_there(&client, &acknowledged).await;

    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    let verify =
        tenure(&home, &disk, &["verify", "--json", "--store", &store(&disk)]).output().unwrap();
    let ran = CommandOutput::of(verify);
    assert_eq!(ran.code, 0, "{ran:?}");
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&found["findings"], &found["tasks"]),
        (&Value::Array(Vec::new()), &acknowledged.len().into())
    );
}

/// Completes every run that was accepted.
async fn work_off(client: &Client, runs: usize) {
    let poll = LeaseRequest {
        worker_id: "w".to_owned(),
        queues: vec!["disk".to_owned()],
        max: 8,
        ..LeaseRequest::default()
    };
    let mut done = 0;
    while done < runs {
        let leases = client.lease(&poll).await.unwrap().leases;
        assert!(!leases.is_empty(), "{done} of {runs} runs are done and no more is ready");
        for lease in leases {
            let report = Completed {
                spend: None,
                attempt: lease.attempt,
                worker_id: "w".to_owned(),
                outcome: Outcome::Succeeded,
                completed_at: None,
                output: None,
                error: None,
                metrics: None,
                cancelled_during_phase: None,
                partial_progress: None,
                traceparent: None,
                steps: Vec::new(),
                children: Vec::new(),
                effects: Vec::new(),
                next: false,
                log: Vec::new(),
            };
            let ack = client.completed(&lease.task_id, &lease.task_token, &report).await.unwrap();
            assert_eq!((ack.verdict, ack.state), (Verdict::Committed, State::Succeeded));
            done += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_for_longer_than_a_lease_costs_no_honest_worker_its_lease() {
    let home = Home::new();
    let disk = small_disk(&home);
    let (_server, client) = serve(&home, &disk);
    disk.lay_ballast().unwrap();
    let run = big_run().queue("short").lease(Duration::from_secs(6));
    client.submit_run(run).await.unwrap();
    let lease = client.lease(&poll("holder", 0)).await.unwrap().leases.pop().unwrap();
    fill(&client).await;

    // Heartbeats are small, so some still fit. From the first that does not, renewals fail.
    let mut expires_at = lease.lease_expires_at;
    while let Ok(ack) = beat(&client, &lease).await {
        expires_at = ack.lease_expires_at;
    }
    loop {
        // A rival polls all the while; its wait is also the pause between two checks of the time.
        let rival = client.lease(&poll("rival", 250)).await;
        assert_eq!(
            rival.map_or(0, |granted| granted.leases.len()),
            0,
            "the lease is not for others"
        );
        let refused = beat(&client, &lease).await.expect_err("there is no room");
        assert_eq!(refused.code(), Some(Code::Unavailable), "{refused}");
        if refused.problem().unwrap().server_time.as_ms() > expires_at.as_ms() + 1_000 {
            break;
        }
    }
    disk.drop_ballast().unwrap();
    // A8: the rival polls first and gets nothing; the outage was the server's and not the worker's.
    assert_eq!(client.lease(&poll("rival", 0)).await.unwrap().leases.len(), 0);
    assert_eq!(beat(&client, &lease).await.unwrap().verdict, Verdict::Committed);
    // S0-48: but a worker that goes silent while the server could receive heartbeats is replaced.
    let next = client.lease(&poll("rival", 30_000)).await.unwrap().leases.pop().unwrap();
    assert_eq!(next.attempt, lease.attempt + 1);
}

fn poll(worker: &str, wait_ms: u64) -> LeaseRequest {
    LeaseRequest {
        worker_id: worker.to_owned(),
        queues: vec!["short".to_owned()],
        max: 1,
        wait_ms: Some(wait_ms),
        ..LeaseRequest::default()
    }
}

async fn beat(client: &Client, lease: &Envelope) -> Result<HeartbeatAck, Error> {
    let body = Heartbeat {
        attempt: lease.attempt,
        worker_id: "holder".to_owned(),
        ..Heartbeat::default()
    };
    client.heartbeat(&lease.task_id, &lease.task_token, &body).await
}
