//! The key that seals the audit: derived from a signing key, and kept when that key is gone.

use edge::{KEY_BYTES, KID_BYTES, SigningKey};
use verdict::Scope;

/// The sealing key of a signing key that no longer signs: enough to verify the seals it made, and to
/// make nothing but seals.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SealingKey {
    pub(super) kid: String,
    pub(super) key: [u8; KEY_BYTES],
}

const SEALING: &str = "audit-seal";

/// The entries of all tenants are one log, so their scope is no tenant's.
pub(super) fn sealing(key: &SigningKey) -> [u8; KEY_BYTES] {
    key.derive(SEALING, &Scope::default())
}

pub(in crate::admit) fn kid_bytes(kid: &str) -> [u8; KID_BYTES] {
    std::array::from_fn(|at| {
        let pair = kid.get(2 * at..2 * at + 2).expect("a key's name has two digits for each byte");
        u8::from_str_radix(pair, 16).expect("a key's name is hexadecimal")
    })
}
