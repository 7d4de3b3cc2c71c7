//! Effects that the decisions of a batch ask for: each is numbered in its line and saved in the commit of its decision.
//!
//! The lines are loaded and locked when the batch saves. One that another writer has locked makes the batch a conflict: it
//! is decided again, as after a lost race for any other row. That is rare: a task's own effects have a line of their own,
//! which only its deliverer locks.
//!
//! Invariant: an effect is saved exactly if the decision that asked for it is (D1), under the next number of its line (D6).

use std::collections::{BTreeMap, HashMap};

use store::effects::{StoredEffect, StoredLine, line_key};
use store::{Batch, Failure, FailureKind, LoadedObject, Lookup, ObjectChange};
use verdict::effect::{Intent, Line, append};
use verdict::{Name, Object, ObjectKey, TaskId, Time};

use super::batch::{Aborted, OpenBatch};

/// An intent of a decision, with the run that it belongs to.
pub(super) struct Asked {
    pub(super) intent: Intent,
    pub(super) run: TaskId,
}

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
        if asked.is_empty() {
            return Ok(());
        }
        let with_key = |asked: Asked| (line_key(&asked.intent.scope, asked.intent.line()), asked);
        let asked: Vec<(ObjectKey, Asked)> = asked.into_iter().map(with_key).collect();
        let mut lines = self.load_lines(&asked).await?;
        let mut changes = Vec::with_capacity(asked.len() * 2 + lines.len());
        let mut at = Time::default();
        for (key, Asked { intent, run }) in asked {
            at = at.max(intent.decided_at);
            let open = lines.get_mut(&key).expect("every line was loaded");
            let (line, effect) = append(open.line.line, intent, at);
            open.line.line = line;
            let (effect, payload) = StoredEffect::new(effect, run);
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
        Ok(())
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
        LoadedObject::Locked => {
            let what = "another writer has the line of an effect";
            Err(Failure::new(FailureKind::Conflict(*task), what))
        }
    }
}

fn change(after: Object, at: Time) -> ObjectChange {
    ObjectChange { after, at, by: None }
}
