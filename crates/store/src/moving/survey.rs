//! What a store holds: how much of everything, and one digest over all of it.
//!
//! Two stores with the same tally hold the same, whatever engine keeps it. The epoch and what concerns only
//! one process (coordinators, batches) are left out.

use verdict::decide::submit::holds_key;
use verdict::{Digest, Subject, Time};

use super::canon::Canon;
use super::copying::{check_holders, key_of, records};
use super::{DIFFERENCES_MAX, MoveFailure, PAGE, Stage};
use crate::administration::{ApiKey, Audited, TenantLimits};
use crate::browse::{self, Browse};
use crate::failure::Failure;
use crate::row::{Dossier, Found, Held, Key, Parts};
use crate::seam::Store;

/// How much of everything, and the digest of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    pub live: u64,
    pub ended: u64,
    pub decisions: u64,
    pub attempts: u64,
    pub refusals: u64,
    /// Idempotency keys that no other task may use at the time of the survey.
    pub keys: u64,
    pub api_keys: u64,
    pub limits: u64,
    pub records: u64,
    pub digest: Digest,
}

impl Tally {
    pub const fn tasks(&self) -> u64 {
        self.live + self.ended
    }

    /// What differs, in words.
    pub(super) fn differences(&self, other: &Tally) -> Vec<String> {
        let counts = [
            ("live tasks", self.live, other.live),
            ("ended tasks", self.ended, other.ended),
            ("decisions", self.decisions, other.decisions),
            ("attempts", self.attempts, other.attempts),
            ("refusals", self.refusals, other.refusals),
            ("idempotency keys", self.keys, other.keys),
            ("API keys", self.api_keys, other.api_keys),
            ("limits", self.limits, other.limits),
            ("records of the audit", self.records, other.records),
        ];
        let mut differences: Vec<String> = counts
            .iter()
            .filter(|(_, sent, arrived)| sent != arrived)
            .map(|(what, sent, arrived)| format!("{sent} {what} were sent and {arrived} arrived"))
            .collect();
        if differences.is_empty() && self.digest != other.digest {
            differences.push(format!("digest {} was sent, {} arrived", self.digest, other.digest));
        }
        differences
    }
}

/// A tally in the making: tasks in order of id, then keys and limits, then the audit.
pub(super) struct Counting {
    tally: Tally,
    at: Time,
}

impl Counting {
    pub(super) fn new(at: Time) -> Self {
        let tally = Tally {
            live: 0,
            ended: 0,
            decisions: 0,
            attempts: 0,
            refusals: 0,
            keys: 0,
            api_keys: 0,
            limits: 0,
            records: 0,
            digest: Digest::of(&[]),
        };
        Self { tally, at }
    }

    pub(super) fn tasks(&self) -> u64 {
        self.tally.tasks()
    }

    pub(super) fn task(&mut self, found: &Found, parts: Counted) {
        let tally = &mut self.tally;
        match found.subject {
            Subject::Done(_) => tally.ended += 1,
            Subject::Live(_) | Subject::Absent => tally.live += 1,
        }
        tally.decisions += parts.decisions.count;
        tally.attempts += parts.attempts.count;
        tally.refusals += parts.refusals.count;
        tally.keys += held_keys(std::slice::from_ref(found), self.at).len() as u64;
        self.add(Canon::of_task(found));
        for series in [parts.decisions, parts.attempts, parts.refusals] {
            self.tally.digest = Digest::of(&[self.tally.digest.bytes(), series.digest.bytes()]);
        }
    }

    pub(super) fn administration(&mut self, keys: &[ApiKey], limits: &[TenantLimits]) {
        self.tally.api_keys += keys.len() as u64;
        self.tally.limits += limits.len() as u64;
        keys.iter().for_each(|key| self.add(Canon::of_api_key(key)));
        limits.iter().for_each(|limits| self.add(Canon::of_limits(limits)));
    }

    pub(super) fn record(&mut self, record: &Audited) {
        self.tally.records += 1;
        self.add(Canon::of_record(record));
    }

    fn add(&mut self, canon: Canon) {
        self.tally.digest = Digest::of(&[self.tally.digest.bytes(), canon.bytes()]);
    }

    pub(super) fn done(self) -> Tally {
        self.tally
    }
}

