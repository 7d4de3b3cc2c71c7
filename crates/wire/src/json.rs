//! Opaque JSON: passed from a client to its worker and back, never interpreted by us.
//!
//! The text is kept byte for byte. Parsing it into a tree and writing it back would change numbers
//! and the order of members, and digests taken on both sides would differ.

mod finite;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value as the text it arrived in.
///
/// ```
/// use wire::Json;
/// let json = Json::from_text(r#"{"b": 1.0,  "a":2}"#.to_owned()).unwrap();
/// assert_eq!(serde_json::to_string(&json).unwrap(), r#"{"b": 1.0,  "a":2}"#);
/// ```
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    pub fn null() -> Json {
        Json(RawValue::NULL.to_owned())
    }

    /// Takes text that is one valid JSON value; surrounding white space is dropped.
    pub fn from_text(text: String) -> Result<Json, serde_json::Error> {
        RawValue::from_string(text).map(Json)
    }

    /// Writes a value. NaN and the infinities are refused: JSON does not have them, and null would be another value.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Json, serde_json::Error> {
        finite::check(value)?;
        serde_json::value::to_raw_value(value).map(Json)
    }

    pub fn text(&self) -> &str {
        self.0.get()
    }

    pub fn into_text(self) -> String {
        let text: Box<str> = self.0.into();
        text.into()
    }

    pub fn is_null(&self) -> bool {
        self.text() == "null"
    }

    /// Parses the value into a type that the caller chooses.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text())
    }
}

impl Default for Json {
    fn default() -> Json {
        Json::null()
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A payload may hold secrets: its size is enough to debug with.
        write!(f, "Json({} bytes)", self.text().len())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Json)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Json {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
        ObjectBuilder::new()
            .schema_type(SchemaType::AnyValue)
            .description(Some(
                "Any JSON value of at most 262144 bytes and 32 levels, in Unicode, without two members of one name \
                 in an object and without numbers beyond every double (1e400). It is kept byte for byte, integers \
                 beyond 2^53 with all their digits.",
            ))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Json {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_bytes_it_was_given() {
        let text = r#"{"b":1.00,"a":[ 1e2 , "\u0041" ]}"#;
        let json: Json = serde_json::from_str(text).unwrap();
        assert_eq!(json.text(), text);
        assert_eq!(serde_json::to_string(&json).unwrap(), text);
        assert_eq!(json.into_text(), text);
    }

    #[test]
    fn a_number_that_json_does_not_have_is_refused_wherever_it_stands() {
        #[derive(Serialize)]
        struct Deep {
            rows: Vec<(u8, Option<f64>)>,
        }
        let deep = |number| Deep { rows: vec![(1, None), (2, Some(number))] };
        assert_eq!(Json::from_value(&deep(0.5)).unwrap().text(), r#"{"rows":[[1,null],[2,0.5]]}"#);
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let refused = Json::from_value(&deep(number)).unwrap_err().to_string();
            assert!(refused.contains("JSON has no number"), "{refused}");
        }
        assert!(Json::from_value(&f32::NAN).is_err());
        let inner = Json::from_text("1.00".to_owned()).unwrap();
        assert_eq!(Json::from_value(&[inner]).unwrap().text(), "[1.00]");
    }

    #[test]
    fn is_null_unless_told_otherwise_and_never_prints_its_content() {
        assert!(Json::default().is_null());
        let secret = Json::from_value("hunter2").unwrap();
        assert_eq!(format!("{secret:?}"), "Json(9 bytes)");
        assert_eq!(secret.read::<String>().unwrap(), "hunter2");
    }
}
