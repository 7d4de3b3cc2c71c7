//! What moves with its limits: flow keys with their holders, and a log that has lost its oldest entries.

use store::objects::{ObjectChange, ObjectLogFilter};
use store::verify::verify;
use store::{Batch, Clock, Decided, FlowFilter, FlowKeyRow};
use verdict::flow::{Rate, Terms, UNLIMITED};
use verdict::{FlowKey, Object, ObjectKey, ObjectType, Span, Time};

use super::*;

async fn keys<B: Browse>(browse: &B) -> Vec<FlowKeyRow> {
    let scope = Scope::default();
    let filter = FlowFilter { scope, key: None, after: None, limit: 9, holders: 9 };
    browse.flow_keys(&filter).await.expect("the store answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_and_those_who_wait_for_them_move() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("first.db");
    let mut driver = Driver::start(AtPath(path.clone()), Between::Nothing).await;
    for _ in 0..5 {
        let mut submission = driver.submission(&Scope::default(), "images");
        submission.submit.flow = Some(Box::new(FlowKey::new("acme", 2)));
        driver.submit(submission).await;
    }
    assert_eq!(driver.lease(&Scope::default(), "images", 9).await.len(), 2);
    drop(driver);
    let from = open(&path);
    let there = Postgres::new();
    into_database(&from, there.url()).await.unwrap();
    let to = database(&there).await;
    let (kept, moved) = (keys(from.browse()).await, keys(to.browse()).await);
    assert_eq!((kept[0].held, kept[0].live), (2, 5));
    assert_eq!((moved[0].limit, moved[0].held, &moved[0].holders), (2, 2, &kept[0].holders));
    assert_eq!((moved[0].live, moved[0].parked()), (5, kept[0].parked()));
    assert_eq!(verify(to.browse()).await.unwrap().findings, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_that_count_for_a_rate_move() {
    // A move is no way to start more than the rate says.
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("first.db");
    let mut driver = Driver::start(AtPath(path.clone()), Between::Nothing).await;
    driver.wait(SystemClock::start().wall().since(driver.now()));
    let rate = Some(Rate { count: 2, per: Span::from_secs(86_400) });
    for _ in 0..3 {
        let mut submission = driver.submission(&Scope::default(), "images");
        let terms = Terms { limit: UNLIMITED, rate };
        submission.submit.flow = Some(Box::new(FlowKey::new("acme", terms)));
        driver.submit(submission).await;
    }
    let leased = driver.lease(&Scope::default(), "images", 9).await;
    assert_eq!(leased.len(), 2);
    driver.about(&key_of(&leased[0]), report(&caller(&leased[0]), succeeded())).await;
    drop(driver);
    let from = open(&path);
    let there = Postgres::new();
    into_database(&from, there.url()).await.unwrap();
    let to = database(&there).await;
    let (kept, moved) = (keys(from.browse()).await, keys(to.browse()).await);
    assert_eq!(kept[0].rate.map(|it| it.left), Some(0));
    assert!(kept[0].opens_at.is_some());
    assert_eq!((moved[0].rate, moved[0].opens_at), (kept[0].rate, kept[0].opens_at));
}

/// A schedule that time has changed this often.
async fn busy_schedule(path: &Path, changes: u32) -> ObjectKey {
    let store = open(path);
    let mut writer = store.writer().await.expect("it can be written");
    let (scope, object_type) = (Scope::default(), ObjectType::Schedule);
    let key = ObjectKey { scope, object_type, id: "sched_1".into() };
    for from in (1..=changes).step_by(100) {
        let change = |revision: u32| ObjectChange {
            after: Object {
                key: key.clone(),
                revision,
                status: "active".into(),
                due: None,
                unique_key: Some("nightly".into()),
                parent: None,
                is_pending: false,
                body: "{}".into(),
            },
            at: Time::from_millis(i64::from(revision)),
            by: None,
        };
        let objects = (from..changes.min(from + 99) + 1).map(change).collect();
        let mut batch = writer.begin().await.expect("a batch can be begun");
        batch.moment().await.expect("there is a clock");
        batch.save(Decided { objects, ..Decided::default() }).await.expect("it is saved");
        batch.commit().await.expect("it is committed");
    }
    key
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_begins_late_moves_to_a_database_and_back() {
    let folder = TempDir::new().unwrap();
    let (first, last) = (folder.path().join("first.db"), folder.path().join("last.db"));
    let key = busy_schedule(&first, 1_230).await;
    let from = open(&first);
    let there = Postgres::new();
    into_database(&from, there.url()).await.unwrap();
    let target = SqliteCopyTarget::begin(&last, &today()).unwrap();
    let left = PostgresCopySource::begin(there.url(), "there").await.unwrap();
    carry_into(&left, target).await.unwrap();
    let (middle, to) = (database(&there).await, open(&last));
    let filter = ObjectLogFilter { key: Some(key), after: None, limit: 5_000 };
    let kept = from.browse().object_log(&filter).await.unwrap();
    assert_eq!((kept.len(), kept[0].after.revision), (1_030, 201));
    assert_eq!(middle.browse().object_log(&filter).await.unwrap(), kept);
    assert_eq!(to.browse().object_log(&filter).await.unwrap(), kept);
    assert_eq!(verify(to.browse()).await.unwrap().findings, []);
}
