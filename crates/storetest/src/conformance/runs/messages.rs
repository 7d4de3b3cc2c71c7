//! Saved messages: kept in order, decided once, parked if they cannot be.

use store::browse::Browse;
use store::failure::{CommitFailure, FailureKind};
use store::row::TaskKey;
use store::runs::{MessageChanges, MessageKey, SavedMessage};
use store::seam::{Batch, Decided, Lookup, Writer};
use verdict::request::{Cancel, CancelMode};
use verdict::run::{Body, Message, MessageNumber, SignalCall};
use verdict::{Digest, Scope, State, TaskId};

use super::family::{Delivery, EARLY, Family, moment, running, save};
use crate::conformance::driver::Driver;
use crate::conformance::fixture::Fixture;

fn message(to: &TaskKey, from: u128, entry: u32, index: u32, body: Body) -> (Scope, Message) {
    let number = MessageNumber { entry, index };
    (to.scope.clone(), Message { from: TaskId::from_u128(from), number, to: to.id, body })
}

fn signal(name: &str) -> Body {
    let digest = Digest::of(&[name.as_bytes()]);
    Body::Signal(SignalCall { name: name.into(), key: None, payload: None, digest })
}

/// The end of a child that the addressee never had.
fn stray_end() -> Body {
    Body::ChildEnded {
        is_unneeded: false,
        charge: None,
        halt: None,
        done_by: vec![],
        key: "nobody".into(),
        state: State::Succeeded,
        record: Digest::of(&[]),
    }
}

async fn write<F: Fixture>(driver: &mut Driver<F>, messages: Vec<(Scope, Message)>) {
    let now = driver.now();
    let saved = messages.into_iter().map(|it| save(it, now)).collect();
    change(driver, MessageChanges { saved, ..MessageChanges::default() }).await;
}

async fn change<F: Fixture>(driver: &mut Driver<F>, messages: MessageChanges) {
    driver.pause().await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    batch.save(Decided { messages, ..Decided::default() }).await.expect("messages are saved");
    batch.commit().await.expect("the batch commits");
}

async fn saved_for<F: Fixture>(driver: &mut Driver<F>, to: &TaskKey) -> Vec<SavedMessage> {
    driver.pause().await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let tasks = std::slice::from_ref(to);
    let lookup = Lookup { tasks, messages: tasks, ..Lookup::default() };
    batch.look_up(lookup).await.expect("loading works").messages.pop().expect("one task, one list")
}

fn places(saved: &[SavedMessage]) -> Vec<(u128, u32, u32)> {
    let place = |it: &SavedMessage| {
        let MessageNumber { entry, index } = it.message.number;
        (it.message.from.as_u128(), entry, index)
    };
    saved.iter().map(place).collect()
}

async fn addressees<F: Fixture>(driver: &mut Driver<F>) -> Vec<TaskId> {
    driver.pause().await;
    let now = driver.now();
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let found = batch.addressees(now, 9).await.expect("messages can be found");
    found.into_iter().map(|key| key.id).collect()
}

pub async fn are_kept_in_order_until_decided<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::Later);
    let (run, _) = running(driver, "flow").await;
    let sent = [(8, 2, 0), (7, 11, 0), (7, 2, 1), (7, 2, 0)];
    let messages = sent.map(|(from, entry, index)| {
        message(&run, from, entry, index, signal(&format!("{from} {entry} {index}")))
    });
    write(driver, messages.to_vec()).await;
    assert_eq!(addressees(driver).await, [run.id]);
    let in_order = [(7, 2, 0), (7, 2, 1), (7, 11, 0), (8, 2, 0)];
    assert_eq!(places(&saved_for(driver, &run).await), in_order);
    let all = driver.browse().saved_messages(None, 9).await.expect("browsing works");
    assert_eq!(places(&all), in_order);
    let rest = driver.browse().saved_messages(Some(&all[1].key()), 1).await;
    assert_eq!(places(&rest.expect("browsing works")), in_order[2..3]);
    assert_eq!(family.deliver(driver).await, 4);
    assert_eq!(saved_for(driver, &run).await, []);
    assert_eq!(addressees(driver).await, []);
    family.check(driver).await;
}

