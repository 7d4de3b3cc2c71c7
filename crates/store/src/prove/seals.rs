//! Compares records with the seals of their tenant, and checks the chain of seals.
//!
//! The whole chain is read, so that a seal which was removed, added, reordered or changed is found whatever run is
//! proved; the leaves are read only of seals that may cover the records.

use std::collections::{BTreeSet, HashMap};

use verdict::{Digest, Name, Span, TaskId, Time};

use super::{ProofFinding, ProvedRecord};
use crate::browse::Browse;
use crate::failure::Failure;
use crate::record_seals::{EndedRecords, Leaf, Leaves, RecordSeal, SealFilter, SealsOf, root_of};

/// How many seals are read at once: at most 3 MiB of leaves.
const PAGE: usize = 64;

/// A chain with this many findings needs a backup, not a longer list.
const FINDINGS_MAX: usize = 100;

/// How far the unsealed tail of a tenant is counted.
const TAIL_MAX: usize = 10_000;

/// How much later than its decision a batch may commit. No coordinator keeps a transaction open for nearly as long, so
/// a record that ended longer before [`RecordSeal::complete_to`] and is in no seal was not there when it was made.
pub const LATE_COMMITS: Span = Span::from_secs(60 * 60);

/// What the holder of the sealing key says of a seal's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealCheck {
    Valid,
    /// The code is not that of the seal.
    Forged,
    /// It was made with a key that is not known here. Holds its name.
    UnknownKey(String),
    /// No key is at hand.
    Unchecked,
}

/// A copy of one value of the chain that is kept outside of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnchoredSeal {
    pub n: u64,
    pub chain: Digest,
}

/// What is known beside the store.
pub struct Evidence<'a> {
    /// Checks the code of a seal.
    pub judge: &'a (dyn Fn(&RecordSeal) -> SealCheck + Sync),
    pub anchor: Option<&'a AnchoredSeal>,
    /// Whether each seal must list its records. In a bundle only those do that cover its run.
    pub lists_all: bool,
}

/// What the seals say of the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SealProof {
    /// How many seals the tenant has.
    pub seals: u64,
    /// How many of them were checked with their key.
    pub keyed: u64,
    /// How many of the records are in a seal that matches.
    pub sealed: u64,
    /// Records that are in no seal yet.
    pub unsealed: Vec<TaskId>,
    /// The newest seal: its number, its time, and the value of the chain, which anyone may keep.
    pub newest: Option<(u64, Time, Digest)>,
    /// How many records of the tenant ended after those in the newest seal: the unsealed tail. Counted up to a limit.
    pub tail: u64,
    /// Which seal covers each record.
    pub by_task: HashMap<TaskId, u64>,
    pub findings: Vec<ProofFinding>,
}

/// Checks the chain of a tenant and the records against it.
pub async fn check_seals<B: Browse>(
    browse: &B,
    tenant: &Name,
    records: &[ProvedRecord],
    evidence: &Evidence<'_>,
) -> Result<SealProof, Failure> {
    let mut check = Check::new(records, evidence);
    let mut after = Some((tenant.clone(), 0));
    loop {
        let of = SealsOf::After(after.take());
        let leaves = check.wanted;
        let filter = SealFilter { tenant: Some(tenant.clone()), of, leaves, limit: PAGE };
        let page = browse.record_seals(&filter).await?;
        let Some(last) = page.last() else { break };
        after = Some((last.tenant.clone(), last.n));
        page.iter().for_each(|seal| check.seal(seal));
    }
    let sealed_to = check.sealed_to;
    let mut proof = check.end(tenant);
    proof.tail = tail(browse, tenant, sealed_to).await?;
    proof.findings.truncate(FINDINGS_MAX);
    Ok(proof)
}

/// How many records of the tenant ended after this time.
async fn tail<B: Browse>(
    browse: &B,
    tenant: &Name,
    sealed_to: Option<Time>,
) -> Result<u64, Failure> {
    let from = sealed_to.map_or(Time::from_millis(i64::MIN), |at| at.plus(Span::from_millis(1)));
    let of = EndedRecords::Since { from, after: None, limit: TAIL_MAX };
    let ended = browse.ended_records(&of).await?;
    Ok(ended.iter().filter(|record| record.tenant == *tenant).count() as u64)
}

/// Seals whose leaves may name one of the records.
fn leaves_for(records: &[ProvedRecord]) -> Leaves {
    let ends = records.iter().map(|record| record.completed_at);
    match (ends.clone().min(), ends.max()) {
        (Some(first), Some(last)) => Leaves::Between(first, last),
        _ => Leaves::None,
    }
}

/// The seals that cover a task which is not stored any more: of all tenants, with the digest that it had.
pub async fn find_sealed<B: Browse>(
    browse: &B,
    task: TaskId,
) -> Result<Option<(RecordSeal, Leaf)>, Failure> {
    let mut after = None;
    loop {
        let of = SealsOf::After(after.take());
        let filter = SealFilter { tenant: None, of, leaves: Leaves::ALL, limit: PAGE };
        let page = browse.record_seals(&filter).await?;
        let Some(last) = page.last() else { return Ok(None) };
        after = Some((last.tenant.clone(), last.n));
        for seal in page {
            if let Some(leaf) = seal.leaves.iter().find(|leaf| leaf.task == task).copied() {
                return Ok(Some((seal, leaf)));
            }
        }
    }
}

