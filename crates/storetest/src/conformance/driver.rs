//! A minimal coordinator: a store, its writer, a clock that the test moves, and one request at a
//! time.

use std::sync::Arc;

use store::row::{TaskKey, TaskWithSpec, Want};
use store::seam::{Batch, Loaded, Lookup, Store, Writer};
use verdict::request::Caller;
use verdict::{Answer, Request, Scope, Span, Subject, TaskId, Time};

use super::carry::{Call, CallResult, Poll, Submission, carry};
use super::fixture::{Between, Fixture};
use crate::ManualClock;

/// A store with a writer and a clock that the test moves.
pub struct Driver<F: Fixture> {
    fixture: F,
    clock: Arc<ManualClock>,
    open: Option<Open<F>>,
    between: Between,
    made: u128,
}

struct Open<F: Fixture> {
    store: F::Store,
    writer: <F::Store as Store>::Writer,
}

impl<F: Fixture> Driver<F> {
    pub async fn start(fixture: F, between: Between) -> Self {
        let clock = Arc::new(ManualClock::default());
        let mut driver = Self { fixture, clock, open: None, between, made: 0 };
        driver.reopen().await;
        driver
    }

    /// Closes the store and opens it again.
    pub async fn reopen(&mut self) {
        self.open = None;
        let store = self.fixture.open(self.clock.clone()).await;
        let writer = store.writer().await.expect("a fresh store has a writer");
        self.open = Some(Open { store, writer });
    }

    /// Runs between two steps.
    pub async fn pause(&mut self) {
        if self.between == Between::Reopen {
            self.reopen().await;
        }
    }

    pub fn store(&self) -> &F::Store {
        &self.open.as_ref().expect("the store is open between calls").store
    }

    pub fn writer(&mut self) -> &mut <F::Store as Store>::Writer {
        &mut self.open.as_mut().expect("the store is open between calls").writer
    }

    pub fn browse(&self) -> &<F::Store as Store>::Browse {
        self.store().browse()
    }

    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    pub fn wait(&self, span: Span) {
        self.clock.advance(span);
    }

    pub fn now(&self) -> Time {
        self.store().now()
    }

    /// A number not used before in this check, so that ids grow with time.
    pub fn number(&mut self) -> u128 {
        self.made += 1;
        self.made
    }

    /// Makes one request in a separate batch.
    pub async fn ask(&mut self, ask: Call) -> CallResult {
        self.ask_all(vec![ask]).await.pop().expect("one question, one answer")
    }

    /// Makes several requests in one batch.
    pub async fn ask_all(&mut self, asks: Vec<Call>) -> Vec<CallResult> {
        self.pause().await;
        let epoch = self.store().status().epoch;
        let mut batch = self.writer().begin().await.expect("a batch can be begun");
        let mut said = Vec::new();
        for ask in asks {
            said.push(
                carry(&mut batch, epoch, ask).await.expect("the store takes what was decided"),
            );
        }
        batch.commit().await.expect("the batch commits");
        said
    }

    pub async fn submit(&mut self, submission: Submission) -> Answer {
        answer(self.ask(Call::Submit(submission)).await)
    }

    /// Submits an ordinary task of this scope and queue.
    pub async fn add(&mut self, scope: &Scope, queue: &str) -> TaskKey {
        let submission = self.submission(scope, queue);
        let key = TaskKey { scope: scope.clone(), id: submission.submit.id };
        self.submit(submission).await;
        key
    }

    pub fn submission(&mut self, scope: &Scope, queue: &str) -> Submission {
        let id = self.number();
        Submission::new(TaskId::from_u128(id), scope, queue)
    }

    pub async fn about(&mut self, key: &TaskKey, request: Request) -> Answer {
        answer(self.ask(Call::About { key: key.clone(), request }).await)
    }

    /// Leases up to `max` tasks of one queue.
    pub async fn lease(&mut self, scope: &Scope, queue: &str, max: usize) -> Vec<TaskWithSpec> {
        let want = Want { scope: scope.clone(), queues: vec![queue.into()], kinds: None, max };
        self.poll(want).await
    }

    pub async fn poll(&mut self, want: Want) -> Vec<TaskWithSpec> {
        let first_lease = self.number() << 32;
        let poll = Poll { want, worker: "ann".into(), name: None, first_lease };
        granted(self.ask(Call::Poll(poll)).await)
    }

    pub async fn sweep(&mut self) -> Vec<(TaskId, Answer)> {
        match self.ask(Call::Sweep { limit: 1000 }).await {
            CallResult::Each(each) => each,
            said => panic!("a sweep said {said:?}"),
        }
    }

    pub async fn load(&mut self, key: &TaskKey) -> Subject {
        self.pause().await;
        let mut batch = self.writer().begin().await.expect("a batch can be begun");
        let loaded = batch
            .look_up(Lookup::tasks(std::slice::from_ref(key)))
            .await
            .expect("loading works")
            .tasks;
        match loaded.into_iter().next() {
            Some(Loaded::Subject(subject)) => subject,
            loaded => panic!("loading alone gave {loaded:?}"),
        }
    }
}

pub fn answer(said: CallResult) -> Answer {
    match said {
        CallResult::Answer(answer) => answer,
        said => panic!("expected one answer, not {said:?}"),
    }
}

pub fn granted(said: CallResult) -> Vec<TaskWithSpec> {
    match said {
        CallResult::Granted(granted) => granted,
        said => panic!("expected leases, not {said:?}"),
    }
}

/// The holder of the lease of a task that was just granted.
pub fn caller(ready: &TaskWithSpec) -> Caller {
    let lease = ready.task.lease().expect("a granted task has a lease");
    Caller {
        worker: lease.owner.clone(),
        attempt: ready.task.attempt,
        lease: lease.id,
        epoch: lease.fence.epoch(),
    }
}

pub fn key_of(ready: &TaskWithSpec) -> TaskKey {
    TaskKey { scope: ready.task.scope.clone(), id: ready.task.id }
}
