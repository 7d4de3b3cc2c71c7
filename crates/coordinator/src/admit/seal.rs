//! Seals on the audit: they reveal entries that were changed, removed, added or reordered without the key.
//!
//! Each entry carries a message authentication code over its content, its number and the previous seal. The key is
//! derived from the key file and is in no database. The newest seal is also stored in a file beside the key file
//! (the anchor), so that a log which was truncated at its end is detected too. An entry without a seal is as
//! suspicious as one with a wrong seal, unless it dates from before this store had seals, which the store records.
//!
//! What this cannot detect: a change by an attacker who also has the key file; a truncation by an attacker who also
//! restores an older anchor (copy the anchor to where they cannot write); and the removal of all seals by an
//! attacker who also rewrote when the store got its format, if there is no anchor.

mod anchor;

use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use edge::{HmacSha256, KID_BYTES, hex, mac};
use hmac::Mac;
use store::{
    Administration, Audit, AuditFilter, Audited, Browse, CommitFailure, Failure, FailureKind, Seal,
    Store, Writer,
};

use self::anchor::Anchor;
pub(super) use self::anchor::is_anchored;
pub use self::anchor::{anchor_path, read_anchor};
use super::keyring::Keyring;

/// How many times an act is sealed again because other coordinators wrote in between. Enough for many busy ones.
const TRIES_MAX: usize = 64;

/// Entries read in one page.
const PAGE: usize = 1_000;

/// A log with this many findings needs a backup, not a longer list.
const FINDINGS_MAX: usize = 100;

/// The predecessor of the first seal.
const NOTHING: [u8; Seal::BYTES] = [0; Seal::BYTES];

/// The end of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    n: u64,
    seal: Option<Seal>,
}

impl Head {
    /// How many entries the log had.
    pub fn entries(&self) -> u64 {
        self.n
    }
}

/// Seals entries in order, after those that others wrote. Only the store's writer may use it.
pub(crate) struct Sealer {
    keyring: Keyring,
    anchor: Anchor,
    head: Mutex<Head>,
}

impl Sealer {
    /// Continues at the end of the log.
    pub(crate) async fn open<B: Browse>(
        browse: &B,
        keyring: Keyring,
        keyring_path: &Path,
    ) -> Result<Self, Failure> {
        let head = end_of(browse).await?;
        let anchor = Anchor::open(browse, anchor_path(keyring_path), head).await?;
        Ok(Self { keyring, anchor, head: Mutex::new(head) })
    }

    /// Seals an act after the end of the log and writes it; repeats if another coordinator was first.
    pub(crate) async fn write<S: Store>(
        &self,
        store: &S,
        writer: &mut S::Writer,
        act: &mut Administration,
    ) -> Result<(), CommitFailure> {
        for _ in 1..TRIES_MAX {
            match self.try_to_write(writer, act).await {
                Err(CommitFailure::RolledBack(failure)) if is_conflict(&failure) => {
                    let caught_up = self.catch_up(store.browse()).await;
                    caught_up.map_err(CommitFailure::RolledBack)?;
                }
                decided => return decided,
            }
        }
        self.try_to_write(writer, act).await
    }

    async fn try_to_write<W: Writer>(
        &self,
        writer: &mut W,
        act: &mut Administration,
    ) -> Result<(), CommitFailure> {
        act.follows = (!act.audit.is_empty()).then_some(self.head().n);
        let head = self.seal(&mut act.audit);
        writer.administer(act).await?;
        if act.follows.is_some() {
            self.written(head);
        }
        Ok(())
    }

    /// Reads the end of the log again, because other coordinators write to it too.
    async fn catch_up<B: Browse>(&self, browse: &B) -> Result<(), Failure> {
        let head = end_of(browse).await?;
        *self.head() = head;
        Ok(())
    }

    /// Seals the entries, in the order in which they will be written.
    fn seal(&self, entries: &mut [Audit]) -> Head {
        let mut head = *self.head();
        for entry in entries {
            let n = head.n + 1;
            let (kid, key) = self.keyring.sealing_key();
            let seal = Seal(joined(kid, code(&key, head.seal, n, entry)));
            entry.seal = Some(seal);
            head = Head { n, seal: Some(seal) };
        }
        head
    }

    /// Records that the sealed entries are durable: the next ones follow them.
    fn written(&self, head: Head) {
        *self.head() = head;
        self.anchor.follow(head);
    }

    fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock().expect("no code panics while it holds the end of the log")
    }
}

