//! Nobody answers for longer than a lease: no honest worker may pay for that.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use historyck::event::{DOWN, Phase};
use rustix::process::Signal;
use wire::answers::Envelope;
use wire::requests::LeaseRequest;
use wire::{Outcome, Verdict};

use super::storm::Storm;
use super::{Tally, Wishes};
use crate::load::{LEASE_MS, QUEUE, report};

/// Longer than a lease, by far.
const SILENCE: Duration = Duration::from_millis(LEASE_MS * 3 / 2);
/// Leases that are held meanwhile.
const HELD: u32 = 8;
const HOLDER: &str = "holder";

pub(crate) async fn stopped_for_longer_than_a_lease(wishes: &Wishes) -> Result<Tally> {
    let mut storm = Storm::begin(wishes, wishes.seed ^ 0x57)?;
    let held = hold(&storm).await?;
    storm.rage();
    tokio::task::block_in_place(|| storm.server()?.freeze())?;
    storm.note(DOWN, Phase::Begin, Some("stopped"));
    // Silence is the fault.
    tokio::time::sleep(SILENCE).await;
    storm.note(DOWN, Phase::End, Some("goes on"));
    storm.server()?.signal(Signal::CONT)?;
    still_theirs(&storm, &held).await?;
    storm.settle("paused", wishes).await
}

pub(crate) async fn down_for_longer_than_a_lease(wishes: &Wishes) -> Result<Tally> {
    let mut storm = Storm::begin(wishes, wishes.seed ^ 0xd0)?;
    let held = hold(&storm).await?;
    storm.rage();
    tokio::task::block_in_place(|| storm.kill("for longer than a lease"))?;
    tokio::time::sleep(SILENCE).await;
    tokio::task::block_in_place(|| storm.rise(None))?;
    still_theirs(&storm, &held).await?;
    storm.settle("outage", wishes).await
}

/// Submits so many runs, leases them all and begins them.
async fn hold(storm: &Storm) -> Result<Vec<Envelope>> {
    let me = storm.load.as_who(HOLDER);
    for n in 0..HELD {
        me.submit(storm.load.plain_run(), &format!("held-{n}")).await?;
    }
    let request = LeaseRequest {
        worker_id: HOLDER.to_owned(),
        queues: vec![QUEUE.to_owned()],
        max: HELD,
        ..LeaseRequest::default()
    };
    let leases = me.lease(&request).await?;
    ensure!(leases.len() == HELD as usize, "all are leased at once");
    for lease in &leases {
        me.started(HOLDER, lease).await?;
        me.heartbeat(HOLDER, lease).await?;
    }
    Ok(leases)
}

/// Every lease that was held is honoured, and its report ends the run. A worker that this machine kept from asking
/// for a whole lease after the silence proves nothing; the history says so by its own clock.
async fn still_theirs(storm: &Storm, held: &[Envelope]) -> Result<()> {
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
    ensure!(kept > 0, "not one lease outlived the silence");
    Ok(())
}
