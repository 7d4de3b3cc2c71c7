//! The version of a topology: a digest of its normalised form.
//!
//! Comments, order of members, spelling of lengths of time and members that state the default do not change it.

use sha2::{Digest as _, Sha256};

use crate::declaration::Declaration;

/// `sha256:` and 64 hexadecimal digits over the canonical JSON (RFC 8785) of the declaration with its defaults, and how many
/// bytes that JSON has.
#[must_use]
pub fn of(declaration: &Declaration) -> (String, u64) {
    let canonical = serde_json_canonicalizer::to_vec(declaration)
        .expect("a declaration has only members that JSON can hold");
    let digest = Sha256::digest(&canonical);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    (format!("sha256:{hex}"), canonical.len() as u64)
}