struct Check<'a> {
    records: HashMap<TaskId, &'a ProvedRecord>,
    /// The seals that list the records.
    wanted: Leaves,
    evidence: &'a Evidence<'a>,
    before: Option<(u64, Digest)>,
    /// The latest end that a seal covers.
    sealed_to: Option<Time>,
    /// All records that ended earlier were found and sealed.
    complete_to: Option<Time>,
    unknown_keys: BTreeSet<String>,
    proof: SealProof,
}

impl<'a> Check<'a> {
    fn new(records: &'a [ProvedRecord], evidence: &'a Evidence<'a>) -> Self {
        let wanted = leaves_for(records);
        let records = records.iter().map(|record| (record.task, record)).collect();
        Self {
            records,
            wanted,
            evidence,
            before: None,
            sealed_to: None,
            complete_to: None,
            unknown_keys: BTreeSet::new(),
            proof: SealProof::default(),
        }
    }

    fn find(&mut self, code: &'static str, what: String) {
        if self.proof.findings.len() < FINDINGS_MAX {
            self.proof.findings.push(ProofFinding { code, task: None, what });
        }
    }

    fn seal(&mut self, seal: &RecordSeal) {
        self.proof.seals += 1;
        self.check_link(seal);
        self.check_code(seal);
        self.check_anchor(seal);
        let is_listed = self.wanted.include(seal.first_end, seal.last_end);
        if is_listed && (self.evidence.lists_all || !seal.leaves.is_empty()) {
            self.check_leaves(seal);
        }
        self.before = Some((seal.n, seal.chain));
        self.sealed_to = self.sealed_to.max(Some(seal.last_end));
        self.complete_to = self.complete_to.max(Some(seal.complete_to));
        self.proof.newest = Some((seal.n, seal.at, seal.chain));
    }

    /// The seal follows the one before it.
    fn check_link(&mut self, seal: &RecordSeal) {
        let (last, chain) = self.before.unzip();
        let next = last.unwrap_or(0) + 1;
        if seal.n != next {
            let missing = match seal.n - 1 {
                last if last == next => format!("seal {next} is missing"),
                last => format!("seals {next} to {last} are missing"),
            };
            return self.find("seal_missing", missing);
        }
        if seal.chain_after(chain.as_ref()) != seal.chain {
            let what = format!("seal {} was changed, or the seal before it was exchanged", seal.n);
            self.find("seal_differs", what);
        }
    }

    fn check_code(&mut self, seal: &RecordSeal) {
        match (self.evidence.judge)(seal) {
            SealCheck::Valid => self.proof.keyed += 1,
            SealCheck::Unchecked => {}
            SealCheck::Forged => {
                let what = format!("seal {} was not made with the key it names", seal.n);
                self.find("seal_forged", what);
            }
            SealCheck::UnknownKey(key) => {
                let what = format!("seal {} was made with an unknown key: {key}", seal.n);
                if self.unknown_keys.insert(key) {
                    self.find("seal_key_unknown", what);
                }
            }
        }
    }

    fn check_anchor(&mut self, seal: &RecordSeal) {
        let Some(anchor) = self.evidence.anchor.filter(|anchor| anchor.n == seal.n) else { return };
        if anchor.chain != seal.chain {
            let what = format!("seal {} differs from the one that the anchor names", seal.n);
            self.find("anchor_differs", what);
        }
    }

    fn check_leaves(&mut self, seal: &RecordSeal) {
        if root_of(&seal.leaves) != seal.root || seal.leaves.len() != seal.count as usize {
            let what = format!("the records that seal {} lists are not those it sealed", seal.n);
            self.find("seal_differs", what);
        }
        for leaf in &seal.leaves {
            let Some(record) = self.records.get(&leaf.task) else { continue };
            if record.leaf == leaf.digest {
                self.proof.by_task.insert(leaf.task, seal.n);
                continue;
            }
            let what = format!(
                "its record, or what it was submitted with, is not what seal {} sealed",
                seal.n
            );
            self.proof.findings.push(ProofFinding::of("sealed_record_differs", leaf.task, what));
            self.records.remove(&leaf.task);
        }
    }

    fn end(mut self, tenant: &Name) -> SealProof {
        let last = self.before.map_or(0, |(n, _)| n);
        if let Some(anchor) = self.evidence.anchor.filter(|anchor| anchor.n > last) {
            let (from, to) = (last + 1, anchor.n);
            let what = format!("seals {from} to {to} of tenant {tenant} were made and are missing");
            self.find("seals_truncated", what);
        }
        let late = |time: Time| {
            Time::from_millis(time.millis().saturating_sub(LATE_COMMITS.millis() as i64))
        };
        let complete_to = self.complete_to.map(late);
        let mut unsealed: Vec<&ProvedRecord> = Vec::new();
        for record in self.records.values() {
            match self.proof.by_task.contains_key(&record.task) {
                true => self.proof.sealed += 1,
                false => unsealed.push(record),
            }
        }
        unsealed.sort_by_key(|record| record.task);
        for record in unsealed {
            if complete_to.is_some_and(|complete_to| record.completed_at < complete_to) {
                let what = "its record is in no seal, although all records of its time were sealed";
                let finding = ProofFinding::of("record_not_sealed", record.task, what);
                self.proof.findings.push(finding);
            } else {
                self.proof.unsealed.push(record.task);
            }
        }
        self.proof
    }
}
