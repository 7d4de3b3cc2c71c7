//! Roles of deployments, run by the coordinator beside its batches: schedulers and gates lease events and work orders as any worker
//! does, and polls look for what was left behind.
//!
//! All of it may be repeated and may happen in several coordinators at once: a claim is a lease, a proposal names the revisions that
//! it read, and nothing is decided here ([`crate::carry`] decides). Polls are the authority; being told of a commit only makes
//! them early.

mod judging;
mod lines;
mod orphans;
mod reading;
mod scheduling;
pub(crate) mod turns;
mod unprocessed;

use std::collections::BTreeMap;
use std::time::Duration;

use store::{Browse, Failure, ObjectFilter, PAGE_BYTES_MAX};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topology::roles::unclaimed;
use verdict::request::{Caller, Outcome, Report};
use verdict::topology::{GATE_KIND, TopologyRefusal};
use verdict::{
    Answer, Category, Digest, Fault, Json, Name, ObjectType, Refusal, Request, Scope, Text,
};

use self::lines::Line;
use super::rows::{ArtifactRow, DeploymentRow, artifact_named, millis};
use crate::coordinator::Coordinator;
use crate::item::{Granted, Item, RequestError, RoleReport, TopologyCall, TopologyItem};

/// How often the store is scanned where other coordinators work too, and where none does.
const SCAN_SHARED: Duration = Duration::from_secs(2);
const SCAN_ALONE: Duration = Duration::from_secs(15);

/// The pause after a look: what many commits tell at once is looked at once.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// How often active work orders are compared with their tasks. Only a cancel by force makes a difference.
const SETTLE_PAUSE: Duration = Duration::from_secs(10);

/// The pause after a refusal of the store.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// How long a poll for claims waits.
const POLL_WAIT: Duration = Duration::from_secs(30);

/// Events and gates that are leased together: their reports share a batch.
const LEASES_MAX: usize = 64;

/// Rows read at once.
const PAGE: usize = 500;

/// How often a proposal is made again because something had changed since it was read.
const PROPOSALS_MAX: usize = 8;

/// The name under which the coordinator leases.
const WORKER: &str = "tenure-roles";

/// Why something was not done. It is tried again.
#[derive(Debug)]
pub(crate) enum Interrupted {
    Store(Failure),
    Refused(RequestError),
}

impl From<Failure> for Interrupted {
    fn from(failure: Failure) -> Self {
        Interrupted::Store(failure)
    }
}

impl From<RequestError> for Interrupted {
    fn from(error: RequestError) -> Self {
        Interrupted::Refused(error)
    }
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Interrupted::Store(failure) => failure.fmt(f),
            Interrupted::Refused(error) => error.fmt(f),
        }
    }
}

/// When to look: at the beginning, after every change, and now and then.
struct Looks {
    changes: tokio::sync::watch::Receiver<u64>,
    closing: CancellationToken,
    is_first: bool,
}

impl Looks {
    /// Waits for a change, and no longer than this. `false` if it is time to end.
    async fn next(&mut self, pause: Duration) -> bool {
        if !std::mem::take(&mut self.is_first) {
            let waiting = async {
                tokio::time::sleep(LOOK_PAUSE).await;
                tokio::time::timeout(pause, self.changes.changed()).await.unwrap_or(Ok(()))
            };
            if !matches!(self.closing.run_until_cancelled(waiting).await, Some(Ok(()))) {
                return false;
            }
        }
        self.changes.borrow_and_update();
        !self.closing.is_cancelled()
    }
}

#[derive(Clone)]
pub(crate) struct Roles {
    coordinator: Coordinator,
}

impl Roles {
    pub(crate) fn new(coordinator: Coordinator) -> Self {
        Self { coordinator }
    }

    /// Works until `closing` is cancelled. What is under way then is found again by the next start.
    ///
    /// Three loops, so that none waits for a longer one: a tenant that deletes a deployment with ten thousand artifacts delays no
    /// role of another tenant.
    pub(crate) async fn run(self, closing: CancellationToken) {
        let (lines, rows) = (self.keep_leasing(&closing), self.keep_advancing(&closing));
        tokio::join!(lines, rows, self.keep_up_with_versions(&closing));
    }

