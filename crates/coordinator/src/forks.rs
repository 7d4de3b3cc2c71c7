//! A fork: a new run that starts from the recorded steps of a run that has ended, linked to it.
//!
//! Everything that the run was submitted with is kept, as by a retry; its budget may be another one. The rules decide which runs
//! may be forked and what is taken over ([`verdict::fork`]). This module reads the records and puts the submission together. A run
//! that has ended never changes, so what was read holds however long ago it was read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use store::runs::{StoredChild, StoredSignal};
use store::{Browse, Failure, RowsAfter, Spec, StoredTask, TaskKey, TaskRows};
use verdict::approval;
use verdict::event::Submitted;
use verdict::fork::{self, BYTES_MAX, NotForkable, RECORDS_MAX};
use verdict::run::{Checkpoint, Child, Inherited, Recorded, RunEvent, Spend, Step, StepOutcome};
use verdict::{
    Budget, Digest, Done, Event, Limits, Name, State, Subject, TaskId, Text, Time, Unit, redrive,
};
use wire::names::{FORK_OF_LABEL, ORIGIN_LABEL, RETRY_OF_LABEL};

use crate::item::{Fork, ForkItem, Submission};
use crate::retries::run_of;

/// How many rows are read at once.
const PAGE: usize = 500;

/// How the call that asks for a fork identifies itself, and what it asks for.
#[derive(Clone, Debug)]
pub struct ForkCall {
    /// A repeated fork of the same run under the same key finds the run that the first one made.
    pub key: Option<Text>,
    /// The trace that the new run belongs to; that of the old run where the call has none.
    pub traceparent: Option<Text>,
    /// What the new run may use; as much as the old one could, if the call does not say.
    pub budget: Option<Box<Budget>>,
    /// The first step that is executed again.
    pub from_step: Option<Name>,
    /// The digest of the whole call.
    pub fingerprint: Digest,
}

/// Why a run is not forked, and the state it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkRefused {
    pub why: NotForkable,
    pub state: State,
}

/// What is read of the run.
pub struct ForkSource {
    pub found: StoredTask,
    pub submitted: Submitted,
    /// The seed that its workers were given.
    pub seed: u64,
}

/// The submission that continues a run. `None` for a subject that does not exist.
pub async fn fork<B: Browse>(
    browse: &B,
    source: ForkSource,
    call: ForkCall,
    now: Time,
) -> Result<Option<Result<Submission, ForkRefused>>, Failure> {
    let Some(state) = source.found.subject.state() else { return Ok(None) };
    let refused = |why| Ok(Some(Err(ForkRefused { why, state })));
    let run = run_of(&source.found.subject);
    if let Err(why) = fork::may_fork(&source.submitted, state, run) {
        return refused(why);
    }
    let Subject::Done(done) = &source.found.subject else { return Ok(None) };
    let key = TaskKey { scope: done.scope.clone(), id: done.id };
    let records = match Records::read(browse, &key).await? {
        Some(records) => records,
        None => return refused(NotForkable::TooLarge),
    };
    let cut = match fork::cut(&records.checkpoints, state, call.from_step.as_ref()) {
        Ok(cut) => cut,
        Err(why) => return refused(why),
    };
    if let Err(why) =
        fork::check_approvals(&records.checkpoints, &records.told_approvals(), state, cut)
    {
        return refused(why);
    }
    let items = records.inherited(browse, &key, cut, now).await?;
    let fork = Fork { from: done.id, record: done.record, items };
    Ok(Some(Ok(submission(source, call, fork, now))))
}

fn submission(source: ForkSource, call: ForkCall, taken: Fork, now: Time) -> Submission {
    let ForkSource { found, submitted, seed } = source;
    let starts_again = taken.items.iter().any(|item| matches!(item, ForkItem::Again { .. }));
    let mut labels = found.spec.labels;
    labels.remove(RETRY_OF_LABEL);
    labels.insert(FORK_OF_LABEL.to_owned(), submitted.id.run_name());
    note_origin(&mut labels, submitted.id);
    Submission {
        scope: submitted.scope.clone(),
        kind: submitted.kind.clone(),
        queue: submitted.queue.clone(),
        priority: submitted.priority,
        policy: fork::policy(&submitted, seed, now),
        run_at: redrive::run_at(&submitted, now),
        delay: None,
        deadline_in: None,
        budget: call.budget.or(submitted.budget),
        flow: submitted.flow.map(|flow| Box::new(fork::flow(*flow, starts_again))),
        debounce: None,
        spec: Spec {
            labels,
            traceparent: call.traceparent.or(found.spec.traceparent),
            key: call.key,
            fingerprint: call.fingerprint,
            input: found.spec.input,
            goal: found.spec.goal,
            task_key: found.spec.task_key,
            asset_id: found.spec.asset_id,
            resources: found.spec.resources,
        },
        stages: None,
        steps: None,
        fork: Some(Arc::new(taken)),
    }
}

