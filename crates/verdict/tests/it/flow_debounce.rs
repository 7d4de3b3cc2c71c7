//! The debounce of a flow key: the last of those that follow closely runs, and none is postponed for ever.

use proptest::collection::vec;
use proptest::prelude::*;
use verdict::explain::{Gate, explain};
use verdict::flow::debounce::{DEBOUNCE_MAX_DEFAULT, DebounceCall, replaced};
use verdict::flow::{Debounce, UNLIMITED};
use verdict::request::Submit;
use verdict::{
    FlowKey, Moment, Name, Policy, Reason, Refusal, Request, Rules, Span, State, Subject, TaskId,
    Time,
};

use crate::world::{START, World, submission};

const FIVE: Span = Span::from_secs(5);

fn debounce(span: Span, max: u64) -> Debounce {
    Debounce::new(span, Some(Span::from_millis(max)))
}

/// The submission of a task that waits for newer ones, as a coordinator makes it.
fn waiting(id: u128, debounce: Debounce, before: Option<&World>, now: Time) -> (World, Time) {
    let task = before.and_then(|world| world.subject.live());
    let said = debounce.submitted(task, now);
    let mut flow = FlowKey::new("acme", UNLIMITED);
    flow.debounce = Some(said.debounced);
    let plain = submission(Policy::default());
    let submit = Submit {
        id: TaskId::from_u128(id),
        flow: Some(Box::new(flow)),
        run_at: Some(said.due),
        ..plain
    };
    let mut world = World::empty();
    world.now = now;
    world.ask(Request::Submit(submit));
    (world, said.due)
}

#[test]
fn a_run_waits_and_a_newer_one_replaces_it() {
    let (mut first, due) = waiting(1, debounce(FIVE, 60_000), None, START);
    assert_eq!(due, START.plus(FIVE));
    let later = START.plus(Span::from_secs(3));
    let by = debounce(FIVE, 60_000).submitted(first.subject.live(), later);
    assert_eq!((by.replaces, by.due), (Some(TaskId::from_u128(1)), later.plus(FIVE)));
    assert_eq!(by.debounced.since, START, "the wait of the line began with the first");
    first.now = later;
    let newer = TaskId::from_u128(2);
    first.ask(Request::Cancel(replaced(newer, &"acme".into())));
    let Subject::Done(done) = &first.subject else { panic!("it waits without a worker") };
    assert_eq!(
        (done.end.state, done.end.reason),
        (State::Cancelled, Some(Reason::CancelRequested))
    );
    let reason = done.cancel.as_ref().and_then(|it| it.reason.clone()).expect("it says why");
    assert!(reason.as_str().contains(&newer.run_name()), "{reason}");
}

#[test]
fn what_is_ready_or_was_leased_is_not_touched() {
    let (mut first, due) = waiting(1, debounce(FIVE, 60_000), None, START);
    // Its wait is over, and no worker came yet.
    let by = debounce(FIVE, 60_000).submitted(first.subject.live(), due);
    assert_eq!((by.replaces, by.debounced.since, by.due), (None, due, due.plus(FIVE)));
    first.now = due;
    first.grant("ann");
    let earlier = Time::from_millis(due.millis() - 1);
    assert_eq!(debounce(FIVE, 60_000).submitted(first.subject.live(), earlier).replaces, None);
}

#[test]
fn a_task_without_a_debounce_is_nobody_to_replace() {
    let mut plain = World::empty();
    let run_at = Some(START.plus(FIVE));
    let flow = Some(Box::new(FlowKey::new("acme", UNLIMITED)));
    plain.ask(Request::Submit(Submit { flow, run_at, ..submission(Policy::default()) }));
    assert_eq!(debounce(FIVE, 60_000).submitted(plain.subject.live(), START).replaces, None);
}

#[test]
fn the_maximum_is_an_hour_or_the_span_if_that_is_longer() {
    assert_eq!(Debounce::new(FIVE, None).max, DEBOUNCE_MAX_DEFAULT);
    let day = Span::from_secs(24 * 60 * 60);
    assert_eq!(Debounce::new(day, None).max, day);
}

#[test]
fn explain_says_what_it_waits_for() {
    let (world, due) = waiting(1, debounce(FIVE, 60_000), None, START);
    let at = Moment { now: START, epoch: 1, rules: Rules::NEWEST };
    let last = START.plus(Span::from_secs(60));
    let gates = explain(&world.subject, None, at);
    assert_eq!(gates.first(), Some(&Gate::Debounced { key: "acme".into(), due, last }));
}

proptest! {
    /// However submissions follow each other, the first of a line starts no later than `max` after it, by itself or by a newer one,
    /// and whoever is replaced is replaced while it waits.
    #[test]
    fn no_stream_postpones_beyond_the_maximum(
        span in 1..50_u64,
        extra in 0..200_u64,
        pauses in vec(0..60_i64, 1..120),
    ) {
        let (span, max) = (Span::from_millis(span), span + extra);
        let mut now = START;
        let mut last: Option<(World, Time, Time)> = None;
        for (n, pause) in (1..).zip(pauses) {
            now = now.plus(Span::from_millis(pause.unsigned_abs()));
            let before = last.as_ref().map(|(world, ..)| world);
            let task = before.and_then(|world| world.subject.live());
            let said = debounce(span, max).submitted(task, now);
            let since = match (&last, said.replaces) {
                (Some((_, since, due)), Some(_)) => {
                    prop_assert!(*due > now, "it still waited");
                    *since
                }
                (Some((_, _, due)), None) => {
                    prop_assert!(*due <= now, "nobody who waits is left behind");
                    now
                }
                (None, _) => now,
            };
            prop_assert!(said.due >= now && said.due <= now.plus(span));
            prop_assert!(said.due <= since.plus(Span::from_millis(max)));
            prop_assert_eq!(said.debounced.since, since);
            let (world, due) = waiting(n, debounce(span, max), before, now);
            prop_assert_eq!(due, said.due);
            last = Some((world, since, due));
        }
    }
}

#[test]
fn a_caller_replaces_no_run_of_a_queue_that_it_may_not_use() {
    let (world, _) = waiting(1, debounce(FIVE, 60_000), None, START);
    let (task, later) = (world.subject.live(), START.plus(Span::from_secs(3)));
    let queue = task.expect("it waits").queue.clone();
    let ask = |queues: Option<&[Name]>, task| {
        let debounce = debounce(FIVE, 60_000);
        let call = DebounceCall { debounce, queues: queues.map(Into::into) };
        call.submitted(&"acme".into(), task, later)
    };
    let replaces = |queues: Option<&[Name]>| ask(queues, task).map(|by| by.replaces);
    let own = Ok(Some(TaskId::from_u128(1)));
    assert_eq!(replaces(None), own);
    assert_eq!(replaces(Some(&["other".into(), queue.clone()])), own);
    let forbidden = Err(Refusal::DebounceForbidden { key: "acme".into() });
    assert_eq!(replaces(Some(&["other".into()])), forbidden);
    // Nothing is replaced where nothing waits, so nothing is refused either.
    let alone = ask(Some(&["other".into()]), None).map(|by| by.replaces);
    assert_eq!(alone, Ok(None));
    // A run whose wait is over is not touched, and keeps nobody from submitting.
    let over = START.plus(FIVE);
    let call = DebounceCall { debounce: debounce(FIVE, 60_000), queues: Some(["o".into()].into()) };
    assert_eq!(call.submitted(&"acme".into(), task, over).map(|by| by.replaces), Ok(None));
}
