//! A small coordinator for tests: one request, one batch, one commit.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use store::sqlite::{Options, SqliteStore, SqliteWriter};
use store::{
    Batch, Change, CommitFailure, Decided, Failure, Loaded, Lookup, Spec, Store, TaskKey,
    TaskWithSpec, Want, Writer,
};
use storetest::ManualClock;
use verdict::request::{
    Caller, Cancel, CancelMode, Grant, Heartbeat, Outcome, Report, Started, Submit,
};
use verdict::{
    Answer, Applied, Context, Digest, Fault, Json, LeaseId, Moment, Name, Policy, Request, Scope,
    Span, Subject, TaskId,
};

/// Why a step did not happen.
#[derive(Debug)]
pub(crate) enum StepFailure {
    Before(Failure),
    AtCommit(CommitFailure),
}

impl From<Failure> for StepFailure {
    fn from(failure: Failure) -> Self {
        StepFailure::Before(failure)
    }
}

impl From<CommitFailure> for StepFailure {
    fn from(failure: CommitFailure) -> Self {
        StepFailure::AtCommit(failure)
    }
}

pub(crate) type Step<T> = Result<T, StepFailure>;

pub(crate) struct TestCoordinator {
    pub(crate) store: SqliteStore,
    pub(crate) writer: SqliteWriter,
    pub(crate) clock: Arc<ManualClock>,
    leases: u128,
}

pub(crate) fn options(clock: &Arc<ManualClock>) -> Options {
    Options::new(clock.clone())
}

impl TestCoordinator {
    pub(crate) async fn open(path: &Path) -> Self {
        let clock = Arc::new(ManualClock::default());
        Self::open_with(path, options(&clock), clock).await.unwrap()
    }

    /// Opens the store when this much time has passed on the test's clock.
    pub(crate) async fn open_at(path: &Path, passed: Span) -> Self {
        let clock = Arc::new(ManualClock::default());
        clock.advance(passed);
        Self::open_with(path, options(&clock), clock).await.unwrap()
    }

    pub(crate) async fn open_with(
        path: &Path,
        options: Options,
        clock: Arc<ManualClock>,
    ) -> Result<Self, Failure> {
        let store = SqliteStore::open(path, options)?;
        let writer = store.writer().await?;
        Ok(Self { store, writer, clock, leases: 0 })
    }

    pub(crate) async fn submit(&mut self, id: u128) -> Step<Applied> {
        self.submit_with(id, Policy::default(), spec(None)).await
    }

    pub(crate) async fn submit_with(
        &mut self,
        id: u128,
        policy: Policy,
        spec: Spec,
    ) -> Step<Applied> {
        let submit = submission(id, policy, &spec);
        self.carry(id, Request::Submit(submit), Some(spec)).await
    }

    /// Submits without loading, as a caller would that believes the id to be new.
    pub(crate) async fn submit_again(&mut self, id: u128, key: &str) -> Step<()> {
        let spec = spec(Some(key));
        self.submit_blindly(submission(id, Policy::default(), &spec), spec).await
    }

    pub(crate) async fn submit_blindly(&mut self, submit: Submit, spec: Spec) -> Step<()> {
        let mut batch = self.writer.begin().await?;
        let at = Moment { epoch: 1, ..batch.moment().await? };
        let request = Request::Submit(submit);
        let (_, change) = decide(Subject::Absent, None, &request, at, Some(spec));
        batch.save(Decided::changes(change.into_iter().collect())).await?;
        batch.commit().await?;
        Ok(())
    }

    /// Grants the first ready task to a worker.
    pub(crate) async fn grant(&mut self) -> Step<Option<TaskWithSpec>> {
        self.leases += 1;
        let lease = LeaseId::from_u128(self.leases << 8);
        let mut batch = self.writer.begin().await?;
        let at = batch.moment().await?;
        let mut ready = batch.ready(&[want(1)], at.now).await?;
        let Some(mut ready) = ready.pop().and_then(|mut first| first.pop()) else {
            return Ok(None);
        };
        let grant = Grant { lease, owner: "worker".into(), poll: Some("poll".into()), build: None };
        let request = Request::Grant(grant);
        let before = Subject::Live(ready.task.clone());
        let (_, change) = decide(before, None, &request, at, None);
        let change = change.expect("a ready task is granted");
        ready.task = change.after.live().expect("a granted task lives").clone();
        batch.save(Decided::changes(vec![change])).await?;
        batch.commit().await?;
        Ok(Some(ready))
    }

    pub(crate) async fn started(&mut self, ready: &TaskWithSpec) -> Step<Applied> {
        let id = ready.task.id.as_u128();
        self.carry(id, Request::Started(Started { caller: caller(ready), claimed_at: None }), None)
            .await
    }

    pub(crate) async fn heartbeat(&mut self, ready: &TaskWithSpec) -> Step<Applied> {
        let heartbeat = Heartbeat { caller: caller(ready), progress: None };
        self.carry(ready.task.id.as_u128(), Request::Heartbeat(heartbeat), None).await
    }

