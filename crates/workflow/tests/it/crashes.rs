//! Crashes at every command: the same result, the same record, each step recorded once.

use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};
use workflow::testing::{Crash, Ended, FlowTest};
use workflow::{ApprovalDecision, Failure, Json};

use super::program::{Op, SleepOp, StepOp, ops, program};

/// Children square their input; a child without a number fails. Signals `go` come early and late.
pub(crate) fn world(ops: Vec<Op>) -> FlowTest<'static> {
    let square = |input: Value| match input.as_i64() {
        Some(number) => Ok(json!(number * number)),
        None => Err(Failure::permanent("not a number")),
    };
    FlowTest::of(program(ops), &Value::Null)
        .child_after(Duration::from_secs(7), "square", square)
        .signal("go", &1)
        .signal_after(Duration::from_secs(60), "go", &2)
        .signal_after(Duration::from_secs(3600), "go", &3)
        .approve("pay", "ann")
        .decide_after(
            Duration::from_secs(90),
            "pay",
            "bob",
            ApprovalDecision::Approved,
            Some("fine"),
        )
        .with_transcript()
}

fn plain(ops: &[Op]) -> Ended {
    world(ops.to_vec()).run().unwrap()
}

/// One crash at every place, and crashes at every third.
fn crashes(commands: usize) -> Vec<Vec<Crash>> {
    let single = (0..commands).flat_map(|n| [vec![Crash::Before(n)], vec![Crash::After(n)]]);
    let many = (0..3).map(|offset| {
        let places = (offset..commands * 3).step_by(3);
        places.flat_map(|n| [Crash::Before(n), Crash::After(n + 1)]).collect()
    });
    single.chain(many).collect()
}

fn crashed(ops: &[Op], crashes: &[Crash]) -> Ended {
    let run = crashes.iter().fold(world(ops.to_vec()), |run, crash| run.crash(*crash));
    let mut run = run;
    run.run().unwrap()
}

fn check(ops: &[Op], is_sequential: bool) {
    let expected = plain(ops);
    for crashes in crashes(expected.commands) {
        let ended = crashed(ops, &crashes);
        assert_eq!(ended.report.output, expected.report.output, "{crashes:?} in {ops:?}");
        assert_eq!(ended.report.error, expected.report.error, "{crashes:?} in {ops:?}");
        assert_eq!(ended.facts(), expected.facts(), "{crashes:?} in {ops:?}");
        if is_sequential {
            assert_eq!(ended.history_text(), expected.history_text(), "{crashes:?} in {ops:?}");
        }
        for (key, count) in &expected.executed {
            assert!(ended.executed[key] >= *count, "{key} after {crashes:?} in {ops:?}");
        }
    }
    replays(ops, expected);
}

/// What is recorded is enough: a replay of the whole record executes nothing and reports the same.
fn replays(ops: &[Op], expected: Ended) {
    let output = expected.report.output.clone();
    let replayed = world(ops.to_vec()).recorded(expected.history).run().unwrap();
    assert_eq!(replayed.report.output, output);
    assert!(replayed.executed.is_empty(), "{:?}", replayed.executed);
    assert_eq!(replayed.commands, 1, "{:?}", replayed.transcript);
}