/// Names the first task of a line of forks, if no earlier fork did: idempotency keys of steps begin with it, so that a step
/// which is repeated after a fork has the key that it had.
fn note_origin(labels: &mut BTreeMap<String, String>, first: TaskId) {
    labels.entry(ORIGIN_LABEL.to_owned()).or_insert_with(|| first.to_string());
}

/// Everything that a run has recorded.
#[derive(Default)]
struct Records {
    checkpoints: Vec<Checkpoint>,
    children: Vec<StoredChild>,
    signals: Vec<StoredSignal>,
    bytes: usize,
}

/// The three kinds of rows.
#[derive(Clone, Copy)]
enum Kind {
    Checkpoint,
    Child,
    Signal,
}

impl Records {
    /// `None` if there is more than a fork takes over.
    async fn read<B: Browse>(browse: &B, key: &TaskKey) -> Result<Option<Self>, Failure> {
        let mut records = Records::default();
        for kind in [Kind::Signal, Kind::Child, Kind::Checkpoint] {
            let mut last = 0;
            loop {
                let after = match kind {
                    Kind::Checkpoint => RowsAfter::Checkpoint(last),
                    Kind::Child => RowsAfter::Started(last),
                    Kind::Signal => RowsAfter::Signal(last),
                };
                let page = browse.rows(key, after, PAGE).await?;
                let Some(next) = records.add(page, kind) else { break };
                last = next;
                if records.len() > RECORDS_MAX || records.bytes > BYTES_MAX {
                    return Ok(None);
                }
            }
        }
        Ok(Some(records))
    }

    /// The numbers of the signals that told what came of approvals.
    fn told_approvals(&self) -> BTreeSet<u32> {
        let told = self.signals.iter().filter(|it| approval::is_told_by(&it.signal.name));
        told.map(|it| it.signal.number).collect()
    }

    fn len(&self) -> usize {
        self.checkpoints.len() + self.children.len() + self.signals.len()
    }

    /// The number after which the next page begins; `None` after the last page.
    fn add(&mut self, page: TaskRows, kind: Kind) -> Option<u32> {
        let next = match kind {
            Kind::Checkpoint => page.checkpoints.last()?.number,
            Kind::Child => page.children.last()?.number,
            Kind::Signal => page.signals.last()?.signal.number,
        };
        match kind {
            Kind::Checkpoint => {
                self.bytes += page.checkpoints.iter().map(bytes_of).sum::<usize>();
                self.checkpoints.extend(page.checkpoints);
            }
            Kind::Child => self.children.extend(page.children),
            Kind::Signal => {
                let payload = |it: &StoredSignal| {
                    it.signal.payload.as_ref().map_or(0, |it| it.as_str().len())
                };
                self.bytes += page.signals.iter().map(payload).sum::<usize>();
                self.signals.extend(page.signals);
            }
        }
        Some(next)
    }

    /// What the new run takes over, in order: signals first, because waits take them.
    async fn inherited<B: Browse>(
        self,
        browse: &B,
        key: &TaskKey,
        cut: u32,
        now: Time,
    ) -> Result<Vec<ForkItem>, Failure> {
        let mut items: BTreeMap<u32, ForkItem> = BTreeMap::new();
        let taken = taken_before(&self.checkpoints, cut);
        let kept: BTreeSet<Name> = self
            .children
            .iter()
            .filter(|started| started.number < cut)
            .map(|started| started.child.key.clone())
            .collect();
        let mut again: BTreeSet<Name> = BTreeSet::new();
        for checkpoint in &self.checkpoints {
            if let Recorded::Child(end) = &checkpoint.recorded {
                let child = TaskKey { scope: key.scope.clone(), id: end.child };
                let Some(done) = done_of(browse, &child).await? else { continue };
                if fork::is_cut_short(&done) && kept.contains(&checkpoint.key) {
                    again.insert(checkpoint.key.clone());
                } else if kept.contains(&checkpoint.key) {
                    items.insert(checkpoint.number, record(end_of(checkpoint, &done)));
                }
            } else if checkpoint.number < cut {
                items.insert(checkpoint.number, record(without_spend(checkpoint.clone())));
            }
        }
        for started in self.children.into_iter().filter(|started| started.number < cut) {
            let StoredChild { number, child, .. } = started;
            let child_key = TaskKey { scope: key.scope.clone(), id: child.id };
            let item = match again.contains(&child.key) {
                true => again_of(browse, &child_key, &child, now).await?,
                false => None,
            };
            // It belongs to the other run: this one neither waits for it nor cancels it.
            let taken = Child { is_detached: true, end: None, ..child };
            items.insert(number, item.unwrap_or(ForkItem::Record(Inherited::Child(taken))));
        }
        let signals = self.signals.into_iter().map(|StoredSignal { signal, .. }| {
            let is_taken = taken.contains(&signal.number);
            ForkItem::Record(Inherited::Signal(fork::signal(signal, is_taken)))
        });
        Ok(signals.chain(items.into_values()).collect())
    }
}

