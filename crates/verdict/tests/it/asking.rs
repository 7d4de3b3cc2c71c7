//! Steps of a plan that ask people instead of a worker.

use std::sync::Arc;

use verdict::approval::{DecideCall, Decision, Outcome, Terms};
use verdict::plan::{Stage, StepTerms};
use verdict::request::CancelMode;
use verdict::run::{Recorded, RunAnswer, RunRequest, StepOutcome};
use verdict::{Answer, Policy, Reason, Request, Span, State, Subject, TaskId};

use crate::family::{Family, ROOT, refused, run};
use crate::planned::{
    PLAIN, advance, advanced, always, next_lease, planned, stage, staged, step, submit_stages,
    task_of,
};
use crate::world::{report, secs, succeeded};

pub(crate) fn terms(quorum: u32) -> Terms {
    Terms {
        roles: vec![],
        keys: vec![],
        quorum,
        expires_at: None,
        expires_in: None,
        default: None,
        subject: Some("ship it".into()),
        digest: None,
        content: None,
        shows: None,
        done_by: vec![],
    }
}

fn asking(key: &str, terms: Terms) -> Stage {
    Stage { asks: Some(Arc::new(terms)), ..stage(key) }
}

fn decide(number: u32, key: &str, decision: Decision) -> Request {
    let roles = vec!["approver".into()];
    let (digest, comment) = (None, Some("\"fine\"".into()));
    run(RunRequest::Decide(DecideCall {
        number,
        key: key.into(),
        roles,
        decision,
        digest,
        comment,
    }))
}

fn outcome(answer: Answer) -> Option<Outcome> {
    match answer {
        Answer::Run(answer) => match *answer {
            RunAnswer::Voted { outcome } => outcome,
            other => panic!("not a vote but {other:?}"),
        },
        other => panic!("not a vote but {other:?}"),
    }
}

fn open(family: &Family, task: TaskId) -> Vec<u32> {
    let run = family.task(task).run.as_ref().expect("a task of a plan");
    run.approvals.open.iter().map(|approval| approval.number).collect()
}

fn result(family: &Family, key: &str) -> String {
    let found = family.members[&ROOT].records.checkpoint(&key.into()).expect("the stage has ended");
    match &found.recorded {
        Recorded::Step(step) => match &step.outcome {
            StepOutcome::Succeeded { result } => {
                result.as_ref().expect("it has a result").to_string()
            }
            StepOutcome::Failed { reason, .. } => reason.clone().expect("it says why").to_string(),
        },
        other => panic!("not a step but {other:?}"),
    }
}

pub(crate) fn end(family: &Family, task: TaskId) -> (State, Option<Reason>) {
    match family.subject(task) {
        Subject::Done(done) => (done.end.state, done.end.reason),
        other => panic!("not ended but {:?}", other.state()),
    }
}

/// A run whose first stage has ended, and whose second one asks.
fn asked(second: Stage) -> Family {
    let mut family = staged(vec![stage("a"), second, stage("c")], Policy::default());
    let caller = family.grant(ROOT);
    let answer = family.ask(ROOT, report(&caller, succeeded()));
    assert!(matches!(answer, Answer::Committed { state: State::Waiting, .. }), "{answer:?}");
    family
}

