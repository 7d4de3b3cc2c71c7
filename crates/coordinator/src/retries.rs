//! A retry: the submission of an ended run once more, as a new run that is linked to it.
//!
//! Everything that the run was submitted with is kept: input, names, labels, priority, resources and policy. Its
//! idempotency key is not: the new run has the key of the call that asked for it, if that has one. The rules decide
//! which runs may be submitted again ([`verdict::redrive`]). A run that has ended never changes, so the decision holds
//! however long ago the run was read.

use std::sync::Arc;

use edge::digests;
use store::runs::StoredStep;
use store::{Browse, Failure, RowsAfter, Spec, StoredTask, TaskKey};
use verdict::event::Submitted;
use verdict::plan::{PlanState, PlanStep, Stage};
use verdict::redrive::{self, NotRetryable, Repeat};
use verdict::request::Submit;
use verdict::{Digest, Name, RunState, State, Subject, Text, Time};
use wire::Code;
use wire::names::{FORK_OF_LABEL, ORIGIN_LABEL, RETRY_OF_LABEL};

use crate::item::{PlannedSteps, StepSubmission, Submission};

/// Steps read at once.
const STEPS_PER_READ: usize = 500;

/// A run with everything that it was submitted with.
pub struct RunSource {
    pub found: StoredTask,
    pub submitted: Submitted,
    /// The steps of a plan with edges.
    pub steps: Vec<StoredStep>,
    /// Whether one of them succeeded.
    pub has_done_steps: bool,
}

/// The run with its submission. A run whose history is missing cannot be submitted again: its settings are unknown.
pub async fn find<B: Browse>(browse: &B, key: &TaskKey) -> Result<Option<RunSource>, Failure> {
    let Some(found) = browse.find(key).await? else { return Ok(None) };
    let mut steps: Vec<StoredStep> = Vec::new();
    while (steps.len() as u32) < found.step_count() {
        let from = RowsAfter::Step(steps.len() as u32);
        let page = browse.rows(key, from, STEPS_PER_READ).await?.steps;
        if page.is_empty() {
            break;
        }
        steps.extend(page);
    }
    let first = browse.rows(key, RowsAfter::Entry(0), 1).await?.history;
    let events = first.into_iter().flat_map(|entry| entry.events);
    let submitted = { events }.find_map(|event| event.submitted().cloned());
    let has_done_steps = !steps.is_empty() && has_done_steps(browse, key).await?;
    Ok(submitted.map(|submitted| RunSource { found, submitted, steps, has_done_steps }))
}

/// Reads the tasks of a plan's steps until one has succeeded.
async fn has_done_steps<B: Browse>(browse: &B, key: &TaskKey) -> Result<bool, Failure> {
    let mut after: Option<Name> = None;
    loop {
        let page = browse.rows(key, RowsAfter::Child(after.as_ref()), STEPS_PER_READ).await?;
        if page.children.iter().any(|it| it.child.end == Some(State::Succeeded)) {
            return Ok(true);
        }
        match page.children.last() {
            Some(last) => after = Some(last.child.key.clone()),
            None => return Ok(false),
        }
    }
}

/// How the call that asks for a retry identifies itself.
#[derive(Clone, Debug, Default)]
pub struct RetryCall {
    /// A repeated retry of the same run under the same key finds the run that the first one made.
    pub key: Option<Text>,
    /// The trace that the new run belongs to; that of the old run where the call has none.
    pub traceparent: Option<Text>,
    /// Whether what the run recorded is to be done again.
    pub repeat: Repeat,
}

/// Why a run is not submitted again, and the state it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryRefused {
    pub why: NotRetryable,
    pub state: State,
}

impl RetryRefused {
    /// The code under which callers learn it.
    pub const fn code(self) -> Code {
        match self.why {
            NotRetryable::Recorded | NotRetryable::DoneSteps => Code::RunHasRecords,
            NotRetryable::NotEnded
            | NotRetryable::Succeeded
            | NotRetryable::Halted
            | NotRetryable::HaltedPlan
            | NotRetryable::Reserved
            | NotRetryable::NoTime => Code::RunNotRetryable,
        }
    }
}