#[test]
fn an_order_survives_a_crash_at_every_command() {
    // F79, F80, E2, E3, S2-86: a crash before and after every command changes neither result nor record.
    let order = ops(json!([
        {"step": {"name": "reserve", "input": {"sku": 7}, "returns": "r-1"}},
        {"step": {"name": "charge", "fails": ["busy", "busy"], "tries": 5, "returns": 500}},
        {"sleep": 60_000},
        {"signal": {"name": "go"}},
        {"signal": {"name": "go", "withinMs": 1000}},
        {"approval": {"name": "pay", "about": {"cents": 500}, "quorum": 2, "withinMs": 90_000}},
        {"random": "coupon"},
        "now",
        {"sleep": {"name": "cool-off", "ms": 300}},
        {"child": {"name": "label", "input": 12}},
        {"child": {"name": "late", "input": 12, "withinMs": 50}},
        {"all": [{"child": {"name": "label", "input": 3}}, {"child": {"name": "seal", "input": "x"}}]},
        {"any": {"go": {"signal": {"name": "stay"}}, "late": {"sleep": 60_000}, "done": {"child": {"name": "label", "input": 4}}}},
        {"any": {"go": {"signal": {"name": "stay"}}, "late": {"sleep": 5}}},
        {"children": {"name": "parcel", "inputs": [1, 2, "x", 4, 5], "max": 2}},
        {"child": {"name": "audit", "input": 1, "detached": true}},
        {"step": {"name": "mail", "returns": null}}
    ]));
    check(&order, true);
}

#[test]
fn parallel_branches_survive_a_crash_at_every_command() {
    // F79, E3: also when the crash falls between the branches.
    let order = ops(json!([
        {"step": {"name": "begin", "returns": 1}},
        {"branches": {
            "left": [{"step": {"name": "a"}}, {"sleep": 500}, {"step": {"name": "b"}}],
            "right": [{"child": {"name": "c", "input": 3}}, {"branches": {
                "up": [{"step": {"name": "a", "returns": 5}}, {"signal": {"name": "go"}}],
                "down": [{"random": "x"}, {"sleep": 10}]
            }}]
        }},
        {"savepointAfter": {"first": [{"step": {"name": "again"}}], "state": {"page": 9}}},
        {"branches": {"left": [{"step": {"name": "a", "returns": 6}}]}}
    ]));
    // The first part runs again after the savepoint, so it cannot be compared with one record.
    let expected = plain(&order);
    assert_eq!(expected.output::<Value>()[2], json!({"page": 9}));
    for crashes in crashes(expected.commands) {
        let ended = crashed(&order, &crashes);
        assert_eq!(ended.report.output, expected.report.output, "{crashes:?}");
        assert_eq!(ended.facts(), expected.facts(), "{crashes:?}");
    }
}

fn step() -> impl Strategy<Value = Op> {
    let fails = prop_oneof![3 => Just(Vec::new()), 1 => Just(vec!["busy".to_owned()])];
    ("[ab]", any::<u8>(), fails, prop::option::of(1..4_u32), any::<bool>()).prop_map(
        |(name, returns, fails, tries, has_input)| {
            let input = has_input.then(|| json!({"n": returns}));
            let returns = json!(returns);
            Op::Step(StepOp { name, input, returns, fails, tries, ..StepOp::default() })
        },
    )
}

fn child(name: &str, n: u8, detached: bool, within_ms: Option<u64>) -> Op {
    Op::Child { name: name.into(), input: json!(n), detached, within_ms }
}

/// The first of a sleep, a call and a signal: whichever comes first by the coordinator's clock.
fn any_of() -> impl Strategy<Value = Op> {
    let sleep = (0..9_000_u64).prop_map(|ms| Op::Sleep(SleepOp::Unnamed(ms)));
    let call = (0..9_u8).prop_map(|n| child("a", n, false, None));
    let signal = prop::option::of(0..9_000_u64)
        .prop_map(|within_ms| Op::Signal { name: "stay".into(), within_ms });
    (sleep, prop::option::of(call), prop::option::of(signal)).prop_map(|(sleep, call, signal)| {
        let members = [("late", Some(sleep)), ("done", call), ("go", signal)];
        let members = members.into_iter().filter_map(|(name, op)| Some((name.to_owned(), op?)));
        Op::Any(members.collect())
    })
}

