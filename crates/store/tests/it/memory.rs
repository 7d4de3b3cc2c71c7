//! The reference engine passes the suite, with one writer and with two.

use std::sync::Arc;

use store::{Batch, CommitFailure, Decided, FailureKind, Loaded, Lookup, Store, Want, Writer};
use storetest::conformance::carry::{carry, change};
use storetest::conformance::{Call, Fixture, Poll, Submission};
use storetest::{ManualClock, MemoryStore, Writers};
use verdict::request::Extend;
use verdict::{Context, Request, Rules, Scope, Span, SupportedRules, TaskId, Time};

pub(crate) struct Memory {
    writers: Writers,
    store: Option<MemoryStore>,
}

impl Memory {
    pub(crate) fn new(writers: Writers) -> Self {
        Self { writers, store: None }
    }
}

impl Fixture for Memory {
    type Store = MemoryStore;

    async fn open(&mut self, clock: Arc<ManualClock>) -> MemoryStore {
        let store = match &self.store {
            Some(store) => store.reopen(),
            None => MemoryStore::with_writers(clock, self.writers),
        };
        self.store = Some(store.clone());
        store
    }
}

mod one_writer {
    use super::{Memory, Writers};

    storetest::conformance_checks! { Memory::new(Writers::One) }
}

mod two_writers {
    use super::{Memory, Writers};

    storetest::conformance_checks! { Memory::new(Writers::Two) }
}

#[test]
fn setting_the_wall_clock_moves_no_time() {
    // F61: a clock step of an hour in either direction does not shorten or lengthen a lease.
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    let before = store.now();
    clock.set_wall(before.plus(Span::from_secs(3600)));
    assert_eq!(store.now(), before);
    clock.set_wall(Time::from_millis(0));
    clock.advance(Span::from_secs(1));
    assert_eq!(store.now(), before.plus(Span::from_secs(1)));
}

#[tokio::test]
async fn sessions_decide_by_what_all_of_them_know() {
    let clock = Arc::new(ManualClock::default());
    let first = SupportedRules::only(Rules::V1, Rules::V1);
    let new = MemoryStore::with_writers(clock.clone(), Writers::Several(3))
        .with_rules(SupportedRules::NEXT);
    let old = new.attach(clock).with_rules(first);
    let older = old.writer().await.unwrap();
    let mut newer = new.writer().await.unwrap();
    let mut begun = newer.begin().await.unwrap();
    assert_eq!(begun.moment().await.unwrap().rules, Rules::V1);
    begun.save(Decided::keep_alive()).await.expect("the store takes it");
    drop(older);
    assert_eq!(new.status().rules, Rules::Planted.number());
    let failure = begun.commit().await.unwrap_err();
    let CommitFailure::RolledBack(failure) = failure else { panic!("{failure:?}") };
    assert!(matches!(failure.kind, FailureKind::Conflict(_)), "{failure:?}");
    assert_eq!(newer.begin().await.unwrap().moment().await.unwrap().rules, Rules::Planted);
    let refused = old.writer().await.map(drop).unwrap_err();
    assert_eq!(refused.kind, FailureKind::UnknownRules);
}

/// A lease in a store that knows only these rules, extended for an outage of which two coordinators return. The history
/// claims that `told` decided so.
async fn given_back_twice(known: SupportedRules, told: Rules) -> Vec<String> {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone()).with_rules(known);
    let mut writer = store.writer().await.expect("memory does as it is asked");
    let task = Submission::new(TaskId::from_u128(1), &Scope::default(), "images");
    let (key, stalled_since) = (task.task_key(), store.now());
    let want = Want { scope: Scope::default(), queues: vec!["images".into()], kinds: None, max: 1 };
    let poll = Poll { want, worker: "ann".into(), name: None, first_lease: 1 };
    let mut batch = writer.begin().await.expect("memory does as it is asked");
    for ask in [Call::Submit(task), Call::Poll(poll)] {
        carry(&mut batch, 1, ask).await.expect("memory does as it is asked");
    }
    batch.commit().await.expect("memory does as it is asked");
    let gap = Span::from_secs(20);
    clock.advance(gap);
    let request = Request::Extend(Extend { stalled_since, gap });
    for rules in [told.number(), told.number()] {
        let mut batch = writer.begin().await.expect("memory does as it is asked");
        let at = batch.moment().await.expect("memory does as it is asked");
        let Loaded::Subject(subject) = batch
            .look_up(Lookup::tasks(std::slice::from_ref(&key)))
            .await
            .expect("memory does as it is asked")
            .tasks
            .remove(0)
        else {
            panic!("there is one writer")
        };
        if let (_, Some(mut change)) = change(subject, Context::default(), &request, at) {
            change.entries.iter_mut().for_each(|entry| entry.rules = rules);
            batch.save(Decided::changes(vec![change])).await.expect("memory does as it is asked");
        }
        batch.commit().await.expect("memory does as it is asked");
    }
    let report = store::verify::verify(store.browse()).await.expect("memory does as it is asked");
    report.findings.iter().map(|finding| finding.what.clone()).collect()
}

#[tokio::test]
async fn verifying_decides_each_entry_by_the_version_it_names() {
    // S2-114: the planted version gives a millisecond more than an outage took; that is not a finding. A history which
    // claims that the first version did so is one.
    assert_eq!(given_back_twice(SupportedRules::OURS, Rules::V1).await, [""; 0]);
    assert_eq!(given_back_twice(SupportedRules::NEXT, Rules::Planted).await, [""; 0]);
    let told_otherwise = given_back_twice(SupportedRules::NEXT, Rules::V1).await;
    assert_eq!(told_otherwise, ["the rules decide history entry 3 differently"]);
}

mod disk {
    use std::sync::Arc;

    use store::{Batch, CommitFailure, Decided, Failure, FailureKind, Store, Writer};
    use storetest::MemoryStore;
    use storetest::memory::{CommitOutcome, Disk, Synced};
    use storetest::{ManualClock, Writers};

    /// Never reports whether a sync succeeded.
    struct Mute;

    impl Disk for Mute {
        fn sync(&self) -> Synced {
            let failure = Failure::new(FailureKind::Fatal, "the disk did not say");
            Box::pin(std::future::ready(Err(failure)))
        }
    }

    /// A store with one commit whose outcome is unknown.
    async fn in_doubt() -> MemoryStore {
        let store = MemoryStore::with_writers(Arc::new(ManualClock::default()), Writers::One);
        let store = store.on_disk(Arc::new(Mute));
        let mut writer = store.writer().await.expect("a writer opens");
        let mut batch = writer.begin().await.expect("a batch begins");
        batch.save(Decided::keep_alive()).await.expect("the store takes it");
        assert!(matches!(batch.commit().await, Err(CommitFailure::Unknown(_))));
        assert_eq!(store.orphans().len(), 1);
        store
    }

    #[tokio::test]
    async fn a_commit_in_doubt_is_there_only_if_it_was_kept() {
        for (fate, is_there) in [(CommitOutcome::Kept, true), (CommitOutcome::Lost, false)] {
            let store = in_doubt().await;
            store.settle(store.orphans()[0], fate);
            assert!(store.orphans().is_empty());
            assert_eq!(store.reopen().status().last_commit_at.is_some(), is_there, "{fate:?}");
        }
    }

    #[tokio::test]
    async fn a_crash_drops_what_was_not_synced() {
        let store = in_doubt().await.reopen();
        assert!(store.orphans().is_empty());
        assert_eq!(store.status().last_commit_at, None);
    }
}
