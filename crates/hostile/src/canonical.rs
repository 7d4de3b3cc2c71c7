//! Digests of payloads: equal values have equal digests in every spelling, and different values have different ones.

use std::collections::BTreeMap;

use edge::canonical::Canonical;
use serde_json::Value;
use serde_json::value::RawValue;
use verdict::Digest;
use wire::limits::INTEGER_MAX;
use wire::requests::SubmitRun;
use wire::{Json, parse};

/// Checks a submission's payload, if the wire limits accept it.
pub fn canonical(bytes: &[u8]) {
    let body = [br#"{"kind":"k","queue":"q","input":"#, bytes, b"}"].concat();
    let Ok(SubmitRun { input, .. }) = parse(&body) else { return };
    let tree: Value = input.read().expect("what the door lets in can be read");
    let digest = of_text(&input);
    let turned = turned(input.text());
    assert_eq!(digest, of_text(&json(turned)), "another spelling has another digest");
    // A tree rounds long integers; their digits count all the same.
    if has_long_integer(input.text()) {
        return;
    }
    assert_eq!(digest, of_tree(&tree), "looked through and written again differ");
    let pretty = serde_json::to_string_pretty(&tree).expect("a tree can be written");
    assert_eq!(digest, of_text(&json(pretty)), "another spelling has another digest");
    let inside = Value::Array(vec![tree]);
    assert_ne!(digest, of_tree(&inside), "another value has the same digest");
}

fn json(text: String) -> Json {
    Json::from_text(text).expect("what was written is JSON")
}

/// The members of an object, or the items of an array, each as text.
enum Parts<'a> {
    Members(BTreeMap<String, &'a RawValue>),
    Items(Vec<&'a RawValue>),
    Scalar,
}

fn parts(text: &str) -> Parts<'_> {
    let read = "what the door lets in can be read";
    match text.as_bytes().first() {
        Some(b'{') => Parts::Members(serde_json::from_str(text).expect(read)),
        Some(b'[') => Parts::Items(serde_json::from_str(text).expect(read)),
        _ => Parts::Scalar,
    }
}

fn has_long_integer(text: &str) -> bool {
    match parts(text) {
        Parts::Members(members) => members.values().any(|value| has_long_integer(value.get())),
        Parts::Items(items) => items.iter().any(|item| has_long_integer(item.get())),
        Parts::Scalar => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
            is_integer && digits.parse::<u64>().map_or(true, |it| it > INTEGER_MAX)
        }
    }
}

fn of_text(json: &Json) -> Digest {
    let mut said = Canonical::object();
    said.json("input", json);
    said.digest()
}

fn of_tree(tree: &Value) -> Digest {
    let mut said = Canonical::object();
    said.value("input", tree);
    said.digest()
}

/// The same value with the members of every object in reverse order, and other spaces.
fn turned(text: &str) -> String {
    match parts(text) {
        Parts::Items(items) => {
            let items: Vec<String> = items.iter().map(|item| turned(item.get())).collect();
            format!("[{}]", items.join(" ,"))
        }
        Parts::Members(members) => {
            let member = |(name, value): (&String, &&RawValue)| {
                format!("{} : {}", Value::from(name.as_str()), turned(value.get()))
            };
            let members: Vec<String> = members.iter().rev().map(member).collect();
            format!("{{{}}}", members.join(", "))
        }
        Parts::Scalar => text.to_owned(),
    }
}
