//! A JSON Schema of somebody else, tested against a value at a bounded cost.
//!
//! The same engine and the same bounds as for schemas in a topology: no fetching, patterns in linear time, and a schema that
//! multiplies its work is refused before it is tested.

use serde_json::Value;

use crate::schema::Schema;
use crate::work::Work;

/// Whether the value fits. `Err` names the first violations, or says why the schema cannot be used.
///
/// ```
/// use serde_json::json;
/// use topology::value_schema::fits;
/// let schema = json!({"type": "object", "required": ["name"]});
/// assert!(fits(&schema, &json!({"name": "Ada"})).is_ok());
/// assert!(fits(&schema, &json!({})).unwrap_err().contains("name"));
/// ```
pub fn fits(schema: &Value, value: &Value) -> Result<(), String> {
    Schema::compile(schema)?.test(value, &mut Work::of_check())
}
