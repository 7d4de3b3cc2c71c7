//! Packed entries of plans whose steps are stages: the submission, and the success of a stage with what follows it.
//!
//! As JSON they are several times as long, and few of them fit into an inline history. Every other entry of a plan (a
//! failure, a cancel, a deadline) is stored as [`super::delta`] stores it.
//!
//! Invariant: what is packed is exactly what unpacking returns. [`PackedPlan::of`] compares everything that is not packed
//! with what unpacking would make of it.

use std::sync::Arc;

use verdict::plan::{
    Advance, NextLease, PlanEvent, PlanForm, PlanRequest, PlanSubmit, Stage, Turn,
};
use verdict::request::{Outcome, Report, Submit};
use verdict::run::{Checkpoint, Recorded, RunEvent, RunRequest, Spend, Step, StepOutcome};
use verdict::{
    ClosedAttempt, Digest, End, Event, Fence, Json, LeaseId, Next, Request, State, TaskId, Time,
};

use super::delta::{Reported, is_submission, is_success, submitted};
use super::inline_history::{
    is_packed, pack_closing, pack_submit, pack_success, unpack_closing, unpack_submission,
    unpack_success,
};
use super::pack::{PackReader, PackWriter};
use super::packed_terms::{has_ceilings, pack_stages, unpack_stages};

pub(super) const PLANNED: u8 = 9;
pub(super) const STAGE_SUCCEEDED: u8 = 10;
pub(super) const LAST_STAGE_SUCCEEDED: u8 = 11;
/// The same for reports that ask for the next stage: it was leased, it waits in its queue, or there is none.
pub(super) const STAGE_ADVANCED: u8 = 13;
pub(super) const STAGE_LEFT: u8 = 14;
pub(super) const LAST_STAGE_LEFT: u8 = 15;

/// An entry that has a packed form.
pub(super) enum PackedPlan<'a> {
    Planned {
        submit: &'a Submit,
        digest: &'a Digest,
        stages: &'a [Stage],
        due: Time,
    },
    Succeeded(StageSuccess<'a>),
    /// What a report that asks for the next stage has besides: the lease that it may get, and what was granted.
    Advanced {
        success: StageSuccess<'a>,
        lease: LeaseId,
        until: u32,
        granted: Option<(Fence, Time)>,
    },
}

/// The success of a stage, its checkpoint, and the stage that follows; `None` after the last one.
pub(super) struct StageSuccess<'a> {
    report: &'a Report,
    checkpoint: &'a Checkpoint,
    input: &'a Digest,
    closed: &'a ClosedAttempt,
    turn: Option<&'a Turn>,
}

impl<'a> PackedPlan<'a> {
    /// `None` if no packed form can represent the entry.
    pub(super) fn of(task: TaskId, request: &'a Request, events: &'a [Event]) -> Option<Self> {
        match (request, events) {
            (Request::Run(request), [Event::Submitted(said), Event::Run(event)]) => {
                let (submit, form) = planned(request, event)?;
                let PlanForm::Stages { digest, stages } = form else { return None };
                let is_plain = is_packed(said) && !has_ceilings(stages);
                let is_it = submit.id == task && is_plain && is_submission(submit, said);
                is_it.then_some(Self::Planned { submit, digest, stages, due: said.due })
            }
            (
                Request::Report(report),
                [Event::Run(event), Event::AttemptClosed { closed, next }],
            ) => {
                let RunEvent::Checkpointed(checkpoint) = &**event else { return None };
                StageSuccess::of(task, report, checkpoint, closed, next).map(Self::Succeeded)
            }
            (
                Request::Run(request),
                [Event::Run(event), Event::AttemptClosed { closed, next }, granted @ ..],
            ) => {
                let RunRequest::Plan(PlanRequest::Advance(asked)) = &**request else { return None };
                let RunEvent::Checkpointed(checkpoint) = &**event else { return None };
                let Request::Report(report) = &*asked.report else { return None };
                let success = StageSuccess::of(task, report, checkpoint, closed, next)?;
                Self::advanced(success, &asked.next, granted)
            }
            _ => None,
        }
    }

