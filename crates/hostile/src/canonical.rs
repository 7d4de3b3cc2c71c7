//! Digests of payloads: equal values have equal digests in every spelling, and different values have different ones.

use edge::canonical::Canonical;
use serde_json::Value;
use verdict::Digest;
use wire::requests::SubmitRun;
use wire::{Json, parse};

/// Checks a submission's payload, if the wire limits accept it.
pub fn canonical(bytes: &[u8]) {
    let body = [br#"{"kind":"k","queue":"q","input":"#, bytes, b"}"].concat();
    let Ok(SubmitRun { input, .. }) = parse(&body) else { return };
    let tree: Value = input.read().expect("what the door lets in can be read");
    let digest = of_text(&input);
    assert_eq!(digest, of_tree(&tree), "looked through and written again differ");
    for spelled in [serde_json::to_string_pretty(&tree), Ok(turned(&tree))] {
        let spelled = spelled.expect("a tree can be written");
        let again = Json::from_text(spelled).expect("what was written is JSON");
        assert_eq!(digest, of_text(&again), "another spelling has another digest");
    }
    let inside = Value::Array(vec![tree]);
    assert_ne!(digest, of_tree(&inside), "another value has the same digest");
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

/// The same value with the members of every object in reverse order.
fn turned(tree: &Value) -> String {
    match tree {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(turned).collect();
            format!("[{}]", items.join(" ,"))
        }
        Value::Object(members) => {
            let member = |(name, value)| format!("{} : {}", Value::String(name), turned(&value));
            let members: Vec<String> = members.clone().into_iter().rev().map(member).collect();
            format!("{{{}}}", members.join(", "))
        }
        scalar => scalar.to_string(),
    }
}
