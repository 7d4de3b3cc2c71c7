//! What deployments have in a store, as objects: the version in force, artifacts, work orders, pause states, tracks, and notes of
//! events that no role decided.
//!
//! A store keeps them without understanding them. Ids begin with the name of the deployment and its generation, so a
//! deployment that was deleted and made again has none of the rows from before.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::objects::ObjectChange;
use topology::Topology;
use topology::deployment::{Artifact, ArtifactRef, GateResult, PauseState, RunRecord, WorkOrder};
use topology::roles::unclaimed;
use verdict::topology::is_unprocessed;
use verdict::{Done, Json, Name, Object, ObjectKey, ObjectType, Scope, TaskId, Time};

/// The status of everything that something is still to be done about.
pub(crate) const ACTIVE: &str = "active";
pub(crate) const PAUSED: &str = "paused";
pub(crate) const DELETED: &str = "deleted";
/// Statuses of work orders that were judged.
pub(crate) const PASSED: &str = "passed";
pub(crate) const FAILED: &str = "failed";
/// The slots of all executors. No serial key has such a name.
pub(crate) const EXECUTORS: &str = "~executors";
/// Statuses of pause states.
pub(crate) const OPEN: &str = "open";
pub(crate) const CLOSED: &str = "closed";

/// A topology in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeploymentRow {
    pub(crate) name: String,
    pub(crate) topology: String,
    /// The digest of the version in force.
    pub(crate) version: String,
    pub(crate) generation: u32,
    pub(crate) is_paused: bool,
    pub(crate) is_deleted: bool,
    pub(crate) created_at: u64,
    pub(crate) applied_at: u64,
    /// How often it was paused or resumed.
    #[serde(default)]
    pub(crate) pauses: u32,
    /// What was in force when every artifact was looked at last: a [`DeploymentRow::mark`].
    #[serde(default)]
    pub(crate) scanned: String,
    /// The last instant of each event at an interval that was emitted.
    #[serde(default)]
    pub(crate) emitted: BTreeMap<String, u64>,
    /// The next instant of any of them.
    #[serde(default)]
    pub(crate) next_instant: Option<u64>,
    /// The gate roles that any version gave to outside processes: work orders from that time wait in their queues.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) outside_gates: BTreeSet<String>,
    /// The serial keys of any version: events wait in their queues.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) serials: BTreeSet<String>,
    /// It was deleted, and none of its events is left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_settled: bool,
}

impl DeploymentRow {
    pub(crate) fn status(&self) -> &'static str {
        match (self.is_deleted, self.is_paused) {
            (true, _) => DELETED,
            (false, true) => PAUSED,
            (false, false) => ACTIVE,
        }
    }

    /// What decides which artifacts are pending. It changes with the version and with every pause, and never comes back.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only roles ask for it"))]
    pub(crate) fn mark(&self) -> String {
        match self.pauses {
            0 => self.version.clone(),
            pauses => format!("{}#{pauses}", self.version),
        }
    }

    pub(crate) fn pause(&mut self, is_paused: bool) {
        if self.is_paused != is_paused {
            self.is_paused = is_paused;
            self.pauses += 1;
        }
    }

    /// What the ids of its rows begin with.
    pub(crate) fn prefix(&self) -> String {
        prefix(&self.name, self.generation)
    }

    pub(crate) fn object(&self, scope: &Scope, revision: u32) -> Object {
        let due = self.next_instant.filter(|_| self.status() == ACTIVE);
        Object {
            key: deployment_key(scope, &self.name),
            revision,
            status: self.status().into(),
            due: due.map(instant),
            unique_key: None,
            parent: None,
            is_pending: !self.is_settled,
            body: write(self),
        }
    }
}

pub(crate) fn prefix(deployment: &str, generation: u32) -> String {
    format!("{deployment}~{generation}")
}

/// How many keys an artifact remembers. More have worked on it only if an approver has never decided; the first ones are forgotten.
const DONE_BY_MAX: usize = 64;

/// An artifact, up to which deadline its pause state exists, and who worked on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArtifactRow {
    pub(crate) artifact: Artifact,
    /// The last deadline that has a pause state.
    #[serde(default)]
    pub(crate) overdue_at: u64,
    /// The API keys under which its work orders were executed since it was last approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) done_by: Vec<String>,
}

impl ArtifactRow {
    pub(crate) fn is_done_by(&self, key: &Name) -> bool {
        self.done_by.iter().any(|known| known == key.as_str())
    }

    pub(crate) fn note_workers(&mut self, keys: &[Name]) {
        let new = keys.iter().filter(|key| !self.is_done_by(key));
        let new: Vec<String> = new.map(|key| key.as_str().to_owned()).collect();
        self.done_by.extend(new);
        let surplus = self.done_by.len().saturating_sub(DONE_BY_MAX);
        self.done_by.drain(..surplus);
    }

