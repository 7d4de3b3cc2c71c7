//! The server dies, is asked to stop, or is stopped in its tracks, always under load; what it said stays
//! true and what it granted stays granted.

pub(crate) mod chance;
mod ledger;
mod load;
mod phoenix;

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::answers::{AttemptView, Envelope, Leases, Record};
use wire::requests::{Heartbeat, LeaseRequest, ListRuns};
use wire::{AttemptOutcome, Code, State, Verdict};

use self::chance::Chance;
use self::load::{Load, QUEUE};
use self::phoenix::Phoenix;
use crate::home::Home;

const KILLS: usize = 32;
/// Small numbers kill a server that has hardly begun, large ones one that is busy.
const ACKNOWLEDGEMENTS_BETWEEN_KILLS: u64 = 120;
const CLIENTS: u64 = 10;
const WORKERS: u64 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f01_f03_killed_again_and_again_it_forgets_nothing_it_acknowledged() {
    let seed = chance::seed();
    let mut chance = Chance::new(seed);
    println!("repeat with {}", chance::repeat_with(seed));
    let home = Home::new();
    let mut server = Phoenix::start(&home, &mut chance);
    let load = Load::on(&server, seed);
    let (clients, workers) = (load.clients(CLIENTS), load.workers(WORKERS));

    for _ in 0..KILLS {
        load.ledger.further(chance.below(ACKNOWLEDGEMENTS_BETWEEN_KILLS) as usize).await;
        tokio::task::block_in_place(|| server.kill_and_restart());
    }
    load.enough.cancel();
    clients.join_all().await;
    // S2-43, S2-56, S2-100, S2-103: every accepted run is handed out until it ends, also one whose worker
    // died or whose grant was lost with a dying server (G1).
    load.ledger.all_committed().await;
    load.over.cancel();
    workers.join_all().await;

    // S3-53, S3-62: lost answers were asked for again and were the recorded ones; else nothing was tested.
    let totals = load.ledger.totals();
    assert!(totals.replayed > 0 && totals.unknown > 0, "{totals:?}");

    // S2-104, S2-105, S2-106, W-20: whatever was told or granted was on the disk first. What is asked from
    // here on can only come from there.
    tokio::task::block_in_place(|| server.kill_and_restart());
    late_reports_are_told_that_authority_is_lost(&load).await;
    everything_acknowledged_is_there(&load).await;
    nothing_else_is_there(&load).await;
    let found = tokio::task::block_in_place(|| server.bury_and_verify());
    assert_eq!(found["findings"], serde_json::json!([]));
    assert_eq!(found["tasks"], totals.submitted);
    let abandoned = load.ledger.abandoned().len();
    println!("{KILLS} kills, {abandoned} workers lost, {totals:?}");
}

/// The workers that fell silent come back with a result, each after another has won.
async fn late_reports_are_told_that_authority_is_lost(load: &Load) {
    for lease in load.ledger.abandoned() {
        let record = load.client.record(&lease.run_id).await.unwrap();
        // F06, S0-48: another worker took over when the lease had run out.
        assert!(winner_of(&record).attempt > lease.attempt);
        let report = load::succeeded(owner_of(&record, &lease), &lease, r#"{"by":"nobody"}"#);
        let late = load.client.completed(&lease.task_id, &lease.task_token, &report).await;
        // A3, S3-11: a report gets exactly one of three answers, and this one is CANCELLED.
        let refused = late.expect_err("the lease was lost");
        assert_eq!(refused.verdict(), Some(Verdict::Cancelled), "{refused}");
    }
}

fn owner_of<'r>(record: &'r Record, lease: &Envelope) -> &'r str {
    let attempt = record.attempts.iter().find(|attempt| attempt.lease_id == lease.lease_id);
    &attempt.expect("a lease that ended is an attempt of the record").owner
}

fn winner_of(record: &Record) -> &AttemptView {
    record.attempts.last().expect("a run that succeeded had an attempt")
}

async fn everything_acknowledged_is_there(load: &Load) {
    let runs: Vec<(String, String)> = load.ledger.runs().into_iter().collect();
    let check = |part: &[(String, String)]| check_runs(load.clone(), part.to_vec());
    let parts: JoinSet<Vec<String>> = runs.chunks(runs.len().div_ceil(8)).map(check).collect();
    let lost: BTreeSet<String> = parts.join_all().await.into_iter().flatten().collect();
    // A8: no lease was lost but those whose worker fell silent or came late.
    let losable = load.ledger.losable();
    assert!(lost.is_subset(&losable), "{lost:?} but only {losable:?} may be lost");
    let silent = load.ledger.abandoned().into_iter().map(|lease| lease.lease_id);
    assert!(silent.collect::<BTreeSet<_>>().is_subset(&lost), "a silent worker loses its lease");
}

