//! Flow keys: never more leases than the limit, no slot that leaks, no parked task that is forgotten.

use store::browse::Browse;
use store::row::{FlowFilter, FlowKeyRow, QueueDepth, TaskKey, TaskWithSpec, Want};
use store::seam::{Batch, Store, Writer};
use verdict::request::{Cancel, CancelMode, Outcome, Report, Undelivered};
use verdict::{
    Answer, Category, Digest, Fault, FlowKey, Name, Refusal, Request, Scope, Span, TaskId,
};

use super::carry::{Call, CallResult, Poll, Submission, carry};
use super::driver::{Driver, caller, key_of};
use super::fixture::Fixture;

/// Longer than any backoff or lease of these tasks.
const LONG: Span = Span::from_secs(300);

fn limited(mut submission: Submission, key: &str, limit: u32) -> Submission {
    submission.submit.flow = Some(Box::new(FlowKey::new(key, limit)));
    submission
}

async fn add<F: Fixture>(driver: &mut Driver<F>, queue: &str, key: &str, limit: u32) -> TaskKey {
    let submission = limited(driver.submission(&Scope::default(), queue), key, limit);
    let task = submission.task_key();
    let answer = driver.submit(submission).await;
    assert!(matches!(answer, Answer::Accepted { .. }), "{answer:?}");
    task
}

async fn lease<F: Fixture>(driver: &mut Driver<F>, queue: &str, max: usize) -> Vec<TaskWithSpec> {
    let leased = driver.lease(&Scope::default(), queue, max).await;
    check(driver).await;
    leased
}

fn reported(leased: &TaskWithSpec, outcome: Outcome) -> Request {
    let digest = Digest::of(&[format!("{outcome:?}").as_bytes()]);
    Request::Report(Report { caller: caller(leased), outcome, digest, claims: None, by: None })
}

fn success() -> Outcome {
    Outcome::Succeeded { output: None }
}

async fn report<F: Fixture>(driver: &mut Driver<F>, leased: &TaskWithSpec, outcome: Outcome) {
    let answer = driver.about(&key_of(leased), reported(leased, outcome)).await;
    assert!(matches!(answer, Answer::Committed { .. }), "{answer:?}");
    check(driver).await;
}

async fn keys<F: Fixture>(driver: &Driver<F>) -> Vec<FlowKeyRow> {
    let scope = Scope::default();
    let filter = FlowFilter { scope, key: None, after: None, limit: 2_000, holders: 3 };
    driver.browse().flow_keys(&filter).await.expect("browsing works")
}

/// No key has more leases than its limit.
async fn check<F: Fixture>(driver: &Driver<F>) {
    for row in keys(driver).await {
        assert!(row.held <= u64::from(row.limit), "{row:?}");
    }
}

pub async fn hold_no_more_than_their_limit<F: Fixture>(driver: &mut Driver<F>) {
    // Over all queues of the scope, and a full key keeps no other task from its worker.
    for queue in ["images", "mails", "images", "mails", "images"] {
        add(driver, queue, "acme", 2).await;
    }
    let plain = driver.add(&Scope::default(), "images").await;
    let images = lease(driver, "images", 9).await;
    assert_eq!(images.len(), 3, "two with the key, and the one without");
    assert_eq!(images[2].task.id, plain.id);
    assert_eq!(lease(driver, "mails", 9).await, []);
    report(driver, &images[0], success()).await;
    let mails = lease(driver, "mails", 9).await;
    assert_eq!(mails.len(), 1, "one slot, one task");
    assert_eq!(lease(driver, "images", 9).await, []);
    // Another scope has keys of its own.
    let other = Scope::new("other", "default");
    let theirs = limited(driver.submission(&other, "images"), "acme", 7);
    driver.submit(theirs).await;
    assert_eq!(driver.lease(&other, "images", 1).await.len(), 1);
}

pub async fn are_counted_as_parked_and_not_as_ready<F: Fixture>(driver: &mut Driver<F>) {
    // A queue whose tasks wait for a slot needs no more workers, so its ready tasks are those that a poll could lease.
    for _ in 0..3 {
        add(driver, "images", "acme", 1).await;
    }
    driver.add(&Scope::default(), "images").await;
    let counted = |depths: Vec<QueueDepth>| -> Vec<(u64, u64, u64, bool)> {
        let counts =
            |it: QueueDepth| (it.ready, it.parked, it.running, it.oldest_ready_at.is_some());
        depths.into_iter().map(counts).collect()
    };
    let queues = driver.browse().queues(Some(&Scope::default())).await.expect("browsing works");
    assert_eq!(counted(queues), [(2, 2, 0, true)], "one slot is free");
    let leased = lease(driver, "images", 9).await;
    assert_eq!(leased.len(), 2);
    let queues = driver.browse().queues(None).await.expect("browsing works");
    assert_eq!(counted(queues), [(0, 2, 2, false)], "the key is full");
}

