//! An effect and the states it passes through.
//!
//! ```text
//! queued ─► pending ─► in flight ─► delivered
//!              ▲ ▲         ├──────► unknown ─► delivered, or pending again (a person found out)
//!              │ └─────────┤
//!              └───────────┴──────► dead ─► pending again (redriven)
//! ```

use super::claim::Claim;
use super::intent::Intent;
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Effect {
    pub intent: Intent,
    /// Its place in its line, from 1.
    pub number: u64,
    /// Tries since it was asked for or redriven. They count towards the limit.
    pub tries: u32,
    /// How often it was claimed in all: the last fence.
    pub fence: u64,
    pub state: EffectState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EffectState {
    /// Behind the head of its line.
    Queued,
    /// The head, to be sent when it is due.
    Pending {
        due: Time,
    },
    InFlight(Claim),
    /// The receiver has it, as far as it says, or as a person says.
    Delivered {
        at: Time,
    },
    /// Sent, and nobody knows whether it arrived.
    Unknown {
        since: Time,
    },
    Dead {
        at: Time,
        reason: DeadReason,
        /// Whether the line went on without it.
        is_passed: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadReason {
    TriesExhausted,
    /// The receiver said that it is gone for ever.
    Gone,
    EndpointDeleted,
}

impl DeadReason {
    /// The word for it, for receivers of answers and for functions.
    pub const fn name(self) -> &'static str {
        match self {
            DeadReason::TriesExhausted => "tries_exhausted",
            DeadReason::Gone => "gone",
            DeadReason::EndpointDeleted => "endpoint_deleted",
        }
    }
}

impl EffectState {
    /// When time changes it.
    pub const fn due(&self) -> Option<Time> {
        match self {
            EffectState::Pending { due } => Some(*due),
            EffectState::InFlight(claim) => Some(claim.until),
            EffectState::Queued
            | EffectState::Delivered { .. }
            | EffectState::Unknown { .. }
            | EffectState::Dead { .. } => None,
        }
    }

    /// Whether nothing more is to be done about it, unless a person asks.
    pub const fn is_settled(&self) -> bool {
        matches!(self, EffectState::Delivered { .. } | EffectState::Dead { .. })
    }
}
