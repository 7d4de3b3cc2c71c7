//! Runs that wait for newer ones with their flow key: who waits is found, until its wait is over, and by one batch at a time.

use store::row::FlowRef;
use store::seam::{Batch, Loaded, Lookup, Store, Writer};
use store::{DebounceQuery, DebouncedKey, TaskKey};
use verdict::flow::debounce::replaced;
use verdict::flow::{Debounce, UNLIMITED};
use verdict::{Answer, FlowKey, Request, Scope, Span, State, Subject, TaskId};

use super::driver::Driver;
use super::fixture::Fixture;

const SPAN: Span = Span::from_secs(10);

fn flow(scope: &Scope, key: &str) -> FlowRef {
    FlowRef { scope: scope.clone(), key: key.into() }
}

/// Submits a run that waits, as if nobody else did.
async fn add<F: Fixture>(driver: &mut Driver<F>, scope: &Scope, key: &str) -> TaskKey {
    let said = Debounce::new(SPAN, None).submitted(None, driver.now());
    let mut flow = FlowKey::new(key, UNLIMITED);
    flow.debounce = Some(said.debounced);
    let mut submission = driver.submission(scope, "images");
    submission.submit.flow = Some(Box::new(flow));
    submission.submit.run_at = Some(said.due);
    let id = submission.submit.id;
    let answer = driver.submit(submission).await;
    assert!(matches!(answer, Answer::Accepted { .. }), "{answer:?}");
    TaskKey { scope: scope.clone(), id }
}

async fn find<F: Fixture>(driver: &mut Driver<F>, flows: &[FlowRef]) -> Vec<Option<TaskId>> {
    let now = driver.now();
    let query = |flow: &FlowRef| DebounceQuery { flow: flow.clone(), now };
    let queries: Vec<DebounceQuery> = flows.iter().map(query).collect();
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let found = batch.look_up(Lookup::debounced(&queries)).await.expect("look-ups work").debounced;
    drop(batch);
    let id = |found: DebouncedKey| match found {
        DebouncedKey::Locked => panic!("nobody else has the key"),
        DebouncedKey::Nobody => None,
        DebouncedKey::Waits(id, Loaded::Subject(Subject::Live(task))) => {
            assert_eq!(task.id, id);
            Some(id)
        }
        DebouncedKey::Waits(_, other) => panic!("{other:?}"),
    };
    found.into_iter().map(id).collect()
}

pub async fn are_found_while_they_wait<F: Fixture>(driver: &mut Driver<F>) {
    let (ours, theirs) = (Scope::default(), Scope { tenant: "other".into(), ..Scope::default() });
    let first = add(driver, &ours, "acme").await;
    let other = add(driver, &theirs, "acme").await;
    // A run with the key that does not wait is nobody to replace.
    let mut plain = driver.submission(&ours, "images");
    plain.submit.flow = Some(Box::new(FlowKey::new("acme", UNLIMITED)));
    plain.submit.run_at = Some(driver.now().plus(SPAN));
    driver.submit(plain).await;
    driver.pause().await;
    let asked = [flow(&ours, "acme"), flow(&ours, "bolt"), flow(&theirs, "acme")];
    assert_eq!(find(driver, &asked).await, [Some(first.id), None, Some(other.id)]);
    driver.reopen().await;
    assert_eq!(find(driver, &asked).await, [Some(first.id), None, Some(other.id)]);
    driver.wait(SPAN);
    assert_eq!(find(driver, &asked).await, [None, None, None], "their wait is over");
    let leased = driver.lease(&ours, "images", 9).await;
    assert_eq!(leased.len(), 2, "and nothing else keeps them");
}

pub async fn leave_their_place_to_newer_ones<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let first = add(driver, &scope, "acme").await;
    driver.wait(Span::from_secs(1));
    let second = add(driver, &scope, "acme").await;
    let cancel = Request::Cancel(replaced(second.id, &"acme".into()));
    let answer = driver.about(&first, cancel).await;
    assert!(matches!(answer, Answer::CancelAccepted { state: State::Cancelled, .. }), "{answer:?}");
    driver.pause().await;
    assert_eq!(find(driver, &[flow(&scope, "acme")]).await, [Some(second.id)]);
    let Subject::Done(done) = driver.load(&first).await else { panic!("it was replaced") };
    let reason = done.cancel.and_then(|it| it.reason).expect("it says why");
    assert!(reason.as_str().contains(&second.id.run_name()), "{reason}");
}

pub async fn are_replaced_by_one_batch_at_a_time<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let first = add(driver, &scope, "acme").await;
    let now = driver.now();
    let Ok(mut second) = driver.store().writer().await else { return };
    let asked = |key: &str| [DebounceQuery { flow: flow(&Scope::default(), key), now }];
    let (acme, bolt, cord) = (asked("acme"), asked("bolt"), asked("cord"));
    let mut one = driver.writer().begin().await.expect("a batch can be begun");
    let mut two = second.begin().await.expect("a batch can be begun");
    let found = one.look_up(Lookup::debounced(&acme)).await.expect("look-ups work").debounced;
    assert!(matches!(found[..], [DebouncedKey::Waits(id, _)] if id == first.id), "{found:?}");
    let found = two.look_up(Lookup::debounced(&acme)).await.expect("look-ups work").debounced;
    assert_eq!(found, [DebouncedKey::Locked], "S2-81: it does not wait for the key");
    // A key that nobody waits for is locked as well: both would begin a wait.
    let found = one.look_up(Lookup::debounced(&bolt)).await.expect("look-ups work").debounced;
    assert_eq!(found, [DebouncedKey::Nobody]);
    let found = two.look_up(Lookup::debounced(&bolt)).await.expect("look-ups work").debounced;
    assert_eq!(found, [DebouncedKey::Locked]);
    let found = two.look_up(Lookup::debounced(&cord)).await.expect("look-ups work").debounced;
    assert_eq!(found, [DebouncedKey::Nobody]);
    drop(one);
    drop(two);
    drop(second);
    driver.reopen().await;
    assert_eq!(find(driver, &[flow(&scope, "acme")]).await, [Some(first.id)]);
}
