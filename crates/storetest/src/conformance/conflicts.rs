//! Several concurrent writers, where the engine allows them.

use store::failure::{CommitFailure, Failure, FailureKind};
use store::row::{Change, TaskKey, Want};
use store::seam::{Batch, Decided, Loaded, Lookup, Store, Writer};
use verdict::{Context, Moment, Request, Scope, Span};

use super::carry::{Call, CallResult, carry, change};
use super::driver::Driver;
use super::fixture::Fixture;

type WriterOf<F> = <<F as Fixture>::Store as Store>::Writer;

/// A second writer, or `None` after checking that this engine allows none.
async fn second_writer<F: Fixture>(driver: &Driver<F>) -> Option<WriterOf<F>> {
    let second = driver.store().writer().await;
    assert_eq!(second.is_ok(), driver.store().status().writers > 1);
    second.ok()
}

/// Commits if the save succeeded; rolls back otherwise.
async fn finish<B: Batch>(batch: B, saved: Result<(), Failure>) -> Result<(), Failure> {
    saved?;
    match batch.commit().await {
        Ok(()) => Ok(()),
        Err(CommitFailure::RolledBack(failure)) => Err(failure),
        Err(CommitFailure::Unknown(failure)) => panic!("no engine doubts a conflict: {failure}"),
    }
}

fn want() -> Want {
    Want { scope: Scope::default(), queues: vec!["images".into()], kinds: None, max: 1 }
}

pub async fn limits_its_writers<F: Fixture>(driver: &mut Driver<F>) {
    let mut more = Vec::new();
    for _ in 1..driver.store().status().writers {
        more.push(driver.store().writer().await.expect("there are as many as it says"));
    }
    let refused = driver.store().writer().await.err().map(|failure| failure.kind);
    assert_eq!(refused, Some(FailureKind::Closed));
    drop(more);
    driver.reopen().await;
}

async fn load<B: Batch>(batch: &mut B, keys: &[TaskKey]) -> Vec<Loaded> {
    batch.look_up(Lookup::tasks(keys)).await.expect("loading works").tasks
}

pub async fn holds_rows_of_another_batch<F: Fixture>(driver: &mut Driver<F>) {
    let key = driver.add(&Scope::default(), "images").await;
    let Some(mut second) = second_writer(driver).await else { return };
    let mut first = driver.writer().begin().await.expect("a batch can be begun");
    let keys = std::slice::from_ref(&key);
    assert!(matches!(load(&mut first, keys).await[..], [Loaded::Subject(_)]));
    let mut other = second.begin().await.expect("a batch can be begun");
    // S2-81: a row that another batch holds is skipped, not waited for.
    assert_eq!(load(&mut other, keys).await, [Loaded::Locked]);
    let request = Request::Sweep;
    let said = carry(&mut other, 1, Call::About { key: key.clone(), request }).await;
    assert!(matches!(said, Ok(CallResult::Locked)));
    // A batch may load its own rows repeatedly.
    assert!(matches!(load(&mut first, keys).await[..], [Loaded::Subject(_)]));
}

pub async fn passes_over_what_another_batch_took<F: Fixture>(driver: &mut Driver<F>) {
    let first_key = driver.add(&Scope::default(), "images").await;
    let second_key = driver.add(&Scope::default(), "images").await;
    let now = driver.now();
    let Some(mut second) = second_writer(driver).await else { return };
    let mut one = driver.writer().begin().await.expect("a batch can be begun");
    let mut two = second.begin().await.expect("a batch can be begun");
    let mine = one.ready(&[want()], now).await.expect("ready works");
    let theirs = two.ready(&[want()], now).await.expect("ready works");
    // Proves: S2-52: two concurrent batches never take the same task. W-1: the same.
    assert_eq!(mine[0][0].task.id, first_key.id);
    assert_eq!(theirs[0][0].task.id, second_key.id);
}

pub async fn loses_the_race_for_a_key<F: Fixture>(driver: &mut Driver<F>) {
    let one = driver.submission(&Scope::default(), "images").with_key("k");
    let two = driver.submission(&Scope::default(), "images").with_key("k");
    let Some(mut second) = second_writer(driver).await else { return };
    let mut first = driver.writer().begin().await.expect("a batch can be begun");
    let mut other = second.begin().await.expect("a batch can be begun");
    carry(&mut first, 1, Call::Submit(one.clone())).await.expect("the store takes it");
    let late = carry(&mut other, 1, Call::Submit(two.clone())).await;
    first.commit().await.expect("the first one wins");
    let lost = finish(other, late.map(drop)).await;
    // S2-115, R-32: the loser is told to decide again, and then finds the winner.
    let lost = lost.expect_err("two tasks have one key");
    assert!(matches!(lost.kind, FailureKind::Conflict(_)), "{lost:?}");
    let mut again = second.begin().await.expect("a batch can be begun");
    let said = carry(&mut again, 1, Call::Submit(two)).await.expect("the store takes it");
    let verdict::Answer::Accepted { task, replayed, .. } = super::driver::answer(said) else {
        panic!("the loser finds the winner")
    };
    assert_eq!((task, replayed), (one.submit.id, true));
}

/// The change of a sweep at the deadline, from a task loaded now.
async fn prepared<F: Fixture>(driver: &mut Driver<F>, key: &TaskKey) -> Change {
    let subject = driver.load(key).await;
    let at = Moment {
        now: driver.now().plus(Span::from_secs(1000)),
        epoch: 1,
        rules: verdict::Rules::NEWEST,
    };
    let (_, change) = change(subject, Context::default(), &Request::Sweep, at);
    change.expect("the deadline has come")
}

pub async fn refuses_a_stale_revision<F: Fixture>(driver: &mut Driver<F>) {
    let mut submission = driver.submission(&Scope::default(), "images");
    submission.submit.policy.deadline = Some(driver.now().plus(Span::from_secs(1000)));
    let key = submission.task_key();
    driver.submit(submission).await;
    let stale = prepared(driver, &key).await;
    assert_eq!(driver.lease(&Scope::default(), "images", 1).await.len(), 1);
    let leased = driver.load(&key).await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let saved = batch.save(Decided::changes(vec![stale])).await;
    let failure = finish(batch, saved).await.expect_err("a stale change was saved");
    // S0-35, S0-43, R-1, W-1: the changed revision must be the one that was read.
    assert!(matches!(failure.kind, FailureKind::Conflict(_)), "{failure:?}");
    assert_eq!(driver.load(&key).await, leased);
}

pub async fn releases_what_a_batch_locked<F: Fixture>(driver: &mut Driver<F>) {
    let key = driver.add(&Scope::default(), "images").await;
    let keys = std::slice::from_ref(&key);
    let Some(mut second) = second_writer(driver).await else { return };
    for is_committed in [true, false] {
        let mut first = driver.writer().begin().await.expect("a batch can be begun");
        load(&mut first, keys).await;
        if is_committed {
            first.commit().await.expect("the batch commits");
        } else {
            drop(first);
        }
        let mut other = second.begin().await.expect("a batch can be begun");
        let loaded = load(&mut other, keys).await;
        assert!(matches!(loaded[0], Loaded::Subject(_)), "committed: {is_committed}");
    }
}
