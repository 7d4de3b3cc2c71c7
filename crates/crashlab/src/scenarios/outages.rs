//! Nobody answers for longer than a lease: no honest worker may pay for that.

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

/// Longer than a lease, by far.
const SILENCE: Duration = Duration::from_millis(LEASE_MS * 3 / 2);
/// Longer than any experiment: who holds this is never late, however slow the machine.
pub(super) const LONG_LEASE_MS: u64 = 600_000;
/// What must have happened for a server to be busy.
const EVENTS_FIRST: usize = 100;
/// Leases that are held meanwhile.
pub(super) const HELD: u32 = 8;
const HOLDER: &str = "holder";

pub async fn stopped_for_longer_than_a_lease(options: &LabOptions) -> Result<Tally> {
    let mut scenario = CrashScenario::begin(options, options.seed ^ 0x57)?;
    let held = within("leases to be granted", hold(&scenario, LEASE_MS)).await??;
    scenario.start_load();
    tokio::task::block_in_place(|| scenario.server(0)?.freeze())?;
    scenario.note(DOWN, Phase::Begin, Some("stopped"));
    // Silence is the fault.
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

/// A server that is asked to stop under load drains: who waits is answered, who is not asks again after the
/// restart, and every lease is still its worker's.
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
        // Answered while it drains, or not at all; never refused.
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

/// Submits so many runs, leases them all and begins them.
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
        // On a machine that stands still for a whole lease it is lost before anything began.
        let is_held =
            me.started(HOLDER, &lease).await.is_ok() && me.heartbeat(HOLDER, &lease).await.is_ok();
        held.extend(is_held.then_some(lease));
    }
    Ok(held)
}

/// How many of the leases that were held are honoured; the report of each ends its run. A worker that this machine
/// kept from asking for a whole lease after the silence proves nothing. Whether one was robbed is judged with the
/// history, by its own clock.
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
