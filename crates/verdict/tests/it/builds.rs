//! Durable runs that stay with the build that recorded something for them.

use proptest::prelude::*;
use verdict::build::{pinned_queue, queue_of};
use verdict::request::{Caller, Outcome};
use verdict::run::{AwaitedEvent, RunRequest, WaitMode};
use verdict::{Answer, Build, Name, Policy, Request, RunAnswer, State, TaskId};

use crate::family::{Call, Family, ROOT, refused, run};
use crate::world::{secs, submission, succeeded};

fn pinning(id: &str) -> Option<Build> {
    Some(Build { id: id.into(), pins: true })
}

fn any(id: &str) -> Option<Build> {
    Some(Build { id: id.into(), pins: false })
}

fn queued() -> Family {
    let mut family = Family::empty();
    family.ask(ROOT, Request::Submit(submission(Policy::default())));
    family
}

/// The worker hands the run back, and time passes until it may be leased again.
fn release(family: &mut Family, caller: &Caller) {
    family.call(caller, Call::default().report(Outcome::Released));
    family.wait(secs(1_000));
}

/// A run that build 7 recorded a step for, and gave back.
fn pinned() -> Family {
    let mut family = queued();
    let caller =
        family.grant_to(ROOT, pinning("7")).expect("a build may begin what none has begun");
    family.call(&caller, Call::default().step("a", "1"));
    release(&mut family, &caller);
    assert_eq!(family.task(ROOT).pin().map(Name::as_str), Some("7"));
    family
}

#[test]
fn a_run_belongs_to_the_build_of_its_first_record() {
    let mut family = queued();
    // Nothing is recorded: a grant that is lost leaves the run to every build.
    let first = family.grant_to(ROOT, pinning("6")).unwrap();
    assert_eq!(
        (family.task(ROOT).pin(), &*family.task(ROOT).offered_in()),
        (None, &"images".into())
    );
    release(&mut family, &first);
    let second = family.grant_to(ROOT, pinning("7")).unwrap();
    family.call(&second, Call::default().step("a", "1"));
    assert_eq!(family.task(ROOT).pin().map(Name::as_str), Some("7"));
    assert_eq!(*family.task(ROOT).offered_in(), Name::from("images@7"));
    assert_eq!(family.task(ROOT).queue, Name::from("images"), "people see where it was submitted");
}

#[test]
fn a_pinned_run_is_granted_to_no_other_build_whatever_a_store_offers() {
    let mut family = pinned();
    for other in [None, pinning("8"), any("8")] {
        let before = family.subject(ROOT).clone();
        assert_eq!(family.grant_to(ROOT, other), None);
        assert_eq!(*family.subject(ROOT), before);
    }
    // The build is the same, whatever its workers say about pins now.
    assert!(family.grant_to(ROOT, any("7")).is_some());
    assert_eq!(family.task(ROOT).pin().map(Name::as_str), Some("7"));
}

#[test]
fn a_lost_lease_and_a_wait_return_a_run_to_its_build_only() {
    let mut family = pinned();
    let caller = family.grant_to(ROOT, pinning("7")).unwrap();
    family.call(&caller, Call::default().step("b", "1"));
    family.wait(secs(1_000));
    family.sweep(ROOT);
    assert_eq!(family.state(ROOT), Some(State::Retry), "its worker was lost");
    family.wait(secs(1_000));
    assert_eq!(family.grant_to(ROOT, pinning("8")), None);
    let caller = family.grant_to(ROOT, pinning("7")).unwrap();
    let signal = AwaitedEvent::Signal("go".into());
    family.call(&caller, Call::default().wait("w", WaitMode::All, &[("s", signal)]));
    family.signal("go", None);
    assert!(family.task(ROOT).claimable_at().is_some(), "what it waited for is there");
    assert_eq!(family.grant_to(ROOT, pinning("8")), None);
    assert!(family.grant_to(ROOT, pinning("7")).is_some());
}

#[test]
fn a_wait_is_the_first_record_when_it_ends() {
    let mut family = queued();
    let caller = family.grant_to(ROOT, pinning("7")).unwrap();
    let signal = AwaitedEvent::Signal("go".into());
    family.call(&caller, Call::default().wait("w", WaitMode::All, &[("s", signal)]));
    family.signal("go", None);
    assert_eq!(family.grant_to(ROOT, None), None);
    assert!(family.grant_to(ROOT, pinning("7")).is_some());
}

