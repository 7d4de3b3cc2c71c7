//! No coordinator answers for longer than a lease: no obedient worker may lose its lease.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use historyck::event::{DOWN, Phase};
use rustix::process::Signal;
use wire::answers::Envelope;
use wire::requests::{LeaseRequest, SubmitRun};
use wire::{Outcome, Verdict};

use super::{LabOptions, Tally};
use crate::crash_scenario::CrashScenario;
use crate::load::{LEASE_MS, QUEUE, report};
use crate::waits::within;

/// Much longer than a lease.
const SILENCE: Duration = Duration::from_millis(LEASE_MS * 3 / 2);
/// Longer than any experiment: a worker with this lease is never late, however slow the machine is.
pub(super) const LONG_LEASE_MS: u64 = 600_000;
/// Events to wait for until the server is busy.
const EVENTS_FIRST: usize = 100;
/// Leases held during the outage.
pub(super) const HELD: u32 = 8;
const HOLDER: &str = "holder";

pub async fn stopped_for_longer_than_a_lease(options: &LabOptions) -> Result<Tally> {
    let mut scenario = CrashScenario::begin(options, options.seed ^ 0x57)?;
    let held = within("leases to be granted", hold(&scenario, LEASE_MS)).await??;
    scenario.start_load();
    tokio::task::block_in_place(|| scenario.server(0)?.freeze())?;
    scenario.note(DOWN, Phase::Begin, Some("stopped"));
    // The silence is the fault.
    tokio::time::sleep(SILENCE).await;
    scenario.note(DOWN, Phase::End, Some("goes on"));
    scenario.server(0)?.signal(Signal::CONT)?;
    within("leases to be honoured", still_theirs(&scenario, &held)).await??;
    scenario.settle("paused", options).await
}

pub(crate) async fn down_for_longer_than_a_lease(options: &LabOptions) -> Result<Tally> {
    let mut scenario = CrashScenario::begin(options, options.seed ^ 0xd0)?;
    let held = within("leases to be granted", hold(&scenario, LEASE_MS)).await??;
    scenario.start_load();
    tokio::task::block_in_place(|| scenario.kill(0, "for longer than a lease"))?;
    tokio::time::sleep(SILENCE).await;
    tokio::task::block_in_place(|| scenario.restart(0, None))?;
    within("leases to be honoured", still_theirs(&scenario, &held)).await??;
    scenario.settle("outage", options).await
}

/// A server that is asked to stop under load drains: waiting calls are answered, unanswered ones are retried after
/// the restart, and every lease still belongs to its worker.
pub async fn asked_to_stop(options: &LabOptions) -> Result<Tally> {
    let mut scenario = CrashScenario::begin(options, options.seed ^ 0x70)?;
    let held = within("leases to be granted", hold(&scenario, LONG_LEASE_MS)).await??;
    scenario.start_load();
    scenario.wait_for_events(EVENTS_FIRST).await?;
    let waiting = {
        let me = scenario.load.recording_as("idle");
        let poll = LeaseRequest { queues: vec!["nothing".to_owned()], ..poll("idle", 1) };
        tokio::spawn(async move { me.lease(&LeaseRequest { wait_ms: Some(30_000), ..poll }).await })
    };
    scenario.wait_for_events(EVENTS_FIRST).await?;
    scenario.note(DOWN, Phase::Begin, Some("asked to stop"));
    scenario.server(0)?.signal(Signal::TERM)?;
    let me = scenario.load.recording_as(HOLDER);
    for lease in &held {
        // Answered during the drain or not at all; never refused.
        if let Err(error) = me.heartbeat(HOLDER, lease).await {
            ensure!(error.is_retryable(), "a heartbeat was refused while draining: {error}");
        }
    }
    let status =
        tokio::task::block_in_place(|| scenario.server(0)?.wait_for_death("a draining server"))?;
    ensure!(status.success(), "a server that is asked to stop ends well, not with {status}");
    let answer = within("a poll to be answered while draining", waiting).await??;
    ensure!(answer?.is_empty(), "a poll is answered, not cut off");
    tokio::task::block_in_place(|| scenario.restart(0, None))?;
    let kept = within("leases to be honoured", still_theirs(&scenario, &held)).await??;
    ensure!(kept == HELD as usize, "only {kept} of {HELD} leases outlived the restart");
    scenario.settle("stop", options).await
}

fn poll(worker: &str, max: u32) -> LeaseRequest {
    LeaseRequest {
        worker_id: worker.to_owned(),
        queues: vec![QUEUE.to_owned()],
        max,
        ..LeaseRequest::default()
    }
}

/// Submits `HELD` runs, leases them all and starts them.
pub(super) async fn hold(scenario: &CrashScenario, lease_ms: u64) -> Result<Vec<Envelope>> {
    let me = scenario.load.recording_as(HOLDER);
    for n in 0..HELD {
        let run = SubmitRun { lease_ms: Some(lease_ms), ..scenario.load.plain_run() };
        me.submit(run, &format!("held-{n}")).await?;
    }
    let leases = me.lease(&poll(HOLDER, HELD)).await?;
    ensure!(leases.len() == HELD as usize, "all are leased at once");
    let mut held = Vec::new();
    for lease in leases {
        // On a machine that stalls for a whole lease, the lease is lost before the experiment begins.
        let is_held =
            me.started(HOLDER, &lease).await.is_ok() && me.heartbeat(HOLDER, &lease).await.is_ok();
        held.extend(is_held.then_some(lease));
    }
    Ok(held)
}

/// Counts the held leases that are still valid; a report ends each run. A worker that this machine delayed for a
/// whole lease after the silence proves nothing. The judge decides from the history, by the worker's clock, whether a
/// lease ended too early.
pub(super) async fn still_theirs(scenario: &CrashScenario, held: &[Envelope]) -> Result<usize> {
    let me = scenario.load.recording_as(HOLDER);
    let mut kept = 0;
    for lease in held {
        if scenario.load.retry_until_decided(|| me.heartbeat(HOLDER, lease)).await.is_ok() {
            let report = report(HOLDER, lease, Outcome::Succeeded);
            let ack =
                scenario.load.retry_until_decided(|| me.completed(HOLDER, lease, &report)).await;
            let ack = ack.context("a lease that was renewed just now")?;
            ensure!(ack.verdict == Verdict::Committed, "{ack:?}");
            kept += 1;
        }
    }
    Ok(kept)
}
