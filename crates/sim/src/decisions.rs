//! Translates the stored history of each task into the decisions that the checker reads.

use historyck::event::{Cause, Decision, Outcome, Record, Snapshot, State, TaskSnapshot};
use store::{Entry, StoredTask};
use verdict::event::Submitted;
use verdict::plan::{PlanEvent, PlanForm, PlanRequest};
use verdict::run::{Lineage, RunEvent, RunRequest, Then};
use verdict::schedule::FIRING_KEY_PREFIX;
use verdict::{AttemptOutcome, Done, Event, Next, Request, Subject, recovery};

pub(crate) fn snapshot(found: &[StoredTask], now: u64) -> Snapshot {
    let tasks = found.iter().map(|found| TaskSnapshot {
        task: id(&found.subject),
        state: state(found.subject.state().expect("what was found is there")),
        expires: None,
    });
    Snapshot { now: now as i64, slack_ms: None, tasks: tasks.collect(), counted: None }
}

pub(crate) fn record(done: &Done) -> Record {
    Record {
        task: crate::history::name(&done.id.to_string()),
        state: state(done.end.state),
        digest: done.record.to_string(),
        created: Some(done.created_at.millis()),
        started: done.started_at.map(verdict::Time::millis),
        completed: Some(done.completed_at.millis()),
    }
}

pub(crate) fn id(subject: &Subject) -> String {
    let id = match subject {
        Subject::Live(task) => task.id,
        Subject::Done(done) => done.id,
        Subject::Absent => unreachable!("what was found is there"),
    };
    crate::history::name(&id.to_string())
}

/// One decision for each entry of a task's history.
pub(crate) fn decisions(found: &StoredTask, history: &[Entry]) -> Vec<Decision> {
    let mut before = None;
    let mut attempt = 0;
    let mut decisions = Vec::new();
    for entry in history {
        let mut decision = blank(found, entry, before);
        for event in &entry.events {
            tell(&mut decision, event, &mut attempt, found);
        }
        if decision.expires.is_none() {
            let loaded = entry.loaded.and_then(|loaded| loaded.expires_at);
            decision.expires = loaded.map(verdict::Time::millis);
        }
        before = Some(decision.after);
        decisions.push(decision);
    }
    decisions
}

fn blank(found: &StoredTask, entry: &Entry, before: Option<State>) -> Decision {
    Decision {
        task: id(&found.subject),
        n: Some(entry.n),
        now: entry.at.millis(),
        epoch: Some(entry.epoch),
        cause: cause(&entry.request),
        before,
        after: before.unwrap_or(State::Queued),
        scope: None,
        key: None,
        attempt: None,
        lease: None,
        fence: None,
        worker: None,
        expires: None,
        due: None,
        deadline: None,
        failures_max: None,
        lost_max: None,
        outcome: None,
        reason: None,
        digest: None,
        parent: None,
    }
}

fn tell(decision: &mut Decision, event: &Event, attempt: &mut u32, found: &StoredTask) {
    match event {
        Event::Submitted(submitted) => tell_of_submission(decision, submitted, found),
        Event::Granted { lease, owner, fence, expires_at, .. } => {
            *attempt += 1;
            decision.after = State::Running;
            decision.attempt = Some(*attempt);
            decision.lease = Some(lease.to_string());
            decision.fence = Some(fence.as_u64());
            decision.worker = Some(owner.to_string());
            decision.expires = Some(expires_at.millis());
        }
        Event::Extended { expires_at, .. } => {
            decision.attempt = Some(*attempt);
            decision.expires = Some(expires_at.millis());
        }
        Event::AttemptClosed { closed, next } => {
            decision.attempt = Some(closed.attempt);
            decision.lease = Some(closed.lease.to_string());
            decision.worker = Some(closed.owner.to_string());
            decision.outcome = Some(outcome(closed.outcome));
            decision.reason = closed.reason.map(|reason| reason.name().to_owned());
            match next {
                Next::Retry { due } => {
                    decision.after = State::Retry;
                    decision.due = Some(due.millis());
                }
                Next::End(end) => decision.after = state(end.state),
                Next::Wait(_) => decision.after = State::Waiting,
                Next::Stage(_) => decision.after = State::Queued,
            }
        }
        Event::Ended(end) => {
            decision.after = state(end.state);
            decision.reason = end.reason.map(|reason| reason.name().to_owned());
        }
        Event::Started
        | Event::Renewed { .. }
        | Event::Stalled { .. }
        | Event::CancelRequested { .. }
        | Event::CancelSignalled => {}
        Event::Run(event) => tell_of_run(decision, event, found),
    }
}

fn tell_of_submission(decision: &mut Decision, submitted: &Submitted, found: &StoredTask) {
    decision.after = State::Queued;
    decision.scope = Some(format!("{}/{}", submitted.scope.tenant, submitted.scope.workspace));
    decision.key = found.spec.key.as_ref().map(|key| key.as_str().to_owned());
    // A schedule or recovery asked for it: no two runs may have the same instant, or recover the same run.
    let is_own =
        |key: &String| key.starts_with(FIRING_KEY_PREFIX) || key.starts_with(recovery::KEY_PREFIX);
    decision.parent = decision.key.clone().filter(is_own);
    decision.due = Some(submitted.due.millis());
    decision.deadline = submitted.policy.deadline.map(verdict::Time::millis);
    decision.failures_max = Some(submitted.policy.failures_max);
    decision.lost_max = Some(submitted.policy.lost_max);
}

