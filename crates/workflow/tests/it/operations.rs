//! What each operation of a durable function does.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::join;
use serde_json::{Value, json};
use workflow::testing::{Crash, Ended, FlowTest};
use workflow::{DeliveryOutcome, Effect, Failure, Flow, Json, OnError, Retry, function};

use super::crashes::world;
use super::program::{ops, program};

const MINUTE: Duration = Duration::from_secs(60);

fn run(program: Value) -> Ended {
    world(ops(program)).run().unwrap()
}

#[test]
fn a_step_hands_out_one_idempotency_key_and_the_fence_of_the_lease() {
    let seen = Mutex::new(Vec::new());
    let code = function(async |ctx: Flow, _: Value| {
        let step = ctx.step("charge", async |step| {
            let key = step.idempotency_key().to_owned();
            seen.lock().unwrap().push((key, step.fence(), step.number()));
            if step.number() < 3 { Err(std::fmt::Error.into()) } else { Ok(7) }
        });
        step.retry(Retry::tries(3)).await
    });
    let ended = FlowTest::of(code, &Value::Null).crash(Crash::Before(1)).run().unwrap();
    assert_eq!(ended.output::<u32>(), 7);
    let key = "task_00000000000000000000000000/charge#1".to_owned();
    // The worker died after the first try; the pauses between tries suspended the run.
    let expected = [(1, 1), (2, 1), (3, 2), (4, 3)];
    let expected = expected.map(|(fence, number)| (key.clone(), fence, number));
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn code_sees_the_recorded_value_at_once_and_may_borrow() {
    // E3: what the code sees is what is recorded, also when it was not read from a record.
    let code = function(async |ctx: Flow, name: String| {
        // Recorded as null, which reads as nothing at all, in the first attempt as in every other.
        let first: Option<Option<u32>> = ctx.step("measure", async |_| Ok(Some(None))).await?;
        // JSON has no NaN, and null would be another value.
        let refused = ctx.step("divide", async |_| Ok(f32::NAN)).await.unwrap_err();
        let order = vec![name];
        let count = ctx.step("count", async |_| Ok(order.len())).await?;
        Ok((first.is_none(), refused.reason, count, order))
    });
    let ended = FlowTest::of(code, "Ada").run().unwrap();
    assert_eq!(ended.output::<Value>(), json!([true, "RESULT_UNWRITABLE", 1, ["Ada"]]));
}

#[test]
fn an_effect_goes_out_with_the_step_that_asked_for_it() {
    // S2-71: what a failed try asked for does not happen, and the call that records the step asks once.
    let code = function(async |ctx: Flow, _: Value| {
        let charge = ctx.step("charge", async |step| {
            step.effect(Effect::to("mailer", "tried", &step.number())?);
            if step.number() < 2 { Err(std::fmt::Error.into()) } else { Ok(7) }
        });
        charge.retry(Retry::tries(2)).await?;
        let effect = Effect::to("crm", "order.paid", &json!({"order": 7}))?;
        ctx.effect("tell", effect.key("first").aggregate("order-7")).await
    });
    let ended = FlowTest::of(code, &Value::Null).with_transcript().run().unwrap();
    let asked = |word: &str| ended.transcript.iter().filter(|line| line.contains(word)).count();
    assert_eq!((asked(r#""body":1"#), asked(r#""body":2"#)), (0, 1), "{:?}", ended.transcript);
    let tell = &ended.report.steps[0];
    assert_eq!(tell.key, "tell#1");
    let effect = serde_json::to_value(&tell.effects[0]).unwrap();
    let expected = json!({"key": "first", "endpoint": "crm", "type": "order.paid",
        "aggregate": "order-7", "body": {"order": 7}});
    assert_eq!(effect, expected);
}

#[test]
fn a_function_waits_for_what_becomes_of_its_effect_and_every_replay_reads_the_same() {
    let code = || {
        function(async |ctx: Flow, _: Value| {
            let paid = Effect::to("crm", "order.paid", &7)?;
            let told = ctx.effect("tell", paid).delivered().await?;
            let lost = Effect::to("crm", "order.lost", &7)?;
            let late = ctx.effect("lose", lost.clone()).delivered().within(MINUTE).await?;
            let failed = ctx.effect("lose", lost.key("again")).delivered().await?;
            Ok((told.is_delivered(), late.is_none(), failed.outcome, failed.reason))
        })
    };
    let run = || {
        let failing = DeliveryOutcome::Failed;
        FlowTest::of(code(), &Value::Null).delivery("order.lost", 5 * MINUTE, failing)
    };
    let ended = run().with_transcript().run().unwrap();
    assert_eq!(ended.output::<Value>(), json!([true, true, "FAILED", "tries_exhausted"]));
    let keys = [
        "tell#1",
        "delivery:tell#1",
        "lose#1",
        "delivery:lose#1.timeout",
        "lose#2",
        "delivery:lose#2",
    ];
    assert_eq!(ended.keys(), keys);
    // The step, its effect and the wait are one call.
    let call: Value = serde_json::from_str(&ended.transcript[1]).unwrap();
    let wait = &call["checkpoint"]["wait"]["for"][0];
    let expected =
        json!({"key": "delivery:tell#1", "effect": {"step": "tell#1", "key": "order.paid"}});
    assert_eq!((wait, &call["checkpoint"]["steps"][0]["key"]), (&expected, &json!("tell#1")));
    let replayed = run().recorded(ended.history.clone()).run().unwrap();
    assert_eq!(replayed.output::<Value>(), ended.output::<Value>());
}

#[test]
fn the_last_step_rides_with_the_report() {
    let ended = run(json!([{"step": {"name": "only", "returns": 1, "tokens": 9}}]));
    assert_eq!(ended.commands, 2, "{:?}", ended.transcript);
    let report = &ended.report;
    assert_eq!(report.steps[0].key, "only#1");
    assert_eq!(report.steps[0].spend.unwrap().tokens, 9);
}

#[test]
fn a_step_goes_out_with_the_child_and_the_wait_that_follow_it() {
    let ended = run(json!([
        {"step": {"name": "a", "returns": 1}},
        {"child": {"name": "c", "input": 4}}
    ]));
    let call: Value = serde_json::from_str(&ended.transcript[1]).unwrap();
    let call = &call["checkpoint"];
    assert_eq!(call["steps"][0]["key"], "a#1");
    assert_eq!(call["children"][0]["key"], "child:c#1");
    assert_eq!(call["wait"]["for"], json!([{"key": "child:c#1", "child": "child:c#1"}]));
    assert_eq!(ended.output::<Value>(), json!([1, 16]));
}

#[test]
fn steps_of_branches_that_are_ready_together_go_out_in_one_call() {
    // S2-28: branches are the declared exception to one after the other; each branch keeps the order.
    let ended = run(json!([{"branches": {
        "a": [{"step": {"name": "x"}}, {"step": {"name": "y"}}],
        "b": [{"step": {"name": "x"}}, {"step": {"name": "y"}}],
        "c": [{"step": {"name": "x"}}, {"step": {"name": "y"}}]
    }}]));
    let calls: Vec<&String> =
        ended.transcript.iter().filter(|line| line.starts_with(r#"{"checkpoint""#)).collect();
    assert_eq!(calls.len(), 2, "{:?}", ended.transcript);
    assert_eq!(ended.keys(), ["a/x#1", "b/x#1", "c/x#1", "a/y#1", "b/y#1", "c/y#1"]);
}

#[test]
fn a_step_starts_only_after_the_one_before_it_is_recorded() {
    // S2-28, S2-82, S2-83: Execute, Checkpoint, Execute: never two executions without a record between them.
    let ended =
        run(json!([{"step": {"name": "a"}}, {"step": {"name": "a"}}, {"step": {"name": "b"}}]));
    let words: Vec<&str> =
        ended.transcript.iter().map(|line| line.split('"').nth(1).unwrap()).collect();
    assert_eq!(words, ["execute", "checkpoint", "execute", "checkpoint", "execute", "complete"]);
    assert_eq!(ended.keys(), ["a#1", "a#2", "b#1"]);
    let branched =
        run(json!([{"step": {"name": "a"}}, {"branches": {"x": [{"step": {"name": "b"}}]}}]));
    let first_call =
        branched.transcript.iter().position(|line| line.contains(r#""key":"a#1","outcome""#));
    let second =
        branched.transcript.iter().position(|line| line.contains(r#"{"execute":{"key":"x/b#1""#));
    assert!(first_call.unwrap() < second.unwrap(), "{:?}", branched.transcript);
}

#[test]
fn a_failed_step_follows_its_policy() {
    // S2-91: abort ends the run, continue gives the failure to the code, retry tries again.
    let rest = json!({"step": {"name": "rest", "returns": "came"}});
    let aborts = run(json!([{"step": {"name": "s", "fails": ["no"], "aborts": true}}, rest]));
    assert_eq!(aborts.error().unwrap().message, "no");
    assert_eq!(aborts.keys(), ["s#1"]);
    let continues = run(json!([{"step": {"name": "s", "fails": ["no"]}}, rest]));
    assert_eq!(continues.output::<Value>(), json!([{"failed": "no"}, "came"]));
    let retries =
        run(json!([{"step": {"name": "s", "fails": ["no"], "tries": 3, "returns": 1}}, rest]));
    assert_eq!(retries.output::<Value>(), json!([1, "came"]));
    assert_eq!(retries.keys(), ["s#1.1", "s#1.1.wait", "s#1", "rest#1"]);
    let fails = json!(["one", "two", "three"]);
    let exhausted = run(json!([{"step": {"name": "s", "fails": fails, "tries": 2}}, rest]));
    assert_eq!(exhausted.output::<Value>(), json!([{"failed": "two"}, "came"]));
    assert_eq!(exhausted.executed["s#1"], 2);
}

#[test]
fn a_permanent_failure_is_not_tried_again() {
    let tries = AtomicU32::new(0);
    let code = function(async |ctx: Flow, _: Value| {
        let step = ctx.step("s", async |_| {
            tries.fetch_add(1, Ordering::SeqCst);
            Err::<u32, _>(Failure::permanent("never"))
        });
        step.retry(Retry::tries(5)).await
    });
    let ended = FlowTest::of(code, &Value::Null).run().unwrap();
    assert_eq!(ended.error().unwrap().message, "never");
    assert_eq!(tries.load(Ordering::SeqCst), 1);
}

#[test]
fn pauses_between_tries_grow_are_seeded_and_count_from_the_recorded_failure() {
    // W-6, S2-85: the same seed gives the same pauses, another seed other ones.
    let program_of = || {
        program(ops(json!([
            {"step": {"name": "s", "fails": ["1", "2", "3", "4"], "tries": 9, "returns": 1}}
        ])))
    };
    let times = |seed| {
        let ended = FlowTest::of(program_of(), &Value::Null).seed(seed).run().unwrap();
        let times: Vec<i64> = ended.history.iter().map(|it| it.recorded_at.as_ms()).collect();
        times.chunks(2).filter_map(|pair| Some(pair.get(1)? - pair[0])).collect::<Vec<i64>>()
    };
    let pauses = times(1);
    assert_eq!(pauses, times(1));
    assert_ne!(pauses, times(2));
    for (pause, base) in pauses.iter().zip([100, 200, 400, 800]) {
        assert!((base..=base + 50).contains(pause), "{pauses:?}");
    }
}

#[test]
fn a_try_that_takes_longer_than_its_timeout_has_failed() {
    let ended = run(json!([{"step": {"name": "s", "holds": true, "timeoutMs": 50, "tries": 2}}]));
    assert_eq!(
        ended.output::<Value>(),
        json!([{"failed": "the step took longer than its timeout"}])
    );
    assert_eq!(ended.executed["s#1"], 2);
    assert_eq!(ended.history[0].error.as_ref().unwrap().reason.as_deref(), Some("STEP_TIMEOUT"));
}

#[test]
fn a_result_that_is_too_large_says_so_and_is_not_tried_again() {
    let large = "x".repeat(300_000);
    let ended = run(json!([{"step": {"name": "s", "returns": large, "tries": 5}}]));
    let failure = ended.history[0].error.as_ref().unwrap();
    assert_eq!(failure.reason.as_deref(), Some("RESULT_TOO_LARGE"));
    assert!(failure.message.contains("300002 bytes, the limit is 262144"), "{failure}");
    assert_eq!(ended.executed["s#1"], 1);
}

#[test]
fn signals_are_taken_once_and_in_order() {
    // F85: early, late, and one that never comes in time.
    let ended = run(json!([
        {"signal": {"name": "go"}},
        {"signal": {"name": "go", "withinMs": 1000}},
        {"signal": {"name": "go", "withinMs": 600_000}},
        {"signal": {"name": "go"}}
    ]));
    assert_eq!(ended.output::<Value>(), json!([1, null, 2, 3]));
    let keys = ["signal:go#1", "signal:go#2.timeout", "signal:go#3", "signal:go#4"];
    assert_eq!(ended.keys(), keys);
}

#[test]
fn a_signal_that_came_first_wins_over_its_timer_in_every_replay() {
    let recorded = |first: &str, second: &str| {
        let checkpoint = |key: &str, at: &str| json!({"key": key, "outcome": "SUCCEEDED", "result": 5, "recordedAt": at});
        let at = "2026-01-01T00:00:01.000Z";
        let history = json!([checkpoint(first, at), checkpoint(second, at)]);
        let program = ops(json!([{"signal": {"name": "go", "withinMs": 1}}]));
        let mut run = world(program).recorded(serde_json::from_value(history).unwrap());
        run.run().unwrap().output::<Value>()
    };
    assert_eq!(recorded("signal:go#1", "signal:go#1.timeout"), json!([5]));
    assert_eq!(recorded("signal:go#1.timeout", "signal:go#1"), json!([null]));
}

#[test]
fn children_end_as_values_in_order_and_no_more_than_max_run_at_once() {
    let program = |max: usize| json!([{"children": {"name": "c", "inputs": [1, 2, "x", 4, 5, 6, 7], "max": max}}]);
    for max in [1, 2, 7] {
        let ended = run(program(max));
        let squares = json!([[1, 4, {"failed": "not a number"}, 16, 25, 36, 49]]);
        assert_eq!(ended.output::<Value>(), squares);
        let mut live = 0_i32;
        let mut most = 0;
        for checkpoint in &ended.history {
            let is_start = checkpoint.outcome == workflow::Outcome::Started;
            live += if is_start { 1 } else { -1 };
            most = most.max(live);
        }
        assert_eq!(usize::try_from(most).unwrap(), max);
    }
}

#[test]
fn time_is_that_of_the_last_checkpoint() {
    let code = function(async |ctx: Flow, _: Value| {
        let first = ctx.now().await;
        ctx.sleep(Duration::from_secs(60)).await;
        let later = ctx.now().await;
        let (left, right) = join!(
            ctx.branch("left", async |ctx| {
                ctx.sleep(Duration::from_secs(5)).await;
                ctx.now().await
            }),
            ctx.branch("right", async |ctx| {
                ctx.sleep(Duration::from_secs(3)).await;
                ctx.now().await
            }),
        );
        let joined = ctx.now().await;
        Ok([first, later, left, right, joined].map(|time| time.to_string()))
    });
    let ended = FlowTest::of(code, &Value::Null).run().unwrap();
    let seconds = ["00:00.000", "01:00.000", "01:05.000", "01:03.000", "01:05.000"];
    let expected = seconds.map(|time| format!("2026-01-01T00:{time}Z"));
    assert_eq!(ended.output::<[String; 5]>(), expected);
}

#[test]
fn a_branch_begins_no_earlier_than_the_branches_before_it_ended() {
    let code = function(async |ctx: Flow, _: Value| {
        let first = ctx.branch("first", async |ctx| ctx.sleep(Duration::from_secs(60)).await);
        first.await;
        Ok(ctx.branch("second", async |ctx| ctx.now().await).await.to_string())
    });
    let ended = FlowTest::of(code, &Value::Null).run().unwrap();
    assert_eq!(ended.output::<String>(), "2026-01-01T00:01:00.000Z");
}

#[test]
fn a_timer_of_an_earlier_try_does_not_end_a_later_one() {
    use std::task::{Context, Poll, Waker};
    use workflow::testing::MemoryCoordinator;
    use workflow::{Command, Run};

    let function = program(ops(json!([{"step": {"name": "s", "holds": true, "timeoutMs": 5}}])));
    let mut run = Run::new(MemoryCoordinator::new(Json::null()).start(1), function);
    let mut cx = Context::from_waker(Waker::noop());
    let is_started = |turn| matches!(turn, Poll::Ready(Ok(Command::Execute { number: 1, .. })));
    assert!(is_started(run.poll(&mut cx)));
    run.time_out("s#1", 0);
    assert!(run.poll(&mut cx).is_pending());
    run.time_out("s#1", 1);
    assert!(matches!(run.poll(&mut cx), Poll::Ready(Ok(Command::Complete(_)))));
}

#[test]
fn a_wait_that_is_longer_than_the_coordinators_default_says_so() {
    let max = |ms: u64| {
        let ended = run(json!([{"sleep": ms}]));
        let call: Value = serde_json::from_str(&ended.transcript[0]).unwrap();
        call["checkpoint"]["wait"]["maxMs"].clone()
    };
    let day = 24 * 60 * 60 * 1000;
    assert_eq!(max(day), Value::Null);
    assert_eq!(max(90 * day), json!(91 * day));
}

#[test]
fn one_more_draw_shifts_no_other() {
    let draws = |program: Value| run(program).output::<Vec<Value>>();
    let two = draws(json!([{"random": "a"}, {"random": "b"}]));
    let three = draws(json!([{"random": "a"}, {"random": "new"}, {"random": "b"}]));
    assert_eq!((&two[0], &two[1]), (&three[0], &three[2]));
    let again = draws(json!([{"random": "a"}, {"random": "a"}]));
    assert_eq!(again[0], two[0]);
    assert_ne!(again[0], again[1]);
}

#[test]
fn a_detached_child_is_recorded_before_the_next_step_and_not_awaited() {
    let ended = run(json!([
        {"child": {"name": "d", "input": 1, "detached": true}},
        {"step": {"name": "s"}},
        {"child": {"name": "d", "input": 1, "detached": true}}
    ]));
    assert_eq!(ended.keys(), ["child:d#1", "s#1", "child:d#2"]);
    assert_eq!(ended.report.children[0].key, "child:d#2");
}

#[test]
fn a_failure_of_the_function_is_its_report() {
    let code = function(async |ctx: Flow, text: String| {
        let number: u32 = text.parse()?;
        ctx.step("s", async |_| Ok(number)).on_error(OnError::Abort).await
    });
    let ended = FlowTest::of(code.clone(), "x").run().unwrap();
    assert_eq!(ended.error().unwrap().message, "invalid digit found in string");
    let unreadable = FlowTest::of(code, &Json::null()).run().unwrap();
    assert_eq!(unreadable.error().unwrap().reason.as_deref(), Some("INPUT_UNREADABLE"));
}

#[test]
fn a_call_is_no_larger_than_the_coordinator_takes() {
    let lengths = |ended: &Ended, what: &str| {
        let calls =
            ended.transcript.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lengths = calls.filter_map(|call| Some(call["checkpoint"][what].as_array()?.len()));
        lengths.collect::<Vec<_>>()
    };
    let step = json!([{"step": {"name": "s"}}]);
    let branches: Value = (0..250).map(|n| (format!("b{n}"), step.clone())).collect();
    let steps = run(json!([{"branches": branches}]));
    assert_eq!(lengths(&steps, "steps"), [100, 100, 50]);
    let inputs: Vec<u32> = (0..1200).collect();
    let children = run(json!([{"children": {"name": "c", "inputs": inputs}}]));
    assert_eq!(lengths(&children, "children"), [500, 500, 200]);
    assert_eq!(children.attempts, 2, "one wait for all of them");
}

#[test]
fn the_record_of_a_wait_is_no_operation() {
    let at = "2026-01-01T00:00:01.000Z";
    let checkpoint = |key: &str| json!({"key": key, "outcome": "SUCCEEDED", "recordedAt": at});
    let history = json!([checkpoint("wait:sleep#1"), checkpoint("sleep#1")]);
    let program = ops(json!([{"sleep": 5}, "now"]));
    let mut run = world(program).recorded(serde_json::from_value(history).unwrap());
    assert_eq!(run.run().unwrap().output::<Value>(), json!([null, at]));
}

#[test]
fn a_result_that_the_coordinator_would_refuse_is_a_failure_of_its_step() {
    let nested = |levels: u32| (0..levels).fold(json!("[{\"[["), |inner, _| json!([inner]));
    let deep = function(async |ctx: Flow, levels: u32| {
        let result = ctx.step("deep", async |_| Ok(nested(levels))).await;
        Ok(result.map(|_| ()).map_err(|failure| failure.reason))
    });
    let run = |levels: u32| {
        FlowTest::of(deep.clone(), &levels).run().unwrap().output::<Result<(), Option<String>>>()
    };
    assert_eq!(run(32), Ok(()));
    assert_eq!(run(33), Err(Some("RESULT_UNWRITABLE".to_owned())));
}

#[test]
fn branches_of_one_name_continue_their_counts() {
    let ended = run(json!([
        {"branches": {"b": [{"step": {"name": "s"}}]}},
        {"branches": {"b": [{"step": {"name": "s"}}]}}
    ]));
    assert_eq!(ended.keys(), ["b/s#1", "b/s#2"]);
}

#[test]
fn a_run_is_sent_between_threads() {
    let shared = Arc::new(AtomicU32::new(0));
    let code = {
        let shared = shared.clone();
        function(move |ctx: Flow, _: Value| {
            let shared = shared.clone();
            async move { ctx.step("s", async |_| Ok(shared.fetch_add(1, Ordering::SeqCst))).await }
        })
    };
    let thread = std::thread::spawn(move || FlowTest::of(code, &Value::Null).run().unwrap());
    assert_eq!(thread.join().unwrap().output::<u32>(), 0);
    assert_eq!(shared.load(Ordering::SeqCst), 1);
}
