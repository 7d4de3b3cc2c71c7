//! Steps that are prepared before they begin: conditions, and questions about what earlier steps returned.

use std::sync::Arc;

use verdict::plan::{Found, PlanRequest, Prepared, Shown, Stage, StepTerms};
use verdict::request::CancelMode;
use verdict::{Answer, Policy, Reason, Request, Span, State};

use crate::asking::{end, terms};
use crate::family::{Family, ROOT};
use crate::planned::{
    PLAIN, advance, advanced, next_lease, plan, planned, stage, staged, step, task_of,
};
use crate::world::{report, succeeded};

fn prepared(place: u32, found: Found) -> Request {
    plan(PlanRequest::Prepared(Prepared { place, found }))
}

fn begins() -> Found {
    Found::Begins { shown: None }
}

fn unneeded() -> Found {
    Found::Unneeded { why: "`a.output` must exist".into() }
}

/// Three stages, of which the second is prepared.
fn three(second: Stage) -> Vec<Stage> {
    vec![stage("a"), Stage { is_prepared: true, ..second }, stage("c")]
}

/// The first of three stages has ended, and the second is being prepared.
fn preparing(second: Stage) -> Family {
    let mut family = staged(three(second), Policy::default());
    let caller = family.grant(ROOT);
    let answer = family.ask(ROOT, report(&caller, succeeded()));
    assert!(matches!(answer, Answer::Committed { state: State::Waiting, .. }), "{answer:?}");
    assert_eq!(family.task(ROOT).preparing(), Some(1));
    family
}

#[test]
fn a_stage_begins_when_it_was_prepared_and_the_answer_counts_once() {
    let mut family = preparing(stage("b"));
    assert_eq!(family.task(ROOT).claimable_at(), None, "no worker gets it");
    family.ask_in_vain(ROOT, prepared(0, begins()));
    family.ask(ROOT, prepared(1, begins()));
    assert_eq!((family.state(ROOT), family.task(ROOT).kind.as_str()), (Some(State::Queued), "b"));
    family.ask_in_vain(ROOT, prepared(1, unneeded()));
    family.finish(ROOT);
    family.finish(ROOT);
    assert_eq!(end(&family, ROOT), (State::Succeeded, None));
}

#[test]
fn a_worker_gets_no_stage_with_its_report_that_is_prepared() {
    let mut family = staged(three(stage("b")), Policy::default());
    let caller = family.grant(ROOT);
    let next = family.ask(ROOT, advance(&caller, succeeded(), next_lease(90)));
    assert_eq!(advanced(next), None);
    assert_eq!(family.task(ROOT).preparing(), Some(1));
}

#[test]
fn a_stage_whose_condition_does_not_hold_is_left_out_and_the_next_one_runs() {
    let mut family = preparing(stage("b"));
    family.ask(ROOT, prepared(1, unneeded()));
    assert_eq!((family.state(ROOT), family.task(ROOT).kind.as_str()), (Some(State::Queued), "c"));
    family.finish(ROOT);
    assert_eq!(end(&family, ROOT), (State::Succeeded, None));
    // The last stage, too.
    let last = Stage { is_prepared: true, ..stage("b") };
    let mut family = staged(vec![stage("a"), last], Policy::default());
    family.finish(ROOT);
    family.ask(ROOT, prepared(1, unneeded()));
    assert_eq!(end(&family, ROOT), (State::Succeeded, None));
}

#[test]
fn what_was_composed_is_what_people_are_asked() {
    let mut family = preparing(Stage { asks: Some(Arc::new(terms(1))), ..stage("b") });
    let open = |family: &Family| family.task(ROOT).run.as_ref().unwrap().approvals.open.clone();
    assert_eq!(open(&family), [], "nobody is asked before it is composed");
    let shown = Shown { subject: Some("pay 7?".into()), content: Some("7".into()) };
    family.ask(ROOT, prepared(1, Found::Begins { shown: Some(Box::new(shown)) }));
    let asked = open(&family).remove(0).terms;
    assert_eq!(asked.subject.unwrap().as_str(), "pay 7?");
    assert_eq!(asked.content.unwrap().as_str(), "7");
    assert_eq!(asked.digest, Some(verdict::Digest::of_bytes(b"7")));
}

#[test]
fn a_question_that_cannot_be_composed_fails_its_stage() {
    let mut family = preparing(stage("b"));
    family.ask(ROOT, prepared(1, Found::Unresolved { message: "no `/x`".into() }));
    assert_eq!(end(&family, ROOT), (State::Failed, Some(Reason::InputUnresolved)));
}

#[test]
fn a_skip_by_a_condition_keeps_no_downstream_from_running() {
    let conditional = StepTerms { when: Some("{}".into()), ..PLAIN };
    let mut family =
        planned(vec![step(0, &[], PLAIN), step(1, &[0], conditional), step(2, &[1], PLAIN)]);
    family.settle();
    family.finish(task_of(0));
    family.settle();
    assert_eq!(family.task(task_of(1)).preparing(), Some(0));
    family.ask(task_of(1), prepared(0, unneeded()));
    family.settle();
    assert_eq!(end(&family, task_of(1)), (State::Skipped, Some(Reason::ConditionFalse)));
    family.finish(task_of(2));
    family.settle();
    assert_eq!(end(&family, ROOT), (State::Succeeded, None));
}

#[test]
fn a_step_that_was_prepared_is_leased_like_any_other() {
    let conditional = StepTerms { when: Some("{}".into()), ..PLAIN };
    let mut family = planned(vec![step(0, &[], PLAIN), step(1, &[0], conditional)]);
    family.settle();
    family.finish(task_of(0));
    family.settle();
    family.ask(task_of(1), prepared(0, begins()));
    assert_eq!(family.task(task_of(1)).preparing(), None);
    family.finish(task_of(1));
    family.settle();
    assert_eq!(end(&family, ROOT), (State::Succeeded, None));
}

#[test]
fn a_cancel_and_the_longest_wait_end_what_nobody_prepares() {
    let mut family = preparing(stage("b"));
    family.cancel(ROOT, CancelMode::Graceful);
    assert_eq!(end(&family, ROOT), (State::Cancelled, Some(Reason::CancelRequested)));
    family.ask_in_vain(ROOT, prepared(1, begins()));
    let mut family = preparing(stage("b"));
    family.wait(Span::from_secs(31 * 86_400));
    family.sweep(ROOT);
    assert_eq!(end(&family, ROOT), (State::Failed, Some(Reason::WaitTimeout)));
}
