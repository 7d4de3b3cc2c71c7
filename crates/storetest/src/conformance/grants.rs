//! Which tasks a poll is given, and in which order.

use store::row::{TaskWithSpec, Want};
use store::seam::{Batch, Writer};
use verdict::request::Undelivered;
use verdict::{Answer, Request, Scope, Span, TaskId};

use super::carry::{Call, CallResult, Poll};
use super::driver::{Driver, caller, granted, key_of};
use super::fixture::Fixture;

fn ids(ready: &[TaskWithSpec]) -> Vec<u128> {
    ready.iter().map(|ready| ready.task.id.as_u128()).collect()
}

fn want(queues: &[&str], kinds: Option<&[&str]>, max: usize) -> Want {
    Want {
        scope: Scope::default(),
        queues: queues.iter().map(|queue| (*queue).into()).collect(),
        kinds: kinds.map(|kinds| kinds.iter().map(|kind| (*kind).into()).collect()),
        max,
    }
}

/// Adds tasks with these priorities and returns their ids.
async fn add<F: Fixture>(
    driver: &mut Driver<F>,
    queue: &str,
    kind: &str,
    priorities: &[i32],
) -> Vec<u128> {
    let mut ids = Vec::new();
    for priority in priorities {
        let mut submission = driver.submission(&Scope::default(), queue);
        submission.submit.priority = *priority;
        submission.submit.kind = kind.into();
        ids.push(submission.submit.id.as_u128());
        driver.submit(submission).await;
    }
    ids
}

pub async fn gives_by_priority_then_age<F: Fixture>(driver: &mut Driver<F>) {
    let a = add(driver, "images", "resize", &[0, 5, 0, i32::MAX, -3, 5, i32::MIN]).await;
    let given = driver.lease(&Scope::default(), "images", 4).await;
    // S2-24, R-19, W-2: higher priority first; S0-36, S2-55: the older first among equals.
    assert_eq!(ids(&given), [a[3], a[1], a[5], a[0]]);
    let given = driver.lease(&Scope::default(), "images", 4).await;
    assert_eq!(ids(&given), [a[2], a[4], a[6]]);
}

pub async fn gives_only_wanted_kinds_and_queues<F: Fixture>(driver: &mut Driver<F>) {
    let resize = add(driver, "images", "resize", &[0, 0]).await;
    let crop = add(driver, "images", "crop", &[1]).await;
    let mail = add(driver, "mails", "send", &[3]).await;
    assert_eq!(ids(&driver.poll(want(&["images"], Some(&["blur"]), 9)).await), []);
    assert_eq!(ids(&driver.poll(want(&["nothing"], None, 9)).await), []);
    assert_eq!(ids(&driver.poll(want(&["images"], Some(&["resize"]), 1)).await), [resize[0]]);
    // several queues, named twice or not, have one order.
    let all = driver.poll(want(&["images", "mails", "images"], None, 9)).await;
    assert_eq!(ids(&all), [mail[0], crop[0], resize[1]]);
}

pub async fn gives_no_task_twice<F: Fixture>(driver: &mut Driver<F>) {
    let made = add(driver, "images", "resize", &[0, 0, 0]).await;
    driver.pause().await;
    let now = driver.now();
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let wants = [want(&["images"], None, 2), want(&["images"], None, 2)];
    let given = batch.ready(&wants, now).await.expect("the store says what is ready");
    // W-1, S2-52: two polls in one batch never get the same task.
    assert_eq!((ids(&given[0]), ids(&given[1])), (vec![made[0], made[1]], vec![made[2]]));
    drop(batch);
    let leased = driver.lease(&Scope::default(), "images", 2).await;
    assert_eq!(ids(&leased), [made[0], made[1]]);
    // S0-53: and a leased task is given to no other poll.
    assert_eq!(ids(&driver.lease(&Scope::default(), "images", 9).await), [made[2]]);
    assert_eq!(ids(&driver.lease(&Scope::default(), "images", 9).await), []);
}

pub async fn gives_nothing_before_its_time<F: Fixture>(driver: &mut Driver<F>) {
    let mut later = driver.submission(&Scope::default(), "images");
    later.submit.run_at = Some(driver.now().plus(Span::from_secs(10)));
    later.submit.priority = 9;
    driver.submit(later.clone()).await;
    let soon = driver.add(&Scope::default(), "images").await;
    // A task that is not due blocks no other, though it is older and has a higher priority.
    assert_eq!(ids(&driver.lease(&Scope::default(), "images", 1).await), [soon.id.as_u128()]);
    driver.wait(Span::from_millis(9_999));
    assert_eq!(ids(&driver.lease(&Scope::default(), "images", 9).await), []);
    driver.wait(Span::from_millis(1));
    // S2-96: from that exact millisecond on.
    let given = driver.lease(&Scope::default(), "images", 9).await;
    assert_eq!(ids(&given), [later.submit.id.as_u128()]);
}

/// An undelivered grant returns to the queue before tasks that came later.
pub async fn gives_back_old_places<F: Fixture>(driver: &mut Driver<F>) {
    let made = add(driver, "images", "resize", &[0, 0]).await;
    let given = driver.lease(&Scope::default(), "images", 1).await;
    let lease = caller(&given[0]).lease;
    let request = Request::Undelivered(Undelivered { lease });
    assert_eq!(driver.about(&key_of(&given[0]), request).await, Answer::Done);
    // S2-55: the younger task does not overtake it.
    assert_eq!(ids(&driver.lease(&Scope::default(), "images", 2).await), made);
}

/// A task is submitted and granted in one commit: no second one is needed.
pub async fn gives_what_the_same_batch_made_ready<F: Fixture>(driver: &mut Driver<F>) {
    let submission = driver.submission(&Scope::default(), "images");
    let id = submission.submit.id;
    let poll = Poll {
        want: want(&["images"], None, 5),
        worker: "ann".into(),
        name: None,
        first_lease: driver.number() << 32,
    };
    let mut said = driver.ask_all(vec![Call::Submit(submission), Call::Poll(poll)]).await;
    let leased = granted(said.pop().unwrap_or(CallResult::Locked));
    assert_eq!(leased.iter().map(|ready| ready.task.id).collect::<Vec<TaskId>>(), [id]);
    assert_eq!(driver.load(&key_of(&leased[0])).await.live(), Some(&leased[0].task));
}
