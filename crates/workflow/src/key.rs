//! The identity of an operation: `branch/name#count`.
//!
//! The branch is a path of branch names, empty for the function's own branch. The count numbers the operations of one
//! name in one branch, so that a key does not depend on what other branches do. Kinds other than steps are part of the
//! name (`signal:go#1`, `approval:ship#1`, `delivery:mail#1`, `child:resize#2`, `sleep#1`,
//! `sleep:cool-off#1`), so two operations with equal keys are of the same kind.
//!
//! A key may have a part after the count: `charge#1.2` is the second failed try of `charge#1`, and `signal:go#1.timeout`
//! the timer beside a signal.
//!
//! Invariant: names contain none of `/`, `#` and `:`, so a key that this module wrote is split in exactly one way.

use std::fmt;
use std::sync::Arc;

use wire::limits::NAME_BYTES_MAX;

/// The name of a sleep, or what begins it.
pub(crate) const SLEEP: &str = "sleep";
/// The name of every savepoint.
pub(crate) const SAVEPOINT: &str = "savepoint";
/// Names that a step cannot have: they are keys of another kind.
const RESERVED: [&str; 2] = [SLEEP, SAVEPOINT];
/// The part of a key that names the timer beside an awaited signal.
pub(crate) const TIMEOUT: &str = "timeout";
/// Begins the name of an approval in its key.
const APPROVAL: &str = "approval:";
/// Begins the key of a wait.
const WAIT: &str = "wait:";
/// Begins the name of a version marker, which replay may skip.
const PATCHED: &str = "patched:";

/// What an operation is, as far as its key shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Step,
    Sleep,
    Signal,
    Approval,
    /// What becomes of an effect.
    Delivery,
    Child,
    Patched,
    Savepoint,
    /// Code with an order of its own; its name is a part of the keys inside it.
    Branch,
    /// Several at once; only its members have keys.
    All,
    /// The first of several; only its members have keys.
    Any,
    /// Reads the time; it is not recorded and has no key.
    Now,
}

impl OperationKind {
    /// The name in the key.
    pub(crate) fn label(self, name: &str) -> String {
        match self {
            OperationKind::Step | OperationKind::Branch => name.to_owned(),
            OperationKind::Sleep if name.is_empty() => SLEEP.to_owned(),
            OperationKind::Sleep => format!("{SLEEP}:{name}"),
            OperationKind::Signal => format!("signal:{name}"),
            OperationKind::Approval => format!("{APPROVAL}{name}"),
            OperationKind::Delivery => format!("delivery:{name}"),
            OperationKind::Child => format!("child:{name}"),
            OperationKind::Patched => format!("{PATCHED}{name}"),
            OperationKind::Savepoint => SAVEPOINT.to_owned(),
            OperationKind::All => "all".to_owned(),
            OperationKind::Any => "any".to_owned(),
            OperationKind::Now => "now".to_owned(),
        }
    }

    /// Whether an operation of this kind can have this name.
    pub(crate) fn accepts(self, name: &str) -> bool {
        match self {
            OperationKind::Sleep => name.is_empty() || is_name(name),
            OperationKind::Savepoint
            | OperationKind::All
            | OperationKind::Any
            | OperationKind::Now => true,
            _ => is_name(name),
        }
    }
}

/// The path of a branch; the function's own branch is empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Branch(Arc<str>);

impl Branch {
    pub(crate) fn root() -> Branch {
        Branch("".into())
    }

    pub(crate) fn inner(&self, name: &str) -> Branch {
        Branch(self.path(name).into())
    }

    pub(crate) fn key(&self, label: &str, count: u64) -> String {
        format!("{}#{count}", self.path(label))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn path(&self, name: &str) -> String {
        if self.0.is_empty() { name.to_owned() } else { format!("{}/{name}", self.0) }
    }
}

impl fmt::Debug for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A recorded key, split.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed<'k> {
    pub(crate) branch: &'k str,
    /// The key without its part.
    pub(crate) operation: &'k str,
    pub(crate) count: u64,
}

/// Splits a recorded key. A key that no engine wrote is an operation of the function's own branch.
pub(crate) fn parse(key: &str) -> Parsed<'_> {
    let unknown = Parsed { branch: "", operation: key, count: 0 };
    let Some((path, tail)) = key.rsplit_once('#') else { return unknown };
    let digits = tail.split_once('.').map_or(tail, |(count, _)| count);
    let Ok(count) = digits.parse() else { return unknown };
    let branch = path.rsplit_once('/').map_or("", |(branch, _)| branch);
    Parsed { branch, operation: &key[..path.len() + 1 + digits.len()], count }
}

/// The key of a wait, which names what is awaited and is no operation itself.
pub(crate) fn wait(items: &str) -> String {
    format!("{WAIT}{items}")
}

pub(crate) fn is_wait(key: &str) -> bool {
    key.starts_with(WAIT)
}

pub(crate) fn is_patch(operation: &str) -> bool {
    let name = operation.rsplit_once('/').map_or(operation, |(_, name)| name);
    name.starts_with(PATCHED)
}

/// The name of the approval that a key is of.
pub(crate) fn approval_name(key: &str) -> Option<&str> {
    let operation = parse(key).operation;
    let name = operation.rsplit_once('/').map_or(operation, |(_, name)| name);
    name.strip_prefix(APPROVAL)?.rsplit_once('#').map(|(name, _)| name)
}

/// Whether steps, signals, approvals, children, branches and labels can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty() && name.bytes().all(is_plain) && !RESERVED.contains(&name)
}

/// Whether the coordinator's tables and indexes can hold the key, with its longest part, also as the key of a wait.
pub(crate) fn fits(key: &str) -> bool {
    const PART_BYTES: usize = "wait:".len() + ".100.wait".len();
    key.len() + PART_BYTES <= NAME_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_split_where_it_was_joined() {
        let branch = Branch::root().inner("left").inner("deep");
        let key = branch.key(&OperationKind::Signal.label("go"), 12);
        assert_eq!(key, "left/deep/signal:go#12");
        let parsed = parse("left/deep/signal:go#12.timeout");
        assert_eq!((parsed.branch, parsed.operation, parsed.count), ("left/deep", &*key, 12));
        let root = parse("charge#1.2");
        assert_eq!((root.branch, root.operation, root.count), ("", "charge#1", 1));
    }

    #[test]
    fn a_key_of_another_writer_is_an_operation_nobody_asks_for() {
        for key in ["resize/7", "charge#", "charge#x", ""] {
            assert_eq!(parse(key), Parsed { branch: "", operation: key, count: 0 });
        }
    }

    #[test]
    fn names_leave_the_separators_to_the_key() {
        assert!(["charge", "page-7", "v2.1", "a_b"].into_iter().all(is_name));
        assert!(!["", "a/b", "a#1", "a:b", "é", "sleep", "savepoint"].into_iter().any(is_name));
        assert_eq!(approval_name("left/approval:ship#1"), Some("ship"));
        assert_eq!(approval_name("left/signal:ship#1"), None);
        assert!(is_patch("left/patched:fix#1") && !is_patch("patched/charge#1"));
    }
}
