//! Seals over the records of ended tasks, in one chain for each tenant.
//!
//! The digest of a record shows that it fits its rows, but a person who can write to the database can write both. So a
//! coordinator seals records shortly after their tasks ended, with a key that is in no database: each seal lists the
//! records it covers ([`Leaf`]) and follows the seal before it. A seal names tasks and never a position in a table: a
//! batch that commits late is not passed over, it waits for a later seal.
//!
//! The chain is public: anyone can recompute [`RecordSeal::chain_after`], so a copy of one value of it proves everything
//! before it. Only the holder of the key can make or check [`RecordSeal::seal`]. This module has no key.
//!
//! Invariants: the seals of a tenant are numbered from 1 without gaps, and no seal ever changes.

use verdict::{Digest, Name, TaskId, Time};

use crate::administration::Seal;
use crate::moving::canonical::CanonicalBytes;
use crate::row::Spec;

/// How many records one seal covers at most: 48 KiB of leaves, read as a whole to check one of them.
pub const LEAVES_MAX: usize = 1_024;

const LEAF: &[u8] = b"tenure sealed record 1";
const ROOT: &[u8] = b"tenure record seal root 1";
const CHAIN: &[u8] = b"tenure record seal 1";

/// A record that a seal covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub task: TaskId,
    /// See [`leaf_digest`].
    pub digest: Digest,
}

impl Leaf {
    const BYTES: usize = 48;

    fn bytes(&self) -> [u8; Leaf::BYTES] {
        let mut bytes = [0; Leaf::BYTES];
        bytes[..16].copy_from_slice(&self.task.as_u128().to_be_bytes());
        bytes[16..].copy_from_slice(self.digest.bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Self {
        let (task, digest) = bytes.split_at(16);
        let task = u128::from_be_bytes(task.try_into().expect("sixteen bytes"));
        let digest = Digest::from_bytes(digest.try_into().expect("thirty-two bytes"));
        Self { task: TaskId::from_u128(task), digest }
    }
}

/// What a seal says of an ended task: the digest of its record, and everything of its submission that no rule reads and
/// no record covers (goal, labels, keys). The input is part of the record.
pub fn leaf_digest(record: &Digest, spec: &Spec) -> Digest {
    let spec = CanonicalBytes::of_spec_without_input(spec);
    Digest::of(&[LEAF, record.bytes(), spec.as_bytes()])
}

/// An ended task as the sealer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRecord {
    pub tenant: Name,
    pub completed_at: Time,
    pub leaf: Leaf,
}

/// Which ended tasks to read for sealing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndedRecords {
    /// Those of these tasks that have ended and still exist.
    Of(Vec<TaskId>),
    /// Those that ended at this time or later, in an order of the engine's choice, after the last one of the page
    /// before. May read the whole table of ended tasks.
    Since { from: Time, after: Option<(Time, TaskId)>, limit: usize },
}

/// One seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSeal {
    pub tenant: Name,
    pub n: u64,
    pub at: Time,
    /// All records of all tenants that ended before this time were found when the seal was made. The next search for
    /// unsealed records begins here.
    pub complete_to: Time,
    /// The earliest and the latest end among the records.
    pub first_end: Time,
    pub last_end: Time,
    pub count: u32,
    /// The digest of the leaves.
    pub root: Digest,
    pub chain: Digest,
    pub seal: Seal,
    /// The records in the order of the seal; empty if the reader asked for none.
    pub leaves: Vec<Leaf>,
}

impl RecordSeal {
    /// The value of the chain after this seal, computed from what the seal says and the value before it.
    pub fn chain_after(&self, before: Option<&Digest>) -> Digest {
        let Self { tenant, n, at, complete_to, first_end, last_end, count, root, .. } = self;
        let times = [at, complete_to, first_end, last_end].map(|time| time.millis().to_be_bytes());
        Digest::of(&[
            CHAIN,
            before.map_or(&[], |before| before.bytes().as_slice()),
            tenant.as_str().as_bytes(),
            &n.to_be_bytes(),
            &times.concat(),
            &count.to_be_bytes(),
            root.bytes(),
        ])
    }

    /// The leaves as bytes, for a column.
    pub fn leaf_bytes(&self) -> Vec<u8> {
        self.leaves.iter().flat_map(Leaf::bytes).collect()
    }
}

