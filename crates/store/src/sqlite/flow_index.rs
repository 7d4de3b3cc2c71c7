//! Flow keys in memory: who holds a slot of each key, which tasks are offered to polls, and which are parked.
//!
//! The rules of one key are [`verdict::flow::Slots`]; here is one value for each key that a live task has, or whose rate still
//! counts a start. Everything is derived from the tables `live` and `flow_starts` and rebuilt from them, so no counter can leak.
//! Only the ready order of [`super::live_index`] is changed by what is returned here: parked tasks are not in it, and cost a
//! poll nothing. A key whose rate keeps tasks parked is looked at again at the instant when it opens, and not before.

use std::collections::{BTreeSet, HashMap};

use verdict::flow::{KeyUse, Move, Place, Position, Slots, Terms};
use verdict::{Name, Scope, Span, Task, TaskId, Time};

use super::ready_index::KindQueueId;
use crate::row::FlowRef;

/// The key of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexedFlow {
    pub(super) flow: FlowRef,
    pub(super) terms: Terms,
    /// Whether the task holds a slot.
    pub(super) holds: bool,
    /// Whether it keeps that slot for life: then it needs no other, and is in no line of the key.
    pub(super) keeps: bool,
}

impl IndexedFlow {
    pub(super) fn of(task: &Task) -> Option<Box<Self>> {
        let terms = task.flow()?.terms();
        let (holds, keeps) = (task.holds_slot(), task.holds_for_life());
        Some(Box::new(Self { flow: FlowRef::of(task)?, terms, holds, keeps }))
    }
}

type Moves = Vec<Move<KindQueueId>>;

#[derive(Default)]
struct IndexedKey {
    slots: Slots<KindQueueId>,
    /// Its place in `wakes`.
    wake: Option<Time>,
}

pub(super) struct FlowIndex {
    scopes: HashMap<Scope, HashMap<Name, IndexedKey>>,
    now: Time,
    /// When the rates of keys with parked tasks open.
    wakes: BTreeSet<(Time, FlowRef)>,
    /// When each start is out of its window, and the length of that.
    starts_end: BTreeSet<(Time, FlowRef, Span)>,
}

impl Default for FlowIndex {
    fn default() -> Self {
        let now = Time::from_millis(i64::MIN);
        Self { scopes: HashMap::new(), now, wakes: BTreeSet::new(), starts_end: BTreeSet::new() }
    }
}

impl FlowIndex {
    /// What decisions need of a key; `None` if no live task has it.
    pub(super) fn in_use(&self, scope: &Scope, key: &Name) -> Option<KeyUse> {
        let slots = &self.scopes.get(scope)?.get(key)?.slots;
        (!slots.has_no_task()).then(|| slots.in_use_at(self.now))
    }

    /// Changes a key, as of now, and notes when it opens.
    fn change(
        &mut self,
        flow: &FlowRef,
        change: impl FnOnce(&mut Slots<KindQueueId>) -> Moves,
    ) -> Moves {
        let keys = self.scopes.entry(flow.scope.clone()).or_default();
        let key = keys.entry(flow.key.clone()).or_default();
        let mut moves = key.slots.advance(self.now);
        moves.extend(change(&mut key.slots));
        let wake = key.slots.opens_at();
        if wake != key.wake {
            if let Some(before) = std::mem::replace(&mut key.wake, wake) {
                self.wakes.remove(&(before, flow.clone()));
            }
            self.wakes.extend(wake.map(|wake| (wake, flow.clone())));
        }
        moves
    }

    /// A live task has the key.
    pub(super) fn enter(&mut self, flow: &IndexedFlow) -> Moves {
        self.change(&flow.flow, |slots| slots.enter(flow.terms))
    }

    /// A task has the key no more. A key without tasks is forgotten, once none of its starts counts.
    pub(super) fn exit(&mut self, flow: &IndexedFlow) -> Moves {
        let moves = self.change(&flow.flow, |slots| slots.exit(flow.terms));
        self.forget_unused(&flow.flow);
        moves
    }

    fn forget_unused(&mut self, flow: &FlowRef) {
        let Some(keys) = self.scopes.get_mut(&flow.scope) else { return };
        if keys.get(&flow.key).is_some_and(|key| key.slots.is_unused()) {
            keys.remove(&flow.key);
        }
        if keys.is_empty() {
            self.scopes.remove(&flow.scope);
        }
    }

    /// A task is claimable: it is offered, or parked.
    pub(super) fn join(&mut self, flow: &IndexedFlow, line: KindQueueId, at: Position) -> Moves {
        self.change(&flow.flow, |slots| slots.join(line, at))
    }

    /// A task is no longer claimable. Returns where it was.
    pub(super) fn leave(
        &mut self,
        flow: &IndexedFlow,
        line: KindQueueId,
        at: Position,
    ) -> (Option<Place>, Moves) {
        let mut place = None;
        let moves = self.change(&flow.flow, |slots| {
            let (was, moves) = slots.leave(line, at);
            place = was;
            moves
        });
        (place, moves)
    }

    pub(super) fn hold(&mut self, flow: &IndexedFlow, task: TaskId) -> Moves {
        self.change(&flow.flow, |slots| slots.hold(task))
    }

    pub(super) fn release(&mut self, flow: &IndexedFlow, task: TaskId) -> Moves {
        self.change(&flow.flow, |slots| slots.release(task))
    }

    /// A task with the key was granted, and its start counts until then.
    pub(super) fn start(&mut self, flow: &FlowRef, at: Time, until: Time) -> Moves {
        let moves = self.change(flow, |slots| slots.start(at));
        self.starts_end.insert((until, flow.clone(), until.since(at)));
        moves
    }

    /// A start was rolled back.
    pub(super) fn take_back(&mut self, flow: &FlowRef, at: Time) -> Moves {
        let moves = self.change(flow, |slots| slots.take_back(at));
        self.forget_unused(flow);
        moves
    }

    /// Time has passed.
    pub(super) fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        while self.starts_end.first().is_some_and(|(until, ..)| until.has_come(now))
            && let Some((_, flow, per)) = self.starts_end.pop_first()
        {
            let keys = self.scopes.get_mut(&flow.scope);
            if let Some(key) = keys.and_then(|keys| keys.get_mut(&flow.key))
                && key.slots.has_no_task()
            {
                key.slots.advance(self.now);
                key.slots.forget_starts(per);
                self.forget_unused(&flow);
            }
        }
    }

    /// The next key that opened by now: since when, and which of its tasks are offered.
    pub(super) fn next_opened(&mut self) -> Option<(Time, Moves)> {
        let (at, flow) = self.wakes.first().filter(|(at, _)| at.has_come(self.now)).cloned()?;
        Some((at, self.change(&flow, |_| Vec::new())))
    }

    /// When the next key opens.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.wakes.first().map(|(at, _)| *at)
    }
}
