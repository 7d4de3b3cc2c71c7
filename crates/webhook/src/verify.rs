//! Verifying: what a receiver checks before it believes a message.
//!
//! A message is believed if one of its signatures fits one of the receiver's secrets and its time is near the receiver's.
//! The time is part of what is signed, so a recorded message cannot be sent again later. Within the tolerance it can:
//! [`crate::RecentIds`] recognises it, as it recognises our own retries.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::Mac;

use crate::header::is_message_id;
use crate::secret::Secret;
use crate::sign::mac;

/// How far the clocks of sender and receiver may be apart, in either direction.
pub const TOLERANCE_SECONDS: i64 = 5 * 60;

/// Maximum signatures of one message that are looked at. Each costs a MAC over the whole body.
pub const SIGNATURES_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("the id is missing, too long or has characters that no id has")]
    Id,
    #[error("the timestamp is not a whole number of seconds")]
    Timestamp,
    #[error("the message is older than the tolerance")]
    TooOld,
    #[error("the message is from the future")]
    TooNew,
    #[error("no signature fits")]
    Signature,
    #[error("no token binds the message to this URL")]
    Audience,
}

/// Verifies the messages of one endpoint.
#[derive(Clone, Debug)]
pub struct Verifier {
    secrets: Vec<Secret>,
    tolerance: i64,
}

impl Verifier {
    pub fn new(secret: Secret) -> Self {
        Self { secrets: vec![secret], tolerance: TOLERANCE_SECONDS }
    }

    /// Accepts this secret too: for a receiver that keeps the old one while the new one is rolled out.
    #[must_use]
    pub fn or(mut self, secret: Secret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Checks the values of the three headers and the body as it was received, byte for byte, against `now` in seconds
    /// since 1970.
    pub fn verify(
        &self,
        id: &str,
        timestamp: &str,
        signatures: &str,
        body: &[u8],
        now: i64,
    ) -> Result<(), VerifyError> {
        if !is_message_id(id) {
            return Err(VerifyError::Id);
        }
        self.check_time(timestamp, now)?;
        let mut candidates = signatures.split(' ').take(SIGNATURES_MAX);
        let fits = |candidate| self.fits(candidate, id, timestamp, body);
        if candidates.any(fits) { Ok(()) } else { Err(VerifyError::Signature) }
    }

    pub(crate) fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    fn check_time(&self, timestamp: &str, now: i64) -> Result<(), VerifyError> {
        let is_digits = !timestamp.is_empty() && timestamp.bytes().all(|it| it.is_ascii_digit());
        let sent: i64 = timestamp.parse().map_err(|_| VerifyError::Timestamp)?;
        if !is_digits {
            return Err(VerifyError::Timestamp);
        }
        match now.saturating_sub(sent) {
            age if age > self.tolerance => Err(VerifyError::TooOld),
            age if age < -self.tolerance => Err(VerifyError::TooNew),
            _ => Ok(()),
        }
    }

    fn fits(&self, candidate: &str, id: &str, timestamp: &str, body: &[u8]) -> bool {
        let Some(encoded) = candidate.strip_prefix("v1,") else { return false };
        let Ok(claimed) = STANDARD.decode(encoded) else { return false };
        // Compared in constant time by the MAC itself.
        let matches =
            |secret: &Secret| mac(secret, id, timestamp, body).verify_slice(&claimed).is_ok();
        self.secrets.iter().any(matches)
    }
}
