//! A coordinator on the reference engine, with a clock that tests move.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Coordinator, Granted, Options, Poll, Reply, SeededEntropy, Submission};
use store::{Spec, Store, TaskKey};
use storetest::{ManualClock, MemoryStore};
use verdict::request::{Caller, Heartbeat, Outcome, Report, Started};
use verdict::{Answer, Digest, Json, Name, Policy, Scope, Span, TaskId};

/// Long enough that a test which waits for it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) coordinator: Coordinator,
    pub(crate) clock: Arc<ManualClock>,
}

pub(crate) async fn world() -> World {
    world_and_store().await.0
}

/// A world and its store, for tests that reopen it.
pub(crate) async fn world_and_store() -> (World, MemoryStore) {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    (World { coordinator: start(store.clone()).await, clock }, store)
}

pub(crate) async fn start<S: Store>(store: S) -> Coordinator {
    let options = Options { entropy: Box::new(SeededEntropy::new(7)), ..Options::default() };
    Coordinator::start(store, options).await.expect("a fresh store starts")
}

impl World {
    /// Lets time pass while the coordinator runs: in steps too small to look like a stall.
    pub(crate) async fn pass(&self, span: Span) {
        const STEP: u64 = 400;
        let mut left = span.millis();
        while left > 0 {
            let step = left.min(STEP);
            self.clock.advance(Span::from_millis(step));
            self.round().await;
            left -= step;
        }
    }

    /// One full round of the carrier.
    pub(crate) async fn round(&self) {
        self.coordinator.is_progressing().await.expect("the carrier goes round");
    }

    pub(crate) async fn submit(&self, submission: Submission) -> TaskId {
        let replies = self.coordinator.submit(vec![submission]).await;
        accepted(&replies[0]).0
    }

    /// Leases without waiting.
    pub(crate) async fn lease(&self, worker: &str) -> Vec<Granted> {
        self.coordinator.lease(poll(worker)).await.expect("polls are answered")
    }

    pub(crate) async fn lease_one(&self, worker: &str) -> Granted {
        let mut granted = self.lease(worker).await;
        assert_eq!(granted.len(), 1, "exactly one task is ready");
        granted.remove(0)
    }

    pub(crate) async fn succeed(&self, granted: &Granted) -> Answer {
        self.report(granted, succeeded("1")).await
    }

    pub(crate) async fn report(&self, granted: &Granted, outcome: Outcome) -> Answer {
        let report = report_of(granted, outcome);
        self.coordinator.report(granted.key(), report).await.expect("the store works").answer
    }

    pub(crate) async fn started(&self, granted: &Granted) -> Answer {
        let started = Started { caller: caller(granted), claimed_at: None };
        self.coordinator.started(granted.key(), started).await.expect("the store works").answer
    }

    pub(crate) async fn heartbeat(&self, granted: &Granted) -> Answer {
        let beat = Heartbeat { caller: caller(granted), progress: None };
        self.coordinator.heartbeat(granted.key(), beat).await.expect("the store works").answer
    }
}

pub(crate) fn submission(kind: &str) -> Submission {
    Submission {
        budget: None,
        flow: None,
        debounce: None,
        scope: Scope::default(),
        kind: Name::from(kind),
        queue: Name::from("q"),
        priority: 0,
        policy: Policy {
            lease: Span::from_secs(2),
            heartbeat_every: Span::from_millis(600),
            retry_base: Span::from_millis(100),
            ..Policy::default()
        },
        run_at: None,
        delay: None,
        deadline_in: None,
        spec: Spec {
            input: Json::from("{}"),
            goal: None,
            task_key: None,
            asset_id: None,
            resources: None,
            labels: BTreeMap::new(),
            traceparent: None,
            key: None,
            fingerprint: Digest::of(&[kind.as_bytes()]),
        },
        stages: None,
        fork: None,
        steps: None,
    }
}

pub(crate) fn keyed(kind: &str, key: &str) -> Submission {
    let mut submission = submission(kind);
    submission.spec.key = Some(key.into());
    submission
}

/// A poll that does not wait.
pub(crate) fn poll(worker: &str) -> Poll {
    Poll {
        scope: Scope::default(),
        worker: Name::from(worker),
        queues: vec![Name::from("q")],
        kinds: None,
        max: 1,
        until: tokio::time::Instant::now(),
        poll: None,
        build: None,
    }
}

/// A poll that waits until it is answered.
pub(crate) fn patient(worker: &str) -> Poll {
    Poll { until: tokio::time::Instant::now() + PATIENCE, ..poll(worker) }
}

pub(crate) fn caller(granted: &Granted) -> Caller {
    let lease = granted.task.lease().expect("a granted task has a lease");
    Caller {
        worker: lease.owner.clone(),
        attempt: granted.task.attempt,
        lease: lease.id,
        epoch: lease.fence.epoch(),
    }
}

pub(crate) fn succeeded(output: &str) -> Outcome {
    Outcome::Succeeded { output: Some(Json::from(output)) }
}

pub(crate) fn report_of(granted: &Granted, outcome: Outcome) -> Report {
    let digest = Digest::of(&[format!("{outcome:?}").as_bytes()]);
    Report { caller: caller(granted), outcome, digest, claims: None, by: None }
}

pub(crate) fn accepted(reply: &Reply) -> (TaskId, bool) {
    match reply.as_ref().map(|answered| &answered.answer) {
        Ok(Answer::Accepted { task, replayed, .. }) => (*task, *replayed),
        other => panic!("not accepted: {other:?}"),
    }
}

pub(crate) fn key(id: TaskId) -> TaskKey {
    TaskKey { scope: Scope::default(), id }
}
