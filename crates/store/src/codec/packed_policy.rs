//! A packed policy: it is written with every task and read with every task that is leased.

use verdict::Policy;

use super::Unreadable;
use super::pack::{PackReader, PackWriter};

/// Defines what the bytes after it mean. A different encoding gets a new form.
const FORM: u8 = 1;

#[must_use]
pub fn write(policy: &Policy) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    let mut writer = PackWriter(&mut bytes);
    writer.byte(FORM);
    writer.policy(policy);
    bytes
}

pub fn read(bytes: &[u8]) -> Result<Policy, Unreadable> {
    let mut from = PackReader(bytes);
    let policy = from.byte().filter(|form| *form == FORM).and_then(|_| from.policy());
    policy.filter(|_| from.is_empty()).ok_or_else(|| {
        let source = serde::de::Error::custom("the bytes are not a packed policy");
        Unreadable { what: "policy", source }
    })
}
