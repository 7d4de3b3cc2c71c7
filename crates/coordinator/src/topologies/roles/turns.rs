//! Turns that processes outside of the coordinator take for one role: what each is told, and what becomes of what it decides.
//!
//! A turn of a scheduler or gate is a lease on an event or a work order, as the coordinator's own roles have it; a turn of a
//! readiness or a review is an artifact at its revision. A decision is turned into changes by the functions of the coordinator's
//! own roles, from rows that are read anew, and is committed by the same call.

use std::sync::Arc;

use store::{Browse, ObjectFilter, PAGE_BYTES_MAX, Spec, StoredTask, TaskKey};
use tokio::time::Instant;
use topology::Topology;
use topology::declaration::{Logic, Role};
use topology::gate;
use topology::outside::{ArtifactTurn, Decision, EventTurn, Objection, OrderTurn};
use topology::proposal::Change;
use topology::roles::{scheduler, unclaimed};
use verdict::request::{Caller, Heartbeat, Outcome, Report};
use verdict::topology::{DECIDE, GATE, JUDGED, TopologyRefusal};
use verdict::{
    Answer, Category, Digest, Fault, Name, ObjectType, Refusal, Request, Scope, Text, Time,
};

use super::judging::{asked_before, asks, ending, named};
use super::lines::Line;
use super::reading::Seen;
use super::scheduling::output;
use super::{Interrupted, PAGE, Roles, SCAN_SHARED, succeeded};
use crate::item::{Granted, RoleReport, TopologyCall, TopologyItem};
use crate::topologies::rows::{ArtifactRow, DeploymentRow, artifact_parent, millis};
use crate::topologies::submissions::EventInput;

/// A role of a deployment whose turns outside processes take.
pub(crate) struct Place {
    pub(crate) scope: Scope,
    pub(crate) row: DeploymentRow,
    /// The version in force.
    pub(crate) topology: Arc<Topology>,
    pub(crate) role: String,
}

impl Place {
    pub(crate) fn declared(&self) -> Option<&Role> {
        self.topology.role(&self.role)
    }

    pub(crate) fn is_claiming(&self) -> bool {
        let uses = self.declared().map(|role| role.uses);
        matches!(uses, Some(Logic::Scheduler | Logic::Gate))
    }

    /// The line of its events or gates.
    fn line(&self) -> Option<Line> {
        let role = self.declared()?;
        let (scope, deployment) = (self.scope.clone(), self.row.name.as_str().into());
        let (generation, name) = (self.row.generation, self.role.clone());
        Some(match role.uses {
            Logic::Scheduler => {
                let serial = self.topology.serial_key(role.track.as_deref()).map(str::to_owned);
                Line::Events { scope, deployment, generation, serial, role: Some(name) }
            }
            _ => Line::RoleGates { scope, deployment, generation, role: name },
        })
    }

