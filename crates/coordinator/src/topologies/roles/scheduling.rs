//! Schedulers: an event that was leased becomes a work order, or ends with the reason why not.

use std::iter;

use serde_json::json;
use topology::proposal::Change;
use topology::roles::scheduler;

use super::reading::Seen;
use super::{Interrupted, PROPOSALS_MAX, Proposed, Roles, succeeded};
use crate::item::{Granted, RoleReport};
use crate::topologies::submissions::EventInput;

impl Roles {
    /// `seen` is what was read for the claims that were granted with this one.
    pub(super) async fn schedule(&self, granted: &Granted, seen: &Seen) -> Result<(), Interrupted> {
        let scope = granted.task.scope.clone();
        let Ok(input) = serde_json::from_str::<EventInput>(granted.spec.input.as_str()) else {
            self.give_up(granted, "this is no event of a deployment").await;
            return Ok(());
        };
        let known = self.coordinator.topologies().snapshot();
        let name = input.deployment.as_str().into();
        let row = known.get(&scope).and_then(|of_scope| of_scope.get(&name));
        let Some(row) = row.filter(|row| row.generation == input.generation) else {
            self.give_up(granted, "the deployment of the event was deleted").await;
            return Ok(());
        };
        let Some(topology) = self.version(&scope, &row.version).await? else {
            self.later(granted, "this program cannot read the version in force").await;
            return Ok(());
        };
        let event = input.event;
        let Some((name, role)) = topology.scheduler_of(&event.kind) else {
            self.give_up(granted, "no role of the version in force takes this event").await;
            return Ok(());
        };
        let fresh = Seen::default();
        for seen in iter::once(seen).chain(iter::repeat_n(&fresh, PROPOSALS_MAX - 1)) {
            let turn = self.read_event((&scope, row), &topology, role, &event, seen).await?;
            // An event whose work order exists was processed: a second one is never made (S0-50).
            let changes = scheduler::propose(&topology, name, &turn.read());
            let report = RoleReport {
                claim: Some((granted.key(), succeeded(granted.caller(), &output(&changes)))),
                role: name.to_owned(),
                version: topology.digest().to_owned(),
                event: Some(event.clone()),
                changes,
                objection: None,
            };
            match self.propose(&scope, row, report).await? {
                Proposed::Done => return Ok(()),
                Proposed::Stale(why) => tracing::debug!(event = event.id, %why, "read again"),
                Proposed::Refused(why) => {
                    self.give_up(granted, why.as_str()).await;
                    return Ok(());
                }
                Proposed::NotNow(why) => {
                    self.later(granted, why.as_str()).await;
                    return Ok(());
                }
            }
        }
        self.later(granted, "what the event is about changed whenever it was read").await;
        Ok(())
    }
}

/// What the task of the event ends with: its terminal reason, and the work order that it made (S0-17).
pub(super) fn output(changes: &[Change]) -> serde_json::Value {
    let reason = changes.iter().find_map(|change| match change {
        Change::Process { reason, .. } => Some(reason.as_str()),
        _ => None,
    });
    let order = changes.iter().find_map(|change| match change {
        Change::Order(order) => Some(order),
        _ => None,
    });
    let id = order.map(|order| order.id.as_str());
    json!({"terminalReason": reason, "workOrder": id})
}
