//! The rules of effects, one by one.

#![expect(clippy::unwrap_used, reason = "in what tests share, too, a panic is the report")]

use verdict::effect::claim::CLAIM;
use verdict::effect::decide::{append, append_in_vain};
use verdict::effect::terms::RETRY_AFTER_MAX;
use verdict::effect::watch::WAITERS_MAX;
use verdict::effect::{
    DeadReason, Effect, EffectEvent, EffectId, EffectRefusal, EffectRequest, EffectState,
    EffectTerms, EffectVerdict, Intent, Line, OnDead, Reconciled, Sent, Standing, Watch, decide,
};
use verdict::{Json, Name, Scope, Span, TaskId, Time};

const NOW: Time = Time::from_millis(1_000_000);
const OK: Sent = Sent::Status { code: 200, retry_after: None };
const DOWN: Sent = Sent::Status { code: 500, retry_after: None };

pub(crate) fn intent(number: u64) -> Intent {
    let key = Name::from(format!("mail-{number}"));
    let task = TaskId::from_u128(7);
    Intent {
        id: EffectId::of_step(task, &Name::from("charge#1"), &key),
        scope: Scope::default(),
        task,
        endpoint: Name::from("mailer"),
        aggregate: Name::from("order-7"),
        kind: Name::from("order.paid"),
        body: Json::from("{}"),
        decided_at: NOW,
    }
}

/// A line with one effect, and one behind it.
fn two() -> Standing {
    let (line, effect) = append(Line::default(), intent(1), NOW);
    let (line, next) = append(line, intent(2), NOW);
    Standing { line, effect, next: Some(next) }
}

fn ask(standing: &Standing, terms: &EffectTerms, request: EffectRequest, now: Time) -> Standing {
    match decide(standing, terms, request, now) {
        EffectVerdict::Decided(events) => standing.clone().settle(&events),
        EffectVerdict::Refused(refusal) => panic!("{request:?} was refused: {refusal:?}"),
    }
}

fn refusal(standing: &Standing, terms: &EffectTerms, request: EffectRequest) -> EffectRefusal {
    match decide(standing, terms, request, NOW) {
        EffectVerdict::Refused(refusal) => refusal,
        EffectVerdict::Decided(events) => panic!("{request:?} was decided: {events:?}"),
    }
}

/// Claims and settles once, when the effect is due.
fn attempt(standing: &Standing, terms: &EffectTerms, sent: Sent) -> Standing {
    let due = standing.effect.state.due().unwrap();
    let claimed = ask(standing, terms, EffectRequest::Claim, due);
    let fence = claimed.effect.fence;
    ask(&claimed, terms, EffectRequest::Settle { fence, sent }, due)
}

fn terms() -> EffectTerms {
    EffectTerms { tries_max: 3, ..EffectTerms::default() }
}

#[test]
fn numbers_are_contiguous_and_only_the_head_is_pending() {
    let standing = two();
    assert_eq!((standing.effect.number, standing.next.as_ref().unwrap().number), (1, 2));
    assert_eq!(standing.effect.state, EffectState::Pending { due: NOW });
    assert_eq!(standing.next.as_ref().unwrap().state, EffectState::Queued);
    assert_eq!(standing.line.head(), Some(1));
}

#[test]
fn what_is_behind_the_head_cannot_be_claimed() {
    let standing = two();
    let behind = Standing { effect: standing.next.clone().unwrap(), next: None, ..standing };
    assert_eq!(refusal(&behind, &terms(), EffectRequest::Claim), EffectRefusal::NotReady);
    // Even if somebody made it pending by mistake.
    let state = EffectState::Pending { due: NOW };
    let forced = Standing { effect: Effect { state, ..behind.effect }, ..behind };
    assert_eq!(refusal(&forced, &terms(), EffectRequest::Claim), EffectRefusal::NotReady);
}

#[test]
fn a_delivered_head_makes_the_next_one_pending() {
    for sent in [
        OK,
        Sent::Status { code: 204, retry_after: None },
        Sent::Status { code: 409, retry_after: None },
    ] {
        let standing = attempt(&two(), &terms(), sent);
        assert_eq!(standing.effect.state, EffectState::Delivered { at: NOW }, "{sent:?}");
        assert_eq!(standing.line, Line { last: 2, settled: 1, delivered: 1 });
        assert_eq!(standing.next.unwrap().state, EffectState::Pending { due: NOW });
    }
}

