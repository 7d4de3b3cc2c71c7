//! The rate of a flow key: never more starts in any window than were promised, and no task that is forgotten.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use verdict::flow::{
    Move, Place, Position, Rate, RateUse, Slots, Standing, Starts, Terms, UNLIMITED,
};
use verdict::{
    Answer, Context, FlowKey, FlowUses, KeyUse, Moment, Policy, ReadSet, Refusal, Request, Rules,
    Span, Subject, TaskId, Time, Verdict, decide,
};

use crate::world::{START, World, submission};

fn rate(count: u32, per_ms: u64) -> Rate {
    Rate { count, per: Span::from_millis(per_ms) }
}

fn terms(limit: u32, rate: Rate) -> Terms {
    Terms { limit, rate: Some(rate) }
}

fn at(ms: i64) -> Time {
    Time::from_millis(ms)
}

/// The largest number of starts in a window of this length, open at its end.
fn most_in_a_window(starts: &[Time], per: Span) -> usize {
    let within = |from: Time| starts.iter().filter(move |it| **it >= from && **it < from.plus(per));
    starts.iter().map(|from| within(*from).count()).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn no_window_has_more_starts_than_the_rate(
        count in 1..6_u32,
        per in 1..40_u64,
        // Clocks of coordinators differ: an instant may be before the last one.
        moves in vec((0..12_i64, -4..4_i64), 0..300),
    ) {
        let rate = rate(count, per);
        let (mut starts, mut granted, mut now) = (Starts::default(), Vec::new(), 1_000);
        for (passed, skew) in moves {
            now += passed;
            let here = at(now + skew);
            if starts.left(rate, here) > 0 {
                prop_assert_eq!(starts.opens_at(rate, here), None);
                starts.add(here);
                granted.push(here);
            } else {
                let opens = starts.opens_at(rate, here).expect("it opens");
                prop_assert!(opens > here);
                prop_assert_eq!(starts.left(rate, at(opens.millis() - 1)), 0);
                prop_assert!(starts.left(rate, opens) > 0);
            }
            // No coordinator's clock is further behind.
            starts.forget(rate.per, at(now - 4));
        }
        prop_assert!(most_in_a_window(&granted, rate.per) <= count as usize);
    }

    #[test]
    fn all_tasks_start_as_fast_as_the_rate_allows_and_woken_by_nothing_else(
        count in 1..5_u32,
        per in 1..50_u64,
        limit in 1..4_u32,
        tasks in 1..60_usize,
        lasts in 0..70_u64,
    ) {
        let rate = rate(count, per);
        let mut key = Key::new(terms(limit, rate));
        for task in 1..=tasks {
            key.submit(task);
        }
        while key.started.len() < tasks || !key.running.is_empty() {
            key.grant_all();
            let ends = key.running.iter().map(|(granted, _)| granted.plus(Span::from_millis(lasts)));
            let wake = ends.chain(key.slots.opens_at()).min();
            let wake = wake.expect("a parked task waits for the end of another or for the rate");
            prop_assert!(wake >= key.now);
            key.now = wake;
            key.end_those_that_lasted(Span::from_millis(lasts));
            let moves = key.slots.advance(key.now);
            key.apply(moves);
        }
        prop_assert!(most_in_a_window(&key.started, rate.per) <= count as usize);
        key.slots.forget_starts(Span::ZERO);
        prop_assert!(key.slots.is_unused() && key.ready.is_empty());
    }

    #[test]
    fn rates_keep_their_order_in_a_number(
        counts in (1..=1_000_u32, 1..=1_000_u32),
        pers in (1..2_592_000_000_u64, 1..2_592_000_000_u64),
    ) {
        let (one, two) = (rate(counts.0, pers.0), rate(counts.1, pers.1));
        prop_assert_eq!(Rate::of_rank(one.rank()), one);
        prop_assert_eq!(one.cmp(&two), one.rank().cmp(&two.rank()));
        prop_assert_eq!(one == two, one.rank() == two.rank());
    }
}

/// One key in one line, whose ready order changes only by the moves that the rules return.
struct Key {
    slots: Slots<u8>,
    terms: Terms,
    now: Time,
    ready: BTreeSet<Position>,
    running: Vec<(Time, TaskId)>,
    started: Vec<Time>,
}

impl Key {
    fn new(terms: Terms) -> Self {
        let mut slots = Slots::default();
        slots.advance(START);
        let (ready, running, started) = (BTreeSet::new(), Vec::new(), Vec::new());
        Self { slots, terms, now: START, ready, running, started }
    }

    fn apply(&mut self, moves: Vec<Move<u8>>) {
        for Move { position, to, .. } in moves {
            let changed = match to {
                Place::Offered => self.ready.insert(position),
                Place::Parked => self.ready.remove(&position),
            };
            assert!(changed, "a move changes the place: {position:?} to {to:?}");
        }
    }

    fn submit(&mut self, task: usize) {
        let mut moves = self.slots.enter(self.terms);
        moves.extend(self.slots.join(0, Position::new(0, TaskId::from_u128(task as u128))));
        self.apply(moves);
    }

