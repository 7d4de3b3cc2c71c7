//! Saved messages: what one task's decision asks of another, and could not be decided in the same batch.
//!
//! A message is saved in the commit of its sender's decision, and deleted in the commit that decides it. The messages of
//! one addressee are read in the order of [`MessageKey`], under the addressee's lock. The delete is guarded: a message
//! that another writer has decided meanwhile is a conflict.
//!
//! A parked message is one that cannot be decided. It stays, with the reason, and so do later messages of the same pair of
//! sender and addressee: a lookup returns none of them. Every other pair goes on.

use std::cmp::Ordering;

use verdict::plan::PlanMessage;
use verdict::run::{Body, Message, MessageNumber};
use verdict::{Scope, TaskId, Text, Time};

use crate::row::{Spec, TaskKey};

/// Maximum saved messages that one lookup returns: as many as one batch decides.
pub const MESSAGES_MAX: usize = 1_000;

/// The key of a message, in its order: addressee, sender, the sender's entry, the place in it. Ids are unique across
/// scopes, so the scope decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MessageKey {
    pub to: TaskKey,
    pub from: TaskId,
    pub number: MessageNumber,
}

/// A message as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedMessage {
    /// Of sender and addressee.
    pub scope: Scope,
    pub message: Message,
    /// What the addressee is created with. Present exactly if the message spawns it: the input of a child is stored in
    /// its parent's commit, under the child's id, and moves to the child's own row.
    pub spec: Option<Spec>,
    /// When to decide it: the time of its saving, or later if it was deferred.
    pub due: Time,
    /// Why it cannot be decided.
    pub parked: Option<Text>,
}

/// A message that was refused for now: it came before the message that creates its addressee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredMessage {
    pub key: MessageKey,
    pub due: Time,
}

/// A message that cannot be decided, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedMessage {
    pub key: MessageKey,
    pub reason: Text,
}

/// What a batch did to saved messages. Saved first, then decided: a message may be both in one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageChanges {
    pub saved: Vec<SavedMessage>,
    /// To delete: this batch decided them.
    pub decided: Vec<MessageKey>,
    pub deferred: Vec<DeferredMessage>,
    pub parked: Vec<ParkedMessage>,
}

impl Ord for MessageKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |key: &Self| (key.to.id, key.from, key.number);
        place(self).cmp(&place(other)).then_with(|| self.to.scope.cmp(&other.to.scope))
    }
}

impl PartialOrd for MessageKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl SavedMessage {
    /// Whether the message creates its addressee, and so has what it is created with.
    pub fn is_spawn(&self) -> bool {
        matches!(self.message.body, Body::Spawn { .. } | Body::Plan(PlanMessage::Spawn { .. }))
    }

    pub fn key(&self) -> MessageKey {
        let Message { from, number, to, .. } = self.message;
        MessageKey { to: TaskKey { scope: self.scope.clone(), id: to }, from, number }
    }
}

impl MessageChanges {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
