//! Tokens that bind a pushed task to the URL that it was pushed to.
//!
//! A signature says who sent a message, and not to whom: whoever receives one could send it on to another receiver with the
//! same secret. So a push carries a token beside the signature: a JWT (HS256) whose audience is the URL, whose id is that of
//! the message, and whose time is the message's. A receiver that knows its own URL compares it, and any JWT library can.
//!
//! The text of a token follows from what it says, so a verifier makes the token that it expects and compares.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::secret::Secret;
use crate::verify::{TOLERANCE_SECONDS, Verifier, VerifyError};

/// The tokens of a push, one for each valid secret, separated by spaces, the newest first.
pub const HEADER_PUSH_TOKEN: &str = "tenure-push-token";

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// Maximum tokens of one message that are looked at.
const TOKENS_MAX: usize = 8;

/// The value of the header: a token for each secret.
pub fn push_tokens(secrets: &[Secret], audience: &str, id: &str, timestamp: i64) -> String {
    let tokens = secrets.iter().map(|secret| push_token(secret, audience, id, timestamp));
    tokens.collect::<Vec<_>>().join(" ")
}

/// One token: valid for as long as a message may be old.
pub fn push_token(secret: &Secret, audience: &str, id: &str, timestamp: i64) -> String {
    let (signed, mac) = signed(secret, audience, id, timestamp);
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

fn signed(secret: &Secret, audience: &str, id: &str, timestamp: i64) -> (String, Hmac<Sha256>) {
    let expires = timestamp.saturating_add(TOLERANCE_SECONDS);
    let (audience, id) = (escaped(audience), escaped(id));
    let claims = format!(
        r#"{{"iss":"tenure","aud":"{audience}","jti":"{id}","iat":{timestamp},"exp":{expires}}}"#
    );
    let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(claims));
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    (text, mac)
}

/// URLs and ids have no control characters.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"")
}

/// Verifies what is pushed to one URL: the signature, the time, and that it was meant for this URL.
#[derive(Clone, Debug)]
pub struct PushVerifier {
    verifier: Verifier,
    audience: String,
}

impl PushVerifier {
    /// `audience` is the URL of the endpoint, exactly as it was registered.
    pub fn new(secret: Secret, audience: impl Into<String>) -> Self {
        Self { verifier: Verifier::new(secret), audience: audience.into() }
    }

    /// Accepts this secret too, while a new one is rolled out.
    #[must_use]
    pub fn or(self, secret: Secret) -> Self {
        Self { verifier: self.verifier.or(secret), ..self }
    }

    /// Checks the values of the four headers and the body as it was received, against `now` in seconds since 1970. The id
    /// names run, task and attempt: [`crate::RecentIds`] recognises a push that comes twice.
    pub fn verify(
        &self,
        (id, timestamp, signatures, tokens): (&str, &str, &str, &str),
        body: &[u8],
        now: i64,
    ) -> Result<(), VerifyError> {
        self.verifier.verify(id, timestamp, signatures, body, now)?;
        let sent: i64 = timestamp.parse().map_err(|_| VerifyError::Timestamp)?;
        let mut tokens = tokens.split(' ').take(TOKENS_MAX);
        let fits = |token: &str| self.fits(token, id, sent);
        if tokens.any(fits) { Ok(()) } else { Err(VerifyError::Audience) }
    }

    fn fits(&self, token: &str, id: &str, sent: i64) -> bool {
        let Some((said, claimed)) = token.rsplit_once('.') else { return false };
        let Ok(claimed) = URL_SAFE_NO_PAD.decode(claimed) else { return false };
        self.verifier.secrets().iter().any(|secret| {
            let (expected, mac) = signed(secret, &self.audience, id, sent);
            // Compared in constant time by the MAC itself.
            expected == said && mac.verify_slice(&claimed).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sign::signatures;

    const URL: &str = "https://example.com/work";
    const NOW: i64 = 1_800_000_000;

    fn secret(byte: u8) -> Secret {
        Secret::from_bytes(vec![byte; 32]).expect("32 bytes are a secret")
    }

    fn judged(secrets: &[Secret], audience: &str, token_id: &str) -> Result<(), VerifyError> {
        let (id, time, body) = ("push_1_1", NOW.to_string(), b"{}");
        let signatures = signatures(secrets, id, NOW, body);
        let tokens = push_tokens(secrets, audience, token_id, NOW);
        let verifier = PushVerifier::new(secret(1), URL);
        verifier.verify((id, &time, &signatures, &tokens), body, NOW)
    }

    #[test]
    fn a_push_is_believed_only_at_the_url_and_attempt_that_it_was_meant_for() {
        // R-23: audience-bound. A receiver with the same secret elsewhere refuses it.
        assert_eq!(judged(&[secret(1)], URL, "push_1_1"), Ok(()));
        assert_eq!(judged(&[secret(2), secret(1)], URL, "push_1_1"), Ok(()), "after a rotation");
        let elsewhere = "https://example.com/other";
        assert_eq!(judged(&[secret(1)], elsewhere, "push_1_1"), Err(VerifyError::Audience));
        assert_eq!(judged(&[secret(1)], URL, "push_1_2"), Err(VerifyError::Audience));
        assert_eq!(judged(&[secret(2)], URL, "push_1_1"), Err(VerifyError::Signature));
        let verifier = PushVerifier::new(secret(1), URL);
        let (time, body) = (NOW.to_string(), b"{}");
        let signed = signatures(&[secret(1)], "push_1_1", NOW, body);
        let without = verifier.verify(("push_1_1", &time, &signed, ""), body, NOW);
        assert_eq!(without, Err(VerifyError::Audience));
        let late = verifier.verify(("push_1_1", &time, &signed, ""), body, NOW + 301);
        assert_eq!(late, Err(VerifyError::TooOld));
    }

    #[test]
    fn a_token_is_a_jwt_that_others_can_read() {
        let token = push_token(&secret(1), URL, "push_1_1", NOW);
        let parts: Vec<&str> = token.split('.').collect();
        let text = |part: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(part).expect("base64");
            serde_json::from_slice::<serde_json::Value>(&bytes).expect("JSON")
        };
        assert_eq!(text(parts[0])["alg"], "HS256");
        let claims = text(parts[1]);
        assert_eq!((&claims["aud"], &claims["jti"]), (&URL.into(), &"push_1_1".into()));
        assert_eq!(claims["exp"], NOW + 300);
    }
}
