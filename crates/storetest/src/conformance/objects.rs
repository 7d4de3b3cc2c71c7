//! Objects: guarded revisions, unique keys, lists, due times, and a log that ends in the object.

#![expect(clippy::unwrap_used, reason = "in what tests share, too, a panic is the report")]

use store::browse::Browse;
use store::failure::{CommitFailure, Failure, FailureKind};
use store::objects::{LoadedObject, ObjectChange, ObjectFilter, ObjectLogFilter, UniqueKey};
use store::row::EndedPosition;
use store::seam::{Batch, Decided, Lookup, Store, Writer};
use store::verify::verify;
use verdict::{Name, Object, ObjectKey, ObjectType, Scope, Span, Time};

use super::driver::{Driver, caller};
use super::fixture::Fixture;
use super::reports::{report, succeeded};

fn key(scope: &Scope, id: &str) -> ObjectKey {
    ObjectKey { scope: scope.clone(), object_type: ObjectType::Endpoint, id: id.into() }
}

fn object(id: &str) -> Object {
    Object {
        key: key(&Scope::default(), id),
        revision: 1,
        status: "active".into(),
        due: None,
        unique_key: Some(format!("name-{id}").into()),
        parent: None,
        is_pending: false,
        body: "{\"a\":1}".into(),
    }
}

fn change(after: &Object) -> ObjectChange {
    let at = Time::from_millis(1_000 + i64::from(after.revision));
    ObjectChange { after: after.clone(), at, by: Some("k1".into()) }
}

/// The next revision, with another status.
fn next(object: &Object, status: &str) -> Object {
    Object { revision: object.revision + 1, status: status.into(), ..object.clone() }
}

async fn try_save<F: Fixture>(
    driver: &mut Driver<F>,
    objects: Vec<ObjectChange>,
) -> Result<(), Failure> {
    driver.pause().await;
    let mut batch = driver.writer().begin().await?;
    batch.moment().await?;
    batch.save(Decided { objects, ..Decided::default() }).await?;
    batch.commit().await.map_err(|failure| match failure {
        CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure) => failure,
    })
}

async fn save<F: Fixture>(driver: &mut Driver<F>, objects: &[&Object]) {
    let changes = objects.iter().map(|object| change(object)).collect();
    try_save(driver, changes).await.expect("the objects are saved");
}

async fn list<F: Fixture>(driver: &Driver<F>, filter: &ObjectFilter) -> Vec<Name> {
    let found = driver.browse().objects(filter).await.expect("browsing works");
    found.into_iter().map(|object| object.key.id).collect()
}

fn all() -> ObjectFilter {
    ObjectFilter { scope: Some(Scope::default()), limit: 99, ..ObjectFilter::default() }
}

async fn log<F: Fixture>(driver: &Driver<F>, key: Option<ObjectKey>) -> Vec<ObjectChange> {
    let filter = ObjectLogFilter { key, after: None, limit: 99 };
    driver.browse().object_log(&filter).await.expect("browsing works")
}

pub async fn change_by_one_revision_at_a_time<F: Fixture>(driver: &mut Driver<F>) {
    let first = object("a");
    let second = next(&first, "paused");
    save(driver, &[&first]).await;
    let other = Object { status: "late".into(), ..first.clone() };
    for stale in [other, next(&second, "gap")] {
        let failure = try_save(driver, vec![change(&stale)]).await.expect_err("a stale revision");
        assert!(matches!(failure.kind, FailureKind::Conflict(_)), "{failure:?}");
    }
    // Twice in one batch.
    let third = next(&second, "active");
    save(driver, &[&second, &third]).await;
    driver.pause().await;
    let found = driver.browse().objects(&ObjectFilter::one(&first.key)).await.unwrap();
    assert_eq!(found, std::slice::from_ref(&third));
    let entries = [change(&first), change(&second), change(&third)];
    assert_eq!(log(driver, Some(first.key.clone())).await, entries);
    let after = ObjectLogFilter { after: Some((first.key.clone(), 1)), key: None, limit: 1 };
    assert_eq!(driver.browse().object_log(&after).await.unwrap(), entries[1..2]);
}

