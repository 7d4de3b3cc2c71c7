//! `call`, `map`, `all` and `any` as code writes them: types, names, options, and what a failure does.

use std::time::Duration;

use serde_json::Value;
use workflow::testing::{Crash, Ended, FlowTest, TestError};
use workflow::{Failure, Flow, Kind, Outcome, Stop};

const SQUARE: Kind<i64, i64> = Kind::new("math/square").queue("numbers");
const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
const SECOND: Duration = Duration::from_secs(1);

fn square(number: i64) -> Result<i64, Failure> {
    if number < 0 {
        Err(Failure::data(format!("{number} is negative")))
    } else {
        Ok(number * number)
    }
}

fn keys(ended: &Ended) -> Vec<&str> {
    let starts = ended.history.iter().filter(|it| it.outcome != Outcome::Started);
    starts.map(|it| it.key.as_str()).collect()
}

#[test]
fn a_call_is_named_after_its_kind_and_has_the_options_of_a_run() {
    async fn code(flow: Flow, _: Value) -> Result<(i64, String, Value), Failure> {
        let squared = flow.call(SQUARE, &3).priority(5).label("a", "b").lease(SECOND).await?;
        // A kind of String takes a &str; a name takes anything and gives JSON.
        let greeted = flow.call(GREET, "Ada").named("hello").await?;
        Ok((squared, greeted, flow.call("greet", &7).queue("mail").await?))
    }
    let mut run = FlowTest::new(code, &Value::Null)
        .child(SQUARE, square)
        .child("greet", |name| Ok(Value::from(format!("Hello, {name}!"))))
        .with_transcript();
    let ended = run.run().unwrap();
    let (squared, greeted, named) = ended.output::<(i64, String, Value)>();
    assert_eq!((squared, greeted.as_str()), (9, "Hello, \"Ada\"!"));
    assert_eq!(named, "Hello, 7!");
    assert_eq!(keys(&ended), ["child:math-square#1", "child:hello#1", "child:greet#1"]);
    let first: Value = serde_json::from_str(&ended.transcript[0]).unwrap();
    let run = &first["checkpoint"]["children"][0]["run"];
    assert_eq!(
        (&run["queue"], &run["priority"], &run["leaseMs"]),
        (&"numbers".into(), &5.into(), &1000.into())
    );
    assert_eq!(run["labels"]["a"], "b");
}

#[test]
fn options_are_no_part_of_a_child_and_its_queue_is() {
    async fn with(flow: Flow, options: (i32, String)) -> Result<i64, Failure> {
        flow.call(SQUARE, &3).priority(options.0).queue(options.1).await
    }
    let recorded =
        FlowTest::new(with, &(1, "numbers")).child(SQUARE, square).run().unwrap().history;
    let again = |priority, queue: &str| {
        FlowTest::new(with, &(priority, queue)).recorded(recorded.clone()).run()
    };
    assert_eq!(again(9, "numbers").unwrap().output::<i64>(), 9);
    let other = again(1, "others").unwrap_err();
    assert!(matches!(other, TestError::Stopped(Stop::Diverged(_))), "{other}");
}

#[test]
fn a_call_with_a_limit_gives_nothing_when_it_is_over() {
    async fn code(flow: Flow, _: Value) -> Result<(Option<i64>, Option<i64>), Failure> {
        let early = flow.call(SQUARE, &3).within(SECOND).await?;
        Ok((early, flow.call(SQUARE, &4).within(60 * SECOND).await?))
    }
    let ended = FlowTest::new(code, &Value::Null).child_after(5 * SECOND, SQUARE, square).run();
    assert_eq!(ended.unwrap().output::<(Option<i64>, Option<i64>)>(), (None, Some(16)));
}

#[test]
fn map_keeps_the_order_and_all_of_it_gives_the_first_failure() {
    async fn each(flow: Flow, items: Vec<i64>) -> Result<Vec<Result<i64, String>>, Failure> {
        let ends = flow.map(SQUARE, &items).max(2).each(|run| run.priority(3)).await;
        Ok(ends.into_iter().map(|end| end.map_err(|failure| failure.message)).collect())
    }
    async fn all(flow: Flow, items: Vec<i64>) -> Result<Vec<i64>, Failure> {
        flow.map(SQUARE, items).named("part").all().await
    }
    let items = [1, -2, 3, -4];
    let ended = FlowTest::new(each, &items).child(SQUARE, square).run().unwrap();
    let [one, two] = ["-2 is negative", "-4 is negative"].map(|it| Err(it.to_owned()));
    assert_eq!(ended.output::<Vec<Result<i64, String>>>(), [Ok(1), one, Ok(9), two]);
    let ended = FlowTest::new(all, &items).child(SQUARE, square).run().unwrap();
    assert_eq!(ended.error().unwrap().message, "-2 is negative");
    assert_eq!(keys(&ended).len(), 4, "it waits for all");
    let ended = FlowTest::new(all, &[2, 3]).child(SQUARE, square).run().unwrap();
    assert_eq!(
        (ended.output::<Vec<i64>>(), keys(&ended)),
        (vec![4, 9], vec!["child:part#1", "child:part#2"])
    );
}

