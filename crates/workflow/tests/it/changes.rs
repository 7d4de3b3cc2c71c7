//! Changes of a function under a recorded run: unlawful ones are found at the first differing operation before anything
//! is executed, lawful ones are not noticed.

use serde_json::{Value, json};
use workflow::testing::{Ended, FlowTest, TestError};
use workflow::{Checkpoint, Difference, Divergence, Flow, Outcome, Stop, function};

use super::crashes::world;
use super::program::ops;

type Change = fn(&mut Vec<Value>);

fn base() -> Vec<Value> {
    let program = json!([
        {"step": {"name": "reserve", "input": {"sku": 7, "size": "L"}, "returns": 1}},
        {"step": {"name": "charge", "input": 500}},
        {"sleep": 1000},
        {"signal": {"name": "go"}},
        {"branches": {
            "left": [{"step": {"name": "pick"}}, {"step": {"name": "pack"}}, {"child": {"name": "label", "input": 3}}],
            "right": [{"step": {"name": "bill"}}, {"sleep": 10}]
        }},
        {"children": {"name": "parcel", "inputs": [1, 2, 3]}},
        {"step": {"name": "mail"}}
    ]);
    program.as_array().unwrap().clone()
}

fn recorded(program: Vec<Value>) -> Vec<Checkpoint> {
    world(ops(program.into())).run().unwrap().history
}

fn changed(change: Change) -> Vec<Value> {
    let mut program = base();
    change(&mut program);
    program
}

/// Replays the changed function over a record of the base function, and returns the run beside the result.
fn replay(
    program: Vec<Value>,
    history: Vec<Checkpoint>,
) -> (FlowTest<'static>, Result<Ended, TestError>) {
    let mut run = world(ops(program.into())).recorded(history);
    let result = run.run();
    (run, result)
}

fn left(program: &mut [Value]) -> &mut Vec<Value> {
    program[4]["branches"]["left"].as_array_mut().unwrap()
}

fn right(program: &mut [Value]) -> &mut Vec<Value> {
    program[4]["branches"]["right"].as_array_mut().unwrap()
}

fn step(name: &str) -> Value {
    json!({"step": {"name": name}})
}

use Difference::{Input, Operation, Unreached};

/// What is changed, the change, and what is found: difference, branch, index, recorded and actual key.
type Row = (&'static str, Change, Difference, &'static str, u64, &'static str, &'static str);