#[test]
fn every_other_status_is_tried_again_later_and_redirects_are_no_success() {
    for code in [100, 301, 302, 307, 308, 400, 401, 404, 422, 429, 500, 503, 599] {
        let standing = attempt(&two(), &terms(), Sent::Status { code, retry_after: None });
        let EffectState::Pending { due } = standing.effect.state else { panic!("{code}") };
        assert!(due > NOW, "{code}");
        assert_eq!(standing.line.head(), Some(1), "the line waits for its head");
        assert_eq!(standing.next.unwrap().state, EffectState::Queued);
    }
}

#[test]
fn one_claim_at_a_time_and_a_stale_fence_settles_nothing() {
    let first = ask(&two(), &terms(), EffectRequest::Claim, NOW);
    assert_eq!(refusal(&first, &terms(), EffectRequest::Claim), EffectRefusal::NotReady);
    let expired = ask(&first, &terms(), EffectRequest::Sweep, NOW.plus(CLAIM));
    let due = expired.effect.state.due().unwrap();
    let second = ask(&expired, &terms(), EffectRequest::Claim, due);
    assert!(second.effect.fence > first.effect.fence);
    let stale = EffectRequest::Settle { fence: first.effect.fence, sent: OK };
    assert_eq!(refusal(&second, &terms(), stale), EffectRefusal::StaleClaim);
    let current = EffectRequest::Settle { fence: second.effect.fence, sent: OK };
    let delivered = ask(&second, &terms(), current, due);
    assert_eq!(refusal(&delivered, &terms(), current), EffectRefusal::StaleClaim, "settled once");
}

#[test]
fn a_claim_runs_out_at_its_instant_and_not_before() {
    let claimed = ask(&two(), &terms(), EffectRequest::Claim, NOW);
    let before = Time::from_millis(NOW.plus(CLAIM).millis() - 1);
    let early = decide(&claimed, &terms(), EffectRequest::Sweep, before);
    assert_eq!(early, EffectVerdict::Refused(EffectRefusal::NotReady));
    ask(&claimed, &terms(), EffectRequest::Sweep, NOW.plus(CLAIM));
}

#[test]
fn the_claim_of_a_dead_sender_is_tried_again_at_once_and_counts_as_a_try() {
    let claimed = ask(&two(), &terms(), EffectRequest::Claim, NOW);
    let orphaned = EffectRequest::Orphaned { fence: claimed.effect.fence };
    let found = ask(&claimed, &terms(), orphaned, NOW);
    assert_eq!(found.effect.state, EffectState::Pending { due: NOW });
    assert_eq!(found.effect.tries, 1);
    let other = EffectRequest::Orphaned { fence: claimed.effect.fence + 1 };
    assert_eq!(refusal(&claimed, &terms(), other), EffectRefusal::StaleClaim);
    assert_eq!(refusal(&found, &terms(), orphaned), EffectRefusal::StaleClaim, "decided once");
    // The receiver may have it: where it does not recognise an id, a person finds out.
    let cautious = EffectTerms { is_idempotent: false, ..terms() };
    let unknown = ask(&claimed, &cautious, orphaned, NOW);
    assert_eq!(unknown.effect.state, EffectState::Unknown { since: NOW });
    let last = EffectTerms { tries_max: 1, ..terms() };
    let dead = ask(&claimed, &last, orphaned, NOW);
    assert!(matches!(dead.effect.state, EffectState::Dead { .. }));
}

