//! Calls of workers against a small record: a step, a wait, a child, another step.

use serde_json::{Value, json};

use super::*;
use crate::export::golden::Golden;

const AT: &str = "2026-03-01T12:00:00.000Z";

fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn golden(end: Value) -> Golden {
    let input = "ab".repeat(32);
    let checkpoints = [
        json!({"number": 1, "key": "charge#1", "kind": "STEP", "outcome": "SUCCEEDED", "result": {"a": 1, "b": 2},
            "inputDigest": input, "recordedAt": AT}),
        json!({"number": 2, "key": "wait:sleep#1,go#1", "kind": "WAIT", "outcome": "SUCCEEDED",
            "recordedAt": "2026-03-01T12:00:01.000Z",
            "wait": {"winner": "go#1", "signals": [{"key": "go#1", "name": "go", "payload": 5}]}}),
        json!({"number": 3, "key": "child:pack#1", "kind": "CHILD", "outcome": "STARTED", "taskId": "t1",
            "recordedAt": AT}),
        json!({"number": 4, "key": "child:pack#1", "kind": "CHILD", "outcome": "SUCCEEDED", "result": "parcel",
            "taskId": "t1", "recordedAt": AT}),
        json!({"number": 5, "key": "mail#1", "kind": "STEP", "outcome": "SUCCEEDED", "savepoint": true,
            "recordedAt": "2026-03-01T12:00:05.000Z"}),
    ];
    Golden {
        head: parsed(
            json!({"format": 1, "runId": "run", "taskId": "task", "kind": "order", "queue": "q",
            "taskKey": "order", "createdAt": AT, "attempt": 1, "server": "1", "exporter": "1"}),
        ),
        checkpoints: checkpoints.into_iter().map(parsed).collect(),
        end: parsed(end),
    }
}

fn judge(mode: Mode) -> Judge {
    let end = json!({"state": "succeeded", "output": {"x": 1, "y": 2}, "checkpoints": 5});
    Judge::new(Recording::new(golden(end)), mode)
}

fn call(members: Value) -> CheckpointCall {
    let mut call = members;
    call["attempt"] = json!(1);
    call["workerId"] = json!("w");
    parsed(call)
}

fn steps(steps: Value) -> CheckpointCall {
    call(json!({"steps": steps}))
}

fn report(members: Value) -> Completed {
    let mut report = members;
    report["attempt"] = json!(1);
    report["workerId"] = json!("w");
    parsed(report)
}

fn finding(judged: Judged) -> Finding {
    match judged {
        Judged::Differs(finding) => finding,
        Judged::Same => panic!("no difference was found"),
    }
}

#[test]
fn a_result_is_compared_by_its_value_and_not_by_its_spelling() {
    // S2-85.
    let mut judge = judge(Mode::Execute);
    let same =
        steps(json!([{"key": "charge#1", "outcome": "SUCCEEDED", "result": {"b": 2.0, "a": 1}}]));
    assert!(judge.call(&same).is_ok());
    let other =
        steps(json!([{"key": "charge#1", "outcome": "SUCCEEDED", "result": {"a": 1, "b": 3}}]));
    let found = finding(judge.call(&other).unwrap_err());
    assert!(matches!(&found, Finding::Step { key, .. } if key == "charge#1"), "{found:?}");
    let failed = steps(json!([{"key": "charge#1", "outcome": "FAILED",
        "error": {"category": "USER_CODE", "message": "no"}}]));
    assert!(judge.call(&failed).is_err());
    let input = "cd".repeat(32);
    let input =
        steps(json!([{"key": "charge#1", "outcome": "SUCCEEDED", "result": {"a": 1, "b": 2},
        "inputDigest": input}]));
    assert!(judge.call(&input).is_err());
}

