//! Effects that the decisions of a batch ask for: each is numbered in its line and saved in the commit of its decision.
//!
//! The lines are loaded and locked when the batch saves. One that another writer has locked makes the batch a conflict: it
//! is decided again, as after a lost race for any other row. That is rare: a task's own effects have a line of their own,
//! which only its deliverer locks.
//!
//! The endpoint that a caller named may have been deleted since. The batch is held to the endpoints that it knows, so an effect
//! is either there before the endpoint is given up with everything that it has, or is given up here.
//!
//! A wait for an effect is saved beside the effect, in the commit of the wait ([`verdict::effect::watch`]).
//!
//! Invariant: an effect is saved exactly if the decision that asked for it is (D1), under the next number of its line (D6).

use std::collections::{BTreeMap, HashMap};

use store::effects::{
    NEWS, OPEN, StoredEffect, StoredLine, StoredWatch, line_key, unique_key, watch_key,
};
use store::objects::UniqueKey;
use store::{Batch, Failure, FailureKind, LoadedObject, Lookup, ObjectChange};
use verdict::effect::decide::{append, append_in_vain};
use verdict::effect::{EffectId, EndpointStatus, Intent, Line, Watch};
use verdict::{Name, Object, ObjectKey, ObjectType, Scope, TaskId, Time};

use super::batch::{Aborted, OpenBatch};
use crate::item::Watched;

/// An intent of a decision, with the run that it belongs to.
pub(super) struct Asked {
    pub(super) intent: Intent,
    pub(super) run: TaskId,
}

/// A wait of a task for one of its effects, that a decision opened.
pub(super) struct AwaitedEffect {
    scope: Scope,
    task: TaskId,
    run: TaskId,
    effect: EffectId,
    item: Name,
    at: Time,
}

impl AwaitedEffect {
    pub(super) fn new(
        (scope, task, run, at): (&Scope, TaskId, TaskId, Time),
        watched: &Watched,
    ) -> Self {
        let Watched { effect, item } = watched.clone();
        Self { scope: scope.clone(), task, run, effect, item, at }
    }

    fn unique_key(&self) -> UniqueKey {
        let (scope, unique_key) = (self.scope.clone(), unique_key(self.effect));
        UniqueKey { scope, object_type: ObjectType::Effect, unique_key }
    }
}

