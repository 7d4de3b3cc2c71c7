//! Secrets of endpoints: made here, shown once, and stored sealed.
//!
//! A copy of the store alone signs nothing: the key that opens the secrets is derived from the keyring, whose file is not
//! in the store. The keyring keeps what it needs to check old seals of the audit after every rotation, in an emergency too,
//! so a secret can be opened as long as its endpoint exists.

use edge::hex;
use hmac::{Hmac, KeyInit, Mac};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::Sha256;
use store::effects::{SealedSecret, StoredEndpoint};
use verdict::{Name, Scope, Time};
use webhook::{SECRETS_MAX, Secret};

use crate::admit::Keyring;
use crate::ids::Entropy;

/// What the key is derived for, so that it is no other key.
const PURPOSE: &[u8] = b"tenure webhook secrets 1";

/// Random bytes of a new secret.
const SECRET_BYTES: usize = 32;

/// A new secret.
pub(crate) fn generate(entropy: &mut dyn Entropy) -> Secret {
    let mut bytes = vec![0; SECRET_BYTES];
    entropy.fill(&mut bytes);
    Secret::from_bytes(bytes).expect("the length is within the bounds")
}

/// Seals a secret for one endpoint: nowhere else can it be opened.
pub(crate) fn seal(
    keyring: &Keyring,
    (scope, name): (&Scope, &Name),
    secret: &Secret,
    entropy: &mut dyn Entropy,
) -> SealedSecret {
    let (kid, key) = keyring.sealing_key();
    let mut nonce = [0; NONCE_LEN];
    entropy.fill(&mut nonce);
    let mut text = secret.reveal().into_bytes();
    let context = Aad::from(context(scope, name));
    aead(&key)
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), context, &mut text)
        .expect("a secret is short");
    let sealed = [&nonce[..], &text].concat();
    SealedSecret { sealed: hex(&sealed).into(), key: hex(&kid).into(), until: None }
}

/// The secrets that sign at this time, the newest first. One that cannot be opened is left out.
pub(crate) fn valid(
    keyring: &Keyring,
    scope: &Scope,
    stored: &StoredEndpoint,
    now: Time,
) -> Vec<Secret> {
    let is_valid = |sealed: &&SealedSecret| sealed.until.is_none_or(|until| !until.has_come(now));
    let place = (scope, &stored.endpoint.name);
    let sealed = stored.secrets.iter().filter(is_valid).take(SECRETS_MAX);
    sealed.filter_map(|sealed| open(keyring, place, sealed)).collect()
}

fn open(
    keyring: &Keyring,
    (scope, name): (&Scope, &Name),
    sealed: &SealedSecret,
) -> Option<Secret> {
    let key = keyring.sealing_key_of(&bytes(sealed.key.as_str())?)?;
    let sealed = bytes(sealed.sealed.as_str())?;
    let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut text = text.to_vec();
    let opened =
        aead(&key).open_in_place(nonce, Aad::from(context(scope, name)), &mut text).ok()?;
    Secret::parse(std::str::from_utf8(opened).ok()?).ok()
}

fn aead(key: &[u8]) -> LessSafeKey {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(PURPOSE);
    let key = UnboundKey::new(&CHACHA20_POLY1305, &mac.finalize().into_bytes());
    LessSafeKey::new(key.expect("a digest has the length of a key"))
}

fn context(scope: &Scope, name: &Name) -> Vec<u8> {
    let fields = [&scope.tenant, &scope.workspace, name];
    fields.map(|field| field.as_str()).join("\u{1f}").into_bytes()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    digits.len().is_multiple_of(2).then(|| (0..digits.len()).step_by(2).map(pair).collect())?
}

#[cfg(test)]
mod tests {
    use verdict::Span;
    use verdict::effect::Endpoint;

    use super::*;
    use crate::ids::SeededEntropy;

    fn stored(secrets: Vec<SealedSecret>) -> StoredEndpoint {
        let endpoint = Endpoint::new("mailer".into(), "https://example.com/".into());
        StoredEndpoint { endpoint, secrets, created_at: Time::default() }
    }

    #[test]
    fn a_secret_is_opened_only_at_its_endpoint_and_with_its_key() {
        let mut entropy = SeededEntropy::new(1);
        let (ring, other) = (Keyring::from_bytes([1; 32]), Keyring::from_bytes([2; 32]));
        let (scope, name) = (Scope::default(), Name::from("mailer"));
        let secret = generate(&mut entropy);
        let sealed = seal(&ring, (&scope, &name), &secret, &mut entropy);
        assert!(!sealed.sealed.as_str().contains(&secret.reveal()));
        let endpoint = stored(vec![sealed]);
        assert_eq!(valid(&ring, &scope, &endpoint, Time::default()), [secret]);
        assert_eq!(valid(&other, &scope, &endpoint, Time::default()), []);
        assert_eq!(valid(&ring, &Scope::new("a", "b"), &endpoint, Time::default()), []);
    }

    #[test]
    fn a_rotated_secret_signs_until_its_time() {
        // D9: every delivery verifies with a secret that is valid at that time.
        let mut entropy = SeededEntropy::new(2);
        let ring = Keyring::from_bytes([1; 32]);
        let (scope, name) = (Scope::default(), Name::from("mailer"));
        let (old, new) = (generate(&mut entropy), generate(&mut entropy));
        let until = Time::default().plus(Span::from_secs(60));
        let before =
            SealedSecret { until: Some(until), ..seal(&ring, (&scope, &name), &old, &mut entropy) };
        let endpoint = stored(vec![seal(&ring, (&scope, &name), &new, &mut entropy), before]);
        assert_eq!(valid(&ring, &scope, &endpoint, Time::default()), [new.clone(), old]);
        assert_eq!(valid(&ring, &scope, &endpoint, until), [new]);
    }
}
