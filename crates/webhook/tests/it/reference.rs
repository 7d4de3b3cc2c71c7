//! What we sign is verified by the reference packages of Python and npm (D9), which are kept unchanged in `tests/reference`.

#![expect(clippy::unwrap_used, reason = "in what tests share, too, a panic is the report")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use webhook::{Secret, signatures};

/// A body with everything that a re-serialising receiver would change: spaces, order, escapes, numbers.
const BODY: &str = "{\"b\": 1.0,\n \"a\":\"\u{e9}\\u00e9/ \u{1f600}\", \"n\": 9007199254740993}";

fn cases(now: i64) -> serde_json::Value {
    let (old, new) =
        (Secret::from_bytes(vec![9; 24]).unwrap(), Secret::from_bytes(vec![5; 64]).unwrap());
    let case = |name: &str, secret: &Secret, time: i64, body: &str, signed: String, valid: bool| {
        json!({"name": name, "secret": secret.reveal(), "id": "eff_1", "timestamp": time.to_string(),
               "signature": signed, "body": body, "valid": valid})
    };
    let sign = |secrets: &[Secret], time| signatures(secrets, "eff_1", time, BODY.as_bytes());
    let both = [new.clone(), old.clone()];
    json!([
        case("one secret", &old, now, BODY, sign(&both[1..], now), true),
        case("rotation, receiver has the new one", &new, now, BODY, sign(&both, now), true),
        case("rotation, receiver has the old one", &old, now, BODY, sign(&both, now), true),
        case("another secret", &new, now, BODY, sign(&both[1..], now), false),
        case("another body", &old, now, "{}", sign(&both[1..], now), false),
        case("too old", &old, now - 600, BODY, sign(&both[1..], now - 600), false),
        case("from the future", &old, now + 600, BODY, sign(&both[1..], now + 600), false),
    ])
}

#[expect(clippy::disallowed_methods, reason = "the reference packages read the real clock")]
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs().try_into().unwrap()
}

fn judge(program: &str, script: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
    let mut child = Command::new(program)
        .arg(folder.join(script))
        .env("NODE_PATH", folder.join("npm"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"));
    let cases = cases(now());
    child.stdin.take().unwrap().write_all(cases.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} failed");
    let judged: Vec<(String, bool)> = serde_json::from_slice(&output.stdout).unwrap();
    let expected: Vec<(String, bool)> = cases
        .as_array()
        .unwrap()
        .iter()
        .map(|case| (case["name"].as_str().unwrap().to_owned(), case["valid"].as_bool().unwrap()))
        .collect();
    assert_eq!(judged, expected, "{program}");
}

#[test]
fn the_reference_package_of_python_agrees() {
    judge("python3", "judge.py");
}

#[test]
fn the_reference_package_of_npm_agrees() {
    judge("node", "judge.cjs");
}
