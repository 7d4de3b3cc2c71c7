//! Deployments in a batch: what is loaded for requests about them.
//!
//! Every request about a deployment locks the deployment's row, and each row that it names. What else a decision may need is
//! derived from those: the version in force, pause states of deadlines, the owners of the keys of events. [`super::deploying`]
//! decides.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use store::objects::{LoadedObject, ObjectChange};
use store::{Batch, IdempotencyKey, Lookup, ObjectFilter, TaskKey};
use topology::Topology;
use topology::deployment::{ArtifactRef, Event, PauseState};
use topology::proposal::Change;
use topology::roles::{deadlines, unclaimed};
use verdict::{Name, Object, ObjectKey, ObjectType, Scope, Text, Time};

use super::batch::{Aborted, OpenBatch};
use super::working_set::WorkingSet;
use crate::item::{Item, TopologyCall, TopologyItem};
use crate::topologies::Versions;
use crate::topologies::rows::{
    ArtifactRow, DeploymentRow, TrackRow, WorkOrderRow, artifact_key, artifact_named,
    artifact_parent, change, deployment_key, deployment_of, millis, note_key, pause_key, prefix,
    slots, topology_of, track_key, version_key, work_order_key,
};
use crate::topologies::submissions::Owner;

/// How many entries into a status one request may make for one artifact: its own, and those of reviews that follow. The rest is
/// found by a poll.
pub(super) const ENTRIES_MAX: u64 = 4;

/// What a batch knows of deployments.
#[derive(Default)]
pub(super) struct Topologies {
    objects: HashMap<ObjectKey, LoadedObject>,
    /// Compiled versions that were known when the batch began.
    pub(super) versions: Arc<Versions>,
    /// Versions that were read for it.
    read: HashMap<String, Arc<Topology>>,
    /// What was looked up for the requests about each deployment beside what they name.
    derived: HashMap<ObjectKey, Derived>,
    /// What may stand in the way of a new version or of a deletion, by deployment. Whoever changes such a row locks the
    /// deployment, as the batch has done: it holds for the commit.
    in_the_way: HashMap<ObjectKey, Vec<Object>>,
    /// Who has the slots of tracks, as far as the batch has asked. What it changes is written once, with the batch: hundreds of
    /// work orders may take and leave the slots of one deployment in one commit.
    tracks: BTreeMap<ObjectKey, Holders>,
}

struct Holders {
    row: TrackRow,
    is_changed: bool,
}

impl Topologies {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Object> {
        match self.objects.get(key)? {
            LoadedObject::Object(object) => Some(object),
            LoadedObject::Absent | LoadedObject::Locked => None,
        }
    }

    /// Keeps an object as it was decided: the next request of the batch sees it.
    pub(super) fn put(&mut self, object: Object) {
        self.objects.insert(object.key.clone(), LoadedObject::Object(object));
    }

    /// The work orders that have the slots of a track.
    pub(super) fn holders(&mut self, key: &ObjectKey) -> &[String] {
        &self.track(key).row.holders
    }

    /// Lets a work order have a slot of a track, or leave it.
    pub(super) fn change_holder(&mut self, key: &ObjectKey, order: &str, has_it: bool) {
        let track = self.track(key);
        track.is_changed = true;
        track.row.holders.retain(|holder| holder != order);
        if has_it {
            track.row.holders.push(order.to_owned());
        }
    }

    fn track(&mut self, key: &ObjectKey) -> &mut Holders {
        if !self.tracks.contains_key(key) {
            let row = self.get(key).and_then(TrackRow::of).unwrap_or_default();
            self.tracks.insert(key.clone(), Holders { row, is_changed: false });
        }
        self.tracks.get_mut(key).expect("it was just put there")
    }

