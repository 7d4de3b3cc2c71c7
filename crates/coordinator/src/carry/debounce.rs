//! Submissions with a debounce in a batch: who waits for a newer run, and who ends because one came.
//!
//! The rules say what a submission does ([`verdict::flow::debounce`]). Here the key is locked before anything is decided, so that
//! submissions with it come one after the other over all coordinators; the new run, the end of the one that it replaces and
//! the new start of the wait are one commit. A submission that finds its own run by its idempotency key replaces nothing.
//!
//! Only what clients submit waits. Children, runs of schedules, retries and forks do not: somebody waits for them, or said when
//! they start.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use store::{Batch, DebounceQuery, DebouncedKey, FlowRef, Lookup, TaskKey};
use verdict::flow::debounce::{Replacement, replaced};
use verdict::request::Submit;
use verdict::{Moment, Refusal, Request, Time};

use super::batch::{Aborted, OpenBatch};
use super::load::flow_of;
use super::working_set::WorkingSet;
use crate::item::{Item, Submission};

/// The keys with which runs of this batch are submitted that wait.
#[derive(Default)]
pub(super) struct Debounces(HashMap<FlowRef, Line>);

/// What is known of one key.
enum Line {
    /// Another writer submits with it.
    Locked,
    /// The last run that was submitted to wait, of those that may still be waiting.
    Last(Option<TaskKey>),
}

fn waiting_flow(submission: &Submission) -> Option<FlowRef> {
    submission.debounce.as_ref().and_then(|_| flow_of(submission))
}

/// The key of a submission that waits for newer ones.
fn debounced(item: &Item) -> Option<FlowRef> {
    match item {
        Item::Submit { submission, .. } => waiting_flow(submission),
        _ => None,
    }
}

impl<B: Batch> OpenBatch<'_, B> {
    /// Locks the keys of submissions that wait, and loads the runs that do. Most batches have none.
    pub(super) async fn load_debounced(
        &mut self,
        items: &[Item],
        now: Time,
    ) -> Result<(), Aborted> {
        let flows: BTreeSet<FlowRef> = items.iter().filter_map(debounced).collect();
        if flows.is_empty() {
            return Ok(());
        }
        let query = |flow| DebounceQuery { flow, now };
        let queries: Vec<DebounceQuery> = flows.into_iter().map(query).collect();
        let lock_wait = self.options.lock_wait;
        let lookup = Lookup { debounced: &queries, lock_wait, ..Lookup::default() };
        let found = self.batch.look_up(lookup).await?.debounced;
        for (DebounceQuery { flow, .. }, found) in queries.into_iter().zip(found) {
            let line = match found {
                DebouncedKey::Locked => Line::Locked,
                DebouncedKey::Nobody => Line::Last(None),
                DebouncedKey::Waits(id, loaded) => {
                    let key = TaskKey { scope: flow.scope.clone(), id };
                    self.put(key.clone(), loaded);
                    Line::Last(Some(key))
                }
            };
            self.work.debounces.0.insert(flow, line);
        }
        Ok(())
    }
}

impl WorkingSet {
    /// Whether another writer submits with the key, or has the run locked that waits.
    pub(super) fn is_debounce_locked(&self, submission: &Submission) -> bool {
        match waiting_flow(submission).and_then(|flow| self.debounces.0.get(&flow)) {
            Some(Line::Locked) => true,
            Some(Line::Last(Some(last))) => self.is_locked(last),
            Some(Line::Last(None)) | None => false,
        }
    }

    /// What a submission does to the run that waits, and how long it waits itself. `None` for one that does not wait.
    pub(super) fn replacement(
        &self,
        submission: &Submission,
        now: Time,
    ) -> Result<Option<Replacement>, Refusal> {
        let Some((call, flow)) = submission.debounce.as_ref().zip(flow_of(submission)) else {
            return Ok(None);
        };
        let Some(Line::Last(last)) = self.debounces.0.get(&flow) else { return Ok(None) };
        let waiting = last.as_ref().and_then(|last| self.task(last));
        call.submitted(&flow.key, waiting, now).map(Some)
    }

    /// Ends the run that a new one replaces; the new one waits from now on.
    pub(super) fn replace(&mut self, task: &TaskKey, flow: FlowRef, by: &Replacement, at: Moment) {
        if let Some(id) = by.replaces {
            let older = TaskKey { scope: task.scope.clone(), id };
            let cancel = Request::Cancel(replaced(task.id, &flow.key));
            self.decide(&older, Cow::Owned(cancel), at);
        }
        self.debounces.0.insert(flow, Line::Last(Some(task.clone())));
    }
}

/// The submission with its wait.
pub(super) fn with_wait(submit: Submit, wait: Option<&Replacement>) -> Submit {
    let Some(Replacement { debounced, due, .. }) = wait else { return submit };
    let flow = submit.flow.map(|mut flow| {
        flow.debounce = Some(*debounced);
        flow
    });
    Submit { flow, run_at: Some(*due), ..submit }
}
