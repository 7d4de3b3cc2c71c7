//! Schedules: what becomes of an instant that has come.

use verdict::schedule::{
    CatchUp, Counts, DUE_MAX, Fired, Instants, Overlap, Recurrence, Round, RunSize, Schedule,
    ScheduleRefusal, Template, Terms, TermsChange, WAITING_MAX, firing_key, schedule_id,
};
use verdict::{Name, Span, TaskId, Text, Time};

use crate::world::{START, secs};

const MINUTE: Span = Span::from_secs(60);

fn terms(overlap: Overlap, catch_up: CatchUp) -> Terms {
    let recurrence = Recurrence::Every { every: MINUTE, anchor: START };
    Terms { recurrence, overlap, catch_up, window: secs(3_600) }
}

fn schedule(overlap: Overlap) -> Schedule {
    Schedule::new("s".into(), terms(overlap, CatchUp::One), false, Some(minute(1)), START)
}

/// The instant so many minutes after the start.
fn minute(count: u64) -> Time {
    START.plus(secs(60 * count))
}

/// What a calendar would say at the end of that minute.
fn due(minutes: std::ops::RangeInclusive<u64>) -> Instants {
    let next = Some(minute(minutes.end() + 1));
    Instants { due: minutes.map(minute).collect(), next }
}

fn run(number: u128) -> TaskId {
    TaskId::from_u128(number)
}

fn instants(round: &Round) -> Vec<Time> {
    round.fire.iter().map(|it| it.instant).collect()
}

/// Fires what the round wants, as runs from this number on.
fn started(round: Round, first: u128, now: Time) -> Schedule {
    let fired = (0..round.fire.len() as u128).map(|it| Fired::Started(run(first + it))).collect();
    round.end(fired, now)
}

/// One round at the minute, in which every submission is accepted.
fn fire(schedule: &Schedule, at: u64, is_former_live: bool) -> Schedule {
    let first = schedule.next.map_or(at, |next| next.since(START).millis() / 60_000);
    let round = schedule.begin(&due(first..=at), is_former_live, minute(at)).expect("it is due");
    started(round, u128::from(at), minute(at))
}

#[test]
fn an_instant_fires_once_and_the_schedule_moves_on() {
    let schedule = schedule(Overlap::Skip);
    assert_eq!(schedule.due(), Some(minute(1)));
    let early = START.plus(secs(59));
    assert_eq!(schedule.begin(&Instants::default(), false, early), None);
    let round = schedule.begin(&due(1..=1), false, minute(1)).unwrap();
    assert_eq!((instants(&round), round.cancel), (vec![minute(1)], None));
    let after = started(round, 7, minute(1));
    assert_eq!((after.due(), after.counts.fired), (Some(minute(2)), 1));
    assert_eq!(after.last.map(|last| (last.instant, last.run)), Some((minute(1), run(7))));
    // Another coordinator that looks at the same instant finds nothing to do.
    assert_eq!(after.begin(&Instants::default(), true, minute(1)), None);
    assert_ne!(firing_key(&"a".into(), minute(1)), firing_key(&"a".into(), minute(2)));
}

#[test]
fn of_missed_instants_the_latest_fires_unless_all_are_wanted() {
    let one = fire(&schedule(Overlap::Skip), 30, false);
    assert_eq!(one.last.unwrap().instant, minute(30));
    assert_eq!((one.counts, one.next), (counts(1, 0, 29), Some(minute(31))));
    let terms = terms(Overlap::Allow, CatchUp::All);
    let all = Schedule::new("s".into(), terms, false, Some(minute(1)), START);
    let round = all.begin(&due(1..=30), true, minute(30)).unwrap();
    assert_eq!(instants(&round), (1..=30).map(minute).collect::<Vec<_>>());
    assert_eq!(started(round, 1, minute(30)).counts, counts(30, 0, 0));
}

fn counts(fired: u64, skipped: u64, missed: u64) -> Counts {
    Counts { fired, skipped, missed, refused: 0 }
}