pub async fn are_found_by_key_and_by_unique_key<F: Fixture>(driver: &mut Driver<F>) {
    let (a, b) = (object("a"), object("b"));
    save(driver, &[&a, &b]).await;
    driver.pause().await;
    let unique = |name: &str, scope: Scope| UniqueKey {
        scope,
        object_type: ObjectType::Endpoint,
        unique_key: name.into(),
    };
    let keys = [b.key.clone(), key(&Scope::default(), "none"), key(&Scope::new("x", "y"), "a")];
    let names = [unique("name-a", Scope::default()), unique("name-a", Scope::new("x", "y"))];
    let mut batch = driver.writer().begin().await.unwrap();
    let lookup = Lookup { objects: &keys, unique_objects: &names, ..Lookup::default() };
    let found = batch.look_up(lookup).await.unwrap();
    let (none, is) = (LoadedObject::Absent, LoadedObject::Object);
    assert_eq!(found.objects, [is(b), none.clone(), none.clone()]);
    assert_eq!(found.unique_objects, [is(a), none]);
    drop(batch);
    let thief = Object { unique_key: Some("name-a".into()), ..object("c") };
    try_save(driver, vec![change(&thief)]).await.expect_err("a unique key has one owner");
    assert_eq!(list(driver, &all()).await, ["a".into(), "b".into()]);
}

pub async fn are_listed_in_pages_by_scope<F: Fixture>(driver: &mut Driver<F>) {
    let other = Scope::new("acme", "prod");
    let mut objects: Vec<Object> = (0..5).map(|n| object(&format!("o{n}"))).collect();
    objects[1].status = "paused".into();
    objects[2].is_pending = true;
    objects[3].parent = Some("d1".into());
    objects.push(Object { key: key(&other, "o0"), ..object("o0") });
    save(driver, &objects.iter().collect::<Vec<_>>()).await;
    driver.pause().await;
    let names = |ids: &[&str]| ids.iter().map(|id| Name::from(*id)).collect::<Vec<_>>();
    assert_eq!(list(driver, &all()).await, names(&["o0", "o1", "o2", "o3", "o4"]));
    let status = |status: &str| ObjectFilter { status: Some(status.into()), ..all() };
    let typed = ObjectFilter { object_type: Some(ObjectType::Endpoint), ..status("active") };
    let page = ObjectFilter { limit: 2, ..typed.clone() };
    assert_eq!(list(driver, &page).await, names(&["o0", "o2"]));
    let after = Some(objects[2].key.clone());
    assert_eq!(list(driver, &ObjectFilter { after, ..page }).await, names(&["o3", "o4"]));
    assert_eq!(list(driver, &status("paused")).await, names(&["o1"]));
    assert_eq!(list(driver, &ObjectFilter { is_pending: true, ..all() }).await, names(&["o2"]));
    let parent = Some("d1".into());
    assert_eq!(list(driver, &ObjectFilter { parent, ..all() }).await, names(&["o3"]));
    // Several at once, some of which there are; an id is no pattern and no part of a statement.
    let ids = |ids: &[&str]| ObjectFilter {
        object_type: Some(ObjectType::Endpoint),
        ids: Some(ids.iter().copied().map(Name::from).collect()),
        ..all()
    };
    let some = ids(&["o4", "o1", "o%", "'; --", "\"o2\"", "o1"]);
    assert_eq!(list(driver, &some).await, names(&["o1", "o4"]));
    assert!(list(driver, &ids(&[])).await.is_empty());
    let none = ObjectFilter { object_type: Some(ObjectType::Schedule), ..all() };
    assert!(list(driver, &none).await.is_empty());
    let strange = ObjectFilter { scope: Some(Scope::new("acme", "test")), ..all() };
    assert!(list(driver, &strange).await.is_empty());
    let everything = ObjectFilter { scope: None, ..all() };
    assert_eq!(list(driver, &everything).await.len(), 6);
    let after = Some(key(&other, "o0"));
    assert_eq!(list(driver, &ObjectFilter { after, ..everything }).await.len(), 5);
}

/// A page ends with the object that reaches its bytes, and says so; a larger one is alone in its page.
pub async fn are_listed_in_pages_of_bytes<F: Fixture>(driver: &mut Driver<F>) {
    let sized = |id: &str, bytes: usize| Object {
        body: format!("{{\"a\":\"{}\"}}", "x".repeat(bytes)).as_str().into(),
        ..object(id)
    };
    let objects =
        [sized("a", 3_000), sized("b", 3_000), sized("c", 9_000), sized("d", 1), sized("e", 1)];
    save(driver, &objects.each_ref()).await;
    driver.pause().await;
    let mut filter = ObjectFilter { bytes: Some(6_000), ..all() };
    let mut pages = Vec::new();
    loop {
        let page = driver.browse().objects(&filter).await.expect("browsing works");
        pages.push(page.iter().map(|it| it.key.id.to_string()).collect::<String>());
        if filter.is_last(&page) {
            break;
        }
        filter.after = page.last().map(|last| last.key.clone());
    }
    assert_eq!(pages, ["ab", "c", "de"]);
    assert_eq!(list(driver, &all()).await.len(), 5, "without a bound all of them");
    let two = ObjectFilter { limit: 2, bytes: Some(1_000_000), ..all() };
    let page = driver.browse().objects(&two).await.expect("browsing works");
    assert!(page.len() == 2 && !two.is_last(&page), "the number of objects is a bound, too");
}