#[test]
fn the_maximum_of_tries_is_in_force_and_the_line_stops() {
    let mut standing = two();
    for _ in 1..terms().tries_max {
        standing = attempt(&standing, &terms(), DOWN);
    }
    standing = attempt(&standing, &terms(), DOWN);
    let EffectState::Dead { reason, is_passed, .. } = standing.effect.state else { panic!() };
    assert_eq!((reason, is_passed), (DeadReason::TriesExhausted, false));
    assert_eq!(standing.effect.tries, 3);
    assert_eq!(standing.line.head(), Some(1), "a dead letter blocks its aggregate (R-21)");
    let released = ask(&standing, &terms(), EffectRequest::Release, NOW);
    assert_eq!(released.line, Line { last: 2, settled: 1, delivered: 0 });
    assert_eq!(released.line.gap(), 1, "the receiver sees that one is missing");
    assert_eq!(released.next.as_ref().unwrap().state, EffectState::Pending { due: NOW });
    assert_eq!(refusal(&released, &terms(), EffectRequest::Release), EffectRefusal::WrongState);
}

#[test]
fn an_endpoint_may_prefer_progress_to_order() {
    let skip = EffectTerms { tries_max: 1, on_dead: OnDead::Skip, ..terms() };
    let standing = attempt(&two(), &skip, DOWN);
    let EffectState::Dead { is_passed, .. } = standing.effect.state else { panic!() };
    assert!(is_passed);
    assert_eq!((standing.line.head(), standing.line.gap()), (Some(2), 1));
}

#[test]
fn a_redriven_effect_has_all_its_tries_again_and_keeps_its_place() {
    let one = EffectTerms { tries_max: 1, ..terms() };
    let dead = attempt(&two(), &one, DOWN);
    let again = ask(&dead, &one, EffectRequest::Redrive, NOW);
    assert_eq!((again.effect.tries, again.effect.state), (0, EffectState::Pending { due: NOW }));
    let delivered = attempt(&again, &one, OK);
    assert_eq!(delivered.line.head(), Some(2));
    // Behind the line it is sent late, and the line does not move for it.
    let passed = ask(&dead, &one, EffectRequest::Release, NOW);
    let late = ask(&passed, &one, EffectRequest::Redrive, NOW);
    let delivered = attempt(&late, &one, OK);
    assert_eq!(delivered.line, passed.line);
    assert!(matches!(delivered.effect.state, EffectState::Delivered { .. }));
}

#[test]
fn without_a_status_only_an_idempotent_receiver_is_called_again() {
    let cautious = EffectTerms { is_idempotent: false, ..terms() };
    assert!(matches!(
        attempt(&two(), &terms(), Sent::Unanswered).effect.state,
        EffectState::Pending { .. }
    ));
    let unknown = attempt(&two(), &cautious, Sent::Unanswered);
    assert_eq!(unknown.effect.state, EffectState::Unknown { since: NOW });
    assert_eq!(unknown.line.head(), Some(1), "nothing overtakes it");
    assert_eq!(refusal(&unknown, &cautious, EffectRequest::Claim), EffectRefusal::NotReady);
    // A sender that died leaves the same question.
    let claimed = ask(&two(), &cautious, EffectRequest::Claim, NOW);
    let swept = ask(&claimed, &cautious, EffectRequest::Sweep, NOW.plus(CLAIM));
    assert!(matches!(swept.effect.state, EffectState::Unknown { .. }));
    // A receiver that was never reached leaves none.
    let unreached = attempt(&two(), &cautious, Sent::Unreached);
    assert!(matches!(unreached.effect.state, EffectState::Pending { .. }));
}

#[test]
fn a_person_says_what_became_of_an_unknown_effect() {
    let cautious = EffectTerms { is_idempotent: false, ..terms() };
    let unknown = attempt(&two(), &cautious, Sent::Unanswered);
    let arrived = ask(&unknown, &cautious, EffectRequest::Reconcile(Reconciled::Arrived), NOW);
    assert_eq!((arrived.line.head(), arrived.line.gap()), (Some(2), 0));
    let lost = ask(&unknown, &cautious, EffectRequest::Reconcile(Reconciled::NotArrived), NOW);
    assert_eq!(lost.effect.state, EffectState::Pending { due: NOW });
    let twice = EffectRequest::Reconcile(Reconciled::Arrived);
    assert_eq!(refusal(&arrived, &cautious, twice), EffectRefusal::WrongState);
    assert_eq!(refusal(&unknown, &cautious, EffectRequest::Redrive), EffectRefusal::WrongState);
}

