//! Submitting, showing, following and cancelling runs, as scripts and people do it.

use serde_json::Value;

use crate::home::{Home, Process, wait_until};

/// A worker that echoes its input. It may start before or after a submission.
fn echo(home: &Home) -> Process {
    Process::start(home.tenure(&["work", "--json", "--queue", "q", "--exec", "cat"]))
}

#[test]
fn submit_wait_prints_the_output_and_exits_by_the_outcome() {
    let home = Home::new();
    let _server = home.serve();
    let _worker = echo(&home);
    let ran = home.run(&["submit", "echo", "--queue", "q", "--input", "{\"n\": 1.0}", "--wait"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"n\": 1.0}\n"), "{ran:?}");
    assert!(ran.stderr.contains("succeeded after"), "{ran:?}");
}

#[test]
fn input_comes_from_a_file_or_from_stdin_too() {
    let home = Home::new();
    let _server = home.serve();
    std::fs::write(home.path().join("in.json"), "[1,2]").unwrap();
    let from_file = home.submit(&["k", "--queue", "q", "--input-file", "in.json"]);
    assert_eq!(home.run_view(&from_file)["input"], serde_json::json!([1, 2]));
    let mut command = home.tenure(&["submit", "--json", "k", "--queue", "q", "--input", "-"]);
    let file = std::fs::File::open(home.path().join("in.json")).unwrap();
    let output = command.stdin(file).output().unwrap();
    let accepted: Value = serde_json::from_slice(&output.stdout).unwrap();
    let id = accepted["runId"].as_str().unwrap();
    assert_eq!(home.run_view(id)["input"], serde_json::json!([1, 2]));
}

#[test]
fn every_ending_has_its_exit_code() {
    let home = Home::new();
    let _server = home.serve();
    let _worker =
        Process::start(home.tenure(&["work", "--json", "--queue", "q", "--exec", "false"]));
    let failed = home.run(&["submit", "k", "--queue", "q", "--max-attempts", "1", "--wait"]);
    assert_eq!(failed.code, 10, "{failed:?}");
    assert!(failed.stderr.contains("USER_CODE"), "{failed:?}");
    let waiting = home.run(&["submit", "k", "--queue", "none", "--wait", "--timeout", "10ms"]);
    assert_eq!(waiting.code, 124, "{waiting:?}");
    let id = home.submit(&["k", "--queue", "none"]);
    assert_eq!(home.run(&["runs", "cancel", &id]).code, 0);
    assert_eq!(home.run(&["runs", "watch", &id]).code, 12);
    let failed = home.json(&["runs", "list", "--json", "--state", "failed"]);
    let too_late = home.run(&["runs", "cancel", failed[0]["runId"].as_str().unwrap()]);
    too_late.assert_error(4, "run_already_terminal", "ended", "runs show");
}

#[test]
fn an_idempotency_key_finds_the_run_of_before() {
    let home = Home::new();
    let _server = home.serve();
    let submit = ["submit", "--json", "k", "--queue", "q", "--idempotency-key", "once"];
    let first = home.json(&submit);
    let second = home.json(&submit);
    assert_eq!(first["runId"], second["runId"]);
    assert_eq!(second["replayed"], true);
    let other = home.run(&[&submit[..], &["--priority", "5"]].concat());
    assert_eq!(other.code, 4, "{other:?}");
}

#[test]
fn a_repeated_command_with_spans_is_the_same_submission() {
    let home = Home::new();
    let _server = home.serve();
    for (key, spans) in [
        ("delay", &["--delay", "10m"][..]),
        ("run-at", &["--run-at", "10m"]),
        ("deadline", &["--deadline", "20m"]),
    ] {
        let submit = ["submit", "--json", "k", "--queue", "q", "--idempotency-key", key];
        let submit = [&submit[..], spans].concat();
        let first = home.json(&submit);
        let second = home.json(&submit);
        assert_eq!((&first["runId"], &second["replayed"]), (&second["runId"], &true.into()));
    }
}

#[test]
fn flags_of_submit_arrive_as_members() {
    let home = Home::new();
    let _server = home.serve();
    let id = home.submit(&[
        "k",
        "--queue",
        "q",
        "--priority",
        "-5",
        "--max-attempts",
        "7",
        "--label",
        "team=a",
        "--label",
        "city=b",
        "--delay",
        "1h",
        "--deadline",
        "2h",
        "--seed",
        "7",
        "--lease-ms",
        "3000",
        "--heartbeat-ms",
        "1000",
        "--cancel-grace-ms",
        "0",
        "--retry-base-ms",
        "1",
        "--retry-cap-ms",
        "2",
        "--timeout-ms",
        "1000",
    ]);
    let run = home.run_view(&id);
    assert_eq!(run["priority"], -5);
    assert_eq!(run["maxAttempts"], 7);
    assert_eq!(run["labels"], serde_json::json!({"team": "a", "city": "b"}));
    assert!(run["runAt"].is_string() && run["deadline"].is_string(), "{run}");
}

