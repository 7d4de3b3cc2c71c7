//! Durable runs in memory: the records of each task, and saved messages.

use std::collections::{BTreeMap, BTreeSet};

use store::RowsAfter;
use store::failure::{Failure, FailureKind};
use store::row::{Spec, TaskKey, TaskRows};
use store::row_size::{self, ByteBudget};
use store::runs::{
    MESSAGES_MAX, MessageChanges, MessageKey, RunLookup, RunRows, SavedMessage, StoredChild,
    StoredSignal, StoredStep,
};
use verdict::plan::limits::STEPS_PER_DECISION;
use verdict::plan::{PlanLoaded, PlanNeed, PlanStep, StepRow};
use verdict::run::limits::SLICE_MAX;
use verdict::run::{Checkpoint, ChildRef, Loaded, Signal, Slice};
use verdict::{Name, Scope, Subject, TaskId, Time};

/// The records of one task.
#[derive(Clone, Debug, Default)]
pub(super) struct RunTables {
    checkpoints: BTreeMap<u32, Checkpoint>,
    children: BTreeMap<Name, StoredChild>,
    signals: BTreeMap<u32, StoredSignal>,
    /// By place.
    steps: BTreeMap<u32, StoredStep>,
}

impl RunTables {
    /// The steps of a plan that is submitted.
    pub(super) fn put_steps(&mut self, steps: Vec<StoredStep>) -> Result<(), Failure> {
        check(self.steps.is_empty() || steps.is_empty(), "steps that were stored before")?;
        self.steps.extend(steps.into_iter().map(|step| (step.place, step)));
        Ok(())
    }

    pub(super) fn write(&mut self, rows: &RunRows<'_>) -> Result<(), Failure> {
        for counted in rows.counted.values() {
            let step = self.steps.values_mut().find(|step| step.key() == counted.key);
            check(step.is_some(), "an upstream of a step that is not stored")?;
            if let Some(step) = step {
                (step.missing, step.blame) = (counted.missing, counted.blame.cloned());
            }
        }
        for checkpoint in &rows.checkpoints {
            let is_known = self.checkpoints.values().any(|known| known.key == checkpoint.key);
            let earlier = self.checkpoints.insert(checkpoint.number, (*checkpoint).clone());
            check(earlier.is_none() && !is_known, "a checkpoint that was recorded before")?;
        }
        for started in &rows.children {
            let earlier = self.children.insert(started.child.key.clone(), started.clone());
            check(earlier.is_none(), "a child that was recorded before")?;
        }
        for ended in &rows.ended {
            let child = self.children.get_mut(ended.key).map(|started| &mut started.child);
            let child = child.filter(|child| child.end.is_none());
            check(child.is_some(), "the end of a child that is not live")?;
            child.into_iter().for_each(|child| child.end = Some(ended.state));
        }
        for (signal, is_taken) in &rows.signals {
            let stored = StoredSignal { signal: (*signal).clone(), is_taken: *is_taken };
            let earlier = self.signals.insert(signal.number, stored);
            check(earlier.is_none(), "a signal that was recorded before")?;
        }
        for number in &rows.taken {
            let pending = self.signals.get_mut(number).filter(|stored| !stored.is_taken);
            check(pending.is_some(), "a signal that is not pending")?;
            pending.into_iter().for_each(|stored| stored.is_taken = true);
        }
        Ok(())
    }

    pub(super) fn load(&self, run: &RunLookup, subject: &Subject) -> Loaded {
        let named = &run.named;
        let keyed = |key: &Name| self.checkpoints.values().find(|it| it.key == *key).cloned();
        let child = |key: &Name| self.children.get(key).map(|started| started.child.clone());
        let mut loaded = Loaded {
            checkpoints: named.keys.iter().filter_map(keyed).collect(),
            children: named.keys.iter().filter_map(child).collect(),
            same_key: named.same_key.as_ref().and_then(|key| self.signal_with(key)),
            ..Loaded::default()
        };
        if named.needs_signals(subject) {
            let pending = self.signals.values().filter(|stored| !stored.is_taken);
            loaded.signals = pending.map(|stored| stored.signal.clone()).collect();
        }
        if let Some(slice) = named.slice_of(subject) {
            (loaded.live, loaded.has_more_live) = self.live_children(slice);
        }
        if let Some(need) = PlanNeed::of(named, subject) {
            let spawned = subject.live().and_then(|it| it.plan_root()).map_or(0, |it| it.spawned);
            loaded.plan = Some(Box::new(self.load_plan(need, spawned)));
        }
        loaded.without_results()
    }

    fn load_plan(&self, need: PlanNeed<'_>, spawned: u32) -> PlanLoaded {
        match need {
            PlanNeed::Ended { key } => {
                let ended = self.steps.values().find(|step| step.key() == key);
                let ended = ended.map(|step| without_upstreams(step.row(spawned)));
                PlanLoaded { ended, ..self.downstreams(key, None, spawned) }
            }
            PlanNeed::Downstreams { of, after } => self.downstreams(of, after, spawned),
            PlanNeed::Unspawned { from } => {
                let next = self.steps.range(from..).take(STEPS_PER_DECISION);
                let unspawned = next.map(|(_, step)| step.row(spawned)).collect();
                PlanLoaded { unspawned, ..PlanLoaded::default() }
            }
        }
    }