    async fn keep_leasing(&self, closing: &CancellationToken) {
        let mut lines: BTreeMap<Line, tokio::task::AbortHandle> = BTreeMap::new();
        let mut leasing = JoinSet::new();
        let mut looks = self.looks(closing);
        while looks.next(SCAN_ALONE).await {
            self.follow_lines(&mut lines, &mut leasing).await;
        }
        // A poll that is given up hands back what it was granted.
        leasing.shutdown().await;
    }

    async fn keep_advancing(&self, closing: &CancellationToken) {
        let (mut looks, mut pause, mut settled) = (self.looks(closing), Duration::ZERO, None);
        while looks.next(pause).await {
            let looking = self.look_at_rows(&mut settled);
            let Some(looked) = closing.run_until_cancelled(looking).await else { return };
            pause = self.pause_after(looked);
        }
    }

    async fn keep_up_with_versions(&self, closing: &CancellationToken) {
        let (mut looks, mut pause) = (self.looks(closing), Duration::ZERO);
        while looks.next(pause).await {
            let looking = self.look_at_versions();
            let Some(looked) = closing.run_until_cancelled(looking).await else { return };
            pause = self.pause_after(looked);
        }
    }

    fn looks(&self, closing: &CancellationToken) -> Looks {
        let changes = self.coordinator.topologies().changes();
        Looks { changes, closing: closing.clone(), is_first: true }
    }

    /// Starts a poll for every line that has none, and ends those of deployments that are gone.
    async fn follow_lines(
        &self,
        lines: &mut BTreeMap<Line, tokio::task::AbortHandle>,
        leasing: &mut JoinSet<()>,
    ) {
        while leasing.try_join_next().is_some() {}
        lines.retain(|_, handle| !handle.is_finished());
        for line in self.lines().await {
            lines.entry(line.clone()).or_insert_with(|| leasing.spawn(self.clone().lease(line)));
        }
    }

    async fn version(
        &self,
        scope: &Scope,
        digest: &str,
    ) -> Result<Option<std::sync::Arc<topology::Topology>>, Failure> {
        let directory = self.coordinator.topologies();
        directory.version(self.coordinator.browse(), scope, digest).await
    }

    /// The active deployment of this name; `None` if it is paused or gone.
    fn active(&self, scope: &Scope, name: &Name) -> Option<DeploymentRow> {
        let known = self.coordinator.topologies().snapshot();
        known.get(scope)?.get(name).filter(|row| !row.is_paused).cloned()
    }

    /// Leases for one line until its deployments are gone.
    async fn lease(self, line: Line) {
        let worker = Name::from(WORKER);
        loop {
            let until = tokio::time::Instant::now() + POLL_WAIT;
            match self.take(&line, &worker, LEASES_MAX, until).await {
                None => return,
                // A coordinator that drains answers at once.
                Some(Ok(granted)) if granted.is_empty() => tokio::time::sleep(LOOK_PAUSE).await,
                Some(Ok(granted)) => self.work(granted).await,
                Some(Err(error)) => {
                    tracing::debug!(%error, "roles cannot lease now");
                    tokio::time::sleep(REFUSED_PAUSE).await;
                }
            }
        }
    }

    async fn work(&self, granted: Vec<Granted>) {
        // What cannot be read together is read by each, which knows what to do about a failure.
        let seen = &self.look_ahead(&granted).await.unwrap_or_default();
        let works = granted.into_iter().map(|granted| async move {
            let worked = match granted.task.kind.as_str() {
                GATE_KIND => self.judge(&granted, seen).await,
                _ => self.schedule(&granted, seen).await,
            };
            if let Err(interrupted) = worked {
                tracing::warn!(task = %granted.task.id, error = %interrupted, "a role could not work");
                self.later(&granted, "the store could not be reached").await;
            }
        });
        futures_util::future::join_all(works).await;
    }

    /// Gives a claim back, to be tried again after a pause.
    async fn later(&self, granted: &Granted, why: &str) {
        let fault = Fault {
            category: Category::Infrastructure,
            message: Text::from(why),
            stack_trace: None,
            retryable: Some(true),
        };
        self.end(granted, fault).await;
    }

    /// Ends a claim on something that is no event or work order any more.
    async fn give_up(&self, granted: &Granted, why: &str) {
        let fault = Fault {
            category: Category::Configuration,
            message: Text::from(why),
            stack_trace: None,
            retryable: Some(false),
        };
        self.end(granted, fault).await;
    }

