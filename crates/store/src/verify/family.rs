//! What one task asked of another: each message is saved, or its addressee shows that it was decided.
//!
//! A message follows from its sender's history and is stored nowhere else once it is decided, so it is looked for where
//! it must have left a trace: a child that was asked for exists, and a child that has ended is recorded by its parent.

use verdict::run::{Child, MessageNumber};
use verdict::{Subject, TaskId};

use super::flaw::{Flaw, FlawCode};
use super::fold::Replay;
use crate::browse::Browse;
use crate::failure::Failure;
use crate::row::{StoredTask, TaskKey};
use crate::runs::MessageKey;

/// The first message of a pair.
const FIRST: MessageNumber = MessageNumber { entry: 0, index: 0 };

/// What is missing. A child may move on while it is looked at, so what is missing is looked for twice.
pub(super) async fn check<B: Browse>(
    browse: &B,
    found: &StoredTask,
    replay: &Replay,
) -> Result<Vec<Flaw>, Failure> {
    let mut wrong = Vec::new();
    for child in replay.family() {
        let mut missing = missing(browse, found, child).await?;
        if missing.is_some() {
            missing = self::missing(browse, found, child).await?;
        }
        wrong.extend(missing.map(|what| FlawCode::ChildMissing.flaw(what)));
    }
    Ok(wrong)
}

async fn missing<B: Browse>(
    browse: &B,
    found: &StoredTask,
    child: &Child,
) -> Result<Option<String>, Failure> {
    let parent = found.key();
    let key = TaskKey { scope: parent.scope.clone(), id: child.id };
    let is_open = !child.is_detached && child.end.is_none();
    Ok(match browse.find(&key).await?.map(|stored| stored.subject) {
        // A detached child is a run of its own, and retention may have deleted it.
        None if child.is_detached => None,
        None if is_saved(browse, &key, parent.id).await? => None,
        None => Some(format!("its child {} was asked for and does not exist", child.key)),
        Some(Subject::Done(_)) if is_open && !is_saved(browse, &parent, child.id).await? => {
            Some(format!("its child {} has ended and it was not told", child.key))
        }
        Some(_) => None,
    })
}

/// Whether a message of this sender to this task is saved.
async fn is_saved<B: Browse>(browse: &B, to: &TaskKey, from: TaskId) -> Result<bool, Failure> {
    let before = MessageKey { to: to.clone(), from, number: FIRST };
    let next = browse.saved_messages(Some(&before), 1).await?;
    Ok(next.first().is_some_and(|saved| saved.message.to == to.id && saved.message.from == from))
}
