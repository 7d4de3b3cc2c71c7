//! Every decision about an effect after it was asked for.

use super::claim::{CLAIM, Claim, Sent};
use super::event::{EffectEvent, EffectRefusal, EffectVerdict, Standing};
use super::intent::Intent;
use super::line::Line;
use super::state::{DeadReason, Effect, EffectState};
use super::terms::{EffectTerms, OnDead};
use crate::time::Time;

/// Owns the delivery of effects (S2-13). It can make events of effects and nothing else: no function of this module takes
/// or returns a task, and the owners of transitions of tasks are types that it cannot construct.
///
/// Nobody else is its owner, and its module is the owner of nothing else:
///
/// ```compile_fail
/// let owner = verdict::effect::decide::Outbox(());
/// ```
///
/// ```compile_fail
/// let runner = verdict::decide::report::Runner(());
/// ```
pub struct Outbox(());

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EffectRequest {
    /// A sender wants to make the next try.
    Claim,
    /// A sender says what came of the try that it claimed with this fence.
    Settle { fence: u64, sent: Sent },
    /// Time has passed: the claim may have run out.
    Sweep,
    /// The sender that claimed with this fence is known to be dead: no other process can write to the store.
    Orphaned { fence: u64 },
    /// A person found out what became of an unknown effect.
    Reconcile(Reconciled),
    /// A person wants more tries for an effect that was given up.
    Redrive,
    /// A person lets the line go on behind an effect that was given up.
    Release,
    /// The endpoint does not exist any more.
    Abandon,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reconciled {
    Arrived,
    NotArrived,
}

/// A decision asks for an effect: it is the newest of its line.
pub fn append(line: Line, intent: Intent, now: Time) -> (Line, Effect) {
    let number = line.last + 1;
    let line = Line { last: number, ..line };
    let state = match line.head() {
        Some(head) if head == number => EffectState::Pending { due: now },
        _ => EffectState::Queued,
    };
    (line, Effect { intent, number, tries: 0, fence: 0, state })
}

/// The same where the endpoint is not registered any more: the effect is given up as soon as it is asked for. One behind others is
/// given up in its turn, as they are.
pub fn append_in_vain(line: Line, intent: Intent, now: Time) -> (Line, Effect) {
    let (line, effect) = append(line, intent, now);
    let standing = Standing { line, effect, next: None };
    let terms = EffectTerms { is_enabled: false, is_registered: false, ..EffectTerms::default() };
    match decide(&standing, &terms, EffectRequest::Abandon, now) {
        EffectVerdict::Decided(events) => {
            let Standing { line, effect, .. } = standing.settle(&events);
            (line, effect)
        }
        EffectVerdict::Refused(_) => (standing.line, standing.effect),
    }
}

/// Decides about one effect. The standing stays as it is if the request is refused.
pub fn decide(
    standing: &Standing,
    terms: &EffectTerms,
    request: EffectRequest,
    now: Time,
) -> EffectVerdict {
    let decision = Decision { _owner: Outbox(()), standing, terms, now };
    let decided = match request {
        EffectRequest::Claim => decision.claim(),
        EffectRequest::Settle { fence, sent } => decision.settle(fence, sent),
        EffectRequest::Sweep => decision.sweep(),
        EffectRequest::Orphaned { fence } => decision.orphaned(fence),
        EffectRequest::Reconcile(found) => decision.reconcile(found),
        EffectRequest::Redrive => decision.redrive(),
        EffectRequest::Release => decision.release(),
        EffectRequest::Abandon => decision.abandon(),
    };
    match decided {
        Ok(events) => EffectVerdict::Decided(events),
        Err(refusal) => EffectVerdict::Refused(refusal),
    }
}

type Decided = Result<Vec<EffectEvent>, EffectRefusal>;

struct Decision<'a> {
    _owner: Outbox,
    standing: &'a Standing,
    terms: &'a EffectTerms,
    now: Time,
}

