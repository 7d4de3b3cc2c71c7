//! Worlds of schedules: an instant is one run whatever dies around it, and every instant is accounted for; and planted bugs
//! are found.

use tenure_model::firing::{self, Commits, FiringBounds, FiringProperty, find};

/// One thread each: the tests run in parallel.
fn prove(bounds: FiringBounds) {
    let outcome = firing::explore(bounds, 1);
    assert!(outcome.is_proof(), "{outcome}");
    // A world without choices proves nothing.
    assert!(outcome.unique > 1_000, "{outcome}");
}

#[test]
fn a_schedule_that_skips() {
    prove(firing::skipping());
}

#[test]
fn a_schedule_that_queues() {
    prove(firing::queueing());
}

#[test]
fn a_schedule_that_cancels_older_runs() {
    prove(firing::cancelling());
}

#[test]
fn a_schedule_that_catches_up() {
    prove(firing::catching_up());
}

#[test]
fn a_schedule_that_is_paused() {
    prove(firing::paused());
}

struct Unguarded {
    finds_run: bool,
}

impl Commits for Unguarded {
    fn is_made(&self, _: u32, _: u32) -> bool {
        true
    }

    fn finds_run(&self) -> bool {
        self.finds_run
    }
}

#[test]
fn commits_without_a_guard_fire_an_instant_twice() {
    let commits = Unguarded { finds_run: false };
    let found = find(firing::catching_up(), commits, FiringProperty::OneRun);
    assert!(found.is_some(), "the bug went unnoticed");
}

#[test]
fn commits_that_overwrite_a_newer_revision_set_the_schedule_back() {
    // The key of the instant alone makes it one run, and the schedule still goes wrong.
    let commits = Unguarded { finds_run: true };
    let found = find(firing::catching_up(), commits, FiringProperty::Forward);
    assert!(found.is_some(), "the bug went unnoticed");
}
