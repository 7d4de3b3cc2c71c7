//! Conditions as data: a path, an operator and a value, joined by `all`, `any` and `not`.
//!
//! There is no expression language. A condition has no loop and no call, so it always ends, and one that does not hold
//! names the clause that failed.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::work::{Work, size_of};

/// The deepest nesting of `all`, `any` and `not`. A person cannot read more, and it bounds the recursion.
pub const DEPTH_MAX: usize = 8;

/// The longest value that a reason repeats, in characters.
const SHOWN_MAX: usize = 60;

/// A clause (`path` with `op`) or a group (exactly one of `all`, `any`, `not`).
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Predicate {
    /// Members from the top, joined by dots: `output.metadata.branch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Operator>,
    /// What `op` compares with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// With `op: among`: the path of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<Vec<Predicate>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any: Option<Vec<Predicate>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<Predicate>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Operator {
    /// The member exists and is not null.
    Exists,
    /// A text, list or object with something in it.
    NonEmpty,
    Equals,
    /// The member is one of the list `value`.
    In,
    /// A number that is at least `value`.
    AtLeast,
    /// A number that is at most `value`.
    AtMost,
    /// A text with this part, or a list with this element.
    Contains,
    /// The member, or each of its elements if it is a list, is an element of the list at `of`.
    Among,
}

/// What a condition says where not everything can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    Holds,
    Fails,
    /// Why nothing is known.
    Unknown(String),
}

impl Judged {
    fn negated(self) -> Self {
        match self {
            Self::Holds => Self::Fails,
            Self::Fails => Self::Holds,
            Self::Unknown(why) => Self::Unknown(why),
        }
    }
}

impl Operator {
    /// Whether the operator compares with `value`.
    #[must_use]
    pub const fn takes_value(self) -> bool {
        matches!(self, Self::Equals | Self::In | Self::AtLeast | Self::AtMost | Self::Contains)
    }
}

impl Predicate {
    /// `Err` names the clause that does not hold, or says that the condition costs more work than there is.
    pub fn test(&self, about: &Value, work: &mut Work) -> Result<(), String> {
        match self.find_failed(about, work)? {
            None => Ok(()),
            Some(failed) => Err(failed),
        }
    }

    /// Whether the condition holds, where a comparison with what is missing, or cannot be compared, says neither yes nor no.
    /// `Err` if that was not found out.
    pub fn judge(&self, about: &Value, work: &mut Work) -> Result<Judged, String> {
        if let Some(all) = &self.all {
            return Self::judge_parts(all, &Judged::Fails, about, work);
        }
        if let Some(any) = &self.any {
            return Self::judge_parts(any, &Judged::Holds, about, work);
        }
        if let Some(not) = &self.not {
            return Ok(not.judge(about, work)?.negated());
        }
        let holds = self.find_failed_clause(about, work)?.is_none();
        if holds {
            return Ok(Judged::Holds);
        }
        Ok(self.find_incomparable(about).map_or(Judged::Fails, Judged::Unknown))
    }

    /// The first part that is `deciding` decides; without one, a part of which nothing is known leaves everything open.
    fn judge_parts(
        parts: &[Self],
        deciding: &Judged,
        about: &Value,
        work: &mut Work,
    ) -> Result<Judged, String> {
        let mut unknown = None;
        for part in parts {
            let judged = part.judge(about, work)?;
            if judged == *deciding {
                return Ok(judged);
            }
            unknown = unknown.or(Some(judged).filter(|it| matches!(it, Judged::Unknown(_))));
        }
        Ok(unknown.unwrap_or_else(|| deciding.clone().negated()))
    }

    /// Why a clause compares nothing.
    fn find_incomparable(&self, about: &Value) -> Option<String> {
        let path = self.path.as_deref()?;
        let needs_number = match self.op? {
            Operator::Exists | Operator::NonEmpty => return None,
            Operator::AtLeast | Operator::AtMost => true,
            Operator::Equals | Operator::In | Operator::Contains | Operator::Among => false,
        };
        match look_up(about, path).filter(|found| !found.is_null()) {
            None => Some(format!("`{path}` is missing")),
            Some(found) if needs_number && !found.is_number() => {
                Some(format!("`{path}` is no number, but {}", shown(found)))
            }
            Some(_) => None,
        }
    }

    /// Why the condition does not hold; `Err` if that was not found out. The difference matters to `not` and `any`.
    pub fn find_failed(&self, about: &Value, work: &mut Work) -> Result<Option<String>, String> {
        if let Some(all) = &self.all {
            for part in all {
                if let Some(failed) = part.find_failed(about, work)? {
                    return Ok(Some(failed));
                }
            }
            return Ok(None);
        }
        if let Some(any) = &self.any {
            return Self::find_all_failed(any, about, work);
        }
        if let Some(not) = &self.not {
            let holds = not.find_failed(about, work)?.is_none();
            return Ok(holds.then(|| format!("it must not hold that {}", not.describe())));
        }
        self.find_failed_clause(about, work)
    }

