//! Worlds of plans: every property holds, every goal is reached, and planted bugs are found.

use tenure_model::Rules;
use tenure_model::plans::{self, PlanBounds, PlanProperty};
use verdict::plan::{Blame, PlanEvent, PlanMessage, ToldTo};
use verdict::run::{Body, RunRequest};
use verdict::{Context, Event, Moment, ReadSet, Request, RunEvent, State, Verdict, decide};

/// One thread each: the tests run in parallel.
fn prove(bounds: PlanBounds, states_min: usize) {
    let outcome = plans::explore(bounds, 1);
    assert!(outcome.is_proof(), "{outcome}");
    // A world without choices proves nothing.
    assert!(outcome.unique > states_min, "{outcome}");
}

#[test]
fn a_plan_that_is_a_chain() {
    // S2-91: a failure at the head skips everything behind it, and what always runs still runs.
    prove(plans::chain(), 100);
}

#[test]
fn a_plan_that_is_a_diamond() {
    // S2-91: a tolerated failure skips nothing, another one does, and what waits for both hears of both.
    prove(plans::diamond(), 10_000);
}

#[test]
fn every_goal_is_reached_in_some_world() {
    let worlds = plans::all();
    for goal in plans::GOALS {
        assert!(worlds.iter().any(|bounds| !bounds.never.contains(&goal)), "{goal}");
    }
    let named = worlds.iter().flat_map(|bounds| bounds.never);
    named.for_each(|goal| assert!(plans::GOALS.contains(goal), "no goal: {goal}"));
}

type Bug = fn(ReadSet<'_>, &Request, Moment) -> Verdict;

struct BuggyRules(Bug);

impl Rules for BuggyRules {
    fn decide(&self, read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        (self.0)(read_set, request, at)
    }
}

fn must_be_found(bounds: PlanBounds, bug: Bug, property: PlanProperty) {
    let found = plans::find(bounds, BuggyRules(bug), property);
    assert!(found.is_some(), "the bug went unnoticed by {}", property.name());
}

/// The verdict, with other events of the plan.
fn with_events(mut verdict: Verdict, change: impl Fn(&mut PlanEvent)) -> Verdict {
    for event in &mut verdict.events {
        if let Event::Run(event) = event
            && let RunEvent::Plan(event) = &mut **event
        {
            change(event);
        }
    }
    verdict
}

fn is_message(request: &Request, is_it: impl Fn(&Body) -> bool) -> bool {
    matches!(request, Request::Run(request)
        if matches!(&**request, RunRequest::Message(message) if is_it(&message.body)))
}

#[test]
fn a_step_that_runs_although_one_before_it_failed() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        with_events(decide(read_set, request, at), |event| {
            if let PlanEvent::DownstreamsTold { told, .. } = event {
                let skips = told.iter_mut().filter(|told| told.to == ToldTo::Skip);
                skips.for_each(|told| told.to = ToldTo::Run);
            }
        })
    }
    must_be_found(plans::chain(), bug, PlanProperty::RunsInTurn);
}

#[test]
fn a_step_that_is_skipped_although_its_upstreams_succeeded() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        with_events(decide(read_set, request, at), |event| {
            if let PlanEvent::DownstreamsTold { ended, told, .. } = event {
                let blame = Blame { key: ended.key.clone(), state: State::Failed, halt: None };
                for told in told.iter_mut().filter(|told| told.to == ToldTo::Run) {
                    (told.to, told.blame) = (ToldTo::Skip, Some(blame.clone()));
                }
            }
        })
    }
    must_be_found(plans::diamond(), bug, PlanProperty::SkippedForCause);
}

#[test]
fn a_run_that_succeeds_although_a_step_failed() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut verdict = decide(read_set, request, at);
        for event in &mut verdict.events {
            if let Event::Ended(end) = event
                && read_set.subject.live().is_some_and(|task| task.plan_root().is_some())
            {
                (end.state, end.reason, end.fault) = (State::Succeeded, None, None);
            }
        }
        verdict
    }
    must_be_found(plans::chain(), bug, PlanProperty::EndsAsStepsSay);
}

#[test]
fn a_skip_that_is_not_passed_on() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let is_skip = |body: &Body| matches!(body, Body::Plan(PlanMessage::Skip { .. }));
        match is_message(request, is_skip) {
            true => Verdict::nothing(),
            false => decide(read_set, request, at),
        }
    }
    must_be_found(plans::chain(), bug, PlanProperty::EverythingEnds);
}

#[test]
fn a_slice_that_is_the_last_although_there_are_more() {
    fn bug(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut loaded = read_set.context.run.cloned().unwrap_or_default();
        if let Some(plan) = &mut loaded.plan {
            plan.has_more_downstreams = false;
        }
        let context = Context { run: Some(&loaded), ..read_set.context };
        decide(ReadSet { context, ..read_set }, request, at)
    }
    must_be_found(plans::diamond(), bug, PlanProperty::EverythingEnds);
}