async fn end_of<B: Browse>(browse: &B) -> Result<Head, Failure> {
    let last = browse.audit(&AuditFilter { limit: 1, ..AuditFilter::default() }).await?;
    Ok(last.first().map_or(Head::default(), |it| Head { n: it.n, seal: it.audit.seal }))
}

fn is_conflict(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Conflict(_))
}

pub(super) fn joined(kid: [u8; KID_BYTES], code: [u8; 32]) -> [u8; Seal::BYTES] {
    let mut seal = NOTHING;
    seal[..KID_BYTES].copy_from_slice(&kid);
    seal[KID_BYTES..].copy_from_slice(&code);
    seal
}

/// The code over an entry's content, its number and the previous seal.
fn code(key: &[u8; 32], before: Option<Seal>, n: u64, entry: &Audit) -> [u8; 32] {
    keyed(key, before, n, entry).finalize().into_bytes().into()
}

fn keyed(key: &[u8; 32], before: Option<Seal>, n: u64, entry: &Audit) -> HmacSha256 {
    let Audit {
        at,
        scope,
        actor,
        action,
        object,
        code,
        times,
        before: was,
        after,
        request,
        seal: _,
    } = entry;
    let mut mac = mac(key);
    mac.update(before.as_ref().map_or(&NOTHING, |seal| &seal.0));
    mac.update(&n.to_be_bytes());
    mac.update(&at.millis().to_be_bytes());
    mac.update(&times.to_be_bytes());
    let texts = [
        Some(scope.tenant.as_str()),
        Some(scope.workspace.as_str()),
        Some(actor.as_str()),
        Some(action.as_str()),
        Some(object.as_str()),
        code.as_ref().map(|code| code.as_str()),
        request.as_ref().map(|request| request.as_str()),
    ];
    let digests =
        [was, after].map(|digest| digest.as_ref().map(|digest| digest.bytes().as_slice()));
    // The length prefix separates fields, and distinguishes an absent text from an empty one.
    for field in texts.map(|text| text.map(str::as_bytes)).into_iter().chain(digests) {
        mac.update(&field.map_or(u32::MAX, |field| field.len() as u32).to_be_bytes());
        mac.update(field.unwrap_or_default());
    }
    mac
}

/// How many entries were checked, and what was wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SealReport {
    pub entries: u64,
    /// Entries from before there were seals have none; any other entry without one is a finding.
    pub sealed: u64,
    /// In the order of the entries they concern.
    pub findings: Vec<SealFinding>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealFinding {
    /// The first entry it concerns.
    pub n: u64,
    pub what: String,
}

/// Checks every seal, newest first, and the end against the anchor.
pub async fn verify<B: Browse>(
    browse: &B,
    keyring: &Keyring,
    anchor: Option<Head>,
) -> Result<SealReport, Failure> {
    let mut check = Check::new(keyring, anchor);
    let mut filter = AuditFilter { limit: PAGE, ..AuditFilter::default() };
    loop {
        let page = browse.audit(&filter).await?;
        let Some(last) = page.last() else { break };
        filter.before = Some(last.n);
        page.into_iter().for_each(|entry| check.entry(entry));
    }
    check.begin();
    let Check { mut report, .. } = check;
    report.findings.sort_by_key(|finding| finding.n);
    report.findings.truncate(FINDINGS_MAX);
    Ok(report)
}

struct Check<'a> {
    keyring: &'a Keyring,
    anchor: Option<Head>,
    /// The entry after the current one.
    later: Option<Audited>,
    /// The first and the last of the later entries that should have seals and have none.
    bare: Option<(u64, u64)>,
    report: SealReport,
}

impl<'a> Check<'a> {
    fn new(keyring: &'a Keyring, anchor: Option<Head>) -> Self {
        let report = SealReport::default();
        Self { keyring, anchor, later: None, bare: None, report }
    }

    fn find(&mut self, n: u64, what: impl Into<String>) {
        // Sorted and truncated at the end; this only keeps a ruined log from filling memory.
        if self.report.findings.len() < 2 * FINDINGS_MAX {
            self.report.findings.push(SealFinding { n, what: what.into() });
        }
    }

    fn entry(&mut self, entry: Audited) {
        self.report.entries += 1;
        self.report.sealed += u64::from(entry.audit.seal.is_some());
        self.anchored(&entry);
        let here = Head { n: entry.n, seal: entry.audit.seal };
        match self.later.take() {
            None => self.newest(entry.n),
            Some(later) => self.follows(here, &later),
        }
        self.later = Some(entry);
    }

