//! Children: started, ended and cancelled, whether their messages are decided at once or saved.

use store::browse::Browse;
use store::row::{Filter, TaskKey};
use store::runs::{RecordsOf, RunRecord};
use verdict::request::{Cancel, CancelMode};
use verdict::run::limits::SLICE_MAX;
use verdict::run::{AwaitedEvent, ChildCall, Then, WaitMode};
use verdict::{Request, Scope, State, Subject, TaskId};

use super::family::{
    Delivery, Family, call, child, finish, lease, running, step, wait, with_children,
};
use crate::conformance::driver::Driver;
use crate::conformance::fixture::Fixture;

fn key(id: u128) -> TaskKey {
    TaskKey { scope: Scope::default(), id: TaskId::from_u128(id) }
}

pub async fn start_and_end_in_one_batch<F: Fixture>(driver: &mut Driver<F>) {
    start_and_end(driver, Delivery::AtOnce).await;
}

pub async fn start_and_end_by_saved_messages<F: Fixture>(driver: &mut Driver<F>) {
    start_and_end(driver, Delivery::Later).await;
}

async fn start_and_end<F: Fixture>(driver: &mut Driver<F>, delivery: Delivery) {
    let mut family = Family::new(delivery);
    let (run, worker) = running(driver, "flow").await;
    let (left, right) = (key(1 << 64), key((1 << 64) + 1));
    let join = ["left", "right"].map(|name| AwaitedEvent::Child(name.into())).to_vec();
    let join = wait("join", WaitMode::All, join);
    let asked = call(&worker, vec![step("before", "1")], join);
    let children = vec![child("left", 1 << 64), child("right", (1 << 64) + 1)];
    family.ask(driver, &run, with_children(asked, children)).await;
    if delivery == Delivery::Later {
        assert_eq!(driver.load(&left).await, Subject::Absent);
        // A child that does not exist yet is not missing: its message is saved.
        family.check(driver).await;
        assert_eq!(family.deliver_all(driver).await, 2);
    }
    // The right one ends first.
    for (name, child) in [("right", &right), ("left", &left)] {
        let worker = lease(driver, name).await;
        family.ask(driver, child, finish(&worker)).await;
        family.deliver_all(driver).await;
    }
    let page = driver.browse().records(&run, RecordsOf::After(0), 99).await;
    let page = page.expect("browsing works");
    assert_eq!(
        page.iter().map(said).collect::<Vec<_>>(),
        ["before", "left started", "right started", "right ended", "left ended", "join"]
    );
    assert_eq!(page.iter().map(RunRecord::number).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    let worker = lease(driver, "flow").await;
    family.ask(driver, &run, finish(&worker)).await;
    assert_eq!(driver.load(&run).await.state(), Some(State::Succeeded));
    family.check(driver).await;
}

fn said(record: &RunRecord) -> String {
    match record {
        RunRecord::Started(started) => format!("{} started", started.child.key),
        RunRecord::Checkpoint { checkpoint, end: Some(_), .. } => {
            format!("{} ended", checkpoint.key)
        }
        RunRecord::Checkpoint { checkpoint, .. } => checkpoint.key.to_string(),
    }
}

pub async fn are_not_runs<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let (run, worker) = running(driver, "flow").await;
    let detached = ChildCall { is_detached: true, ..child("free", (1 << 64) + 1) };
    let children = vec![child("bound", 1 << 64), detached];
    let asked = call(&worker, vec![], Then::Continue);
    family.ask(driver, &run, with_children(asked, children)).await;
    let listed = async |driver: &Driver<F>, children| {
        let filter = Filter { limit: 9, children, ..Filter::default() };
        let page = driver.browse().list(&Scope::default(), &filter).await.expect("lists work");
        page.tasks.iter().map(|it| it.task.key().id).collect::<Vec<_>>()
    };
    let (bound, free) = (key(1 << 64).id, key((1 << 64) + 1).id);
    assert_eq!(listed(driver, false).await, [free, run.id]);
    assert_eq!(listed(driver, true).await, [free, bound, run.id]);
    // Quotas count runs.
    let tenants = [Scope::default().tenant];
    assert_eq!(driver.browse().unfinished(&tenants).await.expect("browsing works"), [2]);
    let found = driver.browse().find(&key(1 << 64)).await.expect("browsing works");
    let subject = found.expect("the child exists").subject;
    assert_eq!(subject.run_id(), Some(run.id));
    family.check(driver).await;
}

pub async fn are_cancelled_in_slices<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let (run, worker) = running(driver, "flow").await;
    let slice = SLICE_MAX as u128;
    for numbers in [0..slice, slice..slice + 1] {
        let asked = call(&worker, vec![step(&format!("{numbers:?}"), "1")], Then::Continue);
        let children = numbers.map(|n| child(&format!("c{n:04}"), (1 << 64) + n)).collect();
        family.ask(driver, &run, with_children(asked, children)).await;
    }
    family.delivery = Delivery::Later;
    let force = Request::Cancel(Cancel { reason: None, mode: CancelMode::Immediate });
    family.about(driver, &run, force).await;
    let Subject::Live(task) = driver.load(&run).await else { panic!("its children live") };
    assert!(task.closing().is_some() && task.live_children() == SLICE_MAX as u32 + 1);
    // Each sweep tells one slice, in the order of the keys.
    assert_eq!(family.sweep(driver).await, 1);
    let Subject::Live(task) = driver.load(&run).await else { panic!("its children live") };
    let slice = task.closing().and_then(|closing| closing.slice.clone()).expect("one is left");
    assert_eq!(slice.after, Some(format!("c{:04}", SLICE_MAX - 1).into()));
    assert_eq!(family.sweep(driver).await, 1);
    assert_eq!(family.sweep(driver).await, 0);
    let cancelled = family.deliver_all(driver).await;
    // Each child is cancelled and tells its parent, which ends with the last of them.
    assert_eq!(cancelled, 2 * (SLICE_MAX + 1));
    assert_eq!(driver.load(&run).await.state(), Some(State::Cancelled));
    family.check(driver).await;
}
