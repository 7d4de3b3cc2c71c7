//! Task tokens: exactly the issued tokens are accepted, until they expire.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use edge::token::{self, LIFETIME_DEFAULT, TokenScope};
use edge::{Keys, SigningKey};
use verdict::{LeaseId, Scope, TaskId, Time};

/// The longest name that the wire limits accept: tokens are issued only for such names.
const NAME_BYTES_MAX: usize = 128;
const NOW: Time = Time::from_millis(1_800_000_000_000);

pub fn token(bytes: &[u8]) {
    let keyring = Arc::new(SigningKey::new([7; 32], None));
    // Raw text is accepted only if it could have been issued, which needs the key.
    let text = String::from_utf8_lossy(bytes);
    assert!(token::verify(&keyring, &text, NOW).is_err(), "a forged token was believed");
    // Too few bytes to build from prove nothing.
    let _too_short = issued(&keyring, &mut Unstructured::new(bytes));
}

fn issued(keyring: &impl Keys, source: &mut Unstructured<'_>) -> Result<()> {
    let granted = TokenScope {
        scope: Scope::new(name(source)?, name(source)?),
        task: TaskId::from_u128(source.arbitrary()?),
        attempt: source.arbitrary()?,
        lease: LeaseId::from_u128(source.arbitrary()?),
        epoch: source.arbitrary()?,
        key: None,
        until: None,
    };
    let issued = token::issue(keyring, &granted, LIFETIME_DEFAULT, NOW);
    let principal = token::verify(keyring, &issued.token, NOW).expect("what we issue, we believe");
    assert_eq!(principal.token(), &granted, "a token says what it was issued for");
    assert!(token::verify(keyring, &issued.token, issued.expires_at).is_err(), "it ends");
    changed(keyring, &issued.token, source)
}

/// A token with one byte changed, removed or added is refused.
fn changed(keyring: &impl Keys, issued: &str, source: &mut Unstructured<'_>) -> Result<()> {
    let mut text = issued.as_bytes().to_vec();
    let at = source.choose_index(text.len())?;
    match source.int_in_range(0..=2)? {
        0 => text[at] ^= source.int_in_range(1..=127)?,
        1 => text.truncate(at),
        _ => text.insert(at, source.int_in_range(1..=127)?),
    }
    let text = String::from_utf8_lossy(&text);
    if text != issued {
        assert!(token::verify(keyring, &text, NOW).is_err(), "a changed token was believed");
    }
    Ok(())
}

/// A name that the wire limits accept.
fn name(source: &mut Unstructured<'_>) -> Result<String> {
    const LETTERS: &[u8] = b"ABCXYZabcxyz0189._:-";
    let length = source.int_in_range(1..=NAME_BYTES_MAX)?;
    (0..length).map(|_| Ok(char::from(*source.choose(LETTERS)?))).collect()
}
