//! Backoff while the store refuses: growing pauses, and recovery once the store is back.
//!
//! Tokio's time is paused: it jumps from one due timer to the next, so minutes of outage take no
//! time and every pause is exact.

use std::time::Duration;

use coordinator::{Outage, RequestError};
use store::FailureKind;
use tokio::time::Instant;
use verdict::Answer;
use verdict::request::Heartbeat;

use crate::faults::faulty_world;
use crate::faulty::Faults;
use crate::harness::{World, caller, patient, submission};

/// The longest consecutive pauses, before jitter shortens each by at most half.
const PAUSES_MS: [u64; 8] = [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000];

async fn refused(world: &World) -> Outage {
    match world.coordinator.submit(vec![submission("refused")]).await.remove(0) {
        Err(RequestError::Unavailable(outage)) => outage,
        other => panic!("not refused: {other:?}"),
    }
}

/// The pauses between the attempts of an outage that begins now and lasts a minute.
async fn pauses_of_a_minute(world: &World, faults: &Faults) -> Vec<Duration> {
    faults.take_refused_at();
    faults.fail_every_write(FailureKind::Unavailable);
    refused(world).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let tries: Vec<Instant> = faults.take_refused_at();
    tries.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[track_caller]
fn grow_as_promised(pauses: &[Duration]) {
    assert!(pauses.len() >= PAUSES_MS.len(), "it keeps trying: {pauses:?}");
    for (pause, longest) in pauses.iter().zip(PAUSES_MS.map(Duration::from_millis)) {
        // A timer may be late by a millisecond.
        let longest_seen = longest + Duration::from_millis(2);
        assert!(longest / 2 <= *pause && *pause <= longest_seen, "{pause:?} in {pauses:?}");
    }
    assert!(pauses.len() < 20, "a minute is a handful of tries: {pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_store_is_tried_again_after_growing_pauses() {
    // S2-57: doubling, bounded, with jitter; and from the start again after a success.
    let (world, store) = faulty_world().await;
    grow_as_promised(&pauses_of_a_minute(&world, &store.faults).await);
    store.faults.heal();
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(store.faults.take_refused_at().is_empty());
    grow_as_promised(&pauses_of_a_minute(&world, &store.faults).await);
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_alive_do_not_make_it_try_more_often() {
    // S2-57: the check whether leases must be extended waits for the pause, too.
    let (world, store) = faulty_world().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    world.started(&granted).await;
    grow_as_promised(&pauses_of_a_minute(&world, &store.faults).await);
    store.faults.heal();
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(matches!(world.heartbeat(&granted).await, Answer::Alive { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_poll_is_served_when_the_store_is_back_though_nobody_asks() {
    // S2-57: the grant that was refused is tried again, not forgotten.
    let (world, store) = faulty_world().await;
    world.submit(submission("k")).await;
    store.faults.fail_every_write(FailureKind::Full);
    let waiting = tokio::spawn({
        let coordinator = world.coordinator.clone();
        async move { coordinator.lease(patient("w")).await }
    });
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!store.faults.take_refused_at().is_empty(), "it was tried");
    store.faults.heal();
    let granted = waiting.await.unwrap().unwrap();
    assert_eq!(granted.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_when_the_store_is_tried_again() {
    // S2-57: `Retry-After` grows with the pause, and is the rest of it.
    let (world, store) = faulty_world().await;
    store.faults.fail_every_write(FailureKind::Unavailable);
    assert!(refused(&world).await.retry_after <= Duration::from_millis(250));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let begun = store.faults.take_refused_at().len();
    let outage = refused(&world).await;
    assert!(outage.retry_after <= Duration::from_secs(8), "{outage:?}");
    let again = refused(&world).await;
    assert!(again.retry_after <= outage.retry_after, "asking does not lengthen the pause");
    assert_eq!(store.faults.take_refused_at().len(), 2, "every request is put to the store");
    tokio::time::sleep(outage.retry_after + Duration::from_millis(2)).await;
    assert_eq!(store.faults.take_refused_at().len(), 1, "tried when it said, after {begun} tries");
}

#[tokio::test(start_paused = true)]
async fn nobody_loses_a_lease_by_coming_back_when_told() {
    // S2-57, A8: with a live lease of two seconds, a wait of eight would lose it.
    let (world, store) = faulty_world().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    world.started(&granted).await;
    store.faults.fail_every_write(FailureKind::Unavailable);
    refused(&world).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let beat = Heartbeat { caller: caller(&granted), progress: None };
    let refused = world.coordinator.heartbeat(granted.key(), beat).await;
    let Err(RequestError::Unavailable(outage)) = refused else {
        panic!("not refused: {refused:?}")
    };
    assert!(outage.retry_after <= Duration::from_millis(250), "{outage:?}");
}
