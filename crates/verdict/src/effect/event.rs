//! What the outbox may remember: changes of one effect and of its line. No event here names a task's state.

use super::claim::{Claim, Sent};
use super::line::Line;
use super::state::{DeadReason, Effect, EffectState};
use crate::time::Time;

/// An effect, its line, and the effect right behind it, which becomes the head if the line moves on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    pub line: Line,
    pub effect: Effect,
    /// The effect with the number `effect.number + 1`, if the line has it.
    pub next: Option<Effect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EffectEvent {
    Claimed(Claim),
    /// A try is over, and another one follows.
    Rescheduled {
        sent: Option<Sent>,
        due: Time,
        counts: bool,
    },
    Delivered {
        sent: Option<Sent>,
        at: Time,
    },
    Lost {
        since: Time,
    },
    Died {
        sent: Option<Sent>,
        reason: DeadReason,
        at: Time,
    },
    /// A person, or time, gives it new tries.
    Redriven {
        due: Time,
    },
    /// The line goes on behind the effect, at this time.
    Passed {
        at: Time,
    },
    /// The receiver is gone: its endpoint is to be disabled. The endpoint's own rules do that.
    EndpointGone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectVerdict {
    Decided(Vec<EffectEvent>),
    Refused(EffectRefusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EffectRefusal {
    /// Not due, not the head, or the endpoint is disabled.
    NotReady,
    /// Another claim has been made since, or this one was settled.
    StaleClaim,
    /// The state does not allow what was asked for.
    WrongState,
}

impl Standing {
    /// The same after these events.
    #[must_use]
    pub fn settle(mut self, events: &[EffectEvent]) -> Self {
        events.iter().for_each(|event| self.apply(*event));
        self
    }

    fn apply(&mut self, event: EffectEvent) {
        let effect = &mut self.effect;
        // What a person decides is no try.
        let tried = u32::from(matches!(effect.state, EffectState::InFlight(_)));
        match event {
            EffectEvent::Claimed(claim) => {
                effect.fence = claim.fence;
                effect.state = EffectState::InFlight(claim);
            }
            EffectEvent::Rescheduled { due, counts, .. } => {
                effect.tries += u32::from(counts);
                effect.state = EffectState::Pending { due };
            }
            EffectEvent::Delivered { at, .. } => {
                effect.tries += tried;
                effect.state = EffectState::Delivered { at };
            }
            EffectEvent::Lost { since } => {
                effect.tries += tried;
                effect.state = EffectState::Unknown { since };
            }
            EffectEvent::Died { reason, at, .. } => {
                effect.tries += tried;
                effect.state = EffectState::Dead { at, reason, is_passed: false };
            }
            EffectEvent::Redriven { due } => {
                effect.tries = 0;
                effect.state = EffectState::Pending { due };
            }
            EffectEvent::Passed { at } => self.pass(at),
            EffectEvent::EndpointGone => {}
        }
    }

    fn pass(&mut self, at: Time) {
        self.line.settled = self.effect.number;
        match &mut self.effect.state {
            EffectState::Delivered { .. } => self.line.delivered = self.effect.number,
            EffectState::Dead { is_passed, .. } => *is_passed = true,
            state => unreachable!("a line does not move on behind {state:?}"),
        }
        if let Some(next) = &mut self.next {
            next.state = EffectState::Pending { due: at };
        }
    }
}