    /// The last remaining entry is the first of the log.
    fn begin(&mut self) {
        match self.later.take() {
            Some(first) => self.follows(Head::default(), &first),
            None => self.newest(0),
        }
        self.tell_bare();
    }

    fn newest(&mut self, n: u64) {
        if let Some(anchor) = self.anchor.filter(|anchor| anchor.n > n) {
            let (from, to) = (n + 1, anchor.n);
            self.find(
                from,
                format!(
                    "the audit was truncated: entries {from} to {to} were written and are missing"
                ),
            );
        }
    }

    fn anchored(&mut self, entry: &Audited) {
        let Some(anchor) = self.anchor.filter(|anchor| anchor.n == entry.n) else { return };
        if anchor.seal != entry.audit.seal {
            self.find(entry.n, format!("entry {} differs from the one that was written", entry.n));
        }
    }

    /// Checks that `later` is at its original position with its original content.
    fn follows(&mut self, here: Head, later: &Audited) {
        match later.audit.seal {
            None => {
                let last = self.bare.map_or(later.n, |(_, last)| last);
                self.bare = Some((later.n, last));
            }
            Some(_) => self.tell_bare(),
        }
        if later.n != here.n + 1 {
            let (from, to) = (here.n + 1, later.n - 1);
            return self.find(from, format!("entries {from} to {to} are missing"));
        }
        if let Some(seal) = later.audit.seal {
            self.sealed(here.seal, later.n, &later.audit, seal);
        }
    }

    /// Reports adjacent unsealed entries as one finding, however many there are.
    fn tell_bare(&mut self) {
        let what = match self.bare.take() {
            None => return,
            Some((first, last)) if first == last => (first, format!("entry {first} has no seal")),
            Some((first, last)) => (first, format!("entries {first} to {last} have no seals")),
        };
        let (first, what) = what;
        self.find(first, format!("{what}, although entries of that time were sealed"));
    }

    fn sealed(&mut self, before: Option<Seal>, n: u64, entry: &Audit, seal: Seal) {
        let (kid, code) = seal.0.split_at(KID_BYTES);
        let Some(key) = self.keyring.sealing_key_of(kid) else {
            return self.find(n, format!("entry {n} is sealed with an unknown key: {}", hex(kid)));
        };
        if keyed(&key, before, n, entry).verify_slice(code).is_err() {
            self.find(n, format!("entry {n} was changed, or the entry before it was exchanged"));
        }
    }
}

#[cfg(test)]
mod tests {
    use store::{Administration, Store, Writer};
    use storetest::{ManualClock, MemoryStore};
    use verdict::{Digest, Scope, Time};

    use super::*;

    fn entry(n: i64) -> Audit {
        Audit {
            at: Time::from_millis(n),
            scope: Scope::new("acme", "main"),
            actor: "k0".into(),
            action: "key.created".into(),
            object: format!("k{n}").as_str().into(),
            code: None,
            times: 1,
            before: None,
            after: Some(Digest::of(&[b"after"])),
            request: Some("req_1".into()),
            seal: None,
        }
    }

    fn keyring() -> Keyring {
        Keyring::from_bytes(std::array::from_fn(|at| at as u8 * 7))
    }

    /// Six entries as they are written, and the head after them.
    fn written() -> (Vec<Audited>, Head) {
        let head = Mutex::new(Head::default());
        let sealer = Sealer { keyring: keyring(), anchor: Anchor::default(), head };
        let mut entries: Vec<Audit> = (1..=6).map(entry).collect();
        let head = sealer.seal(&mut entries);
        let numbered = entries.into_iter().zip(1..);
        (numbered.map(|(audit, n)| Audited { n, audit }).collect(), head)
    }

    fn check(entries: &[Audited], anchor: Option<Head>) -> Vec<SealFinding> {
        let keyring = keyring();
        let mut check = Check::new(&keyring, anchor);
        entries.iter().rev().for_each(|entry| check.entry(entry.clone()));
        check.begin();
        let mut findings = check.report.findings;
        findings.sort_by_key(|finding| finding.n);
        findings
    }

    fn first_bad(entries: &[Audited], anchor: Option<Head>) -> Option<u64> {
        check(entries, anchor).first().map(|finding| finding.n)
    }

    /// Renumbers entries without gaps, as an attacker who hides a removal would.
    fn renumbered(mut entries: Vec<Audited>) -> Vec<Audited> {
        entries.iter_mut().zip(1..).for_each(|(entry, n)| entry.n = n);
        entries
    }

