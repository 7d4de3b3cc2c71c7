//! Payloads that the coordinator stores but cannot read: encrypted or compressed by clients and workers.
//!
//! Stored form: `{"$codec": name, "data": base64}`, the same in every language. Digests of inputs are those of the plain
//! values, under a key of the codec, so that a replay does not depend on a nonce. Effects, approvals, progress and errors stay
//! plain: the coordinator, people or a receiver outside read them.
//!
//! Values are sealed on their way out of this crate and opened on their way in. Handlers, durable functions and the engine
//! see plain values alone.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use wire::Json;
use wire::limits::PAYLOAD_BYTES_MAX;
use wire::requests::SubmitRun;
use workflow::DigestFn;

use crate::Error;

/// Turns the bytes of a payload into other bytes, and back. See [`Client::with_codec`](crate::Client::with_codec).
///
/// A submission that a caller repeats with the same idempotency key, after a crash for example, is found only if its bytes are
/// the same: such a codec is deterministic, with a nonce made from the plain bytes. Retries of one call never encode twice.
///
/// ```
/// use tenure::Codec;
///
/// /// Only to show the shape: use an authenticated cipher, and an HMAC for the digest.
/// struct Turned;
///
/// type Problem = Box<dyn std::error::Error + Send + Sync>;
///
/// impl Codec for Turned {
///     fn name(&self) -> &str { "turned" }
///     fn encode(&self, plain: &[u8]) -> Result<Vec<u8>, Problem> { Ok(plain.iter().map(|byte| !byte).collect()) }
///     fn decode(&self, stored: &[u8]) -> Result<Vec<u8>, Problem> { Ok(stored.iter().map(|byte| !byte).collect()) }
///     fn digest(&self, plain: &[u8]) -> [u8; 32] { [plain.len() as u8; 32] }
/// }
///
/// # fn example() -> Result<(), tenure::Error> {
/// let client = tenure::Client::from_env()?.with_codec(Turned);
/// # let _ = client; Ok(()) }
/// ```
pub trait Codec: Send + Sync {
    /// Stands beside the bytes, so that a reader knows what wrote them. A codec with another key has another name.
    fn name(&self) -> &str;

    /// What is stored.
    fn encode(&self, plain: &[u8]) -> Result<Vec<u8>, Box<dyn StdError + Send + Sync>>;

    /// What was written.
    fn decode(&self, stored: &[u8]) -> Result<Vec<u8>, Box<dyn StdError + Send + Sync>>;

    /// What identifies the plain bytes: an HMAC under a key of the codec. Equal for equal bytes, for as long as runs live.
    fn digest(&self, plain: &[u8]) -> [u8; 32];
}

/// The codec of a client, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Sealer(Option<Arc<dyn Codec>>);

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sealer").field(&self.0.as_ref().map(|codec| codec.name())).finish()
    }
}

/// The stored form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    #[serde(rename = "$codec")]
    codec: String,
    data: String,
}

/// What every stored form contains. Text without it need not be read.
const MARK: &str = "\"$codec\"";

/// Members of an object, or items of a list, as they were written.
type Members = BTreeMap<String, Json>;

impl Sealer {
    pub(crate) fn new(codec: impl Codec + 'static) -> Sealer {
        Sealer(Some(Arc::new(codec)))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// What identifies inputs, for the engine of durable functions.
    pub(crate) fn digest(&self) -> Option<DigestFn> {
        let codec = Arc::clone(self.0.as_ref()?);
        Some(Arc::new(move |plain: &[u8]| codec.digest(plain)))
    }

    /// The stored form of a plain value, or why there is none. Null stays null in every language.
    pub(crate) fn seal(&self, plain: Json) -> Result<Json, String> {
        let Some(codec) = self.0.as_ref().filter(|_| !plain.is_null()) else { return Ok(plain) };
        let stored = codec
            .encode(plain.text().as_bytes())
            .map_err(|why| format!("cannot be encoded by the codec `{}`: {why}", codec.name()))?;
        let sealed = Sealed { codec: codec.name().to_owned(), data: STANDARD.encode(stored) };
        let json = Json::from_value(&sealed).expect("two texts have a JSON form");
        let bytes = json.text().len();
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(format!(
                "has {bytes} bytes as the codec stores it, more than the {PAYLOAD_BYTES_MAX} allowed; store it \
                 elsewhere and pass a reference"
            ));
        }
        Ok(json)
    }

    /// The plain value of a stored one. A value that no codec wrote is plain; parts of it may not be, as in the input of a step
    /// of a plan.
    pub(crate) fn open(&self, stored: Json) -> Result<Json, String> {
        if !stored.text().contains(MARK) {
            return Ok(stored);
        }
        if let Ok(sealed) = stored.read::<Sealed>() {
            return self.unseal(&sealed);
        }
        if self.0.is_none() {
            return Ok(stored);
        }
        map_parts(stored, &mut |part| self.open(part))
    }

    fn unseal(&self, sealed: &Sealed) -> Result<Json, String> {
        let Some(codec) = self.0.as_ref().filter(|codec| codec.name() == sealed.codec) else {
            return Err(format!(
                "was written by the codec `{}`; give client and worker that codec",
                sealed.codec
            ));
        };
        let cannot = |why: &dyn fmt::Display| {
            format!("cannot be decoded by the codec `{}`: {why}", sealed.codec)
        };
        let stored = STANDARD.decode(&sealed.data).map_err(|why| cannot(&why))?;
        let plain = codec.decode(&stored).map_err(|why| cannot(&why))?;
        let text = String::from_utf8(plain).map_err(|why| cannot(&why))?;
        Json::from_text(text).map_err(|why| cannot(&why))
    }

