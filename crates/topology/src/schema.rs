//! JSON Schemas in a topology: compiled once, tested often.
//!
//! Patterns use the engine with linear time, and a reference to another document is refused: nothing is fetched and
//! nothing can run away.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// The most violations that one reason names.
const VIOLATIONS_SHOWN: usize = 3;

/// A compiled JSON Schema.
#[derive(Debug, Clone)]
pub(crate) struct Schema(Validator);

impl Schema {
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        jsonschema::options()
            .with_pattern_options(PatternOptions::regex())
            .build(schema)
            .map(Self)
            .map_err(|error| format!("this is no usable JSON Schema: {error}"))
    }

    /// `Err` names the first violations and where they are.
    pub(crate) fn test(&self, value: &Value) -> Result<(), String> {
        let violations: Vec<String> = self
            .0
            .iter_errors(value)
            .take(VIOLATIONS_SHOWN)
            .map(|error| {
                let path = error.instance_path().to_string();
                if path.is_empty() { error.to_string() } else { format!("{path}: {error}") }
            })
            .collect();
        if violations.is_empty() { Ok(()) } else { Err(violations.join("; ")) }
    }
}
