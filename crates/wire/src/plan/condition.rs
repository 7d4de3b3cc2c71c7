//! The condition of a step: `when`, in the language of conditions that the gates of topologies have.
//!
//! A clause has a `path`, an operator `op` and mostly a `value`; `all`, `any` and `not` join clauses. A path begins with the key of an
//! earlier step, and goes on with `state` or `output`: `check.output.total`. Here only the form is checked, and which steps it
//! speaks about is found. The coordinator judges it, with the same code as for gates.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Json;

/// Maximum bytes of a condition: more than a person reads, and part of the row of its step.
pub const WHEN_BYTES_MAX: usize = 4 * 1024;
/// Maximum levels of `all`, `any` and `not`, and maximum conditions that one of them joins: as in topologies.
pub const WHEN_DEPTH_MAX: usize = 8;
const PARTS_MAX: usize = 200;

/// The operators that compare with `value`.
pub const WITH_VALUE: [&str; 5] = ["equals", "in", "at-least", "at-most", "contains"];
/// The operators that do not.
pub const WITHOUT_VALUE: [&str; 2] = ["exists", "non-empty"];
/// The operator that compares with the list at `of`.
pub const AMONG: &str = "among";

/// What follows the key of a step in a path.
pub const STATE: &str = "state";
pub const OUTPUT: &str = "output";

/// The keys of the steps that a condition speaks about, each once; or what is wrong with it.
pub(super) fn check(when: &Json) -> Result<Vec<String>, String> {
    if when.text().len() > WHEN_BYTES_MAX {
        return Err(format!(
            "has {} bytes, and may have {WHEN_BYTES_MAX}; let a step compute what it depends on",
            when.text().len()
        ));
    }
    let when: Value =
        when.read().map_err(|error| format!("cannot be read as a condition: {error}"))?;
    let mut steps = Vec::new();
    condition(&when, WHEN_DEPTH_MAX, &mut steps)?;
    steps.sort_unstable();
    steps.dedup();
    Ok(steps)
}

/// The keys of the steps that a condition speaks about that was checked.
pub fn steps_of(when: &Json) -> Vec<String> {
    check(when).unwrap_or_default()
}

/// The keys of the steps of which it compares the output, and not the state alone.
pub fn outputs_of(when: &Json) -> BTreeSet<String> {
    let mut outputs = BTreeSet::new();
    if let Ok(when) = when.read::<Value>() {
        collect_outputs(&when, WHEN_DEPTH_MAX, &mut outputs);
    }
    outputs
}

fn collect_outputs(when: &Value, depth: usize, outputs: &mut BTreeSet<String>) {
    let parts = ["all", "any"].iter().filter_map(|word| when.get(word)?.as_array()).flatten();
    if depth > 0 {
        parts.chain(when.get("not")).for_each(|part| collect_outputs(part, depth - 1, outputs));
    }
    let paths = ["path", "of"].iter().filter_map(|member| when.get(member)?.as_str());
    for path in paths {
        let mut parts = path.split('.');
        if let (Some(step), Some(OUTPUT)) = (parts.next(), parts.next()) {
            outputs.insert(step.to_owned());
        }
    }
}

fn condition(when: &Value, depth: usize, steps: &mut Vec<String>) -> Result<(), String> {
    if depth == 0 {
        return Err(format!("has more than {WHEN_DEPTH_MAX} levels of `all`, `any` and `not`"));
    }
    let members = when.as_object().ok_or("is not an object")?;
    let names: Vec<&str> = members.keys().map(String::as_str).collect();
    match names[..] {
        [word @ ("all" | "any")] => {
            let parts = members[word].as_array().filter(|it| (1..=PARTS_MAX).contains(&it.len()));
            let parts = parts.ok_or(format!("`{word}` needs 1 to {PARTS_MAX} conditions"))?;
            parts.iter().try_for_each(|part| condition(part, depth - 1, steps))
        }
        ["not"] => condition(&members["not"], depth - 1, steps),
        _ => clause(members, steps),
    }
}

