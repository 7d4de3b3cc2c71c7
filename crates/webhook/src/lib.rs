//! Signatures of webhooks, as Standard Webhooks describes them: the coordinator signs, the SDK's users verify.
//!
//! What is signed is `id.timestamp.body`, byte for byte, with HMAC-SHA-256 under a secret of the endpoint. During a rotation
//! a message carries one signature for each secret that is valid, so a receiver may change over at any time.
//!
//! Work that is pushed carries a token beside the signature, which binds it to the URL that it was sent to.
//!
//! This crate is pure: the time comes in, nothing is sent, and no secret is made or kept here.
//!
//! Invariants:
//! - the same id, time, body and secret give the same signature (retries differ only in their time);
//! - signatures are compared in constant time;
//! - a secret never shows in `Debug`.

mod audience;
mod header;
mod recent;
mod secret;
mod sign;
mod verify;

pub use audience::{HEADER_PUSH_TOKEN, PushVerifier, push_token, push_tokens};
pub use header::{HEADER_ID, HEADER_SIGNATURE, HEADER_TIMESTAMP, is_message_id};
pub use recent::{RECENT_MAX, RecentIds, Seen};
pub use secret::{SECRET_MAX, SECRET_MIN, Secret, SecretError};
pub use sign::{SECRETS_MAX, signature, signatures};
pub use verify::{SIGNATURES_MAX, TOLERANCE_SECONDS, Verifier, VerifyError};
