//! Identifiers: opaque to the rules, and typed so that they cannot be confused.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use ulid::Ulid;

/// A task. A run is a task without a parent, so `run_…` and `task_…` share their ULID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u128);

impl TaskId {
    pub const fn from_u128(value: u128) -> Self {
        Self(value)
    }

    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// The name of the run whose root this task is.
    pub fn run_name(self) -> String {
        format!("run_{}", Ulid(self.0))
    }

    /// Parses `task_<ULID>` or `run_<ULID>`, in the one spelling that we print.
    pub fn parse(text: &str) -> Option<Self> {
        let ulid = text.strip_prefix("task_").or_else(|| text.strip_prefix("run_"))?;
        canonical(ulid).map(Self)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task_{}", Ulid(self.0))
    }
}

/// One acquisition of a task's lease. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(u128);

impl LeaseId {
    pub const fn from_u128(value: u128) -> Self {
        Self(value)
    }

    pub const fn as_u128(self) -> u128 {
        self.0
    }

    pub fn parse(text: &str) -> Option<Self> {
        canonical(text.strip_prefix("lease_")?).map(Self)
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease_{}", Ulid(self.0))
    }
}

/// Accepts only the spelling that we print, so that one id has one spelling.
fn canonical(text: &str) -> Option<u128> {
    let ulid = Ulid::from_str(text).ok()?;
    let mut printed = [0; ulid::ULID_LEN];
    (ulid.array_to_str(&mut printed) == text).then_some(ulid.0)
}

/// Passed to user code for its own writes: larger than every earlier fence of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    pub const fn new(epoch: u32, claim_version: u32) -> Self {
        Self(((epoch as u64) << 32) | claim_version as u64)
    }

    pub const fn from_u64(value: u64) -> Self {
        Self(value)
    }

    pub const fn as_u64(self) -> u64 {
        self.0
    }

    pub const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

macro_rules! shared_text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
    };
}

shared_text!(
    /// A short identifier chosen by people: kind, queue, worker, tenant. Checked at the edge.
    Name
);
shared_text!(
    /// Free text from people or workers. Repaired at the edge, never interpreted.
    Text
);
shared_text!(
    /// A JSON document, kept byte for byte. The rules never parse it.
    Json
);

/// Tenant and workspace: the first part of every key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    pub tenant: Name,
    pub workspace: Name,
}

impl Scope {
    pub fn new(tenant: impl Into<Name>, workspace: impl Into<Name>) -> Self {
        Self { tenant: tenant.into(), workspace: workspace.into() }
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self::new("default", "default")
    }
}

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Digests a list of fields. Each field is preceded by its length, so that different lists
    /// never produce the same input.
    pub fn of(fields: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for field in fields {
            hash.update((field.len() as u64).to_be_bytes());
            hash.update(field);
        }
        Self(hash.finalize().into())
    }

    /// SHA-256 of these bytes and nothing else, as everybody's tools compute it.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses the 64 hexadecimal digits that `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).expect("hexadecimal digits are ASCII"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
