//! Worlds of durable runs: every property holds, every goal is reached, and planted bugs are found.

use tenure_model::Rules;
use tenure_model::runs::{self, RunBounds, RunProperty};
use verdict::run::{Body, Recorded, RunRequest, Waiting};
use verdict::{
    Answer, Context, Event, Loaded, Moment, Next, Phase, ReadSet, Request, Subject, Task, Verdict,
    decide,
};

/// One thread each: the tests run in parallel.
fn prove(bounds: RunBounds) {
    let outcome = runs::explore(bounds, 1);
    assert!(outcome.is_proof(), "{outcome}");
    // A world without choices proves nothing.
    assert!(outcome.unique > 10_000, "{outcome}");
}

#[test]
fn a_run_that_waits_for_two_children() {
    // S2-86, F79, F80: steps, children and their ends are recorded once, whatever is lost, late or repeated.
    prove(runs::fan_in());
}

#[test]
fn a_run_that_waits_for_the_first_of_three() {
    // F85: whatever comes first, before, during or after the wait, wakes the run once.
    prove(runs::first_wins());
}

#[test]
fn a_run_that_is_cancelled() {
    // F84: cancel, end and lost workers in every order; the run ends after its children.
    prove(runs::cancelled());
}

#[test]
fn every_goal_is_reached_in_some_world() {
    let worlds = runs::all();
    for goal in runs::GOALS {
        assert!(worlds.iter().any(|bounds| !bounds.never.contains(&goal)), "{goal}");
    }
    let named = worlds.iter().flat_map(|bounds| bounds.never);
    named.for_each(|goal| assert!(runs::GOALS.contains(goal), "no goal: {goal}"));
}

type Bug = fn(ReadSet<'_>, &Request, Moment) -> Verdict;

struct BuggyRules(Bug);

impl Rules for BuggyRules {
    fn decide(&self, read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        (self.0)(read_set, request, at)
    }
}

fn must_be_found(bounds: RunBounds, bug: Bug, property: RunProperty) {
    let found = runs::find(bounds, BuggyRules(bug), property);
    assert!(found.is_some(), "the bug went unnoticed by {}", property.name());
}

/// The verdict of the rules when they are shown something else.
fn shown(
    read_set: ReadSet<'_>,
    request: &Request,
    at: Moment,
    change: impl FnOnce(&mut Loaded),
) -> Verdict {
    let mut loaded = read_set.context.run.cloned().unwrap_or_default();
    change(&mut loaded);
    let context = Context { run: Some(&loaded), ..read_set.context };
    decide(ReadSet { context, ..read_set }, request, at)
}

fn is_message(request: &Request, is_it: impl Fn(&Body) -> bool) -> bool {
    matches!(request, Request::Run(request)
        if matches!(&**request, RunRequest::Message(message) if is_it(&message.body)))
}

fn is_call(request: &Request) -> bool {
    matches!(request, Request::Run(request) if matches!(**request, RunRequest::Checkpoint(_)))
}

#[test]
fn a_step_that_is_recorded_again_in_the_next_attempt() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        shown(read_set, request, at, |loaded| {
            loaded.checkpoints.retain(|found| !matches!(found.recorded, Recorded::Step(_)));
        })
    }
    must_be_found(runs::fan_in(), bug, RunProperty::OneResult);
}

#[test]
fn a_child_that_is_spawned_again_by_a_repeated_call() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        match is_call(request) {
            true => shown(read_set, request, at, |loaded| loaded.children.clear()),
            false => decide(read_set, request, at),
        }
    }
    must_be_found(runs::fan_in(), bug, RunProperty::OneChild);
}

#[test]
fn a_wait_that_does_not_see_what_was_there_before() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        match is_call(request) {
            true => shown(read_set, request, at, |loaded| loaded.signals.clear()),
            false => decide(read_set, request, at),
        }
    }
    must_be_found(runs::first_wins(), bug, RunProperty::NoLostWakeUp);
}

#[test]
fn a_child_that_ends_before_the_call_and_is_not_seen() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let unended =
            |loaded: &mut Loaded| loaded.children.iter_mut().for_each(|one| one.end = None);
        match is_call(request) {
            true => shown(read_set, request, at, unended),
            false => decide(read_set, request, at),
        }
    }
    must_be_found(runs::fan_in(), bug, RunProperty::NoLostWakeUp);
}

