//! What passes the door as text and must be recognised again: task tokens, cursors of listings, and digests of what
//! somebody said, whatever its spelling.
//!
//! Pure: no clock, no randomness, no file, no store. Where signing keys are kept and how they are rotated is the
//! coordinator's; here they are [`Keys`]. A crate of its own so that hostile input reaches this code without a store
//! being built.

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

/// The signing keys there are.
pub trait Keys {
    /// The one that signs.
    fn current(&self) -> Arc<SigningKey>;

    /// Every key whose signatures count now.
    fn accepted(&self, now: Time) -> Vec<Arc<SigningKey>>;

    /// The key that a signature names, if it counts now.
    fn find(&self, is_named: impl Fn(&SigningKey) -> bool, now: Time) -> Option<Arc<SigningKey>>;
}

/// A key that is alone.
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
