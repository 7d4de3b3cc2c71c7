//! Reading concurrently with the writers.

use store::TaskOverview;
use store::browse::{Browse, RowsAfter, ScanDepth};
use store::row::{
    Bodies, Entry, Filter, LabelFilter, Listed, Listing, PAGE_BYTES_MAX, PageStop, QueueDepth,
    StoredTask, TaskKey,
};
use verdict::request::{Caller, Outcome};
use verdict::{Fault, Name, Scope, Span, State, Subject, TaskId};

use super::driver::{Driver, caller, key_of};
use super::fixture::Fixture;
use super::reports::{report, succeeded};

fn ids(found: &[StoredTask]) -> Vec<TaskId> {
    found.iter().map(|found| found.key().id).collect()
}

fn listed_ids(listing: &Listing) -> Vec<TaskId> {
    listing.tasks.iter().map(|listed| listed.task.key().id).collect()
}

pub(super) async fn page<F: Fixture>(driver: &mut Driver<F>, filter: &Filter) -> Listing {
    driver.browse().list(&Scope::default(), filter).await.expect("browsing works")
}

pub(super) async fn list<F: Fixture>(driver: &mut Driver<F>, filter: Filter) -> Vec<TaskId> {
    let limit = if filter.limit == 0 { 99 } else { filter.limit };
    let listing = page(driver, &Filter { limit, ..filter }).await;
    assert_eq!(listing.next, None, "all of it is on one page");
    listed_ids(&listing)
}

/// Every page of a list, to its end.
pub(super) async fn pages<F: Fixture>(
    driver: &mut Driver<F>,
    mut filter: Filter,
) -> Vec<Vec<TaskId>> {
    let mut pages = Vec::new();
    loop {
        let listing = page(driver, &filter).await;
        pages.push(listed_ids(&listing));
        match listing.next {
            Some(next) => filter.before = Some(next),
            None => return pages,
        }
    }
}

/// Adds tasks and ends every second one, so that lists must merge live and done.
pub(super) async fn populate<F: Fixture>(driver: &mut Driver<F>, count: usize) -> Vec<TaskId> {
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
    let pages = pages(driver, Filter { limit: 3, ..Filter::default() }).await;
    let lengths: Vec<usize> = pages.iter().map(Vec::len).collect();
    assert_eq!((pages.concat(), lengths), (made, vec![3, 3, 1]));
}

/// Submits a task with an input, and reports the outcome of its first attempt if there is one.
async fn with_bodies<F: Fixture>(driver: &mut Driver<F>, outcome: Option<Outcome>) -> TaskId {
    let scope = Scope::default();
    let mut submission = driver.submission(&scope, "bodies");
    submission.spec.input = "{\"width\":640}".into();
    submission.submit.policy.failures_max = 1;
    let key = submission.task_key();
    driver.submit(submission).await;
    if let Some(outcome) = outcome {
        let leased = driver.lease(&scope, "bodies", 1).await;
        driver.about(&key, report(&caller(&leased[0]), outcome)).await;
    }
    key.id
}

pub(super) fn failed(trace: &str) -> Outcome {
    Outcome::Failed(Fault {
        category: verdict::Category::UserCode,
        message: "it broke".into(),
        stack_trace: Some(trace.into()),
        retryable: None,
    })
}

fn end(listed: &Listed) -> &verdict::End {
    match &listed.task.subject {
        Subject::Done(done) => &done.end,
        subject => panic!("it has not ended: {subject:?}"),
    }
}

