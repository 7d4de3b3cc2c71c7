//! The carrier, embedded: what a program gets without HTTP.

use std::sync::Arc;
use std::time::Duration;

use coordinator::{RequestError, StopReason};
use store::{Batch, Browse, Lookup, RowsAfter, Store, Writer};
use storetest::{ManualClock, MemoryStore, Writers};
use verdict::request::{Cancel, CancelMode};
use verdict::{Answer, AttemptOutcome, Reason, Refusal, Span, State};

use crate::harness::{
    accepted, key, keyed, patient, poll, report_of, start, submission, succeeded, world,
    world_and_store,
};

fn commits(coordinator: &coordinator::Coordinator) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, coordinator.registry())
        .expect("metrics are text");
    let line = text.lines().find(|line| line.starts_with("tenure_batch_items_count"));
    line.expect("commits are counted").to_owned()
}

#[tokio::test]
async fn a_task_submitted_to_a_waiting_worker_is_granted_in_the_same_commit() {
    let world = world().await;
    let waiting = tokio::spawn({
        let coordinator = world.coordinator.clone();
        async move { coordinator.lease(patient("w")).await }
    });
    while !polls_waiting(&world.coordinator) {
        tokio::task::yield_now().await;
    }
    let task = world.submit(submission("k")).await;
    let granted = waiting.await.unwrap().unwrap();
    assert_eq!(granted[0].task.id, task);
    assert_eq!(granted[0].task.state(), State::Running);
    assert_eq!(commits(&world.coordinator), "tenure_batch_items_count 1");
}

fn polls_waiting(coordinator: &coordinator::Coordinator) -> bool {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, coordinator.registry())
        .expect("metrics are text");
    text.contains("tenure_polls_waiting 1")
}

#[tokio::test]
async fn a_whole_life_ends_in_one_commit_and_one_record() {
    // S3-7, S3-13, S3-14, S2-44: lease, execute, report, accept the answer; completion is recorded
    // exactly once.
    let world = world().await;
    let task = world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    assert_eq!(granted.task.attempt, 1);
    assert_eq!(world.started(&granted).await, Answer::Acknowledged);
    assert!(matches!(world.heartbeat(&granted).await, Answer::Alive { cancel: None, .. }));
    let outcome = AttemptOutcome::Succeeded;
    let committed = Answer::Committed { outcome, state: State::Succeeded, replayed: false };
    assert_eq!(world.succeed(&granted).await, committed);
    let again = Answer::Committed { outcome, state: State::Succeeded, replayed: true };
    assert_eq!(world.succeed(&granted).await, again, "S3-60, S3-62: a repeated report is answered");
    let browse = world.coordinator.browse();
    let found = browse.find(&key(task)).await.unwrap().unwrap();
    assert_eq!(found.subject.state(), Some(State::Succeeded));
    assert_eq!(browse.rows(&key(task), RowsAfter::Attempt(0), 99).await.unwrap().attempts.len(), 1);
    let history = browse.rows(&key(task), RowsAfter::Entry(0), 100).await.unwrap().history;
    let numbers: Vec<u32> = history.iter().map(|entry| entry.n).collect();
    assert_eq!(numbers, [1, 2, 3, 4], "submitted, granted, started, closed: no heartbeat (R-4)");
}

#[tokio::test]
async fn a_dead_workers_task_is_taken_over_and_its_late_report_is_cancelled() {
    // S0-48, S3-22, S3-23, R-9: the lease expires, another worker takes over, the late report is
    // refused, recorded, and changes nothing.
    let world = world().await;
    let task = world.submit(submission("k")).await;
    let dead = world.lease_one("dead").await;
    world.started(&dead).await;
    world.pass(Span::from_millis(1_999)).await;
    assert!(world.lease("heir").await.is_empty(), "R-2: not before its end");
    // S4-47: noticed when it happens, which is sooner than half a heartbeat interval.
    world.pass(Span::from_millis(1)).await;
    let heir = world.lease_one("heir").await;
    assert_eq!((heir.task.attempt, heir.task.lost), (2, 1));
    let fences = [&dead, &heir].map(|granted| granted.task.lease().unwrap().fence);
    assert!(fences[0] < fences[1], "A2, W-32: a receiver can refuse the older fence");
    let late = world.succeed(&dead).await;
    let superseded = Refusal::AttemptSuperseded { expected: 2, received: 1 };
    assert_eq!(late, Answer::Refused(superseded));
    assert!(matches!(world.succeed(&heir).await, Answer::Committed { .. }));
    let refused = world
        .coordinator
        .browse()
        .rows(&key(task), RowsAfter::Refusal(None), 99)
        .await
        .unwrap()
        .refused;
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].code.as_str(), "attempt_mismatch");
}

