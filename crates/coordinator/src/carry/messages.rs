//! Messages between tasks: what a decision about one task asks of another.
//!
//! A message is decided in the batch of its sender if its addressee can be locked, and saved with the sender's commit
//! otherwise. Saved messages, also those of other coordinators, are found when they are due and decided in a later batch.
//! This file decides nothing: a message is an ordinary request about its addressee.
//!
//! Invariants:
//! - every message of a batch is decided or saved in the commit of its sender;
//! - saved messages of a task are decided before a new one to the same task, so messages of one sender stay in order;
//! - a batch decides at most [`MESSAGES_MAX`] messages, and none once it has told many subscribers of ends, so that a large
//!   fan-out never delays other work for long. It loads few addressees at once where ends may be told, and more while there is room;
//! - saved messages are decided in turns of their tenants, so that the fan-out of one delays the others by its share;
//! - a message that the rules refuse is parked: it stays, with its reason, and blocks only its own pair of tasks.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use store::runs::MESSAGES_MAX;
use store::{
    Batch, DeferredMessage, Failure, LockWait, Lookup, MessageKey, ParkedMessage, RunLookup,
    SavedMessage, Spec, TaskKey,
};
use verdict::plan::PlanMessage;
use verdict::run::limits::SLICE_MAX;
use verdict::run::{Body, Lineage, Loaded, Message, RunRefusal, RunRequest};
use verdict::{Answer, Moment, Name, Refusal, Request, Scope, Span, Task, TaskId, Text, Time};

use super::batch::{Aborted, OpenBatch, catch_task_panic};

/// Tasks with a slice that one batch sweeps: closing ones cancel a slice of children, and roots of plans spawn or tell a slice
/// of steps. All of these messages fit into the batch.
const SLICES_PER_BATCH_MAX: usize = MESSAGES_MAX / SLICE_MAX;

/// Addressees that are loaded at first where endpoints may be told of their ends: two ends may fill a batch. What is loaded in
/// vain is a small part of what so many effects cost.
const ADDRESSEES_FIRST: usize = 16;

/// How many times as many are loaded next, if these have left room. Messages without a subscriber are loaded in few steps.
const ADDRESSEES_GROWTH: usize = 4;

/// When a message is tried again that came before the one that creates its addressee. That one is saved too, and a batch
/// that decides it is about to follow.
const EARLY_RETRY: Span = Span::from_secs(1);

/// A message on its way.
pub(super) struct Letter {
    scope: Scope,
    message: Message,
    /// What the addressee is created with.
    spec: Option<Spec>,
    /// Whether the store has it.
    is_saved: bool,
}

impl Letter {
    /// A message of a decision of this batch. `specs` has the submissions of the children that the decision spawned.
    pub(super) fn new(scope: &Scope, message: &Message, specs: &mut HashMap<TaskId, Spec>) -> Self {
        let spec = match &message.body {
            Body::Spawn { .. } | Body::Plan(PlanMessage::Spawn { .. }) => {
                let spec = specs.remove(&message.to);
                Some(spec.expect("whoever spawns a task has its submission"))
            }
            Body::ChildEnded { .. } | Body::Cancel(_) | Body::Signal(_) | Body::Plan(_) => None,
        };
        Self { scope: scope.clone(), message: message.clone(), spec, is_saved: false }
    }

    fn saved(saved: SavedMessage) -> Self {
        let SavedMessage { scope, message, spec, due: _, parked: _ } = saved;
        Self { scope, message, spec, is_saved: true }
    }

    /// Whether the message creates a separate run.
    pub(super) fn starts_run(&self) -> bool {
        let Body::Spawn { lineage, .. } = &self.message.body else { return false };
        matches!(lineage, Lineage::Detached { .. })
    }

    /// Whether the message creates a child of its sender.
    pub(super) fn starts_child(&self) -> bool {
        self.spec.is_some() && !self.starts_run()
    }

    /// Whether the addressee is created by the message and cannot exist before: its id is new.
    fn is_birth(&self) -> bool {
        !self.is_saved && self.spec.is_some()
    }

    fn to(&self) -> TaskKey {
        TaskKey { scope: self.scope.clone(), id: self.message.to }
    }

    fn key(&self) -> MessageKey {
        MessageKey { to: self.to(), from: self.message.from, number: self.message.number }
    }

    fn request(&self) -> Request {
        Request::Run(Box::new(RunRequest::Message(self.message.clone())))
    }

    /// What its decision needs. A message that creates its addressee needs nothing, and neither does one to a step.
    fn lookup(&self) -> Option<RunLookup> {
        match self.message.body {
            // A step knows what it is told without its records.
            Body::Spawn { .. } | Body::Plan(_) => None,
            _ => RunLookup::of(&self.to(), &self.request()),
        }
    }