pub async fn leaves_bodies_out_of_lists<F: Fixture>(driver: &mut Driver<F>) {
    let output = Outcome::Succeeded { output: Some("[1]".into()) };
    let waiting = with_bodies(driver, None).await;
    let leased = driver.lease(&Scope::default(), "bodies", 1).await;
    let succeeded = with_bodies(driver, Some(output)).await;
    let broken = with_bodies(driver, Some(failed("at line 1"))).await;
    assert_eq!(leased[0].task.id, waiting);
    driver.pause().await;
    let filter = |bodies| Filter { limit: 9, bodies, ..Filter::default() };
    let none = page(driver, &filter(Bodies::default())).await;
    assert_eq!(listed_ids(&none), [broken, succeeded, waiting]);
    for listed in &none.tasks {
        assert_eq!(listed.task.spec.input.as_str(), "null");
        // The submission comes with the task: callers need not read its history.
        let submitted = listed.submitted.as_ref().expect("it was submitted");
        assert_eq!(submitted.policy.failures_max, 1);
    }
    let fault = end(&none.tasks[0]).fault.as_ref().expect("it failed");
    assert_eq!((fault.message.as_str(), &fault.stack_trace), ("it broke", &None));
    assert_eq!(end(&none.tasks[1]).output, None);
    let bodies = Bodies { input: true, output: true, stack_trace: true };
    let all = page(driver, &filter(bodies)).await;
    for listed in &all.tasks {
        let found = driver.browse().find(&listed.task.key()).await.expect("browsing works");
        assert_eq!(found.as_ref(), Some(&listed.task), "asked for, it is all there");
    }
    let trace = end(&all.tasks[0]).fault.as_ref().and_then(|fault| fault.stack_trace.clone());
    assert_eq!(trace, Some("at line 1".into()));
}

pub async fn ends_a_page_that_is_heavy_enough<F: Fixture>(driver: &mut Driver<F>) {
    const INPUT: usize = 10_000;
    let mut made = Vec::new();
    for _ in 0..5 {
        let mut submission = driver.submission(&Scope::default(), "images");
        submission.spec.input = format!("\"{}\"", "x".repeat(INPUT)).into();
        made.insert(0, submission.submit.id);
        driver.submit(submission).await;
    }
    driver.pause().await;
    let bodies = Bodies { input: true, ..Bodies::default() };
    let filter = |bytes| Filter { limit: 99, bytes, bodies, ..Filter::default() };
    let two_each = pages(driver, filter(3 * INPUT)).await;
    assert_eq!(two_each, [&made[..2], &made[2..4], &made[4..]]);
    assert_eq!(page(driver, &filter(3 * INPUT)).await.stopped, Some(PageStop::Bytes));
    // One task is larger than a page may be: it is alone in its page.
    let one_each = pages(driver, filter(INPUT / 2)).await;
    assert_eq!(one_each.concat(), made);
    assert!(one_each.iter().all(|page| page.len() == 1));
    // Without its body it is small.
    let light = Filter { bodies: Bodies::default(), ..filter(3 * INPUT) };
    assert_eq!(pages(driver, light).await, [made]);
}

pub async fn looks_at_so_many_tasks_for_a_page<F: Fixture>(driver: &mut Driver<F>) {
    let (ours, theirs) = (Scope::default(), Scope::new("acme", "main"));
    let mut red = driver.submission(&ours, "images");
    red.spec.labels = [("team".to_owned(), "red".to_owned())].into();
    let red_id = red.submit.id;
    driver.submit(red).await;
    for n in 0..6 {
        driver.add(&ours, if n == 4 { "letters" } else { "images" }).await;
        // Tasks of another scope are not examined.
        driver.add(&theirs, "images").await;
        driver.add(&theirs, "images").await;
    }
    driver.pause().await;
    let filter = Filter {
        labels: vec![LabelFilter { name: "team".to_owned(), value: Some("red".to_owned()) }],
        limit: 9,
        scan_max: 3,
        ..Filter::default()
    };
    let empty = Vec::new();
    assert_eq!(pages(driver, filter.clone()).await, [empty.clone(), empty, vec![red_id]]);
    let stopped = page(driver, &filter).await;
    assert_eq!(stopped.stopped, Some(PageStop::Scan), "an empty page says why it is empty");
    let whole = Filter { scan_max: 7, ..filter.clone() };
    assert_eq!(page(driver, &whole).await.stopped, None);
    assert_eq!(pages(driver, whole).await, [[red_id]]);
    // A page that is full was not stopped.
    let full = Filter { limit: 3, labels: Vec::new(), ..filter.clone() };
    assert_eq!(page(driver, &full).await.stopped, None);
    // No next page is announced once everything was examined.
    let state = Filter { labels: Vec::new(), state: Some(State::Succeeded), ..filter };
    assert_eq!(pages(driver, Filter { scan_max: 7, ..state.clone() }).await, [[]]);
    assert_eq!(pages(driver, state).await.len(), 3);
}