#[test]
fn a_step_that_is_not_in_the_file_ends_the_replay() {
    // S2-90: nothing is added to what happened.
    for mode in [Mode::Replay, Mode::Execute] {
        let new = steps(json!([{"key": "bill#1", "outcome": "SUCCEEDED"}]));
        let found = finding(judge(mode).call(&new).unwrap_err());
        assert_eq!(found, Finding::Unrecorded { what: "a step", key: "bill#1".to_owned() });
        let riding = report(json!({"outcome": "SUCCEEDED", "output": {"x": 1, "y": 2},
            "steps": [{"key": "bill#1", "outcome": "SUCCEEDED"}]}));
        assert!(matches!(judge(mode).completed(&riding), Judged::Differs(_)));
    }
}

#[test]
fn people_are_asked_about_what_they_decided_about() {
    let end = json!({"state": "succeeded", "output": 1, "checkpoints": 6});
    let mut golden = golden(end);
    let about = "ab".repeat(32);
    let told = json!({"outcome": "APPROVED", "digest": about, "votes": []});
    golden.checkpoints.push(parsed(json!({"number": 6, "key": "wait:approval:pay#1",
        "kind": "WAIT", "outcome": "SUCCEEDED", "recordedAt": AT, "wait": {"winner": "approval:pay#1",
        "signals": [{"key": "approval:pay#1", "name": "#approval:approval:pay#1", "payload": told}]}})));
    let mut judge = Judge::new(Recording::new(golden), Mode::Execute);
    let asked = |terms: Value| {
        call(json!({"wait": {"key": "wait:approval:pay#1", "mode": "any",
            "for": [{"key": "approval:pay#1", "approval": terms}]}}))
    };
    // Whom it asks, and for how long, is not what was decided about.
    let same = judge.call(&asked(json!({"digest": about, "quorum": 2}))).unwrap();
    assert_eq!(same.results.len(), 1);
    for other in [json!({}), json!({"digest": "cd".repeat(32)})] {
        let found = finding(judge.call(&asked(other)).unwrap_err());
        assert!(
            matches!(&found, Finding::Step { key, .. } if key == "approval:pay#1"),
            "{found:?}"
        );
    }
}

#[test]
fn the_end_must_be_the_recorded_one() {
    let same = report(json!({"outcome": "SUCCEEDED", "output": {"y": 2, "x": 1}}));
    assert_eq!(judge(Mode::Replay).completed(&same), Judged::Same);
    for other in [
        json!({"outcome": "SUCCEEDED", "output": {"y": 2, "x": 2}}),
        json!({"outcome": "SUCCEEDED"}),
        json!({"outcome": "FAILED", "error": {"category": "USER_CODE", "message": "no"}}),
        json!({"outcome": "RELEASED"}),
    ] {
        let found = finding(judge(Mode::Replay).completed(&report(other)));
        assert!(matches!(found, Finding::End { .. }), "{found:?}");
    }
}

#[test]
fn an_executing_worker_must_take_every_recorded_step() {
    let mut judge = judge(Mode::Execute);
    let first =
        steps(json!([{"key": "charge#1", "outcome": "SUCCEEDED", "result": {"a": 1, "b": 2}}]));
    judge.call(&first).unwrap();
    let end = report(json!({"outcome": "SUCCEEDED", "output": {"x": 1, "y": 2}}));
    let left_out = Finding::LeftOut { key: "mail#1".to_owned() };
    assert_eq!(judge.completed(&end), Judged::Differs(left_out));
    judge.call(&steps(json!([{"key": "mail#1", "outcome": "SUCCEEDED"}]))).unwrap();
    assert_eq!(judge.completed(&end), Judged::Same);
}

#[test]
fn time_is_the_recorded_time() {
    let mut judge = judge(Mode::Execute);
    let mail = steps(json!([{"key": "mail#1", "outcome": "SUCCEEDED"}]));
    assert_eq!(judge.call(&mail).unwrap().recorded_at.to_string(), "2026-03-01T12:00:05.000Z");
}

