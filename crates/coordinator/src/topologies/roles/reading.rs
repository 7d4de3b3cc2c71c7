//! What roles read: artifacts, work orders, and what other deployments answer.
//!
//! Claims that were granted together name their rows together: they are read at once, for the first proposal of each. A proposal
//! that turns out to be stale reads its rows again.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use store::{Browse, Failure, ObjectFilter};
use topology::Topology;
use topology::check::PAUSE_STATE;
use topology::declaration::Role;
use topology::deployment::{Artifact, ArtifactRef, Event};
use topology::outside::EventTurn;
use topology::query::{self, Answer, Target};
use verdict::topology::GATE_KIND;
use verdict::{Name, Object, ObjectKey, ObjectType, Scope};

use super::{Roles, judging};
use crate::item::Granted;
use crate::topologies::rows::{
    ArtifactRow, DeploymentRow, OPEN, PauseRow, WorkOrderRow, artifact_key, artifact_parent,
    millis, prefix, work_order_key,
};
use crate::topologies::submissions::EventInput;

/// Artifacts among which a scheduler chooses the oldest. More wait for the next event.
const CHOSEN_FROM: usize = 1_000;

/// The most rows of one answer of another deployment: the snapshot has all of them.
const ANSWERED_MAX: usize = 100;

/// Rows that were read for several claims at once, and which there are not.
#[derive(Default)]
pub(super) struct Seen(HashMap<ObjectKey, Option<Object>>);

impl Roles {
    /// Reads the rows that these claims name.
    pub(super) async fn look_ahead(&self, granted: &[Granted]) -> Result<Seen, Failure> {
        let mut seen = Seen::default();
        self.see(granted.iter().flat_map(named).collect(), &mut seen).await?;
        // A gate moves the artifacts of its work order.
        let artifacts = |(key, object): (&ObjectKey, &Option<Object>)| {
            let prefix = key.id.as_str().split_once('/').map(|(prefix, _)| prefix.to_owned());
            let order = object.as_ref().and_then(WorkOrderRow::of).map(|row| row.order);
            let names = order.into_iter().flat_map(|order| order.artifacts);
            let prefix = prefix.unwrap_or_default();
            names.map(move |name| artifact_key(&key.scope, &prefix, &name)).collect::<Vec<_>>()
        };
        let artifacts = seen.0.iter().flat_map(artifacts).collect();
        self.see(artifacts, &mut seen).await?;
        Ok(seen)
    }

    async fn see(&self, keys: Vec<ObjectKey>, seen: &mut Seen) -> Result<(), Failure> {
        let mut groups: BTreeMap<(Scope, ObjectType), Vec<Name>> = BTreeMap::new();
        for key in keys {
            let ObjectKey { scope, object_type, id } = key.clone();
            if seen.0.insert(key, None).is_none() {
                groups.entry((scope, object_type)).or_default().push(id);
            }
        }
        for ((scope, object_type), ids) in groups {
            let filter = ObjectFilter {
                scope: Some(scope),
                object_type: Some(object_type),
                limit: ids.len(),
                ids: Some(ids),
                ..ObjectFilter::default()
            };
            let found = self.coordinator.browse().objects(&filter).await?;
            seen.0.extend(found.into_iter().map(|object| (object.key.clone(), Some(object))));
        }
        Ok(())
    }

    async fn object(&self, seen: &Seen, key: &ObjectKey) -> Result<Option<Object>, Failure> {
        match seen.0.get(key) {
            Some(found) => Ok(found.clone()),
            None => Ok(self.coordinator.browse().objects(&ObjectFilter::one(key)).await?.pop()),
        }
    }

    pub(super) async fn read_event(
        &self,
        (scope, row): (&Scope, &DeploymentRow),
        topology: &Topology,
        role: &Role,
        event: &Event,
        seen: &Seen,
    ) -> Result<EventTurn, Failure> {
        let subject = match &event.subject {
            Some(name) => self.artifact(scope, row, name, seen).await?,
            None => None,
        };
        let mut pending = Vec::new();
        if let (Some(subject), true) = (&subject, role.collect.is_some()) {
            let (kind, status) = (&subject.name.kind, Some(subject.status.as_str()));
            pending = self.artifacts(scope, row, kind, status, CHOSEN_FROM).await?;
            pending.sort_by_key(|artifact| artifact.created_at);
        }
        let mut lists = Vec::new();
        for listing in &role.lists {
            let at_most = listing.at_most as usize;
            let (kind, status) = (&listing.artifact, listing.status.as_deref());
            lists.push(self.artifacts(scope, row, kind, status, at_most).await?);
        }
        let answers = self.ask_others(scope, row, topology, role).await?;
        let order = self.work_order(scope, row, &event.work_order_id(), seen).await?;
        Ok(EventTurn {
            deployment: row.name.clone(),
            event: event.clone(),
            subject,
            pending,
            lists,
            answers,
            is_ordered: order.is_some(),
            now: millis(self.coordinator.now()),
        })
    }