    /// The tracks that changed since the last call, to be saved.
    pub(super) fn take_tracks(&mut self, at: Time) -> Vec<ObjectChange> {
        let mut changes = Vec::new();
        for (key, track) in self.tracks.iter_mut().filter(|(_, track)| track.is_changed) {
            track.is_changed = false;
            let before = match self.objects.get(key) {
                Some(LoadedObject::Object(object)) => object.revision,
                _ => 0,
            };
            let object = track.row.object(key.clone(), before + 1);
            self.objects.insert(key.clone(), LoadedObject::Object(object.clone()));
            changes.push(change(object, at, None));
        }
        changes
    }

    /// The rows of one type that may stand in the way, as this batch leaves them: what was listed, and what the batch has made.
    pub(super) fn in_the_way(
        &self,
        item: &TopologyItem,
        object_type: ObjectType,
    ) -> impl Iterator<Item = &Object> {
        let deployment = deployment_key(&item.scope, item.deployment.as_str());
        let listed = self.in_the_way.get(&deployment).into_iter().flatten();
        let listed = listed.map(|object| self.get(&object.key).unwrap_or(object));
        let prefix = prefix(item.deployment.as_str(), item.generation);
        let is_own = move |object: &&Object| {
            let id = object.key.id.as_str();
            object.key.scope == item.scope
                && id.strip_prefix(&prefix).is_some_and(|rest| rest.starts_with('/'))
        };
        let made = self.objects.values().filter_map(|loaded| match loaded {
            LoadedObject::Object(object) => Some(object),
            LoadedObject::Absent | LoadedObject::Locked => None,
        });
        let all = listed.chain(made.filter(is_own));
        all.filter(move |object| object.key.object_type == object_type)
    }

    fn is_missing(&self, key: &ObjectKey) -> bool {
        matches!(self.objects.get(key), Some(LoadedObject::Locked) | None)
    }

    /// The deployment of an item, deleted or not.
    pub(super) fn deployment(&self, item: &TopologyItem) -> Option<(u32, DeploymentRow)> {
        let object = self.get(&deployment_key(&item.scope, item.deployment.as_str()))?;
        Some((object.revision, deployment_of(object)?))
    }

    pub(super) fn version(&self, digest: &str) -> Option<Arc<Topology>> {
        self.read.get(digest).or_else(|| self.versions.get(digest)).cloned()
    }

    pub(super) fn keep_version(&mut self, topology: Arc<Topology>) {
        self.read.insert(topology.digest().to_owned(), topology);
    }

    /// Whether another writer has something locked that the item needs.
    pub(super) fn is_locked(&self, item: &TopologyItem, work: &WorkingSet) -> bool {
        let is_task_locked = match &item.call {
            TopologyCall::Report(report) => {
                report.claim.as_ref().is_some_and(|(key, _)| work.is_locked(key))
            }
            _ => false,
        };
        let deployment = deployment_key(&item.scope, item.deployment.as_str());
        is_task_locked
            || first_keys(item).iter().any(|key| self.is_missing(key))
            || self.derived.get(&deployment).is_some_and(|derived| derived.is_locked)
            || self.is_version_locked(item)
    }

    /// Whether another writer has the declaration of the version in force, which nobody here has read.
    fn is_version_locked(&self, item: &TopologyItem) -> bool {
        let in_force = self.deployment(item).map(|(_, row)| row.version);
        in_force.is_some_and(|digest| {
            let key = version_key(&item.scope, &digest);
            let is_locked = matches!(self.objects.get(&key), Some(LoadedObject::Locked));
            self.version(&digest).is_none() && is_locked
        })
    }
}

/// How many rows are listed for each status that a version takes away, and of active work orders. Should all of them have moved
/// on within the batch, the call is refused once too often and can be repeated.
const IN_THE_WAY_MAX: usize = 32;