#[test]
fn waits_and_children_are_answered_from_the_record() {
    let mut judge = judge(Mode::Execute);
    let wait = |key: &str, mode: &str, items: Value| {
        call(json!({"wait": {"key": key, "mode": mode, "for": items}}))
    };
    let known = wait("wait:sleep#1,go#1", "any", json!([{"key": "go#1", "signal": "go"}]));
    let results = judge.call(&known).unwrap().results;
    assert_eq!(results[0].wait.as_ref().unwrap().winner.as_deref(), Some("go#1"));
    // In other company than it was recorded.
    let items = json!([{"key": "late#1", "until": AT}, {"key": "go#1", "signal": "go"}]);
    let found = judge.call(&wait("wait:other", "any", items)).unwrap().results.remove(0);
    assert_eq!((found.key.as_str(), found.number), ("wait:other", 2));
    let outcome = found.wait.unwrap();
    assert_eq!(outcome.winner.as_deref(), Some("go#1"));
    assert_eq!(outcome.signals[0].payload.as_ref().unwrap().text(), "5");

    let child = json!({"key": "child:pack#1", "kind": "pack", "queue": "q"});
    let mut joined =
        wait("wait:child:pack#1", "all", json!([{"key": "child:pack#1", "child": "child:pack#1"}]));
    joined.children = vec![parsed(child)];
    let fits = judge.call(&joined).unwrap();
    assert_eq!(fits.children[0].task_id, "t1");
    let end = fits.results.iter().find(|it| it.key == "child:pack#1").unwrap();
    assert_eq!(end.result.as_ref().unwrap().text(), "\"parcel\"");

    let never = wait("wait:never#1", "any", json!([{"key": "never#1", "signal": "never"}]));
    let found = finding(judge.call(&never).unwrap_err());
    assert!(matches!(found, Finding::Unrecorded { what: "a wait", .. }), "{found:?}");
}

#[test]
fn a_run_without_an_end_of_its_own_is_compared_as_far_as_it_goes() {
    for end in [
        json!({"state": "waiting", "checkpoints": 5}),
        json!({"state": "cancelled", "checkpoints": 5}),
        json!({"state": "failed", "checkpoints": 5, "error": {"reason": "DEADLINE", "message": "late"}}),
    ] {
        let open = || Judge::new(Recording::new(golden(end.clone())), Mode::Replay);
        let new = steps(json!([{"key": "bill#1", "outcome": "SUCCEEDED"}]));
        assert_eq!(open().call(&new).unwrap_err(), Judged::Same);
        let diverged =
            call(json!({"diverged": {"branch": "b", "index": 3, "recorded": "x", "actual": "y"}}));
        assert!(matches!(open().call(&diverged).unwrap_err(), Judged::Differs(_)));
        let handed_back = report(json!({"outcome": "RELEASED"}));
        assert!(matches!(open().completed(&handed_back), Judged::Differs(_)));
    }
}

#[test]
fn a_worker_is_sent_what_follows_the_last_savepoint() {
    let recording = Recording::new(golden(json!({"state": "waiting", "checkpoints": 5})));
    let sent = recording.page(recording.start()).checkpoints;
    assert_eq!(sent.iter().map(|it| it.number).collect::<Vec<_>>(), [5]);
    let all = recording.page(0);
    assert_eq!((all.checkpoints.len(), all.next_after), (5, None));
}

#[test]
fn a_long_record_is_sent_in_pages() {
    let mut golden = golden(json!({"state": "waiting", "checkpoints": 5}));
    let long = Json::from_value(&"x".repeat(40_000)).unwrap();
    golden.checkpoints.iter_mut().for_each(|it| it.result = Some(long.clone()));
    let recording = Recording::new(golden);
    let (mut after, mut numbers) = (Some(0), Vec::new());
    while let Some(number) = after {
        let page = recording.page(number);
        assert_eq!(page.checkpoints.len(), 1);
        numbers.extend(page.checkpoints.iter().map(|it| it.number));
        after = page.next_after;
    }
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
}