    fn into_saved(self, due: verdict::Time) -> SavedMessage {
        let Self { scope, message, spec, is_saved: _ } = self;
        SavedMessage { scope, message, spec, due, parked: None }
    }
}

impl<B: Batch> OpenBatch<'_, B> {
    /// Decides the messages of the decisions so far, and those that follow from them, as many as fit into the batch. The
    /// rest is saved.
    pub(super) async fn deliver_messages(&mut self, at: Moment) -> Result<(), Aborted> {
        while !self.work.outbox.is_empty() {
            let letters = std::mem::take(&mut self.work.outbox);
            let (births, others): (Vec<Letter>, Vec<Letter>) =
                letters.into_iter().partition(Letter::is_birth);
            for letter in births {
                self.deliver(letter, at)?;
            }
            if !others.is_empty() {
                self.deliver_to_stored(others, at).await?;
            }
        }
        Ok(())
    }

    /// Decides messages to tasks that exist, after the messages that the store has for the same tasks. Addressees for which there
    /// is no room are not loaded.
    async fn deliver_to_stored(&mut self, new: Vec<Letter>, at: Moment) -> Result<(), Aborted> {
        // What this batch has decided must be saved, so that the store loads it.
        self.save().await?;
        let mut by_addressee: BTreeMap<TaskKey, Vec<Letter>> = BTreeMap::new();
        for letter in new {
            by_addressee.entry(letter.to()).or_default().push(letter);
        }
        let mut count = self.addressees_at_first();
        while !by_addressee.is_empty() && self.has_room_for_message() {
            let next = by_addressee.keys().nth(count).cloned();
            let rest = next.map(|key| by_addressee.split_off(&key)).unwrap_or_default();
            self.deliver_to(by_addressee, at).await?;
            by_addressee = rest;
            count *= ADDRESSEES_GROWTH;
        }
        by_addressee.into_values().flatten().for_each(|letter| self.leave(letter, at));
        Ok(())
    }

    async fn deliver_to(
        &mut self,
        letters: BTreeMap<TaskKey, Vec<Letter>>,
        at: Moment,
    ) -> Result<(), Aborted> {
        for key in letters.keys() {
            self.work.forget_records(key);
        }
        let mut saved = self.load_addressees(&letters).await?;
        self.load_records(saved.values().flatten()).await?;
        for (key, letters) in letters {
            let before = saved_first(&mut saved, &key);
            for letter in before.into_iter().chain(letters) {
                self.deliver(letter, at)?;
            }
        }
        Ok(())
    }

    /// How many addressees are loaded at once, before it is known what their messages tell subscribers.
    fn addressees_at_first(&self) -> usize {
        if self.work.endpoints.is_empty() { MESSAGES_MAX } else { ADDRESSEES_FIRST }
    }

    /// Locks the addressees, and loads what their new messages need and which saved ones they have.
    async fn load_addressees(
        &mut self,
        letters: &BTreeMap<TaskKey, Vec<Letter>>,
    ) -> Result<BTreeMap<TaskKey, Vec<SavedMessage>>, Aborted> {
        let is_new = |key: &&TaskKey| !self.work.is_loaded(key) && !self.work.is_locked(key);
        let tasks: Vec<TaskKey> = letters.keys().filter(is_new).cloned().collect();
        let messages: Vec<TaskKey> = letters.keys().cloned().collect();
        let runs: Vec<RunLookup> = letters.values().flatten().filter_map(Letter::lookup).collect();
        self.load_tasks_of(tasks, messages, runs).await
    }

    async fn load_tasks_of(
        &mut self,
        tasks: Vec<TaskKey>,
        messages: Vec<TaskKey>,
        runs: Vec<RunLookup>,
    ) -> Result<BTreeMap<TaskKey, Vec<SavedMessage>>, Aborted> {
        let lookup = Lookup {
            tasks: &tasks,
            messages: &messages,
            runs: &runs,
            // Whoever waits for an addressee while it holds its sender could wait for ever.
            lock_wait: LockWait::Skip,
            ..Lookup::default()
        };
        let found = self.batch.look_up(lookup).await?;
        for (key, loaded) in tasks.into_iter().zip(found.tasks) {
            self.put(key, loaded);
        }
        for (lookup, loaded) in runs.into_iter().zip(found.runs) {
            self.work.put_records(lookup.task, loaded);
        }
        Ok(messages
            .into_iter()
            .zip(found.messages)
            .filter(|(_, saved)| !saved.is_empty())
            .collect())
    }

    /// Loads what saved messages need.
    async fn load_records(
        &mut self,
        saved: impl Iterator<Item = &SavedMessage>,
    ) -> Result<(), Aborted> {
        let lookup = |saved: &SavedMessage| Letter::saved(saved.clone()).lookup();
        let runs: Vec<RunLookup> = saved.filter_map(lookup).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let found = self.batch.look_up(Lookup::runs(&runs)).await?;
        for (lookup, loaded) in runs.into_iter().zip(found.runs) {
            self.work.put_records(lookup.task, loaded);
        }
        Ok(())
    }

    /// Finds saved messages that are due and decides them, before everything else that is to be delivered. It asks for more while
    /// there are more and the batch has room.
    pub(super) async fn find_saved_messages(&mut self, at: Moment) -> Result<(), Aborted> {
        let (mut tried, mut count) = (BTreeSet::new(), self.addressees_at_first());
        while self.has_room_for_message() {
            let room = MESSAGES_MAX - self.messages_tried;
            let most = count.min(room);
            let found = self.batch.addressees(at.now, most).await?;
            let is_whole = found.len() < most;
            let new: Vec<TaskKey> = found.into_iter().filter(|key| tried.insert(key.id)).collect();
            if !new.is_empty() {
                self.deliver_saved(in_turns(new, at.now), at).await?;
            }
            if is_whole {
                return Ok(());
            }
            if most == room {
                break;
            }
            // What was decided is not found again.
            self.save().await?;
            count *= ADDRESSEES_GROWTH;
        }
        self.result.more_due = true;
        Ok(())
    }

    async fn deliver_saved(&mut self, addressees: Vec<TaskKey>, at: Moment) -> Result<(), Aborted> {
        self.save().await?;
        self.background_done.extend(addressees.iter().map(|key| key.id));
        for key in &addressees {
            self.work.forget_records(key);
        }
        let is_new = |key: &&TaskKey| !self.work.is_loaded(key) && !self.work.is_locked(key);
        let tasks: Vec<TaskKey> = addressees.iter().filter(is_new).cloned().collect();
        let mut saved = self.load_tasks_of(tasks, addressees.clone(), Vec::new()).await?;
        self.load_records(saved.values().flatten()).await?;
        for key in &addressees {
            for letter in saved_first(&mut saved, key) {
                self.deliver(letter, at)?;
            }
        }
        Ok(())
    }

    /// Decides one message, or leaves it to a later batch.
    fn deliver(&mut self, letter: Letter, at: Moment) -> Result<(), Failure> {
        let key = letter.to();
        if !self.has_room_for_message() || self.work.is_locked(&key) {
            self.leave(letter, at);
            return Ok(());
        }
        self.messages_tried += 1;
        if let Some(spec) =
            letter.spec.clone().filter(|_| letter.is_birth() || self.work.is_absent(&key))
        {
            self.work.put_new(key.clone(), spec);
        }
        let work = &mut self.work;
        let request = Cow::Owned(letter.request());
        match catch_task_panic(key.id, || work.decide(&key, request, at))? {
            Answer::Refused(refusal) => self.refuse_message(letter, &refusal, at),
            _ => {
                self.work.batch_metrics.messages_decided += 1;
                if letter.is_saved {
                    self.work.messages.decided.push(letter.key());
                }
            }
        }
        Ok(())
    }

    fn has_room_for_message(&self) -> bool {
        self.messages_tried < MESSAGES_MAX && self.has_room_for_effects()
    }

    /// Saves a message for a later batch. One that is saved already stays as it is.
    fn leave(&mut self, letter: Letter, at: Moment) {
        self.result.more_due |= !self.has_room_for_message();
        if !letter.is_saved {
            self.work.batch_metrics.messages_saved += 1;
            self.work.messages.saved.push(letter.into_saved(at.now));
        }
    }

    /// A message that came too early is tried again. Any other refusal is a defect of the sender, so the message is kept
    /// for people to look at.
    fn refuse_message(&mut self, letter: Letter, refusal: &Refusal, at: Moment) {
        let key = letter.key();
        let due = at.now.plus(EARLY_RETRY);
        let is_early = *refusal == Refusal::Run(RunRefusal::MessageEarly);
        match (is_early, letter.is_saved) {
            (true, true) => self.work.messages.deferred.push(DeferredMessage { key, due }),
            (true, false) => self.work.messages.saved.push(letter.into_saved(due)),
            (false, is_saved) => {
                tracing::error!(
                    from = %letter.message.from,
                    to = %letter.message.to,
                    code = refusal.name(),
                    "a message between two tasks was refused and is parked; other tasks continue (`tenure doctor`)"
                );
                self.work.batch_metrics.messages_parked += 1;
                if !is_saved {
                    self.work.messages.saved.push(letter.into_saved(at.now));
                }
                let reason = Text::from(refusal.name());
                self.work.messages.parked.push(ParkedMessage { key, reason });
            }
        }
    }

    /// Adds due tasks to the batch, with what the sweep of each needs. Tasks with slices beyond the batch's room for
    /// messages are left to the next one.
    pub(super) async fn load_due(
        &mut self,
        due: Vec<Task>,
    ) -> Result<Vec<(TaskKey, Option<Loaded>)>, Aborted> {
        let mut keys: Vec<TaskKey> = due.into_iter().map(|task| self.work.adopt(task)).collect();
        let mut slices = 0;
        let work = &self.work;
        keys.retain(|key| {
            let has_slice = work.task(key).is_some_and(has_slice);
            slices += usize::from(has_slice);
            !has_slice || slices <= SLICES_PER_BATCH_MAX
        });
        self.result.more_due |= slices > SLICES_PER_BATCH_MAX;
        let is_durable = |key: &TaskKey| work.task(key).is_some_and(|task| task.run.is_some());
        if !keys.iter().any(is_durable) {
            return Ok(keys.into_iter().map(|key| (key, None)).collect());
        }
        self.load_sweeps(keys).await
    }

    async fn load_sweeps(
        &mut self,
        keys: Vec<TaskKey>,
    ) -> Result<Vec<(TaskKey, Option<Loaded>)>, Aborted> {
        self.save().await?;
        let runs: Vec<RunLookup> =
            keys.iter().filter_map(|key| RunLookup::sweep(self.work.task(key)?)).collect();
        let found = if runs.is_empty() {
            Vec::new()
        } else {
            let found = self.batch.look_up(Lookup::runs(&runs)).await?;
            self.work.specs.extend(found.step_specs);
            found.runs
        };
        let mut found: HashMap<TaskKey, Loaded> =
            runs.into_iter().map(|lookup| lookup.task).zip(found).collect();
        Ok(keys
            .into_iter()
            .map(|key| {
                let loaded = found.remove(&key).unwrap_or_default();
                (key, Some(loaded))
            })
            .collect())
    }
}