    fn grant_all(&mut self) {
        while let Some(first) = self.ready.first().copied() {
            assert!(self.slots.in_use().has_room(), "only what may start is offered");
            self.ready.remove(&first);
            let (_, mut moves) = self.slots.leave(0, first);
            moves.extend(self.slots.hold(first.task()));
            moves.extend(self.slots.start(self.now));
            self.apply(moves);
            self.running.push((self.now, first.task()));
            self.started.push(self.now);
        }
    }

    fn end_those_that_lasted(&mut self, lasts: Span) {
        let (ended, running): (Vec<_>, Vec<_>) =
            self.running.drain(..).partition(|(granted, _)| granted.plus(lasts) <= self.now);
        self.running = running;
        for (_, task) in ended {
            let mut moves = self.slots.release(task);
            moves.extend(self.slots.exit(self.terms));
            self.apply(moves);
        }
    }
}

#[test]
fn as_many_as_the_rate_says_start_at_once_and_the_next_when_the_first_is_out_of_the_window() {
    let rate = rate(2, 1_000);
    let mut starts: Starts = [at(500), at(0)].into_iter().collect();
    assert_eq!((starts.left(rate, at(999)), starts.opens_at(rate, at(999))), (0, Some(at(1_000))));
    assert_eq!(starts.left(rate, at(1_000)), 1);
    starts.add(at(1_000));
    assert_eq!(starts.opens_at(rate, at(1_000)), Some(at(1_500)));
    starts.take_back(at(1_000));
    assert_eq!(starts.left(rate, at(1_000)), 1);
    // A changed rate counts the same starts.
    assert_eq!(starts.left(self::rate(3, 2_000), at(1_000)), 1);
}

#[test]
fn starts_outlive_the_tasks_of_a_key() {
    let mut key = Key::new(terms(UNLIMITED, rate(1, 1_000)));
    key.submit(1);
    key.grant_all();
    key.end_those_that_lasted(Span::ZERO);
    assert!(key.slots.has_no_task() && !key.slots.is_unused());
    key.submit(2);
    assert!(key.ready.is_empty(), "one started within the second");
    assert_eq!(key.slots.opens_at(), Some(START.plus(Span::from_secs(1))));
}

fn limited(terms: Terms) -> Request {
    let flow = Some(Box::new(FlowKey::new("acme", terms)));
    Request::Submit(verdict::request::Submit { flow, ..submission(Policy::default()) })
}

fn decided(subject: &Subject, in_use: KeyUse, request: &Request) -> Verdict {
    let mut flows = FlowUses::default();
    flows.put("acme".into(), Some(in_use));
    let context = Context { flows: Some(&flows), ..Context::default() };
    let at = Moment { now: START, epoch: 1, rules: Rules::NEWEST };
    decide(ReadSet { subject, context }, request, at)
}

#[test]
fn a_key_whose_starts_are_used_up_grants_nothing() {
    let rate = rate(2, 1_000);
    let mut world = World::empty();
    world.ask(limited(terms(UNLIMITED, rate)));
    let grant = world.grant_request("ann");
    let in_use = |left| KeyUse { rate: Some(RateUse { rate, left }), ..KeyUse::new(UNLIMITED, 1) };
    assert_eq!(decided(&world.subject, in_use(0), &grant), Verdict::nothing());
    assert_eq!(decided(&world.subject, in_use(1), &grant).answer, Answer::Granted);
}

#[test]
fn one_key_has_one_rate() {
    let own = terms(4, rate(2, 1_000));
    let in_use =
        KeyUse { rate: own.rate.map(|rate| RateUse { rate, left: 0 }), ..KeyUse::new(4, 0) };
    let submitted = |asked| decided(&Subject::Absent, in_use, &limited(asked)).answer;
    assert!(matches!(submitted(own), Answer::Accepted { .. }));
    for other in [terms(4, rate(3, 1_000)), terms(4, rate(2, 999)), 4.into()] {
        let refusal =
            Refusal::FlowLimitConflict { key: "acme".into(), in_force: own, asked: other };
        assert_eq!(submitted(other), Answer::Refused(refusal));
    }
}

#[test]
fn uses_follow_the_starts_of_a_batch() {
    let rate = rate(2, 1_000);
    let mut flows = FlowUses::default();
    let fresh = KeyUse { rate: Some(RateUse { rate, left: 2 }), ..KeyUse::new(UNLIMITED, 0) };
    flows.put("acme".into(), Some(fresh));
    let mut world = World::empty();
    world.ask(limited(terms(UNLIMITED, rate)));
    flows.follow(Standing::default(), &world.subject);
    world.grant("ann");
    flows.follow(Standing::default(), &world.subject);
    let in_use = flows.get(&"acme".into()).expect("it is known");
    assert_eq!((in_use.held, in_use.free()), (1, 1));
    // What nobody counted yet may not start.
    let mut unknown = FlowUses::default();
    unknown.put("acme".into(), None);
    unknown.follow(Standing { is_leased: true, holds: true }, &world.subject);
    assert_eq!(unknown.get(&"acme".into()).map(KeyUse::free), Some(0));
}
