//! Looking up everything that requests name, in one call.

use std::collections::BTreeSet;

use store::row::{IdempotencyKey, TaskKey};
use store::seam::{Batch, Loaded, Lookup, Plan, Writer};
use verdict::{Scope, Subject, TaskId};

use super::driver::{Driver, caller};
use super::fixture::Fixture;
use super::reports::{report, succeeded};

fn idempotency_key(text: &str) -> IdempotencyKey {
    IdempotencyKey { scope: Scope::default(), text: text.into() }
}

/// Submits a task under an idempotency key.
async fn add_with_key<F: Fixture>(driver: &mut Driver<F>, text: &str) -> TaskKey {
    let submission = driver.submission(&Scope::default(), "letters").with_key(text);
    let key = submission.task_key();
    driver.submit(submission).await;
    key
}

fn live(loaded: &Loaded) -> Option<TaskId> {
    match loaded {
        Loaded::Subject(subject) => subject.live().map(|task| task.id),
        Loaded::Locked => panic!("no other writer works here"),
    }
}

/// Every list is in the order of its names, and the owner of a key comes with its task, as often as it is named.
pub async fn finds_every_name_at_once<F: Fixture>(driver: &mut Driver<F>) {
    let ended = driver.add(&Scope::default(), "images").await;
    let attempt = caller(&driver.lease(&Scope::default(), "images", 1).await[0]);
    driver.about(&ended, report(&attempt, succeeded())).await;
    let waiting = driver.add(&Scope::default(), "images").await;
    let (one, two) = (add_with_key(driver, "one").await, add_with_key(driver, "two").await);
    driver.pause().await;
    let tasks = [waiting.clone(), ended.clone(), two.clone()];
    let keys = ["two", "none", "one", "two"].map(idempotency_key);
    let leases = [(waiting.id, attempt.lease), (ended.id, attempt.lease)];
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let lookup = Lookup { tasks: &tasks, keys: &keys, leases: &leases, ..Lookup::default() };
    let found = batch.look_up(lookup).await.expect("the lookup works");
    let loaded: Vec<_> = found.tasks.iter().map(live).collect();
    assert_eq!(loaded, [Some(waiting.id), None, Some(two.id)]);
    assert!(matches!(&found.tasks[1], Loaded::Subject(Subject::Done(done)) if done.id == ended.id));
    let owners: Vec<_> = found
        .owners
        .iter()
        .map(|owner| owner.as_ref().map(|(owner, loaded)| (owner.task, live(loaded))))
        .collect();
    let (one, two) = (Some((one.id, Some(one.id))), Some((two.id, Some(two.id))));
    assert_eq!(owners, [two, None, one, two]);
    let closed: Vec<_> =
        found.closed.iter().map(|closed| closed.as_ref().map(|it| it.task)).collect();
    assert_eq!(closed, [None, Some(ended.id)]);
    assert!(found.leased.is_empty());
}

/// The stored row of an excluded task may be unreadable. A request that names it waits, like one whose task is locked.
pub async fn reads_no_excluded_task<F: Fixture>(driver: &mut Driver<F>) {
    let (aside, other) = (add_with_key(driver, "one").await, add_with_key(driver, "two").await);
    driver.pause().await;
    let exclude = BTreeSet::from([aside.id]);
    let (tasks, keys) = ([aside, other], ["one", "two"].map(idempotency_key));
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let plan = Plan { exclude: Some(&exclude), ..Plan::default() };
    batch.prepare(plan).await.expect("the plan is taken");
    let lookup = Lookup { tasks: &tasks, keys: &keys, ..Lookup::default() };
    let found = batch.look_up(lookup).await.expect("the lookup works");
    assert!(matches!(found.tasks[..], [Loaded::Locked, Loaded::Subject(_)]), "{:?}", found.tasks);
    let owned: Vec<_> = found.owners.into_iter().flatten().map(|(_, loaded)| loaded).collect();
    assert!(matches!(owned[..], [Loaded::Locked, Loaded::Subject(_)]), "{owned:?}");
}