pub async fn wake_when_they_are_due<F: Fixture>(driver: &mut Driver<F>) {
    let now = driver.now();
    let at = |secs| now.plus(Span::from_secs(secs));
    let (mut soon, mut later) = (object("soon"), object("later"));
    (soon.due, later.due) = (Some(at(10)), Some(at(20)));
    save(driver, &[&later, &soon, &object("never")]).await;
    driver.pause().await;
    assert_eq!(driver.writer().next_wake().await.unwrap(), Some(at(10)));
    driver.wait(Span::from_secs(30));
    driver.pause().await;
    let mut batch = driver.writer().begin().await.unwrap();
    assert!(batch.due_objects(at(9), 9).await.unwrap().is_empty());
    drop(batch);
    driver.wait(Span::from_secs(30));
    let mut batch = driver.writer().begin().await.unwrap();
    assert_eq!(batch.due_objects(at(60), 1).await.unwrap(), [soon.clone()]);
    assert_eq!(batch.due_objects(at(60), 9).await.unwrap(), [soon.clone(), later.clone()]);
    drop(batch);
    let done = Object { due: None, ..next(&soon, "fired") };
    save(driver, &[&done]).await;
    driver.pause().await;
    assert_eq!(driver.writer().next_wake().await.unwrap(), Some(at(20)));
}

pub async fn belong_to_their_commit<F: Fixture>(driver: &mut Driver<F>) {
    let first = Object { due: Some(driver.now().plus(Span::from_secs(5))), ..object("a") };
    driver.pause().await;
    let mut batch = driver.writer().begin().await.unwrap();
    batch.moment().await.unwrap();
    let objects = vec![change(&first)];
    batch.save(Decided { objects, ..Decided::default() }).await.unwrap();
    let seen = batch.look_up(Lookup::objects(std::slice::from_ref(&first.key))).await.unwrap();
    assert_eq!(seen.objects, [LoadedObject::Object(first.clone())]);
    drop(batch);
    driver.pause().await;
    assert!(list(driver, &all()).await.is_empty());
    assert!(log(driver, None).await.is_empty());
    assert_eq!(driver.writer().next_wake().await.unwrap(), None);
}

pub async fn are_locked_by_one_batch<F: Fixture>(driver: &mut Driver<F>) {
    if driver.store().status().writers < 2 {
        return;
    }
    let first = object("a");
    save(driver, &[&first]).await;
    let mut other = driver.store().writer().await.unwrap();
    let keys = [first.key.clone()];
    let mut batch = driver.writer().begin().await.unwrap();
    let mine = batch.look_up(Lookup::objects(&keys)).await.unwrap();
    assert_eq!(mine.objects, [LoadedObject::Object(first.clone())]);
    let mut theirs = other.begin().await.unwrap();
    let found = theirs.look_up(Lookup::objects(&keys)).await.unwrap();
    assert_eq!(found.objects, [LoadedObject::Locked]);
    drop((batch, theirs));
}