    fn find_all_failed(
        any: &[Self],
        about: &Value,
        work: &mut Work,
    ) -> Result<Option<String>, String> {
        let mut failed = Vec::new();
        for part in any {
            match part.find_failed(about, work)? {
                None => return Ok(None),
                Some(reason) => failed.push(reason),
            }
        }
        Ok(Some(format!("none of these holds: {}", failed.join("; "))))
    }

    fn find_failed_clause(&self, about: &Value, work: &mut Work) -> Result<Option<String>, String> {
        let (Some(path), Some(op)) = (&self.path, self.op) else {
            return Ok(Some("the condition is incomplete".to_owned()));
        };
        let found = look_up(about, path);
        let listed = self.of.as_deref().and_then(|of| look_up(about, of));
        let compared = [found, listed, self.value.as_ref()].into_iter().flatten();
        let names = path.len() + self.of.as_ref().map_or(0, String::len);
        work.spend(names as u64 + compared.map(size_of).sum::<u64>())?;
        if holds(op, found, self.value.as_ref(), listed) {
            return Ok(None);
        }
        let found = found.map_or_else(|| "missing".to_owned(), shown);
        Ok(Some(format!("{}, but it is {found}", self.describe())))
    }

    /// The condition as a sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        let group = |parts: &[Self], word: &str| {
            let parts: Vec<String> = parts.iter().map(Self::describe).collect();
            parts.join(word)
        };
        if let Some(all) = &self.all {
            return group(all, " and ");
        }
        if let Some(any) = &self.any {
            return group(any, " or ");
        }
        if let Some(not) = &self.not {
            return format!("not ({})", not.describe());
        }
        let path = self.path.as_deref().unwrap_or("?");
        let value = self.value.as_ref().map(shown).unwrap_or_default();
        match self.op {
            Some(Operator::Exists) => format!("`{path}` must exist"),
            Some(Operator::NonEmpty) => format!("`{path}` must not be empty"),
            Some(Operator::Equals) => format!("`{path}` must be {value}"),
            Some(Operator::In) => format!("`{path}` must be one of {value}"),
            Some(Operator::AtLeast) => format!("`{path}` must be at least {value}"),
            Some(Operator::AtMost) => format!("`{path}` must be at most {value}"),
            Some(Operator::Contains) => format!("`{path}` must contain {value}"),
            Some(Operator::Among) => {
                format!("`{path}` must be among `{}`", self.of.as_deref().unwrap_or("?"))
            }
            None => format!("`{path}` has no operator"),
        }
    }
}

fn holds(
    op: Operator,
    found: Option<&Value>,
    value: Option<&Value>,
    listed: Option<&Value>,
) -> bool {
    let Some(found) = found.filter(|found| !found.is_null()) else {
        return false;
    };
    let among = |list: Option<&Value>, element: &Value| {
        list.and_then(Value::as_array).is_some_and(|list| list.contains(element))
    };
    match op {
        Operator::Exists => true,
        Operator::NonEmpty => is_non_empty(found),
        Operator::Equals => value == Some(found),
        Operator::In => among(value, found),
        Operator::AtLeast => numbers(found, value).is_some_and(|(left, right)| left >= right),
        Operator::AtMost => numbers(found, value).is_some_and(|(left, right)| left <= right),
        Operator::Contains => match (found, value) {
            (Value::String(text), Some(Value::String(part))) => text.contains(part),
            (Value::Array(list), Some(element)) => list.contains(element),
            _ => false,
        },
        Operator::Among => match found {
            Value::Array(list) => !list.is_empty() && are_all_among(list, listed),
            element => among(listed, element),
        },
    }
}

/// Both lists may be long, so each is looked through once.
fn are_all_among(list: &[Value], listed: Option<&Value>) -> bool {
    let listed = listed.and_then(Value::as_array).into_iter().flatten();
    let listed: BTreeSet<String> = listed.map(Value::to_string).collect();
    list.iter().all(|element| listed.contains(&element.to_string()))
}

fn is_non_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => false,
    }
}

fn numbers(found: &Value, value: Option<&Value>) -> Option<(f64, f64)> {
    found.as_f64().zip(value?.as_f64())
}

/// The value at a path of members and list places, joined by dots.
#[must_use]
pub fn look_up<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |at, segment| match at {
        Value::Object(members) => members.get(segment),
        Value::Array(list) => list.get(segment.parse::<usize>().ok()?),
        _ => None,
    })
}

