//! Worlds of debounced keys: of a burst the newest run starts, exactly one, and never later than was said; and planted bugs are
//! found.

use tenure_model::debounce::{self, DebounceBounds, DebounceProperty, Locked, Submissions, find};
use verdict::flow::Debounce;
use verdict::flow::debounce::Replacement;
use verdict::{Task, Time};

fn prove(bounds: DebounceBounds) {
    let outcome = debounce::explore(bounds, 1);
    assert!(outcome.is_proof(), "{outcome}");
    // A world without choices proves nothing.
    assert!(outcome.unique > 5_000, "{outcome}");
}

#[test]
fn bursts_of_submissions() {
    prove(debounce::bursts());
}

#[test]
fn a_steady_stream() {
    prove(debounce::steady_stream());
}

fn finds(bug: impl Submissions, property: DebounceProperty) {
    assert!(find(debounce::bursts(), bug, property).is_some(), "the bug went unnoticed");
}

struct Endless;

impl Submissions for Endless {
    /// The store forgets when the first of the line was submitted.
    fn decide(&self, debounce: Debounce, last: Option<&Task>, now: Time) -> Replacement {
        let found = debounce.submitted(last, now);
        Replacement { due: now.plus(debounce.span), ..found }
    }
}

#[test]
fn a_stream_that_postpones_for_ever() {
    finds(Endless, DebounceProperty::Bounded);
}

struct Greedy;

impl Submissions for Greedy {
    /// A run is replaced although its wait is over.
    fn decide(&self, debounce: Debounce, last: Option<&Task>, now: Time) -> Replacement {
        let found = debounce.submitted(last, now);
        Replacement { replaces: last.map(|run| run.id), ..found }
    }
}

#[test]
fn a_ready_run_that_is_replaced() {
    finds(Greedy, DebounceProperty::Untouched);
}

struct Impatient;

impl Submissions for Impatient {
    /// The run starts without waiting for a newer one.
    fn decide(&self, debounce: Debounce, last: Option<&Task>, now: Time) -> Replacement {
        Replacement { due: now, ..Locked.decide(debounce, last, now) }
    }
}

#[test]
fn a_run_that_does_not_wait() {
    finds(Impatient, DebounceProperty::Bounded);
}

struct KeyUnlocked;

impl Submissions for KeyUnlocked {
    fn locks_key(&self) -> bool {
        false
    }
}

#[test]
fn two_coordinators_that_do_not_lock_the_key() {
    finds(KeyUnlocked, DebounceProperty::OneWaits);
}

struct RunUnlocked;

impl Submissions for RunUnlocked {
    fn locks_run(&self) -> bool {
        false
    }
}

#[test]
fn a_run_that_is_cancelled_behind_the_back_of_its_replacement() {
    finds(RunUnlocked, DebounceProperty::Untouched);
}

struct Lingering;

impl Submissions for Lingering {
    fn ends_older(&self) -> bool {
        false
    }
}

#[test]
fn an_older_run_that_goes_on_waiting() {
    finds(Lingering, DebounceProperty::OneWaits);
    finds(Lingering, DebounceProperty::NewestRuns);
}
