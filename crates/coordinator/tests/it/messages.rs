//! Saved messages between tasks, as another coordinator left them: found, decided once, or parked.

use std::sync::Arc;

use store::runs::{MessageChanges, SavedMessage};
use store::{Batch, Browse, Decided, Plan, Store, Writer};
use storetest::{ManualClock, MemoryStore};
use verdict::request::{Cancel, CancelMode};
use verdict::run::{Body, Message, MessageNumber};
use verdict::{Digest, Scope, Span, State, TaskId};

use crate::harness::{World, key, start, submission};

/// A task of a run that another coordinator carries.
const STRANGER: TaskId = TaskId::from_u128(7);

/// A coordinator that starts on a store with one waiting run and this message to it, or to `to`.
async fn world_with(body: Body, to: Option<TaskId>) -> (World, MemoryStore, TaskId) {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    let first = World { coordinator: start(store.clone()).await, clock: clock.clone() };
    let run = first.submit(submission("k")).await;
    first.coordinator.stop().await;
    drop(first);
    save(&store, Message { from: STRANGER, number: NUMBER, to: to.unwrap_or(run), body }).await;
    (World { coordinator: start(store.clone()).await, clock }, store, run)
}

const NUMBER: MessageNumber = MessageNumber { entry: 1, index: 0 };

async fn save(store: &MemoryStore, message: Message) {
    let mut writer = store.writer().await.expect("the first coordinator is gone");
    let mut batch = writer.begin().await.expect("the store works");
    batch.prepare(Plan::default()).await.expect("the store works");
    let due = batch.moment().await.expect("the store works").now;
    let saved = SavedMessage { scope: Scope::default(), message, spec: None, due, parked: None };
    let messages = MessageChanges { saved: vec![saved], ..MessageChanges::default() };
    batch.save(Decided { messages, ..Decided::default() }).await.expect("the store works");
    batch.commit().await.expect("the store works");
}

async fn saved(store: &MemoryStore) -> Vec<SavedMessage> {
    store.browse().saved_messages(None, 10).await.expect("the store works")
}

async fn state(store: &MemoryStore, run: TaskId) -> Option<State> {
    let found = store.browse().find(&key(run)).await.expect("the store works");
    found.and_then(|found| found.subject.state())
}

fn cancel() -> Body {
    Body::Cancel(Cancel { reason: None, mode: CancelMode::Graceful })
}

#[tokio::test]
async fn a_saved_message_is_found_decided_and_gone() {
    let (world, store, run) = world_with(cancel(), None).await;
    world.round().await;
    assert_eq!(state(&store, run).await, Some(State::Cancelled));
    assert!(saved(&store).await.is_empty());
}

#[tokio::test]
async fn a_message_that_the_rules_refuse_is_parked_and_blocks_nothing_else() {
    // F82: a poison message stays, with its reason, and its addressee goes on.
    let record = Digest::of(&[b"record"]);
    let ended = Body::ChildEnded {
        is_unneeded: false,
        charge: None,
        halt: None,
        done_by: vec![],
        key: "c".into(),
        state: State::Succeeded,
        record,
    };
    let (world, store, run) = world_with(ended, None).await;
    world.round().await;
    let parked = saved(&store).await;
    assert_eq!(parked.len(), 1);
    assert_eq!(parked[0].parked.as_ref().map(|why| why.as_str()), Some("unknown_child"));
    let granted = world.lease_one("w1").await;
    world.succeed(&granted).await;
    assert_eq!(state(&store, run).await, Some(State::Succeeded));
    // It is not tried again.
    world.pass(Span::from_secs(3)).await;
    assert_eq!(saved(&store).await, parked);
}

#[tokio::test]
async fn a_message_before_its_addressee_is_kept_and_tried_again() {
    let unborn = TaskId::from_u128(9);
    let (world, store, run) = world_with(cancel(), Some(unborn)).await;
    let before = saved(&store).await;
    world.round().await;
    let after = saved(&store).await;
    assert_eq!((after.len(), after[0].parked.clone()), (1, None));
    assert!(after[0].due > before[0].due, "it is tried again later, and not in every batch");
    assert_eq!(state(&store, run).await, Some(State::Queued));
}
