//! Reading beside the writers.

use verdict::{Name, Scope, Span, State, TaskId};

use super::driver::{Driver, caller, key_of};
use super::fixture::Fixture;
use super::reports::{report, succeeded};
use crate::browse::Browse;
use crate::row::{Filter, Found, QueueDepth};

fn ids(found: &[Found]) -> Vec<TaskId> {
    found
        .iter()
        .map(|found| match &found.subject {
            verdict::Subject::Live(task) => task.id,
            verdict::Subject::Done(done) => done.id,
            verdict::Subject::Absent => panic!("something absent was found"),
        })
        .collect()
}

async fn list<F: Fixture>(driver: &mut Driver<F>, filter: Filter) -> Vec<TaskId> {
    let limit = if filter.limit == 0 { 99 } else { filter.limit };
    let filter = Filter { limit, ..filter };
    ids(&driver.browse().list(&Scope::default(), &filter).await.expect("browsing works"))
}

/// Adds tasks and ends every second one, so that listings must merge live and done.
async fn populate<F: Fixture>(driver: &mut Driver<F>, count: usize) -> Vec<TaskId> {
    let scope = Scope::default();
    let mut made = Vec::new();
    for n in 0..count {
        let key = driver.add(&scope, "images").await;
        made.push(key.id);
        if n % 2 == 0 {
            let leased = driver.lease(&scope, "images", 1).await;
            driver.about(&key_of(&leased[0]), report(&caller(&leased[0]), succeeded())).await;
        }
    }
    made
}

pub async fn lists_newest_first_page_by_page<F: Fixture>(driver: &mut Driver<F>) {
    let mut made = populate(driver, 7).await;
    made.reverse();
    driver.pause().await;
    assert_eq!(list(driver, Filter::default()).await, made);
    let (mut before, mut seen) = (None, Vec::new());
    loop {
        let page = list(driver, Filter { before, limit: 3, ..Filter::default() }).await;
        let Some(last) = page.last() else { break };
        before = Some(*last);
        seen.extend(page);
    }
    assert_eq!(seen, made);
}

pub async fn filters_what_it_lists<F: Fixture>(driver: &mut Driver<F>) {
    let made = populate(driver, 4).await;
    let scope = Scope::default();
    let mut special = driver.submission(&scope, "letters");
    special.submit.kind = "send".into();
    special.spec.labels = [("team".to_owned(), "red".to_owned())].into();
    let id = special.submit.id;
    driver.submit(special).await;
    driver.pause().await;
    let state = |state| Filter { state: Some(state), ..Filter::default() };
    let label = |value: &str| Filter {
        label: Some(("team".to_owned(), value.to_owned())),
        ..Filter::default()
    };
    assert_eq!(
        list(driver, Filter { queue: Some("letters".into()), ..Filter::default() }).await,
        [id]
    );
    assert_eq!(list(driver, Filter { kind: Some("send".into()), ..Filter::default() }).await, [id]);
    assert_eq!(list(driver, label("red")).await, [id]);
    assert_eq!(list(driver, label("blue")).await, []);
    assert_eq!(list(driver, state(State::Running)).await, []);
    let succeeded = list(driver, state(State::Succeeded)).await;
    let queued = list(driver, state(State::Queued)).await;
    assert_eq!((succeeded.len(), queued.len()), (2, 3));
    assert!(made.iter().all(|id| succeeded.contains(id) != queued.contains(id)));
    let both = Filter { queue: Some("letters".into()), ..state(State::Succeeded) };
    assert_eq!(list(driver, both).await, []);
}

pub async fn finds_history_and_attempts<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let key = driver.add(&scope, "images").await;
    let leased = driver.lease(&scope, "images", 1).await;
    let caller = caller(&leased[0]);
    let beat = verdict::request::Heartbeat { caller: caller.clone(), progress: None };
    driver.wait(Span::from_secs(2));
    driver.about(&key, verdict::Request::Heartbeat(beat)).await;
    driver.about(&key, report(&caller, succeeded())).await;
    driver.pause().await;
    let history = driver.browse().history(&key, 0, 99).await.expect("browsing works");
    // one entry per decision, none for the heartbeat; what it changed is in the next one.
    let names: Vec<_> = history.iter().map(|entry| (entry.n, entry.events[0].name())).collect();
    assert_eq!(names, [(1, "submitted"), (2, "granted"), (3, "attempt_closed")]);
    let renewed = history[2].loaded.and_then(|loaded| loaded.heartbeat_at);
    assert_eq!(renewed, Some(driver.now()));
    // folding the entries gives the task as the tables have it.
    let folded = history.iter().fold(verdict::Subject::Absent, |subject, entry| {
        let subject = match (subject, entry.loaded) {
            (verdict::Subject::Live(mut task), Some(loaded)) => {
                task.claim_version = loaded.claim_version;
                task.revision = loaded.revision;
                verdict::Subject::Live(task)
            }
            (subject, _) => subject,
        };
        subject.settle(&entry.events, entry.at)
    });
    assert_eq!(driver.load(&key).await, folded);
    let page = driver.browse().history(&key, 1, 1).await.expect("browsing works");
    assert_eq!(page, history[1..2]);
    let attempts = driver.browse().attempts(&key).await.expect("browsing works");
    assert_eq!((attempts.len(), attempts[0].lease), (1, caller.lease));
}

pub async fn counts_queues<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    for _ in 0..3 {
        driver.add(&scope, "images").await;
    }
    let oldest = driver.now();
    let mut later = driver.submission(&scope, "images");
    later.submit.run_at = Some(oldest.plus(Span::from_secs(9)));
    driver.submit(later).await;
    driver.lease(&scope, "images", 1).await;
    driver.add(&scope, "letters").await;
    driver.pause().await;
    let depth = |queue: &str, ready, delayed, running| QueueDepth {
        scope: scope.clone(),
        queue: queue.into(),
        ready,
        delayed,
        running,
        oldest_ready_at: Some(oldest),
    };
    let depths = driver.browse().queues(Some(&scope)).await.expect("browsing works");
    assert_eq!(depths, [depth("images", 2, 1, 1), depth("letters", 1, 0, 0)]);
    driver.wait(Span::from_secs(9));
    let all = driver.browse().queues(None).await.expect("browsing works");
    assert_eq!(all, [depth("images", 3, 0, 1), depth("letters", 1, 0, 0)]);
    driver.add(&Scope::new("acme", "main"), "images").await;
    let tenants = ["default", "acme", "nobody"].map(Name::from);
    driver.pause().await;
    let unfinished = driver.browse().unfinished(&tenants).await.expect("browsing works");
    assert_eq!(unfinished, [5, 1, 0]);
}

pub async fn walks_everything_for_verification<F: Fixture>(driver: &mut Driver<F>) {
    let mut made = populate(driver, 5).await;
    made.push(driver.add(&Scope::new("acme", "main"), "images").await.id);
    driver.pause().await;
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = driver.browse().everything(after, 4).await.expect("browsing works");
        let Some(last) = ids(&page).pop() else { break };
        after = Some(last);
        seen.extend(ids(&page));
    }
    assert_eq!(seen, made);
    assert!(driver.browse().integrity().await.expect("browsing works").is_empty());
}