#[test]
fn an_arrival_that_does_not_wake() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        if is_message(request, |body| matches!(body, Body::ChildEnded { .. })) {
            verdict.events.truncate(1);
        }
        verdict
    }
    must_be_found(runs::fan_in(), bug, RunProperty::NoLostWakeUp);
}

#[test]
fn a_timer_that_does_not_fire() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let waits = |task: &Task| matches!(&task.phase, Phase::Waiting(waiting) if matches!(**waiting, Waiting::For(_)));
        match request {
            Request::Sweep if read_set.subject.live().is_some_and(waits) => Verdict::nothing(),
            _ => decide(read_set, request, at),
        }
    }
    must_be_found(runs::first_wins(), bug, RunProperty::NoLostWakeUp);
}

#[test]
fn a_child_whose_end_counts_twice() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let is_end = is_message(request, |body| matches!(body, Body::ChildEnded { .. }));
        let unended =
            |loaded: &mut Loaded| loaded.children.iter_mut().for_each(|one| one.end = None);
        let has_live = read_set.subject.live().is_some_and(|task| task.live_children() > 0);
        match is_end && has_live {
            true => shown(read_set, request, at, unended),
            false => decide(read_set, request, at),
        }
    }
    must_be_found(runs::fan_in(), bug, RunProperty::EachMessageOnce);
}

#[test]
fn the_end_of_a_child_that_is_not_awaited_is_lost() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let is_end = is_message(request, |body| matches!(body, Body::ChildEnded { .. }));
        let is_running = read_set.subject.live().is_some_and(|task| task.lease().is_some());
        match is_end && is_running {
            true => Verdict::nothing(),
            false => decide(read_set, request, at),
        }
    }
    must_be_found(runs::cancelled(), bug, RunProperty::EachMessageOnce);
}

#[test]
fn a_signal_that_a_repetition_records_again() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        shown(read_set, request, at, |loaded| loaded.same_key = None)
    }
    must_be_found(runs::first_wins(), bug, RunProperty::EachMessageOnce);
}

#[test]
fn a_checkpoint_under_a_lease_that_has_expired() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let end = read_set.subject.live().and_then(Task::lease).map(|lease| lease.expires_at);
        let in_time = |end: verdict::Time| verdict::Time::from_millis(end.millis() - 1);
        match end {
            Some(end) if is_call(request) => {
                decide(read_set, request, Moment { now: in_time(end).min(at.now), ..at })
            }
            _ => decide(read_set, request, at),
        }
    }
    must_be_found(runs::fan_in(), bug, RunProperty::Authority);
}

#[test]
fn a_parent_that_does_not_wait_for_its_children() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        for event in &mut verdict.events {
            if let Event::AttemptClosed { next, .. } = event
                && let Next::Wait(waiting) = next
                && let Waiting::Closing(closing) = &**waiting
            {
                *next = Next::End(closing.end.clone());
            }
        }
        verdict
    }
    must_be_found(runs::cancelled(), bug, RunProperty::ChildrenFirst);
}

#[test]
fn a_slice_that_is_the_last_although_there_are_more() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        shown(read_set, request, at, |loaded| loaded.has_more_live = false)
    }
    must_be_found(runs::cancelled(), bug, RunProperty::ClosingEnds);
}

#[test]
fn a_closing_task_that_its_last_child_does_not_end() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        let is_end = is_message(request, |body| matches!(body, Body::ChildEnded { .. }));
        if is_end && matches!(verdict.answer, Answer::Done) {
            verdict.events.retain(|event| !matches!(event, Event::Ended(_)));
        }
        verdict
    }
    must_be_found(runs::cancelled(), bug, RunProperty::ClosingEnds);
}

#[test]
fn a_cancel_that_does_not_reach_its_child() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        // Only a child that no worker holds would live on for ever.
        let is_cancel = is_message(request, |body| matches!(body, Body::Cancel(_)));
        match (is_cancel, read_set.subject) {
            (true, Subject::Live(_)) => Verdict::nothing(),
            _ => decide(read_set, request, at),
        }
    }
    must_be_found(runs::cancelled(), bug, RunProperty::ClosingEnds);
}
