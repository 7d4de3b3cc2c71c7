//! JSON Schemas in a topology: compiled once, tested often, at a cost that is known before.
//!
//! Patterns use the engine with linear time, and a reference to another document is refused: nothing is fetched. What testing
//! costs at most is computed from the schema ([`cost`]), and a schema that multiplies its work is refused. `format` is an
//! annotation, as in the current draft: checking one may compile the value itself.

mod cost;

use std::sync::{Arc, OnceLock};

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use self::cost::Cost;
use crate::work::{Work, size_of};

/// The most violations that one reason names.
const VIOLATIONS_SHOWN: usize = 3;

/// The longest text of one violation, in characters: the library repeats the value.
const VIOLATION_CHARS_MAX: usize = 300;

/// The steps for finding out what is wrong with a value. The library keeps every violation, some hundred bytes each.
const VIOLATIONS_STEPS_MAX: u64 = 100_000;

/// The largest compiled pattern in bytes. It bounds the steps for each character, and how long compiling takes.
const PATTERN_BYTES_MAX: usize = 128 * 1024;

/// The most patterns of one topology. Compiling a large one takes milliseconds.
pub(crate) const PATTERNS_MAX: usize = 200;

/// The longest list of a schema, as in `enum`. The library compares each entry with each other one before it uses the schema.
const LIST_MAX: usize = 2_000;

/// A JSON Schema, compiled before it is first tested.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    source: Arc<Value>,
    prepared: Arc<OnceLock<Prepared>>,
}

#[derive(Debug)]
enum Prepared {
    Usable {
        validator: Box<Validator>,
        cost: Cost,
    },
    /// No value fits it, for this reason.
    Unusable(String),
}

impl Schema {
    /// `Err` says why it cannot be used, or that testing would cost too much.
    pub(crate) fn compile(source: &Value) -> Result<Self, String> {
        let schema = Self::stored(source);
        match schema.prepared() {
            Prepared::Usable { .. } => Ok(schema),
            Prepared::Unusable(why) => Err(why.clone()),
        }
    }

    /// A schema of a version that came into force before. It is compiled when it is first tested, and reading the version costs
    /// nothing of that: a batch may read it. One that costs too much by the bounds of today fits nothing.
    pub(crate) fn stored(source: &Value) -> Self {
        Self { source: Arc::new(source.clone()), prepared: Arc::default() }
    }

    fn prepared(&self) -> &Prepared {
        self.prepared.get_or_init(|| match prepare(&self.source) {
            Ok((validator, cost)) => Prepared::Usable { validator: Box::new(validator), cost },
            Err(why) => Prepared::Unusable(why),
        })
    }

    /// What testing a value costs at most.
    pub(crate) fn steps(&self, value: &Value) -> u64 {
        match self.prepared.get() {
            Some(Prepared::Usable { cost, .. }) => size_of(value).saturating_mul(cost.verdict),
            Some(Prepared::Unusable(_)) => 0,
            // It will be compiled then, too.
            None => u64::MAX,
        }
    }

    /// `Err` names the first violations and where they are, or says that testing would cost too much.
    pub(crate) fn test(&self, value: &Value, work: &mut Work) -> Result<(), String> {
        let (validator, cost) = match self.prepared() {
            Prepared::Usable { validator, cost } => (validator, cost),
            Prepared::Unusable(why) => return Err(why.clone()),
        };
        let size = size_of(value);
        work.spend(size.saturating_mul(cost.verdict))?;
        if validator.is_valid(value) {
            return Ok(());
        }
        let steps = size.saturating_mul(cost.errors);
        if steps > VIOLATIONS_STEPS_MAX || work.spend(steps).is_err() {
            let why = "it does not fit the schema; it is too large to say where";
            return Err(why.to_owned());
        }
        Err(violations(validator, value))
    }
}

fn prepare(source: &Value) -> Result<(Validator, Cost), String> {
    let too_much = |why: String| format!("this JSON Schema costs too much: {why}");
    let cost = cost::of(source).map_err(too_much)?;
    if longest_list(source) > LIST_MAX {
        return Err(too_much(format!("it has a list of more than {LIST_MAX} entries")));
    }
    if patterns(source) > PATTERNS_MAX {
        return Err(too_much(format!("it has more than {PATTERNS_MAX} patterns")));
    }
    let options = jsonschema::options()
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX))
        .should_validate_formats(false);
    let compiled = options.build(source);
    let validator = compiled.map_err(|error| format!("this is no usable JSON Schema: {error}"))?;
    Ok((validator, cost))
}

/// The entries of the longest list of a schema, in whatever keyword it stands.
fn longest_list(source: &Value) -> usize {
    let (mut longest, mut waiting) = (0, vec![source]);
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(members) => waiting.extend(members.values()),
            Value::Array(list) => {
                longest = longest.max(list.len());
                waiting.extend(list);
            }
            _ => {}
        }
    }
    longest
}

/// How many patterns a schema has, wherever they stand.
pub(crate) fn patterns(source: &Value) -> usize {
    let (mut count, mut waiting) = (0, vec![source]);
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(members) => {
                count += usize::from(members.get("pattern").is_some_and(Value::is_string));
                let named = members.get("patternProperties").and_then(Value::as_object);
                count += named.map_or(0, serde_json::Map::len);
                waiting.extend(members.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    count
}

fn violations(validator: &Validator, value: &Value) -> String {
    let said = validator.iter_errors(value).take(VIOLATIONS_SHOWN).map(|error| {
        let path = error.instance_path().to_string();
        let text = if path.is_empty() { error.to_string() } else { format!("{path}: {error}") };
        match text.char_indices().nth(VIOLATION_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    });
    said.collect::<Vec<String>>().join("; ")
}