#[test]
fn a_receiver_that_is_gone_disables_its_endpoint_and_nothing_more_is_sent() {
    let claimed = ask(&two(), &terms(), EffectRequest::Claim, NOW);
    let gone = Sent::Status { code: 410, retry_after: None };
    let request = EffectRequest::Settle { fence: claimed.effect.fence, sent: gone };
    let EffectVerdict::Decided(events) = decide(&claimed, &terms(), request, NOW) else { panic!() };
    assert!(events.contains(&EffectEvent::EndpointGone));
    let dead = claimed.settle(&events);
    assert!(matches!(dead.effect.state, EffectState::Dead { reason: DeadReason::Gone, .. }));
    let disabled = EffectTerms { is_enabled: false, ..terms() };
    assert_eq!(refusal(&two(), &disabled, EffectRequest::Claim), EffectRefusal::NotReady, "D10");
}

/// The pauses after each try of an effect that is never delivered.
pub(crate) fn pauses_of(number: u64) -> Vec<u64> {
    let terms = EffectTerms { tries_max: 20, ..EffectTerms::default() };
    let (line, effect) = append(Line::default(), intent(number), NOW);
    let mut standing = Standing { line, effect, next: None };
    let mut pauses = Vec::new();
    for _ in 1..terms.tries_max {
        let due = standing.effect.state.due().unwrap();
        standing = attempt(&standing, &terms, DOWN);
        pauses.push(standing.effect.state.due().unwrap().since(due).millis());
    }
    pauses
}

#[test]
fn the_pauses_grow_are_seeded_and_respect_the_receiver() {
    // Proves: S2-80: each pause is twice the one before, up to the cap, with a jitter of half the base at most.
    let terms = EffectTerms { tries_max: 20, ..EffectTerms::default() };
    let first = pauses_of(1);
    assert_eq!(first, pauses_of(1), "the same effect has the same schedule");
    for (n, pause) in first.iter().enumerate() {
        let exponential = (5_000u64 << n.min(30)).min(terms.retry_cap.millis());
        assert!((exponential..=exponential + 2_500).contains(pause), "pause {n}: {pause}");
    }
    for (asked, expected) in [
        (Span::from_secs(3_600), Span::from_secs(3_600)),
        (Span::from_secs(u64::MAX / 2_000), RETRY_AFTER_MAX),
    ] {
        let throttled = Sent::Status { code: 429, retry_after: Some(asked) };
        let due = attempt(&two(), &terms, throttled).effect.state.due().unwrap();
        assert_eq!(due.since(NOW), expected);
    }
    let hasty = Sent::Status { code: 503, retry_after: Some(Span::ZERO) };
    assert!(
        attempt(&two(), &terms, hasty).effect.state.due().unwrap().since(NOW) >= terms.retry_base
    );
}

#[test]
fn a_claim_that_was_given_back_costs_no_try() {
    let standing = attempt(&two(), &terms(), Sent::Untried);
    assert_eq!(
        (standing.effect.tries, standing.effect.state),
        (0, EffectState::Pending { due: NOW })
    );
}

#[test]
fn a_deleted_endpoint_gives_up_its_effects_and_stops_no_line() {
    let cautious = EffectTerms { is_idempotent: false, ..terms() };
    let states = [
        two(),
        ask(&two(), &cautious, EffectRequest::Claim, NOW),
        attempt(&two(), &cautious, Sent::Unanswered),
        attempt(&two(), &EffectTerms { tries_max: 1, ..terms() }, DOWN),
    ];
    for standing in states {
        let abandoned = ask(&standing, &terms(), EffectRequest::Abandon, NOW);
        assert!(matches!(abandoned.effect.state, EffectState::Dead { is_passed: true, .. }));
        assert_eq!((abandoned.line.head(), abandoned.line.gap()), (Some(2), 1));
    }
}

