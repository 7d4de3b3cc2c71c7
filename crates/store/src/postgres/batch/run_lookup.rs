//! What requests about durable runs name, as the rows and this batch's own decisions have it.
//!
//! The tables know nothing of what the batch has decided so far: its rows are written with the commit. So what was read is
//! put together with the events of the batch, by [`verdict::run::Records`], which is the reference for every engine.

use std::collections::HashSet;

use verdict::plan::limits::STEPS_PER_DECISION;
use verdict::plan::{PlanNeed, PlanStep};
use verdict::run::limits::SLICE_MAX;
use verdict::run::{Loaded, Named, Records, SignalNeed};
use verdict::{Subject, TaskId};

use super::PostgresBatch;
use super::pending_writes::PendingTask;
use crate::failure::Failure;
use crate::postgres::reads;
use crate::postgres::reads::plan_steps::{FoundPlans, PlanReads};
use crate::postgres::reads::run_records::{FoundRecords, FoundRuns, RunReads};
use crate::row::TaskKey;
use crate::runs::{RunLookup, steps};

impl PostgresBatch<'_> {
    /// What to read from the tables for these requests.
    pub(super) fn run_reads(&self, lookups: &[RunLookup]) -> RunReads {
        let mut reads = RunReads::default();
        for of_task in lookups.chunk_by(is_of_same_task) {
            if of_task.iter().any(|lookup| !self.excluded.contains(&lookup.task.id)) {
                self.add_reads(&mut reads, of_task);
            }
        }
        reads
    }

    /// What to read for requests about one task.
    fn add_reads(&self, reads: &mut RunReads, of_task: &[RunLookup]) {
        let Some(RunLookup { task, .. }) = of_task.first() else { return };
        let pending = self.pending_of(task);
        let rows = pending.map(PendingTask::run_rows).unwrap_or_default();
        // A child that ended in this batch is read again, so that its end can be added to it.
        rows.ended.iter().for_each(|child| reads.add_key(task, child.key));
        if of_task.iter().any(|lookup| lookup.named.signals != SignalNeed::Never) {
            reads.add_signals(task);
        }
        for Named { keys, same_key, .. } in of_task.iter().map(|lookup| &lookup.named) {
            keys.iter().for_each(|key| reads.add_key(task, key));
            same_key.iter().for_each(|key| reads.add_signal_key(task, key));
        }
        let subject = self.subject_of(task);
        if let Some(slice) = of_task.iter().find_map(|lookup| lookup.named.slice_of(subject)) {
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

    /// What the roots of plans among these tasks need, now that they are locked.
    pub(super) async fn read_plans(
        &mut self,
        lookups: &[RunLookup],
        locked_out: &HashSet<TaskId>,
    ) -> Result<FoundPlans, Failure> {
        let (mut reads, mut specs) = (PlanReads::default(), Vec::new());
        for RunLookup { task, named } in lookups {
            if locked_out.contains(&task.id) || self.excluded.contains(&task.id) {
                continue;
            }
            let subject = self.subject_of(task);
            let (spawned, need) = (steps::spawned(subject), PlanNeed::of(named, subject));
            // A plan that this batch submits is not in the tables yet.
            match (need, self.pending_of(task).filter(|pending| pending.is_new())) {
                (None, _) => {}
                (Some(need), None) => reads.add(task, spawned, need),
                (Some(_), Some(pending)) => {
                    let next = pending.steps.iter().skip(spawned as usize);
                    let next = next.take(STEPS_PER_DECISION);
                    specs.extend(next.map(|it| (it.step.child.submit.id, it.spec.clone())));
                }
            }
        }
        if reads.is_empty() {
            return Ok(FoundPlans { specs, ..FoundPlans::default() });
        }
        let setting = self.scopes.add(reads.scopes());
        let work = move |client| async move {
            let (set, plans) =
                futures_util::join!(reads::set_scopes(&client, setting), reads.read(&client));
            set?;
            plans
        };
        let mut found = self.transaction().run("loading steps of plans", work).await?;
        found.specs.extend(specs);
        Ok(found)
    }

    /// What each request names. A task that another writer has locked has nothing.
    pub(super) fn run_records(
        &self,
        lookups: &[RunLookup],
        found: &FoundRuns,
        plans: &FoundPlans,
        locked_out: &HashSet<TaskId>,
    ) -> Vec<Loaded> {
        let load = |of_task: &[RunLookup]| -> Vec<Loaded> {
            let task = &of_task[0].task;
            if locked_out.contains(&task.id) || self.excluded.contains(&task.id) {
                return vec![Loaded::default(); of_task.len()];
            }
            let records = self.records_of(task, found.get(&task.id), plans);
            let subject = self.subject_of(task);
            // The tables are read without results, which no rule reads.
            let named = of_task.iter().map(|lookup| &lookup.named);
            named.map(|it| records.load_named(subject, it, SLICE_MAX).without_results()).collect()
        };
        lookups.chunk_by(is_of_same_task).flat_map(load).collect()
    }

    fn records_of(
        &self,
        task: &TaskKey,
        found: Option<&FoundRecords>,
        plans: &FoundPlans,
    ) -> Records {
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
        for (need, plan) in plans.by_root.get(&task.id).into_iter().flatten() {
            records.put_plan(need.need(), plan.clone());
        }
        if let Some(pending) = self.pending_of(task).filter(|pending| !pending.steps.is_empty()) {
            let steps: Vec<PlanStep> = pending.steps.iter().map(|it| it.step.clone()).collect();
            records.put_steps(&steps);
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

/// Messages to one task come one after the other, by the hundred. What they share is read and put together once.
fn is_of_same_task(one: &RunLookup, next: &RunLookup) -> bool {
    one.task == next.task
}