#[rustfmt::skip]
const UNLAWFUL: &[Row] = &[
    ("renamed first", |p| p[0]["step"]["name"] = "hold".into(), Operation, "", 0, "reserve#1", "hold#1"),
    ("renamed second", |p| p[1]["step"]["name"] = "bill".into(), Operation, "", 1, "charge#1", "bill#1"),
    ("renamed like the first", |p| p[1]["step"]["name"] = "reserve".into(), Operation, "", 1, "charge#1", "reserve#2"),
    ("renamed last", |p| p[6]["step"]["name"] = "post".into(), Operation, "", 7, "mail#1", "post#1"),
    ("renamed signal", |p| p[3]["signal"]["name"] = "stop".into(), Operation, "", 3, "signal:go#1", "signal:stop#1"),
    ("signal became a step", |p| p[3] = step("go"), Operation, "", 3, "signal:go#1", "go#1"),
    ("sleep became a child", |p| p[2] = json!({"child": {"name": "x", "input": 1}}), Operation, "", 2, "sleep#1", "child:x#1"),
    ("swapped steps", |p| p.swap(0, 1), Operation, "", 0, "reserve#1", "charge#1"),
    ("swapped waits", |p| p.swap(2, 3), Operation, "", 2, "sleep#1", "signal:go#1"),
    ("swapped in a branch", |p| right(p).swap(0, 1), Operation, "right", 0, "right/bill#1", "right/sleep#1"),
    ("added first", |p| p.insert(0, step("new")), Operation, "", 0, "reserve#1", "new#1"),
    ("added in between", |p| p.insert(2, step("new")), Operation, "", 2, "sleep#1", "new#1"),
    ("added in a branch", |p| left(p).insert(1, step("new")), Operation, "left", 1, "left/pack#1", "left/new#1"),
    ("removed first", |p| drop(p.remove(0)), Operation, "", 0, "reserve#1", "charge#1"),
    ("removed sleep", |p| drop(p.remove(2)), Operation, "", 2, "sleep#1", "signal:go#1"),
    ("removed last", |p| drop(p.pop()), Unreached, "", 7, "mail#1", ""),
    ("removed in a branch", |p| drop(left(p).pop()), Unreached, "left", 2, "left/child:label#1", ""),
    ("returned early", |p| p.truncate(2), Unreached, "", 2, "sleep#1", ""),
    ("another input", |p| p[0]["step"]["input"]["sku"] = 8.into(), Input, "", 0, "reserve#1", "reserve#1"),
    ("no input", |p| drop(p[1]["step"].as_object_mut().unwrap().remove("input")), Input, "", 1, "charge#1", "charge#1"),
    ("an input more", |p| p[6]["step"]["input"] = 1.into(), Input, "", 7, "mail#1", "mail#1"),
    ("another child's input", |p| left(p)[2]["child"]["input"] = 4.into(), Input, "left", 2, "left/child:label#1", "left/child:label#1"),
    ("children in another order", |p| p[5]["children"]["inputs"] = json!([1, 3, 2]), Input, "", 5, "child:parcel#2", "child:parcel#2"),
    ("a child fewer", |p| p[5]["children"]["inputs"] = json!([1, 2]), Operation, "", 6, "child:parcel#3", "mail#1"),
    ("a child more", |p| p[5]["children"]["inputs"] = json!([1, 2, 3, 4]), Operation, "", 7, "mail#1", "child:parcel#4"),
    ("renamed branch", |p| { let ops = p[4]["branches"]["right"].take(); p[4]["branches"] = json!({"left": p[4]["branches"]["left"], "east": ops}); }, Unreached, "right", 0, "right/bill#1", ""),
    ("removed branch", |p| drop(p[4]["branches"].as_object_mut().unwrap().remove("right")), Unreached, "right", 0, "right/bill#1", ""),
    ("moved to another branch", |p| { let pack = left(p).remove(1); right(p).insert(1, pack); }, Operation, "left", 1, "left/pack#1", "left/child:label#1"),
    ("moved out of its branch", |p| { let bill = right(p).remove(0); p.insert(4, bill); }, Operation, "", 4, "child:parcel#1", "bill#1"),
    ("moved into a branch", |p| { let reserve = p.remove(0); p.insert(0, json!({"branches": {"left": [reserve]}})); }, Operation, "left", 0, "left/pick#1", "left/reserve#1"),
];

#[test]
fn an_unlawful_change_is_found_at_the_first_differing_operation() {
    // F82, E4: parked with what was recorded and what came; nothing is executed or recorded.
    assert!(UNLAWFUL.len() >= 20);
    let history = recorded(base());
    for (what, change, difference, branch, index, recorded, actual) in UNLAWFUL {
        let (run, result) = replay(changed(*change), history.clone());
        let Err(TestError::Stopped(Stop::Diverged(found))) = result else {
            panic!("{what}: not found, but {result:?}")
        };
        let Divergence { recorded: was, actual: is, at, .. } = &*found;
        assert_eq!(found.difference, *difference, "{what}: {found}");
        assert_eq!((found.branch.as_str(), found.index), (*branch, *index), "{what}: {found}");
        assert_eq!(was.as_ref().unwrap().key, *recorded, "{what}: {found}");
        assert_eq!(is.as_ref().map_or("", |seen| seen.key.as_str()), *actual, "{what}: {found}");
        assert_eq!(at.is_some(), is.is_some(), "{what}: {found}");
        assert!(run.executed().is_empty(), "{what}: executed {:?}", run.executed());
        assert_eq!(run.history(), history, "{what}");
    }
}