pub async fn free_a_slot_however_a_lease_ends<F: Fixture>(driver: &mut Driver<F>) {
    let failed = Outcome::Failed(Fault {
        category: Category::UserCode,
        message: "it broke".into(),
        stack_trace: None,
        retryable: Some(true),
    });
    for (n, outcome) in [success(), failed, Outcome::Released].into_iter().enumerate() {
        let queue = format!("reported-{n}");
        let (first, second) = two_of(driver, &queue).await;
        report(driver, &first, outcome).await;
        // What was handed back may come first again: it is older.
        assert!([first.task.id, second.id].contains(&lease_one(driver, &queue).await));
    }
    let (first, second) = two_of(driver, "undelivered").await;
    let lease = first.task.lease().expect("it is leased").id;
    driver.about(&key_of(&first), Request::Undelivered(Undelivered { lease })).await;
    assert!([first.task.id, second.id].contains(&lease_one(driver, "undelivered").await));
    let (first, second) = two_of(driver, "cancelled").await;
    let cancel = Cancel { reason: None, mode: CancelMode::Immediate };
    driver.about(&key_of(&first), Request::Cancel(cancel)).await;
    assert_eq!(lease_one(driver, "cancelled").await, second.id);
    let (first, second) = two_of(driver, "expired").await;
    driver.wait(LONG);
    driver.sweep().await;
    // The lost one is older: it comes first if its backoff is over.
    assert!([first.task.id, second.id].contains(&lease_one(driver, "expired").await));
}

/// Two tasks with a key of limit 1, of which the first is leased.
async fn two_of<F: Fixture>(driver: &mut Driver<F>, queue: &str) -> (TaskWithSpec, TaskKey) {
    add(driver, queue, queue, 1).await;
    let second = add(driver, queue, queue, 1).await;
    let mut leased = lease(driver, queue, 9).await;
    assert_eq!(leased.len(), 1, "the key is full");
    assert_eq!(lease(driver, queue, 9).await, []);
    (leased.remove(0), second)
}

async fn lease_one<F: Fixture>(driver: &mut Driver<F>, queue: &str) -> TaskId {
    let leased = lease(driver, queue, 9).await;
    assert_eq!(leased.len(), 1, "the slot of {queue} is free, and one fits");
    leased[0].task.id
}

pub async fn forget_no_parked_task<F: Fixture>(driver: &mut Driver<F>) {
    let mut expected = Vec::new();
    for priority in [0, 5, 0, -3, 5, 0] {
        let mut submission = limited(driver.submission(&Scope::default(), "images"), "acme", 1);
        submission.submit.priority = priority;
        expected.push((std::cmp::Reverse(priority), submission.submit.id));
        driver.submit(submission).await;
    }
    expected.sort();
    let mut order = Vec::new();
    while order.len() < expected.len() {
        let leased = lease(driver, "images", 3).await;
        assert_eq!(leased.len(), 1, "{} of {} are done", order.len(), expected.len());
        order.push((std::cmp::Reverse(leased[0].task.priority), leased[0].task.id));
        report(driver, &leased[0], success()).await;
    }
    assert_eq!(order, expected, "by priority, then age");
    assert_eq!(keys(driver).await, [], "a key lives as long as its tasks");
}

pub async fn refuse_another_limit_while_a_task_lives<F: Fixture>(driver: &mut Driver<F>) {
    add(driver, "images", "acme", 2).await;
    let other = limited(driver.submission(&Scope::default(), "mails"), "acme", 3);
    let refusal =
        Refusal::FlowLimitConflict { key: "acme".into(), in_force: 2.into(), asked: 3.into() };
    assert_eq!(driver.submit(other).await, Answer::Refused(refusal));
    let leased = lease(driver, "images", 1).await;
    report(driver, &leased[0], success()).await;
    add(driver, "mails", "acme", 3).await;
}