    fn advanced(success: StageSuccess<'a>, next: &NextLease, granted: &[Event]) -> Option<Self> {
        let NextLease { lease, until, closed_queues } = next;
        let granted = match granted {
            [] => None,
            [Event::Granted { lease: got, owner, poll, fence, expires_at }] => {
                let caller = &success.report.caller;
                let mark = NextLease::mark(caller.lease);
                let is_it = got == lease && *owner == caller.worker && *poll == Some(mark);
                is_it.then_some(Some((*fence, *expires_at)))?
            }
            _ => return None,
        };
        let is_it = closed_queues.is_empty() && (granted.is_none() || success.turn.is_some());
        is_it.then_some(Self::Advanced { success, lease: *lease, until: *until, granted })
    }

    pub(super) fn form(&self) -> u8 {
        match self {
            Self::Planned { .. } => PLANNED,
            Self::Succeeded(StageSuccess { turn: Some(_), .. }) => STAGE_SUCCEEDED,
            Self::Succeeded(StageSuccess { turn: None, .. }) => LAST_STAGE_SUCCEEDED,
            Self::Advanced { granted: Some(_), .. } => STAGE_ADVANCED,
            Self::Advanced { success: StageSuccess { turn: Some(_), .. }, .. } => STAGE_LEFT,
            Self::Advanced { success: StageSuccess { turn: None, .. }, .. } => LAST_STAGE_LEFT,
        }
    }

    pub(super) fn pack(&self, to: &mut PackWriter<'_>) {
        match self {
            Self::Planned { submit, digest, stages, due } => {
                pack_submit(to, submit);
                to.digest(digest);
                pack_stages(to, stages);
                to.time(*due);
            }
            Self::Succeeded(success) => success.pack(to),
            Self::Advanced { success, lease, until, granted } => {
                success.pack(to);
                to.lease(*lease);
                to.number(u64::from(*until));
                if let Some((fence, expires_at)) = granted {
                    to.number(fence.as_u64());
                    to.time(*expires_at);
                }
            }
        }
    }
}

/// The submission and the plan, if the event says what the request asked for.
fn planned<'a>(request: &'a RunRequest, event: &RunEvent) -> Option<(&'a Submit, &'a PlanForm)> {
    let RunRequest::Plan(request) = request else { return None };
    let PlanRequest::Submit(PlanSubmit { submit, form, steps }) = request else { return None };
    let RunEvent::Plan(event) = event else { return None };
    let is_it = matches!(&**event, PlanEvent::Planned(said) if said == form);
    (is_it && steps.is_empty()).then_some((submit, form))
}

impl<'a> StageSuccess<'a> {
    fn of(
        task: TaskId,
        report: &'a Report,
        checkpoint: &'a Checkpoint,
        closed: &'a ClosedAttempt,
        next: &'a Next,
    ) -> Option<Self> {
        let Report { caller, outcome, digest, claims, by: None } = report else { return None };
        let Outcome::Succeeded { output } = outcome else { return None };
        let turn = match next {
            Next::Stage(turn) if **turn == Turn::new(turn.stage, turn.due) => Some(&**turn),
            Next::End(end) if *end == success(None) => None,
            _ => return None,
        };
        let Recorded::Step(step) = &checkpoint.recorded else { return None };
        let input = step.input.as_ref()?;
        let reported = Reported { caller, outcome, digest: *digest, claims };
        let is_it = closed.task == task
            && is_success(reported, closed, &success(output.clone()))
            && *step == recorded(output.clone(), *input)
            && checkpoint.attempt == caller.attempt
            && checkpoint.at == closed.closed_at;
        is_it.then_some(Self { report, checkpoint, input, closed, turn })
    }

    fn pack(&self, to: &mut PackWriter<'_>) {
        pack_success(to, self.report);
        pack_closing(to, self.closed);
        to.number(u64::from(self.checkpoint.number));
        to.text(self.checkpoint.key.as_str());
        to.digest(&self.checkpoint.digest);
        to.digest(self.input);
        if let Some(Turn { stage, due, ending: _, by: _, output: _ }) = self.turn {
            to.number(u64::from(*stage));
            to.time(*due);
        }
    }
}