    async fn end(&self, granted: &Granted, fault: Fault) {
        let report = Report {
            caller: granted.caller(),
            digest: Digest::of(&[fault.message.as_str().as_bytes()]),
            outcome: Outcome::Failed(fault),
            claims: None,
            by: None,
        };
        if let Err(error) = self.coordinator.report(granted.key(), report).await {
            tracing::debug!(%error, "a claim of a role ends with its lease");
        }
    }

    /// Proposes, and says what became of it.
    async fn propose(
        &self,
        scope: &Scope,
        row: &DeploymentRow,
        report: RoleReport,
    ) -> Result<Proposed, Interrupted> {
        let item = TopologyItem {
            scope: scope.clone(),
            deployment: row.name.as_str().into(),
            generation: row.generation,
            call: TopologyCall::Report(Box::new(report)),
            by: None,
        };
        Ok(match self.coordinator.deploy(item).await?.answer {
            Answer::Refused(Refusal::Topology(TopologyRefusal::Stale(why))) => Proposed::Stale(why),
            Answer::Refused(Refusal::Topology(TopologyRefusal::Incompatible(why))) => {
                Proposed::NotNow(why)
            }
            Answer::Refused(Refusal::Topology(refusal)) => {
                Proposed::Refused(Text::from(said(&refusal)))
            }
            Answer::Refused(
                refusal @ (Refusal::QuotaReached { .. }
                | Refusal::BudgetSpent(_)
                | Refusal::FlowLimitConflict { .. }),
            ) => Proposed::NotNow(Text::from(refusal.name())),
            // It took effect, or the claim was lost and somebody else does it.
            _ => Proposed::Done,
        })
    }

    /// When to look again if nothing changes.
    fn pause_after(&self, looked: Result<(), Interrupted>) -> Duration {
        match looked {
            Ok(()) if self.coordinator.store().status().writers > 1 => SCAN_SHARED,
            Ok(()) => SCAN_ALONE,
            Err(interrupted) => {
                tracing::warn!(error = %interrupted, "cannot look at deployments");
                REFUSED_PAUSE
            }
        }
    }

    /// Does what there is to do about artifacts and work orders.
    async fn look_at_rows(&self, settled: &mut Option<Instant>) -> Result<(), Interrupted> {
        // Without a deployment there is nothing to do, and a scan would be for nothing.
        if self.coordinator.topologies().snapshot().is_empty() {
            return Ok(());
        }
        self.advance_pending().await?;
        self.tell_unprocessed().await?;
        if settled.is_none_or(|at| at.elapsed() >= SETTLE_PAUSE) {
            self.settle_orders().await?;
            *settled = Some(tokio::time::Instant::now());
        }
        Ok(())
    }

    /// Does what follows from new versions and from the ends of deployments.
    async fn look_at_versions(&self) -> Result<(), Interrupted> {
        self.settle_deleted().await?;
        self.scan_versions().await
    }

    /// Asks roles about artifacts that are pending.
    async fn advance_pending(&self) -> Result<(), Interrupted> {
        let filter = ObjectFilter {
            object_type: Some(ObjectType::Artifact),
            is_pending: true,
            limit: PAGE,
            bytes: Some(PAGE_BYTES_MAX),
            ..ObjectFilter::default()
        };
        // What only an outside process has to do is not asked about again and again.
        let is_wanted = |object: &verdict::Object, row: &ArtifactRow| {
            self.is_active(object) && self.is_for_inside(object, row)
        };
        self.advance(filter, is_wanted).await
    }

    fn is_active(&self, artifact: &verdict::Object) -> bool {
        let named = artifact_named(&artifact.key.id);
        named.is_some_and(|(name, ..)| self.active(&artifact.key.scope, &name).is_some())
    }

    /// Whether a role that no outside process has would do something, as far as its version is known here.
    fn is_for_inside(&self, object: &verdict::Object, row: &ArtifactRow) -> bool {
        let topologies = self.coordinator.topologies();
        let (known, versions) = (topologies.snapshot(), topologies.versions());
        let version = artifact_named(&object.key.id).and_then(|(deployment, _, _)| {
            let deployment = known.get(&object.key.scope)?.get(&deployment)?;
            versions.get(&deployment.version)
        });
        let now = millis(self.coordinator.now());
        version.is_none_or(|it| unclaimed::next_inside(it, &row.artifact, now).is_some())
    }

