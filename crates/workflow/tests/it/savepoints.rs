//! Savepoints: the function starts over with what it recorded, and nothing before is replayed.

use serde_json::Value;
use workflow::testing::{Crash, FlowTest, MemoryCoordinator};
use workflow::{Flow, Function, Json, function};

/// Adds up the numbers below `last`, `chunk` at a time.
fn adding(last: u64, chunk: u64) -> Function<'static> {
    function(move |ctx: Flow, _: Value| async move {
        let (mut next, mut total): (u64, u64) = ctx.resumed()?.unwrap_or_default();
        for _ in 0..chunk {
            if next == last {
                return Ok((total, ctx.random_u64("check")));
            }
            total += ctx.step("add", async |_| Ok(next)).await?;
            next += 1;
        }
        ctx.savepoint(&(next, total)).await
    })
}

#[test]
fn a_function_starts_over_with_what_it_recorded() {
    let ended = FlowTest::of(adding(7, 3), &Value::Null).run().unwrap();
    assert_eq!(ended.output::<(u64, u64)>().0, 21);
    let keys = "add#1 add#2 add#3 savepoint#4 add#5 add#6 add#7 savepoint#8 add#9";
    assert_eq!(ended.keys().join(" "), keys);
    assert_eq!(ended.attempts, 1, "the worker keeps its lease");
}

#[test]
fn a_crash_after_a_savepoint_does_not_reach_before_it() {
    // S2-86, E5: compaction changes neither the result nor the keys that follow.
    let expected = FlowTest::of(adding(7, 3), &Value::Null).run().unwrap();
    for n in 0..expected.commands {
        for crash in [Crash::Before(n), Crash::After(n)] {
            let ended = FlowTest::of(adding(7, 3), &Value::Null).crash(crash).run().unwrap();
            assert_eq!(ended.report.output, expected.report.output, "{crash:?}");
            assert_eq!(ended.history_text(), expected.history_text(), "{crash:?}");
        }
    }
}

#[test]
fn an_envelope_with_everything_resumes_like_one_that_begins_at_the_savepoint() {
    let history = FlowTest::of(adding(7, 3), &Value::Null).run().unwrap().history;
    let mut coordinator = MemoryCoordinator::new(Json::null());
    coordinator.load(history.clone());
    let envelope = coordinator.start(1).checkpoints;
    assert_eq!(envelope.len(), 2, "the savepoint and the step after it");
    for checkpoints in [history, envelope] {
        let mut run = FlowTest::of(adding(7, 3), &Value::Null).recorded(checkpoints);
        let ended = run.run().unwrap();
        assert!(ended.executed.is_empty());
        assert_eq!(ended.output::<(u64, u64)>().0, 21);
    }
}

#[test]
fn a_state_that_cannot_be_read_stops_the_run_instead_of_failing_it() {
    // E4: another build may be able to read it.
    let history = FlowTest::of(adding(7, 3), &Value::Null).run().unwrap().history;
    let retyped = function(async |ctx: Flow, _: Value| {
        let state: Option<String> = ctx.resumed()?;
        ctx.step("s", async |_| Ok(state.is_some())).await
    });
    let mut run = FlowTest::of(retyped, &Value::Null).recorded(history);
    let told = run.run().unwrap_err().to_string();
    assert!(told.contains("the recorded result of `savepoint#8` cannot be read"), "{told}");
    assert!(told.contains("savepoints.rs:"), "{told}");
    assert!(run.executed().is_empty());
}

#[test]
fn numbers_drawn_after_a_savepoint_are_not_those_before_it() {
    let code = |chunk| FlowTest::of(adding(6, chunk), &Value::Null).run().unwrap();
    assert_ne!(code(3).output::<(u64, u64)>().1, code(2).output::<(u64, u64)>().1);
}
