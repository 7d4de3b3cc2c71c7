//! Children and messages: spawned once, ended once, and closed with their parent.

use verdict::request::CancelMode;
use verdict::run::{Lineage, RunRequest, WaitMode};
use verdict::{
    Answer, CHILDREN_PER_RUN, Category, Policy, Quota, Reason, Request, State, Subject, TaskId,
    Time,
};

use crate::family::{Call, Family, ROOT, on_child, refused, run};
use crate::world::{START, failed, secs, submission, succeeded};

const ONE: TaskId = TaskId::from_u128(20);
const TWO: TaskId = TaskId::from_u128(21);

/// A root whose two children exist.
fn with_children() -> (Family, verdict::request::Caller) {
    let (mut family, caller) = Family::running();
    family.call(&caller, Call::default().child("one", 20).child("two", 21));
    family.settle();
    (family, caller)
}

#[test]
fn a_child_knows_its_run_its_parent_and_its_key() {
    let (mut family, _) = with_children();
    let caller = family.grant(ONE);
    family.call(&caller, Call::default().child("deep", 30));
    family.settle();
    let lineage = |family: &Family, id: u128| {
        family.task(TaskId::from_u128(id)).run.as_ref().unwrap().lineage.clone().unwrap()
    };
    let child = |parent, key: &str| Lineage::Child { run: ROOT, parent, key: key.into() };
    assert_eq!(lineage(&family, 20), child(ROOT, "one"));
    assert_eq!(lineage(&family, 30), child(ONE, "deep"));
    assert_eq!(family.task(TaskId::from_u128(30)).run_id(), ROOT);
    assert_eq!(family.task(ROOT).run_id(), ROOT);
    assert!(family.task(ROOT).run.as_ref().unwrap().lineage.is_none());
}

#[test]
fn a_child_is_spawned_once_across_attempts_and_its_first_id_counts() {
    let (mut family, _) = with_children();
    family.now = family.task(ROOT).lease().unwrap().expires_at;
    family.sweep(ROOT);
    let next = family.grant(ROOT);
    // The repeated call has a fresh id for the child. R-32: the key counts.
    let again = family.checkpoint(&next, Call::default().child("one", 99));
    assert_eq!(again.children, [("one".into(), ONE)]);
    assert_eq!(family.count(ROOT, "child_spawned"), 2);
    assert!(family.messages.is_empty(), "no second child is asked for");
    // The same key with another content is a conflict.
    let other = Call::default().child_of("one", 99, "other", false);
    assert_eq!(refused(family.ask_in_vain(ROOT, other.request(&next))), "conflicting_step");
}

#[test]
fn repeated_messages_change_nothing() {
    let (mut family, _) = with_children();
    family.finish(ONE);
    family.settle();
    family.repeat_messages();
    assert_eq!(family.task(ROOT).live_children(), 1);
    assert_eq!(family.count(ROOT, "checkpointed"), 1);
}

#[test]
fn a_message_that_overtakes_the_spawning_is_refused_and_stays() {
    let (mut family, caller) = Family::running();
    family.call(&caller, Call::default().child("one", 20));
    family.call(&caller, Call::default().report(succeeded()));
    family.sweep(ROOT);
    assert_eq!(family.messages.len(), 2, "spawn and cancel");
    let cancel = family.messages[1].clone();
    assert!(family.messages[0].number < cancel.number);
    let early = family.ask(ONE, run(RunRequest::Message(cancel)));
    assert_eq!(refused(early), "message_early");
    family.settle();
    assert_eq!(family.state(ONE), Some(State::Cancelled));
    assert_eq!(family.state(ROOT), Some(State::Succeeded));
}

#[test]
fn the_end_of_a_child_is_a_checkpoint_whether_or_not_its_parent_waits() {
    let (mut family, caller) = with_children();
    let one = family.grant(ONE);
    // The failure reaches the parent as a value.
    let fault = crate::world::fault(Category::UserCode, Some(false));
    family.call(&one, Call::default().report(verdict::request::Outcome::Failed(fault)));
    family.settle();
    assert_eq!(family.state(ROOT), Some(State::Running));
    let items = [("1", on_child("one"))];
    let answer = family.checkpoint(&caller, Call::default().wait("w#1", WaitMode::All, &items));
    assert_eq!(answer.state, State::Running, "it ended before the call");
    // And after the call.
    let items = [("2", on_child("two"))];
    let answer = family.checkpoint(&caller, Call::default().wait("w#2", WaitMode::All, &items));
    assert_eq!(answer.state, State::Waiting);
    family.finish(TWO);
    assert!(family.task(ROOT).claimable_at().is_none(), "the message is under way");
    family.settle();
    assert!(family.task(ROOT).claimable_at().is_some());
    assert_eq!(family.count(ROOT, "checkpointed"), 4);
}

