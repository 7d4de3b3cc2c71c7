//! Digests of inputs, and numbers drawn from a seed: SHA-256 over text that every language can write.
//!
//! Nothing here is random: a number is a function of seed, branch, label and count, so one more draw never shifts
//! another.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};
use wire::Json;

use crate::key::Branch;

/// What identifies bytes instead of SHA-256: an HMAC under a key that the coordinator does not have, where the values
/// themselves are stored in a form that it cannot read.
pub type DigestFn = Arc<dyn Fn(&[u8]) -> [u8; 32] + Send + Sync>;

/// SHA-256 of a value's canonical JSON, as 64 hexadecimal digits in text.
///
/// ```
/// use workflow::{Digest, Json};
/// let one = Digest::of(&serde_json::json!({"b": 1, "a": [true, null]})).unwrap();
/// let other = Digest::of_json(&Json::from_text(r#"{ "a": [true, null], "b": 1.0 }"#.to_owned()).unwrap());
/// assert_ne!(one, Digest::of(&1).unwrap());
/// assert_eq!(one.to_string(), other.to_string());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of anything with a JSON form.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Digest, serde_json::Error> {
        Json::from_value(value).map(|json| Digest::of_json(&json))
    }

    /// The digest of JSON in any spelling.
    pub fn of_json(json: &Json) -> Digest {
        Digest(Sha256::digest(canonical(json)).into())
    }

    /// The digest of a value under a key, or its SHA-256 if there is none.
    pub(crate) fn under<T: Serialize + ?Sized>(
        digest: Option<&DigestFn>,
        value: &T,
    ) -> Result<Digest, serde_json::Error> {
        let json = Json::from_value(value)?;
        Ok(match digest {
            Some(digest) => Digest(digest(&canonical(&json))),
            None => Digest::of_json(&json),
        })
    }

    pub fn from_bytes(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The text that identifies JSON in any spelling.
fn canonical(json: &Json) -> Vec<u8> {
    let mut text = Vec::with_capacity(json.text().len());
    if wire::canonical::rewrite(&mut text, json.text()).is_err() {
        // A number beyond every double has no canonical form; its text identifies it.
        text.clear();
        text.extend_from_slice(json.text().as_bytes());
    }
    text
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 hexadecimal digits")]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Digest, NotADigest> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotADigest);
        }
        for (n, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).map_err(|_| NotADigest)?;
        }
        Ok(Digest(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// 32 bytes for the `count`-th draw under a label: SHA-256 of `seed\nbranch\nlabel\ncount`, numbers in decimal.
pub(crate) fn draw(seed: u64, branch: &Branch, label: &str, count: u64) -> [u8; 32] {
    let text = format!("{seed}\n{}\n{label}\n{count}", branch.as_str());
    Sha256::digest(text.as_bytes()).into()
}

/// The first eight bytes of a draw, as a number.
pub(crate) fn first_u64(bytes: [u8; 32]) -> u64 {
    let mut head = [0; 8];
    head.copy_from_slice(&bytes[..8]);
    u64::from_be_bytes(head)
}

/// A number in [0, 1): the upper 53 bits, which a double holds exactly.
pub(crate) fn unit(number: u64) -> f64 {
    const STEPS: f64 = (1_u64 << 53) as f64;
    (number >> 11) as f64 / STEPS
}

/// The text of a UUID of version 4: the first sixteen bytes of a draw, with the bits that say what it is.
pub(crate) fn uuid(bytes: [u8; 32]) -> String {
    let mut head = [0; 16];
    head.copy_from_slice(&bytes[..16]);
    head[6] = (head[6] & 0x0f) | 0x40;
    head[8] = (head[8] & 0x3f) | 0x80;
    let digits = format!("{:032x}", u128::from_be_bytes(head));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}
