//! A store with durable runs in every form: for tests that read, copy or damage whole stores.

use store::row::TaskKey;
use verdict::run::{AwaitedEvent, Divergence, RunRequest, Then, WaitMode};
use verdict::{Scope, TaskId};

use super::family::{
    Delivery, Family, call, child, finish, lease, savepoint, signal, step, wait, with_children,
};
use super::plans;
use crate::conformance::carry::Submission;
use crate::conformance::driver::Driver;
use crate::conformance::fixture::Fixture;

/// More children than the row of their parent names in its wait.
const MANY: u128 = 20;

/// Adds runs with ids from `base` on: one that waits for many children, of which one has ended and told it, one has ended
/// and not yet told it, and one was asked for and does not exist; one that has diverged; one that has ended; and one whose
/// plan has more steps than one decision spawns.
pub async fn sample<F: Fixture>(driver: &mut Driver<F>, base: u128) {
    let mut family = Family::new(Delivery::AtOnce);
    waits_for_many(driver, &mut family, base).await;
    let ended = start(driver, base + 100, "sample ended").await;
    let worker = lease(driver, "sample ended").await;
    let steps = vec![step("a", "1"), savepoint("b", "2")];
    let asked = call(&worker, steps, Then::Continue);
    family.ask(driver, &ended, RunRequest::Checkpoint(asked)).await;
    family.ask(driver, &ended, finish(&worker)).await;
    let diverged = start(driver, base + 101, "sample diverged").await;
    let worker = lease(driver, "sample diverged").await;
    let (branch, text) = ("main".into(), |it: &str| it.into());
    let divergence = Divergence { branch, index: 1, recorded: text("a"), actual: text("b") };
    let asked = call(&worker, vec![step("a", "1")], Then::Diverged(divergence));
    family.ask(driver, &diverged, RunRequest::Checkpoint(asked)).await;
    plans::wide(base + 200).submit(driver, &mut family).await;
    family.check(driver).await;
}

async fn start<F: Fixture>(driver: &mut Driver<F>, id: u128, queue: &str) -> TaskKey {
    let submission = Submission::new(TaskId::from_u128(id), &Scope::default(), queue);
    let key = submission.task_key();
    driver.submit(submission).await;
    key
}

async fn waits_for_many<F: Fixture>(driver: &mut Driver<F>, family: &mut Family, base: u128) {
    let run = start(driver, base, "sample run").await;
    let worker = lease(driver, "sample run").await;
    let long = format!("\"{}\"", "x".repeat(500));
    let children = (1..MANY).map(|n| child(&format!("sample {n:02}"), base + n)).collect();
    let asked = call(&worker, vec![step("long", &long)], Then::Continue);
    family.ask(driver, &run, with_children(asked, children)).await;
    family.ask(driver, &run, signal("go", Some("key"), "\"kept\"")).await;
    family.ask(driver, &run, signal("go", None, "\"pending\"")).await;
    let take = wait("take", WaitMode::Any, vec![AwaitedEvent::Signal("go".into())]);
    family.ask(driver, &run, RunRequest::Checkpoint(call(&worker, vec![], take))).await;
    end(driver, family, base, 1).await;
    family.delivery = Delivery::Later;
    end(driver, family, base, 2).await;
    let last = vec![child(&format!("sample {MANY:02}"), base + MANY)];
    let items = (1..=MANY).map(|n| AwaitedEvent::Child(format!("sample {n:02}").into()));
    let join = wait("join", WaitMode::All, items.collect());
    family.ask(driver, &run, with_children(call(&worker, vec![], join), last)).await;
    family.delivery = Delivery::AtOnce;
}

/// Lets the `n`th child end.
async fn end<F: Fixture>(driver: &mut Driver<F>, family: &mut Family, base: u128, n: u128) {
    let worker = lease(driver, &format!("sample {n:02}")).await;
    let key = TaskKey { scope: Scope::default(), id: TaskId::from_u128(base + n) };
    family.ask(driver, &key, finish(&worker)).await;
}