    /// `None` for an object of another type, or one that cannot be read. The revision is that of the object.
    pub(crate) fn of(object: &Object) -> Option<Self> {
        let mut row: Self = read(object, ObjectType::Artifact)?;
        row.artifact.revision = u64::from(object.revision);
        Some(row)
    }

    /// The object at its revision. It is pending while a role would do something about it, and due at its next deadline. In a
    /// paused deployment no role acts, so no artifact is pending and polls do not read it.
    pub(crate) fn object(
        &self,
        scope: &Scope,
        deployment: &DeploymentRow,
        topology: &Topology,
        revision: u32,
        now: u64,
    ) -> Object {
        let Artifact { name, status, .. } = &self.artifact;
        let prefix = &deployment.prefix();
        let is_wanted = || unclaimed::next(topology, &self.artifact, now).is_some();
        let due = unclaimed::next_deadline(topology, &self.artifact, self.overdue_at);
        Object {
            key: artifact_key(scope, prefix, name),
            revision,
            status: status.as_str().into(),
            due: due.map(|(at, _)| instant(at)),
            unique_key: None,
            parent: Some(artifact_parent(prefix, &name.kind)),
            is_pending: !deployment.is_paused && is_wanted(),
            body: write(self),
        }
    }
}

/// A work order, without its snapshot and output, which its task has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkOrderRow {
    pub(crate) order: WorkOrder,
    /// The id of its task.
    pub(crate) task: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) record: Option<RunRecord>,
}

impl WorkOrderRow {
    pub(crate) fn of(object: &Object) -> Option<Self> {
        read(object, ObjectType::WorkOrder)
    }

    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only roles and HTTP ask for it"))]
    pub(crate) fn task(&self) -> Option<TaskId> {
        TaskId::parse(&self.task)
    }

    pub(crate) fn status(&self) -> &'static str {
        match self.record.as_ref().map(|record| record.gate_result) {
            None => ACTIVE,
            Some(GateResult::Pass) => PASSED,
            Some(GateResult::Fail) => FAILED,
        }
    }

    pub(crate) fn object(&self, scope: &Scope, prefix: &str, revision: u32) -> Object {
        Object {
            key: work_order_key(scope, prefix, &self.order.id),
            revision,
            status: self.status().into(),
            due: None,
            unique_key: None,
            parent: Some(prefix.into()),
            is_pending: self.record.is_none(),
            body: write(self),
        }
    }
}

/// Something that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PauseRow {
    pub(crate) pause: PauseState,
    #[serde(default)]
    pub(crate) is_closed: bool,
}

impl PauseRow {
    pub(crate) fn of(object: &Object) -> Option<Self> {
        read(object, ObjectType::PauseState)
    }

    pub(crate) fn object(&self, scope: &Scope, prefix: &str, revision: u32) -> Object {
        Object {
            key: pause_key(scope, prefix, &self.pause.id),
            revision,
            status: if self.is_closed { CLOSED } else { OPEN }.into(),
            due: None,
            unique_key: None,
            parent: Some(prefix.into()),
            is_pending: false,
            body: write(self),
        }
    }
}

/// The work orders that have the slots of a serial key, or of all executors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TrackRow {
    #[serde(default)]
    pub(crate) holders: Vec<String>,
}

impl TrackRow {
    pub(crate) fn of(object: &Object) -> Option<Self> {
        read(object, ObjectType::Track)
    }

    pub(crate) fn object(&self, key: ObjectKey, revision: u32) -> Object {
        let parent = key.id.as_str().split_once('/').map(|(prefix, _)| prefix.into());
        let status = if self.holders.is_empty() { "free" } else { "taken" };
        Object {
            key,
            revision,
            status: status.into(),
            due: None,
            unique_key: None,
            parent,
            is_pending: false,
            body: write(self),
        }
    }
}

/// The note of the end of a task, if it is that of an event that no role decided. It is pending until the pause state exists, and
/// is forgotten with the run.
pub(crate) fn note_of_end(done: &Done) -> Option<ObjectChange> {
    is_unprocessed(done).then(|| {
        let note = Object {
            key: note_key(&done.scope, done.id),
            revision: 1,
            status: OPEN.into(),
            due: None,
            unique_key: None,
            parent: Some(done.id.run_name().into()),
            is_pending: true,
            body: Json::from("{}"),
        };
        change(note, done.completed_at, None)
    })
}

pub(crate) fn note_key(scope: &Scope, task: TaskId) -> ObjectKey {
    key(scope, ObjectType::UnprocessedEvent, task.run_name())
}

/// The note once its pause state exists, or its deployment was deleted.
pub(crate) fn closed_note(note: Object) -> Object {
    Object { status: CLOSED.into(), is_pending: false, ..note }
}

/// The slots that an active work order of a track has: one among all executors, and that of its serial key. Each with how many
/// there are.
pub(crate) fn slots(topology: &Topology, track: Option<&str>) -> Vec<(String, usize)> {
    let all = (EXECUTORS.to_owned(), topology.declaration().limits.executors as usize);
    let serial = topology.serial_key(track).map(|key| (key.to_owned(), 1));
    [Some(all), serial].into_iter().flatten().collect()
}