/// The digest of leaves in their order.
pub fn root_of(leaves: &[Leaf]) -> Digest {
    let bytes: Vec<u8> = leaves.iter().flat_map(Leaf::bytes).collect();
    Digest::of(&[ROOT, &bytes])
}

/// Leaves from a column. Bytes that are no whole leaf are left out: the root will not match.
pub fn leaves_of(bytes: &[u8]) -> Vec<Leaf> {
    bytes.chunks_exact(Leaf::BYTES).map(Leaf::read).collect()
}

/// Which seals to read, in the order of tenants and numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealFilter {
    /// Only those of this tenant; `None` for all tenants.
    pub tenant: Option<Name>,
    pub of: SealsOf,
    pub leaves: Leaves,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealsOf {
    /// The newest of each tenant.
    Newest,
    /// All after this one.
    After(Option<(Name, u64)>),
}

/// Of which seals the leaves are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    None,
    /// Seals over records that ended within these times, both included.
    Between(Time, Time),
}

impl Leaves {
    pub const ALL: Self = Self::Between(Time::from_millis(i64::MIN), Time::from_millis(i64::MAX));

    /// The bounds as numbers; an empty range for none.
    pub(crate) fn bounds(self) -> (i64, i64) {
        match self {
            Self::None => (i64::MAX, i64::MIN),
            Self::Between(from, to) => (from.millis(), to.millis()),
        }
    }

    /// Whether the leaves of a seal over records of these times are read.
    pub fn include(self, first_end: Time, last_end: Time) -> bool {
        let (from, to) = self.bounds();
        last_end.millis() >= from && first_end.millis() <= to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(n: u8) -> Leaf {
        Leaf { task: TaskId::from_u128(u128::from(n)), digest: Digest::of(&[&[n]]) }
    }

    fn seal() -> RecordSeal {
        let leaves = vec![leaf(1), leaf(2)];
        RecordSeal {
            tenant: "acme".into(),
            n: 2,
            at: Time::from_millis(50),
            complete_to: Time::from_millis(5),
            first_end: Time::from_millis(10),
            last_end: Time::from_millis(40),
            count: 2,
            root: root_of(&leaves),
            chain: Digest::of(&[]),
            seal: Seal([0; Seal::BYTES]),
            leaves,
        }
    }

    #[test]
    fn leaves_survive_their_column_and_their_order_counts() {
        let sealed = seal();
        assert_eq!(leaves_of(&sealed.leaf_bytes()), sealed.leaves);
        let swapped = [leaf(2), leaf(1)];
        assert_ne!(root_of(&swapped), sealed.root);
        assert_ne!(root_of(&sealed.leaves[..1]), sealed.root);
    }

    #[test]
    fn every_member_of_a_seal_is_part_of_the_chain() {
        let before = Digest::of(&[b"before"]);
        let edits: [fn(&mut RecordSeal); 8] = [
            |seal| seal.tenant = "other".into(),
            |seal| seal.n += 1,
            |seal| seal.at = Time::from_millis(51),
            |seal| seal.complete_to = Time::from_millis(6),
            |seal| seal.first_end = Time::from_millis(11),
            |seal| seal.last_end = Time::from_millis(41),
            |seal| seal.count += 1,
            |seal| seal.root = Digest::of(&[b"other"]),
        ];
        let chain = seal().chain_after(Some(&before));
        for (n, edit) in edits.iter().enumerate() {
            let mut edited = seal();
            edit(&mut edited);
            assert_ne!(edited.chain_after(Some(&before)), chain, "edit {n}");
        }
        assert_ne!(seal().chain_after(None), chain);
    }

    #[test]
    fn leaves_are_read_where_the_times_overlap() {
        let time = Time::from_millis;
        let asked = Leaves::Between(time(20), time(30));
        for (first, last, is_read) in
            [(0, 19, false), (0, 20, true), (30, 40, true), (31, 40, false)]
        {
            assert_eq!(asked.include(time(first), time(last)), is_read, "{first} to {last}");
        }
        assert!(!Leaves::None.include(time(0), time(100)));
        assert!(Leaves::ALL.include(time(0), time(0)));
    }
}
