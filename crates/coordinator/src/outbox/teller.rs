//! The loop that tells tasks what became of the effects that they wait for.
//!
//! A delivery decides about effects alone and cannot name a task. Where somebody waits, the commit that gives an effect its
//! outcome marks the watch beside it, and so does the commit of a new wait. From then on this loop asks the task to take a
//! signal, which is a request like any other, and then notes that it was told.
//!
//! Whoever dies in between leaves a marked watch. It is found by the next scan and told again under the same key, which
//! changes nothing. Any number of coordinators may do this at once.
//!
//! Tenants take turns. What could not be told is tried again after everything else was tried once.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use store::effects::{NEWS, OPEN, StoredEffect, StoredWatch, TOLD, watched_key};
use store::{Browse, Failure, ObjectFilter, TaskKey};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use verdict::run::{RunRequest, SignalCall};
use verdict::{Answer, Moment, Name, ObjectKey, ObjectType, Refusal, Request};

use super::deliverer::{SCAN_ALONE, SCAN_SHARED};
use crate::carry::ObjectSet;
use crate::coordinator::Coordinator;
use crate::item::{Item, Reply, RequestError};
use crate::tenant_turns::TenantTurns;

/// Watches that are looked at in one commit.
const LOOK_MAX: usize = 256;

/// Watches that wait to be told again, before what is new is looked at again.
const MARKED_MAX: usize = 4_096;

/// The pause before something that could not be done is tried again.
const AGAIN: Duration = Duration::from_millis(100);

pub(crate) struct Teller {
    coordinator: Coordinator,
    marked: Marked,
    scan_at: Instant,
    /// Where the next scan goes on, if the last one did not come to the end.
    scan_after: Option<ObjectKey>,
}

/// Watches to look at, each once.
#[derive(Default)]
struct Marked {
    keys: HashSet<ObjectKey>,
    turns: TenantTurns<ObjectKey>,
}

impl Marked {
    fn extend(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        for key in keys {
            if self.keys.insert(key.clone()) {
                self.turns.push(&key.scope.tenant.clone(), key);
            }
        }
    }

    /// Takes out what one commit looks at.
    fn take(&mut self) -> Vec<ObjectKey> {
        let taken: Vec<ObjectKey> =
            std::iter::from_fn(|| self.turns.pop()).take(LOOK_MAX).collect();
        for key in &taken {
            self.keys.remove(key);
        }
        taken
    }
}

/// What is to be said to one task because of one watch.
struct Letter {
    watch: ObjectKey,
    to: TaskKey,
    item: Name,
    signal: SignalCall,
}

/// What a look at watches found.
#[derive(Default)]
struct Found {
    letters: Vec<Letter>,
    /// Those that another writer has.
    locked: Vec<ObjectKey>,
}

impl Teller {
    pub(crate) fn new(coordinator: Coordinator) -> Self {
        let scan_at = tokio::time::Instant::now();
        Self { coordinator, marked: Marked::default(), scan_at, scan_after: None }
    }