/// Several operations at once, calls alone or all kinds.
fn all_of() -> impl Strategy<Value = Op> {
    let calls = vec((0..9_u8).prop_map(|n| child("b", n, false, None)), 0..4);
    let branch = vec(leaf(), 0..3).prop_map(|ops| Op::Branch { name: "side".into(), ops });
    let mixed =
        (vec(step(), 0..3), branch, (0..9_000_u64)).prop_map(|(mut members, branch, ms)| {
            members.push(branch);
            members.push(Op::Sleep(SleepOp::Unnamed(ms)));
            members.push(child("b", 2, false, Some(ms)));
            members
        });
    prop_oneof![calls.boxed(), mixed.boxed()].prop_map(Op::All)
}

fn leaf() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => step(),
        1 => (0..100_000_u64).prop_map(|ms| Op::Sleep(SleepOp::Unnamed(ms))),
        1 => (0..100_000_u64).prop_map(|ms| Op::Sleep(SleepOp::Named { name: "nap".into(), ms })),
        2 => any_of(),
        1 => (0..100_000_u64).prop_map(|ms| Op::Signal { name: "stay".into(), within_ms: Some(ms) }),
        1 => (0..100_000_u64).prop_map(|ms| {
            let (name, about) = ("stay".into(), json!({ "ms": ms }));
            Op::Approval { name, about, quorum: None, within_ms: Some(ms) }
        }),
        1 => (0..9_u8, prop::option::of(0..9_000_u64)).prop_map(|(n, within_ms)| child("c", n, false, within_ms)),
        1 => (0..9_u8).prop_map(|n| child("d", n, true, None)),
        1 => (vec(0..9_u8, 0..4), prop::option::of(1..3_usize)).prop_map(|(inputs, max)| {
            let inputs = inputs.into_iter().map(Value::from).collect();
            Op::Children { name: "m".into(), inputs, max }
        }),
        1 => "[xy]".prop_map(Op::Random),
    ]
}

fn sequence() -> impl Strategy<Value = Vec<Op>> {
    vec(prop_oneof![8 => leaf().boxed(), 1 => Just(Op::Now).boxed()], 0..7)
}

fn tree() -> impl Strategy<Value = Vec<Op>> {
    let leaves = vec(leaf(), 0..4).boxed();
    let inner = btree_map("[lr]", leaves, 1..3).prop_map(Op::Branches);
    let outer =
        btree_map("[pqs]", vec(prop_oneof![4 => leaf().boxed(), 1 => inner.boxed()], 0..4), 1..4);
    let outer = outer.prop_map(Op::Branches);
    vec(prop_oneof![3 => leaf().boxed(), 1 => outer.boxed(), 1 => all_of().boxed()], 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_survives_a_crash_anywhere(ops in sequence()) {
        // F79, E1, E2, E3: byte-equal records, whatever the function is.
        check(&ops, true);
    }

    #[test]
    fn any_tree_of_branches_survives_a_crash_anywhere(ops in tree()) {
        // F79, E3: the same facts, whatever the order in which branches end.
        check(&ops, false);
    }
}

#[test]
fn a_call_that_is_not_answered_holds_everything_back() {
    // F81, S2-92: after a failed save no later step runs, and the run can only be given up.
    use std::task::{Context, Waker};
    use workflow::testing::MemoryCoordinator;
    use workflow::{Command, Run};

    let function = program(ops(json!([
        {"branches": {"a": [{"step": {"name": "one"}}, {"step": {"name": "two"}}],
                      "b": [{"step": {"name": "one"}}, {"step": {"name": "two"}}]}}
    ])));
    let mut run = Run::new(MemoryCoordinator::new(Json::null()).start(1), function);
    let mut cx = Context::from_waker(Waker::noop());
    let mut started = Vec::new();
    while let std::task::Poll::Ready(command) = run.poll(&mut cx) {
        match command.unwrap() {
            Command::Execute { key, .. } => started.push(key),
            Command::Checkpoint(call) => assert_eq!(call.steps.len(), 2, "{call:?}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(started, ["a/one#1", "b/one#1"]);
}
