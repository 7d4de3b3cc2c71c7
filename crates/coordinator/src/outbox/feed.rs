//! Which effects became ready in this coordinator's commits, for its deliverer, and which watches were marked, for its teller.
//!
//! A hint, like every channel out of a commit: what is lost here is found in the store. Nothing is kept where no deliverer
//! listens.

use std::sync::{Arc, Mutex, MutexGuard};

use store::effects::{NEWS, PENDING, StoredEffect};
use tokio::sync::Notify;
use verdict::effect::EffectId;
use verdict::{Object, ObjectKey, ObjectType, Time};

/// How many candidates are kept between two looks of the deliverer.
const CANDIDATES_MAX: usize = 50_000;

/// An effect that may be sent, or looked at, from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) key: ObjectKey,
    /// What its payload is found by.
    pub(crate) id: EffectId,
    pub(crate) due: Time,
}

impl Candidate {
    /// `None` for an object that time does not change.
    pub(crate) fn of(object: &Object) -> Option<Self> {
        let effect = StoredEffect::of(object)?.effect;
        Some(Self { key: object.key.clone(), id: effect.intent.id, due: effect.state.due()? })
    }
}

#[derive(Clone, Default)]
pub(crate) struct EffectFeed(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Notify,
    marked: Notify,
}

/// Whether an object is of a type that [`EffectFeed::note`] looks at.
pub(crate) fn is_of_feed(object: &Object) -> bool {
    matches!(object.key.object_type, ObjectType::Effect | ObjectType::Watch)
}

#[derive(Default)]
struct Waiting {
    is_followed: bool,
    candidates: Vec<Candidate>,
    /// Candidates were dropped.
    is_overfull: bool,
    /// Watches with something to tell.
    marked: Vec<ObjectKey>,
}

impl EffectFeed {
    /// Adds the effects among these objects that may be sent, and the watches that have something to tell. Call it once they
    /// are durable.
    pub(crate) fn note<'a>(&self, saved: impl Iterator<Item = &'a Object>) {
        let is_wanted = |object: &&Object| match object.key.object_type {
            ObjectType::Effect => object.status.as_str() == PENDING,
            ObjectType::Watch => object.status.as_str() == NEWS,
            _ => false,
        };
        let mut wanted = saved.filter(is_wanted).peekable();
        if wanted.peek().is_none() {
            return;
        }
        let mut waiting = self.lock();
        if !waiting.is_followed {
            return;
        }
        wanted.for_each(|object| waiting.add(object));
        let (has_candidates, has_marked) =
            (!waiting.candidates.is_empty() || waiting.is_overfull, !waiting.marked.is_empty());
        drop(waiting);
        if has_candidates {
            self.0.changed.notify_one();
        }
        if has_marked {
            self.0.marked.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().expect("no code panics while it holds the candidates")
    }
}

impl Waiting {
    fn add(&mut self, object: &Object) {
        if object.key.object_type == ObjectType::Watch {
            // One that is left out is found by the next scan.
            if self.marked.len() < CANDIDATES_MAX {
                self.marked.push(object.key.clone());
            }
        } else if self.candidates.len() == CANDIDATES_MAX {
            self.is_overfull = true;
        } else {
            self.candidates.extend(Candidate::of(object));
        }
    }
}

#[cfg(feature = "http")]
impl EffectFeed {
    /// Keeps candidates from now on.
    pub(crate) fn follow(&self) {
        self.lock().is_followed = true;
    }

    /// Resolves when there may be more candidates, or somebody asks for a look.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Asks the deliverer to look: an endpoint has changed.
    pub(crate) fn nudge(&self) {
        self.0.changed.notify_one();
    }

    /// Resolves when a watch may have something to tell.
    pub(crate) async fn marked(&self) {
        self.0.marked.notified().await;
    }

    pub(crate) fn take_marked(&self) -> Vec<ObjectKey> {
        std::mem::take(&mut self.lock().marked)
    }

    /// Takes all candidates, and whether some were dropped.
    pub(crate) fn take(&self) -> (Vec<Candidate>, bool) {
        let mut waiting = self.lock();
        (std::mem::take(&mut waiting.candidates), std::mem::take(&mut waiting.is_overfull))
    }
}
