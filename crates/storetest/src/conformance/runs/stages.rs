//! Plans whose steps are stages of one task: the next one is leased with the report of the one before it, unless something
//! more urgent waits in its queue.

use store::row::TaskKey;
use store::seam::{Batch, Writer};
use verdict::plan::{
    Advance, Capabilities, NextLease, PlanAnswer, PlanForm, PlanRequest, PlanSubmit, Stage,
};
use verdict::request::{Caller, Outcome, Report, Submit};
use verdict::run::{ChildCall, RunAnswer, RunRequest, Then};
use verdict::{
    Answer, Budget, Digest, Json, LeaseId, Limits, Name, Policy, Request, Scope, Span, State, Task,
    TaskId, Unit,
};

use super::family::{Delivery, Family, call, child, finish, lease, step, with_children};
use crate::conformance::carry::Submission;
use crate::conformance::driver::Driver;
use crate::conformance::fixture::Fixture;

const NEXT: LeaseId = LeaseId::from_u128(77 << 64);

/// A stage that waits in a queue of its own name.
fn stage(key: &str) -> Stage {
    Stage {
        key: key.into(),
        kind: key.into(),
        queue: key.into(),
        policy: Policy::default(),
        ceiling: Limits::default(),
        time_limit: None,
        input: Digest::of(&[key.as_bytes()]),
        has_references: false,
        continues_on_error: false,
        is_always: false,
        is_gate: false,
        may: Capabilities::ALL,
        asks: None,
        is_prepared: false,
    }
}

async fn submit<F: Fixture>(driver: &mut Driver<F>, family: &mut Family, keys: &[&str]) -> TaskKey {
    submit_stages(driver, family, keys.iter().map(|key| stage(key)).collect()).await
}

async fn submit_stages<F: Fixture>(
    driver: &mut Driver<F>,
    family: &mut Family,
    stages: Vec<Stage>,
) -> TaskKey {
    let task = TaskKey { scope: Scope::default(), id: TaskId::from_u128(1 << 64) };
    let mut submission = Submission::new(task.id, &task.scope, stages[0].queue.as_str());
    submission.submit.kind = stages[0].kind.clone();
    let stages = stages.into();
    let form = PlanForm::Stages { digest: Digest::of(&[b"plan"]), stages };
    let plan = PlanSubmit { submit: submission.submit, form, steps: [].into() };
    let request = RunRequest::Plan(PlanRequest::Submit(plan));
    family.submit(driver, &task, request, submission.spec).await;
    task
}

/// A report that asks for the next stage. Its output is too long for the history.
fn report(caller: &Caller, lease: LeaseId, closed_queues: Vec<Name>) -> RunRequest {
    let output = Some(Json::from(format!("\"{}\"", "x".repeat(500))));
    let (outcome, digest) = (Outcome::Succeeded { output }, Digest::of(&[b"report"]));
    let report = Report { caller: caller.clone(), outcome, digest, claims: None, by: None };
    let next = NextLease { lease, until: u32::MAX, closed_queues };
    let report = Box::new(Request::Report(report));
    RunRequest::Plan(PlanRequest::Advance(Advance { report, next }))
}

fn leased(answer: Answer) -> Option<LeaseId> {
    match answer {
        Answer::Run(answer) => match *answer {
            RunAnswer::Plan(PlanAnswer::Advanced { lease, .. }) => lease,
            other => panic!("not advanced but {other:?}"),
        },
        other => panic!("not advanced but {other:?}"),
    }
}

async fn live<F: Fixture>(driver: &mut Driver<F>, task: &TaskKey) -> Task {
    driver.load(task).await.live().expect("the task is live").clone()
}

