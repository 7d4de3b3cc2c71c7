//! What a list selects, and who holds leases.

use store::browse::Browse;
use store::row::{Filter, LabelFilter};
use verdict::{Category, Name, Scope, State, TaskId};

use super::browsing::{failed, list, page, pages, populate};
use super::driver::{Driver, caller};
use super::fixture::Fixture;
use super::reports::report;

/// A condition on the label `team`: a value, or any.
fn team(value: Option<&str>) -> Vec<LabelFilter> {
    vec![LabelFilter { name: "team".to_owned(), value: value.map(str::to_owned) }]
}

/// A task with these labels.
async fn labelled<F: Fixture>(driver: &mut Driver<F>, labels: &[(&str, &str)]) -> TaskId {
    let mut submission = driver.submission(&Scope::default(), "images");
    submission.spec.labels =
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let id = submission.submit.id;
    driver.submit(submission).await;
    id
}

pub async fn filters_by_several_labels<F: Fixture>(driver: &mut Driver<F>) {
    let both = labelled(driver, &[("team", "red"), ("env", "a \"b\", c")]).await;
    let red = labelled(driver, &[("team", "red")]).await;
    let blue = labelled(driver, &[("team", "blue")]).await;
    labelled(driver, &[]).await;
    driver.pause().await;
    let labels = |labels: &[(&str, Option<&str>)]| Filter {
        labels: labels
            .iter()
            .map(|(name, value)| LabelFilter {
                name: (*name).to_owned(),
                value: value.map(str::to_owned),
            })
            .collect(),
        ..Filter::default()
    };
    let exists = labels(&[("team", None)]);
    assert_eq!(list(driver, exists).await, [blue, red, both]);
    let two = labels(&[("team", Some("red")), ("env", Some("a \"b\", c"))]);
    assert_eq!(list(driver, two).await, [both], "all of them must match");
    let mixed = labels(&[("env", None), ("team", Some("red"))]);
    assert_eq!(list(driver, mixed).await, [both]);
    let contradiction = labels(&[("team", Some("red")), ("team", Some("blue"))]);
    assert_eq!(list(driver, contradiction).await, []);
    let neither = labels(&[("team", None), ("owner", None)]);
    assert_eq!(list(driver, neither).await, []);
}

pub async fn filters_by_period<F: Fixture>(driver: &mut Driver<F>) {
    let made = populate(driver, 6).await;
    driver.pause().await;
    let newest_first = |ids: &[TaskId]| ids.iter().rev().copied().collect::<Vec<TaskId>>();
    let from = Filter { from: Some(made[2]), ..Filter::default() };
    assert_eq!(list(driver, from.clone()).await, newest_first(&made[2..]));
    let period = Filter { before: Some(made[4]), ..from.clone() };
    assert_eq!(list(driver, period).await, newest_first(&made[2..4]));
    // The last page of a period announces no other, whatever is older.
    let paged = pages(driver, Filter { limit: 2, ..from.clone() }).await;
    assert_eq!(paged.concat(), newest_first(&made[2..]));
    let none = Filter { labels: team(None), limit: 9, scan_max: 2, ..from };
    assert_eq!(pages(driver, none).await.len(), 2, "older tasks are not examined");
}

pub async fn filters_by_worker_and_category<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let failed_id = {
        let mut submission = driver.submission(&scope, "images");
        submission.submit.policy.failures_max = 1;
        let key = submission.task_key();
        driver.submit(submission).await;
        let leased = driver.lease(&scope, "images", 1).await;
        driver.about(&key, report(&caller(&leased[0]), failed("trace"))).await;
        key.id
    };
    let running = driver.add(&scope, "images").await.id;
    let leased = driver.lease(&scope, "images", 1).await;
    let waiting = driver.add(&scope, "images").await.id;
    driver.pause().await;
    let owner = leased[0].task.lease().expect("it runs").owner.clone();
    let of = |worker: &Name| Filter { worker: Some(worker.clone()), ..Filter::default() };
    assert_eq!(list(driver, of(&owner)).await, [running, failed_id]);
    assert_eq!(list(driver, of(&Name::from("elsewhere"))).await, []);
    let category = |category| Filter { category: Some(category), ..Filter::default() };
    assert_eq!(list(driver, category(Category::UserCode)).await, [failed_id]);
    assert_eq!(list(driver, category(Category::Timeout)).await, []);
    let all = page(driver, &Filter { limit: 9, ..Filter::default() }).await;
    let workers: Vec<(TaskId, Option<Name>)> =
        all.tasks.iter().map(|it| (it.task.key().id, it.worker.clone())).collect();
    let expected =
        [(waiting, None), (running, Some(owner.clone())), (failed_id, Some(owner.clone()))];
    assert_eq!(workers, expected);
}

pub async fn reads_who_holds_leases<F: Fixture>(driver: &mut Driver<F>) {
    let (ours, theirs) = (Scope::default(), Scope::new("acme", "main"));
    for queue in ["images", "images", "letters"] {
        driver.add(&ours, queue).await;
    }
    driver.add(&theirs, "images").await;
    let mut leased = driver.lease(&ours, "images", 2).await;
    leased.extend(driver.lease(&ours, "letters", 1).await);
    driver.lease(&theirs, "images", 1).await;
    driver.pause().await;
    let owner = leased[0].task.lease().expect("it runs").owner.clone();
    let held = driver.browse().held_leases(&ours, None, None, 9).await.expect("browsing works");
    let counts: Vec<(&str, &str, u64)> =
        held.iter().map(|it| (it.worker.as_str(), it.queue.as_str(), it.count)).collect();
    assert_eq!(counts, [(owner.as_str(), "images", 2), (owner.as_str(), "letters", 1)]);
    let leases: Vec<_> = leased[..2].iter().filter_map(|it| it.task.lease()).collect();
    assert_eq!(Some(held[0].oldest_acquired_at), leases.iter().map(|it| it.acquired_at).min());
    assert_eq!(Some(held[0].next_expires_at), leases.iter().map(|it| it.expires_at).min());
    let browse = driver.browse();
    let one = browse.held_leases(&ours, None, None, 1).await.expect("browsing works");
    assert_eq!(one, held[..1]);
    let after = browse.held_leases(&ours, None, Some(&owner), 9).await.expect("browsing works");
    assert_eq!(after, []);
    let of = ["letters".into(), "nothing".into()];
    let some = browse.held_leases(&ours, Some(&of), None, 1).await.expect("browsing works");
    assert_eq!(some, held[1..], "the limit counts what is left");
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
    let label = |value: &str| Filter { labels: team(Some(value)), ..Filter::default() };
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

pub async fn lists_the_queues_of_a_limited_key<F: Fixture>(driver: &mut Driver<F>) {
    populate(driver, 4).await;
    let id = driver.add(&Scope::default(), "letters").await.id;
    let among = |queues: &[&str]| {
        let queues = queues.iter().map(|queue| (*queue).into()).collect();
        Filter { queues: Some(queues), ..Filter::default() }
    };
    assert_eq!(list(driver, among(&["letters", "no such queue"])).await, [id]);
    assert_eq!(list(driver, among(&[])).await, []);
    let all = list(driver, Filter::default()).await;
    let others: Vec<TaskId> = all.iter().copied().filter(|listed| *listed != id).collect();
    assert_eq!(list(driver, among(&["images", "letters"])).await, all);
    assert_eq!(list(driver, among(&["images"])).await, others);
    let outside = Filter { queue: Some("letters".into()), ..among(&["images"]) };
    assert_eq!(list(driver, outside).await, []);
}
