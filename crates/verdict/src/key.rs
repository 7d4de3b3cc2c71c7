//! Names under which tasks, objects and runs are looked up, each with its scope.

use std::hash::{Hash, Hasher};

use crate::id::{Digest, Name, Scope, TaskId, Text};
use crate::object::ObjectType;
use crate::task::Task;

/// The key of a task: its id is never used without its scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskKey {
    pub scope: Scope,
    pub id: TaskId,
}

/// Ids are unique across scopes, so the hash uses the id alone; equality compares both.
impl Hash for TaskKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

/// An idempotency key in its scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey {
    pub scope: Scope,
    pub text: Text,
}

impl IdempotencyKey {
    /// The task that has it.
    pub fn task(&self, owner: &KeyOwner) -> TaskKey {
        TaskKey { scope: self.scope.clone(), id: owner.task }
    }
}

/// The last use of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOwner {
    pub task: TaskId,
    pub fingerprint: Digest,
}

/// A flow key in its scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowRef {
    pub scope: Scope,
    pub key: Name,
}

impl FlowRef {
    /// The key of a task, if it has one.
    pub fn of(task: &Task) -> Option<Self> {
        let flow = task.flow()?;
        Some(Self { scope: task.scope.clone(), key: flow.name.clone() })
    }
}

/// A unique key of a type in a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UniqueKey {
    pub scope: Scope,
    pub object_type: ObjectType,
    pub unique_key: Name,
}
