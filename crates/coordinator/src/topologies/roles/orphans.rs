//! Events that no role will ever take: of a deployment that was deleted, or with a serial key that its version in force does not
//! have, in whose queue nobody looks any more.
//!
//! A deletion and a new version are refused while something stands in their way that can be known then; events that wait are
//! not counted for that, because a paused deployment has them for ever. They are ended here, after the commit and as often as it
//! takes: a deleted deployment stays pending, and a new version stays unscanned, until none is left.

use std::collections::BTreeSet;

use store::{Browse, Filter, ObjectFilter, TaskKey};
use topology::Topology;
use verdict::request::{Cancel, CancelMode};
use verdict::topology::event_queue;
use verdict::{Name, ObjectType, Scope, State, Text};

use super::{Interrupted, PAGE, Roles};
use crate::item::{Item, TopologyCall};
use crate::topologies::rows::{DELETED, DeploymentRow, deployment_of};

/// What the run of such an event says.
const WHY: &str = "no role takes this event: its deployment was deleted, or has another version without its serial key";

/// The states in which an event waits or is being processed.
const LIVE: [State; 3] = [State::Queued, State::Retry, State::Running];

impl Roles {
    /// Ends the events of deployments that were deleted. Without one it reads nothing.
    pub(super) async fn settle_deleted(&self) -> Result<(), Interrupted> {
        if !self.coordinator.topologies().take_leaving() {
            return Ok(());
        }
        let settled = self.settle_all_deleted().await;
        if settled.is_err() {
            self.coordinator.topologies().look_again();
        }
        settled
    }

    async fn settle_all_deleted(&self) -> Result<(), Interrupted> {
        let filter = ObjectFilter {
            object_type: Some(ObjectType::Deployment),
            status: Some(DELETED.into()),
            is_pending: true,
            limit: PAGE,
            ..ObjectFilter::default()
        };
        let found = self.coordinator.browse().objects(&filter).await?;
        if found.len() == PAGE {
            self.coordinator.topologies().look_again();
        }
        for object in found {
            let Some(row) = deployment_of(&object) else { continue };
            let scope = &object.key.scope;
            let serials = row.serials.iter().map(|serial| Some(serial.as_str()));
            for serial in serials.chain([None]) {
                self.end_queue(scope, event_queue(&row.name, serial)).await?;
            }
            let name = Name::from(row.name.as_str());
            let settled = TopologyCall::Settled;
            self.ask(vec![Item::topology(scope, &name, row.generation, settled)]).await?;
        }
        Ok(())
    }

    /// Ends the events of serial keys that only earlier versions had.
    pub(super) async fn end_gone_serials(
        &self,
        scope: &Scope,
        row: &DeploymentRow,
        version: &Topology,
    ) -> Result<(), Interrupted> {
        let tracks = version.declaration().tracks.values();
        let known: BTreeSet<&str> = tracks.filter_map(|track| track.serial.as_deref()).collect();
        for serial in row.serials.iter().filter(|serial| !known.contains(serial.as_str())) {
            self.end_queue(scope, event_queue(&row.name, Some(serial))).await?;
        }
        Ok(())
    }

    async fn end_queue(&self, scope: &Scope, queue: Name) -> Result<(), Interrupted> {
        for state in LIVE {
            self.end_page_by_page(scope, queue.clone(), state).await?;
        }
        Ok(())
    }

    async fn end_page_by_page(
        &self,
        scope: &Scope,
        queue: Name,
        state: State,
    ) -> Result<(), Interrupted> {
        let mut filter =
            Filter { queue: Some(queue), state: Some(state), limit: PAGE, ..Filter::default() };
        loop {
            let page = self.coordinator.browse().list(scope, &filter).await?;
            let live = page.tasks.iter().filter_map(|it| it.task.subject.live());
            for task in live {
                let key = TaskKey { scope: scope.clone(), id: task.id };
                let reason = Some(Text::from(WHY));
                let cancel = Cancel { reason, mode: CancelMode::Immediate };
                self.coordinator.cancel(key, cancel).await?;
            }
            filter.before = page.next;
            if filter.before.is_none() {
                return Ok(());
            }
        }
    }
}