#[test]
fn ids_are_made_of_what_asked_for_the_effect() {
    let (task, other) = (TaskId::from_u128(1), TaskId::from_u128(2));
    let (a, b) = (Name::from("a"), Name::from("b"));
    let ids = [
        EffectId::of_step(task, &a, &b),
        EffectId::of_step(task, &b, &a),
        EffectId::of_step(other, &a, &b),
        EffectId::of_end(task, &a),
        EffectId::of_end(task, &b),
    ];
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(EffectId::parse(&id.to_string()), Some(*id));
        assert!(!ids[..n].contains(id), "{n}");
    }
    assert_eq!(
        EffectId::of_step(task, &a, &b),
        ids[0],
        "a repeated decision asks for the same effect"
    );
}

#[test]
fn who_waits_for_an_effect_is_told_once_what_became_of_it() {
    let mut effect = two().effect;
    let id = effect.intent.id;
    let watch = Watch::new(id, effect.intent.task).with("a".into()).with("a".into());
    assert!(watch.is_waiting() && watch.news(&effect).is_empty(), "tries are left");
    for (state, told) in [
        (EffectState::Delivered { at: NOW }, r#""outcome":"DELIVERED""#),
        (EffectState::Unknown { since: NOW }, r#""outcome":"UNKNOWN""#),
        (
            EffectState::Dead { at: NOW, reason: DeadReason::Gone, is_passed: true },
            r#""reason":"gone""#,
        ),
    ] {
        effect.state = state;
        let [(item, signal)] = &watch.news(&effect)[..] else { panic!("one waits") };
        assert_eq!(item.as_str(), "a");
        // No client can send it: names of signals have no `#`.
        assert_eq!(signal.name.as_str(), "#effect:a");
        assert_eq!(signal.key, Some(signal.name.clone()), "told again, it is the same signal");
        let payload = signal.payload.as_ref().unwrap().as_str();
        assert!(payload.contains(told) && payload.contains(&id.to_string()), "{payload}");
    }
    let told = watch.told(&["a".into()]);
    assert!(!told.is_waiting() && told.news(&effect).is_empty());
    // A later wait has another item, and is told by itself.
    let again = told.with("b".into());
    let items: Vec<Name> = again.news(&effect).into_iter().map(|(item, _)| item).collect();
    assert_eq!(items, ["b".into()]);
    let many = (0..200).fold(again, |watch, n| watch.with(format!("c{n}").into()));
    assert_eq!(many.waiters.len(), WAITERS_MAX);
    assert_eq!(many.waiters.last().unwrap().item.as_str(), "c199");
}

#[test]
fn an_effect_for_an_endpoint_that_is_gone_is_given_up_when_it_is_asked_for() {
    // D2, D6: it keeps its number, and the line goes on behind it with a gap.
    let (line, effect) = append_in_vain(Line::default(), intent(1), NOW);
    let given_up =
        EffectState::Dead { at: NOW, reason: DeadReason::EndpointDeleted, is_passed: true };
    assert_eq!((effect.number, effect.state), (1, given_up));
    assert_eq!((line.head(), line.gap()), (None, 1));
    // Behind another that is still to be given up it waits for its turn, which comes with the other's end.
    let (line, first) = append(Line::default(), intent(1), NOW);
    let (line, second) = append_in_vain(line, intent(2), NOW);
    assert_eq!(second.state, EffectState::Queued);
    let standing = Standing { line, effect: first, next: Some(second) };
    let gone = EffectTerms { is_enabled: false, is_registered: false, ..terms() };
    let Standing { line, next, .. } = ask(&standing, &gone, EffectRequest::Abandon, NOW);
    let standing = Standing { line, effect: next.unwrap(), next: None };
    let after = ask(&standing, &gone, EffectRequest::Abandon, NOW);
    assert_eq!((after.effect.state, after.line.head()), (given_up, None));
}

#[test]
fn nothing_is_sent_again_to_an_endpoint_that_is_gone() {
    let (line, effect) = append_in_vain(Line::default(), intent(1), NOW);
    let standing = Standing { line, effect, next: None };
    let gone = EffectTerms { is_enabled: false, is_registered: false, ..terms() };
    assert_eq!(refusal(&standing, &gone, EffectRequest::Redrive), EffectRefusal::WrongState);
    // Registered again, it may be.
    let again = ask(&standing, &terms(), EffectRequest::Redrive, NOW);
    assert!(matches!(again.effect.state, EffectState::Pending { .. }));
}
