//! Checks that no flow key has more holders of slots than its limit.
//!
//! Tasks are read one after the other beside a writer, so that a slot which changed its owner may be seen twice. A key
//! that seems too full is therefore counted again in one snapshot. If two limits met, the larger one counts: a task with
//! the smaller one may have come after the leases.

use std::collections::HashMap;

use super::{Finding, FlawCode, Report};
use crate::browse::Browse;
use crate::failure::Failure;
use crate::row::{FlowFilter, FlowRef, StoredTask};

/// How many slots of each key were seen to be held, and its largest limit.
#[derive(Default)]
pub(super) struct SeenKeys(HashMap<FlowRef, (u64, u32)>);

impl SeenKeys {
    pub(super) fn see(&mut self, found: &StoredTask) {
        let Some(task) = found.subject.live() else { return };
        let (Some(flow), Some(key)) = (FlowRef::of(task), task.flow()) else { return };
        let (held, limit) = self.0.entry(flow).or_default();
        *held += u64::from(task.holds_slot());
        *limit = (*limit).max(key.limit);
    }

    pub(super) async fn check<B: Browse>(
        self,
        browse: &B,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let is_overfull = |(_, (held, limit)): &(FlowRef, (u64, u32))| *held > u64::from(*limit);
        for (FlowRef { scope, key }, (_, limit)) in self.0.into_iter().filter(is_overfull) {
            let filter =
                FlowFilter { scope, key: Some(key.clone()), after: None, limit: 1, holders: 0 };
            let held = browse.flow_keys(&filter).await?.first().map_or(0, |row| row.held);
            if held > u64::from(limit) {
                let what =
                    format!("the flow key `{key}` has {held} slots held, and its limit is {limit}");
                report.findings.push(Finding { task: None, code: FlawCode::Impossible, what });
            }
        }
        Ok(())
    }
}
