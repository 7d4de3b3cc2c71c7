//! Which polled queues may hold tasks: none that does is missing.

use std::collections::BTreeSet;

use store::row::{Backlog, Want};
use store::seam::{Batch, Claimable, PolledQueues, Store, Writer};
use verdict::{Name, Scope, Span};

use super::carry::{Call, Poll, carry};
use super::driver::{Driver, granted};
use super::fixture::Fixture;

/// Polled queues.
struct Waiting(BTreeSet<(Scope, Name)>);

impl Waiting {
    fn at(queues: &[(&Scope, &str)]) -> Self {
        let queues = queues.iter().map(|(scope, queue)| ((*scope).clone(), Name::from(*queue)));
        Self(queues.collect())
    }
}

impl PolledQueues for Waiting {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn contains(&self, scope: &Scope, queue: &Name) -> bool {
        self.0.contains(&(scope.clone(), queue.clone()))
    }

    fn each(&self, see: &mut dyn FnMut(&Scope, &Name)) {
        self.0.iter().for_each(|(scope, queue)| see(scope, queue));
    }
}

async fn backlogs<F: Fixture>(driver: &mut Driver<F>, polled: &dyn PolledQueues) -> Vec<Backlog> {
    driver.pause().await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let now = batch.moment().await.expect("the clock can be read").now;
    batch.backlogs(polled, Claimable::By(now)).await.expect("the store says where to look")
}

/// The upper bound of the tasks in a queue.
fn at_most(backlogs: &[Backlog], scope: &Scope, queue: &str) -> usize {
    let of = backlogs.iter().filter(|it| it.scope == *scope && it.queue.as_str() == queue);
    of.map(|backlog| backlog.tasks).sum()
}

pub async fn names_every_polled_queue_that_holds_something<F: Fixture>(driver: &mut Driver<F>) {
    let (ours, theirs) = (Scope::new("acme", "main"), Scope::new("acme", "side"));
    let polled = [(&ours, "images"), (&ours, "mails"), (&theirs, "images"), (&ours, "later")];
    let polled = Waiting::at(&polled);
    backlogs(driver, &polled).await;
    for _ in 0..3 {
        driver.add(&ours, "images").await;
    }
    driver.add(&theirs, "images").await;
    let mut later = driver.submission(&ours, "later");
    later.submit.run_at = Some(driver.now().plus(Span::from_secs(10)));
    driver.submit(later).await;
    // G1: a ready task is found, also right after a call that found nothing.
    let found = backlogs(driver, &polled).await;
    assert!(at_most(&found, &ours, "images") >= 3, "{found:?}");
    assert!(at_most(&found, &theirs, "images") >= 1, "{found:?}");
    driver.wait(Span::from_secs(10));
    let found = backlogs(driver, &polled).await;
    assert!(at_most(&found, &ours, "later") >= 1, "its time has come: {found:?}");
    driver.lease(&ours, "images", 2).await;
    let found = backlogs(driver, &polled).await;
    assert!(at_most(&found, &ours, "images") >= 1, "one is left: {found:?}");
}

/// A poll that names kinds is asked about a queue that holds one of them, and need not be asked about another.
pub async fn names_the_kinds_that_polls_name<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let polled = NamingKinds(Waiting::at(&[(&scope, "images")]));
    backlogs(driver, &polled).await;
    for kind in ["crop", "blur", "crop"] {
        let mut submission = driver.submission(&scope, "images");
        submission.submit.kind = kind.into();
        driver.submit(submission).await;
    }
    let mut later = driver.submission(&scope, "images");
    (later.submit.kind, later.submit.run_at) =
        ("rotate".into(), Some(driver.now().plus(Span::from_secs(10))));
    driver.submit(later).await;
    let found = backlogs(driver, &polled).await;
    assert!(
        holds(&found, "crop") && !holds(&found, "blur") && !holds(&found, "rotate"),
        "{found:?}"
    );
    driver.wait(Span::from_secs(10));
    let found = backlogs(driver, &polled).await;
    assert!(holds(&found, "crop") && holds(&found, "rotate"), "its time has come: {found:?}");
}

