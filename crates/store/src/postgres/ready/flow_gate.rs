//! Passes over locked candidates that do not fit into their flow key, and parks them.
//!
//! The rules decide each grant; this keeps tasks that they would refuse from taking the place of others, now and in later
//! reads.

use std::collections::{BTreeMap, BTreeSet};

use verdict::{Name, TaskId};

use super::SearchState;
use super::candidates::BufferKey;
use super::queue_position::QueuePosition;
use crate::failure::Failure;
use crate::postgres::batch::PostgresBatch;
use crate::row::{FlowRef, TaskWithSpec};

/// A kind of a queue, among the tasks of one key.
type Line = (FlowRef, Name, Name);

impl PostgresBatch<'_> {
    /// Keeps as many locked tasks of each line as slots of their key are free, by priority, then age. If another batch has
    /// the key, none: it may be granting the last slot. Those stay candidates.
    pub(super) async fn gate_flows(&mut self, known: &mut SearchState) -> Result<(), Failure> {
        let lines = lines_of(known.locked.values());
        if lines.is_empty() {
            return Ok(());
        }
        let keys: BTreeSet<FlowRef> = lines.keys().map(|(flow, ..)| flow.clone()).collect();
        self.lock_flows(keys.into_iter().collect()).await?;
        let changes = self.key_changes();
        let mut full = Vec::new();
        for ((flow, ..), mut positions) in lines {
            positions.sort_unstable();
            let has_lock = self.flows.has_lock(&flow);
            let free = if has_lock { self.free_slots(&flow, &changes) } else { 0 };
            for position in positions.into_iter().skip(free) {
                let passed = known.pass_over(position.id());
                full.extend(passed.filter(|_| has_lock).map(|ready| (flow.clone(), ready)));
            }
        }
        self.park(full).await
    }

    async fn park(&mut self, full: Vec<(FlowRef, TaskWithSpec)>) -> Result<(), Failure> {
        let mut stored = Vec::new();
        for (flow, TaskWithSpec { task, .. }) in full {
            match self.pending.contains(task.id) {
                true => self.flows.park_changed(task.id),
                false => stored.push(task.id),
            }
            self.flows.touch(flow);
            let all_kinds = BufferKey::all_kinds(&task.scope, &task.offered_in());
            let position = QueuePosition::new(task.priority, task.id);
            self.writer.shared.memory().candidates.drop_candidate(&all_kinds, position);
        }
        self.park_stored(stored).await
    }
}

fn lines_of<'a>(
    tasks: impl Iterator<Item = &'a TaskWithSpec>,
) -> BTreeMap<Line, Vec<QueuePosition>> {
    let mut lines: BTreeMap<Line, Vec<QueuePosition>> = BTreeMap::new();
    for TaskWithSpec { task, .. } in tasks {
        // One that keeps its slot for life needs no other.
        if let Some(flow) = FlowRef::of(task).filter(|_| !task.holds_for_life()) {
            let line = (flow, task.offered_in().into_owned(), task.kind.clone());
            lines.entry(line).or_default().push(QueuePosition::new(task.priority, task.id));
        }
    }
    lines
}

impl SearchState {
    /// Leaves a locked task out of this call.
    fn pass_over(&mut self, id: TaskId) -> Option<TaskWithSpec> {
        self.gone.insert(id);
        for pending in self.pending.values_mut() {
            pending.retain(|(position, _)| position.id() != id);
        }
        self.locked.remove(&id)
    }
}
