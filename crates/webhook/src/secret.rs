//! The secret of an endpoint: 24 to 64 random bytes, written `whsec_` and base64.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bounds that Standard Webhooks sets: 192 bits cannot be guessed, and 64 bytes are the block of SHA-256.
pub const SECRET_MIN: usize = 24;
pub const SECRET_MAX: usize = 64;

const PREFIX: &str = "whsec_";

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("a secret is written as base64, with or without `whsec_` before it")]
    NotBase64,
    #[error("a secret has {SECRET_MIN} to {SECRET_MAX} bytes")]
    Length,
}

impl Secret {
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, SecretError> {
        if (SECRET_MIN..=SECRET_MAX).contains(&bytes.len()) {
            Ok(Self(bytes))
        } else {
            Err(SecretError::Length)
        }
    }

    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let encoded = text.strip_prefix(PREFIX).unwrap_or(text);
        let bytes = STANDARD.decode(encoded).map_err(|_| SecretError::NotBase64)?;
        Self::from_bytes(bytes)
    }

    /// The text that a receiver is given, once.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