impl Topologies {
    /// What to list for an item: artifacts that a new version has no place for, active work orders of what is deleted.
    fn obstacle_filters(&self, item: &TopologyItem) -> Vec<ObjectFilter> {
        let found = self.deployment(item).filter(|(_, row)| !row.is_deleted);
        let Some((_, row)) = found else { return Vec::new() };
        let filter = |object_type, parent: Name| ObjectFilter {
            scope: Some(item.scope.clone()),
            object_type: Some(object_type),
            parent: Some(parent),
            limit: IN_THE_WAY_MAX,
            ..ObjectFilter::default()
        };
        match &item.call {
            TopologyCall::Delete => {
                let active = filter(ObjectType::WorkOrder, row.prefix().into());
                vec![ObjectFilter { is_pending: true, ..active }]
            }
            TopologyCall::Apply(after) => {
                let before = self.version(&row.version);
                let gone = before.iter().flat_map(|before| gone_statuses(before, &after.0));
                gone.map(|(kind, status)| ObjectFilter {
                    status: status.map(Name::from),
                    ..filter(ObjectType::Artifact, artifact_parent(&row.prefix(), kind))
                })
                .collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The statuses that a version takes away; none for a type that it takes away as a whole.
fn gone_statuses<'t>(before: &'t Topology, after: &Topology) -> Vec<(&'t str, Option<&'t str>)> {
    let mut gone = Vec::new();
    for (kind, declared) in &before.declaration().artifacts {
        match after.artifact(kind) {
            None => gone.push((kind.as_str(), None)),
            Some(next) => {
                let statuses = declared.statuses.iter().filter(|it| !next.statuses.contains(it));
                gone.extend(statuses.map(|status| (kind.as_str(), Some(status.as_str()))));
            }
        }
    }
    gone
}

/// Requests about artifacts and deployments for which time has come.
pub(super) fn due_deployed(due: &[Object]) -> Vec<Item> {
    let item = |object: &Object| {
        let ObjectKey { scope, object_type, id } = &object.key;
        match object_type {
            ObjectType::Artifact => {
                let (deployment, generation, artifact) = artifact_named(id)?;
                let call = TopologyCall::Advance { artifact };
                Some(Item::topology(scope, &deployment, generation, call))
            }
            ObjectType::Deployment => {
                let generation = deployment_of(object)?.generation;
                Some(Item::topology(scope, id, generation, TopologyCall::Tick))
            }
            _ => None,
        }
    };
    due.iter().filter_map(item).collect()
}

fn topology_items(items: &[Item]) -> impl Iterator<Item = &TopologyItem> {
    items.iter().filter_map(|item| match item {
        Item::Topology(item) => Some(&**item),
        _ => None,
    })
}

/// The artifacts that an item names.
fn artifacts(call: &TopologyCall) -> Vec<ArtifactRef> {
    match call {
        TopologyCall::Create { artifact, .. }
        | TopologyCall::Move { artifact, .. }
        | TopologyCall::Go { artifact, .. }
        | TopologyCall::Advance { artifact } => vec![artifact.clone()],
        TopologyCall::Report(report) => report.changes.iter().filter_map(artifact_of).collect(),
        TopologyCall::Apply(_)
        | TopologyCall::Pause
        | TopologyCall::Resume
        | TopologyCall::Delete
        | TopologyCall::Emit { .. }
        | TopologyCall::Tick
        | TopologyCall::Scanned { .. }
        | TopologyCall::Settled
        | TopologyCall::ClosePause { .. }
        | TopologyCall::Unprocessed { .. } => Vec::new(),
    }
}

fn artifact_of(change: &Change) -> Option<ArtifactRef> {
    match change {
        Change::Artifact(change) => Some(change.artifact.clone()),
        Change::Create { artifact, .. } => Some(artifact.clone()),
        _ => None,
    }
}

/// What an item names itself.
fn first_keys(item: &TopologyItem) -> Vec<ObjectKey> {
    let scope = &item.scope;
    let prefix = prefix(item.deployment.as_str(), item.generation);
    let mut keys = vec![deployment_key(scope, item.deployment.as_str())];
    keys.extend(artifacts(&item.call).iter().map(|it| artifact_key(scope, &prefix, it)));
    match &item.call {
        TopologyCall::Apply(topology) => keys.push(version_key(scope, topology.0.digest())),
        TopologyCall::ClosePause { id } => keys.push(pause_key(scope, &prefix, id)),
        TopologyCall::Unprocessed { task, pause } => {
            keys.extend([note_key(scope, *task), pause_key(scope, &prefix, &pause.id)]);
        }
        TopologyCall::Report(report) => {
            keys.extend(report.changes.iter().filter_map(|change| match change {
                Change::Order(order) => Some(work_order_key(scope, &prefix, &order.id)),
                Change::Record(record) => Some(work_order_key(scope, &prefix, &record.work_order)),
                Change::Pause(pause) => Some(pause_key(scope, &prefix, &pause.id)),
                _ => None,
            }));
        }
        _ => {}
    }
    keys
}

/// What decisions about deployments need beside the rows that they name.
#[derive(Default)]
struct Derived {
    objects: BTreeSet<ObjectKey>,
    keys: BTreeSet<IdempotencyKey>,
    /// Whether another writer has any of it. Found once for all requests about the deployment: each of them asks.
    is_locked: bool,
}

impl<B: Batch> OpenBatch<'_, B> {
    /// Loads what items about deployments need. Most batches have none.
    pub(super) async fn load_topologies(
        &mut self,
        items: &[Item],
        now: Time,
    ) -> Result<(), Aborted> {
        let first: BTreeSet<ObjectKey> = topology_items(items).flat_map(first_keys).collect();
        if first.is_empty() {
            return Ok(());
        }
        self.load_deployed(first).await?;
        let versions = self.missing_versions(items);
        self.load_deployed(versions.clone()).await?;
        for key in versions {
            let read = self.work.topologies.get(&key).and_then(topology_of);
            if let Some(topology) = read {
                self.work.topologies.keep_version(Arc::new(topology));
            }
        }
        self.list_in_the_way(items).await?;
        for item in topology_items(items) {
            self.derive(item, now);
        }
        self.load_derived().await
    }

    /// Lists what may stand in the way of versions and deletions, once their deployments are locked. Most batches have neither.
    async fn list_in_the_way(&mut self, items: &[Item]) -> Result<(), Aborted> {
        for item in topology_items(items) {
            let filters = self.work.topologies.obstacle_filters(item);
            if filters.is_empty() {
                continue;
            }
            let lookup = Lookup { listed: &filters, ..Lookup::default() };
            let listed = self.batch.look_up(lookup).await?.listed;
            let deployment = deployment_key(&item.scope, item.deployment.as_str());
            let known = self.work.topologies.in_the_way.entry(deployment).or_default();
            known.extend(listed.into_iter().flatten());
        }
        Ok(())
    }

    async fn load_deployed(&mut self, keys: BTreeSet<ObjectKey>) -> Result<(), Aborted> {
        let known = &self.work.topologies.objects;
        let keys: Vec<ObjectKey> =
            keys.into_iter().filter(|key| !known.contains_key(key)).collect();
        if keys.is_empty() {
            return Ok(());
        }
        // What was missed several times is waited for, alone.
        let lock_wait = self.options.lock_wait;
        let lookup = Lookup { lock_wait, ..Lookup::objects(&keys) };
        let found = self.batch.look_up(lookup).await?.objects;
        self.work.topologies.objects.extend(keys.into_iter().zip(found));
        Ok(())
    }

    /// The versions that items need and that no one has compiled here.
    fn missing_versions(&self, items: &[Item]) -> BTreeSet<ObjectKey> {
        let topologies = &self.work.topologies;
        let of_item = |item: &TopologyItem| {
            let in_force = topologies.deployment(item).map(|(_, row)| row.version);
            let proposed = match &item.call {
                TopologyCall::Report(report) => Some(report.version.clone()),
                _ => None,
            };
            let wanted: Vec<ObjectKey> = [in_force, proposed]
                .into_iter()
                .flatten()
                .filter(|digest| topologies.version(digest).is_none())
                .map(|digest| version_key(&item.scope, &digest))
                .collect();
            wanted
        };
        topology_items(items).flat_map(of_item).collect()
    }

    fn derive(&mut self, item: &TopologyItem, now: Time) {
        let deployment = deployment_key(&item.scope, item.deployment.as_str());
        let mut derived = self.work.topologies.derived.remove(&deployment).unwrap_or_default();
        self.derive_into(item, now, &mut derived);
        self.work.topologies.derived.insert(deployment, derived);
    }

    fn derive_into(&self, item: &TopologyItem, now: Time, derived: &mut Derived) {
        let topologies = &self.work.topologies;
        let Some((_, row)) = topologies.deployment(item) else { return };
        let Some(topology) = topologies.version(&row.version) else { return };
        let (scope, prefix) = (&item.scope, row.prefix());
        let owner =
            Owner { scope, deployment: item.deployment.as_str(), generation: item.generation };
        let mut ids = Vec::new();
        for name in artifacts(&item.call) {
            let found = topologies.get(&artifact_key(scope, &prefix, &name));
            let found = found.and_then(ArtifactRow::of);
            ids.extend(event_ids(&topology, &name, found.as_ref()));
            if let Some(overdue) = found.and_then(|it| overdue(&topology, &it, millis(now))) {
                derived.objects.insert(pause_key(scope, &prefix, &overdue.id));
            }
        }
        match &item.call {
            TopologyCall::Emit { event, key } => {
                ids.push(Event::about_deployment(event, key, 0).id);
            }
            TopologyCall::Tick => {
                let now = millis(now);
                ids.extend(instants(&topology, &row, now).into_iter().map(|(_, event)| event.id));
            }
            TopologyCall::Report(report) => {
                for change in &report.changes {
                    derive_change(change, scope, topologies, &report.version, &prefix, derived);
                    if let Change::Order(order) = change {
                        ids.push(order.id.clone());
                    }
                }
            }
            _ => {}
        }
        let key =
            |id: &String| IdempotencyKey { scope: scope.clone(), text: Text::from(owner.key(id)) };
        derived.keys.extend(ids.iter().map(key));
    }

    async fn load_derived(&mut self) -> Result<(), Aborted> {
        let all = || self.work.topologies.derived.values();
        let objects = all().flat_map(|it| it.objects.iter().cloned()).collect();
        let keys: BTreeSet<IdempotencyKey> = all().flat_map(|it| it.keys.iter().cloned()).collect();
        self.load_deployed(objects).await?;
        let keys = Vec::from_iter(keys);
        if !keys.is_empty() {
            let found = self.batch.look_up(Lookup { keys: &keys, ..Lookup::default() }).await?;
            for (key, owner) in keys.into_iter().zip(found.owners) {
                let Some((owner, loaded)) = owner else { continue };
                self.put(TaskKey { scope: key.scope.clone(), id: owner.task }, loaded);
                self.work.put_holder(key, owner);
            }
        }
        self.find_locked();
        Ok(())
    }

    fn find_locked(&mut self) {
        let topologies = &self.work.topologies;
        let is_locked = |derived: &Derived| {
            derived.objects.iter().any(|key| topologies.is_missing(key))
                || derived.keys.iter().any(|key| self.work.is_key_holder_locked(key))
        };
        let locked = topologies.derived.iter().filter(|(_, derived)| is_locked(derived));
        let locked: Vec<ObjectKey> = locked.map(|(key, _)| key.clone()).collect();
        for key in locked {
            let derived = self.work.topologies.derived.get_mut(&key);
            derived.expect("it was just seen").is_locked = true;
        }
    }
}

/// The slots of a work order that is made or judged.
fn derive_change(
    change: &Change,
    scope: &Scope,
    topologies: &Topologies,
    version: &str,
    prefix: &str,
    derived: &mut Derived,
) {
    let Some(topology) = topologies.version(version) else { return };
    let track = match change {
        Change::Order(order) => order.track.clone(),
        Change::Record(record) => {
            let key = work_order_key(scope, prefix, &record.work_order);
            topologies.get(&key).and_then(WorkOrderRow::of).and_then(|row| row.order.track)
        }
        _ => return,
    };
    let slots = slots(&topology, track.as_deref());
    derived.objects.extend(slots.iter().map(|(key, _)| track_key(scope, prefix, key)));
}

/// The events that an artifact can make while one request is decided.
fn event_ids(topology: &Topology, name: &ArtifactRef, found: Option<&ArtifactRow>) -> Vec<String> {
    let number = found.map_or(0, |row| row.artifact.transition_no);
    let of_type = topology
        .declaration()
        .events
        .iter()
        .filter(|(_, source)| source.artifact.as_deref() == Some(name.kind.as_str()));
    of_type
        .flat_map(|(event, _)| {
            (number..=number + ENTRIES_MAX).map(move |number| format!("{event}/{name}/{number}"))
        })
        .collect()
}

/// The pause state of the artifact's next deadline, if it has come.
pub(super) fn overdue(topology: &Topology, row: &ArtifactRow, now: u64) -> Option<PauseState> {
    let (_, role) = unclaimed::next_deadline(topology, &row.artifact, row.overdue_at)?;
    let proposed = deadlines::propose(topology, role, &row.artifact, now);
    proposed.into_iter().find_map(|change| match change {
        Change::Pause(pause) => Some(pause),
        _ => None,
    })
}

/// Events at intervals whose instant has come and was not emitted, with the instant.
pub(super) fn instants(topology: &Topology, row: &DeploymentRow, now: u64) -> Vec<(u64, Event)> {
    let mut found = Vec::new();
    for event in topology.declaration().events.keys() {
        let proposed =
            topology::roles::readiness::propose_scheduled(topology, event, row.created_at, now);
        for change in proposed {
            let Change::Emit(emitted) = change else { continue };
            let instant = emitted.id.rsplit('/').next().and_then(|text| text.parse().ok());
            let last = row.emitted.get(event).copied().unwrap_or(0);
            if let Some(instant) = instant.filter(|instant| *instant > last) {
                found.push((instant, emitted));
            }
        }
    }
    found
}

/// The next instant of any event at an interval.
pub(super) fn next_instant(topology: &Topology, row: &DeploymentRow, now: u64) -> Option<u64> {
    let spans = topology.declaration().events.values().filter_map(|source| source.every);
    let next = |every: u64| {
        let passed = now.saturating_sub(row.created_at).checked_div(every)?;
        Some(row.created_at + (passed + 1) * every)
    };
    spans.filter_map(|every| next(every.ms())).min()
}

/// The scope and name of a deployment's row.
pub(super) fn owner<'a>(scope: &'a Scope, row: &'a DeploymentRow) -> Owner<'a> {
    Owner { scope, deployment: &row.name, generation: row.generation }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_track_is_written_once_for_all_work_orders_of_a_commit() {
        // S0-50: however many take and leave a slot together, its revision moves by one, and the last of them is what is kept.
        let (scope, at) = (Scope::default(), Time::from_millis(1));
        let key = track_key(&scope, "bakery~1", "oven");
        let mut topologies = Topologies::default();
        for order in ["a", "b", "c"] {
            topologies.change_holder(&key, order, true);
        }
        topologies.change_holder(&key, "a", false);
        let written = topologies.take_tracks(at);
        assert_eq!(written.iter().map(|it| it.after.revision).collect::<Vec<_>>(), [1]);
        assert_eq!(written[0].after.parent, Some("bakery~1".into()));
        assert_eq!(TrackRow::of(&written[0].after).unwrap().holders, ["b", "c"]);
        assert_eq!(topologies.take_tracks(at), [], "what was saved is not saved again");
        topologies.change_holder(&key, "b", false);
        let written = topologies.take_tracks(at);
        assert_eq!(written.iter().map(|it| it.after.revision).collect::<Vec<_>>(), [2]);
        assert_eq!(topologies.holders(&key), ["c"]);
    }
}
