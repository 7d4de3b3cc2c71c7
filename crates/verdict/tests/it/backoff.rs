//! How long a retry waits.

use std::collections::BTreeSet;

use verdict::request::Submit;
use verdict::{Category, Policy, Request, Span, TaskId};

use crate::world::{World, failed, secs, submission};

const TASK: TaskId = TaskId::from_u128(42);

#[test]
fn it_doubles_up_to_its_cap_and_jitters_by_half_the_base() {
    let policy = Policy::default();
    let expected = [5, 10, 20, 40, 80, 160, 300, 300];
    for (count, seconds) in (1..).zip(expected) {
        let delay = policy.backoff(TASK, count, count);
        // R-17, S2-35: min(cap, base x 2^(n-1)) + j, j within half the base.
        let (least, most) = (secs(seconds), Span::from_millis(seconds * 1000 + 2500));
        assert!((least..=most).contains(&delay), "failure {count}: {delay:?}");
    }
    // S2-35: and no count, however large, overflows it.
    assert!(policy.backoff(TASK, u32::MAX, u32::MAX) <= Span::from_millis(302_500));
}

#[test]
fn equal_seeds_give_equal_schedules() {
    let policy = Policy { seed: Some(7), failures_max: 9, ..Policy::default() };
    // S2-109, S2-110: reproducible, whatever the task is called; another seed differs.
    let other = TaskId::from_u128(43);
    assert_eq!(schedule(&policy, TASK), schedule(&policy, other));
    let reseeded = Policy { seed: Some(8), ..policy.clone() };
    assert_ne!(schedule(&policy, TASK), schedule(&reseeded, TASK));
    // fixed for one version of the formula.
    let golden: Vec<u64> = schedule(&policy, TASK).iter().map(|delay| delay.millis()).collect();
    assert_eq!(golden, GOLDEN);
}

/// How long a task that keeps failing waits after each failure but the last, as the rules decide
/// it.
fn schedule(policy: &Policy, id: TaskId) -> Vec<Span> {
    let mut world = World::empty();
    world.ask(Request::Submit(Submit { id, ..submission(policy.clone()) }));
    let retries = 1..policy.failures_max;
    retries
        .map(|_| {
            let caller = world.grant_when_due("ann");
            world.report(&caller, failed(Category::UserCode));
            world.due().since(world.now)
        })
        .collect()
}

/// The delays of seed 7 when the formula was written. A change needs a new version of the formula.
const GOLDEN: [u64; 8] = [5746, 12206, 21180, 40886, 81871, 162308, 300158, 301876];

#[test]
fn no_retry_computation_knows_anything_but_its_seed() {
    // Proves: S2-110: of tasks, of deliveries and of pushed calls. Each is computed twice, as two coordinators or a replay
    // would, and differs for another seed.
    let policy = Policy { seed: Some(7), failures_max: 9, ..Policy::default() };
    assert_eq!(schedule(&policy, TASK), schedule(&policy, TASK));
    assert_ne!(schedule(&policy, TASK), schedule(&Policy { seed: Some(8), ..policy }, TASK));
    let unseeded = Policy { failures_max: 9, ..Policy::default() };
    assert_eq!(schedule(&unseeded, TASK), schedule(&unseeded, TASK), "its id is the seed");
    assert_ne!(schedule(&unseeded, TASK), schedule(&unseeded, TaskId::from_u128(43)));
    let deliveries = |number| crate::effects::pauses_of(number);
    assert_eq!(deliveries(1), deliveries(1));
    assert_ne!(deliveries(1), deliveries(2), "another effect");
    let pushes = |endpoint: &str| -> Vec<Span> {
        (1..9).map(|n| verdict::push::pause(&endpoint.into(), n, None)).collect()
    };
    assert_eq!(pushes("a"), pushes("a"));
    assert_ne!(pushes("a"), pushes("b"), "another endpoint");
}

#[test]
fn tasks_that_failed_together_do_not_come_back_together() {
    let policy = Policy::default();
    let delays: BTreeSet<Span> =
        (0..1000).map(|task| schedule(&policy, TaskId::from_u128(task))[0]).collect();
    // S2-109: a thousand tasks spread over the 2501 milliseconds of the jitter.
    assert!(delays.len() > 700, "only {} different delays", delays.len());
}