#[test]
fn an_instant_that_is_older_than_the_window_does_not_fire() {
    let late = Instants { due: vec![minute(1)], next: Some(minute(62)) };
    let round = schedule(Overlap::Skip).begin(&late, false, minute(61)).unwrap();
    assert_eq!(instants(&round), []);
    assert_eq!(round.end(Vec::new(), minute(61)).counts, counts(0, 0, 1));
}

#[test]
fn while_the_run_before_has_not_ended_an_instant_is_skipped() {
    let first = fire(&schedule(Overlap::Skip), 1, false);
    let second = fire(&first, 2, true);
    assert_eq!((second.counts, second.last.unwrap().run), (counts(1, 1, 0), run(1)));
    assert_eq!(fire(&second, 3, false).counts, counts(2, 1, 0));
}

#[test]
fn or_it_waits_and_fires_in_order_once_that_run_has_ended() {
    let mut queue = fire(&schedule(Overlap::Queue), 1, false);
    for at in 2..=4 {
        queue = fire(&queue, at, true);
    }
    let waiting: Vec<Time> = queue.waiting.iter().map(|it| it.instant).collect();
    assert_eq!(waiting, [minute(2), minute(3), minute(4)]);
    let look_at = queue.due().expect("it looks again");
    assert!(minute(4) < look_at && look_at <= minute(5), "soon, and not at once");
    // No further instant comes meanwhile.
    queue.next = None;
    for expected in 2..=4 {
        let now = queue.due().unwrap();
        let round = queue.begin(&Instants::default(), false, now).unwrap();
        assert_eq!(instants(&round), [minute(expected)]);
        queue = started(round, u128::from(expected), now);
    }
    assert_eq!((queue.waiting.len(), queue.due()), (0, None));
}

#[test]
fn or_that_run_is_cancelled_and_it_fires_at_once() {
    let first = fire(&schedule(Overlap::CancelOlder), 1, false);
    let round = first.begin(&due(2..=2), true, minute(2)).unwrap();
    assert_eq!((instants(&round), round.cancel), (vec![minute(2)], Some(run(1))));
    // A run that has ended is left alone.
    let round = first.begin(&due(2..=2), false, minute(2)).unwrap();
    assert_eq!(round.cancel, None);
}

#[test]
fn without_room_in_the_quota_an_instant_waits_until_the_window_is_over() {
    let schedule = schedule(Overlap::Skip);
    let round = schedule.begin(&due(1..=1), false, minute(1)).unwrap();
    let mut after = round.end(vec![Fired::NoRoom], minute(1));
    assert_eq!((after.waiting.len(), after.look_at), (1, Some(minute(1).plus(secs(1)))));
    // Later instants have no room either, and the first one is given up when the window is over.
    after.next = None;
    let mut looks = 0;
    while !after.waiting.is_empty() {
        let now = after.due().expect("it looks again");
        let round = after.begin(&Instants::default(), false, now).unwrap();
        let fired = vec![Fired::NoRoom; round.fire.len()];
        after = round.end(fired, now);
        looks += 1;
    }
    assert_eq!(after.counts, counts(0, 0, 1));
    assert!(looks < 100, "it looks {looks} times in an hour");
}

#[test]
fn a_refused_run_is_remembered_and_the_schedule_goes_on() {
    let round = schedule(Overlap::Skip).begin(&due(1..=1), false, minute(1)).unwrap();
    let after = round.end(vec![Fired::Refused("invalid_argument".into())], minute(1));
    assert_eq!((after.counts.refused, after.next), (1, Some(minute(2))));
    assert_eq!(after.last_refusal.unwrap().code, Name::from("invalid_argument"));
}

#[test]
fn a_paused_schedule_fires_nothing_and_makes_up_for_nothing() {
    let queue = fire(&fire(&schedule(Overlap::Queue), 1, false), 2, true);
    let paused = queue.paused();
    assert_eq!((paused.due(), paused.counts.skipped), (None, 1));
    assert_eq!(paused.begin(&Instants::default(), false, minute(9)), None);
    let resumed = paused.clone().resumed(Some(minute(10)));
    assert_eq!(resumed.due(), Some(minute(10)));
    // Resuming what is not paused moves nothing.
    assert_eq!(resumed.clone().resumed(Some(minute(99))), resumed);
    let deleted = paused.deleted();
    assert_eq!((deleted.due(), deleted.status()), (None, "deleted"));
    assert_eq!(deleted.begin(&due(1..=9), false, minute(9)), None);
}

