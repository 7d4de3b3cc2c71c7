//! Slots of flow keys that are held for life: from the first lease until the task has ended, whatever becomes of the lease, and
//! over restarts; and none that leaks.

use store::browse::Browse;
use store::row::{FlowFilter, FlowKeyRow, TaskKey, TaskWithSpec};
use verdict::flow::Hold;
use verdict::request::{Cancel, CancelMode, Outcome, Report, Undelivered};
use verdict::{Answer, Category, Digest, Fault, FlowKey, Request, Scope, Span, Subject};

use super::carry::Submission;
use super::driver::{Driver, caller, key_of};
use super::fixture::Fixture;

fn held(mut submission: Submission, limit: u32) -> Submission {
    let flow = FlowKey { hold: Hold::Life, ..FlowKey::new("acme", limit) };
    submission.submit.flow = Some(Box::new(flow));
    submission
}

async fn add<F: Fixture>(driver: &mut Driver<F>, queue: &str, limit: u32) -> TaskKey {
    let submission = held(driver.submission(&Scope::default(), queue), limit);
    let key = TaskKey { scope: Scope::default(), id: submission.submit.id };
    let answer = driver.submit(submission).await;
    assert!(matches!(answer, Answer::Accepted { .. }), "{answer:?}");
    key
}

async fn lease<F: Fixture>(driver: &mut Driver<F>, queue: &str) -> Vec<TaskWithSpec> {
    driver.lease(&Scope::default(), queue, 9).await
}

async fn row<F: Fixture>(driver: &Driver<F>) -> FlowKeyRow {
    let scope = Scope::default();
    let filter = FlowFilter { scope, key: None, after: None, limit: 9, holders: 3 };
    driver.browse().flow_keys(&filter).await.expect("browsing works").remove(0)
}

async fn report<F: Fixture>(driver: &mut Driver<F>, leased: &TaskWithSpec, outcome: Outcome) {
    let digest = Digest::of(&[format!("{outcome:?}").as_bytes()]);
    let report = Report { caller: caller(leased), outcome, digest, claims: None, by: None };
    let answer = driver.about(&key_of(leased), Request::Report(report)).await;
    assert!(matches!(answer, Answer::Committed { .. }), "{answer:?}");
}

fn failure() -> Outcome {
    Outcome::Failed(Fault {
        category: Category::UserCode,
        message: "it broke".into(),
        stack_trace: None,
        retryable: Some(true),
    })
}

/// Longer than any backoff and lease of these tests.
const LONG: Span = Span::from_secs(600);

pub async fn keep_their_slot_through_retries_and_lost_workers<F: Fixture>(driver: &mut Driver<F>) {
    let first = add(driver, "images", 1).await;
    add(driver, "images", 1).await;
    let leased = lease(driver, "images").await;
    assert_eq!(leased.iter().map(|it| it.task.id).collect::<Vec<_>>(), [first.id]);
    report(driver, &leased[0], failure()).await;
    assert_eq!(lease(driver, "images").await, [], "it waits for its retry with its slot");
    let kept = row(driver).await;
    assert_eq!((kept.held, kept.parked(), &kept.holders[..]), (1, 1, &[first.id][..]));
    driver.reopen().await;
    assert_eq!(lease(driver, "images").await, [], "rows say who holds it");
    driver.wait(LONG);
    let again = lease(driver, "images").await;
    assert_eq!(again.iter().map(|it| it.task.id).collect::<Vec<_>>(), [first.id]);
    // Its worker is lost.
    driver.wait(LONG);
    driver.sweep().await;
    driver.wait(LONG);
    let again = lease(driver, "images").await;
    assert_eq!(again.iter().map(|it| it.task.id).collect::<Vec<_>>(), [first.id]);
    report(driver, &again[0], Outcome::Succeeded { output: None }).await;
    assert_eq!(lease(driver, "images").await.len(), 1, "the end gives it back, once");
    assert_eq!(row(driver).await.held, 1);
}

pub async fn give_their_slot_back_however_they_end<F: Fixture>(driver: &mut Driver<F>) {
    let count = 4;
    for _ in 0..count {
        add(driver, "images", 1).await;
    }
    // Handed back, then cancelled while it waits with its slot.
    let one = lease(driver, "images").await.remove(0);
    let lease_id = one.task.lease().expect("it is leased").id;
    driver.about(&key_of(&one), Request::Undelivered(Undelivered { lease: lease_id })).await;
    assert_eq!(row(driver).await.held, 1, "its first grant took the slot");
    cancel(driver, &key_of(&one), CancelMode::Graceful).await;
    // Cancelled by force under its lease.
    let two = lease(driver, "images").await.remove(0);
    assert_ne!(two.task.id, one.task.id);
    cancel(driver, &key_of(&two), CancelMode::Immediate).await;
    // Failed for good.
    let three = lease(driver, "images").await.remove(0);
    let Outcome::Failed(fault) = failure() else { unreachable!("a failure") };
    report(driver, &three, Outcome::Failed(Fault { retryable: Some(false), ..fault })).await;
    assert!(matches!(driver.load(&key_of(&three)).await, Subject::Done(_)));
    let four = lease(driver, "images").await.remove(0);
    report(driver, &four, Outcome::Succeeded { output: None }).await;
    let scope = Scope::default();
    let filter = FlowFilter { scope, key: None, after: None, limit: 9, holders: 3 };
    assert_eq!(driver.browse().flow_keys(&filter).await.expect("browsing works"), []);
    // No holder is left, and no slot leaked.
    add(driver, "images", 2).await;
    add(driver, "images", 2).await;
    assert_eq!(lease(driver, "images").await.len(), 2);
}

async fn cancel<F: Fixture>(driver: &mut Driver<F>, key: &TaskKey, mode: CancelMode) {
    let answer = driver.about(key, Request::Cancel(Cancel { reason: None, mode })).await;
    assert!(matches!(answer, Answer::CancelAccepted { .. }), "{answer:?}");
    assert!(matches!(driver.load(key).await, Subject::Done(_)));
}

pub async fn leave_the_other_slots_to_others<F: Fixture>(driver: &mut Driver<F>) {
    // Two slots: one is kept through a retry, and the other one goes round.
    let first = add(driver, "images", 2).await;
    let leased = lease(driver, "images").await;
    report(driver, &leased[0], failure()).await;
    for _ in 0..3 {
        add(driver, "images", 2).await;
    }
    let second = lease(driver, "images").await;
    assert_eq!(second.len(), 1, "one slot is free");
    assert_ne!(second[0].task.id, first.id);
    // Ready again, it needs no free slot, and takes none from those that wait.
    driver.wait(Span::from_secs(60));
    let returned = lease(driver, "images").await;
    assert_eq!(returned.iter().map(|it| it.task.id).collect::<Vec<_>>(), [first.id]);
    assert_eq!((row(driver).await.held, row(driver).await.parked()), (2, 2));
    report(driver, &returned[0], Outcome::Succeeded { output: None }).await;
    assert_eq!(lease(driver, "images").await.len(), 1, "its end gives one back");
    // One that only holds its leases shares the key.
    let mut plain = driver.submission(&Scope::default(), "mails");
    plain.submit.flow = Some(Box::new(FlowKey::new("acme", 2)));
    driver.submit(plain).await;
    assert_eq!(lease(driver, "mails").await, [], "both slots are held");
}
