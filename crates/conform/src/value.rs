//! Compares a value that a case expects with one that was seen.
//!
//! Objects fit if every expected member does; other members are ignored, since SDKs may send more. An object with one
//! member that begins with `$` is a test of its own.

use serde_json::Value;

/// What differs first, as text with its path; `None` if the value fits.
pub(crate) fn difference(expected: &Value, seen: &Value) -> Option<String> {
    differs(expected, seen, &mut String::new())
}

fn differs(expected: &Value, seen: &Value, path: &mut String) -> Option<String> {
    if let Some((test, operand)) = test_of(expected) {
        return (!passes(test, operand, seen)).then(|| told(path, expected, seen));
    }
    match (expected, seen) {
        (Value::Object(expected), Value::Object(members)) => {
            expected.iter().find_map(|(name, value)| {
                let seen = members.get(name).unwrap_or(&Value::Null);
                below(path, name, |path| match test_of(value) {
                    Some(("$absent", _)) if !members.contains_key(name) => None,
                    Some(("$present", _)) if members.contains_key(name) => None,
                    _ => differs(value, seen, path),
                })
            })
        }
        (Value::Array(expected), Value::Array(items)) if expected.len() == items.len() => {
            expected.iter().zip(items).enumerate().find_map(|(n, (value, seen))| {
                below(path, &n.to_string(), |path| differs(value, seen, path))
            })
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => None,
        (a, b) if a == b => None,
        _ => Some(told(path, expected, seen)),
    }
}

fn below<T>(path: &mut String, name: &str, then: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    path.push('.');
    path.push_str(name);
    let answer = then(path);
    path.truncate(length);
    answer
}

fn told(path: &str, expected: &Value, seen: &Value) -> String {
    let path = path.strip_prefix('.').filter(|path| !path.is_empty()).unwrap_or("the value");
    let mut seen = seen.to_string();
    if seen.len() > SEEN_CHARS_MAX {
        seen = format!("{} bytes of JSON", seen.len());
    }
    format!("{path} is {seen}, expected {expected}")
}

/// A finding names a value; it does not print a payload.
const SEEN_CHARS_MAX: usize = 400;

fn test_of(expected: &Value) -> Option<(&str, &Value)> {
    let members = expected.as_object()?;
    let (name, operand) = members.iter().next()?;
    (members.len() == 1 && name.starts_with('$')).then_some((name.as_str(), operand))
}

fn passes(test: &str, operand: &Value, seen: &Value) -> bool {
    let number = || seen.as_f64().zip(operand.as_f64());
    let texts = || seen.as_str().zip(operand.as_str());
    let size = || match seen {
        Value::String(text) => Some(text.len() as u64),
        Value::Array(items) => Some(items.len() as u64),
        _ => None,
    };
    let sizes = || size().zip(operand.as_u64());
    match test {
        "$not" => difference(operand, seen).is_some(),
        "$max" => number().is_some_and(|(seen, max)| seen <= max),
        "$min" => number().is_some_and(|(seen, min)| seen >= min),
        "$contains" => match seen {
            Value::Array(items) => items.iter().any(|it| difference(operand, it).is_none()),
            _ => texts().is_some_and(|(seen, part)| seen.contains(part)),
        },
        "$lacks" => texts().is_none_or(|(seen, part)| !seen.contains(part)),
        "$begins" => texts().is_some_and(|(seen, start)| seen.starts_with(start)),
        // What is absent is not too large.
        "$sizeMax" => seen.is_null() || sizes().is_some_and(|(size, max)| size <= max),
        "$sizeMin" => sizes().is_some_and(|(size, min)| size >= min),
        "$size" => sizes().is_some_and(|(size, exact)| size == exact),
        "$oneOf" => operand
            .as_array()
            .is_some_and(|any| any.iter().any(|it| difference(it, seen).is_none())),
        "$absent" => seen.is_null(),
        "$present" => !seen.is_null(),
        _ => false,
    }
}

/// Whether a test of a case exists, so that a misspelt one is refused when the case is read.
pub(crate) fn unknown_test(expected: &Value) -> Option<String> {
    const TESTS: [&str; 12] = [
        "$not",
        "$max",
        "$min",
        "$contains",
        "$lacks",
        "$begins",
        "$sizeMax",
        "$sizeMin",
        "$size",
        "$oneOf",
        "$absent",
        "$present",
    ];
    match expected {
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            let is_unknown = name.starts_with('$') && !TESTS.contains(&name.as_str());
            if is_unknown { Some(name.clone()) } else { unknown_test(value) }
        }),
        Value::Array(items) => items.iter().find_map(unknown_test),
        _ => None,
    }
}

/// The member at a path with dots.
pub(crate) fn at<'v>(value: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(value, |value, name| match value {
        Value::Array(items) => {
            name.parse().ok().and_then(|n: usize| items.get(n)).unwrap_or(&Value::Null)
        }
        other => other.get(name).unwrap_or(&Value::Null),
    })
}

/// Replaces `$run1`, `$url`, … and unfolds `{"$repeat": n, "of": …}` in what a case sends.
pub(crate) fn filled(value: &Value, variable: &dyn Fn(&str) -> Option<Value>) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix('$').and_then(variable) {
            Some(value) => value,
            None => value.clone(),
        },
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| filled(item, variable)).collect())
        }
        Value::Object(members) => {
            if let (Some(count), Some(of)) = (members.get("$repeat"), members.get("of")) {
                let count = count.as_u64().unwrap_or(0) as usize;
                return Value::Array(vec![filled(of, variable); count]);
            }
            if let Some(length) = members.get("$text") {
                return Value::String("x".repeat(length.as_u64().unwrap_or(0) as usize));
            }
            members.iter().map(|(name, value)| (name.clone(), filled(value, variable))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_are_not_expected_do_not_matter() {
        assert_eq!(difference(&json!({"a": 1}), &json!({"a": 1.0, "b": 2})), None);
        let told = difference(&json!({"a": {"b": 1}}), &json!({"a": {"b": 2}}));
        assert_eq!(told.as_deref(), Some("a.b is 2, expected 1"));
    }

    #[test]
    fn tests_are_named_by_a_dollar() {
        let fits = |expected: Value, seen: Value| difference(&expected, &seen).is_none();
        assert!(fits(json!({"a": {"$absent": true}}), json!({})));
        assert!(!fits(json!({"a": {"$absent": true}}), json!({"a": 1})));
        assert!(fits(json!({"$contains": "b"}), json!("abc")));
        assert!(!fits(json!({"$lacks": "b"}), json!("abc")));
        assert!(fits(json!({"$max": 3}), json!(3)));
        assert!(!fits(json!({"$not": 0}), json!(0)));
        assert!(fits(json!({"$sizeMin": 2}), json!([1, 2])));
        assert!(!fits(json!({"a": {"$sizeMin": 2}}), json!({})));
        assert_eq!(unknown_test(&json!({"a": [{"$contain": 1}]})).as_deref(), Some("$contain"));
    }
}
