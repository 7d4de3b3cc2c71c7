//! A summary of a store: how many rows of each kind, and one digest over all of them.
//!
//! Two stores with equal summaries hold the same data, whatever the engines. The epoch, and rows that concern
//! only one process (coordinators, batches), are left out.

use verdict::decide::submit::holds_key;
use verdict::{Digest, Subject, Time};

use super::canonical::CanonicalBytes;
use super::copying::{check_key_owners, key_of, log_rows, object_log, record_seals, records};
use super::{DIFFERENCES_MAX, MoveFailure, PAGE, RECORDS, Stage};
use crate::administration::{ApiKey, Audited, TenantLimits};
use crate::browse::{self, Browse, ScanDepth};
use crate::failure::Failure;
use crate::logs::LogRow;
use crate::objects::ObjectChange;
use crate::pauses::PausedQueues;
use crate::record_seals::RecordSeal;
use crate::row::{IdempotencyKey, KeyOwner, StoredTask, TaskBundle, TaskRows};
use crate::runs::SavedMessage;
use crate::seam::Store;
use crate::spend::SpendRow;

/// Counts of rows, and their digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSummary {
    pub live: u64,
    pub ended: u64,
    pub decisions: u64,
    pub attempts: u64,
    pub refusals: u64,
    /// Checkpoints, children, signals and steps of durable runs.
    pub run_records: u64,
    /// Saved messages between tasks.
    pub messages: u64,
    /// Idempotency keys that no other task may use at the time of the summary.
    pub keys: u64,
    pub api_keys: u64,
    pub limits: u64,
    pub pauses: u64,
    pub records: u64,
    /// Seals over records of ended tasks.
    pub record_seals: u64,
    /// Changes of objects, the first of each included.
    pub object_changes: u64,
    /// Sums of what was used, by scope and day.
    pub spend: u64,
    /// Pieces of logs.
    pub logs: u64,
    pub digest: Digest,
}

impl StoreSummary {
    pub const fn tasks(&self) -> u64 {
        self.live + self.ended
    }

    /// The differences, in words.
    pub(super) fn differences(&self, other: &StoreSummary) -> Vec<String> {
        let counts = [
            ("live tasks", self.live, other.live),
            ("ended tasks", self.ended, other.ended),
            ("decisions", self.decisions, other.decisions),
            ("attempts", self.attempts, other.attempts),
            ("refusals", self.refusals, other.refusals),
            ("records of durable runs", self.run_records, other.run_records),
            ("saved messages", self.messages, other.messages),
            ("idempotency keys", self.keys, other.keys),
            ("API keys", self.api_keys, other.api_keys),
            ("limits", self.limits, other.limits),
            ("paused queues", self.pauses, other.pauses),
            ("records of the audit", self.records, other.records),
            ("seals of records", self.record_seals, other.record_seals),
            ("changes of objects", self.object_changes, other.object_changes),
            ("sums of what was used", self.spend, other.spend),
            ("pieces of logs", self.logs, other.logs),
        ];
        let mut differences: Vec<String> = counts
            .iter()
            .filter(|(_, sent, arrived)| sent != arrived)
            .map(|(what, sent, arrived)| {
                format!("the source has {sent} {what} and the copy has {arrived}")
            })
            .collect();
        if differences.is_empty() && self.digest != other.digest {
            differences.push(format!(
                "the source has digest {}, the copy has {}",
                self.digest, other.digest
            ));
        }
        differences
    }
}

/// A summary under construction: tasks in order of id, then keys and limits, then the audit.
pub(super) struct SummaryBuilder {
    summary: StoreSummary,
    at: Time,
}

impl SummaryBuilder {
    pub(super) fn new(at: Time) -> Self {
        let summary = StoreSummary {
            live: 0,
            ended: 0,
            decisions: 0,
            attempts: 0,
            refusals: 0,
            run_records: 0,
            messages: 0,
            keys: 0,
            api_keys: 0,
            limits: 0,
            pauses: 0,
            records: 0,
            record_seals: 0,
            object_changes: 0,
            spend: 0,
            logs: 0,
            digest: Digest::of(&[]),
        };
        Self { summary, at }
    }

    pub(super) fn tasks(&self) -> u64 {
        self.summary.tasks()
    }

    pub(super) fn task(&mut self, found: &StoredTask, parts: TaskSummary) {
        let summary = &mut self.summary;
        match found.subject {
            Subject::Done(_) => summary.ended += 1,
            Subject::Live(_) | Subject::Absent => summary.live += 1,
        }
        summary.decisions += parts.decisions.count;
        summary.attempts += parts.attempts.count;
        summary.refusals += parts.refusals.count;
        summary.run_records += parts.run_records.count;
        summary.keys += owned_keys(std::slice::from_ref(found), self.at).len() as u64;
        self.add(CanonicalBytes::of_task(found));
        let mut all = vec![parts.decisions, parts.attempts, parts.refusals];
        // A store without durable runs keeps the digest that it had before there were any.
        all.extend(Some(parts.run_records).filter(|series| series.count > 0));
        for series in all {
            self.summary.digest = Digest::of(&[self.summary.digest.bytes(), series.digest.bytes()]);
        }
    }

