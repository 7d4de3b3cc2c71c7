//! Text that leaves the coordinator, comes back and must be verified: task tokens, cursors of
//! listings, and digests that do not depend on the spelling of their input.
//!
//! Pure: no clock, no randomness, no file, no store. The coordinator stores and rotates the signing
//! keys; here they are [`Keys`]. This is a separate crate so that hostile input can be tested
//! against it without building a store.

pub mod canonical;
mod cursor;
pub mod digests;
mod signing_key;
pub mod token;
mod token_keys;

use std::sync::Arc;

use verdict::Time;

pub use self::cursor::Cursors;
pub use self::signing_key::{HmacSha256, KEY_BYTES, KID_BYTES, SigningKey, mac};

/// The signing keys.
pub trait Keys {
    /// The key that signs.
    fn current(&self) -> Arc<SigningKey>;

    /// Every key whose signatures are accepted now.
    fn accepted(&self, now: Time) -> Vec<Arc<SigningKey>>;

    /// The key that a signature names, if it is accepted now.
    fn find(&self, is_named: impl Fn(&SigningKey) -> bool, now: Time) -> Option<Arc<SigningKey>>;
}

/// A single key.
impl Keys for Arc<SigningKey> {
    fn current(&self) -> Arc<SigningKey> {
        self.clone()
    }

    fn accepted(&self, now: Time) -> Vec<Arc<SigningKey>> {
        Vec::from_iter(self.is_valid_at(now).then(|| self.clone()))
    }

    fn find(&self, is_named: impl Fn(&SigningKey) -> bool, now: Time) -> Option<Arc<SigningKey>> {
        (is_named(self) && self.is_valid_at(now)).then(|| self.clone())
    }
}

pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}