async fn check_runs(load: Load, runs: Vec<(String, String)>) -> Vec<String> {
    let mut lost = Vec::new();
    for (key, id) in runs {
        let run = load.client.run(&id).await.expect("C1: an acknowledged submission is there");
        // S2-44, S0-46, S0-47: completion is recorded once, with the output of the report that was COMMITTED,
        // and whoever sees the claim released sees that output. S2-111: no late report changed it.
        assert_eq!(run.state, State::Succeeded);
        assert_eq!(run.output.as_ref().map(wire::Json::text), load.ledger.output(&id).as_deref());
        let input = run.input.expect("the run was asked for whole");
        let again = load.client.submit(load::as_submitted(input.text()), Some(&key)).await.unwrap();
        assert_eq!((again.run_id.as_str(), again.replayed), (id.as_str(), Some(true)), "C4");
        lost.extend(check_record(&load.client.record(&id).await.unwrap()));
    }
    lost
}

/// Returns the leases that were lost with their worker.
fn check_record(record: &Record) -> Vec<String> {
    // S2-114, W-5: every ended run has its record, whole, although the server died around its commit.
    assert_eq!(record.state, State::Succeeded);
    assert_eq!(winner_of(record).outcome, AttemptOutcome::Succeeded);
    // S2-113: in the order of time, whichever server wrote it down.
    let started = record.started_at.expect("the winner said that it began");
    assert!(record.created_at <= started && started <= record.completed_at);
    let successes = record.attempts.iter().filter(|a| a.outcome == AttemptOutcome::Succeeded);
    assert_eq!(successes.count(), 1);
    // S2-112: attempts and fences only grow (A2).
    let numbers: Vec<u32> = record.attempts.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(numbers, (1..=numbers.len() as u32).collect::<Vec<_>>());
    let fences: Vec<u64> = record.attempts.iter().map(|attempt| attempt.fence).collect();
    assert!(fences.is_sorted_by(|older, newer| older < newer), "{fences:?}");
    let lost = record.attempts.iter().filter(|a| a.outcome == AttemptOutcome::Lost);
    lost.map(|attempt| attempt.lease_id.clone()).collect()
}

async fn nothing_else_is_there(load: &Load) {
    // C2, S2-115: no submission, repeated or not, left a second run.
    let mut filters = ListRuns { queue: Some(QUEUE.to_owned()), ..ListRuns::default() };
    let mut listed = 0;
    loop {
        let page = load.client.list(&filters).await.unwrap();
        listed += page.runs.len();
        filters.cursor = page.next_cursor;
        if filters.cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed, load.ledger.totals().submitted);
}

/// Leases that are held while the server goes away.
const HELD: u32 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f11_asked_to_stop_under_load_it_drains_and_keeps_every_lease() {
    let seed = chance::seed();
    let mut chance = Chance::new(seed);
    println!("repeat with {}", chance::repeat_with(seed));
    let home = Home::new();
    let mut server = Phoenix::start(&home, &mut chance);
    let load = Load::on(&server, seed);
    let asked = Instant::now();
    let held = hold(&load, HELD).await;
    let waiting = tokio::spawn(wait_for_work_on(load.clone(), "nothing"));
    let (clients, workers) = (load.clients(CLIENTS), load.workers(WORKERS));

    let enough = ACKNOWLEDGEMENTS_BETWEEN_KILLS + chance.below(ACKNOWLEDGEMENTS_BETWEEN_KILLS);
    load.ledger.further(enough as usize).await;
    server.terminate();
    // Whoever is answered while it drains keeps its lease; whoever is not asks again after the restart.
    let beats: JoinSet<Option<Verdict>> =
        held.iter().map(|lease| beat(load.clone(), lease.clone())).collect();
    let code = tokio::task::block_in_place(|| server.exit_code());
    assert_eq!(code, 0);
    let refused = beats.join_all().await.into_iter().flatten().find(|v| *v != Verdict::Committed);
    assert_eq!(refused, None);
    assert_eq!(waiting.await.unwrap().unwrap().leases.len(), 0, "a poll is answered, not cut off");

    tokio::task::block_in_place(|| server.rise());
    load.enough.cancel();
    clients.join_all().await;
    for lease in held {
        assert_eq!(beat(load.clone(), lease.clone()).await, Some(Verdict::Committed));
        assert!(load.committed("holder", lease.clone(), "1", asked).await);
        // S2-106: the lease was in the store; nobody else ever had one.
        let record = load.client.record(&lease.run_id).await.unwrap();
        assert_eq!(record.attempts.len(), 1);
    }
    load.ledger.all_committed().await;
    load.over.cancel();
    workers.join_all().await;
    everything_acknowledged_is_there(&load).await;
    nothing_else_is_there(&load).await;
    let found = tokio::task::block_in_place(|| server.bury_and_verify());
    assert_eq!(found["findings"], serde_json::json!([]));
}