pub async fn are_leased_with_the_report_before<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let task = submit(driver, &mut family, &["a", "b", "c"]).await;
    let first = lease(driver, "a").await;
    let next = family.ask(driver, &task, report(&first, NEXT, Vec::new())).await;
    assert_eq!(leased(next), Some(NEXT));
    let second = live(driver, &task).await;
    assert_eq!((second.queue.as_str(), second.attempt), ("b", 2));
    assert_eq!(second.lease().map(|lease| lease.id), Some(NEXT));
    for queue in ["a", "b", "c"] {
        assert_eq!(driver.lease(&Scope::default(), queue, 1).await, [], "it is leased");
    }
    // The same report again, after the store forgot everything that it had in memory.
    let other = LeaseId::from_u128(78 << 64);
    let again = family.ask(driver, &task, report(&first, other, Vec::new())).await;
    assert_eq!(leased(again), Some(NEXT));
    family.check(driver).await;
    // Nobody was heard of under it: the stage waits in its queue again.
    driver.wait(Span::from_secs(3_600));
    while family.sweep(driver).await > 0 {}
    driver.wait(Span::from_secs(3_600));
    let third = lease(driver, "b").await;
    assert_eq!(third.attempt, 3);
    let late = family.ask(driver, &task, report(&first, other, Vec::new())).await;
    assert_eq!(leased(late), None);
    family.check(driver).await;
}

/// A lease that is longer than that of the other stages.
const LONG: Span = Span::from_secs(7_200);

/// How often the row of the task is written by [`stay_at_their_place`]: its lease, the first report, and the second one,
/// whose stage has another lease, twice.
pub const WRITES: i64 = 4;

pub async fn stay_at_their_place<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let at = |key: &str| Stage { kind: "k".into(), queue: "q".into(), ..stage(key) };
    let policy = Policy { lease: LONG, ..Policy::default() };
    let task =
        submit_stages(driver, &mut family, vec![at("a"), at("b"), Stage { policy, ..at("c") }])
            .await;
    let first = lease(driver, "q").await;
    let next = family.ask(driver, &task, report(&first, NEXT, Vec::new())).await;
    assert_eq!(leased(next), Some(NEXT));
    let second = live(driver, &task).await;
    assert_eq!((second.queue.as_str(), second.attempt), ("q", 2));
    assert_eq!(second.policy.lease, Policy::default().lease);
    let second = Caller { attempt: 2, lease: NEXT, ..first };
    let last = family.ask(driver, &task, report(&second, NEXT, vec!["q".into()])).await;
    assert_eq!(leased(last), None);
    assert_eq!(live(driver, &task).await.policy.lease, LONG);
    family.check(driver).await;
}

pub async fn wait_in_their_queue_otherwise<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let task = submit(driver, &mut family, &["a", "b"]).await;
    let first = lease(driver, "a").await;
    let next = family.ask(driver, &task, report(&first, NEXT, vec!["b".into()])).await;
    assert_eq!(leased(next), None);
    assert_eq!(live(driver, &task).await.state(), State::Queued);
    assert_eq!(lease(driver, "b").await.attempt, 2);
    family.check(driver).await;
}

pub async fn give_way_to_what_is_more_urgent<F: Fixture>(driver: &mut Driver<F>) {
    let (here, elsewhere) = (Scope::default(), Scope::new("other", "default"));
    let queues =
        [(here.clone(), Name::from("q")), (here.clone(), "none".into()), (elsewhere, "q".into())];
    let most_urgent = async |driver: &mut Driver<F>| {
        driver.pause().await;
        let mut batch = driver.writer().begin().await.expect("a batch can be begun");
        let at = batch.moment().await.expect("the clock can be read");
        let found = batch.most_urgent(&queues, at.now).await.expect("queues can be looked at");
        batch.commit().await.expect("the batch commits");
        found
    };
    assert_eq!(most_urgent(driver).await, [None; 3]);
    let later = driver.now().plus(Span::from_secs(60));
    for (priority, run_at) in [(-3, None), (5, None), (9, Some(later)), (1, None)] {
        let mut submission = driver.submission(&here, "q");
        (submission.submit.priority, submission.submit.run_at) = (priority, run_at);
        driver.submit(submission).await;
    }
    assert_eq!(most_urgent(driver).await, [Some(5), None, None]);
    assert_eq!(driver.lease(&here, "q", 1).await.len(), 1);
    assert_eq!(most_urgent(driver).await, [Some(1), None, None]);
    driver.wait(Span::from_secs(60));
    assert_eq!(most_urgent(driver).await, [Some(9), None, None]);
}