#[rustfmt::skip]
const LAWFUL: &[(&str, Change)] = &[
    ("more tries", |p| p[1]["step"]["tries"] = 5.into()),
    ("a timeout", |p| p[1]["step"]["timeoutMs"] = 5.into()),
    ("another meaning of a failure that did not happen", |p| p[0]["step"]["aborts"] = true.into()),
    ("other work", |p| p[0]["step"]["returns"] = "other".into()),
    ("spend", |p| p[0]["step"]["tokens"] = 5.into()),
    ("another spelling of the input", |p| p[0]["step"]["input"] = json!({"size": "L", "sku": 7.0})),
    ("a longer sleep", |p| p[2] = json!({"sleep": 1_000_000})),
    ("a limit of a wait", |p| p[3]["signal"]["withinMs"] = 5.into()),
    ("a draw more", |p| p.insert(1, json!({"random": "x"}))),
    ("a look at the time", |p| p.insert(1, json!("now"))),
    ("a branch that does nothing", |p| p[4]["branches"]["idle"] = json!([{"random": "x"}])),
    ("fewer children at once", |p| p[5]["children"]["max"] = 1.into()),
    ("children one after the other", |p| {
        let child = |input: u8| json!({"child": {"name": "parcel", "input": input}});
        drop(p.splice(5..6, [child(1), child(2), child(3)]));
    }),
    ("a new path under a mark", |p| {
        let old = p.remove(1);
        p.insert(1, json!({"patched": {"id": "v2", "then": [{"step": {"name": "pay"}}], "otherwise": [old]}}));
    }),
    ("a mark in a branch", |p| {
        let mark = json!({"patched": {"id": "v2", "then": [{"step": {"name": "new"}}], "otherwise": []}});
        left(p).insert(1, mark);
    }),
];

#[test]
fn a_lawful_change_is_not_noticed() {
    assert!(LAWFUL.len() >= 10);
    let history = recorded(base());
    for (what, change) in LAWFUL {
        let (run, result) = replay(changed(*change), history.clone());
        let ended = result.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(ended.executed.is_empty(), "{what}: executed {:?}", ended.executed);
        assert_eq!(run.history(), history, "{what}");
        assert_eq!(ended.output::<Vec<Value>>()[0], 1, "{what}: the recorded result counts");
    }
}

#[test]
fn branches_that_move_before_a_recorded_wait_do_not_start() {
    // E4: a branch goes its own way, but nothing new starts before all that is recorded is reached.
    let mut history = recorded(base());
    history.truncate(4);
    let (run, result) = replay(changed(|p| p.swap(3, 4)), history);
    let Err(TestError::Stopped(Stop::Diverged(found))) = result else { panic!("not found") };
    assert_eq!((found.difference, found.index), (Unreached, 3));
    assert_eq!(found.recorded.unwrap().key, "signal:go#1");
    assert!(run.executed().is_empty());
}

#[test]
fn children_that_run_may_be_more_than_may_start_now() {
    let mut history = recorded(base());
    let is_started =
        |it: &Checkpoint| it.key.starts_with("child:parcel") && it.outcome == Outcome::Started;
    let last = history.iter().rposition(is_started).unwrap();
    history.truncate(last + 1);
    let program = changed(|p| p[5]["children"]["max"] = 1.into());
    // The children of the record never end here: the run waits for them, and does not diverge.
    let Err(TestError::Stuck(items)) = replay(program, history).1 else { panic!("not waiting") };
    assert_eq!(items, "child:parcel#1, child:parcel#2, child:parcel#3");
}

#[test]
fn what_is_appended_after_the_record_is_executed() {
    let (_, result) = replay(changed(|p| p.push(step("more"))), recorded(base()));
    assert_eq!(result.unwrap().executed.into_keys().collect::<Vec<_>>(), ["more#1"]);
}

const MARKED: Change = |p| {
    let then = json!([{"step": {"name": "check"}}]);
    p.insert(1, json!({"patched": {"id": "v2", "then": then, "otherwise": []}}));
};

