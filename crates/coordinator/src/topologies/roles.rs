//! Roles of deployments, run by the coordinator beside its batches: schedulers and gates lease events and work orders as any worker
//! does, and polls look for what was left behind.
//!
//! All of it may be repeated and may happen in several coordinators at once: a claim is a lease, a proposal names the revisions that
//! it read, and nothing is decided here ([`crate::carry`] decides). Polls are the authority; being told of a commit only makes
//! them early.

mod judging;
mod reading;
mod scheduling;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use store::{Browse, Failure, ObjectFilter};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use verdict::request::{Outcome, Report};
use verdict::topology::{GATE_KIND, TopologyRefusal, event_queue, gate_queue};
use verdict::{
    Answer, Category, Digest, Fault, Json, Name, ObjectType, Refusal, Request, Scope, Text,
};

use super::rows::{
    ArtifactRow, DeploymentRow, EXECUTORS, TrackRow, artifact_named, millis, track_key,
};
use crate::coordinator::Coordinator;
use crate::item::{Granted, Item, Poll, RequestError, RoleReport, TopologyCall, TopologyItem};

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

/// What is leased by one poll: the gates of all deployments of a scope, or events of one deployment, as many as there are free slots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Gates(Scope),
    Events {
        scope: Scope,
        deployment: Name,
        generation: u32,
        /// Of the events whose work orders go one after the other.
        serial: Option<String>,
    },
}

/// What a line polls for now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    queues: Vec<Name>,
    max: usize,
}

impl Wanted {
    /// Whether a poll that waits is given up for this one. One for fewer or more tasks goes on: what it gets too much is refused
    /// where it is decided.
    fn replaces(&self, waiting: &Wanted) -> bool {
        self.queues != waiting.queues || self.max == 0
    }
}

/// Why something was not done. It is tried again.
#[derive(Debug)]
enum Interrupted {
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

#[derive(Clone)]
pub(crate) struct Roles {
    coordinator: Coordinator,
}

impl Roles {
    pub(crate) fn new(coordinator: Coordinator) -> Self {
        Self { coordinator }
    }

