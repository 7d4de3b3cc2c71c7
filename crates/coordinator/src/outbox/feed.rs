//! Which effects became ready in this coordinator's commits, for its deliverer.
//!
//! A hint, like every channel out of a commit: what is lost here is found in the store. Nothing is kept where no deliverer
//! listens.

use std::sync::{Arc, Mutex, MutexGuard};

use store::effects::{PENDING, StoredEffect};
use tokio::sync::Notify;
use verdict::{Object, ObjectKey, ObjectType, Time};

/// How many candidates are kept between two looks of the deliverer.
const CANDIDATES_MAX: usize = 50_000;

/// An effect that may be sent, or looked at, from a time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) key: ObjectKey,
    pub(crate) due: Time,
}

impl Candidate {
    /// `None` for an object that time does not change.
    pub(crate) fn of(object: &Object) -> Option<Self> {
        let due = StoredEffect::of(object)?.effect.state.due()?;
        Some(Self { key: object.key.clone(), due })
    }
}

#[derive(Clone, Default)]
pub(crate) struct EffectFeed(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    is_followed: bool,
    candidates: Vec<Candidate>,
    /// Candidates were dropped.
    is_overfull: bool,
}

impl EffectFeed {
    /// Adds the effects among these objects that may be sent. Call it once they are durable.
    pub(crate) fn note<'a>(&self, saved: impl Iterator<Item = &'a Object>) {
        let is_ready = |object: &&Object| {
            object.key.object_type == ObjectType::Effect && object.status.as_str() == PENDING
        };
        let mut ready = saved.filter(is_ready).peekable();
        if ready.peek().is_none() {
            return;
        }
        let mut waiting = self.lock();
        if !waiting.is_followed {
            return;
        }
        for candidate in ready.filter_map(Candidate::of) {
            if waiting.candidates.len() == CANDIDATES_MAX {
                waiting.is_overfull = true;
                break;
            }
            waiting.candidates.push(candidate);
        }
        drop(waiting);
        self.0.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().expect("no code panics while it holds the candidates")
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

    /// Takes all candidates, and whether some were dropped.
    pub(crate) fn take(&self) -> (Vec<Candidate>, bool) {
        let mut waiting = self.lock();
        (std::mem::take(&mut waiting.candidates), std::mem::take(&mut waiting.is_overfull))
    }
}
