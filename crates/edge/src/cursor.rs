//! Cursors of listings: opaque to clients, signed, and valid for one scope only (X14).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac;
use verdict::{Scope, TaskId, Time};

use super::{HmacSha256, Keys, SigningKey, mac};

const PURPOSE: &str = "cursor";
const ID_BYTES: usize = 16;

/// Half of the hash: a guess succeeds once in 2^128 tries.
const TAG_BYTES: usize = 16;

/// Parses and writes the cursors of one scope.
pub struct Cursors<'a, K> {
    pub keyring: &'a K,
    pub scope: &'a Scope,
    pub now: Time,
}

impl<K: Keys> Cursors<'_, K> {
    pub fn write(&self, last: TaskId) -> String {
        let id = last.as_u128().to_be_bytes();
        let tag = self.mac(&self.keyring.current(), &id).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([&id, &tag[..TAG_BYTES]].concat())
    }

    /// `None` for text that this coordinator did not write for this scope.
    pub fn read(&self, text: &str) -> Option<TaskId> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (id, tag) = bytes.split_first_chunk::<ID_BYTES>()?;
        if tag.len() != TAG_BYTES {
            return None;
        }
        let mut keys = self.keyring.accepted(self.now).into_iter();
        keys.find(|key| self.mac(key, id).verify_truncated_left(tag).is_ok())?;
        Some(TaskId::from_u128(u128::from_be_bytes(*id)))
    }

    fn mac(&self, key: &SigningKey, id: &[u8]) -> HmacSha256 {
        mac(&key.derive(PURPOSE, self.scope)).chain_update(id)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_cursor_reads_back_in_its_own_scope_only() {
        // X14: tampered or foreign cursors are refused.
        let keyring = Arc::new(SigningKey::new([5; 32], None));
        let (mine, theirs) = (Scope::default(), Scope::new("other", "default"));
        let now = Time::default();
        let cursors = Cursors { keyring: &keyring, scope: &mine, now };
        let last = TaskId::from_u128(77);
        let text = cursors.write(last);
        assert_eq!(cursors.read(&text), Some(last));
        assert_eq!(Cursors { keyring: &keyring, scope: &theirs, now }.read(&text), None);
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let changed = String::from_utf8(bytes).unwrap();
                assert_eq!(cursors.read(&changed), None, "byte {at} bit {bit}");
            }
            assert_eq!(cursors.read(&text[..at]), None);
        }
    }
}