    #[test]
    fn what_is_as_it_was_written_has_no_findings() {
        let (entries, head) = written();
        assert_eq!(check(&entries, Some(head)), []);
        assert_eq!(check(&[], None), []);
        // An anchor that is older than the log is no contradiction.
        let older = Head { n: 4, seal: entries[3].audit.seal };
        assert_eq!(check(&entries, Some(older)), []);
    }

    #[test]
    fn every_edit_of_every_member_names_its_entry() {
        // X45
        let edits: [fn(&mut Audit); 11] = [
            |it| it.at = Time::from_millis(99),
            |it| it.scope.tenant = "other".into(),
            |it| it.scope.workspace = "other".into(),
            |it| it.actor = "somebody".into(),
            |it| it.action = "key.revoked".into(),
            |it| it.object = "k9".into(),
            |it| it.code = Some("forbidden".into()),
            |it| it.times = 2,
            |it| it.before = it.after,
            |it| it.after = None,
            |it| it.request = None,
        ];
        for edit in edits {
            let (mut entries, head) = written();
            edit(&mut entries[2].audit);
            assert_eq!(first_bad(&entries, Some(head)), Some(3));
        }
        let (mut entries, head) = written();
        entries[2].audit.seal = entries[1].audit.seal;
        assert_eq!(first_bad(&entries, Some(head)), Some(3));
        entries[2].audit.seal = None;
        assert_eq!(first_bad(&entries, Some(head)), Some(3));
        entries[2].audit.seal = Some(Seal([9; Seal::BYTES]));
        assert!(check(&entries, None)[0].what.contains("unknown key"));
    }

    #[test]
    fn holes_reorderings_and_additions_name_the_first_wrong_entry() {
        // X45
        let (entries, head) = written();
        let mut hole = entries.clone();
        hole.remove(2);
        assert_eq!(first_bad(&hole, None), Some(3));
        assert_eq!(first_bad(&renumbered(hole), None), Some(3));
        let headless = entries[2..].to_vec();
        assert_eq!(first_bad(&headless, None), Some(1));
        assert_eq!(first_bad(&renumbered(headless), None), Some(1));
        let mut swapped = entries.clone();
        swapped.swap(1, 3);
        assert_eq!(first_bad(&renumbered(swapped), None), Some(2));
        let mut forged = entries.clone();
        forged.push(Audited { n: 7, audit: entry(7) });
        assert_eq!(first_bad(&forged, Some(head)), Some(7));
        let mut repeated = entries.clone();
        repeated.push(Audited { n: 7, audit: entries[5].audit.clone() });
        assert_eq!(first_bad(&repeated, Some(head)), Some(7));
    }

    #[test]
    fn a_cut_is_noticed_by_what_is_noted_elsewhere() {
        // X45: without the anchor a truncation at the end cannot be seen, as the module says.
        let (entries, head) = written();
        assert_eq!(first_bad(&entries[..4], Some(head)), Some(5));
        assert_eq!(first_bad(&[], Some(head)), Some(1));
        assert_eq!(first_bad(&entries[..4], None), None);
    }

    #[test]
    fn seals_that_are_gone_are_missed_wherever_they_were() {
        // X45: also when all seals are gone and there is no anchor.
        let (entries, _) = written();
        let without = |gone: &[usize]| {
            let mut entries = entries.clone();
            gone.iter().for_each(|at| entries[*at].audit.seal = None);
            entries
        };
        let told = |gone: &[usize]| {
            let findings = check(&without(gone), None);
            findings.into_iter().map(|finding| finding.what).collect::<Vec<_>>()
        };
        let but = "although entries of that time were sealed";
        let all = [0, 1, 2, 3, 4, 5];
        assert_eq!(told(&all), [format!("entries 1 to 6 have no seals, {but}")]);
        assert_eq!(told(&[5]), [format!("entry 6 has no seal, {but}")]);
        let mixed = told(&[0, 1, 3, 4]);
        assert_eq!(mixed[0], format!("entries 1 to 2 have no seals, {but}"));
        assert!(mixed.contains(&format!("entries 4 to 5 have no seals, {but}")), "{mixed:?}");
    }