/// Whether the sweep of a task sends a slice of messages.
fn has_slice(task: &Task) -> bool {
    task.closing().is_some() || task.plan_root().is_some_and(|root| root.due.is_some())
}

/// The saved messages of an addressee, which come first.
fn saved_first(saved: &mut BTreeMap<TaskKey, Vec<SavedMessage>>, key: &TaskKey) -> Vec<Letter> {
    saved.remove(key).into_iter().flatten().map(Letter::saved).collect()
}

/// The first addressee of each tenant, then the second of each, and so on. Which tenant begins changes with the time, because
/// the first ones may fill the batch.
fn in_turns(addressees: Vec<TaskKey>, now: Time) -> Vec<TaskKey> {
    let mut counts: BTreeMap<Name, usize> = BTreeMap::new();
    let mut turns: Vec<(usize, TaskKey)> = Vec::with_capacity(addressees.len());
    for key in addressees {
        let count = counts.entry(key.scope.tenant.clone()).or_default();
        *count += 1;
        turns.push((*count, key));
    }
    let tenants: Vec<Name> = counts.into_keys().collect();
    let begin = now.millis().unsigned_abs() as usize;
    let place = |tenant: &Name| {
        let place = tenants.binary_search(tenant).unwrap_or_default();
        (place + begin % tenants.len()) % tenants.len()
    };
    turns.sort_by_key(|(count, key)| (*count, place(&key.scope.tenant)));
    turns.into_iter().map(|(_, key)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(tenant: &'static str, ids: std::ops::Range<u128>) -> Vec<TaskKey> {
        let key = |id| TaskKey { scope: Scope::new(tenant, "main"), id: TaskId::from_u128(id) };
        ids.map(key).collect()
    }

    #[test]
    fn tenants_take_turns_and_each_begins_at_some_time() {
        let found = [keys("crowd", 0..4), keys("small", 4..6)].concat();
        let ids = |now: i64| -> Vec<u128> {
            let turns = in_turns(found.clone(), Time::from_millis(now));
            turns.iter().map(|key| key.id.as_u128()).collect()
        };
        assert_eq!(ids(0), [0, 4, 1, 5, 2, 3]);
        assert_eq!(ids(1), [4, 0, 5, 1, 2, 3]);
        assert!(in_turns(Vec::new(), Time::from_millis(1)).is_empty());
    }
}
