//! Decisions about objects alone: claims and settlements of effects, and changes of endpoints.
//!
//! All calls that wait share one commit, between two batches. Each sees what those before it decided. A call that meets
//! another writer's lock is told so and decides what that means. If the batch fails, its calls are carried one by one, so
//! that none of them fails because of another; the store's refusal is answered to each.
//!
//! No call can touch a task: it is given objects and can change only objects (S2-14, S2-77, S2-79).

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use store::effects::{StoredEndpoint, endpoint_key};
use store::{
    Batch, CommitFailure, Decided, Failure, FailureKind, LoadedObject, Lookup, ObjectChange, Plan,
    Store, Writer,
};
use tokio::sync::oneshot;
use verdict::{Moment, Name, Object, ObjectKey, Scope};

use super::{Carrier, Fatal};
use crate::item::{RequestError, UnavailableReason};
use crate::outbox::Endpoints;

/// How many times a call that is carried alone is decided again because another writer was first.
const CONFLICTS_MAX: usize = 16;

/// Decides on loaded objects. May be called again, on objects that were loaded again.
pub(crate) type DecideObjects = Box<dyn FnMut(&mut ObjectSet, Moment) + Send>;

/// A call that waits, with the reply channel of its caller.
pub(crate) struct ObjectCall {
    /// What it needs, loaded and locked.
    pub(crate) keys: Vec<ObjectKey>,
    pub(crate) decide: DecideObjects,
    pub(crate) reply: oneshot::Sender<Result<(), RequestError>>,
}

impl ObjectCall {
    pub(crate) fn refuse(self, why: RequestError) {
        self.answer(Err(why));
    }

    /// The call of a caller that disconnected is carried all the same.
    fn answer(self, answer: Result<(), RequestError>) {
        drop(self.reply.send(answer));
    }
}

impl fmt::Debug for ObjectCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectCall").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// The objects of one commit, changed call by call.
#[derive(Default)]
pub(crate) struct ObjectSet {
    loaded: HashMap<ObjectKey, LoadedObject>,
    changes: Vec<ObjectChange>,
    at: Option<Moment>,
    /// The endpoints that the commit is held to.
    endpoints: Arc<Endpoints>,
}

#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only calls over HTTP decide"))]
impl ObjectSet {
    /// The object as it is now. `None` if there is none, or another writer has it.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Object> {
        match self.loaded.get(key) {
            Some(LoadedObject::Object(object)) => Some(object),
            Some(LoadedObject::Absent | LoadedObject::Locked) | None => None,
        }
    }

    /// The endpoint as it is now, without its lock: if another writer has changed it by the time of the commit, all of this is
    /// decided again.
    pub(crate) fn endpoint(&self, scope: &Scope, name: &Name) -> Option<Arc<StoredEndpoint>> {
        if let Some(changed) = self.get(&endpoint_key(scope, name)) {
            return StoredEndpoint::of(changed).map(Arc::new);
        }
        self.endpoints.get(scope)?.get(name).cloned()
    }

    /// Whether another writer has it.
    pub(crate) fn is_locked(&self, key: &ObjectKey) -> bool {
        matches!(self.loaded.get(key), Some(LoadedObject::Locked))
    }

    /// Saves an object: the next revision of the one with its key, which must have been asked for.
    pub(crate) fn put(&mut self, object: Object, by: Option<Name>) {
        debug_assert!(self.loaded.contains_key(&object.key), "{:?} was not loaded", object.key);
        let before = self.get(&object.key);
        let parent = before.map_or_else(|| object.parent.clone(), |before| before.parent.clone());
        let revision = before.map_or(0, |before| before.revision) + 1;
        let after = Object { revision, parent, ..object };
        let at = self.at.expect("a set is decided on at a moment").now;
        self.changes.push(ObjectChange { after: after.clone(), at, by });
        self.loaded.insert(after.key.clone(), LoadedObject::Object(after));
    }
}

/// Why calls were not committed.
enum Undone {
    Failed(CommitFailure),
    /// A decision violated an assertion.
    Defect,
}