/// A task that failed this often, each time with a long stack trace.
async fn long_story<F: Fixture>(driver: &mut Driver<F>, attempts: u32, trace: usize) -> TaskKey {
    let scope = Scope::default();
    let mut submission = driver.submission(&scope, "stories");
    submission.submit.policy.failures_max = attempts + 1;
    submission.submit.policy.retry_base = Span::ZERO;
    submission.submit.policy.retry_cap = Span::ZERO;
    let key = submission.task_key();
    driver.submit(submission).await;
    for attempt in 0..attempts {
        let leased = driver.lease(&scope, "stories", 1).await;
        let trace = format!("{attempt} {}", "x".repeat(trace));
        driver.about(&key, report(&caller(&leased[0]), failed(&trace))).await;
    }
    key
}

pub async fn reads_a_long_history_in_pages<F: Fixture>(driver: &mut Driver<F>) {
    const TRACE: usize = 700_000;
    const ATTEMPTS: u32 = 7;
    let key = long_story(driver, ATTEMPTS, TRACE).await;
    driver.pause().await;
    let mut history: Vec<Entry> = Vec::new();
    let mut pages = 0;
    loop {
        let after = history.last().map_or(0, |entry| entry.n);
        let page = driver
            .browse()
            .rows(&key, RowsAfter::Entry(after), 99)
            .await
            .expect("browsing works")
            .history;
        if page.is_empty() {
            break;
        }
        let traces = page.iter().filter(|entry| closed_trace(entry).is_some()).count();
        assert!(traces * TRACE <= PAGE_BYTES_MAX, "{traces} traces in one page");
        history.extend(page);
        pages += 1;
    }
    assert!(pages > 1, "it does not fit into one page");
    // Nothing is left out, and every trace is the reported one.
    let numbers: Vec<u32> = history.iter().map(|entry| entry.n).collect();
    assert_eq!(numbers, (1..=1 + 2 * ATTEMPTS).collect::<Vec<u32>>());
    let traces: Vec<usize> = history.iter().filter_map(closed_trace).collect();
    assert_eq!(traces, vec![TRACE + 2; ATTEMPTS as usize]);
    let mut attempts: Vec<u32> = Vec::new();
    loop {
        let after = attempts.last().copied().unwrap_or(0);
        let page = driver
            .browse()
            .rows(&key, RowsAfter::Attempt(after), 99)
            .await
            .expect("browsing works")
            .attempts;
        if page.is_empty() {
            break;
        }
        assert!(page.len() * TRACE <= PAGE_BYTES_MAX, "{} attempts in one page", page.len());
        attempts.extend(page.iter().map(|closed| closed.attempt));
    }
    assert_eq!(attempts, (1..=ATTEMPTS).collect::<Vec<u32>>());
    let two = driver
        .browse()
        .rows(&key, RowsAfter::Attempt(3), 2)
        .await
        .expect("browsing works")
        .attempts;
    assert_eq!(two.iter().map(|closed| closed.attempt).collect::<Vec<u32>>(), [4, 5]);
}

/// The length of the stack trace with which the entry closed an attempt.
fn closed_trace(entry: &Entry) -> Option<usize> {
    entry.events.iter().find_map(|event| match event {
        verdict::Event::AttemptClosed { closed, .. } => {
            Some(closed.fault.as_ref()?.stack_trace.as_ref()?.as_str().len())
        }
        _ => None,
    })
}

