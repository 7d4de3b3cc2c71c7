//! The canonical form of JSON: RFC 8785, and every integer with all its digits.
//!
//! Digests of payloads are taken of this form, by the coordinator and by every SDK, so it is defined once, beside the
//! shapes. A tree of `serde_json` would round integers that neither 64 bits nor a double can hold. Here only strings and
//! numbers with a fraction or an exponent are parsed, and integers are copied digit by digit. Every level of nesting
//! reads its text once more, and the wire bounds the levels.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Appends the canonical form of one JSON value.
///
/// ```
/// let mut text = Vec::new();
/// wire::canonical::rewrite(&mut text, r#"{ "b": 1.0, "a": 12345678901234567890123 }"#).unwrap();
/// assert_eq!(text, br#"{"a":12345678901234567890123,"b":1}"#);
/// ```
pub fn rewrite(text: &mut Vec<u8>, json: &str) -> Result<(), serde_json::Error> {
    match json.as_bytes().first() {
        Some(b'{') => object(text, serde_json::from_str(json)?),
        Some(b'[') => array(text, serde_json::from_str(json)?),
        Some(b'-' | b'0'..=b'9') if is_integer(json) => {
            text.extend_from_slice(json.as_bytes());
            Ok(())
        }
        _ => {
            let scalar: Value = serde_json::from_str(json)?;
            serde_json_canonicalizer::to_writer(&scalar, text)
        }
    }
}

/// Members are ordered by the UTF-16 code units of their names, as RFC 8785 says.
fn object(
    text: &mut Vec<u8>,
    members: BTreeMap<String, &RawValue>,
) -> Result<(), serde_json::Error> {
    let mut members: Vec<(String, &RawValue)> = members.into_iter().collect();
    members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    text.push(b'{');
    for (n, (name, value)) in members.into_iter().enumerate() {
        if n > 0 {
            text.push(b',');
        }
        serde_json::to_writer(&mut *text, &name)?;
        text.push(b':');
        rewrite(text, value.get())?;
    }
    text.push(b'}');
    Ok(())
}

fn array(text: &mut Vec<u8>, items: Vec<&RawValue>) -> Result<(), serde_json::Error> {
    text.push(b'[');
    for (n, item) in items.into_iter().enumerate() {
        if n > 0 {
            text.push(b',');
        }
        rewrite(text, item.get())?;
    }
    text.push(b']');
    Ok(())
}

/// Minus zero is written as zero, like every number that is parsed.
fn is_integer(json: &str) -> bool {
    json != "-0" && !json.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}
