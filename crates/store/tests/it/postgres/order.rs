//! Order within a queue that several coordinators share: by priority, then age, except that a bounded number of tasks
//! may overtake.
//!
//! Time stands still in these tests, so no periodic poll finds anything: tasks are found by counting grants, or
//! by a hint.

use std::sync::mpsc;

use store::postgres::{Notify, Options, PostgresStore, PostgresWriter};
use store::{Batch, PeerHint, Store, Want, Writer};
use storetest::Database;
use storetest::conformance::{Call, CallResult, Poll, Submission, carry::carry};
use verdict::{Scope, TaskId};

use super::options;

/// As in `docs/operate/postgres.md`: this many for each coordinator, plus those of a batch in progress.
const OVERTAKE_MAX: usize = 1_024;
/// What one poll takes.
const POLL: usize = 50;
/// The coordinators that grant. A third one submits.
const GRANTING: usize = 2;
const URGENT: u128 = 5;
/// More than may overtake, so that a coordinator that never reads the queue again is detected.
const ORDINARY: u128 = (GRANTING * (OVERTAKE_MAX + 4 * POLL)) as u128;

/// No timer fires while this exists. The runtime advances time to the next timer only when no thread is blocked, and
/// this blocks one.
pub(super) struct StillTime {
    _until_dropped: mpsc::Sender<()>,
}

impl StillTime {
    pub(super) fn begin() -> Self {
        let (until_dropped, held) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || held.recv());
        tokio::time::pause();
        Self { _until_dropped: until_dropped }
    }
}

pub(super) async fn open(database: &Database, notify: Notify) -> (PostgresStore, PostgresWriter) {
    let options = Options { notify, ..options(None) };
    let store = PostgresStore::open(database.url(), options).await.unwrap();
    let writer = store.writer().await.unwrap();
    (store, writer)
}

pub(super) async fn submit(writer: &mut PostgresWriter, ids: std::ops::Range<u128>, priority: i32) {
    let mut batch = writer.begin().await.unwrap();
    for id in ids {
        let mut task = Submission::new(TaskId::from_u128(id), &Scope::default(), "images");
        task.submit.priority = priority;
        carry(&mut batch, 1, Call::Submit(task)).await.unwrap();
    }
    batch.commit().await.unwrap();
}

/// What a poll gets, in order.
async fn lease(writer: &mut PostgresWriter, n: u128) -> Vec<u128> {
    let want =
        Want { scope: Scope::default(), queues: vec!["images".into()], kinds: None, max: POLL };
    let mut batch = writer.begin().await.unwrap();
    let poll = Poll { want, worker: "ann".into(), name: None, first_lease: n << 32 };
    let said = carry(&mut batch, 1, Call::Poll(poll)).await.unwrap();
    batch.commit().await.unwrap();
    match said {
        CallResult::Granted(granted) => {
            granted.iter().map(|ready| ready.task.id.as_u128()).collect()
        }
        said => panic!("{said:?}"),
    }
}

#[tokio::test]
async fn without_hints_a_bounded_number_overtakes_what_another_has_queued() {
    // R-19, S2-24: each coordinator grants at most this many tasks before it sees the more urgent ones.
    let (_still, database) = (StillTime::begin(), Database::create());
    let (_queueing, mut queue) = open(&database, Notify::Off).await;
    let mut granting = Vec::new();
    for _ in 0..GRANTING {
        granting.push(open(&database, Notify::Off).await);
    }
    submit(&mut queue, 1..ORDINARY + 1, 0).await;
    let mut polls = 0;
    for (_, writer) in &mut granting {
        polls += 1;
        assert_eq!(lease(writer, polls).await.len(), POLL, "everybody knows the head of the queue");
    }
    // Higher ids: submitted later. Only their priority puts them first.
    let urgent = ORDINARY + 1..ORDINARY + 1 + URGENT;
    submit(&mut queue, urgent.clone(), 9).await;
    let mut granted: Vec<u128> = Vec::new();
    let is_found = |granted: &[u128]| granted.iter().any(|id| urgent.contains(id));
    while !is_found(&granted) {
        for (_, writer) in &mut granting {
            polls += 1;
            let got = lease(writer, polls).await;
            assert!(!got.is_empty() || is_found(&granted), "nobody ever saw what is urgent");
            granted.extend(got);
        }
    }
    let overtook = granted.iter().take_while(|id| !urgent.contains(id)).count();
    assert!(overtook <= GRANTING * (OVERTAKE_MAX + POLL), "{overtook} overtook");
    assert!(overtook > OVERTAKE_MAX, "{overtook} overtook: something else than counting found it");
    let first: Vec<u128> = granted[overtook..].iter().take(URGENT as usize).copied().collect();
    assert_eq!(first, urgent.collect::<Vec<u128>>(), "then the most urgent first, oldest first");
    assert!(granted[..overtook].is_sorted(), "and among equals by age, whoever gives them out");
}

#[tokio::test]
async fn a_hint_is_enough_to_see_what_another_has_queued() {
    // R-19, S2-24: a coordinator that received a hint grants urgent tasks first, long before any count is reached.
    let (_still, database) = (StillTime::begin(), Database::create());
    let (_queueing, mut queue) = open(&database, Notify::On).await;
    let (store, mut writer) = open(&database, Notify::On).await;
    submit(&mut queue, 1..1 + 4 * POLL as u128, 0).await;
    let mut probes = 0;
    while !hears(&store, &mut queue, ORDINARY + probes).await {
        probes += 1;
    }
    let urgent = 2 * ORDINARY..2 * ORDINARY + URGENT;
    assert_eq!(lease(&mut writer, 1).await.len(), POLL);
    submit(&mut queue, urgent.clone(), 9).await;
    let mut granted = Vec::new();
    // An earlier hint may arrive first. One for each probe and one more: time stands still, so nothing else wakes it.
    for poll in 2..probes + 4 {
        store.peer_hint(PeerHint::Changed).await;
        granted = lease(&mut writer, poll).await;
        if granted.iter().any(|id| urgent.contains(id)) {
            break;
        }
    }
    assert_eq!(granted[..URGENT as usize], urgent.collect::<Vec<u128>>());
}

/// Submits one more task and checks whether the peer gets the hint: its session may not listen yet.
async fn hears(store: &PostgresStore, queue: &mut PostgresWriter, id: u128) -> bool {
    submit(queue, id..id + 1, 0).await;
    let a_while = async {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = store.peer_hint(PeerHint::Changed) => true,
        () = a_while => false,
    }
}
