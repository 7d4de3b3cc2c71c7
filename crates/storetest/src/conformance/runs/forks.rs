//! A run that takes over what another one recorded.

use store::browse::{Browse, RowsAfter};
use store::objects::{FORK_LINKED, ObjectFilter, fork_change};
use store::seam::{Batch, Decided, Writer};
use verdict::run::{
    AwaitedEvent, Checkpoint, Child, Inherit, Inherited, Recorded, RunRequest, Signal, WaitMode,
};
use verdict::{Digest, Json, ObjectType, Scope, State, Subject, TaskId, Time};

use super::family::{Delivery, Family, call, child, finish, lease, step, wait};
use crate::conformance::driver::Driver;
use crate::conformance::fixture::Fixture;

const OLD: TaskId = TaskId::from_u128(5);

fn checkpoint(number: u32, key: &str, result: &str) -> Inherited {
    let asked = step(key, result);
    let recorded = Recorded::Step(asked.step);
    let at = Time::from_millis(1_000);
    Inherited::Checkpoint(Checkpoint {
        number,
        key: asked.key,
        digest: asked.digest,
        attempt: 3,
        at,
        recorded,
    })
}

fn signal(number: u32, name: &str) -> Inherited {
    let digest = Digest::of(&[name.as_bytes()]);
    let (key, payload) = (Some(format!("key of {name}").into()), Some(Json::from("1")));
    Inherited::Signal(Signal { number, name: name.into(), key, payload, digest })
}

/// What is taken over is stored as the new run's own, in order, and is what its next calls are compared with.
pub async fn takes_over_what_another_run_recorded<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let run = driver.add(&Scope::default(), "flow").await;
    let long = format!("\"{}\"", "x".repeat(500));
    let of_old = Child {
        key: "of old".into(),
        id: TaskId::from_u128(6),
        digest: Digest::of(&[b"of old"]),
        is_detached: true,
        end: None,
    };
    let record = Digest::of(&[b"record"]);
    let items = vec![
        signal(1, "taken"),
        signal(2, "kept"),
        checkpoint(4, "a", &long),
        Inherited::Child(of_old),
        checkpoint(9, "of old", "2"),
    ];
    family.ask(driver, &run, RunRequest::Inherit(Inherit { from: OLD, record, items })).await;
    let items = vec![Inherited::Again(child("again", 1 << 64)), checkpoint(12, "b", "3")];
    family.ask(driver, &run, RunRequest::Inherit(Inherit { from: OLD, record, items })).await;
    family.check(driver).await;
    let rows = driver.browse().rows(&run, RowsAfter::Checkpoint(0), 9).await;
    let rows = rows.expect("browsing works").checkpoints;
    let numbers: Vec<(u32, u32)> = rows.iter().map(|it| (it.number, it.attempt)).collect();
    assert_eq!(numbers, [(1, 0), (3, 0), (5, 0)]);
    let Subject::Live(task) = driver.load(&run).await else { panic!("it is queued") };
    let state = task.run.expect("it has records");
    assert_eq!((state.forked_from, state.steps, state.live_children), (Some(OLD), 3, 1));
    // The child that starts again is a task; the one of the old run is only named.
    let worker = lease(driver, "again").await;
    let again = store::TaskKey { scope: Scope::default(), id: TaskId::from_u128(1 << 64) };
    family.ask(driver, &again, finish(&worker)).await;
    let worker = lease(driver, "flow").await;
    let take = wait("take", WaitMode::Any, vec![AwaitedEvent::Signal("kept".into())]);
    let asked = call(&worker, vec![step("a", &long), step("c", "4")], take);
    family.ask(driver, &run, RunRequest::Checkpoint(asked)).await;
    family.ask(driver, &run, finish(&worker)).await;
    assert_eq!(driver.load(&run).await.state(), Some(State::Succeeded));
    family.check(driver).await;
}

/// A run that was forked is found with its forks.
pub async fn is_linked_to_its_forks<F: Fixture>(driver: &mut Driver<F>) {
    driver.pause().await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let now = batch.moment().await.expect("the clock can be read").now;
    let (scope, forks) = (Scope::default(), [TaskId::from_u128(8), TaskId::from_u128(9)]);
    let objects = forks.iter().map(|fork| fork_change(&scope, OLD, *fork, now)).collect();
    batch.save(Decided { objects, ..Decided::default() }).await.expect("links are saved");
    batch.commit().await.expect("the batch commits");
    let filter = ObjectFilter {
        scope: Some(scope),
        object_type: Some(ObjectType::Fork),
        parent: Some(OLD.run_name().into()),
        limit: 9,
        ..ObjectFilter::default()
    };
    let found = driver.browse().objects(&filter).await.expect("browsing works");
    let found: Vec<(String, &str)> =
        found.iter().map(|it| (it.key.id.to_string(), it.status.as_str())).collect();
    assert_eq!(found, forks.map(|fork| (fork.run_name(), FORK_LINKED)));
}
