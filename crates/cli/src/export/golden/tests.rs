//! Files that are whole are read as they were written; all others are told apart.

use serde_json::json;

use super::*;

fn checkpoint(number: u32, key: &str) -> Checkpoint {
    let text = json!({"number": number, "key": key, "kind": "STEP", "outcome": "SUCCEEDED",
        "result": {"n": number}, "recordedAt": "2026-03-01T12:00:00.000Z"});
    serde_json::from_str(&text.to_string()).unwrap()
}

fn golden() -> Golden {
    let head = json!({"format": FORMAT, "runId": "run", "taskId": "task", "kind": "order", "queue": "q",
        "taskKey": "order", "input": {"big": 1}, "seed": 7, "createdAt": "2026-03-01T12:00:00.000Z", "attempt": 2,
        "server": "1", "exporter": "1"});
    let end = json!({"state": "succeeded", "output": "done", "checkpoints": 2});
    Golden {
        head: serde_json::from_str(&head.to_string()).unwrap(),
        checkpoints: vec![checkpoint(1, "charge#1"), checkpoint(3, "mail#1")],
        end: serde_json::from_str(&end.to_string()).unwrap(),
    }
}

fn problem(text: &str, key: Option<&Key>) -> Problem {
    Golden::parse(text, key).map(|_| ()).unwrap_err()
}

/// The text with a seal that belongs to it.
fn sealed(lines: &str) -> String {
    let mut text = lines.to_owned();
    let seal = Seal::of(&text, None);
    Line::Seal(seal).append_to(&mut text);
    text
}

/// The lines without the seal.
fn lines() -> String {
    let text = golden().to_text(None);
    split_last_line(&text).unwrap().0.to_owned()
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let text = golden().to_text(None);
    let (read, sealed) = Golden::parse(&text, None).unwrap();
    assert_eq!(sealed, Sealed::Unsigned);
    assert_eq!((&read.head, &read.end), (&golden().head, &golden().end));
    assert_eq!(read.checkpoints, golden().checkpoints);
    assert_eq!(read.to_text(None), text);
}

#[test]
fn every_cut_and_every_changed_byte_is_noticed() {
    // At every place: no prefix of a file is a file, and no byte of it can be another one.
    let text = golden().to_text(None);
    for at in 0..text.len() {
        assert!(Golden::parse(&text[..at], None).is_err(), "cut at {at}");
        let mut changed = text.clone().into_bytes();
        changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(Golden::parse(&changed, None).is_err(), "changed at {at}");
    }
    assert_eq!(problem(&lines(), None), Problem::Cut);
    assert_eq!(problem(&text.replace("done", "gone"), None), Problem::Changed);
}

#[test]
fn a_file_of_another_format_is_told_from_one_that_is_broken() {
    let newer = lines().replacen("\"format\":1", "\"format\":2", 1);
    assert_eq!(problem(&sealed(&newer), None), Problem::Format(2));
    assert_eq!(problem("", None), Problem::NotGolden);
    assert_eq!(problem("{\"kind\": \"order\"}\n", None), Problem::NotGolden);
}

#[test]
fn a_line_that_cannot_be_is_named() {
    let unordered = lines().replacen("\"number\":3", "\"number\":1", 1);
    assert!(matches!(problem(&sealed(&unordered), None), Problem::Line(3, _)));
    let unknown = lines().replacen("\"kind\":\"STEP\"", "\"kind\":\"LEAP\"", 1);
    assert!(matches!(problem(&sealed(&unknown), None), Problem::Line(2, _)));
    let miscounted = lines().replacen("\"checkpoints\":2", "\"checkpoints\":3", 1);
    assert!(matches!(problem(&sealed(&miscounted), None), Problem::Line(4, _)));
    let twice = lines() + lines().lines().last().unwrap() + "\n";
    assert!(matches!(problem(&sealed(&twice), None), Problem::Line(5, _)));
}
