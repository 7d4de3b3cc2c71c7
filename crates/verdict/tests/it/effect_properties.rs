//! Whatever happens to deliveries, the receiver sees one line in order (D2, D4, D6, D7, S2-76, W-8).

use std::collections::BTreeMap;

use proptest::prelude::*;
use verdict::Time;
use verdict::effect::claim::CLAIM;
use verdict::effect::decide::append;
use verdict::effect::{
    Effect, EffectRequest, EffectState, EffectTerms, EffectVerdict, Line, OnDead, Reconciled, Sent,
    Standing, decide,
};

use crate::effects::intent;

/// What happens next, to the effect with this number (modulo how many there are).
#[derive(Clone, Copy, Debug)]
enum Step {
    Append,
    Claim(u64),
    Answer(u64, Sent),
    /// The sender of an older claim comes late.
    Late(u64, Sent),
    Expire(u64),
    Reconcile(u64, Reconciled),
    Redrive(u64),
    Release(u64),
    Wait,
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        3 => Just(Sent::Status { code: 200, retry_after: None }),
        2 => Just(Sent::Status { code: 500, retry_after: None }),
        1 => Just(Sent::Unreached),
        1 => Just(Sent::Unanswered),
        1 => Just(Sent::Untried),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let number = 0u64..8;
    let found = prop_oneof![Just(Reconciled::Arrived), Just(Reconciled::NotArrived)];
    prop_oneof![
        2 => Just(Step::Append),
        5 => number.clone().prop_map(Step::Claim),
        5 => (number.clone(), sent()).prop_map(|(n, sent)| Step::Answer(n, sent)),
        1 => (number.clone(), sent()).prop_map(|(n, sent)| Step::Late(n, sent)),
        1 => number.clone().prop_map(Step::Expire),
        1 => (number.clone(), found).prop_map(|(n, found)| Step::Reconcile(n, found)),
        1 => number.clone().prop_map(Step::Redrive),
        1 => number.prop_map(Step::Release),
        3 => Just(Step::Wait),
    ]
}

struct World {
    line: Line,
    effects: BTreeMap<u64, Effect>,
    terms: EffectTerms,
    now: Time,
    /// The numbers in the order of their first claims: what a receiver may see.
    first_seen: Vec<u64>,
}

impl World {
    fn apply(&mut self, step: Step) {
        match step {
            Step::Append => {
                let (line, effect) = append(self.line, intent(self.line.last + 1), self.now);
                self.line = line;
                self.effects.insert(effect.number, effect);
            }
            Step::Wait => self.now = Time::from_millis(self.now.millis() + 7_200_000),
            Step::Claim(n) => self.ask(n, |_| EffectRequest::Claim),
            Step::Answer(n, sent) => {
                self.ask(n, |effect| EffectRequest::Settle { fence: effect.fence, sent });
            }
            Step::Late(n, sent) => self.ask(n, |effect| {
                let fence = effect.fence.saturating_sub(1);
                EffectRequest::Settle { fence, sent }
            }),
            Step::Expire(n) => {
                self.now = self.now.plus(CLAIM);
                self.ask(n, |_| EffectRequest::Sweep);
            }
            Step::Reconcile(n, found) => self.ask(n, |_| EffectRequest::Reconcile(found)),
            Step::Redrive(n) => self.ask(n, |_| EffectRequest::Redrive),
            Step::Release(n) => self.ask(n, |_| EffectRequest::Release),
        }
    }

    fn ask(&mut self, n: u64, request: impl Fn(&Effect) -> EffectRequest) {
        if self.effects.is_empty() {
            return;
        }
        let number = n % self.effects.len() as u64 + 1;
        let effect = self.effects[&number].clone();
        let request = request(&effect);
        let next = self.effects.get(&(number + 1)).cloned();
        let standing = Standing { line: self.line, effect, next };
        let EffectVerdict::Decided(events) = decide(&standing, &self.terms, request, self.now)
        else {
            return;
        };
        if request == EffectRequest::Claim && standing.effect.fence == 0 {
            self.first_seen.push(number);
        }
        let Standing { line, effect, next } = standing.settle(&events);
        self.line = line;
        self.effects.insert(number, effect);
        next.into_iter().for_each(|next| drop(self.effects.insert(next.number, next)));
    }

    fn check(&self) {
        let Line { last, settled, delivered } = self.line;
        assert!(delivered <= settled && settled <= last);
        assert_eq!(self.effects.len() as u64, last, "none disappears");
        assert!(self.effects.keys().copied().eq(1..=last), "numbers are contiguous");
        for (number, effect) in &self.effects {
            let is_ahead = *number > settled + 1;
            assert_eq!(
                is_ahead,
                effect.state == EffectState::Queued,
                "{number}: {effect:?} in {:?}",
                self.line
            );
        }
        let unsettled = |effect: &&Effect| matches!(effect.state, EffectState::InFlight(_));
        let ahead = self.effects.range(settled + 1..).map(|(_, effect)| effect).filter(unsettled);
        assert!(ahead.count() <= 1, "one in flight");
        assert!(self.first_seen.is_sorted(), "first seen in order: {:?}", self.first_seen);
        if self.terms.on_dead == OnDead::Block {
            let is_done = |effect: &Effect| matches!(effect.state, EffectState::Delivered { .. });
            // Only what a person released or redrove may be missing before the head.
            let touched = |effect: &Effect| effect.fence > 0;
            assert!(
                self.effects
                    .range(..=settled)
                    .all(|(_, effect)| is_done(effect) || touched(effect))
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn a_line_stays_in_order(
        steps in prop::collection::vec(step(), 1..120),
        is_idempotent: bool,
        skips: bool,
    ) {
        let on_dead = if skips { OnDead::Skip } else { OnDead::Block };
        let terms = EffectTerms { is_idempotent, tries_max: 3, on_dead, ..EffectTerms::default() };
        let now = Time::from_millis(1_000_000);
        let mut world = World { line: Line::default(), effects: BTreeMap::new(), terms, now, first_seen: Vec::new() };
        for step in steps {
            world.apply(step);
            world.check();
        }
    }
}