#[tokio::test]
async fn a_grant_nobody_took_goes_back_at_once_with_its_old_place() {
    // F54: an answer that no poll received is UNDELIVERED, never LOST.
    let world = world().await;
    let waiting = tokio::spawn({
        let coordinator = world.coordinator.clone();
        async move { coordinator.lease(patient("gone")).await }
    });
    while !polls_waiting(&world.coordinator) {
        tokio::task::yield_now().await;
    }
    // Disconnected between decision and answer: the poll is dropped while the grant is in progress.
    let submitted = world.coordinator.submit(vec![submission("k")]);
    waiting.abort();
    let (task, _) = accepted(&submitted.await[0]);
    let granted = loop {
        let mut granted = world.lease("next").await;
        if let Some(granted) = granted.pop() {
            break granted;
        }
        world.round().await;
    };
    assert_eq!(granted.task.id, task);
    assert_eq!((granted.task.lost, granted.task.failures), (0, 0));
}

#[tokio::test]
async fn releasing_a_grant_gives_the_task_to_the_next_poll() {
    let world = world().await;
    world.submit(submission("k")).await;
    let lost = world.lease_one("w").await;
    world.coordinator.release(vec![(lost.key(), lost.lease())]);
    world.round().await;
    let granted = world.lease_one("w").await;
    assert_eq!((granted.task.attempt, granted.task.lost, granted.task.undelivered), (2, 0, 1));
    let attempts = world
        .coordinator
        .browse()
        .rows(&granted.key(), RowsAfter::Attempt(0), 99)
        .await
        .unwrap()
        .attempts;
    assert_eq!(attempts[0].outcome, AttemptOutcome::Undelivered);
}

#[tokio::test]
async fn hanging_up_on_every_grant_makes_no_attempts_without_end() {
    // W-19: a hundred polls whose worker is gone when the answer arrives, without any time in
    // between.
    let world = world().await;
    let task = world.submit(submission("k")).await;
    let other = world.submit(submission("k")).await;
    for _ in 0..100 {
        for lost in world.lease("w").await.into_iter().filter(|it| it.task.id == task) {
            world.coordinator.release(vec![(lost.key(), lost.lease())]);
        }
        world.round().await;
    }
    let attempts = world
        .coordinator
        .browse()
        .rows(&key(task), RowsAfter::Attempt(0), 999)
        .await
        .unwrap()
        .attempts;
    assert_eq!(attempts.len(), 2, "the second one pauses");
    assert!(attempts.iter().all(|closed| closed.reason == Some(Reason::HandedBack)));
    // It delayed no other task, and is available again after its pause.
    let others = world.coordinator.browse().find(&key(other)).await.unwrap().unwrap();
    assert_eq!(others.subject.state(), Some(State::Running));
    world.pass(Span::from_secs(1)).await;
    assert_eq!(world.lease_one("w").await.task.id, task);
}

#[tokio::test]
async fn a_repeated_poll_finds_the_leases_of_the_first() {
    // F54: granted, answer lost, polled again under the same name.
    let world = world().await;
    world.submit(submission("k")).await;
    let named = || coordinator::Poll { poll: Some("p1".into()), ..poll("w") };
    let first = world.coordinator.lease(named()).await.unwrap();
    let again = world.coordinator.lease(named()).await.unwrap();
    assert_eq!(first[0].lease(), again[0].lease());
    assert_eq!(again[0].task.attempt, 1);
}