impl<S: Store> Carrier<S> {
    /// Carries all calls and answers them.
    pub(super) async fn carry_object_calls(
        &mut self,
        mut calls: Vec<ObjectCall>,
    ) -> Result<(), Fatal> {
        if calls.is_empty() {
            return Ok(());
        }
        if calls.len() > 1 && self.commit_object_calls(&mut calls).await.is_ok() {
            calls.into_iter().for_each(|call| call.answer(Ok(())));
            return Ok(());
        }
        for call in calls {
            self.carry_object_call(call).await?;
        }
        Ok(())
    }

    /// Carries a call alone.
    async fn carry_object_call(&mut self, call: ObjectCall) -> Result<(), Fatal> {
        let mut calls = [call];
        let mut undone = None;
        for _ in 0..CONFLICTS_MAX {
            undone = self.commit_object_calls(&mut calls).await.err();
            let is_conflict = |undone: &Undone| match undone {
                Undone::Failed(CommitFailure::RolledBack(failure)) => {
                    matches!(failure.kind, FailureKind::Conflict(_))
                }
                Undone::Failed(CommitFailure::Unknown(_)) | Undone::Defect => false,
            };
            if !undone.as_ref().is_some_and(is_conflict) {
                break;
            }
        }
        let (answer, end) = match undone {
            None => (Ok(()), Ok(())),
            Some(undone) => self.on_undone(undone),
        };
        let [call] = calls;
        call.answer(answer);
        end
    }

    fn on_undone(&mut self, undone: Undone) -> (Result<(), RequestError>, Result<(), Fatal>) {
        let failure = match undone {
            Undone::Defect => {
                self.metrics.failures.inc();
                return (Err(RequestError::Defect), Ok(()));
            }
            Undone::Failed(CommitFailure::Unknown(failure)) => {
                tracing::error!(error = &failure as &dyn std::error::Error, "in doubt");
                let end = match failure.kind {
                    FailureKind::Fatal => Err(Fatal::of(&failure)),
                    _ => Ok(()),
                };
                return (Err(RequestError::Unknown), end);
            }
            Undone::Failed(CommitFailure::RolledBack(failure)) => failure,
        };
        tracing::warn!(error = &failure as &dyn std::error::Error, "not written");
        let error = match failure.kind {
            FailureKind::Invalid => {
                self.metrics.failures.inc();
                RequestError::Defect
            }
            _ => RequestError::Unavailable(self.enter_outage(UnavailableReason::of(&failure))),
        };
        (Err(error), Ok(()))
    }

    /// One commit with all these calls.
    async fn commit_object_calls(&mut self, calls: &mut [ObjectCall]) -> Result<(), Undone> {
        let definite = |failure: Failure| Undone::Failed(CommitFailure::RolledBack(failure));
        let mut keys: Vec<ObjectKey> = calls.iter().flat_map(|call| call.keys.clone()).collect();
        keys.sort();
        keys.dedup();
        let mut batch = self.writer.begin().await.map_err(definite)?;
        batch.prepare(Plan::default()).await.map_err(definite)?;
        let found = batch.look_up(Lookup::objects(&keys)).await.map_err(definite)?.objects;
        let at = batch.moment().await.map_err(definite)?;
        let endpoints = self.endpoints.at(batch.settings_version()).await.map_err(definite)?;
        let loaded = keys.into_iter().zip(found).collect();
        let mut objects = ObjectSet { loaded, changes: Vec::new(), at: Some(at), endpoints };
        for call in calls.iter_mut() {
            let deciding = AssertUnwindSafe(|| (call.decide)(&mut objects, at));
            catch_unwind(deciding).map_err(|_| Undone::Defect)?;
        }
        let changes = objects.changes;
        // Without a change there is no commit, so that looking costs nothing.
        if changes.is_empty() {
            return Ok(());
        }
        let decided = Decided { objects: changes.clone(), ..Decided::default() };
        batch.save(decided).await.map_err(definite)?;
        faultpoint::point!("objects.saved");
        batch.commit().await.map_err(Undone::Failed)?;
        faultpoint::point!("objects.committed");
        self.stall.written(at.now);
        let saved: Vec<Object> = changes.into_iter().map(|change| change.after).collect();
        self.note_objects(&saved);
        Ok(())
    }
}
