//! Ten thousand schedules that are due at one instant: each fires once, also if a coordinator dies in the middle of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::item::{ScheduleCall, ScheduleRequest, ScheduleTarget};
use coordinator::{Coordinator, Options, Reply};
use store::browse::{Browse, ScanDepth};
use store::objects::{ObjectFilter, schedule_of};
use store::{SqliteStore, Store};
use storetest::{ManualClock, MemoryStore, Writers};
use verdict::schedule::{CatchUp, Overlap, Recurrence, RunSize, Template, Terms, WINDOW_DEFAULT};
use verdict::{Answer, Json, Name, ObjectType, Scope, Span, TaskId};

use crate::harness::PATIENCE;

const SCHEDULES: usize = 10_000;
const EVERY: Span = Span::from_secs(60 * 60);
/// How many have fired when a coordinator dies.
const MIDWAY: usize = 2_000;
/// Calls under way at once: more would be refused as too many.
const AT_ONCE: usize = 256;
/// Objects and runs that are read at once.
const PAGE: usize = 1_000;

async fn start<S: Store>(store: S) -> Coordinator {
    Coordinator::start(store, Options::default()).await.expect("it starts")
}

fn created(reply: &Reply) {
    let answer = reply.as_ref().map(|it| &it.answer);
    assert!(matches!(answer, Ok(Answer::Schedule(_))), "{answer:?}");
}

async fn create_all(coordinator: &Coordinator) {
    let anchor = coordinator.now();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..SCHEDULES {
        let terms = Terms {
            recurrence: Recurrence::Every { every: EVERY, anchor },
            overlap: Overlap::Allow,
            catch_up: CatchUp::All,
            window: WINDOW_DEFAULT,
        };
        let run = Json::from(r#"{"kind":"k","queue":"q","input":null}"#);
        let template = Template { run, size: RunSize::ONE };
        let name = Name::from(format!("customer-{number}"));
        let call = ScheduleCall::Create { name, terms, is_paused: false, template };
        let (scope, target) = (Scope::default(), ScheduleTarget::New);
        let item = ScheduleRequest { scope, target, call, by: None };
        let coordinator = coordinator.clone();
        calls.spawn(async move { coordinator.schedule(item).await });
        if calls.len() >= AT_ONCE {
            created(&calls.join_next().await.expect("there are calls").expect("no call fails"));
        }
    }
    while let Some(reply) = calls.join_next().await {
        created(&reply.expect("no call fails"));
    }
}

/// How often each schedule has fired.
async fn fired(browse: &impl Browse) -> BTreeMap<Name, u64> {
    let mut filter = ObjectFilter {
        scope: Some(Scope::default()),
        object_type: Some(ObjectType::Schedule),
        limit: PAGE,
        ..ObjectFilter::default()
    };
    let mut counts = BTreeMap::new();
    loop {
        let page = browse.objects(&filter).await.expect("they can be read");
        let Some(last) = page.last() else { return counts };
        filter.after = Some(last.key.clone());
        let count = |object: &verdict::Object| {
            let schedule = schedule_of(object).expect("a schedule");
            (object.key.id.clone(), schedule.counts.fired)
        };
        counts.extend(page.iter().map(count));
    }
}

async fn until_fired(browse: &impl Browse, wanted: usize) {
    let all = async {
        while fired(browse).await.values().filter(|count| **count > 0).count() < wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(5 * PATIENCE, all).await.expect("they fire in time");
}

/// Every schedule has one run, under the key of its instant, and has counted it.
async fn check(browse: &impl Browse) {
    let counts = fired(browse).await;
    assert_eq!(counts.len(), SCHEDULES);
    assert!(counts.values().all(|count| *count == 1), "none has fired twice");
    let (mut runs, mut after): (BTreeMap<String, usize>, Option<TaskId>) = (BTreeMap::new(), None);
    loop {
        let page = browse.scan(after, PAGE, ScanDepth::Task).await.expect("they can be read");
        let Some(last) = page.last() else { break };
        after = last.task.subject.live().map(|task| task.id);
        for run in &page {
            let key = run.task.spec.key.as_ref().expect("a scheduled run has a key").to_string();
            *runs.entry(key).or_default() += 1;
        }
    }
    assert_eq!(runs.len(), SCHEDULES, "each has its run");
    assert!(runs.values().all(|count| *count == 1));
}

#[test]
fn ten_thousand_fire_once_while_one_of_two_coordinators_dies() {
    // S2-52, F65: at users' sizes, whoever finds an instant due.
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with_writers(clock.clone(), Writers::Two);
    let dying = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let living = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let other = dying.block_on(start(store.attach(clock.clone())));
    living.block_on(async {
        let one = start(store.clone()).await;
        create_all(&one).await;
        clock.advance(EVERY);
        let _ = other.is_progressing().await;
        until_fired(store.browse(), MIDWAY).await;
        // In the middle of whatever it does.
        dying.shutdown_background();
        drop(other);
        one.is_progressing().await.expect("the carrier goes round");
        until_fired(store.browse(), SCHEDULES).await;
        check(store.browse()).await;
        one.stop().await;
    });
}

#[test]
fn ten_thousand_fire_once_though_their_only_coordinator_is_killed() {
    let clock = Arc::new(ManualClock::default());
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let options = storetest::unsynced(clock.clone());
        SqliteStore::open(folder.path().join("tenure.db"), options)
    };
    let dying = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let living = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    dying.block_on(async {
        let one = start(open().expect("it opens")).await;
        create_all(&one).await;
        clock.advance(EVERY);
        let _ = one.is_progressing().await;
        until_fired(one.browse(), MIDWAY).await;
    });
    dying.shutdown_timeout(Duration::ZERO);
    living.block_on(async {
        // The lock of the file is free once its last thread has stopped.
        let store = loop {
            match open() {
                Ok(store) => break store,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let one = start(store).await;
        until_fired(one.browse(), SCHEDULES).await;
        check(one.browse()).await;
        one.stop().await;
    });
}