#[tokio::test]
async fn a_stall_of_ours_costs_no_honest_worker_its_lease() {
    // A8, F09, F24, F63: ten minutes pass in one jump; no heartbeat could have been received.
    let world = world().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    world.started(&granted).await;
    world.clock.advance(Span::from_secs(600));
    world.round().await;
    assert!(matches!(world.succeed(&granted).await, Answer::Committed { .. }));
}

#[tokio::test]
async fn a_restart_gives_leases_back_the_time_nobody_listened() {
    // A8, F12: alive at the crash, extended by the gap; but time in which heartbeats could be
    // received still counts.
    let (first, store) = world_and_store().await;
    first.submit(submission("k")).await;
    let granted = first.lease_one("w").await;
    first.started(&granted).await;
    assert_eq!(first.coordinator.stop().await, StopReason::Drained);
    first.clock.advance(Span::from_secs(3_600));
    let store = store.reopen();
    let second = crate::harness::World { coordinator: start(store).await, clock: first.clock };
    assert!(matches!(second.heartbeat(&granted).await, Answer::Alive { .. }));
    second.pass(Span::from_secs(2)).await;
    let expired = second.heartbeat(&granted).await;
    assert_eq!(expired, Answer::Refused(Refusal::TaskExpired { state: State::Retry }));
}

#[tokio::test]
async fn a_start_leaves_out_no_lease_that_another_writer_still_has() {
    // A8, F12: the transaction of a coordinator that died keeps its row locks for a while after the
    // next one starts. Skipping those rows would cost an honest worker its lease.
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with_writers(clock.clone(), Writers::Two);
    let first = crate::harness::World { coordinator: start(store.clone()).await, clock };
    first.submit(submission("k")).await;
    let granted = first.lease_one("w").await;
    first.started(&granted).await;
    assert_eq!(first.coordinator.stop().await, StopReason::Drained);
    let mut dead = store.writer().await.unwrap();
    let mut transaction = dead.begin().await.unwrap();
    transaction.look_up(Lookup::tasks(&[granted.key()])).await.unwrap();
    first.clock.advance(Span::from_secs(600));
    tokio::time::pause();
    let starting = start(store.attach(first.clock.clone()));
    tokio::pin!(starting);
    let early = tokio::time::timeout(Duration::from_secs(20), &mut starting).await;
    assert!(early.is_err(), "it waits for the row");
    drop(transaction);
    let second = crate::harness::World { coordinator: starting.await, clock: first.clock.clone() };
    assert!(matches!(second.heartbeat(&granted).await, Answer::Alive { .. }));
}

#[tokio::test]
async fn a_restored_store_has_no_valid_leases() {
    // S3-24: recovery from a backup invalidates every earlier lease.
    let (first, store) = world_and_store().await;
    first.submit(submission("k")).await;
    let granted = first.lease_one("w").await;
    first.coordinator.stop().await;
    let store = store.restore();
    let second = crate::harness::World { coordinator: start(store).await, clock: first.clock };
    let answer = second.succeed(&granted).await;
    assert_eq!(answer, Answer::Refused(Refusal::TaskExpired { state: State::Running }));
}

#[tokio::test]
async fn draining_refuses_new_work_and_still_takes_reports() {
    // F11, S2-51: running work may finish; new work waits for the next start.
    let world = world().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    let waiting = tokio::spawn({
        let coordinator = world.coordinator.clone();
        async move { coordinator.lease(patient("w2")).await }
    });
    while !polls_waiting(&world.coordinator) {
        tokio::task::yield_now().await;
    }
    world.coordinator.drain();
    assert_eq!(waiting.await.unwrap(), Ok(Vec::new()), "waiting polls are answered empty");
    let refused = world.coordinator.submit(vec![submission("k")]).await;
    assert_eq!(refused[0], Err(RequestError::ShuttingDown));
    assert!(matches!(world.succeed(&granted).await, Answer::Committed { .. }));
    assert_eq!(world.coordinator.stop().await, StopReason::Drained);
}