    /// Looks at all artifacts of a deployment whose version is new, or that was paused or resumed: what there is to do about them
    /// may be different.
    async fn scan_versions(&self) -> Result<(), Interrupted> {
        let known = self.coordinator.topologies().snapshot();
        for (scope, deployments) in known.iter() {
            let fresh = deployments.iter().filter(|(_, row)| row.scanned != row.mark());
            for (name, row) in fresh {
                let Some(version) = self.version(scope, &row.version).await? else { continue };
                for kind in version.declaration().artifacts.keys() {
                    let filter = ObjectFilter {
                        scope: Some(scope.clone()),
                        object_type: Some(ObjectType::Artifact),
                        parent: Some(super::rows::artifact_parent(&row.prefix(), kind)),
                        limit: PAGE,
                        bytes: Some(PAGE_BYTES_MAX),
                        ..ObjectFilter::default()
                    };
                    let now = millis(self.coordinator.now());
                    self.advance(filter, |object, artifact| {
                        let revision = object.revision;
                        let fresh = artifact.object(scope, row, &version, revision, now);
                        (fresh.due, fresh.is_pending) != (object.due, object.is_pending)
                    })
                    .await?;
                }
                self.end_gone_serials(scope, row, &version).await?;
                let call = TopologyCall::Scanned { mark: row.mark() };
                self.ask(vec![Item::topology(scope, name, row.generation, call)]).await?;
            }
        }
        Ok(())
    }

    /// Asks roles about all artifacts of a filter that are wanted, page by page.
    async fn advance(
        &self,
        mut filter: ObjectFilter,
        is_wanted: impl Fn(&verdict::Object, &ArtifactRow) -> bool,
    ) -> Result<(), Interrupted> {
        loop {
            let page = self.coordinator.browse().objects(&filter).await?;
            let item = |object: &verdict::Object| {
                let row = ArtifactRow::of(object)?;
                let (deployment, generation, artifact) = artifact_named(&object.key.id)?;
                let scope = &object.key.scope;
                let call = TopologyCall::Advance { artifact };
                is_wanted(object, &row)
                    .then(|| Item::topology(scope, &deployment, generation, call))
            };
            self.ask(page.iter().filter_map(item).collect()).await?;
            let is_last = filter.is_last(&page);
            filter.after = page.last().map(|last| last.key.clone());
            if is_last {
                return Ok(());
            }
        }
    }

    async fn ask(&self, items: Vec<Item>) -> Result<(), Interrupted> {
        for reply in self.coordinator.ask(items).await {
            reply?;
        }
        Ok(())
    }
}

/// What became of a proposal.
enum Proposed {
    Done,
    /// Something has changed since it was read.
    Stale(Text),
    /// It can never take effect.
    Refused(Text),
    /// A quota or budget has no room now, or a newer program must decide.
    NotNow(Text),
}

fn said(refusal: &TopologyRefusal) -> String {
    match refusal {
        TopologyRefusal::NotAllowed(why)
        | TopologyRefusal::Stale(why)
        | TopologyRefusal::Invalid(why)
        | TopologyRefusal::Incompatible(why) => why.to_string(),
        TopologyRefusal::ArtifactExists => "the artifact that it would create exists".to_owned(),
        other => other.name().to_owned(),
    }
}

/// The report that ends a claim with an output.
fn succeeded(caller: Caller, output: &serde_json::Value) -> Request {
    let output = output.to_string();
    Request::Report(Report {
        caller,
        digest: Digest::of(&[output.as_bytes()]),
        outcome: Outcome::Succeeded { output: Some(Json::from(output)) },
        claims: None,
        by: None,
    })
}

/// The report that ends a claim with a failure that stays.
fn failed(caller: Caller, category: Category, message: &str) -> Request {
    let fault =
        Fault { category, message: Text::from(message), stack_trace: None, retryable: Some(false) };
    Request::Report(Report {
        caller,
        digest: Digest::of(&[message.as_bytes()]),
        outcome: Outcome::Failed(fault),
        claims: None,
        by: None,
    })
}