/// What belongs to one task, counted page by page.
pub(super) struct Counted {
    decisions: Series,
    attempts: Series,
    refusals: Series,
}

/// Rows of one kind: how many, and one digest over all of them, however they came in pages.
struct Series {
    count: u64,
    digest: Digest,
}

impl Counted {
    pub(super) fn new() -> Self {
        let series = || Series { count: 0, digest: Digest::of(&[]) };
        Self { decisions: series(), attempts: series(), refusals: series() }
    }

    pub(super) fn of(whole: &Parts) -> Self {
        let mut counted = Self::new();
        counted.add(whole);
        counted
    }

    pub(super) fn add(&mut self, part: &Parts) {
        part.history.iter().for_each(|entry| self.decisions.add(Canon::of_entry(entry)));
        part.attempts.iter().for_each(|closed| self.attempts.add(Canon::of_attempt(closed)));
        part.refused.iter().for_each(|refused| self.refusals.add(Canon::of_refusal(refused)));
    }
}

impl Series {
    fn add(&mut self, canon: Canon) {
        self.count += 1;
        self.digest = Digest::of(&[self.digest.bytes(), canon.bytes()]);
    }
}

/// Keys of these tasks that no other task may use at `at`.
pub(super) fn held_keys(page: &[Found], at: Time) -> Vec<(Key, Held)> {
    let holding = page.iter().filter(|found| holds_key(&found.subject, at));
    let held = |found: &Found| {
        let task = found.key().id;
        Some((key_of(found)?, Held { task, fingerprint: found.spec.fingerprint }))
    };
    holding.filter_map(held).collect()
}

/// Counts what a store holds. Nothing is changed.
pub async fn survey<B: Browse>(browse: &B, at: Time) -> Result<Tally, Failure> {
    let mut counting = Counting::new(at);
    let mut after = None;
    loop {
        let page = browse.dossiers(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.found.key().id);
        count(browse, &page, &mut counting).await?;
    }
    administered(browse, &mut counting).await?;
    Ok(counting.done())
}

async fn count<B: Browse>(
    browse: &B,
    page: &[Dossier],
    counting: &mut Counting,
) -> Result<(), Failure> {
    for Dossier { found, parts } in page {
        let counted = match parts {
            Some(whole) => Counted::of(whole),
            None => {
                let (mut counted, mut reading) = (Counted::new(), browse::parts(browse, found));
                while let Some(part) = reading.next().await? {
                    counted.add(&part);
                }
                counted
            }
        };
        counting.task(found, counted);
    }
    Ok(())
}

async fn administered<B: Browse>(browse: &B, counting: &mut Counting) -> Result<(), Failure> {
    let (keys, limits) = (browse.api_keys().await?, browse.tenant_limits().await?);
    counting.administration(&keys, &limits);
    let mut n = 0;
    loop {
        let page = records(browse, n).await?;
        let Some(last) = page.last() else { return Ok(()) };
        n = last.n;
        page.iter().for_each(|record| counting.record(record));
    }
}

/// Counts what arrived, and asks for every idempotency key as a submission would.
pub(super) async fn arrived<D: Store>(
    to: &D,
    at: Time,
    watch: &mut (dyn FnMut(Stage) + Send),
) -> Result<Tally, MoveFailure> {
    let browse = to.browse();
    let mut counting = Counting::new(at);
    let mut writer = to.writer().await.map_err(MoveFailure::Destination)?;
    let mut after = None;
    loop {
        let page = browse.dossiers(after, PAGE).await.map_err(MoveFailure::Destination)?;
        let Some(last) = page.last() else { break };
        after = Some(last.found.key().id);
        let found: Vec<Found> = page.iter().map(|dossier| dossier.found.clone()).collect();
        let mut wrong =
            check_holders(&mut writer, &found, at).await.map_err(MoveFailure::Destination)?;
        if !wrong.is_empty() {
            wrong.truncate(DIFFERENCES_MAX);
            return Err(MoveFailure::Differs(wrong));
        }
        count(browse, &page, &mut counting).await.map_err(MoveFailure::Destination)?;
        watch(Stage::Comparing(counting.tasks()));
    }
    administered(browse, &mut counting).await.map_err(MoveFailure::Destination)?;
    Ok(counting.done())
}
