//! Many runs from a file: in order, line by line, and again without duplicates.

use std::process::Stdio;

use serde_json::Value;

use crate::home::Home;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn count(home: &Home) -> usize {
    home.json(&["runs", "list", "--json", "--limit", "1000"]).as_array().unwrap().len()
}

#[test]
fn a_file_is_submitted_once_however_often_it_is_sent() {
    let home = Home::new();
    let _server = home.serve();
    let file = home.path().join("runs.ndjson");
    let text: String = (1..=2100).map(|n| format!("{{\"input\": {n}}}\n")).collect();
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    let arguments =
        ["submit", "resize", "--queue", "images", "--from", "runs.ndjson", "--key-prefix", "night"];
    let cut = home.run(&arguments);
    assert_eq!(cut.code, 1, "the last line is cut: {cut:?}");
    let first = cut.stdout.lines().count();
    std::fs::write(&file, &text).unwrap();
    let ran = home.run(&arguments);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 2100), "{}", ran.stderr);
    let summary = format!("{} submitted, {first} found by their keys, 0 refused", 2100 - first);
    assert!(ran.stderr.contains(&summary), "{}", ran.stderr);
    let queues = home.json(&["queues", "--json"]);
    assert_eq!(queues[0]["ready"], 2100, "{queues}");
}

#[test]
fn an_error_names_its_line_and_stops_no_other() {
    let home = Home::new();
    let _server = home.serve();
    let text = "{\"kind\": \"k\", \"queue\": \"q\"}\n\nnonsense\n{\"kind\": \"k\"}\n\
        {\"kind\": \"k\", \"queue\": \"q\", \"leaseMs\": 1}\n{\"kind\": \"k\", \"queue\": \"q\"}";
    std::fs::write(home.path().join("runs.ndjson"), text).unwrap();
    let ran = home.run(&["submit", "--from", "runs.ndjson"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (1, 2), "{ran:?}");
    for line in ["line 3: ", "line 4: `queue`", "line 5: `leaseMs`"] {
        assert!(ran.stderr.contains(line), "no `{line}` in {}", ran.stderr);
    }
    assert!(ran.stderr.contains("2 submitted, 0 found by their keys, 3 refused"), "{}", ran.stderr);
    assert_eq!(count(&home), 2);
}

#[test]
fn standard_input_is_read_and_every_line_has_a_result() {
    let home = Home::new();
    let _server = home.serve();
    let mut command = home.tenure(&["submit", "k", "--queue", "q", "--from", "-", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let text = b"{\"input\": 1, \"idempotencyKey\": \"a\"}\n{\"idempotencyKey\": \"a\"}\n7\n";
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text).unwrap();
    let ran = child.wait_with_output().unwrap();
    let results = lines(&String::from_utf8(ran.stdout).unwrap());
    assert_eq!(ran.status.code(), Some(1));
    assert!(results[0]["line"] == 1 && results[0]["runId"].is_string(), "{results:?}");
    assert!(results[1]["line"] == 2 && results[1]["error"] == "idempotency_key_reused");
    assert!(results[2]["line"] == 3 && results[2]["error"] == "invalid_line", "{results:?}");
}

#[test]
fn a_server_that_is_away_says_where_to_continue() {
    let home = Home::new();
    std::fs::write(home.path().join("runs.ndjson"), "{}\n").unwrap();
    let arguments = ["submit", "k", "--queue", "q", "--from", "runs.ndjson", "--retries", "0"];
    let nowhere = ["--url", "http://127.0.0.1:9", "--key", "tnr_x"];
    let ran = home.run(&[&arguments[..], &nowhere].concat());
    ran.assert_error(6, "unreachable", "stopped after line 0", "--key-prefix");
    let missing = home.run(&["submit", "--from", "nothing.ndjson", "--key", "tnr_x"]);
    missing.assert_error(2, "input_unreadable", "nothing.ndjson", "one JSON object per line");
}

#[test]
fn a_server_that_does_not_answer_is_mentioned_before_the_command_gives_up() {
    let home = Home::new();
    std::fs::write(home.path().join("runs.ndjson"), "{}\n").unwrap();
    // It accepts connections into its backlog, and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let arguments = ["submit", "k", "--queue", "q", "--from", "runs.ndjson"];
    let mut command = home.tenure(&[&arguments[..], &["--url", &url, "--key", "tnr_x"]].concat());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let first = std::io::BufRead::lines(std::io::BufReader::new(stderr)).next();
    child.kill().unwrap();
    child.wait().unwrap();
    let first = first.expect("a line").unwrap();
    assert!(first.contains("has not answered yet"), "{first}");
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line() {
    let home = Home::new();
    let _server = home.serve();
    let text = "\u{feff}{\"input\": 1}\n{}\n";
    std::fs::write(home.path().join("runs.ndjson"), text).unwrap();
    let ran = home.run(&["submit", "k", "--queue", "q", "--from", "runs.ndjson"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 2), "{ran:?}");
}