#[tokio::test]
async fn equal_keys_in_one_batch_make_one_task() {
    // C4, S2-115, R-32: also when both arrive in the same batch.
    let world = world().await;
    let batch = vec![keyed("k", "a"), keyed("k", "a"), keyed("other", "a"), keyed("k", "b")];
    let replies = world.coordinator.submit(batch).await;
    let (first, replayed) = accepted(&replies[0]);
    assert!(!replayed);
    assert_eq!(accepted(&replies[1]), (first, true));
    let reused = Refusal::KeyReused { holder: first };
    assert_eq!(replies[2].as_ref().unwrap().answer, Answer::Refused(reused));
    assert_ne!(accepted(&replies[3]).0, first);
}

#[tokio::test]
async fn a_lease_lives_as_long_as_it_is_renewed() {
    // S0-42, S3-48: each accepted heartbeat renews the lease for its full length.
    let world = world().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    world.pass(Span::from_millis(1_900)).await;
    assert!(matches!(world.heartbeat(&granted).await, Answer::Alive { .. }));
    world.pass(Span::from_millis(1_900)).await;
    assert!(matches!(world.succeed(&granted).await, Answer::Committed { .. }));
}

#[tokio::test]
async fn a_cancel_ignored_until_its_grace_is_over_ends_in_cancel_timeout() {
    // W-13, S4-56, R-13: signalled by a heartbeat, ignored, revoked; the worker learns 410.
    let world = world().await;
    let mut ignoring = submission("k");
    ignoring.policy.cancel_grace = Span::from_secs(1);
    let task = world.submit(ignoring).await;
    let granted = world.lease_one("w").await;
    world.started(&granted).await;
    let cancel = Cancel { reason: Some("user_requested".into()), mode: CancelMode::Graceful };
    let reply = world.coordinator.cancel(key(task), cancel).await.unwrap();
    assert!(matches!(reply.answer, Answer::CancelAccepted { state: State::Running, .. }));
    let Answer::Alive { cancel: Some(signal), .. } = world.heartbeat(&granted).await else {
        panic!("the heartbeat carries the signal");
    };
    assert_eq!(signal.reason, Some("user_requested".into()));
    world.pass(Span::from_millis(900)).await;
    assert!(matches!(world.heartbeat(&granted).await, Answer::Alive { cancel: Some(_), .. }));
    world.pass(Span::from_millis(200)).await;
    let late = world.heartbeat(&granted).await;
    assert_eq!(late, Answer::Refused(Refusal::TaskExpired { state: State::Failed }));
    let found = world.coordinator.browse().find(&key(task)).await.unwrap().unwrap();
    let verdict::Subject::Done(done) = found.subject else { panic!("the task has ended") };
    assert_eq!(done.end.reason, Some(verdict::Reason::CancelTimeout));
    assert!(world.lease("other").await.is_empty(), "never retried");
}

#[tokio::test]
async fn a_conflicting_report_is_rejected_without_effect() {
    // S3-36, R-5: another report for a lease that already reported.
    let world = world().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    world.succeed(&granted).await;
    let other = report_of(&granted, succeeded("2"));
    let reply = world.coordinator.report(granted.key(), other).await.unwrap();
    let refusal = Refusal::ConflictingReport { state: State::Succeeded };
    assert_eq!(reply.answer, Answer::Refused(refusal));
}

