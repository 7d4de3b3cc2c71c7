//! Flow keys in memory: who holds a slot of each key, which tasks are offered to polls, and which are parked.
//!
//! The rules of one key are [`verdict::flow::Slots`]; here is one value for each key that a live task has. Everything is
//! derived from the `live` table and rebuilt from it, so no counter can leak. Only the ready order of
//! [`super::live_index`] is changed by what is returned here: parked tasks are not in it, and cost a poll nothing.

use std::collections::HashMap;

use verdict::flow::{KeyUse, Move, Place, Position, Slots};
use verdict::{Name, Scope, Task, TaskId};

use super::ready_index::KindQueueId;

/// The key of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexedFlow {
    pub(super) scope: Scope,
    pub(super) key: Name,
    pub(super) limit: u32,
}

impl IndexedFlow {
    pub(super) fn of(task: &Task) -> Option<Box<Self>> {
        let flow = task.flow()?;
        let (scope, key) = (task.scope.clone(), flow.name.clone());
        Some(Box::new(Self { scope, key, limit: flow.limit }))
    }
}

type Moves = Vec<Move<KindQueueId>>;

#[derive(Default)]
pub(super) struct FlowIndex {
    scopes: HashMap<Scope, HashMap<Name, Slots<KindQueueId>>>,
}

impl FlowIndex {
    /// What decisions need of a key; `None` if no live task has it.
    pub(super) fn in_use(&self, scope: &Scope, key: &Name) -> Option<KeyUse> {
        Some(self.scopes.get(scope)?.get(key)?.in_use())
    }

    fn slots(&mut self, flow: &IndexedFlow) -> &mut Slots<KindQueueId> {
        self.scopes.entry(flow.scope.clone()).or_default().entry(flow.key.clone()).or_default()
    }

    /// A live task has the key.
    pub(super) fn enter(&mut self, flow: &IndexedFlow) -> Moves {
        self.slots(flow).enter(flow.limit)
    }

    /// A task has the key no more. A key without tasks is forgotten.
    pub(super) fn exit(&mut self, flow: &IndexedFlow) -> Moves {
        let moves = self.slots(flow).exit(flow.limit);
        let Some(keys) = self.scopes.get_mut(&flow.scope) else { return moves };
        if keys.get(&flow.key).is_some_and(Slots::is_unused) {
            keys.remove(&flow.key);
        }
        if keys.is_empty() {
            self.scopes.remove(&flow.scope);
        }
        moves
    }

    /// A task is claimable: it is offered, or parked.
    pub(super) fn join(&mut self, flow: &IndexedFlow, line: KindQueueId, at: Position) -> Moves {
        self.slots(flow).join(line, at)
    }

    /// A task is no longer claimable. Returns where it was.
    pub(super) fn leave(
        &mut self,
        flow: &IndexedFlow,
        line: KindQueueId,
        at: Position,
    ) -> (Option<Place>, Moves) {
        self.slots(flow).leave(line, at)
    }

    pub(super) fn hold(&mut self, flow: &IndexedFlow, task: TaskId) -> Moves {
        self.slots(flow).hold(task)
    }

    pub(super) fn release(&mut self, flow: &IndexedFlow, task: TaskId) -> Moves {
        self.slots(flow).release(task)
    }
}
