//! Signing: one signature for each valid secret, separated by spaces.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::secret::Secret;

/// How many secrets of one endpoint are valid at once: the newest and the one before it.
pub const SECRETS_MAX: usize = 2;

/// The value of the signature header: `v1,…` for each secret, the newest first.
pub fn signatures(secrets: &[Secret], id: &str, timestamp: i64, body: &[u8]) -> String {
    let signed = secrets.iter().map(|secret| signature(secret, id, timestamp, body));
    signed.collect::<Vec<_>>().join(" ")
}

/// One signature, `v1,` with the base64 of the MAC.
pub fn signature(secret: &Secret, id: &str, timestamp: i64, body: &[u8]) -> String {
    let mac = mac(secret, id, &timestamp.to_string(), body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// The MAC over `id.timestamp.body`, with the time as it is written in the header.
pub(crate) fn mac(secret: &Secret, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("HMAC takes keys of any length");
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    mac
}
