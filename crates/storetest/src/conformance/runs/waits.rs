//! Waits: suspended tasks cost nothing until something comes.

use store::browse::{Browse, RowsAfter};
use store::runs::{RecordsOf, RunRecord};
use store::seam::Writer;
use verdict::run::{AwaitedEvent, RunRequest, WaitMode, Waiting};
use verdict::{Answer, Phase, Refusal, RunAnswer, Scope, Span, State, Subject, Task};

use super::family::{
    Delivery, Family, call, child, finish, lease, running, signal, wait, with_children,
};
use crate::conformance::driver::Driver;
use crate::conformance::fixture::Fixture;

/// More items than a task's own row holds.
const MANY: u32 = 20;

async fn live<F: Fixture>(driver: &mut Driver<F>, key: &store::TaskKey) -> Task {
    match driver.load(key).await {
        Subject::Live(task) => task,
        other => panic!("the run lives: {other:?}"),
    }
}

fn is_ready(task: &Task) -> bool {
    matches!(&task.phase, Phase::Waiting(it) if matches!(**it, Waiting::Ready { .. }))
}

pub async fn sleep_until_their_time<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let (run, worker) = running(driver, "flow").await;
    let time = driver.now().plus(Span::from_secs(60));
    let sleep = wait("nap", WaitMode::All, vec![AwaitedEvent::Time(time)]);
    family.ask(driver, &run, RunRequest::Checkpoint(call(&worker, vec![], sleep))).await;
    let task = live(driver, &run).await;
    assert_eq!((task.state(), task.wakes_at()), (State::Waiting, Some(time)));
    assert_eq!(driver.writer().next_wake().await.expect("a wake can be asked for"), Some(time));
    assert_eq!(driver.lease(&Scope::default(), "flow", 1).await, []);
    let depths = driver.browse().queues(None).await.expect("browsing works");
    assert_eq!((depths[0].ready, depths[0].delayed, depths[0].running), (0, 0, 0));
    assert_eq!((depths[0].unfinished, depths[0].runs), (1, 1));
    driver.wait(Span::from_secs(60));
    assert_eq!(family.sweep(driver).await, 1);
    assert!(is_ready(&live(driver, &run).await));
    let worker = lease(driver, "flow").await;
    assert_eq!(worker.attempt, 2);
    family.ask(driver, &run, finish(&worker)).await;
    family.check(driver).await;
}

pub async fn take_signals_in_any_order<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let (run, worker) = running(driver, "flow").await;
    // F85: one signal comes before the wait, one during it, one after it.
    let said = family.ask(driver, &run, signal("go", Some("k1"), "1")).await;
    assert!(
        matches!(said, Answer::Run(it) if matches!(*it, RunAnswer::Signalled { replayed: false, .. }))
    );
    let again = family.ask(driver, &run, signal("go", Some("k1"), "1")).await;
    assert!(
        matches!(again, Answer::Run(it) if matches!(*it, RunAnswer::Signalled { replayed: true, .. }))
    );
    let other = family.ask(driver, &run, signal("go", Some("k1"), "2")).await;
    assert!(matches!(other, Answer::Refused(Refusal::KeyReused { .. })), "{other:?}");
    let both = vec![AwaitedEvent::Signal("go".into()), AwaitedEvent::Signal("stop".into())];
    let both = wait("both", WaitMode::All, both);
    family.ask(driver, &run, RunRequest::Checkpoint(call(&worker, vec![], both))).await;
    assert_eq!(live(driver, &run).await.state(), State::Waiting);
    family.ask(driver, &run, signal("other", None, "0")).await;
    assert!(!is_ready(&live(driver, &run).await));
    family.ask(driver, &run, signal("stop", None, "\"now\"")).await;
    assert!(is_ready(&live(driver, &run).await));
    // A taken signal is still known by its key.
    let late = family.ask(driver, &run, signal("go", Some("k1"), "1")).await;
    assert!(
        matches!(late, Answer::Run(it) if matches!(*it, RunAnswer::Signalled { replayed: true, .. }))
    );
    let page = driver.browse().records(&run, RecordsOf::After(0), 9).await.expect("browsing works");
    let [RunRecord::Checkpoint { taken, .. }] = &page[..] else { panic!("one wait: {page:?}") };
    let payloads = taken.iter().map(|(_, stored)| stored.signal.payload.clone());
    assert_eq!(payloads.collect::<Vec<_>>(), [Some("1".into()), Some("\"now\"".into())]);
    let all = driver.browse().rows(&run, RowsAfter::Signal(0), 9).await.expect("browsing works");
    assert_eq!(all.signals.iter().map(|it| it.is_taken).collect::<Vec<_>>(), [true, false, true]);
    let worker = lease(driver, "flow").await;
    family.ask(driver, &run, finish(&worker)).await;
    let ended = family.ask(driver, &run, signal("go", None, "1")).await;
    assert!(matches!(ended, Answer::Refused(Refusal::RunAlreadyTerminal { .. })), "{ended:?}");
    family.check(driver).await;
}

pub async fn keep_many_items_once<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let (run, worker) = running(driver, "flow").await;
    let names: Vec<String> = (0..MANY).map(|n| format!("child {n:02}")).collect();
    let children =
        names.iter().zip(1..).map(|(name, n): (_, u128)| child(name, (1 << 64) + n)).collect();
    let items = names.iter().map(|name| AwaitedEvent::Child(name.as_str().into())).collect();
    let join = wait("join", WaitMode::All, items);
    family.ask(driver, &run, with_children(call(&worker, vec![], join), children)).await;
    for (n, name) in names.iter().enumerate() {
        let waiting = live(driver, &run).await;
        let Phase::Waiting(it) = &waiting.phase else { panic!("it waits: {waiting:?}") };
        let Waiting::For(wait) = &**it else { panic!("it waits: {waiting:?}") };
        assert_eq!((wait.items.len(), wait.missing), (names.len(), MANY - n as u32));
        let worker = lease(driver, name).await;
        let key = store::TaskKey {
            scope: run.scope.clone(),
            id: verdict::TaskId::from_u128((1 << 64) + 1 + n as u128),
        };
        family.ask(driver, &key, finish(&worker)).await;
    }
    assert!(is_ready(&live(driver, &run).await));
    // The next wait of the same run has items of its own.
    let worker = lease(driver, "flow").await;
    let time = driver.now().plus(Span::from_secs(5));
    let times = vec![AwaitedEvent::Time(time); MANY as usize + 1];
    let nap = wait("nap", WaitMode::All, times);
    family.ask(driver, &run, RunRequest::Checkpoint(call(&worker, vec![], nap))).await;
    assert_eq!(live(driver, &run).await.wakes_at(), Some(time));
    family.check(driver).await;
}