fn tell_of_run(decision: &mut Decision, event: &RunEvent, found: &StoredTask) {
    match event {
        RunEvent::Spawned { submitted, lineage } => {
            tell_of_submission(decision, submitted, found);
            let (parent, key) = match lineage {
                Lineage::Child { parent, key, .. } => (parent, key),
                Lineage::Detached { cause, key } => (cause, key),
            };
            decision.parent = Some(format!("{}/{key}", crate::history::name(&parent.to_string())));
        }
        RunEvent::Closing(..) => decision.after = State::Waiting,
        RunEvent::Plan(event) => tell_of_plan(decision, event, found),
        RunEvent::Checkpointed(_)
        | RunEvent::ChildSpawned(_)
        | RunEvent::ChildInherited(_)
        | RunEvent::Forked { .. }
        | RunEvent::SignalReceived(_)
        | RunEvent::WaitAdvanced { .. }
        | RunEvent::ChildrenCancelled { .. }
        | RunEvent::Hastened
        | RunEvent::Resumed
        | RunEvent::BuildNoted(_)
        | RunEvent::Unpinned
        | RunEvent::ApprovalOpened(_)
        | RunEvent::ApprovalVoted { .. }
        | RunEvent::ApprovalClosed { .. }
        | RunEvent::Budget(_) => {}
    }
}

fn tell_of_plan(decision: &mut Decision, event: &PlanEvent, found: &StoredTask) {
    match event {
        PlanEvent::Planned(PlanForm::Steps { .. }) => decision.after = State::Waiting,
        PlanEvent::StepSpawned { submitted, lineage, is_blocked, .. } => {
            tell_of_submission(decision, submitted, found);
            decision.after = if *is_blocked { State::Blocked } else { State::Queued };
            let parent = lineage.parent();
            decision.parent = parent.map(|(parent, key)| {
                format!("{}/{key}", crate::history::name(&parent.to_string()))
            });
        }
        PlanEvent::Planned(PlanForm::Stages { .. }) | PlanEvent::StageEntered(_) => {
            decision.after = State::Queued;
        }
        PlanEvent::StepsSpawned(_)
        | PlanEvent::StepBlamed(_)
        | PlanEvent::DownstreamsTold { .. }
        | PlanEvent::Released { .. }
        | PlanEvent::Prepared { .. }
        | PlanEvent::DoneBy(_) => {}
    }
}

fn cause(request: &Request) -> Cause {
    match request {
        Request::Submit(_) => Cause::Submit,
        Request::Grant(_) => Cause::Grant,
        Request::Started(_) => Cause::Started,
        Request::Heartbeat(_) => Cause::Heartbeat,
        Request::Report(_) => Cause::Report,
        Request::Cancel(_) => Cause::Cancel,
        Request::Sweep => Cause::Sweep,
        Request::Undelivered(_) => Cause::Undelivered,
        Request::Extend(_) => Cause::Extend,
        Request::Run(request) => match request.as_ref() {
            // A report that brings steps.
            RunRequest::Checkpoint(call) if matches!(call.then, Then::Report { .. }) => {
                Cause::Report
            }
            RunRequest::Checkpoint(_) => Cause::Checkpoint,
            RunRequest::Signal(_) => Cause::Signal,
            RunRequest::Message(_) => Cause::Message,
            // An operator lets the run go on.
            RunRequest::Resume | RunRequest::Unpin => Cause::Resume,
            // What people decide reaches its task as a signal.
            RunRequest::Decide(_) => Cause::Signal,
            // What a fork takes over belongs to its submission.
            RunRequest::Inherit(_) => Cause::Submit,
            RunRequest::Plan(request) => match request {
                PlanRequest::Submit(_) => Cause::Submit,
                PlanRequest::Advance(_) => Cause::Report,
                PlanRequest::InputUnresolved { .. } | PlanRequest::Prepared(_) => Cause::Sweep,
            },
            // What it used makes no difference to what it is.
            RunRequest::Metered(metered) => cause(&metered.call),
        },
    }
}

fn outcome(outcome: AttemptOutcome) -> Outcome {
    match outcome {
        AttemptOutcome::Succeeded => Outcome::Succeeded,
        AttemptOutcome::Failed => Outcome::Failed,
        AttemptOutcome::Cancelled => Outcome::Cancelled,
        AttemptOutcome::Lost => Outcome::Lost,
        AttemptOutcome::Undelivered => Outcome::Undelivered,
        AttemptOutcome::Revoked => Outcome::Revoked,
        AttemptOutcome::Released => Outcome::Released,
        AttemptOutcome::Suspended => Outcome::Suspended,
        AttemptOutcome::Diverged => Outcome::Diverged,
    }
}

fn state(state: verdict::State) -> State {
    match state {
        verdict::State::Queued => State::Queued,
        verdict::State::Running => State::Running,
        verdict::State::Retry => State::Retry,
        verdict::State::Succeeded => State::Succeeded,
        verdict::State::Failed => State::Failed,
        verdict::State::Halted => State::Halted,
        verdict::State::Cancelled => State::Cancelled,
        verdict::State::Waiting => State::Waiting,
        verdict::State::Blocked => State::Blocked,
        verdict::State::Skipped => State::Skipped,
    }
}