fn success(output: Option<Json>) -> End {
    End { state: State::Succeeded, reason: None, output, fault: None }
}

/// The step that the success of a stage is recorded as.
fn recorded(result: Option<Json>, input: Digest) -> Step {
    let outcome = StepOutcome::Succeeded { result };
    Step { outcome, input: Some(input), spend: Spend::default(), is_savepoint: true }
}

/// Reads what [`PackedPlan::pack`] wrote under this form.
pub(super) fn unpack(
    from: &mut PackReader<'_>,
    form: u8,
    task: TaskId,
) -> Option<(Request, Vec<Event>)> {
    match form {
        PLANNED => unpack_planned(from, task),
        STAGE_SUCCEEDED => unpack_succeeded(from, task, true),
        LAST_STAGE_SUCCEEDED => unpack_succeeded(from, task, false),
        STAGE_ADVANCED | STAGE_LEFT | LAST_STAGE_LEFT => unpack_advanced(from, form, task),
        _ => None,
    }
}

fn unpack_planned(from: &mut PackReader<'_>, task: TaskId) -> Option<(Request, Vec<Event>)> {
    let submit = unpack_submission(from, task)?;
    let form = PlanForm::Stages { digest: from.digest()?, stages: unpack_stages(from)? };
    let submitted = Event::Submitted(Box::new(submitted(&submit, from.time()?)));
    let planned = RunEvent::Plan(Box::new(PlanEvent::Planned(form.clone())));
    let request = PlanRequest::Submit(PlanSubmit { submit, form, steps: Arc::from([]) });
    let request = Request::Run(Box::new(RunRequest::Plan(request)));
    Some((request, vec![submitted, Event::Run(Box::new(planned))]))
}

fn unpack_succeeded(
    from: &mut PackReader<'_>,
    task: TaskId,
    has_next: bool,
) -> Option<(Request, Vec<Event>)> {
    let report = unpack_success(from)?;
    let Outcome::Succeeded { output } = &report.outcome else { return None };
    let Report { caller, digest, claims, .. } = &report;
    let closed = unpack_closing(from, task, caller, *digest, claims.clone())?;
    let (number, key) = (from.small()?, from.name()?);
    let (digest, input) = (from.digest()?, from.digest()?);
    let recorded = Recorded::Step(recorded(output.clone(), input));
    let (attempt, at) = (caller.attempt, closed.closed_at);
    let checkpoint = Checkpoint { number, key, digest, attempt, at, recorded };
    let next = if has_next {
        Next::Stage(Box::new(Turn::new(from.small()?, from.time()?)))
    } else {
        Next::End(success(None))
    };
    let recorded = Event::Run(Box::new(RunEvent::Checkpointed(Box::new(checkpoint))));
    let closed = Event::AttemptClosed { closed: Box::new(closed), next };
    Some((Request::Report(report), vec![recorded, closed]))
}

fn unpack_advanced(
    from: &mut PackReader<'_>,
    form: u8,
    task: TaskId,
) -> Option<(Request, Vec<Event>)> {
    let (report, mut events) = unpack_succeeded(from, task, form != LAST_STAGE_LEFT)?;
    let (lease, until) = (from.lease()?, from.small()?);
    let caller = report.caller()?.clone();
    if form == STAGE_ADVANCED {
        let (fence, expires_at) = (Fence::from_u64(from.number()?), from.time()?);
        let (owner, poll) = (caller.worker, Some(NextLease::mark(caller.lease)));
        events.push(Event::Granted { lease, owner, poll, fence, expires_at });
    }
    let next = NextLease { lease, until, closed_queues: Vec::new() };
    let asked = PlanRequest::Advance(Advance { report: Box::new(report), next });
    Some((Request::Run(Box::new(RunRequest::Plan(asked))), events))
}