fn up_to(key: &str, tokens: u64) -> Stage {
    Stage { ceiling: limits(tokens), continues_on_error: true, ..stage(key) }
}

fn limits(tokens: u64) -> Limits {
    Limits { tokens: Some(tokens), ..Limits::default() }
}

/// Ceilings are read back with their stages, what a stage used is counted through every opening, and a child gives back to
/// the stage that paid for it.
pub async fn keep_their_ceilings<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let stages = vec![up_to("a", 60), up_to("b", 10), stage("c")];
    let task = submit_stages(driver, &mut family, stages).await;
    let left = async |driver: &mut Driver<F>| {
        let task = live(driver, &task).await;
        (task.queue.to_string(), task.balance().and_then(|it| it.left(Unit::Tokens)))
    };
    let worker = lease(driver, "a").await;
    assert_eq!(left(driver).await, ("a".to_owned(), Some(60)));
    // Each step uses 7, and the child takes its ceiling.
    let budget = Some(Box::new(Budget { limits: limits(50), ..Budget::default() }));
    let asked = child("kid", 2 << 64);
    let kid = ChildCall { submit: Submit { budget, ..asked.submit }, ..asked };
    let asked = call(&worker, vec![step("one", "1")], Then::Continue);
    family.ask(driver, &task, with_children(asked, vec![kid])).await;
    assert_eq!(left(driver).await, ("a".to_owned(), Some(3)));
    // Over its ceiling: the stage ends, and the task goes on.
    let asked = call(&worker, vec![step("two", "2")], Then::Continue);
    family.ask(driver, &task, RunRequest::Checkpoint(asked)).await;
    assert_eq!(left(driver).await, ("b".to_owned(), Some(10)));
    family.check(driver).await;
    let kid = TaskKey { scope: Scope::default(), id: TaskId::from_u128(2 << 64) };
    let worker = lease(driver, "kid").await;
    family.ask(driver, &kid, finish(&worker)).await;
    assert_eq!(left(driver).await, ("b".to_owned(), Some(10)), "the stage before paid");
    let worker = lease(driver, "b").await;
    let asked = call(&worker, vec![step("three", "3"), step("four", "4")], Then::Continue);
    family.ask(driver, &task, RunRequest::Checkpoint(asked)).await;
    assert_eq!(left(driver).await, ("c".to_owned(), None));
    family.check(driver).await;
    let worker = lease(driver, "c").await;
    family.ask(driver, &task, finish(&worker)).await;
    assert_eq!(driver.load(&task).await.state(), Some(State::Succeeded));
    family.check(driver).await;
}

/// Steps and children that ride along with a report do not keep its worker from the next stage.
pub async fn are_leased_with_the_last_call<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let task = submit(driver, &mut family, &["a", "b"]).await;
    let first = lease(driver, "a").await;
    // Both are too long for the history.
    let long = format!("\"{}\"", "y".repeat(500));
    let output = Some(Json::from(format!("\"{}\"", "x".repeat(500))));
    let outcome = Outcome::Succeeded { output: output.clone() };
    let last = call(&first, vec![step("one", &long)], Then::Report { outcome, claims: None });
    let last = with_children(last, vec![child("kid", 2 << 64)]);
    let advance = |lease| {
        let report = Box::new(Request::Run(Box::new(last.clone())));
        let next = NextLease { lease, until: u32::MAX, closed_queues: Vec::new() };
        RunRequest::Plan(PlanRequest::Advance(Advance { report, next }))
    };
    assert_eq!(leased(family.ask(driver, &task, advance(NEXT)).await), Some(NEXT));
    let second = live(driver, &task).await;
    assert_eq!((second.queue.as_str(), second.live_children()), ("b", 1));
    let again = family.ask(driver, &task, advance(LeaseId::from_u128(78 << 64))).await;
    assert_eq!(leased(again), Some(NEXT));
    // What is read back decides again as it did, its long texts included.
    family.check(driver).await;
    let kid = lease(driver, "kid").await;
    let kid_key = TaskKey { scope: Scope::default(), id: TaskId::from_u128(2 << 64) };
    family.ask(driver, &kid_key, finish(&kid)).await;
    family.check(driver).await;
}