    /// The artifact types that a readiness or a review looks at.
    fn watched(&self) -> Vec<&str> {
        let Some(role) = self.declared() else { return Vec::new() };
        let emitted = role.emits.iter().filter_map(|event| self.topology.event(event));
        let mut found: Vec<&str> = emitted
            .filter_map(|source| source.artifact.as_deref())
            .chain(role.artifact.as_deref())
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// What a process is told, and the version by which it is to decide.
pub(crate) struct Told {
    pub(crate) version: Arc<Topology>,
    pub(crate) turn: TurnOf,
}

pub(crate) enum TurnOf {
    Event(Box<EventTurn>),
    Order(Box<OrderTurn>),
    Artifact(Box<ArtifactTurn>),
}

/// A claim that a process says to have.
#[derive(Clone)]
pub(crate) struct Claim {
    pub(crate) key: TaskKey,
    pub(crate) caller: Caller,
}

/// What a claim is about, as the task is now.
enum Claimed {
    /// Nothing that this role ever had.
    Nothing,
    /// Something is left to decide.
    Turn(Box<Told>),
    /// The task goes on, and not with this role: an executor may have it.
    Elsewhere,
    Ended,
}

impl Roles {
    /// Takes turns of a scheduler or gate, waiting until there is one.
    pub(crate) async fn take_turns(
        &self,
        place: &Place,
        worker: &Name,
        max: usize,
        until: Instant,
    ) -> Result<Vec<(Granted, Told)>, Interrupted> {
        let Some(line) = place.line() else { return Ok(Vec::new()) };
        loop {
            let Some(granted) = self.take(&line, worker, max, until).await else {
                return Ok(Vec::new());
            };
            let granted = granted?;
            if granted.is_empty() {
                return Ok(Vec::new());
            }
            let mut turns = Vec::new();
            for granted in granted {
                match self.told_of(place, &granted).await {
                    Ok(Some(told)) => turns.push((granted, told)),
                    // There is nothing left to decide, or nobody outside may.
                    Ok(None) => self.work(vec![granted]).await,
                    Err(interrupted) => {
                        self.coordinator.release(vec![(granted.key(), granted.lease())]);
                        tracing::debug!(error = %interrupted, "a turn is handed back");
                    }
                }
            }
            if !turns.is_empty() || tokio::time::Instant::now() >= until {
                return Ok(turns);
            }
        }
    }

    /// Artifacts about which a readiness or a review has something to do, waiting until there is one.
    pub(crate) async fn take_artifacts(
        &self,
        place: &Place,
        max: usize,
        until: Instant,
    ) -> Result<Vec<Told>, Interrupted> {
        let mut changes = self.coordinator.topologies().changes();
        loop {
            changes.borrow_and_update();
            let found = self.waiting_artifacts(place, max).await?;
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            if !found.is_empty() || left.is_zero() || self.coordinator.refuse_if_draining().is_err()
            {
                return Ok(found);
            }
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = tokio::time::sleep(SCAN_SHARED.min(left)) => {}
            }
        }
    }

    async fn waiting_artifacts(&self, place: &Place, max: usize) -> Result<Vec<Told>, Interrupted> {
        let mut found = Vec::new();
        if self.active(&place.scope, &place.row.name.as_str().into()).is_none() {
            return Ok(found);
        }
        for kind in place.watched() {
            let mut filter = ObjectFilter {
                scope: Some(place.scope.clone()),
                object_type: Some(ObjectType::Artifact),
                parent: Some(artifact_parent(&place.row.prefix(), kind)),
                is_pending: true,
                limit: PAGE,
                bytes: Some(PAGE_BYTES_MAX),
                ..ObjectFilter::default()
            };
            loop {
                let page = self.coordinator.browse().objects(&filter).await?;
                let now = millis(self.coordinator.now());
                let rows = page.iter().filter_map(ArtifactRow::of).map(|row| row.artifact);
                let wanted = rows.filter(|it| {
                    !unclaimed::of_role(&place.topology, &place.role, it, now).is_empty()
                });
                let version = &place.topology;
                found.extend(wanted.map(|artifact| Told {
                    version: version.clone(),
                    turn: TurnOf::Artifact(Box::new(ArtifactTurn { artifact, now })),
                }));
                if found.len() >= max {
                    found.truncate(max);
                    return Ok(found);
                }
                let is_last = filter.is_last(&page);
                filter.after = page.last().map(|last| last.key.clone());
                if is_last {
                    break;
                }
            }
        }
        Ok(found)
    }

    async fn told_of(&self, place: &Place, granted: &Granted) -> Result<Option<Told>, Interrupted> {
        let stage = granted.task.stages().map(|it| it.stage().key.clone());
        let key = granted.spec.key.as_ref().map(Text::as_str);
        self.told(place, &granted.key(), key, granted.spec.input.as_str(), stage).await
    }

    /// What a turn on this task is told; `None` if the task is no turn of this role.
    async fn told(
        &self,
        place: &Place,
        task: &TaskKey,
        key: Option<&str>,
        input: &str,
        stage: Option<Name>,
    ) -> Result<Option<Told>, Interrupted> {
        match place.declared().map(|role| role.uses) {
            Some(Logic::Scheduler) => self.told_event(place, input).await,
            Some(Logic::Gate) => {
                let stage = stage.filter(|it| [GATE, JUDGED, DECIDE].contains(&it.as_str()));
                let Some((stage, key)) = stage.zip(key) else { return Ok(None) };
                self.told_order(place, task, key, stage.as_str()).await
            }
            _ => Ok(None),
        }
    }

    async fn told_event(&self, place: &Place, input: &str) -> Result<Option<Told>, Interrupted> {
        let input = serde_json::from_str::<EventInput>(input).ok();
        let Some(input) = input
            .filter(|it| it.deployment == place.row.name && it.generation == place.row.generation)
        else {
            return Ok(None);
        };
        let taker = place.topology.scheduler_of(&input.event.kind);
        let Some((_, role)) = taker.filter(|(name, _)| *name == place.role) else {
            return Ok(None);
        };
        let (scope, version) = (&place.scope, &place.topology);
        let turn = self
            .read_event((scope, &place.row), version, role, &input.event, &Seen::default())
            .await?;
        Ok(Some(Told { version: version.clone(), turn: TurnOf::Event(Box::new(turn)) }))
    }

    async fn told_order(
        &self,
        place: &Place,
        task: &TaskKey,
        key: &str,
        stage: &str,
    ) -> Result<Option<Told>, Interrupted> {
        let Some((deployment, generation, order)) = named(key) else { return Ok(None) };
        if deployment.as_str() != place.row.name || generation != place.row.generation {
            return Ok(None);
        }
        let bundle = self.bundle(task).await?;
        let run = (task, asked_before(stage));
        let fresh = Seen::default();
        let read = self.read_order((&place.scope, &place.row), &order, bundle, run, &fresh).await?;
        Ok(read.and_then(|(turn, version)| {
            let judge = version.judge_of(&turn.work_order.template).map(|(name, _)| name);
            let is_it = judge == Some(place.role.as_str());
            is_it.then(|| Told { version: version.clone(), turn: TurnOf::Order(Box::new(turn)) })
        }))
    }

    /// What a claim is about now.
    async fn told_again(&self, place: &Place, claim: &Claim) -> Result<Claimed, Interrupted> {
        let found = self.coordinator.browse().find(&claim.key).await?;
        let Some(StoredTask { subject, spec }) = found else { return Ok(Claimed::Nothing) };
        if !self.belongs(place, &spec).await? {
            return Ok(Claimed::Nothing);
        }
        let Some(task) = subject.live() else { return Ok(Claimed::Ended) };
        let Caller { lease: claimed, epoch, .. } = claim.caller;
        // This lease was never granted with this fence.
        if task.lease().is_some_and(|it| it.id == claimed && it.fence.epoch() != epoch) {
            return Ok(Claimed::Nothing);
        }
        let stage = task.stages().map(|it| it.stage().key.clone());
        let key = spec.key.as_ref().map(Text::as_str);
        let told = self.told(place, &claim.key, key, spec.input.as_str(), stage).await?;
        Ok(told.map_or(Claimed::Elsewhere, |told| Claimed::Turn(Box::new(told))))
    }

    /// Whether a task is an event or a work order of this role, whatever became of it.
    async fn belongs(&self, place: &Place, spec: &Spec) -> Result<bool, Interrupted> {
        let row = &place.row;
        if place.declared().is_some_and(|role| role.uses == Logic::Scheduler) {
            let input = serde_json::from_str::<EventInput>(spec.input.as_str()).ok();
            return Ok(input.is_some_and(|it| {
                let taker = place.topology.scheduler_of(&it.event.kind);
                let is_taker = taker.is_some_and(|(name, _)| name == place.role);
                is_taker && it.deployment == row.name && it.generation == row.generation
            }));
        }
        let found = spec.key.as_ref().and_then(|key| named(key.as_str()));
        let Some((deployment, generation, order)) = found else { return Ok(false) };
        if deployment.as_str() != row.name || generation != row.generation {
            return Ok(false);
        }
        let order = self.work_order(&place.scope, row, &order, &Seen::default()).await?;
        let Some(order) = order.map(|found| found.order) else { return Ok(false) };
        let version = self.version(&place.scope, &order.topology).await?;
        let judge = version.as_deref().and_then(|it| Some(it.judge_of(&order.template)?.0));
        Ok(judge == Some(place.role.as_str()))
    }

    /// Renews a claim, and tells its turn as it is now.
    pub(crate) async fn renew_turn(
        &self,
        place: &Place,
        claim: &Claim,
    ) -> Result<Result<(Time, Told), Answer>, Interrupted> {
        let told = match self.told_again(place, claim).await? {
            Claimed::Turn(told) => *told,
            Claimed::Elsewhere | Claimed::Ended => return Ok(Err(over())),
            Claimed::Nothing => return Ok(Err(no_turn())),
        };
        let beat = Heartbeat { caller: claim.caller.clone(), progress: None };
        let answered = self.coordinator.heartbeat(claim.key.clone(), beat).await?;
        Ok(match answered.answer {
            Answer::Alive { expires_at, .. } => Ok((expires_at, told)),
            other => Err(other),
        })
    }

    /// Gives a claim back, to be tried again after a pause.
    pub(crate) async fn return_turn(
        &self,
        place: &Place,
        claim: &Claim,
        why: &str,
    ) -> Result<Answer, Interrupted> {
        match self.told_again(place, claim).await? {
            // The one who returned an order that has ended since asks again, and is told what came of it.
            Claimed::Turn(_) | Claimed::Ended => {}
            // What is leased elsewhere, such as to an executor, is not for this role to end.
            Claimed::Elsewhere | Claimed::Nothing => return Ok(no_turn()),
        }
        let fault = Fault {
            category: Category::Infrastructure,
            message: Text::from(why),
            stack_trace: None,
            retryable: Some(true),
        };
        let report = Report {
            caller: claim.caller.clone(),
            digest: Digest::of(&[b"returned", why.as_bytes()]),
            outcome: Outcome::Failed(fault),
            claims: None,
            by: None,
        };
        Ok(self.coordinator.report(claim.key.clone(), report).await?.answer)
    }

    /// Carries out what a scheduler or gate decided under its claim. The same decision again gets the same answer.
    pub(crate) async fn carry_out(
        &self,
        place: &Place,
        claim: &Claim,
        decision: &Decision,
    ) -> Result<Answer, Interrupted> {
        let told = match self.told_again(place, claim).await? {
            Claimed::Turn(told) => Some(*told),
            Claimed::Elsewhere | Claimed::Ended => None,
            Claimed::Nothing => return Ok(no_turn()),
        };
        let said = serde_json::to_string(decision).expect("a decision has only text keys");
        let digest = Digest::of(&[b"decided", said.as_bytes()]);
        let decided = match &told {
            Some(told) => self.changes(place, told, decision).await.map_err(refusal),
            None => Err(refusal(Objection::Stale("the turn is over".to_owned()))),
        };
        let request = |request: Request| with_digest(request, digest);
        if let Ok(changes) = &decided
            && !asks(changes).is_empty()
        {
            let output = serde_json::json!({"asks": asks(changes)});
            let asked = request(succeeded(claim.caller.clone(), &output));
            let Request::Report(report) = asked else { return Ok(Answer::Nothing) };
            return Ok(self.coordinator.report(claim.key.clone(), report).await?.answer);
        }
        let (changes, objection) = match decided {
            Ok(changes) => (changes, None),
            Err(objection) => (Vec::new(), Some(objection)),
        };
        let event = told.as_ref().and_then(|told| match &told.turn {
            TurnOf::Event(turn) => Some(turn.event.clone()),
            TurnOf::Order(_) | TurnOf::Artifact(_) => None,
        });
        let ended = match &event {
            None if objection.is_none() => ending(claim.caller.clone(), &changes),
            _ => succeeded(claim.caller.clone(), &output(&changes)),
        };
        let version = told.as_ref().map_or(&place.topology, |told| &told.version);
        let report = RoleReport {
            claim: Some((claim.key.clone(), request(ended))),
            role: place.role.clone(),
            version: version.digest().to_owned(),
            event,
            changes,
            objection,
        };
        self.ask_about(place, TopologyCall::Report(Box::new(report))).await
    }

    /// What follows from a decision. A gate compares it with what its own checks say.
    async fn changes(
        &self,
        place: &Place,
        told: &Told,
        decision: &Decision,
    ) -> Result<Vec<Change>, Objection> {
        let Told { version, turn } = told;
        match turn {
            TurnOf::Event(turn) => scheduler::decided(version, &place.role, &turn.read(), decision),
            TurnOf::Order(turn) => {
                let steps = gate::steps(version, &turn.read());
                let (version, role) = (version.clone(), place.role.clone());
                let (turn, decision) = (turn.clone(), decision.clone());
                let judge = move || gate::decided(&version, &role, &turn.read(), &decision);
                let checking = self.coordinator.topologies().checking();
                checking.run(&place.scope.tenant, steps, judge).await
            }
            TurnOf::Artifact(_) => Ok(Vec::new()),
        }
    }

    /// Has a readiness or a review do what it has to about an artifact.
    pub(crate) async fn go(
        &self,
        place: &Place,
        decision: &Decision,
    ) -> Result<Answer, Interrupted> {
        let Decision::Go { artifact, revision } = decision else {
            return Ok(refused(refusal(Objection::NotAllowed(
                "a readiness and a review decide GO about an artifact".to_owned(),
            ))));
        };
        let (artifact, role) = (artifact.clone(), place.role.clone());
        self.ask_about(place, TopologyCall::Go { role, artifact, revision: *revision }).await
    }

    async fn ask_about(&self, place: &Place, call: TopologyCall) -> Result<Answer, Interrupted> {
        let item = TopologyItem {
            scope: place.scope.clone(),
            deployment: place.row.name.as_str().into(),
            generation: place.row.generation,
            call,
            by: None,
        };
        Ok(self.coordinator.deploy(item).await?.answer)
    }
}

fn with_digest(request: Request, digest: Digest) -> Request {
    match request {
        Request::Report(report) => Request::Report(Report { digest, ..report }),
        other => other,
    }
}

fn refusal(objection: Objection) -> TopologyRefusal {
    match objection {
        Objection::Stale(why) => TopologyRefusal::Stale(Text::from(why)),
        Objection::NotAllowed(why) => TopologyRefusal::NotAllowed(Text::from(why)),
        Objection::Invalid(why) => TopologyRefusal::Invalid(Text::from(why)),
    }
}

fn refused(refusal: TopologyRefusal) -> Answer {
    Answer::Refused(Refusal::Topology(refusal))
}

/// The task is another one's: it is answered as one that does not exist.
fn no_turn() -> Answer {
    Answer::Refused(Refusal::TaskNotFound)
}

fn over() -> Answer {
    refused(refusal(Objection::Stale("the turn is over".to_owned())))
}
