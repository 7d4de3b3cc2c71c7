//! The text of a cookie: a session, encrypted and authenticated with a key that is derived from the signing keys.
//!
//! It begins with the name of the signing key, so that a rotation keeps the sessions for as long as it keeps tokens, and
//! an emergency rotation ends them. Text that was not sealed here, or was changed, opens to nothing.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use edge::{KID_BYTES, Keys, SigningKey};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use verdict::{Digest, Name, Scope, Time};

use super::{ID_BYTES, Session};
use crate::admit::keyring::Keyring;
use crate::ids::Entropy;

const PURPOSE: &str = "console-session";

/// Associated data, so that the bytes are not mistaken for anything else; the name of the signing key follows.
const CONTEXT: &[u8] = b"tenure console session 1";

const DIGEST_BYTES: usize = 32;
const TIME_BYTES: usize = 8;

/// Much longer than any text that was sealed here: names of keys have 16 characters.
const TEXT_BYTES_MAX: usize = 512;

impl Session {
    pub(crate) fn seal(&self, keyring: &Keyring, entropy: &mut dyn Entropy) -> String {
        let mut nonce = [0; NONCE_LEN];
        entropy.fill(&mut nonce);
        let signing = keyring.current();
        let mut sealed = self.bytes();
        cipher(&signing)
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                aad(signing.kid()),
                &mut sealed,
            )
            .expect("a session is short");
        let kid = crate::admit::keyring::kid_bytes(signing.kid());
        URL_SAFE_NO_PAD.encode([&kid[..], &nonce, &sealed].concat())
    }

    /// `None` for text that was not sealed with a key that is accepted now.
    pub(crate) fn open(text: &str, keyring: &Keyring, now: Time) -> Option<Session> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (kid, rest) = bytes.split_at_checked(KID_BYTES)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let kid = crate::admit::hex(kid);
        let signing = keyring.find(|key| key.kid() == kid, now)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = cipher(&signing).open_in_place(nonce, aad(&kid), &mut sealed).ok()?;
        Session::of_bytes(opened)
    }

    fn bytes(&self) -> Vec<u8> {
        let Session { id, key, secret, page, began_at, ends_at } = self;
        [
            &id[..],
            secret.bytes(),
            page.bytes(),
            &began_at.millis().to_be_bytes(),
            &ends_at.millis().to_be_bytes(),
            key.as_str().as_bytes(),
        ]
        .concat()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Session> {
        let (id, bytes) = bytes.split_first_chunk::<ID_BYTES>()?;
        let (secret, bytes) = bytes.split_first_chunk::<DIGEST_BYTES>()?;
        let (page, bytes) = bytes.split_first_chunk::<DIGEST_BYTES>()?;
        let (began_at, bytes) = bytes.split_first_chunk::<TIME_BYTES>()?;
        let (ends_at, key) = bytes.split_first_chunk::<TIME_BYTES>()?;
        Some(Session {
            id: *id,
            key: Name::from(std::str::from_utf8(key).ok()?),
            secret: Digest::from_bytes(*secret),
            page: Digest::from_bytes(*page),
            began_at: Time::from_millis(i64::from_be_bytes(*began_at)),
            ends_at: Time::from_millis(i64::from_be_bytes(*ends_at)),
        })
    }
}

/// No scope: which one it is, only the opened session says.
fn cipher(signing: &SigningKey) -> LessSafeKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, &signing.derive(PURPOSE, &Scope::default()));
    LessSafeKey::new(key.expect("a derived key has the length of one"))
}

fn aad(kid: &str) -> Aad<Vec<u8>> {
    Aad::from([CONTEXT, kid.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::keyring::Rotation;
    use crate::ids::SeededEntropy;
    use verdict::Span;

    fn session() -> Session {
        Session {
            id: [7; ID_BYTES],
            key: "0123456789abcdef".into(),
            secret: Digest::of(&[b"secret"]),
            page: Digest::of(&[b"page"]),
            began_at: Time::from_millis(1_000),
            ends_at: Time::from_millis(2_000),
        }
    }

    const NOW: Time = Time::from_millis(1_500);

    #[test]
    fn only_what_was_sealed_here_opens() {
        let keyring = Keyring::from_bytes([3; 32]);
        let mut entropy = SeededEntropy::new(8);
        let text = session().seal(&keyring, &mut entropy);
        assert_eq!(Session::open(&text, &keyring, NOW), Some(session()));
        assert_ne!(session().seal(&keyring, &mut entropy), text, "each has a nonce of its own");
        for at in 0..text.len() {
            assert_eq!(Session::open(&text[..at], &keyring, NOW), None, "cut at {at}");
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let changed = String::from_utf8(bytes).unwrap();
                assert_eq!(Session::open(&changed, &keyring, NOW), None, "byte {at} bit {bit}");
            }
        }
        assert_eq!(Session::open(&format!("{text}AA"), &keyring, NOW), None);
        assert_eq!(Session::open(&"A".repeat(100_000), &keyring, NOW), None);
        let other = Keyring::from_bytes([4; 32]);
        assert_eq!(Session::open(&text, &other, NOW), None, "another installation");
    }

    #[test]
    fn nothing_of_it_can_be_read() {
        let text = session().seal(&Keyring::from_bytes([3; 32]), &mut SeededEntropy::new(8));
        let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        let key = session().key;
        assert!(!bytes.windows(key.as_str().len()).any(|it| it == key.as_str().as_bytes()));
    }

    #[test]
    fn a_rotation_keeps_sessions_as_long_as_tokens_and_an_emergency_ends_them() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = Keyring::open(&folder.path().join("key")).unwrap();
        let mut entropy = SeededEntropy::new(9);
        let text = session().seal(&keyring, &mut entropy);
        keyring.rotate(&mut entropy, Rotation::Overlap(Span::from_secs(60)), NOW).unwrap();
        assert_eq!(Session::open(&text, &keyring, NOW), Some(session()));
        assert_eq!(Session::open(&text, &keyring, NOW.plus(Span::from_secs(60))), None);
        let text = session().seal(&keyring, &mut entropy);
        keyring.rotate(&mut entropy, Rotation::Emergency, NOW).unwrap();
        assert_eq!(Session::open(&text, &keyring, NOW), None);
    }
}