    /// Tells until `closing` is cancelled.
    pub(crate) async fn run(mut self, closing: CancellationToken) {
        let feed = self.coordinator.effect_feed().clone();
        while !closing.is_cancelled() {
            self.marked.extend(feed.take_marked());
            self.scan_if_due().await;
            let is_done = self.tell().await;
            let wake = if is_done { self.scan_at } else { tokio::time::Instant::now() + AGAIN };
            tokio::select! {
                biased;
                () = closing.cancelled() => {}
                () = feed.marked() => {}
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    async fn scan_if_due(&mut self) {
        if self.scan_at > tokio::time::Instant::now() {
            return;
        }
        let is_shared = self.coordinator.store().status().writers > 1;
        self.scan_at =
            tokio::time::Instant::now() + if is_shared { SCAN_SHARED } else { SCAN_ALONE };
        match self.scan().await {
            Ok(found) => self.marked.extend(found),
            Err(failure) => tracing::warn!(error = %failure, "cannot look for effects to tell of"),
        }
    }

    /// The next watches that are marked. Where there are more, the next look follows at once: those that cannot be told now keep
    /// none behind them waiting.
    async fn scan(&mut self) -> Result<Vec<ObjectKey>, Failure> {
        let filter = ObjectFilter {
            object_type: Some(ObjectType::Watch),
            status: Some(NEWS.into()),
            after: self.scan_after.take(),
            limit: LOOK_MAX,
            ..ObjectFilter::default()
        };
        let found = self.coordinator.browse().objects(&filter).await?;
        if let Some(last) = found.last().filter(|_| found.len() == LOOK_MAX) {
            self.scan_after = Some(last.key.clone());
            self.scan_at = tokio::time::Instant::now();
        }
        Ok(found.into_iter().map(|watch| watch.key).collect())
    }

    /// Tells what there is to tell, each once. Returns whether all of it was told.
    async fn tell(&mut self) -> bool {
        let mut again = Vec::new();
        while again.len() < MARKED_MAX {
            let keys = self.marked.take();
            if keys.is_empty() {
                break;
            }
            match self.tell_these(keys.clone()).await {
                Ok(left) => again.extend(left),
                Err(error) => {
                    tracing::debug!(%error, "cannot tell of effects now");
                    again.extend(keys);
                    break;
                }
            }
        }
        let is_done = again.is_empty();
        self.marked.extend(again);
        is_done
    }

    /// Returns what has to be told again.
    async fn tell_these(
        &self,
        keys: Vec<ObjectKey>,
    ) -> Result<impl Iterator<Item = ObjectKey> + use<>, RequestError> {
        let found = look(&self.coordinator, keys).await?;
        let told = self.send(&found.letters).await;
        let failed = failed(&found.letters, &told);
        if !told.is_empty() {
            note_told(&self.coordinator, told).await?;
        }
        Ok(found.locked.into_iter().chain(failed))
    }

    /// Sends every letter, and returns those that need not be sent again.
    async fn send(&self, letters: &[Letter]) -> Vec<(ObjectKey, Name)> {
        if letters.is_empty() {
            return Vec::new();
        }
        let item = |letter: &Letter| {
            let request = Request::Run(Box::new(RunRequest::Signal(letter.signal.clone())));
            Item::asking(letter.to.clone(), request)
        };
        let replies = self.coordinator.ask(letters.iter().map(item).collect()).await;
        let sent = letters.iter().zip(replies).filter(|(_, reply)| is_over(reply));
        sent.map(|(letter, _)| (letter.watch.clone(), letter.item.clone())).collect()
    }
}

/// Letters that have to be sent again.
fn failed(letters: &[Letter], told: &[(ObjectKey, Name)]) -> Vec<ObjectKey> {
    let is_told = |letter: &&Letter| {
        told.iter().any(|(watch, item)| *watch == letter.watch && *item == letter.item)
    };
    letters.iter().filter(|letter| !is_told(letter)).map(|letter| letter.watch.clone()).collect()
}

/// Whether nothing more is to be said: the task has it, or has no use for it any more. A task that has no room for it now may
/// have some later.
fn is_over(reply: &Reply) -> bool {
    match reply {
        Err(_) => false,
        Ok(answered) => match &answered.answer {
            Answer::Refused(refusal) => matches!(
                refusal,
                Refusal::RunAlreadyTerminal { .. }
                    | Refusal::TaskNotFound
                    | Refusal::KeyReused { .. }
            ),
            _ => true,
        },
    }
}

/// Reads watches with their effects. One whose effect has no outcome yet is no longer marked.
async fn look(coordinator: &Coordinator, watches: Vec<ObjectKey>) -> Result<Found, RequestError> {
    let loaded = watches.iter().flat_map(|watch| [watch.clone(), watched_key(watch)]).collect();
    let look = move |objects: &mut ObjectSet, _: Moment| {
        let mut found = Found::default();
        watches.iter().for_each(|watch| look_at(objects, watch, &mut found));
        found
    };
    coordinator.decide_objects(loaded, look).await
}

fn look_at(objects: &mut ObjectSet, key: &ObjectKey, found: &mut Found) {
    let place = watched_key(key);
    if objects.is_locked(key) || objects.is_locked(&place) {
        found.locked.push(key.clone());
        return;
    }
    let stored = objects.get(key).filter(|object| object.status.as_str() == NEWS);
    let Some(stored) = stored.and_then(StoredWatch::of) else { return };
    let Some(effect) = objects.get(&place).and_then(StoredEffect::of) else { return };
    let news = stored.watch.news(&effect.effect);
    if news.is_empty() {
        let status = if stored.watch.is_waiting() { OPEN } else { TOLD };
        objects.put(stored.object(&place, status, 1), None);
        return;
    }
    let to = TaskKey { scope: key.scope.clone(), id: stored.watch.task };
    let letter = |(item, signal)| Letter { watch: key.clone(), to: to.clone(), item, signal };
    found.letters.extend(news.into_iter().map(letter));
}

/// Notes who was told. Somebody may have begun to wait meanwhile: then the watch stays marked.
async fn note_told(
    coordinator: &Coordinator,
    told: Vec<(ObjectKey, Name)>,
) -> Result<(), RequestError> {
    let keys: BTreeSet<ObjectKey> = told.iter().map(|(watch, _)| watch.clone()).collect();
    let loaded = keys.iter().cloned().collect();
    let note = move |objects: &mut ObjectSet, _: Moment| {
        for key in &keys {
            let items: Vec<Name> =
                told.iter().filter(|(of, _)| of == key).map(|(_, item)| item.clone()).collect();
            let Some(StoredWatch { watch, run }) = objects.get(key).and_then(StoredWatch::of)
            else {
                continue;
            };
            let stored = StoredWatch { watch: watch.told(&items), run };
            let status = if stored.watch.is_waiting() { NEWS } else { TOLD };
            objects.put(stored.object(&watched_key(key), status, 1), None);
        }
    };
    coordinator.decide_objects(loaded, note).await
}
