//! What requests about durable runs name, as the rows and this batch's own decisions have it.
//!
//! The tables know nothing of what the batch has decided so far: its rows are written with the commit. So what was read is
//! put together with the events of the batch, by [`verdict::run::Records`], which is the reference for every engine.

use std::collections::HashSet;

use verdict::run::limits::SLICE_MAX;
use verdict::run::{Loaded, Named, Records, SignalNeed};
use verdict::{Subject, TaskId};

use super::PostgresBatch;
use super::pending_writes::PendingTask;
use crate::failure::Failure;
use crate::postgres::reads;
use crate::postgres::reads::run_records::{FoundRecords, FoundRuns, RunReads};
use crate::row::TaskKey;
use crate::runs::RunLookup;

impl PostgresBatch<'_> {
    /// What to read from the tables for these requests.
    pub(super) fn run_reads(&self, lookups: &[RunLookup]) -> RunReads {
        let mut reads = RunReads::default();
        for lookup in lookups.iter().filter(|lookup| !self.excluded.contains(&lookup.task.id)) {
            self.add_reads(&mut reads, lookup);
        }
        reads
    }

    fn add_reads(&self, reads: &mut RunReads, lookup: &RunLookup) {
        let RunLookup { task, named: Named { keys, signals, same_key, .. } } = lookup;
        keys.iter().for_each(|key| reads.add_key(task, key));
        let pending = self.pending_of(task);
        let rows = pending.map(PendingTask::run_rows).unwrap_or_default();
        // A child that ended in this batch is read again, so that its end can be added to it.
        rows.ended.iter().for_each(|child| reads.add_key(task, child.key));
        if *signals != SignalNeed::Never {
            reads.add_signals(task);
        }
        if let Some(key) = same_key {
            reads.add_signal_key(task, key);
        }
        if let Some(slice) = lookup.named.slice_of(self.subject_of(task)) {
            // One more shows whether there are more, and some may have ended in this batch.
            reads.add_slice(task, slice.after.as_ref(), SLICE_MAX + 1 + rows.ended.len());
        }
    }

    /// Reads records without locking a task.
    pub(super) async fn read_runs(&mut self, run_reads: RunReads) -> Result<FoundRuns, Failure> {
        if run_reads.is_empty() {
            return Ok(FoundRuns::new());
        }
        let setting = self.scopes.add(run_reads.scopes());
        let work = move |client| async move {
            let (set, runs) =
                futures_util::join!(reads::set_scopes(&client, setting), run_reads.read(&client));
            set?;
            runs
        };
        self.transaction().run("loading what runs recorded", work).await
    }

    /// What each request names. A task that another writer has locked has nothing.
    pub(super) fn run_records(
        &self,
        lookups: &[RunLookup],
        found: &FoundRuns,
        locked_out: &HashSet<TaskId>,
    ) -> Vec<Loaded> {
        let load = |lookup: &RunLookup| {
            let id = lookup.task.id;
            if locked_out.contains(&id) || self.excluded.contains(&id) {
                return Loaded::default();
            }
            let records = self.records_of(&lookup.task, found.get(&id));
            let subject = self.subject_of(&lookup.task);
            // The tables are read without results, which no rule reads.
            records.load_named(subject, &lookup.named, SLICE_MAX).without_results()
        };
        lookups.iter().map(load).collect()
    }

    fn records_of(&self, task: &TaskKey, found: Option<&FoundRecords>) -> Records {
        let mut records = Records::default();
        if let Some(FoundRecords { checkpoints, children, pending, keyed }) = found {
            records.put(Loaded {
                checkpoints: checkpoints.clone(),
                children: children.clone(),
                signals: pending.clone(),
                ..Loaded::default()
            });
            for signal in keyed {
                records.put(Loaded { same_key: Some(signal.clone()), ..Loaded::default() });
            }
        }
        let decided = self.pending_of(task).into_iter().flat_map(PendingTask::events);
        decided.for_each(|events| records.note(events));
        records
    }

    /// A task of a durable run as this batch knows it.
    fn subject_of(&self, task: &TaskKey) -> &Subject {
        if let Some(pending) = self.pending_of(task) {
            return &pending.subject;
        }
        let locked = self.locked.get(&task.id).and_then(|locked| locked.run.as_deref());
        let is_it = |subject: &&Subject| subject.scope() == Some(&task.scope);
        locked.filter(is_it).unwrap_or(&Subject::Absent)
    }

    /// What this batch has decided about a task of this scope.
    fn pending_of(&self, task: &TaskKey) -> Option<&PendingTask> {
        let pending = self.pending.get(task.id);
        pending.filter(|pending| pending.subject.scope() == Some(&task.scope))
    }
}