#[test]
fn a_backfill_fires_one_after_the_other_also_while_paused() {
    let now = minute(10);
    let paused = schedule(Overlap::Skip).paused();
    let mut filled = paused.backfilled(&[minute(3), minute(4)], now).unwrap();
    assert_eq!(filled.due(), Some(now));
    for expected in [3, 4] {
        let at = filled.due().unwrap();
        let round = filled.begin(&Instants::default(), false, at).unwrap();
        assert_eq!(instants(&round), [minute(expected)]);
        filled = started(round, 1, at);
    }
    assert_eq!((filled.due(), filled.is_paused), (None, true));
    let future = schedule(Overlap::Skip).backfilled(&[minute(11)], now);
    assert_eq!(future, Err(ScheduleRefusal::NothingToBackfill));
    let many: Vec<Time> = (1..=WAITING_MAX as u64 + 1).map(|it| START.plus(secs(it))).collect();
    let refused = schedule(Overlap::Skip).backfilled(&many, now);
    assert_eq!(refused, Err(ScheduleRefusal::TooManyWaiting));
}

#[test]
fn a_trigger_fires_now_and_moves_nothing() {
    let schedule = schedule(Overlap::Skip);
    let now = START.plus(secs(5));
    let after = started(schedule.triggered(now), 3, now);
    assert_eq!((after.last.unwrap().instant, after.next), (now, schedule.next));
}

#[test]
fn keys_and_ids_have_a_form_of_their_own() {
    let id = schedule_id(run(5));
    assert!(id.as_str().starts_with("sched_0"), "{id}");
    assert_eq!(firing_key(&id, START), Text::from(format!("sched/{id}/1000000")));
}

#[test]
fn a_change_of_terms_keeps_what_it_does_not_name() {
    let every = terms(Overlap::Skip, CatchUp::One);
    let change = TermsChange { overlap: Some(Overlap::Queue), ..TermsChange::default() };
    let queue = every.changed(&change, minute(1)).unwrap();
    assert_eq!(queue, terms(Overlap::Queue, CatchUp::One));
    let zone = TermsChange { zone: Some("Europe/Berlin".into()), ..TermsChange::default() };
    assert_eq!(every.changed(&zone, minute(1)), Err(ScheduleRefusal::ZoneOfInterval));
    let expression = Some(Text::from("@daily"));
    let daily = TermsChange { expression, ..TermsChange::default() };
    let daily = every.changed(&daily, minute(1)).unwrap();
    let berlin = daily.changed(&zone, minute(1)).unwrap();
    let wanted = Recurrence::Cron { expression: "@daily".into(), zone: "Europe/Berlin".into() };
    assert_eq!(berlin.recurrence, wanted);
    let all = TermsChange { catch_up: Some(CatchUp::All), ..TermsChange::default() };
    assert_eq!(every.changed(&all, minute(1)), Err(ScheduleRefusal::CatchUpNeedsRoom));
    assert!(queue.changed(&all, minute(1)).is_ok());
}

#[test]
fn a_firing_weighs_what_waits_and_what_may_have_come_within_one_decision() {
    let one = schedule(Overlap::Allow);
    assert_eq!(one.firing_weight(minute(30)), 1, "only the latest is made up for");
    let terms = terms(Overlap::Allow, CatchUp::All);
    let all = Schedule::new("s".into(), terms, false, Some(minute(1)), START);
    assert_eq!(all.firing_weight(minute(1)), 1);
    assert_eq!(all.firing_weight(minute(30)), 30);
    assert_eq!(all.firing_weight(minute(100_000)), 1 + DUE_MAX);
    let template = Template { run: "{}".into(), size: RunSize { tasks: 300, weight: 300 } };
    let large = all.submitting(&template);
    assert_eq!(large.firing_weight(minute(30)), 900, "three of them are one decision");
}