    /// A submission with its inputs in stored form.
    pub(crate) fn seal_run(&self, mut run: SubmitRun) -> Result<SubmitRun, String> {
        if self.0.is_none() {
            return Ok(run);
        }
        let problem = |why| format!("the input {why}");
        run.input = self.seal(run.input).map_err(problem)?;
        for step in run.plan.iter_mut().flat_map(|plan| &mut plan.steps) {
            step.input = self.seal_parts(std::mem::take(&mut step.input)).map_err(problem)?;
        }
        Ok(run)
    }

    /// The input of a step of a plan. The coordinator must find the references in it, and puts sealed outputs there.
    fn seal_parts(&self, plain: Json) -> Result<Json, String> {
        match references(&plain) {
            References::None => self.seal(plain),
            References::Itself => Ok(plain),
            References::Inside => map_parts(plain, &mut |part| self.seal_parts(part)),
        }
    }
}

/// Submissions are sealed once, before they are sent.
pub(crate) fn sealed(sealer: &Sealer, run: SubmitRun) -> Result<SubmitRun, Error> {
    sealer.seal_run(run).map_err(Error::Setup)
}

/// Changes the members of an object or the items of a list, and leaves every other value.
fn map_parts(
    json: Json,
    change: &mut dyn FnMut(Json) -> Result<Json, String>,
) -> Result<Json, String> {
    let written = |json: Result<Json, serde_json::Error>| json.map_err(|why| why.to_string());
    if let Ok(members) = json.read::<Members>() {
        let changed = members.into_iter().map(|(name, part)| Ok((name, change(part)?)));
        return written(Json::from_value(&changed.collect::<Result<Members, String>>()?));
    }
    if let Ok(items) = json.read::<Vec<Json>>() {
        let changed = items.into_iter().map(change).collect::<Result<Vec<Json>, String>>()?;
        return written(Json::from_value(&changed));
    }
    Ok(json)
}

enum References {
    None,
    /// The value is a reference.
    Itself,
    /// One is somewhere in it.
    Inside,
}

fn references(json: &Json) -> References {
    let has = |part: &Json| !matches!(references(part), References::None);
    if let Ok(members) = json.read::<Members>() {
        return match members {
            members if members.contains_key("$literal") => References::None,
            members if members.contains_key("$from") => References::Itself,
            members if members.values().any(has) => References::Inside,
            _ => References::None,
        };
    }
    match json.read::<Vec<Json>>() {
        Ok(items) if items.iter().any(has) => References::Inside,
        _ => References::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Turned(&'static str);

    impl Codec for Turned {
        fn name(&self) -> &str {
            self.0
        }

        fn encode(&self, plain: &[u8]) -> Result<Vec<u8>, Box<dyn StdError + Send + Sync>> {
            Ok(plain.iter().rev().copied().collect())
        }

        fn decode(&self, stored: &[u8]) -> Result<Vec<u8>, Box<dyn StdError + Send + Sync>> {
            self.encode(stored)
        }

        fn digest(&self, _: &[u8]) -> [u8; 32] {
            [7; 32]
        }
    }

    fn json(text: &str) -> Json {
        Json::from_text(text.to_owned()).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_again_and_null_stays_null() {
        let sealer = Sealer::new(Turned("turned"));
        let plain = json(r#"{"id":12345678901234567890123,"a":[1.50]}"#);
        let stored = sealer.seal(plain.clone()).unwrap();
        assert!(stored.text().starts_with(r#"{"$codec":"turned","data":""#), "{}", stored.text());
        assert_eq!(sealer.open(stored).unwrap(), plain);
        assert!(sealer.seal(Json::null()).unwrap().is_null());
        assert_eq!(Sealer::default().seal(plain.clone()).unwrap(), plain);
    }

    #[test]
    fn a_value_of_another_codec_names_the_codec_that_is_needed() {
        let stored = Sealer::new(Turned("old")).seal(json("1")).unwrap();
        for sealer in [Sealer::default(), Sealer::new(Turned("new"))] {
            let why = sealer.open(stored.clone()).unwrap_err();
            assert!(why.contains("`old`; give client and worker that codec"), "{why}");
        }
        let broken = json(r#"{"$codec":"new","data":"?"}"#);
        assert!(Sealer::new(Turned("new")).open(broken).unwrap_err().contains("cannot be decoded"));
    }

    #[test]
    fn a_value_that_only_looks_sealed_is_plain() {
        let sealer = Sealer::new(Turned("turned"));
        for text in
            [r#"{"$codec":"turned"}"#, r#"{"$codec":"a","data":"","more":1}"#, r#""$codec""#]
        {
            assert_eq!(sealer.open(json(text)).unwrap(), json(text));
        }
    }

    #[test]
    fn references_of_a_plan_stay_where_the_coordinator_finds_them() {
        let sealer = Sealer::new(Turned("turned"));
        let plain = json(
            r#"{"data":{"$literal":{"$from":"x"}},"from":{"$from":"b"},"list":[1,{"$from":"c"}]}"#,
        );
        let stored = sealer.seal_parts(plain.clone()).unwrap();
        let seen: serde_json::Value = stored.read().unwrap();
        assert_eq!(seen["from"], serde_json::json!({"$from": "b"}));
        assert_eq!(seen["list"][1], serde_json::json!({"$from": "c"}));
        assert_eq!(seen["list"][0]["$codec"], "turned");
        assert_eq!(seen["data"]["$codec"], "turned");
        assert_eq!(sealer.open(stored).unwrap(), plain);
    }

    #[test]
    fn a_value_that_grows_beyond_the_limit_is_refused() {
        let large = json(&format!("\"{}\"", "x".repeat(200_000)));
        assert!(
            Sealer::new(Turned("turned")).seal(large).unwrap_err().contains("store it elsewhere")
        );
    }
}
