//! Effects whose endpoint is gone by the time of their commit: what a caller named was registered when the call was checked, and is not
//! any more when it is decided. On every engine such an effect has an outcome at once, and nothing waits for it.

use coordinator::{Coordinator, Options, SeededEntropy};
use serde_json::json;
use store::effects::{DEAD, NEWS, StoredEffect};
use store::objects::ObjectFilter;
use store::postgres::Notify;
use store::{Browse, SqliteStore};
use storetest::{Database, ManualClock};
use verdict::effect::{DeadReason, EffectState};
use verdict::{Object, ObjectType, Scope, State};

use crate::durable_peers::{checkpoint, start};
use crate::harness::{accepted, patient, submission, world};

/// More objects than these tests make.
const ALL: usize = 100;

async fn objects(coordinator: &Coordinator, object_type: ObjectType) -> Vec<Object> {
    let filter = ObjectFilter {
        scope: Some(Scope::default()),
        object_type: Some(object_type),
        limit: ALL,
        ..ObjectFilter::default()
    };
    coordinator.browse().objects(&filter).await.expect("the store works")
}

/// A call that the front door would have refused a moment later.
async fn effects_for_nobody_are_given_up(coordinator: &Coordinator) {
    let replies = coordinator.submit(vec![submission("k")]).await;
    accepted(&replies[0]);
    let granted = coordinator.lease(patient("w")).await.expect("the store works").remove(0);
    let steps =
        json!([{"key": "s#1", "outcome": "SUCCEEDED"}, {"key": "s#2", "outcome": "SUCCEEDED"}]);
    let effect =
        |step: &str| json!({"key": "e", "step": step, "endpoint": "crm", "type": "t", "body": 1});
    let wait = json!({"key": "w#1", "mode": "all",
        "for": [{"key": "told#1", "effect": {"step": "s#2", "key": "e"}}]});
    let call = json!({"steps": steps, "effects": [effect("s#1"), effect("s#2")], "wait": wait});
    assert_eq!(checkpoint(coordinator, &granted, call).await, State::Waiting);
    let effects = objects(coordinator, ObjectType::Effect).await;
    assert_eq!(effects.len(), 2, "{effects:?}");
    for object in &effects {
        assert_eq!((object.status.as_str(), object.is_pending, object.revision), (DEAD, false, 1));
        let state = StoredEffect::of(object).expect("an effect").effect.state;
        let is_given_up = matches!(
            state,
            EffectState::Dead { reason: DeadReason::EndpointDeleted, is_passed: true, .. }
        );
        assert!(is_given_up, "{state:?}");
    }
    // Whoever waits for it can be told.
    let watches = objects(coordinator, ObjectType::Watch).await;
    let statuses: Vec<&str> = watches.iter().map(|object| object.status.as_str()).collect();
    assert_eq!(statuses, [NEWS]);
}

#[tokio::test]
async fn an_effect_for_an_endpoint_that_is_gone_is_a_dead_letter_at_once() {
    // D2: it ends with a reason, and does not wait for a receiver that nobody will register again.
    effects_for_nobody_are_given_up(&world().await.coordinator).await;
    let folder = tempfile::tempdir().expect("a folder");
    let options = storetest::unsynced(std::sync::Arc::new(ManualClock::default()));
    let store = SqliteStore::open(folder.path().join("tenure.db"), options).expect("it opens");
    let options = Options { entropy: Box::new(SeededEntropy::new(7)), ..Options::default() };
    let sqlite = Coordinator::start(store, options).await.expect("it starts");
    effects_for_nobody_are_given_up(&sqlite).await;
}

#[tokio::test]
async fn an_effect_for_an_endpoint_that_is_gone_is_a_dead_letter_in_a_database_too() {
    // D2
    let database = Database::create();
    effects_for_nobody_are_given_up(&start(&database, Notify::On).await).await;
}