fn shown(value: &Value) -> String {
    let mut start = Start(String::new());
    let is_whole = write!(start, "{value}").is_ok();
    let text = start.0;
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if is_whole => text,
        None => format!("{text}…"),
    }
}

/// The beginning of what is written: a value that is not shown to the end is not written to the end.
struct Start(String);

impl fmt::Write for Start {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // A character has at most four bytes.
        if self.0.len() > 4 * SHOWN_MAX {
            return Err(fmt::Error);
        }
        self.0.extend(text.chars().take(SHOWN_MAX + 1));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn predicate(value: Value) -> Predicate {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_comparison_with_what_cannot_be_compared_says_neither_yes_nor_no() {
        let judged = |condition: Value, about: Value| {
            predicate(condition).judge(&about, &mut Work::new(1_000)).unwrap()
        };
        let large = json!({"path": "total", "op": "at-least", "value": 1000});
        let there = json!({"path": "total", "op": "exists"});
        assert_eq!(judged(large.clone(), json!({"total": 1500})), Judged::Holds);
        assert_eq!(judged(large.clone(), json!({"total": 500})), Judged::Fails);
        for total in [json!("5000"), json!([5000]), json!({"a": 5000}), json!(null), json!(true)] {
            let about = json!({"total": total});
            assert!(matches!(judged(large.clone(), about.clone()), Judged::Unknown(_)), "{about}");
            let not = json!({"not": large});
            assert!(matches!(judged(not, about.clone()), Judged::Unknown(_)), "{about}");
            // What decides alone decides.
            let either = json!({"any": [large, {"path": "sure", "op": "exists"}]});
            let about = json!({"total": total, "sure": 1});
            assert_eq!(judged(either, about), Judged::Holds);
        }
        // A condition may say itself that the member need not be there.
        let guarded = json!({"all": [large, there]});
        assert_eq!(judged(guarded.clone(), json!({})), Judged::Fails);
        assert!(matches!(judged(guarded, json!({"total": "x"})), Judged::Unknown(_)));
    }

    #[test]
    fn a_clause_that_fails_is_named_with_what_was_found() {
        let about =
            json!({"output": {"branch": "", "size": 7, "ids": ["a", "x"]}, "known": ["a", "b"]});
        let fails = [
            (
                json!({"path": "output.branch", "op": "non-empty"}),
                "`output.branch` must not be empty, but it is \"\"",
            ),
            (
                json!({"path": "output.none", "op": "exists"}),
                "`output.none` must exist, but it is missing",
            ),
            (
                json!({"path": "output.size", "op": "at-most", "value": 5}),
                "`output.size` must be at most 5, but it is 7",
            ),
            (
                json!({"path": "output.ids", "op": "among", "of": "known"}),
                "`output.ids` must be among `known`, but it is [\"a\",\"x\"]",
            ),
            (
                json!({"not": {"path": "output.size", "op": "equals", "value": 7}}),
                "it must not hold that `output.size` must be 7",
            ),
        ];
        for (clause, reason) in fails {
            assert_eq!(
                predicate(clause).test(&about, &mut Work::of_check()),
                Err(reason.to_owned())
            );
        }
    }

    #[test]
    fn every_operator_can_hold() {
        let about = json!({"text": "abc", "list": [1, 2], "number": 2, "empty": []});
        for clause in [
            json!({"path": "text", "op": "exists"}),
            json!({"path": "list", "op": "non-empty"}),
            json!({"path": "list.1", "op": "equals", "value": 2}),
            json!({"path": "number", "op": "in", "value": [1, 2]}),
            json!({"path": "number", "op": "at-least", "value": 1.5}),
            json!({"path": "number", "op": "at-most", "value": 2}),
            json!({"path": "text", "op": "contains", "value": "b"}),
            json!({"path": "list", "op": "contains", "value": 1}),
            json!({"path": "number", "op": "among", "of": "list"}),
            json!({"any": [{"path": "empty", "op": "non-empty"}, {"path": "text", "op": "exists"}]}),
            json!({"all": [{"path": "text", "op": "exists"}, {"not": {"path": "empty", "op": "non-empty"}}]}),
        ] {
            assert_eq!(
                predicate(clause.clone()).test(&about, &mut Work::of_check()),
                Ok(()),
                "{clause}"
            );
        }
    }

    #[test]
    fn an_empty_list_is_among_nothing() {
        // Otherwise an executor could pass by naming nothing.
        let about = json!({"ids": [], "known": ["a"]});
        assert!(
            predicate(json!({"path": "ids", "op": "among", "of": "known"}))
                .test(&about, &mut Work::of_check())
                .is_err()
        );
    }
}
