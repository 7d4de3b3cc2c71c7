//! Slots that are held for life: from the first lease to the end, shared with all descendants.

use verdict::flow::hold::SHARED_MAX;
use verdict::flow::{Hold, Standing};
use verdict::request::{CancelMode, Outcome, Submit};
use verdict::run::WaitMode;
use verdict::{
    Context, FlowKey, FlowUses, KeyUse, Moment, Name, Policy, ReadSet, Request, Rules, Subject,
    TaskId, Verdict, decide, fork,
};

use crate::family::{Call, Family, on_child, refused};
use crate::world::{START, World, report, submission, succeeded};

fn life(name: &str, limit: u32) -> Option<Box<FlowKey>> {
    Some(Box::new(FlowKey { hold: Hold::Life, ..FlowKey::new(name, limit) }))
}

fn id(number: u128) -> TaskId {
    TaskId::from_u128(number)
}

fn full() -> FlowUses {
    let mut flows = FlowUses::default();
    flows.put("track".into(), Some(KeyUse::new(1, 1)));
    flows
}

#[test]
fn a_task_keeps_its_slot_without_a_lease_and_needs_no_other() {
    let mut world = World::empty();
    world.ask(Request::Submit(Submit { flow: life("track", 1), ..submission(Policy::default()) }));
    let task = || world.subject.live().expect("it lives");
    assert!(!task().holds_slot(), "nothing is held before the first lease");
    let at = Moment { now: START, epoch: 1, rules: Rules::NEWEST };
    let flows = full();
    let context = Context { flows: Some(&flows), ..Context::default() };
    let grant = world.grant_request("ann");
    assert_eq!(
        decide(ReadSet { subject: &world.subject, context }, &grant, at),
        Verdict::nothing(),
        "another one has the slot"
    );
    let caller = world.grant("ann");
    world.ask(report(&caller, Outcome::Released));
    let task = world.subject.live().expect("it was handed back");
    assert!(task.lease().is_none() && task.holds_slot() && task.holds_for_life());
    world.now = task.claimable_at().expect("it will be leased again");
    let grant = world.grant_request("ben");
    let at = Moment { now: world.now, ..at };
    let granted = decide(ReadSet { subject: &world.subject, context }, &grant, at);
    assert_eq!(granted.answer, verdict::Answer::Granted, "the slot is its own");
    let caller = world.grant("ben");
    world.ask(report(&caller, succeeded()));
    assert!(matches!(world.subject, Subject::Done(_)));
}

#[test]
fn uses_count_a_kept_slot_once() {
    let mut flows = FlowUses::default();
    flows.put("track".into(), None);
    let mut world = World::empty();
    let mut follow = |world: &mut World, request: Request| {
        let was = Standing::of(world.subject.live());
        world.ask(request);
        flows.follow(was, &world.subject);
        flows.get(&"track".into()).map(|it| it.held)
    };
    let submit = Submit { flow: life("track", 2), ..submission(Policy::default()) };
    assert_eq!(follow(&mut world, Request::Submit(submit)), Some(0));
    let grant = world.grant_request("ann");
    assert_eq!(follow(&mut world, grant), Some(1));
    let release = report(&world.caller(), Outcome::Released);
    assert_eq!(follow(&mut world, release), Some(1), "it keeps it");
    world.now = world.subject.live().and_then(|task| task.claimable_at()).expect("it comes back");
    let grant = world.grant_request("ann");
    assert_eq!(follow(&mut world, grant), Some(1), "and takes no second one");
    let end = report(&world.caller(), succeeded());
    assert_eq!(follow(&mut world, end), Some(0));
}

/// A parent that holds the key for life and has asked for a child with this key.
fn parent_and_child(child: Option<Box<FlowKey>>, is_detached: bool) -> Family {
    let (mut family, caller) = Family::running();
    let parent = family.owner_of(&caller);
    family.edit(parent, |task| {
        task.run.get_or_insert_default().flow = life("track", 1);
    });
    let mut call = Call::default().child_of("kid", 20, "kid", is_detached);
    call.children[0].submit.flow = child;
    let call = match is_detached {
        true => call,
        false => call.wait("w", WaitMode::All, &[("kid", on_child("kid"))]),
    };
    family.checkpoint(&caller, call);
    family.settle();
    assert!(is_detached || family.task(parent).holds_slot(), "it waits with its slot");
    family
}

#[test]
fn descendants_share_what_an_ancestor_holds() {
    for named in [life("track", 1), None, Some(Box::new(FlowKey::new("track", 1)))] {
        let mut family = parent_and_child(named, false);
        let child = family.task(id(20));
        assert_eq!(child.flow(), None, "it needs no slot");
        let under = child.run.as_ref().and_then(|run| run.flow.as_ref()).expect("it says why");
        assert!(under.is_shared());
        // And so do its own.
        let caller = family.grant(id(20));
        let mut call = Call::default().child("deep", 30);
        call.children[0].submit.flow = life("track", 1);
        family.checkpoint(&caller, call);
        family.settle();
        assert_eq!(family.task(id(30)).flow(), None);
        assert!(!family.task(id(20)).holds_slot() && !family.task(id(30)).holds_slot());
    }
}