/// The submission that repeats a run. `None` for a subject that does not exist.
pub fn retry(
    source: RunSource,
    call: RetryCall,
    now: Time,
) -> Option<Result<Submission, RetryRefused>> {
    let RunSource { found, submitted, steps, has_done_steps } = source;
    let submitted = &submitted;
    let state = found.subject.state()?;
    let (scope, id) = (found.subject.scope()?.clone(), submitted.id);
    let run = run_of(&found.subject);
    if let Err(why) = redrive::may_retry(submitted, state, run, has_done_steps, call.repeat) {
        return Some(Err(RetryRefused { why, state }));
    }
    debug_assert!(matches!(found.subject, Subject::Done(_)), "only ended tasks may be retried");
    let stages = stages_of(&found.subject);
    let mut labels = found.spec.labels;
    // A retry begins from nothing, also that of a fork.
    labels.remove(FORK_OF_LABEL);
    labels.remove(ORIGIN_LABEL);
    labels.insert(RETRY_OF_LABEL.to_owned(), id.run_name());
    Some(Ok(Submission {
        scope,
        kind: submitted.kind.clone(),
        queue: submitted.queue.clone(),
        priority: submitted.priority,
        policy: redrive::policy(submitted, now),
        run_at: redrive::run_at(submitted, now),
        delay: None,
        deadline_in: None,
        budget: submitted.budget.clone(),
        flow: submitted.flow.clone().map(|flow| Box::new(flow.again())),
        debounce: None,
        spec: Spec {
            labels,
            traceparent: call.traceparent.or(found.spec.traceparent),
            key: call.key,
            fingerprint: digests::retry(id),
            input: found.spec.input,
            goal: found.spec.goal,
            task_key: found.spec.task_key,
            asset_id: found.spec.asset_id,
            resources: found.spec.resources,
        },
        stages,
        fork: None,
        steps: (!steps.is_empty()).then(|| Arc::new(planned_again(steps))),
    }))
}

/// The steps of a stored plan once more.
fn planned_again(stored: Vec<StoredStep>) -> PlannedSteps {
    let fingerprints = stored.iter().map(|step| step.spec.fingerprint);
    let fingerprints: Vec<[u8; 32]> = fingerprints.map(|it| *it.bytes()).collect();
    let parts: Vec<&[u8]> = fingerprints.iter().map(|bytes| &bytes[..]).collect();
    let digest = Digest::of(&parts);
    PlannedSteps { digest, steps: stored.into_iter().map(step_again).collect() }
}

fn step_again(stored: StoredStep) -> StepSubmission {
    let StoredStep { place: _, step, spec, missing: _, blame: _ } = stored;
    let PlanStep { child, upstreams, terms } = step;
    let Submit { kind, queue, priority, policy, input: input_digest, budget, .. } = child.submit;
    let Spec { input, traceparent, fingerprint, .. } = spec;
    StepSubmission {
        key: child.key,
        kind,
        queue,
        priority,
        policy,
        upstreams,
        terms,
        budget,
        input,
        input_digest,
        traceparent,
        fingerprint,
    }
}

/// How far a task has come; `None` for a plain one.
pub(crate) fn run_of(subject: &Subject) -> Option<&RunState> {
    match subject {
        Subject::Done(done) => done.run.as_deref(),
        Subject::Live(task) => task.run.as_deref(),
        Subject::Absent => None,
    }
}

/// The stages of a run with a plan: a retry passes through all of them again.
fn stages_of(subject: &Subject) -> Option<Arc<[Stage]>> {
    let Subject::Done(done) = subject else { return None };
    match done.run.as_ref()?.plan.as_deref()? {
        PlanState::Stages(stages) => Some(stages.stages.clone()),
        PlanState::Root(_) | PlanState::Step(_) => None,
    }
}