    fn downstreams(&self, of: &Name, after: Option<&Name>, spawned: u32) -> PlanLoaded {
        let is_next = |step: &&StoredStep| {
            step.step.upstreams.contains(of) && after.is_none_or(|after| step.key() > after)
        };
        let mut next: Vec<&StoredStep> = self.steps.values().filter(is_next).collect();
        next.sort_by_key(|step| step.key().clone());
        let has_more_downstreams = next.len() > STEPS_PER_DECISION;
        let next = next.into_iter().take(STEPS_PER_DECISION);
        let downstreams = next.map(|step| without_upstreams(step.row(spawned))).collect();
        PlanLoaded { downstreams, has_more_downstreams, ..PlanLoaded::default() }
    }

    /// The queues of the steps of a plan in this scope.
    pub(super) fn step_queues(&self, scope: &Scope) -> impl Iterator<Item = &Name> {
        let submits = self.steps.values().map(|stored| &stored.step.child.submit);
        submits.filter(move |submit| submit.scope == *scope).map(|submit| &submit.queue)
    }

    /// What the steps that a sweep of the root may spawn are created with.
    pub(super) fn step_specs(&self, run: &RunLookup, subject: &Subject) -> Vec<(TaskId, Spec)> {
        let Some(PlanNeed::Unspawned { from }) = PlanNeed::of(&run.named, subject) else {
            return Vec::new();
        };
        let next = self.steps.range(from..).take(STEPS_PER_DECISION);
        next.map(|(_, step)| (step.step.child.submit.id, step.spec.clone())).collect()
    }

    fn signal_with(&self, key: &Name) -> Option<Signal> {
        let stored = self.signals.values().find(|it| it.signal.key.as_ref() == Some(key));
        stored.map(|stored| stored.signal.clone())
    }

    fn live_children(&self, slice: &Slice) -> (Vec<ChildRef>, bool) {
        let all = self.children.values().map(|started| &started.child);
        let live = all.filter(|child| child.end.is_none() && !child.is_detached);
        let next = live.filter(|child| slice.after.as_ref().is_none_or(|after| child.key > *after));
        let refer = |child: &verdict::run::Child| ChildRef { key: child.key.clone(), id: child.id };
        let mut refs: Vec<ChildRef> = next.take(SLICE_MAX + 1).map(refer).collect();
        let has_more = refs.len() > SLICE_MAX;
        refs.truncate(SLICE_MAX);
        (refs, has_more)
    }

    pub(super) fn rows(&self, after: RowsAfter<'_>, limit: usize) -> TaskRows {
        let page = ByteBudget::page;
        match after {
            RowsAfter::Checkpoint(n) => {
                let later = self.checkpoints.values().filter(|it| it.number > n);
                let later = later.take(limit).cloned().collect();
                row_size::take_fitting(later, page(), row_size::checkpoint).into()
            }
            RowsAfter::Child(key) => {
                let later = self.children.values();
                let later = later.filter(|it| key.is_none_or(|key| it.child.key > *key));
                later.take(limit).cloned().collect::<Vec<_>>().into()
            }
            RowsAfter::Started(n) => {
                let mut later: Vec<StoredChild> =
                    self.children.values().filter(|it| it.number > n).cloned().collect();
                later.sort_by_key(|it| it.number);
                later.truncate(limit);
                later.into()
            }
            RowsAfter::Step(place) => {
                let later = self.steps.range(place..).take(limit).map(|(_, step)| step.clone());
                row_size::take_fitting(later.collect(), page(), row_size::step).into()
            }
            RowsAfter::StepKey(key) => {
                let found = self.steps.values().filter(|step| step.key() == key);
                found.cloned().collect::<Vec<_>>().into()
            }
            RowsAfter::Keys(keys) => self.under(&keys[..keys.len().min(limit)]),
            RowsAfter::Signal(n) | RowsAfter::PendingSignal(n) => {
                let is_all = matches!(after, RowsAfter::Signal(_));
                let later = self.signals.values().filter(|it| it.signal.number > n);
                let later = later.filter(|it| is_all || !it.is_taken).take(limit).cloned();
                row_size::take_fitting(later.collect(), page(), row_size::signal).into()
            }
            RowsAfter::Entry(_) | RowsAfter::Attempt(_) | RowsAfter::Refusal(_) => {
                TaskRows::default()
            }
        }
    }

    fn under(&self, keys: &[Name]) -> TaskRows {
        let checkpoints = self.checkpoints.values().filter(|it| keys.contains(&it.key));
        let children = self.children.values().filter(|it| keys.contains(&it.child.key));
        let mut children: Vec<StoredChild> = children.cloned().collect();
        children.sort_by_key(|it| it.number);
        TaskRows { checkpoints: checkpoints.cloned().collect(), children, ..TaskRows::default() }
    }
}