    pub(super) async fn artifact(
        &self,
        scope: &Scope,
        row: &DeploymentRow,
        name: &ArtifactRef,
        seen: &Seen,
    ) -> Result<Option<Artifact>, Failure> {
        let found = self.object(seen, &artifact_key(scope, &row.prefix(), name)).await?;
        Ok(found.as_ref().and_then(ArtifactRow::of).map(|row| row.artifact))
    }

    pub(super) async fn work_order(
        &self,
        scope: &Scope,
        row: &DeploymentRow,
        id: &str,
        seen: &Seen,
    ) -> Result<Option<WorkOrderRow>, Failure> {
        let found = self.object(seen, &work_order_key(scope, &row.prefix(), id)).await?;
        Ok(found.as_ref().and_then(WorkOrderRow::of))
    }

    async fn artifacts(
        &self,
        scope: &Scope,
        row: &DeploymentRow,
        kind: &str,
        status: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Artifact>, Failure> {
        let filter = ObjectFilter {
            scope: Some(scope.clone()),
            object_type: Some(ObjectType::Artifact),
            parent: Some(artifact_parent(&row.prefix(), kind)),
            status: status.map(Name::from),
            limit,
            ..ObjectFilter::default()
        };
        let found = self.coordinator.browse().objects(&filter).await?;
        Ok(found.iter().filter_map(ArtifactRow::of).map(|row| row.artifact).collect())
    }

    /// What every other deployment of the workspace answers to the role's queries.
    async fn ask_others(
        &self,
        scope: &Scope,
        row: &DeploymentRow,
        topology: &Topology,
        role: &Role,
    ) -> Result<Vec<Answer>, Failure> {
        let mut answers = Vec::new();
        if role.queries.is_empty() {
            return Ok(answers);
        }
        let known = self.coordinator.topologies().snapshot();
        let others = known.get(scope).into_iter().flat_map(|of_scope| of_scope.values());
        for other in others.filter(|other| other.name != row.name) {
            for artifact in &role.queries {
                let target = self.target(scope, other, artifact).await?;
                answers.push(query::answer(topology, &other.name, &target, artifact));
            }
        }
        Ok(answers)
    }

    /// Another deployment, as far as one query needs it. A paused one does not answer.
    async fn target(
        &self,
        scope: &Scope,
        other: &DeploymentRow,
        artifact: &str,
    ) -> Result<Target, Failure> {
        let mut stores = BTreeMap::new();
        if artifact == PAUSE_STATE {
            stores.insert(artifact.to_owned(), self.open_pauses(scope, other).await?);
        } else {
            let version = self.version(scope, &other.version).await?;
            if version.is_some_and(|version| version.artifact(artifact).is_some()) {
                let found = self.artifacts(scope, other, artifact, None, ANSWERED_MAX).await?;
                stores.insert(artifact.to_owned(), found.iter().map(value).collect());
            }
        }
        Ok(Target { unavailable: other.is_paused, stores })
    }

    async fn open_pauses(
        &self,
        scope: &Scope,
        other: &DeploymentRow,
    ) -> Result<Vec<Value>, Failure> {
        let filter = ObjectFilter {
            scope: Some(scope.clone()),
            object_type: Some(ObjectType::PauseState),
            parent: Some(other.prefix().into()),
            status: Some(OPEN.into()),
            limit: ANSWERED_MAX,
            ..ObjectFilter::default()
        };
        let found = self.coordinator.browse().objects(&filter).await?;
        Ok(found.iter().filter_map(PauseRow::of).map(|row| value(&row.pause)).collect())
    }
}

/// The rows that a claim names: the work order of an event and what it is about, or the work order of a gate.
fn named(granted: &Granted) -> Vec<ObjectKey> {
    let scope = &granted.task.scope;
    if granted.task.kind.as_str() == GATE_KIND {
        let named = granted.spec.key.as_ref().and_then(|key| judging::named(key.as_str()));
        let key = named.map(|(deployment, generation, order)| {
            work_order_key(scope, &prefix(deployment.as_str(), generation), &order)
        });
        return key.into_iter().collect();
    }
    let input = serde_json::from_str::<EventInput>(granted.spec.input.as_str());
    let Ok(EventInput { deployment, generation, event }) = input else { return Vec::new() };
    let prefix = prefix(&deployment, generation);
    let order = work_order_key(scope, &prefix, &event.work_order_id());
    let subject = event.subject.iter().map(|name| artifact_key(scope, &prefix, name));
    subject.chain([order]).collect()
}

fn value(row: &impl serde::Serialize) -> Value {
    serde_json::to_value(row).unwrap_or_default()
}