#[test]
fn a_stage_waits_for_people_and_goes_on_with_what_they_decided() {
    let mut family = asked(asking("ask", terms(2)));
    assert_eq!((family.state(ROOT), open(&family, ROOT)), (Some(State::Waiting), vec![1]));
    assert_eq!(family.task(ROOT).claimable_at(), None);
    assert_eq!(outcome(family.ask(ROOT, decide(1, "ann", Decision::Approved))), None);
    let twice = family.ask_in_vain(ROOT, decide(1, "ann", Decision::Approved));
    assert_eq!(refused(twice), "already_voted");
    let approved = family.ask(ROOT, decide(1, "bob", Decision::Approved));
    assert_eq!(outcome(approved), Some(Outcome::Approved));
    assert!(result(&family, "ask").starts_with(r#"{"outcome":"APPROVED","votes":[{"key":"ann""#));
    assert_eq!((family.state(ROOT), family.task(ROOT).kind.as_str()), (Some(State::Queued), "c"));
    let late = family.ask_in_vain(ROOT, decide(1, "eve", Decision::Rejected));
    assert_eq!(refused(late), "approval_closed");
    let caller = family.grant(ROOT);
    assert_eq!(caller.attempt, 2, "asking is no attempt");
    family.ask(ROOT, report(&caller, succeeded()));
    assert_eq!(end(&family, ROOT), (State::Succeeded, None));
}

#[test]
fn a_rejection_ends_the_run_unless_the_step_tolerates_it() {
    let mut family = asked(asking("ask", terms(1)));
    family.ask(ROOT, decide(1, "ann", Decision::Rejected));
    assert_eq!(end(&family, ROOT), (State::Failed, Some(Reason::NotApproved)));
    let mut family = asked(Stage { continues_on_error: true, ..asking("ask", terms(1)) });
    family.ask(ROOT, decide(1, "ann", Decision::Rejected));
    assert_eq!(result(&family, "ask"), "NOT_APPROVED");
    assert_eq!(family.task(ROOT).kind.as_str(), "c");
    // A stage that must run runs, and then the run ends as it was decided.
    let stages = vec![asking("ask", terms(1)), stage("b"), always("clean")];
    let mut family = staged(stages, Policy::default());
    family.ask(ROOT, decide(1, "ann", Decision::Rejected));
    assert_eq!(family.task(ROOT).kind.as_str(), "clean");
    family.finish(ROOT);
    assert_eq!(end(&family, ROOT), (State::Failed, Some(Reason::NotApproved)));
}

#[test]
fn time_decides_as_the_step_says() {
    let hour = Span::from_secs(3_600);
    let after_an_hour = |stage: Stage| {
        let mut family = asked(stage);
        family.wait(hour);
        family.sweep(ROOT);
        family
    };
    let expiring = |default| Terms { expires_in: Some(hour), default, ..terms(1) };
    let family = after_an_hour(asking("ask", expiring(Some(Decision::Approved))));
    assert_eq!(family.task(ROOT).kind.as_str(), "c");
    for default in [Some(Decision::Rejected), None] {
        let family = after_an_hour(asking("ask", expiring(default)));
        assert_eq!(end(&family, ROOT), (State::Failed, Some(Reason::NotApproved)));
    }
    let limited = Stage { time_limit: Some(secs(60)), ..asking("ask", terms(1)) };
    let family = after_an_hour(limited);
    assert_eq!(end(&family, ROOT), (State::Failed, Some(Reason::DeadlineExceeded)));
    // Without an expiry a question is withdrawn after the longest wait; a longer expiry is waited for.
    let family = after_an_hour(asking("ask", terms(1)));
    assert_eq!(family.state(ROOT), Some(State::Waiting));
    let long = Terms { expires_in: Some(Span::from_secs(90 * 86_400)), ..terms(1) };
    for (terms, is_over) in [(terms(1), true), (long, false)] {
        let mut family = asked(asking("ask", terms));
        family.wait(Span::from_secs(31 * 86_400));
        family.sweep(ROOT);
        assert_eq!(matches!(family.subject(ROOT), Subject::Done(_)), is_over);
    }
}

#[test]
fn a_plan_may_begin_with_a_question_and_ask_again() {
    let stages = vec![asking("first", terms(1)), asking("second", terms(1)), stage("c")];
    let mut family = Family::empty();
    let answer = family.ask(ROOT, submit_stages(stages, Policy::default()));
    assert!(matches!(answer, Answer::Accepted { state: State::Waiting, .. }), "{answer:?}");
    family.ask(ROOT, decide(1, "ann", Decision::Approved));
    assert_eq!(open(&family, ROOT), [2]);
    family.ask(ROOT, decide(2, "ann", Decision::Approved));
    assert_eq!(family.task(ROOT).kind.as_str(), "c");
}

#[test]
fn a_cancel_withdraws_the_question_and_no_worker_gets_it() {
    let mut family = asked(asking("ask", terms(1)));
    family.cancel(ROOT, CancelMode::Graceful);
    assert_eq!(end(&family, ROOT), (State::Cancelled, Some(Reason::CancelRequested)));
    let late = family.ask_in_vain(ROOT, decide(1, "ann", Decision::Approved));
    assert_eq!(refused(late), "approval_closed");
    let mut family = staged(vec![stage("a"), asking("ask", terms(1))], Policy::default());
    let caller = family.grant(ROOT);
    let next = family.ask(ROOT, advance(&caller, succeeded(), next_lease(90)));
    assert_eq!(advanced(next), None);
    assert_eq!(family.state(ROOT), Some(State::Waiting));
}

#[test]
fn a_step_with_edges_asks_once_its_upstreams_have_ended() {
    let asks = |quorum| StepTerms { asks: Some(Arc::new(terms(quorum))), ..PLAIN };
    let steps = || {
        vec![
            step(0, &[], PLAIN),
            step(1, &[0], asks(1)),
            step(2, &[1], PLAIN),
            step(3, &[], asks(1)),
        ]
    };
    let begin = || {
        let mut family = planned(steps());
        family.settle();
        assert_eq!(open(&family, task_of(3)), [1], "it has no upstreams");
        assert_eq!(open(&family, task_of(1)), []);
        family.finish(task_of(0));
        family.settle();
        assert_eq!(family.state(task_of(1)), Some(State::Waiting));
        assert_eq!(open(&family, task_of(1)), [1]);
        family
    };
    let mut family = begin();
    family.ask(task_of(1), decide(1, "ann", Decision::Approved));
    family.ask(task_of(3), decide(1, "ann", Decision::Approved));
    family.settle();
    family.finish(task_of(2));
    family.settle();
    assert_eq!(end(&family, ROOT), (State::Succeeded, None));
    let mut family = begin();
    family.ask(task_of(1), decide(1, "ann", Decision::Rejected));
    family.settle();
    assert_eq!(end(&family, task_of(1)), (State::Failed, Some(Reason::NotApproved)));
    assert_eq!(end(&family, task_of(2)), (State::Skipped, Some(Reason::UpstreamFailed)));
    family.ask(task_of(3), decide(1, "ann", Decision::Approved));
    family.settle();
    assert_eq!(end(&family, ROOT), (State::Failed, Some(Reason::StepFailed)));
}

#[test]
fn the_key_that_did_the_work_does_not_decide_about_it() {
    // The key of every stage before the question is barred, also of one that was not the last.
    let stages = vec![stage("a"), stage("b"), asking("ask", terms(1)), stage("c")];
    let mut family = staged(stages, Policy::default());
    for by in ["maker", "finisher"] {
        let caller = family.grant(ROOT);
        family.ask(ROOT, by_key(report(&caller, succeeded()), by));
    }
    for key in ["maker", "finisher"] {
        let own = family.ask_in_vain(ROOT, decide(1, key, Decision::Approved));
        assert_eq!(refused(own), "approval_forbidden", "{key}");
    }
    let approved = family.ask(ROOT, decide(1, "ann", Decision::Approved));
    assert_eq!(outcome(approved), Some(Outcome::Approved));
}

/// The report of an attempt that was leased under this API key.
fn by_key(request: Request, key: &str) -> Request {
    let Request::Report(report) = request else { panic!("not a report: {request:?}") };
    Request::Report(verdict::request::Report { by: Some(key.into()), ..report })
}

#[test]
fn people_decide_about_the_digest_of_the_output_that_they_are_shown() {
    let shown = Terms { shows: Some("a".into()), ..terms(1) };
    let stages = vec![stage("a"), stage("b"), asking("ask", shown), stage("c")];
    let mut family = staged(stages, Policy::default());
    for _ in 0..2 {
        let caller = family.grant(ROOT);
        family.ask(ROOT, report(&caller, succeeded()));
    }
    let blind = family.ask_in_vain(ROOT, decide(1, "ann", Decision::Approved));
    assert_eq!(refused(blind), "approval_digest_mismatch");
    let run = family.task(ROOT).run.as_ref().expect("a task of a plan");
    let digest = run.approvals.open[0].terms.digest;
    let output = result(&family, "a");
    assert_eq!(digest, Some(verdict::Digest::of_bytes(output.as_bytes())));
    let Request::Run(asked) = decide(1, "ann", Decision::Approved) else { unreachable!() };
    let RunRequest::Decide(call) = *asked else { unreachable!() };
    let seen = verdict::run::RunRequest::Decide(DecideCall { digest, ..call });
    assert_eq!(outcome(family.ask(ROOT, crate::family::run(seen))), Some(Outcome::Approved));
}

#[test]
fn the_key_that_did_a_step_does_not_decide_in_a_later_one() {
    // 0 → 1 → 2 asks, and 3 asks at once.
    let keeps = verdict::plan::StepTerms { keeps_keys: true, ..PLAIN };
    let asks =
        verdict::plan::StepTerms { asks: Some(Arc::new(terms(1))), keeps_keys: true, ..PLAIN };
    let steps = vec![
        step(0, &[], keeps.clone()),
        step(1, &[0], keeps),
        step(2, &[1], asks.clone()),
        step(3, &[], asks),
    ];
    let mut family = planned(steps);
    family.settle();
    for (place, by) in [(0, "maker"), (1, "finisher")] {
        let caller = family.grant(task_of(place));
        family.ask(task_of(place), by_key(report(&caller, succeeded()), by));
        family.settle();
    }
    for key in ["maker", "finisher"] {
        let own = family.ask_in_vain(task_of(2), decide(1, key, Decision::Approved));
        assert_eq!(refused(own), "approval_forbidden", "{key}");
    }
    let approved = family.ask(task_of(2), decide(1, "ann", Decision::Approved));
    assert_eq!(outcome(approved), Some(Outcome::Approved));
    // Nothing was done before the question that came first.
    let first = family.ask(task_of(3), decide(1, "maker", Decision::Approved));
    assert_eq!(outcome(first), Some(Outcome::Approved));
    family.repeat_messages();
}