impl Decision<'_> {
    fn effect(&self) -> &Effect {
        &self.standing.effect
    }

    fn is_head(&self) -> bool {
        self.standing.line.head() == Some(self.effect().number)
    }

    fn claim(&self) -> Decided {
        let EffectState::Pending { due } = self.effect().state else {
            return Err(EffectRefusal::NotReady);
        };
        // An effect that was passed and then redriven is sent although the line has gone on: a person asked for it.
        let is_behind = self.effect().number <= self.standing.line.settled;
        if !(self.is_head() || is_behind) || !due.has_come(self.now) || !self.terms.is_enabled {
            return Err(EffectRefusal::NotReady);
        }
        let claim = Claim { fence: self.effect().fence + 1, until: self.now.plus(CLAIM) };
        Ok(vec![EffectEvent::Claimed(claim)])
    }

    fn settle(&self, fence: u64, sent: Sent) -> Decided {
        match self.effect().state {
            EffectState::InFlight(claim) if claim.fence == fence => {
                Ok(self.after(Some(sent), sent))
            }
            _ => Err(EffectRefusal::StaleClaim),
        }
    }

    /// A claim that ran out: its sender died, and the request may have been sent.
    fn sweep(&self) -> Decided {
        match self.effect().state {
            EffectState::InFlight(claim) if claim.until.has_come(self.now) => {
                Ok(self.after(None, Sent::Unanswered))
            }
            _ => Err(EffectRefusal::NotReady),
        }
    }

    /// As for a claim that ran out. The next try needs no pause: it is not the receiver that failed.
    fn orphaned(&self, fence: u64) -> Decided {
        match self.effect().state {
            EffectState::InFlight(claim) if claim.fence == fence => {
                let mut events = self.after(None, Sent::Unanswered);
                for event in &mut events {
                    if let EffectEvent::Rescheduled { due, .. } = event {
                        *due = self.now;
                    }
                }
                Ok(events)
            }
            _ => Err(EffectRefusal::StaleClaim),
        }
    }

    /// What follows a try.
    fn after(&self, sent: Option<Sent>, known: Sent) -> Vec<EffectEvent> {
        if known == Sent::Untried {
            return vec![EffectEvent::Rescheduled { sent, due: self.now, counts: false }];
        }
        if known.is_delivered() {
            return self.passing(EffectEvent::Delivered { sent, at: self.now });
        }
        if known.is_gone() {
            return [vec![EffectEvent::EndpointGone], self.die(sent, DeadReason::Gone)].concat();
        }
        if known == Sent::Unanswered && !self.terms.is_idempotent {
            return vec![EffectEvent::Lost { since: self.now }];
        }
        let tries = self.effect().tries + 1;
        if tries >= self.terms.tries_max {
            return self.die(sent, DeadReason::TriesExhausted);
        }
        let pause = self.terms.pause(self.effect().intent.id, tries, known.retry_after());
        vec![EffectEvent::Rescheduled { sent, due: self.now.plus(pause), counts: true }]
    }

    fn die(&self, sent: Option<Sent>, reason: DeadReason) -> Vec<EffectEvent> {
        let died = EffectEvent::Died { sent, reason, at: self.now };
        match (self.terms.on_dead, reason) {
            (OnDead::Skip, _) | (_, DeadReason::EndpointDeleted) => self.passing(died),
            (OnDead::Block, DeadReason::TriesExhausted | DeadReason::Gone) => vec![died],
        }
    }

    /// The event, and the line goes on if the effect was its head.
    fn passing(&self, event: EffectEvent) -> Vec<EffectEvent> {
        let passed = self.is_head().then_some(EffectEvent::Passed { at: self.now });
        [event].into_iter().chain(passed).collect()
    }

    fn reconcile(&self, found: Reconciled) -> Decided {
        match (self.effect().state, found) {
            (EffectState::Unknown { .. }, Reconciled::Arrived) => {
                Ok(self.passing(EffectEvent::Delivered { sent: None, at: self.now }))
            }
            (EffectState::Unknown { .. }, Reconciled::NotArrived) if self.terms.is_registered => {
                Ok(vec![EffectEvent::Redriven { due: self.now }])
            }
            _ => Err(EffectRefusal::WrongState),
        }
    }

    fn redrive(&self) -> Decided {
        match self.effect().state {
            EffectState::Dead { .. } if self.terms.is_registered => {
                Ok(vec![EffectEvent::Redriven { due: self.now }])
            }
            _ => Err(EffectRefusal::WrongState),
        }
    }

    fn release(&self) -> Decided {
        match self.effect().state {
            EffectState::Dead { is_passed: false, .. } if self.is_head() => {
                Ok(vec![EffectEvent::Passed { at: self.now }])
            }
            _ => Err(EffectRefusal::WrongState),
        }
    }

    /// Nothing is sent to an endpoint that is deleted. A dead effect that blocks lets its line go on.
    fn abandon(&self) -> Decided {
        match self.effect().state {
            EffectState::Pending { .. }
            | EffectState::InFlight(_)
            | EffectState::Unknown { .. } => Ok(self.die(None, DeadReason::EndpointDeleted)),
            EffectState::Dead { is_passed: false, .. } => self.release(),
            EffectState::Queued | EffectState::Delivered { .. } | EffectState::Dead { .. } => {
                Err(EffectRefusal::WrongState)
            }
        }
    }
}
