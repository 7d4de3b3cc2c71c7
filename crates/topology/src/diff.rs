//! What changes between two versions of a topology, as values.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::check::Topology;
use crate::places::join;

/// One difference, by the path of the member.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    Added {
        path: String,
        value: Value,
    },
    Removed {
        path: String,
        value: Value,
    },
    Changed {
        path: String,
        before: Value,
        after: Value,
    },
    /// The same elements in another order.
    Reordered {
        path: String,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { path, value } => write!(f, "+ {path}: {value}"),
            Self::Removed { path, value } => write!(f, "- {path}: {value}"),
            Self::Changed { path, before, after } => write!(f, "~ {path}: {before} → {after}"),
            Self::Reordered { path } => write!(f, "~ {path}: the same elements in another order"),
        }
    }
}

/// All differences, by path. Two versions with the same digest have none.
#[must_use]
pub fn between(before: &Topology, after: &Topology) -> Vec<Difference> {
    let value = |topology: &Topology| {
        serde_json::to_value(topology.declaration())
            .expect("a declaration has only members that JSON can hold")
    };
    let mut found = Vec::new();
    compare("", &value(before), &value(after), &mut found);
    found
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<Difference>) {
    match (before, after) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in left {
                let path = join(path, key);
                match right.get(key) {
                    Some(other) => compare(&path, value, other, found),
                    None => found.push(Difference::Removed { path, value: value.clone() }),
                }
            }
            for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
                found.push(Difference::Added { path: join(path, key), value: value.clone() });
            }
        }
        (Value::Array(left), Value::Array(right)) => compare_lists(path, left, right, found),
        _ if before == after => {}
        _ => found.push(Difference::Changed {
            path: path.to_owned(),
            before: before.clone(),
            after: after.clone(),
        }),
    }
}

/// Elements of lists have no names, so they are compared as wholes: by their texts, so that two lists cost what they are
/// long and not their product.
fn compare_lists(path: &str, left: &[Value], right: &[Value], found: &mut Vec<Difference>) {
    let start = found.len();
    let texts = |list: &[Value]| list.iter().map(Value::to_string).collect::<BTreeSet<_>>();
    let (of_left, of_right) = (texts(left), texts(right));
    for value in left.iter().filter(|value| !of_right.contains(&value.to_string())) {
        found.push(Difference::Removed { path: path.to_owned(), value: value.clone() });
    }
    for value in right.iter().filter(|value| !of_left.contains(&value.to_string())) {
        found.push(Difference::Added { path: path.to_owned(), value: value.clone() });
    }
    if found.len() == start && left != right {
        found.push(Difference::Reordered { path: path.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(from: u32, to: u32) -> Value {
        (from..to).map(|n| json!({"n": [n]})).collect()
    }

    #[test]
    fn long_lists_cost_what_they_are_long() {
        // A comparison of each with each would be ten thousand million ones.
        let mut found = Vec::new();
        compare("list", &list(0, 100_000), &list(1, 100_001), &mut found);
        let said: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(said, ["- list: {\"n\":[0]}", "+ list: {\"n\":[100000]}"]);
    }

    #[test]
    fn the_same_elements_in_another_order_are_one_difference() {
        let mut found = Vec::new();
        compare("list", &json!([1, {"a": 1, "b": 2}]), &json!([{"b": 2, "a": 1}, 1]), &mut found);
        assert_eq!(found, [Difference::Reordered { path: "list".to_owned() }]);
    }
}