/// Where the effects of a batch stand, and what the watch of each says.
type NewEffects = HashMap<EffectId, (ObjectKey, &'static str)>;

/// A line as this batch has left it.
struct OpenLine {
    line: StoredLine,
    revision: u32,
    /// The run that a new line belongs to.
    run: Option<TaskId>,
    parent: Option<Name>,
}

impl<B: Batch> OpenBatch<'_, B> {
    /// Numbers what decisions asked for since the last call, and adds it to what is saved next.
    pub(super) async fn append_effects(&mut self) -> Result<(), Aborted> {
        let asked = std::mem::take(&mut self.work.asked);
        let new = if asked.is_empty() { NewEffects::new() } else { self.append(asked).await? };
        let awaiting = std::mem::take(&mut self.work.awaiting);
        if awaiting.is_empty() { Ok(()) } else { self.watch(awaiting, &new).await }
    }

    /// Numbers effects, and returns where each of them stands.
    async fn append(&mut self, asked: Vec<Asked>) -> Result<NewEffects, Aborted> {
        let mut new = NewEffects::new();
        let with_key = |asked: Asked| (line_key(&asked.intent.scope, asked.intent.line()), asked);
        let asked: Vec<(ObjectKey, Asked)> = asked.into_iter().map(with_key).collect();
        let mut lines = self.load_lines(&asked).await?;
        let mut changes = Vec::with_capacity(asked.len() * 2 + lines.len());
        let mut at = Time::default();
        for (key, Asked { intent, run }) in asked {
            at = at.max(intent.decided_at);
            let open = lines.get_mut(&key).expect("every line was loaded");
            let (line, effect) = match self.is_registered(&intent) {
                true => append(open.line.line, intent, at),
                false => append_in_vain(open.line.line, intent, at),
            };
            open.line.line = line;
            let (effect, payload) = StoredEffect::new(effect, run);
            let status = if effect.effect.state.is_settled() { NEWS } else { OPEN };
            new.insert(effect.effect.intent.id, (effect.key(), status));
            changes.push(change(effect.object(1), at));
            changes.push(change(payload, at));
        }
        let mut lines: Vec<(ObjectKey, OpenLine)> = lines.into_iter().collect();
        lines.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (key, open) in lines {
            let object = open.line.object(&key.scope, open.run, open.revision + 1);
            let parent = open.parent.or(object.parent);
            changes.push(change(Object { parent, ..object }, at));
        }
        self.work.objects.extend(changes);
        Ok(new)
    }

    /// Whether the endpoint exists by the settings that this commit is held to.
    fn is_registered(&self, intent: &Intent) -> bool {
        let of_scope = self.work.endpoints.get(&intent.scope);
        let endpoint = of_scope.and_then(|it| it.get(&intent.endpoint));
        endpoint.is_some_and(|it| it.endpoint.status != EndpointStatus::Deleted)
    }

    /// Notes who waits for effects. One that is new has no outcome yet, unless its endpoint is gone; whether another one has is
    /// looked at after the commit.
    async fn watch(
        &mut self,
        awaiting: Vec<AwaitedEffect>,
        new: &NewEffects,
    ) -> Result<(), Aborted> {
        let places = self.places(&awaiting, new).await?;
        let keys: Vec<ObjectKey> = places.values().map(watch_key).collect();
        let found = self.batch.look_up(Lookup::objects(&keys)).await?.objects;
        let mut watches: BTreeMap<ObjectKey, LoadedObject> = keys.into_iter().zip(found).collect();
        for waiting in awaiting {
            let Some(place) = places.get(&waiting.effect) else { continue };
            let loaded = watches.get_mut(&watch_key(place)).expect("every watch was loaded");
            let status = new.get(&waiting.effect).map_or(NEWS, |(_, status)| status);
            let object =
                watched(std::mem::replace(loaded, LoadedObject::Absent), &waiting, place, status)?;
            *loaded = LoadedObject::Object(object.clone());
            self.work.objects.push(change(object, waiting.at));
        }
        Ok(())
    }

    /// Where the awaited effects stand. One that does not exist is left out: callers are told before.
    async fn places(
        &mut self,
        awaiting: &[AwaitedEffect],
        new: &NewEffects,
    ) -> Result<BTreeMap<EffectId, ObjectKey>, Aborted> {
        let (known, others): (Vec<&AwaitedEffect>, Vec<&AwaitedEffect>) =
            awaiting.iter().partition(|waiting| new.contains_key(&waiting.effect));
        let known =
            known.into_iter().map(|waiting| (waiting.effect, new[&waiting.effect].0.clone()));
        let mut places: BTreeMap<EffectId, ObjectKey> = known.collect();
        if others.is_empty() {
            return Ok(places);
        }
        let names: Vec<UniqueKey> = others.iter().map(|waiting| waiting.unique_key()).collect();
        let lookup = Lookup { unique_objects: &names, ..Lookup::default() };
        let found = self.batch.look_up(lookup).await?.unique_objects;
        for (waiting, found) in others.into_iter().zip(found) {
            match found {
                LoadedObject::Object(effect) => {
                    places.insert(waiting.effect, effect.key);
                }
                LoadedObject::Absent => {}
                LoadedObject::Locked => return Err(locked(waiting.task).into()),
            }
        }
        Ok(places)
    }

    /// Each line, as it was stored or as its first intent opens it.
    async fn load_lines(
        &mut self,
        asked: &[(ObjectKey, Asked)],
    ) -> Result<HashMap<ObjectKey, OpenLine>, Aborted> {
        let first: BTreeMap<&ObjectKey, &Asked> =
            asked.iter().rev().map(|(key, asked)| (key, asked)).collect();
        let keys: Vec<ObjectKey> = first.keys().map(|key| (*key).clone()).collect();
        let found = self.batch.look_up(Lookup::objects(&keys)).await?.objects;
        let mut lines = HashMap::new();
        for ((key, loaded), asked) in keys.into_iter().zip(found).zip(first.into_values()) {
            lines.insert(key, open_line(loaded, &asked.intent, asked.run)?);
        }
        Ok(lines)
    }
}

fn open_line(loaded: LoadedObject, intent: &Intent, run: TaskId) -> Result<OpenLine, Failure> {
    let Intent { endpoint, aggregate, task, .. } = intent;
    match loaded {
        LoadedObject::Absent => {
            let is_own = aggregate.as_str() == task.to_string();
            let (endpoint, aggregate) = (endpoint.clone(), aggregate.clone());
            let line = StoredLine { endpoint, aggregate, line: Line::default() };
            Ok(OpenLine { line, revision: 0, run: is_own.then_some(run), parent: None })
        }
        LoadedObject::Object(object) => {
            let unreadable = || {
                Failure::new(FailureKind::Invalid, "a stored line of effects cannot be read")
                    .about(*task)
            };
            let line = StoredLine::of(&object).ok_or_else(unreadable)?;
            let (revision, parent) = (object.revision, object.parent);
            Ok(OpenLine { line, revision, run: None, parent })
        }
        LoadedObject::Locked => Err(locked(*task)),
    }
}

fn locked(task: TaskId) -> Failure {
    Failure::new(FailureKind::Conflict(task), "another writer has the line or watch of an effect")
}

/// The watch of an effect with one more waiter.
fn watched(
    loaded: LoadedObject,
    waiting: &AwaitedEffect,
    place: &ObjectKey,
    status: &str,
) -> Result<Object, Failure> {
    let AwaitedEffect { task, run, effect, item, .. } = waiting;
    let (stored, revision) = match loaded {
        LoadedObject::Locked => return Err(locked(*task)),
        LoadedObject::Absent => (StoredWatch { watch: Watch::new(*effect, *task), run: *run }, 0),
        LoadedObject::Object(object) => {
            let unreadable = || {
                Failure::new(FailureKind::Invalid, "a stored watch of an effect cannot be read")
                    .about(*task)
            };
            (StoredWatch::of(&object).ok_or_else(unreadable)?, object.revision)
        }
    };
    let StoredWatch { watch, run } = stored;
    let stored = StoredWatch { watch: watch.with(item.clone()), run };
    Ok(stored.object(place, status, revision + 1))
}

fn change(after: Object, at: Time) -> ObjectChange {
    ObjectChange { after, at, by: None }
}