    pub(super) fn administration(
        &mut self,
        keys: &[ApiKey],
        limits: &[TenantLimits],
        paused: &PausedQueues,
    ) {
        self.summary.api_keys += keys.len() as u64;
        self.summary.limits += limits.len() as u64;
        keys.iter().for_each(|key| self.add(CanonicalBytes::of_api_key(key)));
        limits.iter().for_each(|limits| self.add(CanonicalBytes::of_limits(limits)));
        for pause in paused.iter() {
            self.summary.pauses += 1;
            self.add_digest(pause.fingerprint());
        }
    }

    pub(super) fn message(&mut self, saved: &SavedMessage) {
        self.summary.messages += 1;
        self.add(CanonicalBytes::of_message(saved));
    }

    pub(super) fn object_change(&mut self, change: &ObjectChange) {
        self.summary.object_changes += 1;
        self.add(CanonicalBytes::of_object_change(change));
    }

    pub(super) fn spend(&mut self, row: &SpendRow) {
        self.summary.spend += 1;
        self.add(CanonicalBytes::of_spend(row));
    }

    pub(super) fn log(&mut self, row: &LogRow) {
        self.summary.logs += 1;
        self.add(CanonicalBytes::of_log(row));
    }

    pub(super) fn record_seal(&mut self, seal: &RecordSeal) {
        self.summary.record_seals += 1;
        self.add(CanonicalBytes::of_record_seal(seal));
    }

    pub(super) fn record(&mut self, record: &Audited) {
        self.summary.records += 1;
        self.add(CanonicalBytes::of_record(record));
    }

    fn add(&mut self, canonical: CanonicalBytes) {
        self.summary.digest = Digest::of(&[self.summary.digest.bytes(), canonical.as_bytes()]);
    }

    fn add_digest(&mut self, digest: Digest) {
        self.summary.digest = Digest::of(&[self.summary.digest.bytes(), digest.bytes()]);
    }

    pub(super) fn done(self) -> StoreSummary {
        self.summary
    }
}

/// The rows of one task, counted page by page.
pub(super) struct TaskSummary {
    decisions: Series,
    attempts: Series,
    refusals: Series,
    run_records: Series,
}

/// Rows of one kind: their number, and one digest over all of them, independent of paging.
struct Series {
    count: u64,
    digest: Digest,
}

impl TaskSummary {
    pub(super) fn new() -> Self {
        let series = || Series { count: 0, digest: Digest::of(&[]) };
        let (decisions, attempts) = (series(), series());
        Self { decisions, attempts, refusals: series(), run_records: series() }
    }

    pub(super) fn of(whole: &TaskRows) -> Self {
        let mut task_summary = Self::new();
        task_summary.add(whole);
        task_summary
    }

    pub(super) fn add(&mut self, part: &TaskRows) {
        part.history.iter().for_each(|entry| self.decisions.add(CanonicalBytes::of_entry(entry)));
        part.attempts
            .iter()
            .for_each(|closed| self.attempts.add(CanonicalBytes::of_attempt(closed)));
        part.refused
            .iter()
            .for_each(|refused| self.refusals.add(CanonicalBytes::of_refusal(refused)));
        let checkpoints = part.checkpoints.iter().map(CanonicalBytes::of_checkpoint);
        let children = part.children.iter().map(CanonicalBytes::of_child);
        let signals = part.signals.iter().map(CanonicalBytes::of_signal);
        let steps = part.steps.iter().map(CanonicalBytes::of_step);
        let rows = steps.chain(checkpoints).chain(children).chain(signals);
        rows.for_each(|row| self.run_records.add(row));
    }
}

impl Series {
    fn add(&mut self, canonical: CanonicalBytes) {
        self.count += 1;
        self.digest = Digest::of(&[self.digest.bytes(), canonical.as_bytes()]);
    }
}

/// The keys of these tasks that no other task may use at `at`.
pub(super) fn owned_keys(page: &[StoredTask], at: Time) -> Vec<(IdempotencyKey, KeyOwner)> {
    let holding = page.iter().filter(|found| holds_key(&found.subject, at));
    let held = |found: &StoredTask| {
        let task = found.key().id;
        Some((key_of(found)?, KeyOwner { task, fingerprint: found.spec.fingerprint }))
    };
    holding.filter_map(held).collect()
}

