//! JSON Schemas in a topology: compiled once, tested often, at a cost that is known before.
//!
//! Patterns use the engine with linear time, and a reference to another document is refused: nothing is fetched. What testing
//! costs at most is computed from the schema ([`cost`]), and a schema that multiplies its work is refused. `format` is an
//! annotation, as in the current draft: checking one may compile the value itself.

mod cost;

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

/// A compiled JSON Schema.
#[derive(Debug, Clone)]
pub(crate) enum Schema {
    Usable {
        validator: Validator,
        cost: Cost,
    },
    /// Testing would cost too much. No value fits it, for this reason.
    TooCostly(String),
}

/// Why there is no schema.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    Invalid(String),
    TooCostly(String),
}

impl Schema {
    pub(crate) fn compile(schema: &Value) -> Result<Self, Unusable> {
        let cost = cost::of(schema).map_err(Unusable::TooCostly)?;
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX);
        jsonschema::options()
            .with_pattern_options(patterns)
            .should_validate_formats(false)
            .build(schema)
            .map(|validator| Self::Usable { validator, cost })
            .map_err(|error| Unusable::Invalid(format!("this is no usable JSON Schema: {error}")))
    }

    /// What testing a value costs at most.
    pub(crate) fn steps(&self, value: &Value) -> u64 {
        match self {
            Self::Usable { cost, .. } => size_of(value).saturating_mul(cost.verdict),
            Self::TooCostly(_) => 0,
        }
    }

    /// `Err` names the first violations and where they are, or says that testing would cost too much.
    pub(crate) fn test(&self, value: &Value, work: &mut Work) -> Result<(), String> {
        let (validator, cost) = match self {
            Self::Usable { validator, cost } => (validator, cost),
            Self::TooCostly(why) => return Err(why.clone()),
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