#[test]
fn lists_are_arrays_with_the_names_of_the_interface() {
    let home = Home::new();
    let _server = home.serve();
    let ids: Vec<String> =
        (0..3).map(|n| home.submit(&["k", "--queue", "q", "--label", &format!("n={n}")])).collect();
    let all = home.json(&["runs", "list", "--json"]);
    let listed: Vec<&str> =
        all.as_array().unwrap().iter().map(|run| run["runId"].as_str().unwrap()).collect();
    let newest_first: Vec<&str> = ids.iter().rev().map(String::as_str).collect();
    assert_eq!(listed, newest_first);
    let one = home.json(&["runs", "list", "--json", "--label", "n=1"]);
    assert_eq!(one[0]["runId"], ids[1].as_str());
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert_eq!(home.json(&["runs", "list", "--json", "--limit", "2"]).as_array().unwrap().len(), 2);
    // Bodies are left out unless requested.
    let body = home.submit(&["k", "--queue", "q", "--input", "[1]"]);
    let newest = |more: &[&str]| {
        home.json(&[&["runs", "list", "--json", "--limit", "1"], more].concat())[0].clone()
    };
    assert_eq!(newest(&[])["runId"], body.as_str());
    assert_eq!(newest(&[]).get("input"), None);
    assert_eq!(newest(&["--include", "output,input"])["input"], serde_json::json!([1]));
    let odd = home.run(&["runs", "list", "--include", "inputs"]);
    assert!(odd.stderr.contains("input, output, stackTrace"), "{odd:?}");
    home.run(&["runs", "cancel", &body]);
    let queues = home.json(&["queues", "--json"]);
    assert_eq!((queues[0]["queue"].as_str(), queues[0]["ready"].as_u64()), (Some("q"), Some(3)));

    let table = home.run(&["runs", "list"]).stdout;
    assert!(table.lines().next().unwrap().contains("STATE"), "{table}");
    assert!(table.contains(&ids[0]) && !table.contains('\u{1b}'), "{table}");
    let table = home.run(&["queues"]).stdout;
    assert!(table.contains("QUEUE") && table.contains("READY"), "{table}");
}

#[test]
fn show_draws_one_line_per_attempt() {
    let home = Home::new();
    let _server = home.serve();
    let _worker = Process::start(
        home.tenure(&["work", "--json", "--name", "w", "--queue", "q", "--exec", "false"]),
    );
    let id = home.submit(&["k", "--queue", "q", "--max-attempts", "2", "--retry-base-ms", "1"]);
    home.ended(&id);
    let shown = home.run(&["runs", "show", &id]).stdout;
    let bars: Vec<&str> = shown.lines().filter(|line| line.contains('━')).collect();
    assert_eq!(bars.len(), 2, "{shown}");
    assert!(bars[0].trim_start().starts_with("1  w-"), "{shown}");
    assert!(bars[1].contains("FAILED") && bars[1].contains("USER_CODE"), "{shown}");
}

#[test]
fn history_and_record_tell_everything_in_order() {
    let home = Home::new();
    let _server = home.serve();
    let _worker = echo(&home);
    let id = home.submit(&["k", "--queue", "q", "--input", "1"]);
    home.ended(&id);
    let history = home.json(&["runs", "history", "--json", &id]);
    let numbers: Vec<u64> =
        history.as_array().unwrap().iter().map(|entry| entry["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(history[0]["kind"], "submitted");
    let record = home.json(&["runs", "record", "--json", &id]);
    assert_eq!(
        (record["runId"].as_str(), record["state"].as_str()),
        (Some(id.as_str()), Some("succeeded"))
    );
    assert_eq!(record["attempts"][0]["outcome"], "SUCCEEDED");
    let watched = home.run(&["runs", "watch", "--json", &id]);
    assert_eq!(watched.stdout.lines().count(), numbers.len(), "{watched:?}");
    assert_eq!(watched.code, 0);
    let spoken = home.run(&["runs", "history", &id]).stdout;
    assert_eq!(spoken.lines().count(), numbers.len(), "{spoken}");
}

#[test]
fn watch_follows_a_run_to_its_end() {
    let home = Home::new();
    let _server = home.serve();
    let id = home.submit(&["k", "--queue", "q"]);
    let mut watch = Process::start(home.tenure(&["runs", "watch", "--json", &id]));
    assert_eq!(watch.line()["kind"], "submitted");
    let _worker = echo(&home);
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind: &String| kind != "attempt_closed") {
        kinds.push(watch.line()["kind"].as_str().unwrap().to_owned());
    }
    assert_eq!(kinds[0], "granted");
    assert_eq!(watch.exit_code(), 0);
}

#[test]
fn a_wait_that_is_interrupted_says_that_the_run_goes_on() {
    let home = Home::new();
    let _server = home.serve();
    let mut command = home.tenure(&["submit", "k", "--queue", "q", "--wait"]);
    let said = home.path().join("said");
    command.stderr(std::fs::File::create(&said).unwrap());
    let mut waiting = Process::start(command);
    let read = || std::fs::read_to_string(&said).unwrap_or_default();
    wait_until("the wait", || read().contains("waiting for run_"));
    waiting.signal("INT");
    assert_eq!(waiting.exit_code(), 130);
    let said = read();
    assert!(said.contains("goes on [interrupted]"), "{said}");
    assert!(
        said.contains("tenure runs watch run_") && said.contains("tenure runs cancel run_"),
        "{said}"
    );
    let list = home.json(&["runs", "list", "--json"]);
    assert_eq!(list[0]["state"], "queued", "{list}");
}