/// Summarizes a store. Changes nothing.
pub async fn summarize<B: Browse>(browse: &B, at: Time) -> Result<StoreSummary, Failure> {
    let mut summary = SummaryBuilder::new(at);
    let mut after = None;
    loop {
        let page = browse.scan(after, PAGE, ScanDepth::AllRows).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.task.key().id);
        count(browse, &page, &mut summary).await?;
    }
    add_messages(browse, &mut summary).await?;
    add_objects(browse, &mut summary).await?;
    add_spend(browse, &mut summary).await?;
    add_logs(browse, &mut summary).await?;
    add_record_seals(browse, &mut summary).await?;
    add_administration(browse, &mut summary).await?;
    Ok(summary.done())
}

async fn count<B: Browse>(
    browse: &B,
    page: &[TaskBundle],
    summary: &mut SummaryBuilder,
) -> Result<(), Failure> {
    for TaskBundle { task: found, rows: parts } in page {
        let task_summary = match parts {
            Some(whole) => TaskSummary::of(whole),
            None => {
                let (mut task_summary, mut reading) =
                    (TaskSummary::new(), browse::row_pages(browse, found));
                while let Some(part) = reading.next().await? {
                    task_summary.add(&part);
                }
                task_summary
            }
        };
        summary.task(found, task_summary);
    }
    Ok(())
}

async fn add_messages<B: Browse>(browse: &B, summary: &mut SummaryBuilder) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let page = browse.saved_messages(after.as_ref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.key());
        page.iter().for_each(|saved| summary.message(saved));
    }
}

async fn add_objects<B: Browse>(browse: &B, summary: &mut SummaryBuilder) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let page = object_log(browse, after).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.after.key.clone(), last.after.revision));
        page.iter().for_each(|change| summary.object_change(change));
    }
}

async fn add_spend<B: Browse>(browse: &B, summary: &mut SummaryBuilder) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let page = browse.spend_rows(after.as_ref(), RECORDS).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.scope.clone(), last.day));
        page.iter().for_each(|row| summary.spend(row));
    }
}

async fn add_logs<B: Browse>(browse: &B, summary: &mut SummaryBuilder) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let page = log_rows(browse, after).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.task.id, last.piece.id));
        page.iter().for_each(|row| summary.log(row));
    }
}

async fn add_record_seals<B: Browse>(
    browse: &B,
    summary: &mut SummaryBuilder,
) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let page = record_seals(browse, after).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.tenant.clone(), last.n));
        page.iter().for_each(|seal| summary.record_seal(seal));
    }
}

async fn add_administration<B: Browse>(
    browse: &B,
    summary: &mut SummaryBuilder,
) -> Result<(), Failure> {
    let rows = browse.administration().await?;
    let paused = browse.paused_queues().await?;
    summary.administration(&rows.api_keys, &rows.tenant_limits, &paused);
    let mut n = 0;
    loop {
        let page = records(browse, n).await?;
        let Some(last) = page.last() else { return Ok(()) };
        n = last.n;
        page.iter().for_each(|record| summary.record(record));
    }
}

/// Summarizes the copy, and looks up every idempotency key as a submission would.
pub(super) async fn summarize_copy<D: Store>(
    to: &D,
    at: Time,
    watch: &mut (dyn FnMut(Stage) + Send),
) -> Result<StoreSummary, MoveFailure> {
    let browse = to.browse();
    let mut summary = SummaryBuilder::new(at);
    let mut writer = to.writer().await.map_err(MoveFailure::Destination)?;
    let mut after = None;
    loop {
        let page = browse.scan(after, PAGE, ScanDepth::AllRows).await;
        let page = page.map_err(MoveFailure::Destination)?;
        let Some(last) = page.last() else { break };
        after = Some(last.task.key().id);
        let found: Vec<StoredTask> = page.iter().map(|bundle| bundle.task.clone()).collect();
        let mut wrong =
            check_key_owners(&mut writer, &found, at).await.map_err(MoveFailure::Destination)?;
        if !wrong.is_empty() {
            wrong.truncate(DIFFERENCES_MAX);
            return Err(MoveFailure::Differs(wrong));
        }
        count(browse, &page, &mut summary).await.map_err(MoveFailure::Destination)?;
        watch(Stage::Comparing(summary.tasks()));
    }
    add_messages(browse, &mut summary).await.map_err(MoveFailure::Destination)?;
    add_objects(browse, &mut summary).await.map_err(MoveFailure::Destination)?;
    add_spend(browse, &mut summary).await.map_err(MoveFailure::Destination)?;
    add_logs(browse, &mut summary).await.map_err(MoveFailure::Destination)?;
    add_record_seals(browse, &mut summary).await.map_err(MoveFailure::Destination)?;
    add_administration(browse, &mut summary).await.map_err(MoveFailure::Destination)?;
    Ok(summary.done())
}