    /// Works until `closing` is cancelled. What is under way then is found again by the next start.
    pub(crate) async fn run(self, closing: CancellationToken) {
        let mut lines: BTreeMap<Line, tokio::task::AbortHandle> = BTreeMap::new();
        let mut leasing = JoinSet::new();
        let mut changes = self.coordinator.topologies().changes();
        let mut settled = None;
        loop {
            changes.borrow_and_update();
            self.follow_lines(&mut lines, &mut leasing).await;
            let pause = tokio::select! {
                biased;
                () = closing.cancelled() => break,
                pause = self.look(&mut settled) => pause,
            };
            tokio::select! {
                biased;
                () = closing.cancelled() => break,
                () = tokio::time::sleep(LOOK_PAUSE) => {}
            }
            tokio::select! {
                biased;
                () = closing.cancelled() => break,
                changed = changes.changed() => if changed.is_err() { break },
                () = tokio::time::sleep(pause) => {}
            }
        }
        // A poll that is given up hands back what it was granted.
        leasing.shutdown().await;
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

    async fn lines(&self) -> Vec<Line> {
        let known = self.coordinator.topologies().snapshot();
        let mut lines = Vec::new();
        for (scope, deployments) in known.iter() {
            lines.push(Line::Gates(scope.clone()));
            for (name, row) in deployments {
                for serial in self.serial_keys(scope, row).await {
                    let (scope, deployment) = (scope.clone(), name.clone());
                    let generation = row.generation;
                    lines.push(Line::Events { scope, deployment, generation, serial });
                }
            }
        }
        lines
    }

    /// The serial keys of a deployment, and none for the events without one.
    async fn serial_keys(&self, scope: &Scope, row: &DeploymentRow) -> BTreeSet<Option<String>> {
        let version = self.version(scope, &row.version).await.ok().flatten();
        let tracks = version.iter().flat_map(|it| it.declaration().tracks.values());
        let keys = tracks.map(|track| track.serial.clone());
        keys.chain([None]).collect()
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
        let mut changes = self.coordinator.topologies().changes();
        loop {
            changes.borrow_and_update();
            let Some(wanted) = self.wanted(&line).await else { return };
            if wanted.queues.is_empty() || wanted.max == 0 {
                wait(&mut changes, SCAN_SHARED).await;
                continue;
            }
            let (Line::Gates(scope) | Line::Events { scope, .. }) = &line;
            let poll = Poll {
                scope: scope.clone(),
                worker: WORKER.into(),
                queues: wanted.queues.clone(),
                kinds: None,
                max: wanted.max,
                until: tokio::time::Instant::now() + POLL_WAIT,
                poll: None,
            };
            let granted = {
                let leasing = self.coordinator.lease(poll);
                tokio::pin!(leasing);
                loop {
                    tokio::select! {
                        // Grants first: a poll that is given up hands them back.
                        biased;
                        granted = &mut leasing => break granted,
                        _ = changes.changed() => {
                            if self.wanted(&line).await.is_none_or(|now| now.replaces(&wanted)) {
                                break Ok(Vec::new());
                            }
                        }
                    }
                }
            };
            match granted {
                // A coordinator that drains answers at once.
                Ok(granted) if granted.is_empty() => tokio::time::sleep(LOOK_PAUSE).await,
                Ok(granted) => self.work(granted).await,
                Err(error) => {
                    tracing::debug!(%error, "roles cannot lease now");
                    tokio::time::sleep(REFUSED_PAUSE).await;
                }
            }
        }
    }

    /// What a line polls for now; `None` if its deployments are gone.
    async fn wanted(&self, line: &Line) -> Option<Wanted> {
        let known = self.coordinator.topologies().snapshot();
        match line {
            Line::Gates(scope) => {
                let active = known.get(scope)?.values().filter(|row| !row.is_paused);
                let queues = active.map(|row| gate_queue(&row.name)).collect();
                Some(Wanted { queues, max: LEASES_MAX })
            }
            Line::Events { scope, deployment, generation, serial } => {
                let row = known.get(scope)?.get(deployment);
                let row = row.filter(|row| row.generation == *generation)?;
                let queues = vec![event_queue(deployment.as_str(), serial.as_deref())];
                let max = match row.is_paused {
                    true => 0,
                    false => self.free_slots(scope, row, serial.as_deref()).await,
                };
                Some(Wanted { queues, max })
            }
        }
    }

    /// How many work orders may be made now. Nobody knows while the store does not answer.
    async fn free_slots(&self, scope: &Scope, row: &DeploymentRow, serial: Option<&str>) -> usize {
        let version = self.version(scope, &row.version).await.ok().flatten();
        let Some(version) = version else { return 0 };
        let all = version.declaration().limits.executors as usize;
        let mut free = LEASES_MAX;
        let serial = serial.map(|key| (key, 1));
        for (key, limit) in [Some((EXECUTORS, all)), serial].into_iter().flatten() {
            let filter = ObjectFilter::one(&track_key(scope, &row.prefix(), key));
            let Ok(found) = self.coordinator.browse().objects(&filter).await else { return 0 };
            let held = found.first().and_then(TrackRow::of).map_or(0, |row| row.holders.len());
            free = free.min(limit.saturating_sub(held));
        }
        free
    }

    async fn work(&self, granted: Vec<Granted>) {
        let works = granted.into_iter().map(|granted| async move {
            let worked = match granted.task.kind.as_str() {
                GATE_KIND => self.judge(&granted).await,
                _ => self.schedule(&granted).await,
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
            Answer::Refused(Refusal::Topology(refusal)) => {
                Proposed::Refused(Text::from(said(&refusal)))
            }
            Answer::Refused(
                refusal @ (Refusal::QuotaReached { .. }
                | Refusal::BudgetSpent(_)
                | Refusal::FlowLimitConflict { .. }),
            ) => Proposed::NoRoom(Text::from(refusal.name())),
            // It took effect, or the claim was lost and somebody else does it.
            _ => Proposed::Done,
        })
    }

    /// Does what polls find, and says when to look again if nothing changes.
    async fn look(&self, settled: &mut Option<Instant>) -> Duration {
        // Without a deployment there is nothing to do, and a scan would be for nothing.
        if self.coordinator.topologies().snapshot().is_empty() {
            return SCAN_ALONE;
        }
        match self.look_at_rows(settled).await {
            Ok(()) if self.coordinator.store().status().writers > 1 => SCAN_SHARED,
            Ok(()) => SCAN_ALONE,
            Err(interrupted) => {
                tracing::warn!(error = %interrupted, "cannot look at deployments");
                REFUSED_PAUSE
            }
        }
    }

    async fn look_at_rows(&self, settled: &mut Option<Instant>) -> Result<(), Interrupted> {
        self.advance_pending().await?;
        self.scan_versions().await?;
        if settled.is_none_or(|at| at.elapsed() >= SETTLE_PAUSE) {
            self.settle_orders().await?;
            *settled = Some(tokio::time::Instant::now());
        }
        Ok(())
    }

    /// Asks roles about artifacts that are pending.
    async fn advance_pending(&self) -> Result<(), Interrupted> {
        let filter = ObjectFilter {
            object_type: Some(ObjectType::Artifact),
            is_pending: true,
            limit: PAGE,
            ..ObjectFilter::default()
        };
        self.advance(filter, |_, _| true).await
    }

    /// Looks at all artifacts of a deployment whose version is new: what it says about them may be different.
    async fn scan_versions(&self) -> Result<(), Interrupted> {
        let known = self.coordinator.topologies().snapshot();
        for (scope, deployments) in known.iter() {
            let fresh = deployments.iter().filter(|(_, row)| row.scanned != row.version);
            for (name, row) in fresh {
                let Some(version) = self.version(scope, &row.version).await? else { continue };
                for kind in version.declaration().artifacts.keys() {
                    let filter = ObjectFilter {
                        scope: Some(scope.clone()),
                        object_type: Some(ObjectType::Artifact),
                        parent: Some(super::rows::artifact_parent(&row.prefix(), kind)),
                        limit: PAGE,
                        ..ObjectFilter::default()
                    };
                    let now = millis(self.coordinator.now());
                    self.advance(filter, |object, artifact| {
                        let revision = object.revision;
                        let fresh = artifact.object(scope, &row.prefix(), &version, revision, now);
                        (fresh.due, fresh.is_pending) != (object.due, object.is_pending)
                    })
                    .await?;
                }
                let call = TopologyCall::Scanned { version: row.version.clone() };
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
                self.active(scope, &deployment)?;
                let call = TopologyCall::Advance { artifact };
                is_wanted(object, &row)
                    .then(|| Item::topology(scope, &deployment, generation, call))
            };
            self.ask(page.iter().filter_map(item).collect()).await?;
            filter.after = page.last().map(|last| last.key.clone());
            if page.len() < filter.limit {
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
    /// A quota or budget has no room now.
    NoRoom(Text),
}

fn said(refusal: &TopologyRefusal) -> String {
    match refusal {
        TopologyRefusal::NotAllowed(why)
        | TopologyRefusal::Stale(why)
        | TopologyRefusal::Invalid(why)
        | TopologyRefusal::Incompatible(why) => why.to_string(),
        other => other.name().to_owned(),
    }
}

async fn wait(changes: &mut watch::Receiver<u64>, at_most: Duration) {
    tokio::select! {
        biased;
        changed = changes.changed() => if changed.is_err() { tokio::time::sleep(at_most).await },
        () = tokio::time::sleep(at_most) => {}
    }
}

/// The report that ends a claim with an output.
fn succeeded(granted: &Granted, output: &serde_json::Value) -> Request {
    let output = output.to_string();
    Request::Report(Report {
        caller: granted.caller(),
        digest: Digest::of(&[output.as_bytes()]),
        outcome: Outcome::Succeeded { output: Some(Json::from(output)) },
        claims: None,
    })
}

/// The report that ends a claim with a failure that stays.
fn failed(granted: &Granted, category: Category, message: &str) -> Request {
    let fault =
        Fault { category, message: Text::from(message), stack_trace: None, retryable: Some(false) };
    Request::Report(Report {
        caller: granted.caller(),
        digest: Digest::of(&[message.as_bytes()]),
        outcome: Outcome::Failed(fault),
        claims: None,
    })
}