/// Whether tasks of this kind are named. What an engine does not know may be there, but here it knows.
fn holds(backlogs: &[Backlog], kind: &str) -> bool {
    let named = |backlog: &Backlog| {
        backlog.kinds.as_ref().is_some_and(|kinds| kinds.contains(&kind.into()))
    };
    backlogs.iter().any(named)
}

/// Polls that name two kinds.
struct NamingKinds(Waiting);

impl NamingKinds {
    const KINDS: [&str; 2] = ["crop", "rotate"];
}

impl PolledQueues for NamingKinds {
    fn count(&self) -> usize {
        self.0.count()
    }

    fn contains(&self, scope: &Scope, queue: &Name) -> bool {
        self.0.contains(scope, queue)
    }

    fn each(&self, see: &mut dyn FnMut(&Scope, &Name)) {
        self.0.each(see);
    }

    fn count_kinds(&self, _: &Scope) -> usize {
        Self::KINDS.len()
    }

    fn names_kind(&self, _: &Scope, kind: &Name) -> bool {
        Self::KINDS.contains(&kind.as_str())
    }

    fn each_kind(&self, _: &Scope, see: &mut dyn FnMut(&Name)) {
        Self::KINDS.iter().for_each(|kind| see(&Name::from(*kind)));
    }
}

pub async fn names_no_queue_that_nobody_polls<F: Fixture>(driver: &mut Driver<F>) {
    let (ours, theirs) = (Scope::new("acme", "main"), Scope::new("evil", "main"));
    for queue in ["images", "mails", "songs"] {
        driver.add(&ours, queue).await;
        driver.add(&theirs, queue).await;
    }
    assert_eq!(backlogs(driver, &Waiting::at(&[])).await, []);
    // a poll of another scope learns nothing of these.
    let found = backlogs(driver, &Waiting::at(&[(&ours, "mails")])).await;
    assert_eq!(found.len(), 1, "once, not twice: {found:?}");
    assert!(at_most(&found, &ours, "mails") >= 1, "{found:?}");
    let polled = ["a", "b", "c", "d", "e", "f", "g", "mails"].map(|queue| (&ours, queue));
    let found = backlogs(driver, &Waiting::at(&polled)).await;
    assert!(at_most(&found, &ours, "mails") >= 1, "{found:?}");
    assert_eq!(at_most(&found, &theirs, "mails") + at_most(&found, &ours, "songs"), 0);
}

/// Called again in one batch, the store gives the remaining tasks, and none twice.
pub async fn follows_what_the_same_batch_grants<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let made = [driver.add(&scope, "images").await.id, driver.add(&scope, "images").await.id];
    driver.pause().await;
    let submission = driver.submission(&scope, "images");
    let third = submission.submit.id;
    let firsts = [driver.number() << 32, driver.number() << 32];
    let epoch = driver.store().status().epoch;
    let polled = Waiting::at(&[(&scope, "images")]);
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    carry(&mut batch, epoch, Call::Submit(submission)).await.expect("it is saved");
    let now = batch.moment().await.expect("the clock can be read").now;
    let found =
        batch.backlogs(&polled, Claimable::By(now)).await.expect("the store says where to look");
    // Tasks that the batch itself made ready count.
    assert!(at_most(&found, &scope, "images") >= 3, "{found:?}");
    let mut given = Vec::new();
    for (first_lease, max) in firsts.into_iter().zip([2, 9]) {
        let want = Want { scope: scope.clone(), queues: vec!["images".into()], kinds: None, max };
        let poll = Poll { want, worker: "ann".into(), name: None, first_lease };
        let said = carry(&mut batch, epoch, Call::Poll(poll)).await.expect("it is saved");
        given.push(granted(said).iter().map(|ready| ready.task.id).collect::<Vec<_>>());
    }
    // W-1, S2-52: two calls in one batch, and no task in both answers.
    assert_eq!(given, [made.to_vec(), vec![third]]);
}
