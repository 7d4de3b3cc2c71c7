//! Flow keys in decisions: who may join a key, and who is granted a slot.

use verdict::flow::Standing;
use verdict::request::Submit;
use verdict::{
    Answer, Context, FlowKey, FlowUses, KeyUse, Moment, Policy, ReadSet, Refusal, Request, Rules,
    Subject, TaskId, Verdict, decide,
};

use crate::family::{Call, Family, refused};
use crate::world::{START, World, report, submission, succeeded};

fn flow(name: &str, limit: u32) -> Option<Box<FlowKey>> {
    Some(Box::new(FlowKey::new(name, limit)))
}

fn limited(name: &str, limit: u32) -> Submit {
    Submit { flow: flow(name, limit), ..submission(Policy::default()) }
}

/// Of a task that holds a slot with its lease.
const LEASED: Standing = Standing { is_leased: true, holds: true };

fn uses(name: &str, in_use: Option<KeyUse>) -> FlowUses {
    let mut flows = FlowUses::default();
    flows.put(name.into(), in_use);
    flows
}

fn submitted(flows: &FlowUses, submit: Submit) -> Verdict {
    let context = Context { flows: Some(flows), ..Context::default() };
    let at = Moment { now: START, epoch: 1, rules: Rules::NEWEST };
    decide(ReadSet { subject: &Subject::Absent, context }, &Request::Submit(submit), at)
}

#[test]
fn a_task_joins_a_key_with_its_limit_and_no_other() {
    let flows = uses("acme", Some(KeyUse::new(4, 1)));
    let same = submitted(&flows, limited("acme", 4));
    assert!(matches!(same.answer, Answer::Accepted { .. }), "{same:?}");
    let other = submitted(&flows, limited("acme", 5));
    let refusal =
        Refusal::FlowLimitConflict { key: "acme".into(), in_force: 4.into(), asked: 5.into() };
    assert_eq!(other, Verdict::refuse(refusal));
    // Once all its tasks have ended, a key takes any limit.
    let unused = submitted(&uses("acme", None), limited("acme", 5));
    assert!(matches!(unused.answer, Answer::Accepted { .. }), "{unused:?}");
}

#[test]
fn a_full_key_grants_nothing_and_a_free_slot_does() {
    // A task over the limit of its key stays queued until a slot is free.
    let mut world = World::empty();
    world.ask(Request::Submit(limited("acme", 1)));
    let grant = world.grant_request("ann");
    let at = Moment { now: START, epoch: 1, rules: Rules::NEWEST };
    let decided = |held| {
        let flows = uses("acme", Some(KeyUse::new(1, held)));
        let context = Context { flows: Some(&flows), ..Context::default() };
        decide(ReadSet { subject: &world.subject, context }, &grant, at)
    };
    assert_eq!(decided(1), Verdict::nothing());
    assert_eq!(decided(0).answer, Answer::Granted);
}

#[test]
fn uses_follow_what_a_batch_decides() {
    let mut flows = uses("acme", None);
    let mut world = World::empty();
    world.ask(Request::Submit(limited("acme", 2)));
    flows.follow(Standing::default(), &world.subject);
    assert_eq!(flows.get(&"acme".into()), Some(KeyUse::new(2, 0)));
    world.grant("ann");
    flows.follow(Standing::default(), &world.subject);
    assert_eq!(flows.get(&"acme".into()), Some(KeyUse::new(2, 1)));
    let caller = world.caller();
    world.ask(report(&caller, succeeded()));
    flows.follow(LEASED, &world.subject);
    assert_eq!(flows.get(&"acme".into()), Some(KeyUse::new(2, 0)));
    // What was not looked up is not known, whatever is decided about its tasks.
    let mut others = uses("other", None);
    others.follow(LEASED, &world.subject);
    assert_eq!(others.get(&"acme".into()), None);
}

#[test]
fn children_of_one_call_share_their_key_with_each_other() {
    let (mut family, caller) = Family::running();
    let mut call = Call::default().child("one", 20).child("two", 21);
    call.children[0].submit.flow = flow("acme", 1);
    call.children[1].submit.flow = flow("acme", 2);
    assert_eq!(refused(family.call(&caller, call)), "flow_limit_conflict");
    let mut call = Call::default().child("one", 20);
    call.children[0].submit.flow = flow("acme", 1);
    family.checkpoint(&caller, call);
    family.settle();
    let child = family.task(TaskId::from_u128(20));
    assert_eq!(child.flow().map(|flow| flow.limit), Some(1));
}
