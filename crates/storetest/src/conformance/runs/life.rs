//! The rest of a durable run's life: divergence, retention, and batches that end early.

use store::browse::{Browse, RowsAfter};
use store::row::TaskKey;
use store::seam::{Batch, Decided, Lookup, Writer};
use store::verify::verify;
use store::{RunLookup, Store};
use verdict::run::{ChildCall, Divergence, RunRequest, Then, Waiting};
use verdict::{Answer, Context, Phase, Request, RunAnswer, Scope, Span, State, Subject, TaskId};

use super::family::{
    Delivery, Family, call, child, finish, lease, running, signal, step, with_children,
};
use crate::conformance::carry::change;
use crate::conformance::driver::Driver;
use crate::conformance::fixture::Fixture;

const DAY: Span = Span::from_secs(24 * 60 * 60);

fn key(id: u128) -> TaskKey {
    TaskKey { scope: Scope::default(), id: TaskId::from_u128(id) }
}

pub async fn diverges_and_is_resumed<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let (run, worker) = running(driver, "flow").await;
    let divergence = Divergence {
        branch: "main".into(),
        index: 3,
        recorded: "step a".into(),
        actual: "step b".into(),
    };
    let then = Then::Diverged(divergence.clone());
    family.ask(driver, &run, RunRequest::Checkpoint(call(&worker, vec![], then))).await;
    let Subject::Live(task) = driver.load(&run).await else { panic!("it waits for an operator") };
    assert_eq!(task.phase, Phase::Waiting(Box::new(Waiting::Diverged(divergence))));
    assert_eq!(driver.lease(&Scope::default(), "flow", 1).await, []);
    family.ask(driver, &run, signal("go", None, "1")).await;
    let resumed = family.ask(driver, &run, RunRequest::Resume).await;
    assert!(matches!(resumed, Answer::Run(it) if matches!(*it, RunAnswer::Resumed { .. })));
    let worker = lease(driver, "flow").await;
    family.ask(driver, &run, finish(&worker)).await;
    assert_eq!(driver.load(&run).await.state(), Some(State::Succeeded));
    family.check(driver).await;
}

pub async fn is_forgotten_whole<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let (run, worker) = running(driver, "flow").await;
    let free = ChildCall { is_detached: true, ..child("free", (1 << 64) + 1) };
    let asked = call(&worker, vec![step("a", "1")], Then::Continue);
    family.ask(driver, &run, with_children(asked, vec![child("bound", 1 << 64), free])).await;
    family.ask(driver, &run, signal("go", Some("k"), "1")).await;
    let (bound, free) = (key(1 << 64), key((1 << 64) + 1));
    for (queue, task) in [("bound", &bound), ("free", &free), ("flow", &run)] {
        let worker = if queue == "flow" { worker.clone() } else { lease(driver, queue).await };
        family.ask(driver, task, finish(&worker)).await;
    }
    family.check(driver).await;
    driver.wait(Span::from_secs(1));
    driver.add(&Scope::default(), "newest").await;
    driver.wait(DAY);
    driver.pause().await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let ended = batch.ended(None, 9).await.expect("ends can be looked at");
    // A child is no run; a detached one is.
    assert_eq!(ended.len(), 2);
    let forgotten = vec![ended[0].position];
    batch.save(Decided { forgotten, ..Decided::default() }).await.expect("it ended a day ago");
    batch.commit().await.expect("the batch commits");
    for gone in [&run, &bound] {
        assert_eq!(driver.load(gone).await, Subject::Absent);
        for after in [RowsAfter::Checkpoint(0), RowsAfter::Child(None), RowsAfter::Signal(0)] {
            let rows = driver.browse().rows(gone, after, 9).await.expect("browsing works");
            assert_eq!(rows, store::TaskRows::default());
        }
    }
    assert_eq!(driver.load(&free).await.state(), Some(State::Succeeded));
    let found = verify(driver.store().browse()).await.expect("the store can be read");
    assert_eq!((found.tasks, found.findings), (2, Vec::new()));
}

pub async fn is_never_half_saved<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let (run, worker) = running(driver, "flow").await;
    family.ask(driver, &run, signal("go", None, "1")).await;
    let subject = driver.load(&run).await;
    let asked = call(&worker, vec![step("a", "1")], Then::Continue);
    let request = Request::Run(Box::new(RunRequest::Checkpoint(asked)));
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let named = RunLookup::of(&run, &request);
    let tasks = std::slice::from_ref(&run);
    let lookup = Lookup { tasks, runs: named.as_slice(), ..Lookup::default() };
    let loaded = batch.look_up(lookup).await.expect("loading works").runs;
    let at = batch.moment().await.expect("the clock can be read");
    let context = Context { run: loaded.first(), ..Context::default() };
    let (_, change) = change(subject.clone(), context, &request, at);
    let changes = Vec::from_iter(change);
    batch.save(Decided::changes(changes)).await.expect("the store takes what was decided");
    // S2-104: the batch sees what it saved, and nothing of it remains when it is dropped.
    let seen = batch.look_up(lookup).await.expect("loading works").runs;
    assert_eq!(seen[0].checkpoints.len(), 1);
    drop(batch);
    assert_eq!(driver.load(&run).await, subject);
    family.check(driver).await;
}
