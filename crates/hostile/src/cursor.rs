//! Cursors of listings: only a cursor that this coordinator issued for this scope is accepted.

use std::sync::Arc;

use edge::{Cursors, Keys, SigningKey};
use verdict::{Scope, TaskId, Time};

pub fn cursor(bytes: &[u8]) {
    let keyring = Arc::new(SigningKey::new([5; 32], None));
    let (scope, now) = (Scope::default(), Time::default());
    let cursors = Cursors { keyring: &keyring, scope: &scope, now };
    // Forging a cursor needs the key, so an accepted text must be the canonical spelling.
    let text = String::from_utf8_lossy(bytes);
    if let Some(last) = cursors.read(&text) {
        assert_eq!(cursors.write(last), text, "a second spelling of a cursor");
    }
    let mut id = [0; 16];
    let length = bytes.len().min(id.len());
    id[..length].copy_from_slice(&bytes[..length]);
    let last = TaskId::from_u128(u128::from_be_bytes(id));
    let written = cursors.write(last);
    assert_eq!(cursors.read(&written), Some(last), "what we write, we read");
    changed(&cursors, &written, &bytes[length..]);
}

/// A cursor of ours with one byte changed is refused.
fn changed(cursors: &Cursors<'_, impl Keys>, written: &str, edit: &[u8]) {
    let [at, mask, ..] = edit else { return };
    let mut text = written.as_bytes().to_vec();
    let at = usize::from(*at) % text.len();
    text[at] ^= mask & 0x7f;
    let text = String::from_utf8_lossy(&text);
    if text != written {
        assert_eq!(cursors.read(&text), None, "a changed cursor was read");
    }
}