/// Submits so many runs, leases them all and begins them.
async fn hold(load: &Load, count: u32) -> Vec<Envelope> {
    for n in 0..count {
        let key = format!("held-{n}");
        let accepted = load.client.submit(load::held_run(), Some(&key)).await.unwrap();
        load.ledger.submitted(key, accepted.run_id);
    }
    let asked = Instant::now();
    let leases = load.lease("holder", None, count).await;
    assert_eq!(leases.len(), count as usize);
    for lease in &leases {
        assert!(load.started("holder", lease, asked).await);
    }
    leases
}

async fn wait_for_work_on(load: Load, queue: &'static str) -> Result<Leases, tenure::Error> {
    load.client.lease(&LeaseRequest { queues: vec![queue.to_owned()], ..rival() }).await
}

/// The verdict on one heartbeat; none when nothing was decided.
async fn beat(load: Load, lease: Envelope) -> Option<Verdict> {
    let body = Heartbeat {
        attempt: lease.attempt,
        worker_id: "holder".to_owned(),
        ..Heartbeat::default()
    };
    match load.client.heartbeat(&lease.task_id, &lease.task_token, &body).await {
        Ok(ack) => Some(ack.verdict),
        Err(error) if error.may_repeat() => None,
        Err(error) => Some(error.verdict().unwrap_or_else(|| panic!("{error}"))),
    }
}

/// Long enough for a slow machine to heartbeat in its remaining half.
const LEASE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f09_stopped_for_longer_than_a_lease_it_costs_no_honest_worker_its_lease() {
    let home = Home::new();
    let server = Phoenix::start(&home, &mut Chance::new(chance::seed()));
    let load = Load::on(&server, 0);
    load.client.submit(load::run("null", LEASE.as_millis() as u64), None).await.unwrap();
    let asked = Instant::now();
    let lease = load.lease("holder", None, 1).await.pop().unwrap();
    assert!(load.started("holder", &lease, asked).await);

    server.freeze().await;
    // Silence is the fault: a call that nobody answers for two leases.
    let asked = tokio::time::timeout(2 * LEASE, load.client.version()).await;
    assert!(asked.is_err(), "a stopped server answers nobody");
    server.signal("CONT");

    // A1, A8: a rival comes first, and gets nothing.
    let rival = LeaseRequest { wait_ms: Some(0), ..rival() };
    assert_eq!(load.client.lease(&rival).await.unwrap().leases.len(), 0);
    assert_eq!(beat(load.clone(), lease.clone()).await, Some(Verdict::Committed));

    // S0-48, S2-100: and yet no lease lasts for ever. Its worker falls silent while the server listens.
    let next = load.client.lease(&self::rival()).await.unwrap().leases.pop().unwrap();
    assert_eq!((next.run_id, next.attempt), (lease.run_id.clone(), lease.attempt + 1));
    assert!(next.fence > lease.fence);
    let report = load::succeeded("holder", &lease, "1");
    let late = load.client.completed(&lease.task_id, &lease.task_token, &report).await;
    let refused = late.expect_err("another attempt is current");
    assert_eq!(
        (refused.code(), refused.verdict()),
        (Some(Code::AttemptMismatch), Some(Verdict::Cancelled))
    );
}

/// A worker that waits as long as it may.
fn rival() -> LeaseRequest {
    LeaseRequest {
        worker_id: "rival".to_owned(),
        queues: vec![QUEUE.to_owned()],
        kinds: None,
        max: 1,
        wait_ms: Some(30_000),
        poll_id: None,
    }
}