    pub(crate) async fn cancel(&mut self, id: u128, mode: CancelMode) -> Step<Applied> {
        let cancel = Cancel { reason: Some("enough".into()), mode };
        self.carry(id, Request::Cancel(cancel), None).await
    }

    pub(crate) async fn sweep(&mut self, id: u128) -> Step<Applied> {
        self.carry(id, Request::Sweep, None).await
    }

    pub(crate) async fn succeed(&mut self, ready: &TaskWithSpec, output: &str) -> Step<Applied> {
        let output = Some(Json::from(output));
        self.report(ready, Outcome::Succeeded { output }).await
    }

    pub(crate) async fn fail(&mut self, ready: &TaskWithSpec, fault: Fault) -> Step<Applied> {
        self.report(ready, Outcome::Failed(fault)).await
    }

    /// A failure with more text than fits into the task's row.
    pub(crate) async fn fail_at_length(&mut self, ready: &TaskWithSpec) -> Step<Applied> {
        let message = "no ".repeat(1_000).into();
        let category = verdict::Category::Infrastructure;
        let fault = Fault { category, message, stack_trace: None, retryable: None };
        self.fail(ready, fault).await
    }

    pub(crate) async fn report(&mut self, ready: &TaskWithSpec, outcome: Outcome) -> Step<Applied> {
        let digest = Digest::of(&[format!("{outcome:?}").as_bytes()]);
        let claims = Some(Json::from(format!("{{\"metrics\":\"{}\"}}", "m".repeat(100))));
        let report = Report { caller: caller(ready), outcome, digest, claims, by: None };
        self.carry(ready.task.id.as_u128(), Request::Report(report), None).await
    }

    /// One request, decided by the rules and saved.
    pub(crate) async fn carry(
        &mut self,
        id: u128,
        request: Request,
        spec: Option<Spec>,
    ) -> Step<Applied> {
        let mut batch = self.writer.begin().await?;
        let Loaded::Subject(before) =
            batch.look_up(Lookup::tasks(&[key(id)])).await?.tasks.remove(0)
        else {
            unreachable!("there is one writer");
        };
        let lease = lease_of(&request).map(|lease| (TaskId::from_u128(id), lease));
        let closed = match lease {
            Some(lease) => batch.look_up(Lookup::leases(&[lease])).await?.closed.remove(0),
            None => None,
        };
        let at = batch.moment().await?;
        let (applied, change) = decide(before, closed.as_ref(), &request, at, spec);
        if let Some(change) = change {
            batch.save(Decided::changes(vec![change])).await?;
        }
        batch.commit().await?;
        Ok(applied)
    }
}

/// The decision of the rules, and the change that saves it.
pub(crate) fn decide(
    before: Subject,
    closed: Option<&verdict::ClosedAttempt>,
    request: &Request,
    at: Moment,
    spec: Option<Spec>,
) -> (Applied, Option<Change>) {
    let context = Context { closed, ..Context::default() };
    let (applied, change) = storetest::conformance::carry::change(before, context, request, at);
    (applied, change.map(|change| Change { spec, ..change }))
}

pub(crate) fn submission(id: u128, policy: Policy, spec: &Spec) -> Submit {
    Submit {
        budget: None,
        flow: None,
        id: TaskId::from_u128(id),
        scope: Scope::default(),
        kind: "resize".into(),
        queue: "images".into(),
        priority: 0,
        policy,
        run_at: None,
        input: Digest::of(&[spec.input.as_str().as_bytes()]),
        fingerprint: spec.fingerprint,
    }
}

pub(crate) fn key(id: u128) -> TaskKey {
    TaskKey { scope: Scope::default(), id: TaskId::from_u128(id) }
}

pub(crate) fn want(max: usize) -> Want {
    let queues = vec![Name::from("images")];
    Want { scope: Scope::default(), queues, kinds: None, max }
}

pub(crate) fn spec(key: Option<&str>) -> Spec {
    Spec {
        input: Json::from("{\"width\":640}"),
        goal: Some("smaller".into()),
        task_key: None,
        asset_id: None,
        resources: None,
        labels: BTreeMap::from([("team".to_owned(), "blue".to_owned())]),
        traceparent: None,
        key: key.map(verdict::Text::from),
        fingerprint: Digest::of(&[b"fingerprint"]),
    }
}

pub(crate) fn committed(applied: &Applied) -> bool {
    matches!(applied.answer, Answer::Committed { .. })
}

fn caller(ready: &TaskWithSpec) -> Caller {
    let lease = ready.task.lease().expect("a granted task has a lease");
    Caller {
        worker: lease.owner.clone(),
        attempt: ready.task.attempt,
        lease: lease.id,
        epoch: lease.fence.epoch(),
    }
}

fn lease_of(request: &Request) -> Option<LeaseId> {
    match request {
        Request::Started(started) => Some(started.caller.lease),
        Request::Heartbeat(heartbeat) => Some(heartbeat.caller.lease),
        Request::Report(report) => Some(report.caller.lease),
        _ => None,
    }
}