/// The numbers of the signals that waits took which the new run takes over.
fn taken_before(checkpoints: &[Checkpoint], cut: u32) -> BTreeSet<u32> {
    let waits =
        checkpoints.iter().filter(|it| it.number < cut).filter_map(|it| match &it.recorded {
            Recorded::Wait(wait) => Some(wait),
            Recorded::Step(_) | Recorded::Child(_) => None,
        });
    waits.flat_map(|wait| wait.taken.iter().map(|taken| taken.signal)).collect()
}

fn record(checkpoint: Checkpoint) -> ForkItem {
    ForkItem::Record(Inherited::Checkpoint(checkpoint))
}

/// What the step used was used by the old run.
fn without_spend(mut checkpoint: Checkpoint) -> Checkpoint {
    if let Recorded::Step(step) = &mut checkpoint.recorded {
        step.spend = Spend::default();
    }
    checkpoint
}

/// The end of a child as a step of the new run.
fn end_of(checkpoint: &Checkpoint, done: &Done) -> Checkpoint {
    let step = Step {
        outcome: fork::end_of_child(&done.end),
        input: None,
        spend: Spend::default(),
        is_savepoint: false,
    };
    Checkpoint { recorded: Recorded::Step(step), ..checkpoint.clone() }
}

async fn done_of<B: Browse>(browse: &B, key: &TaskKey) -> Result<Option<Done>, Failure> {
    Ok(browse.find(key).await?.and_then(|found| match found.subject {
        Subject::Done(done) => Some(done),
        Subject::Live(_) | Subject::Absent => None,
    }))
}

/// A child that starts again, with everything that it was spawned with. `None` if its first entry is not there.
async fn again_of<B: Browse>(
    browse: &B,
    key: &TaskKey,
    child: &Child,
    now: Time,
) -> Result<Option<ForkItem>, Failure> {
    let Some(found) = browse.find(key).await? else { return Ok(None) };
    let first = browse.rows(key, RowsAfter::Entry(0), 1).await?.history;
    let events = first.into_iter().flat_map(|entry| entry.events);
    let spawned = { events }.find_map(|event| match event {
        Event::Run(event) => match *event {
            RunEvent::Spawned { submitted, .. } => Some(*submitted),
            _ => None,
        },
        _ => None,
    });
    Ok(spawned.map(|submitted| {
        let input = submitted.input;
        let submission = Box::new(respawned(found.spec, &submitted, child.digest, now));
        ForkItem::Again { key: child.key.clone(), input, child: submission }
    }))
}

fn respawned(mut spec: Spec, submitted: &Submitted, fingerprint: Digest, now: Time) -> Submission {
    let budget = submitted.budget.clone();
    note_origin(&mut spec.labels, submitted.id);
    Submission {
        scope: submitted.scope.clone(),
        kind: submitted.kind.clone(),
        queue: submitted.queue.clone(),
        priority: submitted.priority,
        policy: redrive::policy(submitted, now),
        run_at: None,
        delay: None,
        deadline_in: None,
        budget: budget.map(|budget| Box::new(as_asked(*budget))).filter(|it| !it.is_empty()),
        flow: submitted.flow.clone().map(|flow| Box::new(flow.again())),
        debounce: None,
        spec: Spec { key: None, fingerprint, ..spec },
        stages: None,
        steps: None,
        fork: None,
    }
}

/// The ceiling without what its old parent added: its clock, and none of each unit that was not asked for.
fn as_asked(budget: Budget) -> Budget {
    let mut limits = Limits::default();
    for unit in Unit::ALL {
        limits.set(unit, budget.limits.get(unit).filter(|limit| *limit > 0));
    }
    Budget { limits, until: None, paid_by: None, ..budget }
}

fn bytes_of(checkpoint: &Checkpoint) -> usize {
    let Recorded::Step(step) = &checkpoint.recorded else { return 0 };
    match &step.outcome {
        StepOutcome::Succeeded { result } => result.as_ref().map_or(0, |it| it.as_str().len()),
        StepOutcome::Failed { fault, .. } => fault.message.as_str().len(),
    }
}
