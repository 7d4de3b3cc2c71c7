//! For receivers of webhooks: verify what arrives before you believe it.
//!
//! ```
//! use tenure::webhooks::{RecentIds, Secret, Seen, Verifier};
//!
//! # fn handle(id: &str, timestamp: &str, signature: &str, body: &[u8], now: i64) -> Result<(), Box<dyn std::error::Error>> {
//! // The secret that `tenure endpoints create` printed.
//! let verifier = Verifier::new(Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?);
//! let mut recent = RecentIds::default();
//!
//! // The headers webhook-id, webhook-timestamp and webhook-signature, and the body as it was received.
//! verifier.verify(id, timestamp, signature, body, now)?;
//! if recent.note(id, now) == Seen::First {
//!     // Handle it. What must not happen twice keeps the id in its own transaction instead.
//! }
//! # Ok(()) }
//! ```
//!
//! While a secret is rotated, [`Verifier::or`] accepts the old one beside the new one.

pub use webhook::{
    HEADER_ID, HEADER_PUSH_TOKEN, HEADER_SIGNATURE, HEADER_TIMESTAMP, PushVerifier, RecentIds,
    Secret, SecretError, Seen, TOLERANCE_SECONDS, Verifier, VerifyError,
};
