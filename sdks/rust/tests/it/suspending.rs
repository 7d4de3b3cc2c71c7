//! A suspended machine: its timers stop, but leases keep expiring.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tenure::{Ctx, StopReason, Worker, WorkerEvent};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::coordinator::{Coordinator, Reply, envelope_with, item_refusal};
use crate::heartbeats::until_told;
use crate::log::Log;
use crate::worker::{Running, worker};

/// A lease of ten minutes whose first heartbeat is due after all tests have ended.
fn quiet_lease() -> Value {
    envelope_with(1, json!({ "heartbeatIntervalMs": 200_000 }))
}

/// How long the machine was suspended, in seconds, in addition to what its timers counted; and the
/// number of reads of that clock.
#[derive(Clone)]
struct Suspended {
    seconds: Arc<AtomicU64>,
    looks: Arc<Log<()>>,
}

impl Suspended {
    fn never() -> Suspended {
        Suspended { seconds: Arc::default(), looks: Arc::new(Log::new()) }
    }

    fn machine_of(&self, worker: Worker) -> Worker {
        let suspended = self.clone();
        worker.boot_time(move || {
            suspended.looks.push(());
            Duration::from_secs(suspended.seconds.load(Ordering::SeqCst))
        })
    }

    fn resume_after(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Waits until the worker has checked every lease since: it reads the clock four times for
    /// that.
    async fn until_seen(&self) {
        let enough = self.looks.all().len() + 8;
        self.looks.until("looks at the clock", |looks| looks.len() >= enough).await;
    }
}

fn is_loss(event: &WorkerEvent) -> bool {
    matches!(event, WorkerEvent::Cancelled { .. })
}

#[tokio::test]
async fn a_task_whose_lease_ended_in_suspend_is_told_on_resume_and_its_result_discarded() {
    // S3-10, S3-48, S3-66: a lease expires by time, including time that no timer of this machine
    // has counted.
    let coordinator = Coordinator::start().await;
    let (seen, suspended) = (Arc::new(Log::new()), Suspended::never());
    let log = Arc::clone(&seen);
    let task = move |ctx: Ctx, _: Value| {
        let log = Arc::clone(&log);
        async move {
            log.push(None);
            ctx.cancelled().await;
            log.push(ctx.stop_reason());
            Ok(json!("a result without authority"))
        }
    };
    let running = Running::start(suspended.machine_of(worker(&coordinator)).handle("work", task));
    coordinator.offer([quiet_lease()]);
    seen.until("executing", |seen| !seen.is_empty()).await;
    suspended.resume_after(3_600);
    running.until("authority lost", is_loss).await;
    running.end().await.unwrap();
    assert!(
        matches!(&seen.all()[..], [None, Some(StopReason::LeaseLost { why })] if why.contains("deadline"))
    );
    assert!(coordinator.reports().is_empty());
    assert!(coordinator.to("/heartbeats").is_empty());
}

#[tokio::test]
async fn code_that_asks_learns_at_once_that_its_lease_ended_in_suspend() {
    // S3-10: before any thread that watches the clocks has run.
    let coordinator = Coordinator::start().await;
    let (seen, suspended) = (Arc::new(Log::new()), Suspended::never());
    let (log, machine) = (Arc::clone(&seen), suspended.clone());
    let task = move |ctx: Ctx, _: Value| {
        let (log, machine) = (Arc::clone(&log), machine.clone());
        async move {
            log.push(ctx.is_cancelled());
            machine.resume_after(3_600);
            log.push(ctx.is_cancelled());
            Ok(())
        }
    };
    let running = Running::start(suspended.machine_of(worker(&coordinator)).handle("work", task));
    coordinator.offer([quiet_lease()]);
    running.until("authority lost", is_loss).await;
    running.end().await.unwrap();
    assert_eq!(seen.all(), [false, true]);
    assert!(coordinator.reports().is_empty());
}

#[tokio::test]
async fn a_lease_that_outlived_a_suspend_is_renewed_on_resume() {
    // S4-40: the heartbeat that became due meanwhile is sent, and the task continues.
    let coordinator = Coordinator::start().await;
    let (task, finish) = until_told(&coordinator);
    let suspended = Suspended::never();
    let running = Running::start(suspended.machine_of(task));
    coordinator.offer([quiet_lease()]);
    coordinator.until_started(1).await;
    suspended.resume_after(300);
    coordinator.until("/heartbeats", 1).await;
    finish.cancel();
    running.until_committed(1).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn one_heartbeat_is_sent_for_each_interval() {
    // Proves: S4-40: not fewer, and not more.
    const INTERVALS: usize = 4;
    let coordinator = Coordinator::start().await;
    let (executing, finish) = (Arc::new(Log::new()), CancellationToken::new());
    let (log, until) = (Arc::clone(&executing), finish.clone());
    let task = move |_: Ctx, n: u32| {
        log.push(n);
        let until = until.clone();
        async move {
            until.cancelled().await;
            Ok(n)
        }
    };
    let suspended = Suspended::never();
    let running = Running::start(suspended.machine_of(worker(&coordinator)).handle("work", task));
    coordinator.offer([quiet_lease()]);
    executing.until("execution", |seen| !seen.is_empty()).await;
    for sent in 1..=INTERVALS {
        suspended.resume_after(199);
        suspended.until_seen().await;
        assert_eq!(coordinator.to("/heartbeats").len(), sent - 1, "a second before it is due");
        suspended.resume_after(1);
        coordinator.until("/heartbeats", sent).await;
    }
    finish.cancel();
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.to("/heartbeats").len(), INTERVALS);
}

#[tokio::test]
async fn a_lease_whose_grant_was_on_its_way_during_a_suspend_must_be_proven_first() {
    // S3-8, S3-10: nothing is executed under a lease that may be over.
    let coordinator = Coordinator::start().await;
    let gate = Arc::new(Notify::new());
    coordinator.once("/leases", Reply::Gate(Arc::clone(&gate)));
    coordinator.once("/heartbeats", Reply::Each(item_refusal(410, "task_expired")));
    let (executed, suspended) = (Arc::new(Log::new()), Suspended::never());
    let log = Arc::clone(&executed);
    let task = move |_: Ctx, n: u32| {
        log.push(n);
        async move { Ok(n) }
    };
    let running = Running::start(suspended.machine_of(worker(&coordinator)).handle("work", task));
    coordinator.until("/leases", 1).await;
    suspended.resume_after(3_600);
    coordinator.offer([quiet_lease()]);
    gate.notify_one();
    running.until("authority lost", is_loss).await;
    running.end().await.unwrap();
    assert!(executed.all().is_empty());
    assert!(coordinator.reports().is_empty());
}