#[test]
fn all_takes_operations_of_every_kind_and_gives_their_types() {
    type Given = (u32, String, (), i64, bool, Vec<Result<i64, Failure>>);
    async fn code(flow: Flow, n: u32) -> Result<(u32, String, i64, bool, usize), Failure> {
        let members = (
            flow.step("double", async |_| Ok(n * 2)),
            flow.branch("side", async |flow: Flow| {
                flow.step("a", async |_| Ok(())).await?;
                flow.step("b", async |_| Ok("b".to_owned())).await
            }),
            flow.sleep(SECOND).named("nap"),
            flow.call(SQUARE, &3),
            flow.approval("pay").map(|approval| approval.is_approved()),
            flow.map(SQUARE, [1, 2]),
        );
        let (double, side, (), squared, is_paid, many): Given = flow.all(members).await?;
        Ok((double, side, squared, is_paid, many.len()))
    }
    for crash in 0..9 {
        let run = FlowTest::new(code, &4).child(SQUARE, square).approve("pay", "ann");
        let ended = run.crash(Crash::Before(crash)).run().unwrap();
        assert_eq!(
            ended.output::<(u32, String, i64, bool, usize)>(),
            (8, "b".to_owned(), 9, true, 2)
        );
        let mut keys = keys(&ended);
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "1/double#1",
                "3/sleep:nap#1",
                "4/child:math-square#1",
                "5/approval:pay#1",
                "6/child:math-square#1",
                "6/child:math-square#2",
                "side/a#1",
                "side/b#1"
            ]
        );
    }
}

#[test]
fn all_inside_of_all_has_branches_inside_of_its_own() {
    async fn code(flow: Flow, _: Value) -> Result<((i64, i64), Vec<u32>), Failure> {
        let calls = flow.all((flow.call(SQUARE, &1), flow.call(SQUARE, &2)));
        let steps =
            (1..3).map(|n| flow.step("s", move |_| async move { Ok(n) })).collect::<Vec<_>>();
        let steps = flow.all(steps);
        flow.all((calls, steps)).await
    }
    let ended = FlowTest::new(code, &Value::Null).child(SQUARE, square).run().unwrap();
    assert_eq!(ended.output::<((i64, i64), Vec<u32>)>(), ((1, 4), vec![1, 2]));
    let mut keys = keys(&ended);
    keys.sort_unstable();
    assert_eq!(keys, ["1/child:math-square#1", "1/child:math-square#2", "2/1/s#1", "2/2/s#1"]);
}

#[test]
fn the_first_of_several_is_the_first_by_the_coordinators_clock() {
    async fn code(flow: Flow, _: Value) -> Result<Vec<String>, Failure> {
        let mut won = Vec::new();
        for _ in 0..3 {
            let go = flow.signal::<String>("go").map(|by| format!("go {by}"));
            let done = flow.call(SQUARE, &5).map(|squared| format!("done {squared}"));
            let late = flow.sleep(60 * SECOND).map(|()| "late".to_owned());
            let (name, text) = flow.any([("go", go), ("done", done), ("late", late)]).await?;
            won.push(format!("{name}: {text}"));
        }
        Ok(won)
    }
    let run = |slow: u32| {
        let run = FlowTest::new(code, &Value::Null).signal_after(90 * SECOND, "go", &"Ada");
        run.child_after(slow * SECOND, SQUARE, square)
    };
    let ended = run(3600).run().unwrap();
    assert_eq!(ended.output::<Vec<String>>(), ["late: late", "go: go Ada", "late: late"]);
    assert_eq!(
        keys(&ended),
        ["late/sleep#1", "go/signal:go#2", "late/sleep#3"],
        "losers leave none"
    );
    let ended = run(1).run().unwrap();
    assert_eq!(ended.output::<Vec<String>>(), ["done: done 25"; 3]);
}

#[test]
fn a_winner_that_has_another_name_now_is_a_divergence() {
    // S2-85: the record says that something was the first which the code does not know.
    async fn code(flow: Flow, name: String) -> Result<String, Failure> {
        let go = flow.signal::<Value>("go").map(drop);
        let (won, ()) =
            flow.any([(name, go), ("late".into(), flow.sleep(SECOND).map(drop))]).await?;
        Ok(won)
    }
    let recorded = FlowTest::new(code, "go").signal("go", &1).run().unwrap().history;
    let again = |name: &str| FlowTest::new(code, name).recorded(recorded.clone()).run();
    assert_eq!(again("go").unwrap().output::<String>(), "go");
    let told = again("start").unwrap_err().to_string();
    assert!(told.contains("recorded `go/signal:go#1`, which the code never reaches"), "{told}");
}

#[test]
fn the_failure_of_a_call_that_comes_first_is_the_result_of_any() {
    async fn code(flow: Flow, _: Value) -> Result<(), Failure> {
        flow.any([("call", flow.call(SQUARE, &-1))]).await.map(drop)
    }
    let ended = FlowTest::new(code, &Value::Null).child(SQUARE, square).run().unwrap();
    assert_eq!(ended.error().unwrap().message, "-1 is negative");
}

#[test]
fn a_delivery_can_be_limited_and_be_a_member_of_any() {
    use workflow::{DeliveryOutcome, Effect};
    async fn code(flow: Flow, _: Value) -> Result<(bool, String), Failure> {
        let tell = |key: &str| Effect::to("crm", "order.paid", &1).map(|effect| effect.key(key));
        let delivery = flow.effect("tell", tell("a")?).delivered().within(SECOND).await?;
        let told = flow.effect("tell", tell("b")?).delivered().map(|it| it.is_delivered());
        let late = flow.sleep(60 * SECOND).map(|()| false);
        let (name, is_told) = flow.any([("told", told), ("late", late)]).await?;
        Ok((delivery.is_none() && is_told, name.to_owned()))
    }
    let mut run = FlowTest::new(code, &Value::Null)
        .delivery("order.paid", 5 * SECOND, DeliveryOutcome::Delivered)
        .with_transcript();
    let ended = run.run().unwrap();
    assert_eq!(ended.output::<(bool, String)>(), (true, "told".to_owned()));
    assert!(
        ended.keys().contains(&"told/tell#1") && ended.keys().contains(&"told/delivery:tell#1")
    );
}