fn clause(members: &serde_json::Map<String, Value>, steps: &mut Vec<String>) -> Result<(), String> {
    let is_known = |name: &String| matches!(name.as_str(), "path" | "op" | "value" | "of");
    if let Some(unknown) = members.keys().find(|name| !is_known(name)) {
        return Err(format!(
            "has the member `{unknown}`; a clause has `path`, `op`, `value` and `of`, and a group has exactly one of `all`, `any` and `not`"
        ));
    }
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let (Some(path), Some(op)) = (text("path"), text("op")) else {
        return Err("has a clause without `path` and `op`".to_owned());
    };
    steps.push(step_of(path)?);
    let value = members.get("value");
    let takes_value = WITH_VALUE.contains(&op);
    if !takes_value && !WITHOUT_VALUE.contains(&op) && op != AMONG {
        let all = [&WITH_VALUE[..], &WITHOUT_VALUE[..], &[AMONG]].concat().join(", ");
        return Err(format!("has the operator `{op}`, which is none of {all}"));
    }
    if takes_value != value.is_some() {
        let word = if takes_value { "needs a" } else { "takes no" };
        return Err(format!("has a clause whose operator `{op}` {word} `value`"));
    }
    if op == "in" && !value.is_some_and(Value::is_array) {
        return Err("has a clause whose `in` compares with no list".to_owned());
    }
    if (op == AMONG) != members.contains_key("of") {
        return Err("has a clause whose `of` belongs to `among`, which needs it".to_owned());
    }
    if op == AMONG {
        steps.push(step_of(text("of").unwrap_or_default())?);
    }
    Ok(())
}

/// The step that a path begins with.
fn step_of(path: &str) -> Result<String, String> {
    let mut parts = path.split('.');
    let (step, of) = (parts.next().unwrap_or_default(), parts.next());
    let is_whole = match of {
        Some(STATE) => parts.next().is_none(),
        Some(OUTPUT) => true,
        _ => false,
    };
    match is_whole && !step.is_empty() {
        true => Ok(step.to_owned()),
        false => Err(format!(
            "has the path `{path}`; a path is the key of an earlier step with `.state`, or with `.output` and members of it"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<Vec<String>, String> {
        check(&Json::from_text(text.to_owned()).unwrap())
    }

    #[test]
    fn a_condition_names_the_steps_that_it_speaks_about() {
        let when = r#"{"all": [{"path": "b.output.total", "op": "at-least", "value": 1000},
            {"not": {"path": "a.state", "op": "equals", "value": "failed"}},
            {"any": [{"path": "b.output.id", "op": "among", "of": "c.output.ids"}]}]}"#;
        assert_eq!(checked(when).unwrap(), ["a", "b", "c"]);
    }

    #[test]
    fn what_is_no_condition_is_refused_with_its_reason() {
        let deep = format!(
            "{}{}{}",
            r#"{"not":"#.repeat(8),
            r#"{"path":"a.state","op":"exists"}"#,
            "}".repeat(8)
        );
        let long =
            format!(r#"{{"path":"a.output","op":"equals","value":"{}"}}"#, "x".repeat(5_000));
        for (when, why) in [
            ("7", "not an object"),
            ("{}", "without `path` and `op`"),
            (r#"{"path": "a.output"}"#, "without `path` and `op`"),
            (r#"{"path": "a.output", "op": "matches"}"#, "none of equals"),
            (r#"{"path": "a", "op": "exists"}"#, "the key of an earlier step"),
            (r#"{"path": "a.state.x", "op": "exists"}"#, "the key of an earlier step"),
            (r#"{"path": "a.output", "op": "equals"}"#, "needs a `value`"),
            (r#"{"path": "a.output", "op": "exists", "value": 1}"#, "takes no `value`"),
            (r#"{"path": "a.output", "op": "in", "value": 1}"#, "no list"),
            (r#"{"path": "a.output", "op": "among"}"#, "`of` belongs to"),
            (r#"{"all": []}"#, "needs 1 to 200"),
            (r#"{"all": [], "any": []}"#, "the member `all`"),
            (&deep, "8 levels"),
            (&long, "may have 4096"),
        ] {
            let refused = checked(when).unwrap_err();
            assert!(refused.contains(why), "{when}: {refused}");
        }
    }
}
