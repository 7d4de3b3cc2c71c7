//! What the pool and the runner may decide, shown by what their decisions leave behind. A durable run has steps and
//! children, so there is more that a decision in the wrong place could touch.

use verdict::run::{AwaitedEvent, WaitMode};
use verdict::{Category, State, TaskId};

use crate::family::{Call, Family, ROOT};
use crate::world::failed;

const CHILD: TaskId = TaskId::from_u128(20);
const SECOND: TaskId = TaskId::from_u128(21);

/// The names of the events that a task has had since there were so many.
fn since(family: &Family, id: TaskId, count: usize) -> Vec<&'static str> {
    family.members[&id].history[count..].iter().map(verdict::Event::name).collect()
}

#[test]
fn a_claim_makes_a_run_running_and_executes_nothing() {
    let (mut family, caller) = Family::running();
    // S2-48, S2-49, S2-9: from queued, from retry, and from a wait that is over; each claim is one event.
    assert_eq!(since(&family, ROOT, 1), ["granted"]);
    family.call(&caller, Call::default().step("a#1", "1"));
    family.call(&caller, Call::default().report(failed(Category::Infrastructure)));
    assert_eq!(family.state(ROOT), Some(State::Retry));
    family.now = family.task(ROOT).claimable_at().unwrap();
    let before = family.members[&ROOT].history.len();
    let second = family.grant(ROOT);
    assert_eq!(since(&family, ROOT, before), ["granted"]);
    let go = [("go#1", AwaitedEvent::Signal("go".into()))];
    family.call(&second, Call::default().wait("w", WaitMode::All, &go));
    family.signal("go", None);
    let before = family.members[&ROOT].history.len();
    let task = family.task(ROOT).clone();
    family.grant(ROOT);
    assert_eq!(since(&family, ROOT, before), ["granted"]);
    // S2-53: what the run has recorded is as it was, and no attempt has begun by itself.
    assert_eq!(family.task(ROOT).run, task.run);
    assert_eq!((family.state(ROOT), family.task(ROOT).attempt), (Some(State::Running), 3));
    assert_eq!(family.members[&ROOT].closed.len(), 2);
}

#[test]
fn a_runner_starts_no_other_run_itself() {
    let (mut family, caller) = Family::running();
    family.call(&caller, Call::default().child("one", 20));
    // S2-12: the decision about the parent is about the parent. The child is asked for with a message.
    assert_eq!(family.members.keys().copied().collect::<Vec<_>>(), [ROOT]);
    assert_eq!(family.messages.len(), 1);
    family.settle();
    // S2-65: it is queued as any other run, and a claim makes it running.
    assert_eq!(family.state(CHILD), Some(State::Queued));
    assert!(family.task(CHILD).lease().is_none());
    family.grant(CHILD);
    assert_eq!(family.state(CHILD), Some(State::Running));
}

#[test]
fn a_runner_changes_nothing_of_what_the_pool_has_given_or_will_give() {
    let (mut family, caller) = Family::running();
    family.call(&caller, Call::default().child("one", 20).child("two", 21));
    family.settle();
    family.grant(CHILD);
    let before = [CHILD, SECOND].map(|id| family.task(id).clone());
    family.call(&caller, Call::default().step("a#1", "1"));
    family.call(&caller, Call::default().report(failed(Category::Infrastructure)));
    family.settle();
    // S2-66: neither a lease nor a place in a queue is touched by the calls of another run's worker.
    assert_eq!([CHILD, SECOND].map(|id| family.task(id).clone()), before);
}