/// The deployment in an object; `None` for an object of another type, or one that cannot be read.
pub(crate) fn deployment_of(object: &Object) -> Option<DeploymentRow> {
    read(object, ObjectType::Deployment)
}

/// The declaration of a version, written once.
pub(crate) fn version_object(scope: &Scope, topology: &Topology) -> Object {
    Object {
        key: version_key(scope, topology.digest()),
        revision: 1,
        status: "declared".into(),
        due: None,
        unique_key: None,
        parent: None,
        is_pending: false,
        body: write(topology.declaration()),
    }
}

/// The topology in a version's object; `None` if this program cannot read it.
pub(crate) fn topology_of(object: &Object) -> Option<Topology> {
    let is_it = object.key.object_type == ObjectType::Topology;
    is_it.then(|| topology::read_stored(object.body.as_str()).ok()).flatten()
}

pub(crate) fn change(after: Object, at: Time, by: Option<Name>) -> ObjectChange {
    ObjectChange { after, at, by }
}

fn key(scope: &Scope, object_type: ObjectType, id: String) -> ObjectKey {
    ObjectKey { scope: scope.clone(), object_type, id: id.into() }
}

pub(crate) fn deployment_key(scope: &Scope, name: &str) -> ObjectKey {
    key(scope, ObjectType::Deployment, name.to_owned())
}

pub(crate) fn version_key(scope: &Scope, digest: &str) -> ObjectKey {
    key(scope, ObjectType::Topology, digest.to_owned())
}

pub(crate) fn artifact_key(scope: &Scope, prefix: &str, artifact: &ArtifactRef) -> ObjectKey {
    key(scope, ObjectType::Artifact, format!("{prefix}/{artifact}"))
}

/// What all artifacts of a type have in common.
pub(crate) fn artifact_parent(prefix: &str, artifact_type: &str) -> Name {
    Name::from(format!("{prefix}/{artifact_type}"))
}

pub(crate) fn work_order_key(scope: &Scope, prefix: &str, id: &str) -> ObjectKey {
    key(scope, ObjectType::WorkOrder, format!("{prefix}/{id}"))
}

pub(crate) fn pause_key(scope: &Scope, prefix: &str, id: &str) -> ObjectKey {
    key(scope, ObjectType::PauseState, format!("{prefix}/{id}"))
}

pub(crate) fn track_key(scope: &Scope, prefix: &str, serial: &str) -> ObjectKey {
    key(scope, ObjectType::Track, format!("{prefix}/{serial}"))
}

/// The deployment, generation and name of an artifact by the id of its object.
pub(crate) fn artifact_named(id: &Name) -> Option<(Name, u32, ArtifactRef)> {
    let (prefix, rest) = id.as_str().split_once('/')?;
    let (deployment, generation) = prefix.split_once('~')?;
    let (kind, id) = rest.split_once('/')?;
    let artifact = ArtifactRef { kind: kind.to_owned(), id: id.to_owned() };
    Some((deployment.into(), generation.parse().ok()?, artifact))
}

/// The store's time as topologies count it. Before 1970 there is none.
pub(crate) fn millis(time: Time) -> u64 {
    u64::try_from(time.millis()).unwrap_or(0)
}

pub(crate) fn instant(millis: u64) -> Time {
    Time::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

fn read<T: DeserializeOwned>(object: &Object, object_type: ObjectType) -> Option<T> {
    let is_it = object.key.object_type == object_type;
    is_it.then(|| serde_json::from_str(object.body.as_str()).ok()).flatten()
}

fn write(row: &impl Serialize) -> Json {
    Json::from(serde_json::to_string(row).expect("rows have only text keys"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pause_and_every_version_has_a_mark_of_its_own() {
        // An artifact that was made between two pauses is looked at after the second, whatever scan ends in between.
        let mut row = DeploymentRow {
            name: "bakery".to_owned(),
            topology: "bakery".to_owned(),
            version: "v1".to_owned(),
            generation: 1,
            is_paused: false,
            is_deleted: false,
            created_at: 0,
            applied_at: 0,
            pauses: 0,
            serials: BTreeSet::new(),
            is_settled: false,
            scanned: "v1".to_owned(),
            emitted: BTreeMap::new(),
            next_instant: None,
            outside_gates: BTreeSet::new(),
        };
        assert_eq!(row.mark(), row.scanned, "a new deployment has nothing to look at");
        let mut marks = BTreeSet::from([row.mark()]);
        for is_paused in [true, false, true, false] {
            row.pause(is_paused);
            assert!(marks.insert(row.mark()), "{} again", row.mark());
        }
        row.pause(false);
        assert!(!marks.insert(row.mark()), "what is resumed twice was resumed once");
        row.version = "v2".to_owned();
        assert!(marks.insert(row.mark()));
    }
}
