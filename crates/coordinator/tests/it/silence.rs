//! Stalls in which the shortest lease is another coordinator's.
//!
//! Tokio's time stands still and the store's clock is moved by hand: no coordinator finds anything by polling after a
//! while, as a coordinator that is never idle does not either.

use std::sync::mpsc;

use coordinator::{Coordinator, Granted, Options, Submission};
use store::PostgresStore;
use store::postgres::Notify;
use storetest::MixedRules;
use verdict::request::Heartbeat;
use verdict::{Answer, Name, Policy, Span, SupportedRules};

use crate::harness::{accepted, caller, poll, submission};

/// Longer than the shortest lease, and no stall for the lease that this coordinator granted.
const HUNG: Span = Span::from_secs(3);

/// No timer fires while this exists: the runtime lets time jump only when no thread is blocked, and one is.
struct StillTime {
    _until_dropped: mpsc::Sender<()>,
}

impl StillTime {
    fn begin() -> Self {
        let (until_dropped, held) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || held.recv());
        tokio::time::pause();
        Self { _until_dropped: until_dropped }
    }
}

async fn start(stage: &MixedRules, name: &str) -> Coordinator {
    let options = stage.options(name, SupportedRules::OURS, Notify::Off);
    let store = PostgresStore::open(stage.database.url(), options).await.expect("it opens");
    let options = Options::default();
    Coordinator::start(store, options).await.expect("it starts")
}

/// A task of this queue, leased from this coordinator.
async fn leased(by: &Coordinator, queue: &str, policy: Policy) -> Granted {
    let queue = Name::from(queue);
    let task = Submission { queue: queue.clone(), policy, ..submission("k") };
    accepted(&by.submit(vec![task]).await[0]);
    let mut granted = Vec::new();
    while granted.is_empty() {
        let poll = coordinator::Poll { queues: vec![queue.clone()], ..poll("w") };
        granted = by.lease(poll).await.expect("polls are answered");
    }
    granted.remove(0)
}

async fn heartbeat(at: &Coordinator, granted: &Granted) -> Answer {
    let beat = Heartbeat { caller: caller(granted), progress: None };
    at.heartbeat(granted.key(), beat).await.expect("the store works").answer
}

#[tokio::test]
async fn a_database_that_hung_costs_nobody_a_lease_that_another_coordinator_gave() {
    // A8, F24: the first coordinator granted only long leases and never had time to read the others. It is the first
    // to decide after the silence, and still revokes no lease that could not be renewed. Both ways, since the first of
    // two coordinators has two committers and the second has one.
    let _still = StillTime::begin();
    for (busy, other) in [(0, 1), (1, 0)] {
        let stage = MixedRules::new();
        let both = [start(&stage, "one").await, start(&stage, "two").await];
        let long = leased(&both[busy], "long", Policy::default()).await;
        let short = leased(&both[other], "short", submission("k").policy).await;
        stage.clock.advance(HUNG);
        let heard = heartbeat(&both[busy], &long).await;
        assert!(matches!(heard, Answer::Alive { .. }), "{heard:?}");
        let heard = heartbeat(&both[other], &short).await;
        assert!(matches!(heard, Answer::Alive { .. }), "{heard:?} by {other}");
    }
}

#[tokio::test]
async fn a_heartbeat_is_judged_by_the_lease_it_renews_whoever_gave_that() {
    // A8, F24: the worker's first call after the silence may go to the coordinator that never saw its lease.
    let (_still, stage) = (StillTime::begin(), MixedRules::new());
    let both = [start(&stage, "one").await, start(&stage, "two").await];
    leased(&both[0], "long", Policy::default()).await;
    let short = leased(&both[1], "short", submission("k").policy).await;
    stage.clock.advance(HUNG);
    let heard = heartbeat(&both[0], &short).await;
    assert!(matches!(heard, Answer::Alive { .. }), "{heard:?}");
}