fn without_upstreams(row: StepRow) -> StepRow {
    let step = PlanStep { upstreams: [].into(), ..row.step };
    StepRow { step, ..row }
}

/// Saved messages, or what a batch did to them: `None` is a message that it decided.
pub(super) type Messages = BTreeMap<MessageKey, Option<SavedMessage>>;

/// Messages as a batch sees them.
pub(super) fn visible(
    committed: &BTreeMap<MessageKey, SavedMessage>,
    mine: &Messages,
) -> BTreeMap<MessageKey, SavedMessage> {
    let mut all = committed.clone();
    for (key, message) in mine {
        match message {
            Some(message) => drop(all.insert(key.clone(), message.clone())),
            None => drop(all.remove(key)),
        }
    }
    all
}

/// Those that are not parked, and that no parked message of the same pair precedes.
pub(super) fn unblocked(
    all: &BTreeMap<MessageKey, SavedMessage>,
) -> impl Iterator<Item = (&MessageKey, &SavedMessage)> {
    let mut blocked = BTreeSet::new();
    all.iter().filter(move |(key, message)| {
        let pair = (key.to.id, key.from);
        if message.parked.is_some() {
            blocked.insert(pair);
        }
        !blocked.contains(&pair)
    })
}

pub(super) fn change(
    committed: &BTreeMap<MessageKey, SavedMessage>,
    mine: &mut Messages,
    changes: MessageChanges,
) -> Result<(), Failure> {
    let MessageChanges { saved, decided, deferred, parked } = changes;
    for message in saved {
        check(message.is_spawn() == message.spec.is_some(), "a specification without its message")?;
        let known = visible(committed, mine).contains_key(&message.key());
        check(!known, "a message that was saved before")?;
        mine.insert(message.key(), Some(message));
    }
    for key in decided {
        find(committed, mine, &key)?;
        mine.insert(key, None);
    }
    for deferred in deferred {
        let found = find(committed, mine, &deferred.key)?;
        mine.insert(deferred.key, Some(SavedMessage { due: deferred.due, ..found }));
    }
    for parked in parked {
        let found = find(committed, mine, &parked.key)?;
        mine.insert(parked.key, Some(SavedMessage { parked: Some(parked.reason), ..found }));
    }
    Ok(())
}

fn find(
    committed: &BTreeMap<MessageKey, SavedMessage>,
    mine: &Messages,
    key: &MessageKey,
) -> Result<SavedMessage, Failure> {
    let found = mine.get(key).cloned().unwrap_or_else(|| committed.get(key).cloned());
    found.ok_or_else(|| {
        let kind = FailureKind::Conflict(key.to.id);
        Failure::new(kind, "another writer decided the message first")
    })
}

pub(super) fn of_addressees(
    all: &BTreeMap<MessageKey, SavedMessage>,
    of: &[TaskKey],
    excluded: &BTreeSet<TaskId>,
) -> Vec<Vec<SavedMessage>> {
    let mut left = MESSAGES_MAX;
    let mut read = |to: &TaskKey| {
        let mut found: Vec<SavedMessage> = unblocked(all)
            .filter(|(key, _)| key.to == *to && !excluded.contains(&to.id))
            .map(|(_, message)| message.clone())
            .collect();
        found.truncate(left);
        left -= found.len();
        found
    };
    of.iter().map(&mut read).collect()
}

/// Addressees of messages that are due, earliest first.
pub(super) fn addressees(all: &BTreeMap<MessageKey, SavedMessage>, now: Time) -> Vec<TaskKey> {
    let mut due: BTreeMap<TaskId, (Time, TaskKey)> = BTreeMap::new();
    for (key, message) in unblocked(all).filter(|(_, message)| message.due.has_come(now)) {
        let earliest = due.entry(key.to.id).or_insert_with(|| (message.due, key.to.clone()));
        earliest.0 = earliest.0.min(message.due);
    }
    let mut due: Vec<(Time, TaskKey)> = due.into_values().collect();
    due.sort_by_key(|(at, key)| (*at, key.id));
    due.into_iter().map(|(_, key)| key).collect()
}

/// So many of these addressees: the earliest, and in up to half of the places the first ones of tenants that have none among them.
pub(super) fn in_limit(mut due: Vec<TaskKey>, limit: usize) -> Vec<TaskKey> {
    let rest = due.split_off(limit.min(due.len()));
    let mut known: BTreeSet<Name> = due.iter().map(|key| key.scope.tenant.clone()).collect();
    let is_first = |key: &TaskKey| known.insert(key.scope.tenant.clone());
    let others: Vec<TaskKey> = rest.into_iter().filter(is_first).take(limit / 2).collect();
    due.truncate(limit - others.len());
    due.extend(others);
    due
}

fn check(is_so: bool, what: &str) -> Result<(), Failure> {
    if is_so { Ok(()) } else { Err(Failure::new(FailureKind::Invalid, what)) }
}