/// A batch that was begun before an endpoint changed cannot commit after it: it may have decided an end that the endpoint
/// wants to hear of.
pub async fn of_endpoints_fence_batches_that_do_not_know_them<F: Fixture>(driver: &mut Driver<F>) {
    if driver.store().status().writers < 2 {
        // The only writer changes endpoints between its batches.
        return;
    }
    let mut peer = driver.store().writer().await.unwrap();
    let mut late = peer.begin().await.unwrap();
    let given = late.settings_version();
    late.moment().await.unwrap();
    // By the writer as it is: a store that is opened again has closed the others.
    let mut early = driver.writer().begin().await.unwrap();
    early.moment().await.unwrap();
    let first = change(&object("a"));
    early.save(Decided { objects: vec![first], ..Decided::default() }).await.unwrap();
    early.commit().await.unwrap();
    let other = Object { key: line_key("b"), ..object("b") };
    late.save(Decided { objects: vec![change(&other)], ..Decided::default() }).await.unwrap();
    let refused = late.commit().await;
    let is_conflict = |refused: &CommitFailure| {
        matches!(refused, CommitFailure::RolledBack(failure)
            if matches!(failure.kind, FailureKind::Conflict(_)))
    };
    assert!(refused.as_ref().is_err_and(is_conflict), "{refused:?}");
    let batch = peer.begin().await.unwrap();
    let taught = batch.settings_version();
    assert_ne!(taught, given, "the conflict taught it");
    drop(batch);
    drop(peer);
    // Other objects are no reason to decide again, and whoever changes an endpoint knows it.
    save(driver, &[&other]).await;
    let batch = driver.writer().begin().await.unwrap();
    assert_eq!(batch.settings_version(), taught);
    drop(batch);
    save(driver, &[&next(&object("a"), "paused"), &next(&other, "paused")]).await;
    let batch = driver.writer().begin().await.unwrap();
    assert_ne!(batch.settings_version(), taught);
    drop(batch);
    save(driver, &[&next(&next(&object("a"), "paused"), "active")]).await;
}

fn line_key(id: &str) -> ObjectKey {
    ObjectKey { object_type: ObjectType::Line, ..key(&Scope::default(), id) }
}

pub async fn leave_with_their_run<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let task = driver.add(&scope, "q").await;
    let parent = Some(Name::from(task.id.run_name()));
    let of_run = Object { parent, is_pending: true, ..object("of-run") };
    let stays = Object { is_pending: true, ..object("stays") };
    save(driver, &[&of_run, &stays]).await;
    let leased = driver.lease(&scope, "q", 1).await;
    driver.about(&task, report(&caller(&leased[0]), succeeded())).await;
    driver.add(&scope, "q").await;
    driver.wait(Span::from_secs(3 * 24 * 60 * 60));
    driver.pause().await;
    let mut batch = driver.writer().begin().await.unwrap();
    let ended = batch.ended(None, 9).await.unwrap();
    assert!(ended[0].has_pending_objects, "something is to be done about its object");
    drop(batch);
    save(driver, &[&Object { is_pending: false, ..next(&of_run, "closed") }]).await;
    driver.pause().await;
    let mut batch = driver.writer().begin().await.unwrap();
    let ended = batch.ended(None, 9).await.unwrap();
    assert!(!ended[0].has_pending_objects, "objects of others hold nothing");
    batch.moment().await.unwrap();
    let forgotten: Vec<EndedPosition> = ended.iter().map(|ended| ended.position).collect();
    assert_eq!(forgotten.len(), 1);
    batch.save(Decided { forgotten, ..Decided::default() }).await.unwrap();
    batch.commit().await.unwrap();
    driver.pause().await;
    assert_eq!(list(driver, &all()).await, ["stays".into()]);
    assert_eq!(log(driver, None).await, [change(&stays)]);
}

pub async fn are_verified_against_their_log<F: Fixture>(driver: &mut Driver<F>) {
    let first = object("a");
    save(driver, &[&first, &object("b")]).await;
    save(driver, &[&next(&first, "paused")]).await;
    driver.pause().await;
    assert_eq!(verify(driver.browse()).await.unwrap().findings, []);
}

/// A schedule that has changed so often that its log has lost its oldest entries.
async fn busy_schedule<F: Fixture>(driver: &mut Driver<F>) -> Object {
    const CHANGES: usize = 1_150;
    let schedule = ObjectKey { object_type: ObjectType::Schedule, ..object("s").key };
    let mut changes = vec![Object { key: schedule, ..object("s") }];
    while changes.len() < CHANGES {
        let after = next(changes.last().unwrap(), "active");
        changes.push(after);
    }
    for some in changes.chunks(50) {
        save(driver, &some.iter().collect::<Vec<_>>()).await;
    }
    changes.pop().unwrap()
}

pub async fn keep_the_newest_entries_of_a_schedule<F: Fixture>(driver: &mut Driver<F>) {
    // Time changes a schedule for ever, and its log stays as long as people look at it.
    let last = busy_schedule(driver).await;
    let other = object("e");
    save(driver, &[&other]).await;
    driver.pause().await;
    let filter = ObjectLogFilter { key: Some(last.key.clone()), after: None, limit: 5_000 };
    let log = driver.browse().object_log(&filter).await.unwrap();
    assert_eq!(log.first().unwrap().after.revision, 101);
    assert_eq!(log.len(), 1_050);
    assert_eq!(log.last().unwrap().after, last);
    assert_eq!(verify(driver.browse()).await.unwrap().findings, []);
}