pub async fn block_only_their_pair_when_parked<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::Later);
    let (run, _) = running(driver, "flow").await;
    let messages = vec![
        message(&run, 7, 1, 0, stray_end()),
        message(&run, 7, 2, 0, signal("later")),
        message(&run, 8, 1, 0, signal("other")),
    ];
    write(driver, messages).await;
    // The first is refused and parked in the pass that decides the one of another sender.
    family.deliver(driver).await;
    let all = driver.browse().saved_messages(None, 9).await.expect("browsing works");
    let parked: Vec<_> = all.iter().map(|it| it.parked.clone()).collect();
    assert_eq!(parked.first(), Some(&Some("unknown_child".into())), "{all:?}");
    assert!(parked[1..].iter().all(Option::is_none));
    write(driver, vec![message(&run, 7, 3, 0, signal("last"))]).await;
    assert_eq!(saved_for(driver, &run).await, []);
    assert_eq!(addressees(driver).await, []);
    let next = driver.writer().next_wake().await.expect("a wake can be asked for");
    assert!(next.is_none_or(|at| at > driver.now()), "what is blocked wakes nobody");
    write(driver, vec![message(&run, 8, 3, 0, signal("other again"))]).await;
    assert_eq!(places(&saved_for(driver, &run).await), [(8, 3, 0)]);
    family.deliver(driver).await;
    family.check(driver).await;
}

pub async fn wait_for_their_addressee<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::Later);
    let nobody = TaskKey { scope: Scope::default(), id: TaskId::from_u128(1 << 64) };
    let cancel = Body::Cancel(Cancel { reason: None, mode: CancelMode::Graceful });
    write(driver, vec![message(&nobody, 7, 1, 0, cancel)]).await;
    let due = driver.now();
    assert_eq!(driver.writer().next_wake().await.expect("a wake can be asked for"), Some(due));
    // It came before the message that creates its addressee: it stays, and is tried again later.
    assert_eq!(family.deliver(driver).await, 0);
    let again = moment(driver).await.now.plus(EARLY);
    assert_eq!(addressees(driver).await, []);
    assert_eq!(driver.writer().next_wake().await.expect("a wake can be asked for"), Some(again));
    assert_eq!(saved_for(driver, &nobody).await.len(), 1);
    driver.wait(EARLY);
    assert_eq!(addressees(driver).await, [nobody.id]);
}

pub async fn belong_to_their_commit<F: Fixture>(driver: &mut Driver<F>) {
    let (run, _) = running(driver, "flow").await;
    let now = driver.now();
    let first = save(message(&run, 7, 1, 0, signal("a")), now);
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let saved = vec![first.clone()];
    let messages = MessageChanges { saved, ..MessageChanges::default() };
    batch.save(Decided { messages, ..Decided::default() }).await.expect("messages are saved");
    drop(batch);
    assert_eq!(saved_for(driver, &run).await, []);
    assert_eq!(addressees(driver).await, []);
    write(driver, vec![message(&run, 7, 1, 0, signal("a"))]).await;
    // A batch that decides it and is dropped leaves it.
    let decided = || MessageChanges { decided: vec![first.key()], ..MessageChanges::default() };
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    batch.save(Decided { messages: decided(), ..Decided::default() }).await.expect("it is there");
    drop(batch);
    assert_eq!(saved_for(driver, &run).await.len(), 1);
    change(driver, decided()).await;
    assert_eq!(saved_for(driver, &run).await, []);
    // Decided twice is a conflict: another writer was first.
    let gone = decide(driver, first.key()).await;
    assert!(matches!(gone, Err(FailureKind::Conflict(id)) if id == run.id), "{gone:?}");
}

/// Deletes a message, in one batch.
async fn decide<F: Fixture>(driver: &mut Driver<F>, key: MessageKey) -> Result<(), FailureKind> {
    let messages = MessageChanges { decided: vec![key], ..MessageChanges::default() };
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let saved = batch.save(Decided { messages, ..Decided::default() }).await;
    saved.map_err(|failure| failure.kind)?;
    batch.commit().await.map_err(|failure| match failure {
        CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure) => failure.kind,
    })
}

pub async fn leave_places_to_other_tenants<F: Fixture>(driver: &mut Driver<F>) {
    // One tenant has more of them than are asked for, and all of them come before the one of another.
    let key = |n: u128| TaskKey {
        scope: Scope::new(if n < 40 { "crowd" } else { "small" }, "main"),
        id: TaskId::from_u128((1_u128 << 64) + n),
    };
    let messages = (0..=40).map(|n| message(&key(n), 7, 1, 0, signal("a"))).collect();
    write(driver, messages).await;
    let found = addressees(driver).await;
    assert_eq!(found.len(), 9, "as many as were asked for");
    assert_eq!(found.first(), Some(&key(0).id), "the earliest is always among them");
    assert!(found.contains(&key(40).id), "the other tenant has its turn: {found:?}");
}
