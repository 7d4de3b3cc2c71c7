//! What roles read: artifacts, work orders, and what other deployments answer.

use std::collections::BTreeMap;

use serde_json::Value;
use store::{Browse, Failure, ObjectFilter};
use topology::Topology;
use topology::check::PAUSE_STATE;
use topology::declaration::Role;
use topology::deployment::{Artifact, ArtifactRef, Event};
use topology::outside::EventTurn;
use topology::query::{self, Answer, Target};
use verdict::{Name, ObjectType, Scope};

use super::Roles;
use crate::topologies::rows::{
    ArtifactRow, DeploymentRow, OPEN, PauseRow, WorkOrderRow, artifact_key, artifact_parent,
    millis, work_order_key,
};

/// Artifacts among which a scheduler chooses the oldest. More wait for the next event.
const CHOSEN_FROM: usize = 1_000;

/// The most rows of one answer of another deployment: the snapshot has all of them.
const ANSWERED_MAX: usize = 100;

impl Roles {
    pub(super) async fn read_event(
        &self,
        scope: &Scope,
        row: &DeploymentRow,
        topology: &Topology,
        role: &Role,
        event: &Event,
    ) -> Result<EventTurn, Failure> {
        let subject = match &event.subject {
            Some(name) => self.artifact(scope, row, name).await?,
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
        let order = self.work_order(scope, row, &event.work_order_id()).await?;
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
    ) -> Result<Option<Artifact>, Failure> {
        let filter = ObjectFilter::one(&artifact_key(scope, &row.prefix(), name));
        let found = self.coordinator.browse().objects(&filter).await?;
        Ok(found.first().and_then(ArtifactRow::of).map(|row| row.artifact))
    }

    pub(super) async fn work_order(
        &self,
        scope: &Scope,
        row: &DeploymentRow,
        id: &str,
    ) -> Result<Option<WorkOrderRow>, Failure> {
        let filter = ObjectFilter::one(&work_order_key(scope, &row.prefix(), id));
        let found = self.coordinator.browse().objects(&filter).await?;
        Ok(found.first().and_then(WorkOrderRow::of))
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

fn value(row: &impl serde::Serialize) -> Value {
    serde_json::to_value(row).unwrap_or_default()
}
