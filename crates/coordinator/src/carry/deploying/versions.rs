//! What becomes of a deployment itself: a version is applied, the deployment paused, deleted and settled.
//!
//! What stands in the way of a new version or of a deletion is looked for here, on rows that the commit has locked; the caller's
//! handler has looked before, to say so earlier. What happens inside a deployment is decided in the module above.

use super::*;

impl Deploying<'_> {
    /// Puts a version in force. The same version again changes nothing.
    pub(super) fn apply(
        &mut self,
        item: &TopologyItem,
        topology: &Arc<Topology>,
    ) -> Decided<Answer> {
        let (scope, now) = (&item.scope, self.now());
        let before = self.work.topologies.deployment(item);
        let live = before.as_ref().filter(|(_, row)| !row.is_deleted);
        let generation = before.as_ref().map_or(0, |(_, row)| row.generation);
        // What stands in the way was looked at by who asks, for this generation or none.
        let expected = live.map_or(0, |(_, row)| row.generation);
        if item.generation != expected {
            let why = "the deployment was made or deleted meanwhile; try again";
            return Err(TopologyRefusal::Stale(Text::from(why)));
        }
        let mut row = match live {
            Some((_, row)) if row.version == topology.digest() => {
                let key = deployment_key(scope, item.deployment.as_str());
                let object = self.work.topologies.get(&key).expect("it was just read");
                return Ok(answered(object.clone()));
            }
            Some((_, row)) => {
                self.check_artifacts(item, topology)?;
                row.clone()
            }
            None => DeploymentRow {
                name: item.deployment.to_string(),
                topology: String::new(),
                version: String::new(),
                generation: generation + 1,
                is_paused: false,
                is_deleted: false,
                created_at: now,
                applied_at: now,
                pauses: 0,
                // It has no artifacts yet.
                scanned: topology.digest().to_owned(),
                emitted: std::collections::BTreeMap::new(),
                next_instant: None,
                outside_gates: BTreeSet::new(),
                serials: BTreeSet::new(),
                is_settled: false,
            },
        };
        row.topology = topology.name().to_owned();
        row.version = topology.digest().to_owned();
        row.applied_at = now;
        row.next_instant = next_instant(topology, &row, now);
        let outside = topology.roles_using(Logic::Gate).filter(|(_, role)| role.outside);
        row.outside_gates.extend(outside.map(|(name, _)| name.to_owned()));
        let tracks = topology.declaration().tracks.values();
        row.serials.extend(tracks.filter_map(|track| track.serial.clone()));
        if self.work.topologies.get(&version_key(scope, topology.digest())).is_none() {
            self.write(version_object(scope, topology), item.by.clone());
        }
        self.work.topologies.keep_version(topology.clone());
        Ok(answered(self.write(row.object(scope, 1), item.by.clone())))
    }

    /// Nothing of a deleted deployment is left to be ended.
    pub(super) fn settled(&mut self, item: &TopologyItem) -> Answer {
        let found = self.work.topologies.deployment(item);
        let found = found.filter(|(_, row)| row.is_deleted && row.generation == item.generation);
        let Some((_, row)) = found.filter(|(_, row)| !row.is_settled) else {
            return Answer::Nothing;
        };
        let row = DeploymentRow { is_settled: true, ..row };
        answered(self.write(row.object(&item.scope, 1), None))
    }

    /// No artifact is where the new version has no place for it. Looked at by who asks, too; here it holds for the commit.
    fn check_artifacts(&self, item: &TopologyItem, after: &Topology) -> Decided<()> {
        let artifacts = self.work.topologies.in_the_way(item, ObjectType::Artifact);
        for row in artifacts.filter_map(ArtifactRow::of) {
            let (artifact, status) = (row.artifact.name.kind, row.artifact.status);
            let obstacle = match after.artifact(&artifact) {
                None => Obstacle::ArtifactType { artifact },
                Some(next) if !next.statuses.contains(&status) => {
                    Obstacle::Status { artifact, status }
                }
                Some(_) => continue,
            };
            let why = format!("{obstacle}; nothing was changed");
            return Err(TopologyRefusal::Incompatible(Text::from(why)));
        }
        Ok(())
    }

    /// No work order is active: without its deployment no gate would judge it.
    fn check_no_orders(&self, item: &TopologyItem) -> Decided<()> {
        let mut orders = self.work.topologies.in_the_way(item, ObjectType::WorkOrder);
        match orders.find(|order| order.is_pending) {
            None => Ok(()),
            Some(_) => {
                let why = "work orders are active; let them end, or cancel their runs, before you delete the deployment";
                Err(TopologyRefusal::Incompatible(Text::from(why)))
            }
        }
    }

    pub(super) fn change_deployment(
        &mut self,
        found: InForce<'_>,
        change: impl FnOnce(&mut DeploymentRow),
    ) -> Answer {
        let InForce { scope, row, revision, by, .. } = found;
        self.change_row(scope, (revision, row), by, change)
    }

    pub(super) fn delete(&mut self, item: &TopologyItem) -> Decided<Answer> {
        self.found(item)?;
        self.check_no_orders(item)?;
        self.change_any(item, |row| row.is_deleted = true)
    }

    /// The same for a deployment whose version may be unreadable.
    pub(super) fn change_any(
        &mut self,
        item: &TopologyItem,
        change: impl FnOnce(&mut DeploymentRow),
    ) -> Decided<Answer> {
        let found = self.found(item)?;
        Ok(self.change_row(&item.scope, found, item.by.clone(), change))
    }

    fn change_row(
        &mut self,
        scope: &Scope,
        (revision, mut row): (u32, DeploymentRow),
        by: Option<Name>,
        change: impl FnOnce(&mut DeploymentRow),
    ) -> Answer {
        let before = row.clone();
        change(&mut row);
        if row == before {
            return answered(row.object(scope, revision));
        }
        answered(self.write(row.object(scope, 1), by))
    }
}