    #[test]
    fn what_was_sealed_after_all_seals_were_removed_does_not_hide_that() {
        // X45: a server continues after the last entry, whatever that is, and writes the new anchor.
        let (mut entries, _) = written();
        entries.iter_mut().for_each(|entry| entry.audit.seal = None);
        let head = Mutex::new(Head { n: 6, seal: None });
        let sealer = Sealer { keyring: keyring(), anchor: Anchor::default(), head };
        let mut more = [entry(7)];
        let end = sealer.seal(&mut more);
        entries.push(Audited { n: 7, audit: more[0].clone() });
        assert_eq!(first_bad(&entries, Some(end)), Some(1));
    }

    #[tokio::test]
    async fn two_sealers_make_one_chain() {
        // X45: each assumes that it knows the end; the one that is wrong reads it again.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tenure.key");
        let keyring = Keyring::open(&path).unwrap();
        let store = MemoryStore::new(std::sync::Arc::new(ManualClock::default()));
        let mut writer = store.writer().await.unwrap();
        let open = || Sealer::open(store.browse(), keyring.clone(), &path);
        let both = [open().await.unwrap(), open().await.unwrap()];
        for n in 0..9 {
            let act =
                Administration { audit: vec![entry(n), entry(n)], ..Administration::default() };
            let sealer = &both[usize::from(n % 3 == 1)];
            sealer.write(&store, &mut writer, &mut act.clone()).await.unwrap();
        }
        let anchor = read_anchor(&anchor_path(&path)).unwrap();
        let report = verify(store.browse(), &keyring, anchor).await.unwrap();
        assert_eq!(report, SealReport { entries: 18, sealed: 18, findings: Vec::new() });
    }

    #[tokio::test]
    async fn an_anchor_of_lost_entries_is_evidence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tenure.key");
        let keyring = Keyring::open(&path).unwrap();
        let store = || MemoryStore::new(std::sync::Arc::new(ManualClock::default()));
        let act = || Administration { audit: vec![entry(1)], ..Administration::default() };
        let old = store();
        let sealer = Sealer::open(old.browse(), keyring.clone(), &path).await.unwrap();
        let mut writer = old.writer().await.unwrap();
        for _ in 0..3 {
            sealer.write(&old, &mut writer, &mut act()).await.unwrap();
        }
        // An empty store in its place is refused, with the way out.
        let empty = store();
        let refused = Sealer::open(empty.browse(), keyring.clone(), &path).await.err().unwrap();
        assert_eq!(refused.kind, FailureKind::Closed);
        assert!(refused.what.contains("its audit held 3 entries; restore a backup"), "{refused}");
        // A store with fewer entries opens, and the anchor keeps what is missing.
        let mut writer = empty.writer().await.unwrap();
        writer.administer(&act()).await.unwrap();
        let sealer = Sealer::open(empty.browse(), keyring.clone(), &path).await.unwrap();
        sealer.write(&empty, &mut writer, &mut act()).await.unwrap();
        let anchor = read_anchor(&anchor_path(&path)).unwrap();
        assert_eq!(anchor.map(|anchor| anchor.n), Some(3));
        let report = verify(empty.browse(), &keyring, anchor).await.unwrap();
        let missing = "the audit was truncated: entries 3 to 3 were written and are missing";
        assert!(report.findings.iter().any(|it| it.what == missing), "{report:?}");
    }

    #[tokio::test]
    async fn a_sealer_goes_on_where_the_log_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tenure.key");
        let keyring = Keyring::open(&path).unwrap();
        let store = MemoryStore::new(std::sync::Arc::new(ManualClock::default()));
        let mut writer = store.writer().await.unwrap();
        let old = Administration { audit: vec![entry(1)], ..Administration::default() };
        writer.administer(&old).await.unwrap();
        for n in 2..5 {
            let sealer = Sealer::open(store.browse(), keyring.clone(), &path).await.unwrap();
            let mut act = Administration { audit: vec![entry(n)], ..Administration::default() };
            // An act that was not written leaves no trace.
            sealer.seal(&mut act.audit);
            sealer.write(&store, &mut writer, &mut act).await.unwrap();
        }
        let anchor = read_anchor(&anchor_path(&path)).unwrap();
        assert_eq!(anchor.map(|anchor| anchor.n), Some(4));
        let report = verify(store.browse(), &keyring, anchor).await.unwrap();
        assert_eq!((report.entries, report.sealed), (4, 3));
        // The first was written without a sealer: no current store has entries without seals.
        assert!(matches!(&report.findings[..], [SealFinding { n: 1, .. }]), "{report:?}");
        std::fs::write(anchor_path(&path), "nonsense").unwrap();
        assert!(read_anchor(&anchor_path(&path)).is_err());
    }
}