#[test]
fn an_unpinned_run_is_pinned_by_the_next_worker() {
    let mut family = pinned();
    let answer = family.ask(ROOT, run(RunRequest::Unpin));
    let unpinned = RunAnswer::Unpinned { state: State::Retry };
    assert_eq!(answer, Answer::Run(Box::new(unpinned)));
    assert_eq!(refused(family.ask_in_vain(ROOT, run(RunRequest::Unpin))), "not_pinned");
    let caller = family.grant_to(ROOT, pinning("8")).unwrap();
    assert_eq!(family.task(ROOT).pin().map(Name::as_str), Some("8"), "it has records");
    family.call(&caller, Call::default().report(succeeded()));
    assert_eq!(refused(family.ask(ROOT, run(RunRequest::Unpin))), "run_already_terminal");
}

#[test]
fn a_run_of_any_build_remembers_the_last_one_and_stays_free() {
    let mut family = queued();
    for build in ["6", "7"] {
        let caller = family.grant_to(ROOT, any(build)).unwrap();
        family.call(&caller, Call::default().step(build, "1"));
        release(&mut family, &caller);
        let noted = family.task(ROOT).run.as_ref().and_then(|run| run.build.as_deref().cloned());
        assert_eq!((noted, family.task(ROOT).pin()), (any(build), None));
    }
    // A worker that says nothing of its build is no worker of the last one.
    family.grant(ROOT);
    assert_eq!(family.task(ROOT).run.as_ref().and_then(|run| run.build.as_ref()), None);
}

#[test]
fn a_plain_task_pays_nothing_and_a_child_is_free() {
    let mut family = queued();
    family.grant(ROOT);
    assert_eq!((family.task(ROOT).run.is_none(), family.count(ROOT, "build_noted")), (true, 0));
    let mut family = pinned();
    let caller = family.grant_to(ROOT, pinning("7")).unwrap();
    family.call(&caller, Call::default().child("c", 8));
    family.settle();
    assert!(family.grant_to(TaskId::from_u128(8), pinning("8")).is_some());
    assert_eq!(
        family.count(ROOT, "build_noted"),
        1,
        "a further grant of the build says nothing new"
    );
}

#[test]
fn the_queue_of_a_build_is_one_that_no_client_can_name() {
    let offered = pinned_queue(&"orders".into(), &"2026-11.3".into());
    assert_eq!(offered, Name::from("orders@2026-11.3"));
    assert_eq!(queue_of(offered), Name::from("orders"));
    assert_eq!(queue_of("orders".into()), Name::from("orders"));
}

proptest! {
    /// Whatever happens to a run, only the build of its first record since the last unpin is granted it.
    #[test]
    fn no_other_build_is_ever_granted_a_pinned_run(steps in prop::collection::vec(0..6u8, 1..40)) {
        let mut family = Family::empty();
        let policy = Policy { lost_max: 1_000, ..Policy::default() };
        family.ask(ROOT, Request::Submit(submission(policy)));
        let (mut holder, mut caller, mut owner): (Option<&str>, _, Option<&str>) = (None, None, None);
        for (n, step) in steps.into_iter().enumerate() {
            match (step, caller.clone()) {
                (0 | 1, None) => {
                    let build = ["7", "8"][usize::from(step)];
                    family.wait(secs(1_000));
                    caller = family.grant_to(ROOT, pinning(build));
                    prop_assert_eq!(caller.is_some(), owner.is_none_or(|owner| owner == build));
                    if caller.is_some() {
                        holder = Some(build);
                        let has_records = family.task(ROOT).run.as_ref().is_some_and(|it| it.checkpoints > 0);
                        owner = owner.or(holder.filter(|_| has_records));
                    }
                }
                (2, Some(held)) => {
                    family.call(&held, Call::default().step(&n.to_string(), "1"));
                    owner = owner.or(holder);
                }
                (3, Some(held)) => {
                    family.call(&held, Call::default().report(Outcome::Released));
                    caller = None;
                }
                (4, Some(_)) => {
                    family.wait(secs(100_000));
                    family.sweep(ROOT);
                    caller = None;
                }
                (5, _) => {
                    let is_pinned = owner.take().is_some();
                    let answer = family.ask(ROOT, run(RunRequest::Unpin));
                    prop_assert_eq!(matches!(answer, Answer::Run(_)), is_pinned);
                    // A worker that holds the lease keeps it, and pins the run no more.
                    holder = holder.filter(|_| !is_pinned);
                }
                _ => {}
            }
            if family.subject(ROOT).live().is_none() {
                break;
            }
            prop_assert_eq!(family.task(ROOT).pin().map(Name::as_str), owner);
        }
    }
}
