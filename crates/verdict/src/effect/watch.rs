//! Who waits for what becomes of an effect.
//!
//! A durable function may wait for one of its own effects. The delivery knows nothing of that: it decides about effects
//! alone. A watch stands beside the effect, and when the effect has an outcome, its task is told by a signal with a name that
//! no client can send. So a wait for an effect is a wait for a signal, replay needs nothing new, and a delivery still has no
//! way to a run (S2-14).
//!
//! Invariants:
//! - a waiter is told once, under a key that is its own: telling again changes nothing;
//! - a watch that has somebody to tell is looked at after every change of its effect and after every new waiter, so it does
//!   not matter whether the delivery ends before, during or after the call that waits.

use crate::id::{Digest, Json, Name, TaskId};
use crate::run::SignalCall;
use crate::time::Time;

use super::intent::EffectId;
use super::state::{DeadReason, Effect, EffectState};

/// Waiters that are remembered for one effect. A wait names an effect once, so only the newest can be waiting still.
pub const WAITERS_MAX: usize = 64;

/// What became of an effect, as far as a function that waits for it is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The receiver has it.
    Delivered,
    /// It was given up. A person may still redrive it.
    Failed(DeadReason),
    /// It was sent, and nobody knows whether it arrived.
    Unknown,
}

impl Outcome {
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Delivered => "DELIVERED",
            Outcome::Failed(_) => "FAILED",
            Outcome::Unknown => "UNKNOWN",
        }
    }

    /// The outcome, and since when it is so; `None` while tries are left.
    pub const fn of(state: &EffectState) -> Option<(Outcome, Time)> {
        match *state {
            EffectState::Delivered { at } => Some((Outcome::Delivered, at)),
            EffectState::Unknown { since } => Some((Outcome::Unknown, since)),
            EffectState::Dead { at, reason, .. } => Some((Outcome::Failed(reason), at)),
            EffectState::Queued | EffectState::Pending { .. } | EffectState::InFlight(_) => None,
        }
    }
}

/// The waits for one effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watch {
    pub effect: EffectId,
    /// The task that declared it: nobody else can wait for it.
    pub task: TaskId,
    /// The oldest first.
    pub waiters: Vec<Waiter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The key of the wait's item.
    pub item: Name,
    pub is_told: bool,
}

impl Watch {
    pub fn new(effect: EffectId, task: TaskId) -> Self {
        Self { effect, task, waiters: Vec::new() }
    }

    /// The same with one more waiter. One that is known stays as it is.
    #[must_use]
    pub fn with(mut self, item: Name) -> Self {
        if !self.waiters.iter().any(|waiter| waiter.item == item) {
            self.waiters.push(Waiter { item, is_told: false });
        }
        let beyond = self.waiters.len().saturating_sub(WAITERS_MAX);
        self.waiters.drain(..beyond);
        self
    }

    /// Whether somebody is still to be told.
    pub fn is_waiting(&self) -> bool {
        self.waiters.iter().any(|waiter| !waiter.is_told)
    }

    /// What is to be said to the task now, each with the item that it is for.
    pub fn news(&self, effect: &Effect) -> Vec<(Name, SignalCall)> {
        let Some((outcome, at)) = Outcome::of(&effect.state) else { return Vec::new() };
        let untold = self.waiters.iter().filter(|waiter| !waiter.is_told);
        untold.map(|waiter| (waiter.item.clone(), self.signal(&waiter.item, outcome, at))).collect()
    }

    /// The same after these items were told.
    #[must_use]
    pub fn told(mut self, items: &[Name]) -> Self {
        for waiter in &mut self.waiters {
            waiter.is_told |= items.contains(&waiter.item);
        }
        self
    }

    fn signal(&self, item: &Name, outcome: Outcome, at: Time) -> SignalCall {
        let (name, payload) = (signal_name(item), told(self.effect, outcome, at));
        let said = [name.as_str().as_bytes(), payload.as_str().as_bytes()];
        let digest = Digest::of(&said);
        SignalCall { key: Some(name.clone()), name, payload: Some(payload), digest }
    }
}

/// The name of the signal that tells a task what became of an effect. Clients cannot send it: their names have no `#`.
pub fn signal_name(item: &Name) -> Name {
    Name::from(format!("#effect:{item}"))
}

/// `{"outcome":…,"effectId":…,"atMs":…}`, with a reason if it was given up. Nothing of it needs an escape.
fn told(effect: EffectId, outcome: Outcome, at: Time) -> Json {
    let reason = match outcome {
        Outcome::Failed(reason) => format!(r#","reason":"{}""#, reason.name()),
        Outcome::Delivered | Outcome::Unknown => String::new(),
    };
    let (outcome, at) = (outcome.name(), at.millis());
    Json::from(format!(r#"{{"outcome":"{outcome}","effectId":"{effect}","atMs":{at}{reason}}}"#))
}