pub async fn reads_refusals_in_pages<F: Fixture>(driver: &mut Driver<F>) {
    let key = long_story(driver, 3, 9).await;
    let leased = driver.lease(&Scope::default(), "stories", 1).await;
    let now = caller(&leased[0]);
    // Late reports, each under a lease that has ended.
    for attempt in 1..=3 {
        let attempts = driver
            .browse()
            .rows(&key, RowsAfter::Attempt(attempt - 1), 1)
            .await
            .expect("browsing works")
            .attempts;
        let late = Caller { attempt, lease: attempts[0].lease, ..now.clone() };
        driver.about(&key, report(&late, failed("late"))).await;
    }
    driver.pause().await;
    let all = driver
        .browse()
        .rows(&key, RowsAfter::Refusal(None), 99)
        .await
        .expect("browsing works")
        .refused;
    assert_eq!(all.iter().map(|refused| refused.attempt).collect::<Vec<u32>>(), [1, 2, 3]);
    let mut seen = Vec::new();
    loop {
        let page = driver
            .browse()
            .rows(&key, RowsAfter::Refusal(seen.last()), 2)
            .await
            .expect("browsing works")
            .refused;
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 2);
        seen.extend(page);
    }
    assert_eq!(seen, all);
    let overview = overview(driver, &key, 2).await;
    assert_eq!(overview.refused, all[..2]);
    assert_eq!(overview.latest, None, "another attempt holds the lease");
}

/// The overview, which agrees with the reads that it stands for.
async fn overview<F: Fixture>(
    driver: &mut Driver<F>,
    key: &TaskKey,
    refused_max: usize,
) -> TaskOverview {
    let browse = driver.browse();
    let overview = browse.overview(key, refused_max).await.expect("browsing works");
    let overview = overview.expect("it is there");
    let found = browse.find(key).await.expect("browsing works");
    assert_eq!(Some(&overview.task), found.as_ref());
    let first = browse.rows(key, RowsAfter::Entry(0), 1).await.expect("browsing works").history;
    assert_eq!(overview.first.as_ref(), first.first());
    overview
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
    let overview = overview(driver, &key, 99).await;
    assert_eq!(overview.latest.map(|closed| closed.attempt), Some(1));
    assert_eq!(overview.refused, []);
    let history =
        driver.browse().rows(&key, RowsAfter::Entry(0), 99).await.expect("browsing works").history;
    // one entry per decision, none for the heartbeat; what it changed is in the next one.
    let names: Vec<_> = history.iter().map(|entry| (entry.n, entry.events[0].name())).collect();
    assert_eq!(names, [(1, "submitted"), (2, "granted"), (3, "attempt_closed")]);
    let renewed = history[2].loaded.and_then(|loaded| loaded.heartbeat_at);
    assert_eq!(renewed, Some(driver.now()));
    // folding the entries gives the task as the tables have it.
    let folded = history.iter().fold(verdict::Subject::Absent, |subject, entry| {
        let subject = match (subject, entry.loaded) {
            (verdict::Subject::Live(mut task), Some(loaded)) => {
                loaded.restore(&mut task);
                verdict::Subject::Live(task)
            }
            (subject, _) => subject,
        };
        subject.settle(&entry.events, entry.at)
    });
    assert_eq!(driver.load(&key).await, folded);
    let page =
        driver.browse().rows(&key, RowsAfter::Entry(1), 1).await.expect("browsing works").history;
    assert_eq!(page, history[1..2]);
    let attempts = driver
        .browse()
        .rows(&key, RowsAfter::Attempt(0), 99)
        .await
        .expect("browsing works")
        .attempts;
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
        parked: 0,
        delayed,
        running,
        unfinished: ready + delayed + running,
        runs: ready + delayed + running,
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
        let page = driver.browse().scan(after, 4, ScanDepth::Task).await.expect("browsing works");
        let page: Vec<StoredTask> = page.into_iter().map(|found| found.task).collect();
        let Some(last) = ids(&page).pop() else { break };
        after = Some(last);
        seen.extend(ids(&page));
    }
    assert_eq!(seen, made);
    assert!(driver.browse().integrity().await.expect("browsing works").is_empty());
}
