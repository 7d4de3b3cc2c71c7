//! Nobody answers for longer than a lease: no honest worker may pay for that.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use historyck::event::{DOWN, Phase};
use rustix::process::Signal;
use wire::answers::Envelope;
use wire::requests::{LeaseRequest, SubmitRun};
use wire::{Outcome, Verdict};

use super::{Tally, Wishes};
use crate::load::{LEASE_MS, QUEUE, report};
use crate::storm::Storm;
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

pub async fn stopped_for_longer_than_a_lease(wishes: &Wishes) -> Result<Tally> {
    let mut storm = Storm::begin(wishes, wishes.seed ^ 0x57)?;
    let held = within("leases to be granted", hold(&storm, LEASE_MS)).await??;
    storm.rage();
    tokio::task::block_in_place(|| storm.server(0)?.freeze())?;
    storm.note(DOWN, Phase::Begin, Some("stopped"));
    // Silence is the fault.
    tokio::time::sleep(SILENCE).await;
    storm.note(DOWN, Phase::End, Some("goes on"));
    storm.server(0)?.signal(Signal::CONT)?;
    within("leases to be honoured", still_theirs(&storm, &held)).await??;
    storm.settle("paused", wishes).await
}

pub(crate) async fn down_for_longer_than_a_lease(wishes: &Wishes) -> Result<Tally> {
    let mut storm = Storm::begin(wishes, wishes.seed ^ 0xd0)?;
    let held = within("leases to be granted", hold(&storm, LEASE_MS)).await??;
    storm.rage();
    tokio::task::block_in_place(|| storm.kill(0, "for longer than a lease"))?;
    tokio::time::sleep(SILENCE).await;
    tokio::task::block_in_place(|| storm.rise(0, None))?;
    within("leases to be honoured", still_theirs(&storm, &held)).await??;
    storm.settle("outage", wishes).await
}

/// A server that is asked to stop under load drains: who waits is answered, who is not asks again after the
/// restart, and every lease is still its worker's.
pub async fn asked_to_stop(wishes: &Wishes) -> Result<Tally> {
    let mut storm = Storm::begin(wishes, wishes.seed ^ 0x70)?;
    let held = within("leases to be granted", hold(&storm, LONG_LEASE_MS)).await??;
    storm.rage();
    storm.further(EVENTS_FIRST).await?;
    let waiting = {
        let me = storm.load.as_who("idle");
        let poll = LeaseRequest { queues: vec!["nothing".to_owned()], ..poll("idle", 1) };
        tokio::spawn(async move { me.lease(&LeaseRequest { wait_ms: Some(30_000), ..poll }).await })
    };
    storm.further(EVENTS_FIRST).await?;
    storm.note(DOWN, Phase::Begin, Some("asked to stop"));
    storm.server(0)?.signal(Signal::TERM)?;
    let me = storm.load.as_who(HOLDER);
    for lease in &held {
        // Answered while it drains, or not at all; never refused.
        if let Err(error) = me.heartbeat(HOLDER, lease).await {
            ensure!(error.may_repeat(), "a heartbeat was refused while draining: {error}");
        }
    }
    let status =
        tokio::task::block_in_place(|| storm.server(0)?.wait_for_death("a draining server"))?;
    ensure!(status.success(), "a server that is asked to stop ends well, not with {status}");
    let answer = within("a poll to be answered while draining", waiting).await??;
    ensure!(answer?.is_empty(), "a poll is answered, not cut off");
    tokio::task::block_in_place(|| storm.rise(0, None))?;
    let kept = within("leases to be honoured", still_theirs(&storm, &held)).await??;
    ensure!(kept == HELD as usize, "only {kept} of {HELD} leases outlived the restart");
    storm.settle("stop", wishes).await
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
pub(super) async fn hold(storm: &Storm, lease_ms: u64) -> Result<Vec<Envelope>> {
    let me = storm.load.as_who(HOLDER);
    for n in 0..HELD {
        let run = SubmitRun { lease_ms: Some(lease_ms), ..storm.load.plain_run() };
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
pub(super) async fn still_theirs(storm: &Storm, held: &[Envelope]) -> Result<usize> {
    let me = storm.load.as_who(HOLDER);
    let mut kept = 0;
    for lease in held {
        if storm.load.insist(|| me.heartbeat(HOLDER, lease)).await.is_ok() {
            let report = report(HOLDER, lease, Outcome::Succeeded);
            let ack = storm.load.insist(|| me.completed(HOLDER, lease, &report)).await;
            let ack = ack.context("a lease that was renewed just now")?;
            ensure!(ack.verdict == Verdict::Committed, "{ack:?}");
            kept += 1;
        }
    }
    Ok(kept)
}