#[tokio::test]
async fn dropping_every_handle_ends_the_carrier_and_frees_the_store() {
    // A coordinator that is dropped leaves no thread behind.
    let (world, store) = world_and_store().await;
    assert!(store::Store::writer(&store).await.is_err(), "the carrier holds the only writer");
    drop(world);
    while store::Store::writer(&store).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_poll_that_leaves_with_its_answer_on_the_way_hands_the_grant_back() {
    // F54: sent but never received; the next poll gets it without waiting for lease expiry.
    let world = world().await;
    let coordinator = &world.coordinator;
    let mut leaving = Box::pin(coordinator.lease(patient("leaving")));
    assert!(futures_util::poll!(&mut leaving).is_pending());
    world.submit(submission("k")).await;
    // The answer is in the channel now, and was not received.
    drop(leaving);
    world.round().await;
    let granted = world.lease_one("next").await;
    assert_eq!((granted.task.attempt, granted.task.lost), (2, 0));
}

#[tokio::test]
async fn a_task_nobody_polls_for_does_not_hide_the_next_deadline() {
    // Sweeps wake at the earliest due time. Real time, real file: a ready task that waits for a
    // worker must not delay another task's deadline.
    let folder = tempfile::tempdir().unwrap();
    let clock = std::sync::Arc::new(store::SystemClock::start());
    let options = store::sqlite::Options::new(clock);
    let store = store::SqliteStore::open(folder.path().join("t.db"), options).unwrap();
    let coordinator =
        coordinator::Coordinator::start(store, coordinator::Options::default()).await.unwrap();
    let in_millis = |millis| Some(coordinator.now().plus(Span::from_millis(millis)));
    // It becomes ready in a round that has nothing to write, and no poll wants it.
    let mut delayed = submission("waits for a worker");
    delayed.run_at = in_millis(150);
    let mut hurried = submission("hurried");
    hurried.policy.deadline = in_millis(500);
    accepted(&coordinator.submit(vec![delayed]).await[0]);
    let (task, _) = accepted(&coordinator.submit(vec![hurried]).await[0]);
    let look = async |_| {
        let found = coordinator.browse().find(&key(task)).await?;
        Ok(found.filter(|found| found.subject.state() == Some(State::Failed)))
    };
    let ended = coordinator
        .watch_until(task, coordinator::Awaited::End, crate::harness::PATIENCE, look)
        .await
        .unwrap();
    assert!(ended.is_some(), "the deadline was swept when it came");
}

#[tokio::test(start_paused = true)]
async fn more_ends_than_one_batch_sweeps_are_all_swept_at_once() {
    // A due task that did not fit into one batch waits for the next batch, not for a worker.
    let world = world().await;
    let deadline = world.coordinator.now().plus(Span::from_secs(1));
    let mut hurried = submission("hurried");
    hurried.policy.deadline = Some(deadline);
    let many = vec![hurried; 1_100];
    let replies = world.coordinator.submit(many).await;
    let last = replies.iter().map(|reply| accepted(reply).0).max().unwrap();
    world.clock.advance(Span::from_secs(1));
    world.round().await;
    let look = async |_| {
        let found = world.coordinator.browse().find(&key(last)).await?;
        Ok(found.filter(|found| found.subject.state() == Some(State::Failed)))
    };
    let within = std::time::Duration::from_secs(30);
    let ended =
        world.coordinator.watch_until(last, coordinator::Awaited::End, within, look).await.unwrap();
    assert!(ended.is_some(), "nobody is left behind by the size of a batch");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_had_passed_already_is_swept_and_hides_no_other() {
    // there are no calls, so only the carrier's wake-ups can cause this.
    let world = world().await;
    let now = world.coordinator.now();
    let mut late = submission("late");
    late.policy.deadline = Some(now);
    let mut hurried = submission("hurried");
    hurried.policy.deadline = Some(now.plus(Span::from_secs(1)));
    let replies = world.coordinator.submit(vec![late, hurried]).await;
    let (late, hurried) = (accepted(&replies[0]).0, accepted(&replies[1]).0);
    assert!(has_failed_soon(&world, late).await, "what came too late is swept at once");
    world.clock.advance(Span::from_secs(1));
    assert!(has_failed_soon(&world, hurried).await, "and what comes later when it is due");
}

/// Whether a task fails before the carrier would wake anyway.
async fn has_failed_soon(world: &crate::harness::World, task: verdict::TaskId) -> bool {
    let look = async |_| {
        let found = world.coordinator.browse().find(&key(task)).await?;
        Ok(found.filter(|found| found.subject.state() == Some(State::Failed)))
    };
    let within = Duration::from_secs(10);
    let found = world.coordinator.watch_until(task, coordinator::Awaited::End, within, look).await;
    found.expect("the store can be read").is_some()
}