pub async fn keep_no_slot_for_a_line_without_workers<F: Fixture>(driver: &mut Driver<F>) {
    let mut urgent = limited(driver.submission(&Scope::default(), "images"), "acme", 1);
    (urgent.submit.priority, urgent.submit.kind) = (9, Name::from("unknown"));
    driver.submit(urgent).await;
    let polled = add(driver, "images", "acme", 1).await;
    let (scope, queues) = (Scope::default(), vec![Name::from("images")]);
    let want = Want { scope, queues, kinds: Some(vec![Name::from("resize")]), max: 4 };
    let leased = driver.poll(want).await;
    assert_eq!(leased.iter().map(|it| it.task.id).collect::<Vec<_>>(), [polled.id]);
    assert_eq!(lease(driver, "images", 9).await, [], "the slot is taken");
    report(driver, &leased[0], success()).await;
    assert_eq!(lease(driver, "images", 9).await.len(), 1);
}

pub async fn hold_nothing_of_a_dropped_batch<F: Fixture>(driver: &mut Driver<F>) {
    add(driver, "images", "acme", 1).await;
    add(driver, "images", "acme", 1).await;
    driver.pause().await;
    let epoch = driver.store().status().epoch;
    let first_lease = driver.number() << 32;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let want = Want { scope: Scope::default(), queues: vec!["images".into()], kinds: None, max: 4 };
    let poll = Poll { want, worker: "ann".into(), name: None, first_lease };
    let granted = carry(&mut batch, epoch, Call::Poll(poll)).await.expect("the store gives");
    assert!(matches!(granted, CallResult::Granted(tasks) if tasks.len() == 1));
    drop(batch);
    // What was dropped is rolled back by then.
    driver.reopen().await;
    check(driver).await;
    assert_eq!(lease(driver, "images", 4).await.len(), 1, "nobody holds the slot");
}

pub async fn are_granted_by_one_batch_at_a_time<F: Fixture>(driver: &mut Driver<F>) {
    add(driver, "images", "acme", 1).await;
    add(driver, "mails", "acme", 1).await;
    let now = driver.now();
    let Ok(mut second) = driver.store().writer().await else { return };
    let mut one = driver.writer().begin().await.expect("a batch can be begun");
    let mut two = second.begin().await.expect("a batch can be begun");
    let want = |queue: &str| {
        let (scope, queues) = (Scope::default(), vec![Name::from(queue)]);
        [Want { scope, queues, kinds: None, max: 4 }]
    };
    assert_eq!(one.ready(&want("images"), now).await.expect("ready works")[0].len(), 1);
    // S2-81: the key is locked, and its tasks are passed over without waiting.
    assert_eq!(two.ready(&want("mails"), now).await.expect("ready works"), [[]]);
    drop(one);
    drop(two);
    drop(second);
    driver.reopen().await;
    assert_eq!(lease(driver, "mails", 4).await.len(), 1);
}

pub async fn wait_for_their_time_before_they_want_a_slot<F: Fixture>(driver: &mut Driver<F>) {
    let mut later = limited(driver.submission(&Scope::default(), "images"), "acme", 1);
    later.submit.run_at = Some(driver.now().plus(Span::from_secs(60)));
    let later_id = later.submit.id;
    driver.submit(later).await;
    let now = add(driver, "images", "acme", 1).await;
    let first = lease(driver, "images", 9).await;
    assert_eq!(first.iter().map(|it| it.task.id).collect::<Vec<_>>(), [now.id]);
    driver.wait(Span::from_secs(60));
    assert_eq!(lease(driver, "images", 9).await, [], "due, and the key is full");
    report(driver, &first[0], success()).await;
    assert_eq!(lease_one(driver, "images").await, later_id);
}

pub async fn are_listed_with_their_holders<F: Fixture>(driver: &mut Driver<F>) {
    for key in ["acme", "acme", "acme", "bolt"] {
        add(driver, "images", key, 2).await;
    }
    let leased = lease(driver, "images", 9).await;
    let mut rows = keys(driver).await;
    assert_eq!(rows.len(), 2);
    let bolt = rows.pop().expect("two keys");
    let acme = rows.pop().expect("two keys");
    assert_eq!((acme.key.as_str(), acme.limit, acme.held), ("acme", 2, 2));
    assert_eq!((acme.ready, acme.live, acme.parked()), (1, 3, 1));
    assert_eq!(acme.holders, leased[..2].iter().map(|it| it.task.id).collect::<Vec<_>>());
    assert_eq!((bolt.held, bolt.parked()), (1, 0));
    let filter = FlowFilter {
        scope: Scope::default(),
        key: None,
        after: Some("acme".into()),
        limit: 9,
        holders: 0,
    };
    let after = driver.browse().flow_keys(&filter).await.expect("browsing works");
    assert_eq!(after.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(), ["bolt"]);
    let one = FlowFilter { key: Some("acme".into()), after: None, ..filter };
    assert_eq!(driver.browse().flow_keys(&one).await.expect("browsing works").len(), 1);
}
