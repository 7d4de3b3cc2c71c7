//! Budgets in a store: the balance of a task is part of its row, through every decision and every opening.

use verdict::budget::{Amounts, Balance, Budget, Limits};
use verdict::request::{Heartbeat, Submit};
use verdict::run::{ChildCall, Metered, RunRequest, Spend, Then};
use verdict::{Request, Scope, Span, State, Subject, TaskId};

use super::family::{Delivery, Family, call, child, finish, lease, step, with_children};
use crate::conformance::carry::Submission;
use crate::conformance::driver::Driver;
use crate::conformance::fixture::Fixture;

fn budget(tokens: u64) -> Option<Box<Budget>> {
    let limits = Limits { tokens: Some(tokens), ..Limits::default() };
    let reserve = Amounts { tokens: 3, ..Amounts::default() };
    Some(Box::new(Budget { limits, reserve, ..Budget::default() }))
}

async fn funded<F: Fixture>(driver: &mut Driver<F>, tokens: u64) -> store::TaskKey {
    let mut submission = Submission::new(TaskId::from_u128(900), &Scope::default(), "flow");
    submission.submit.budget = budget(tokens);
    let key = submission.task_key();
    driver.submit(submission).await;
    key
}

fn of_budget(key: &str, id: u128, tokens: u64) -> ChildCall {
    let asked = child(key, id);
    ChildCall { submit: Submit { budget: budget(tokens), ..asked.submit }, ..asked }
}

async fn balance<F: Fixture>(driver: &mut Driver<F>, key: &store::TaskKey) -> Balance {
    let run = match driver.load(key).await {
        Subject::Live(task) => task.run,
        Subject::Done(done) => done.run,
        Subject::Absent => None,
    };
    *run.and_then(|run| run.balance).expect("it has a budget")
}

/// Ceilings are held and come back, totals count once, a lost attempt settles its reservation, and a halt keeps all of it.
pub async fn are_kept_with_their_tasks<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let run = funded(driver, 100).await;
    let worker = lease(driver, "flow").await;
    // The step uses 7, and each child takes its ceiling.
    let asked = call(&worker, vec![step("a", "1")], Then::Continue);
    let kids = vec![of_budget("one", 1 << 64, 30), of_budget("two", (1 << 64) + 1, 20)];
    family.ask(driver, &run, with_children(asked, kids)).await;
    let kept = balance(driver, &run).await;
    assert_eq!((kept.used.tokens, kept.held.tokens, kept.used.steps), (7, 50, 1));
    // One child says what it used and ends; the rest of its ceiling comes back.
    let one = store::TaskKey { scope: Scope::default(), id: TaskId::from_u128(1 << 64) };
    let kid = lease(driver, "one").await;
    let beat = Request::Heartbeat(Heartbeat { caller: kid.clone(), progress: None });
    let total = Spend { tokens: 12, ..Spend::default() };
    for _ in 0..2 {
        let metered = Metered { total, call: Box::new(beat.clone()) };
        family.ask(driver, &one, RunRequest::Metered(metered)).await;
    }
    assert_eq!(balance(driver, &one).await.used.tokens, 12);
    family.ask(driver, &one, finish(&kid)).await;
    let kept = balance(driver, &run).await;
    assert_eq!((kept.used.tokens, kept.held.tokens), (19, 20));
    // The worker of the other child is lost in the middle of a step: its reservation counts.
    let two = store::TaskKey { scope: Scope::default(), id: TaskId::from_u128((1 << 64) + 1) };
    let kid = lease(driver, "two").await;
    let beat = Request::Heartbeat(Heartbeat { caller: kid, progress: None });
    family.about(driver, &two, beat).await;
    driver.wait(Span::from_secs(3600));
    family.sweep(driver).await;
    assert_eq!(balance(driver, &two).await.used.tokens, 3);
    family.check(driver).await;
}

/// The call that crosses the limit halts its task, and what it recorded stays.
pub async fn end_a_task_with_its_steps<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let run = funded(driver, 10).await;
    let worker = lease(driver, "flow").await;
    let asked = call(&worker, vec![step("a", "1"), step("b", "2")], Then::Continue);
    family.ask(driver, &run, RunRequest::Checkpoint(asked)).await;
    assert_eq!(driver.load(&run).await.state(), Some(State::Halted));
    let kept = balance(driver, &run).await;
    assert_eq!((kept.used.tokens, kept.used.steps), (14, 2));
    family.check(driver).await;
}