#[test]
fn a_parent_ends_after_its_children_and_the_first_reason_is_final() {
    let (mut family, caller) = with_children();
    let answer = family.call(&caller, Call::default().report(succeeded()));
    let Answer::Committed { state, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(state, State::Waiting);
    // The lease is released; nothing can be granted, and nothing ends it otherwise.
    assert!(family.task(ROOT).lease().is_none());
    assert_eq!(family.task(ROOT).wakes_at(), Some(family.now));
    family.cancel(ROOT, CancelMode::Graceful);
    assert_eq!(refused(family.signal("go", None)), "run_already_terminal");
    family.sweep(ROOT);
    family.settle();
    assert_eq!(
        (family.state(ONE), family.state(TWO)),
        (Some(State::Cancelled), Some(State::Cancelled))
    );
    assert_eq!(family.state(ROOT), Some(State::Succeeded));
    family.repeat_messages();
}

#[test]
fn closing_goes_in_slices_until_every_child_was_told() {
    let (mut family, caller) = Family::running();
    let call = (0..5).fold(Call::default(), |call, n| call.child(&format!("c{n}"), 20 + n));
    family.call(&caller, call);
    family.settle();
    family.slice = 2;
    let held = family.grant(ONE);
    family.call(&caller, Call::default().report(succeeded()));
    let mut sweeps = 0;
    while family.task(ROOT).wakes_at().is_some() {
        family.sweep(ROOT);
        sweeps += 1;
        assert!(family.messages.len() <= sweeps * 2, "a slice has two children");
    }
    assert_eq!((sweeps, family.messages.len()), (3, 5));
    family.settle();
    // The child that a worker holds is asked, and its parent waits for it.
    assert_eq!(family.state(ROOT), Some(State::Waiting));
    assert_eq!(family.task(ROOT).live_children(), 1);
    family.call(&held, Call::default().report(crate::world::cancelled()));
    family.settle();
    assert_eq!(family.state(ROOT), Some(State::Succeeded));
}

#[test]
fn force_hastens_a_closing_task_and_changes_no_end() {
    let (mut family, caller) = with_children();
    let one = family.grant(ONE);
    family.call(&caller, Call::default().report(failed(Category::DataQuality)));
    family.sweep(ROOT);
    family.settle();
    assert_eq!(family.state(ONE), Some(State::Running), "asked to stop, and given its grace");
    family.cancel(ROOT, CancelMode::Immediate);
    assert_eq!(family.task(ROOT).wakes_at(), Some(family.now));
    family.sweep(ROOT);
    family.settle();
    let Subject::Done(done) = family.subject(ONE) else { panic!("{one:?} still has its lease") };
    assert_eq!(done.end.reason, Some(Reason::CancelForced));
    let Subject::Done(root) = family.subject(ROOT) else { panic!("its children have ended") };
    assert_eq!((root.end.state, root.end.reason), (State::Failed, Some(Reason::NotRetryable)));
}

#[test]
fn every_way_to_end_waits_for_the_children() {
    let over = START.plus(secs(3_600));
    for way in ["cancel", "force", "deadline", "grace", "cancel in retry", "cancel while waiting"] {
        let policy = Policy { deadline: Some(over), ..Policy::default() };
        let (mut family, caller) = Family::running_with(policy);
        family.call(&caller, Call::default().child("one", 20));
        family.settle();
        match way {
            "cancel" => {
                family.cancel(ROOT, CancelMode::Graceful);
                family.call(&caller, Call::default().report(crate::world::cancelled()));
            }
            "force" => drop(family.cancel(ROOT, CancelMode::Immediate)),
            "grace" => {
                family.cancel(ROOT, CancelMode::Graceful);
                family.call(&caller, Call::default().step("a", "1"));
                family.wait(secs(31));
                family.sweep(ROOT);
            }
            "cancel in retry" => {
                family.call(&caller, Call::default().report(failed(Category::UserCode)));
                family.cancel(ROOT, CancelMode::Graceful);
            }
            "cancel while waiting" => {
                let items = [("1", on_child("one"))];
                family.call(&caller, Call::default().wait("w", WaitMode::All, &items));
                family.cancel(ROOT, CancelMode::Graceful);
            }
            _ => {
                family.now = over;
                family.sweep(ROOT);
            }
        }
        assert!(family.task(ROOT).closing().is_some(), "{way}");
        family.sweep(ROOT);
        family.settle();
        let state = family.state(ROOT).expect("the root exists");
        assert!(state.is_terminal(), "{way}: {state:?}");
        assert!(family.state(ONE).is_some_and(State::is_terminal), "{way}");
    }
}

#[test]
fn a_detached_child_is_a_separate_run() {
    let (mut family, caller) = Family::running();
    family.call(&caller, Call::default().detached("next", 20).report(succeeded()));
    assert_eq!(family.state(ROOT), Some(State::Succeeded), "nothing to wait for");
    family.settle();
    let lineage = family.task(ONE).run.as_ref().unwrap().lineage.clone();
    assert_eq!(lineage, Some(Lineage::Detached { cause: ROOT, key: "next".into() }));
    assert_eq!(family.task(ONE).run_id(), ONE);
    family.finish(ONE);
    assert!(family.messages.is_empty(), "its end sends no message");
    // It draws on the tenant: without room the whole call is refused.
    let (mut family, caller) = Family::running();
    family.quota = Some(Quota { max: 2, unfinished: 1, children: 0 });
    let two = Call::default().detached("a", 20).detached("b", 21);
    assert_eq!(refused(family.ask_in_vain(ROOT, two.request(&caller))), "quota_reached");
    let one = Call::default().detached("a", 20).child("b", 21);
    assert_eq!(family.checkpoint(&caller, one).children.len(), 2);
}

#[test]
fn children_need_room_beside_the_runs_of_a_quota_and_not_among_them() {
    // A quota that is full of runs must leave room for their children, or none of them would ever end.
    let (mut family, caller) = Family::running();
    let full = 2 * CHILDREN_PER_RUN;
    family.quota = Some(Quota { max: 2, unfinished: 2, children: full - 1 });
    let one = Call::default().child("a", 20);
    assert_eq!(family.checkpoint(&caller, one.clone()).children.len(), 1);
    let (mut family, caller) = Family::running();
    family.quota = Some(Quota { max: 2, unfinished: 2, children: full - 1 });
    let two = one.child("b", 21);
    assert_eq!(refused(family.ask_in_vain(ROOT, two.request(&caller))), "quota_reached");
}

#[test]
fn a_child_has_its_parents_scope_and_no_later_deadline() {
    let deadline = Some(Time::from_millis(2_000_000));
    let (mut family, caller) = Family::running_with(Policy { deadline, ..Policy::default() });
    family.call(&caller, Call::default().child("one", 20).detached("free", 21));
    family.settle();
    assert_eq!(family.task(ONE).policy.deadline, deadline);
    assert_eq!(family.task(TWO).policy.deadline, None);
    assert_eq!(family.task(ONE).scope, family.task(ROOT).scope);
}

#[test]
fn a_history_alone_rebuilds_the_run_and_is_decided_again() {
    let (mut family, caller) = with_children();
    let items = [("1", on_child("one")), ("go", crate::family::on_signal("go"))];
    family.signal("go", Some("k"));
    family.call(&caller, Call::default().step("a#1", "1").wait("w#1", WaitMode::All, &items));
    family.finish(ONE);
    family.settle();
    let next = family.grant(ROOT);
    family.call(&next, Call::default().step("b#1", "2").report(succeeded()));
    family.sweep(ROOT);
    family.settle();
    assert_eq!(family.state(ROOT), Some(State::Succeeded));
    // S2-46: what the entries say is enough to load for each of them what was loaded then, so that the same rules
    // decide the same, and the fold ends in the same state.
    for member in family.members.values() {
        let (mut subject, mut records) = (Subject::Absent, verdict::run::Records::default());
        for (request, at, events) in &member.entries {
            let loaded = records.load(&subject, request);
            let context = verdict::Context { run: Some(&loaded), ..verdict::Context::default() };
            let read_set = verdict::ReadSet { subject: &subject, context };
            let verdict = verdict::decide(read_set, request, *at);
            assert_eq!(verdict.events, *events, "{request:?}");
            records.note(events);
            subject = subject.settle(events, at.now);
        }
        assert_eq!(Some(&subject), member.subject.as_ref());
        assert_eq!(records, member.records);
    }
}

#[test]
fn a_childs_record_says_where_it_comes_from_and_its_parent_absorbs_it() {
    let (mut family, _) = with_children();
    let mut plain = Subject::Absent;
    let at = verdict::Moment { now: family.now, epoch: 1, rules: verdict::Rules::NEWEST };
    let submit = verdict::request::Submit { id: ONE, ..submission(Policy::default()) };
    verdict::apply(&mut plain, verdict::Context::default(), &Request::Submit(submit), at);
    assert_ne!(plain.live().unwrap().chain, family.task(ONE).chain);
    let before = family.task(ROOT).chain;
    family.finish(ONE);
    family.settle();
    assert_ne!(family.task(ROOT).chain, before);
}