#[test]
fn a_mark_chooses_the_new_path_from_where_the_record_ends() {
    let mut history = recorded(base());
    history.truncate(1);
    let (_, result) = replay(changed(MARKED), history);
    let ended = result.unwrap();
    assert_eq!(ended.keys()[..4], ["reserve#1", "patched:v2#1", "check#1", "charge#1"]);
    // What chose the new path once does so in every replay, and both paths are one run's.
    let (_, again) = replay(changed(MARKED), ended.history);
    assert!(again.unwrap().executed.is_empty());
}

#[test]
fn a_mark_may_be_removed_but_not_its_path() {
    let history = recorded(changed(MARKED));
    let (_, kept) = replay(changed(|p| p.insert(1, step("check"))), history.clone());
    assert!(kept.unwrap().executed.is_empty());
    let (run, removed) = replay(base(), history);
    let Err(TestError::Stopped(Stop::Diverged(found))) = removed else { panic!("not found") };
    assert_eq!(found.recorded.unwrap().key, "check#1");
    assert!(run.executed().is_empty());
}

#[test]
fn a_divergence_says_where_what_and_what_to_do() {
    let record = function(async |ctx: Flow, _: Value| ctx.step("charge", async |_| Ok(1)).await);
    let history = FlowTest::of(record, &Value::Null).run().unwrap().history;
    let line = line!() + 1;
    let other = function(async |ctx: Flow, _: Value| ctx.step("refund", async |_| Ok(1)).await);
    let told = FlowTest::of(other, &Value::Null).recorded(history.clone()).run().unwrap_err();
    let expected = format!(
        "the function is not the one that was recorded: in the function's own branch, operation 0: \
         recorded `charge#1`, now `refund#1` (crates/workflow/tests/it/changes.rs:{line}:58). \
         Nothing was executed. Deploy the code that recorded the run, or keep the old path under \
         `patched` beside the new one"
    );
    assert_eq!(told.to_string(), expected);
    let retyped = function(async |ctx: Flow, _: Value| {
        ctx.step("charge", async |_| Ok("one".to_owned())).await
    });
    let told = FlowTest::of(retyped, &Value::Null).recorded(history).run().unwrap_err();
    assert!(told.to_string().contains("`charge#1` cannot be read: invalid type"), "{told}");
}

#[test]
fn a_golden_file_replays_with_its_code_and_stops_other_code() {
    // E6: files of earlier releases, byte for byte as they were exported.
    use std::path::Path;
    use workflow::testing::{FlowTest, ReplayError};
    use workflow::{Failure, Kind};

    const PACK: Kind<String, String> = Kind::new("pack").queue("orders");

    async fn order(flow: Flow, order: serde_json::Value, charge: &str) -> Result<String, Failure> {
        let cents = &order["cents"];
        let charged = flow.step(charge, async |_| Ok(format!("receipt for {cents} cents")));
        charged.input(cents).await?;
        flow.sleep(std::time::Duration::from_secs(2)).await;
        let _: Option<bool> =
            flow.signal("approve").within(std::time::Duration::from_secs(9)).await?;
        let items = order["items"].as_array().into_iter().flatten();
        let items: Vec<String> = items.filter_map(|item| Some(item.as_str()?.to_owned())).collect();
        let packed = flow.map(PACK, items).all().await?;
        flow.step("mail", async |_| Ok(packed.join(", "))).await
    }
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocol/golden/order-approved.jsonl");
    let with = |charge: &'static str| {
        let code = move |flow: Flow, input: serde_json::Value| order(flow, input, charge);
        FlowTest::new(code, &()).replay(&golden)
    };
    with("charge").unwrap();
    let renamed = with("pay").unwrap_err();
    assert!(matches!(&renamed, ReplayError::Stopped { .. }), "{renamed}");
    assert!(renamed.to_string().contains("recorded `charge#1`, now `pay#1`"), "{renamed}");
}