#[test]
fn a_child_with_another_key_needs_that_one_and_passes_on_the_first() {
    let mut family = parent_and_child(life("other", 3), false);
    assert_eq!(family.task(id(20)).flow().map(|flow| flow.name.as_str()), Some("other"));
    let caller = family.grant(id(20));
    let mut call = Call::default().child("a", 30).child("b", 31).child("c", 32);
    call.children[0].submit.flow = life("track", 1);
    call.children[1].submit.flow = life("other", 3);
    call.children[2].submit.flow = life("third", 1);
    family.checkpoint(&caller, call);
    family.settle();
    assert_eq!(family.task(id(30)).flow(), None, "its grandparent holds it");
    assert_eq!(family.task(id(31)).flow(), None, "its parent holds it");
    assert_eq!(family.task(id(32)).flow().map(|flow| flow.name.as_str()), Some("third"));
}

#[test]
fn a_child_that_names_the_key_with_another_limit_is_refused() {
    let (mut family, caller) = Family::running();
    let parent = family.owner_of(&caller);
    family.edit(parent, |task| {
        task.run.get_or_insert_default().flow = life("track", 1);
    });
    let mut call = Call::default().child("one", 20).child("two", 21);
    call.children[0].submit.flow = life("track", 1);
    call.children[1].submit.flow = life("track", 2);
    assert_eq!(refused(family.call(&caller, call)), "flow_limit_conflict");
}

#[test]
fn so_many_keys_are_held_for_life_above_a_task() {
    let (mut family, caller) = Family::running();
    let parent = family.owner_of(&caller);
    let above: Vec<Name> = (0..SHARED_MAX).map(|n| Name::from(format!("key-{n}"))).collect();
    family.edit(parent, |task| {
        let flow = FlowKey { above: above.clone(), ..FlowKey::new("key-0", 1) };
        task.run.get_or_insert_default().flow = Some(Box::new(flow));
    });
    let asked = |flow: Option<Box<FlowKey>>| {
        let mut call = Call::default().child("kid", 20);
        call.children[0].submit.flow = flow;
        call
    };
    assert_eq!(refused(family.call(&caller, asked(life("more", 1)))), "call_too_long");
    // One that shares a key, or holds one by lease, is no more than before.
    let mut call = asked(life("key-3", 1)).child("other", 21);
    call.children[1].submit.flow = Some(Box::new(FlowKey::new("more", 1)));
    family.checkpoint(&caller, call);
    family.settle();
    assert_eq!(family.task(id(20)).flow(), None);
    assert_eq!(family.task(id(21)).flow().map(|flow| flow.name.as_str()), Some("more"));
}

#[test]
fn what_repeats_a_task_shares_nothing_and_holds_for_life_what_was_its_own() {
    let own = *life("track", 1).expect("a key");
    assert_eq!(own.clone().again(), own);
    let shared = FlowKey { above: vec!["track".into()], ..own.clone() };
    assert_eq!(shared.again(), FlowKey::new("track", 1));
    let beside = FlowKey { above: vec!["other".into()], ..own.clone() };
    assert_eq!(beside.again(), own);
    assert_eq!(fork::flow(own.clone(), false), own);
    assert_eq!(fork::flow(own, true), FlowKey::new("track", 1));
}

#[test]
fn a_detached_child_shares_nothing() {
    let family = parent_and_child(life("track", 1), true);
    assert_eq!(family.task(id(20)).flow().map(|flow| flow.limit), Some(1));
    let family = parent_and_child(None, true);
    assert_eq!(family.task(id(20)).flow(), None);
    assert!(family.task(id(20)).run.as_ref().is_none_or(|run| run.flow.is_none()));
}

#[test]
fn a_holder_outlives_its_children_and_then_holds_nothing() {
    let mut family = parent_and_child(life("track", 1), false);
    family.grant(id(20));
    let parent = family.task(id(20)).run.as_ref().and_then(|run| run.lineage.as_ref());
    let (parent, _) = parent.and_then(|it| it.parent()).expect("it has a parent");
    family.cancel(parent, CancelMode::Graceful);
    family.settle();
    assert!(family.task(parent).holds_slot(), "its child still runs");
    family.cancel(parent, CancelMode::Immediate);
    family.sweep(parent);
    family.settle();
    assert!(matches!(family.subject(parent), Subject::Done(_)));
    assert!(matches!(family.subject(id(20)), Subject::Done(_)));
}
