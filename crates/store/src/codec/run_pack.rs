//! Packed entries of durable runs: a call whose steps were recorded as it asked, and the creation of a child.
//!
//! As JSON such an entry is several times as long, and few of them fit into an inline history. Here are the steps of a
//! worker that goes on or reports a success, and the message that creates a child. Every other entry (a step that failed
//! or was recorded before, a wait, a child) is stored as [`super::delta`] stores it.
//!
//! Invariant: what is packed is exactly what unpacking returns. [`PackedRun::of`] compares everything that is not packed
//! with what unpacking would make of it.

use verdict::request::{Caller, Outcome, Submit};
use verdict::run::{
    Body, Checkpoint, CheckpointCall, Lineage, Message, MessageNumber, Recorded, RunEvent,
    RunRequest, Spend, Step, StepCall, StepOutcome, Then,
};
use verdict::{ClosedAttempt, Digest, End, Event, Json, Next, Request, State, TaskId, Time};

use super::delta::{Reported, is_submission, is_success};
use super::inline_history::{
    pack_caller, pack_closing, pack_submit, unpack_caller, unpack_closing, unpack_submission,
};
use super::pack::{PackReader, PackWriter};

pub(super) const STEPPED: u8 = 6;
pub(super) const STEPPED_AND_SUCCEEDED: u8 = 7;
pub(super) const SPAWNED: u8 = 8;

/// An entry that has a packed form.
pub(super) enum PackedRun<'a> {
    Stepped { call: &'a CheckpointCall, first: Place, is_started: bool, expires_at: Time },
    Succeeded { call: &'a CheckpointCall, first: Place, closed: &'a ClosedAttempt },
    Spawned { message: &'a Message, submit: &'a Submit, lineage: &'a Lineage, due: Time },
}

/// The number of the first step, and the time of all of them.
#[derive(Clone, Copy)]
pub(super) struct Place {
    number: u32,
    at: Time,
}

impl<'a> PackedRun<'a> {
    /// `None` if no packed form can represent the entry.
    pub(super) fn of(task: TaskId, request: &'a Request, events: &'a [Event]) -> Option<Self> {
        let Request::Run(request) = request else { return None };
        match &**request {
            RunRequest::Checkpoint(call) => Self::of_call(task, call, events),
            RunRequest::Message(message) => Self::of_message(task, message, events),
            RunRequest::Signal(_)
            | RunRequest::Resume
            | RunRequest::Unpin
            | RunRequest::Inherit(_)
            | RunRequest::Metered(_)
            | RunRequest::Decide(_)
            | RunRequest::Plan(_) => None,
        }
    }

    fn of_call(task: TaskId, call: &'a CheckpointCall, events: &'a [Event]) -> Option<Self> {
        if call.asked_by.is_some() {
            return None;
        }
        if call.children.is_empty() && call.then == Then::Continue {
            let (is_started, rest) = match events {
                [Event::Started, rest @ ..] => (true, rest),
                rest => (false, rest),
            };
            let [Event::Renewed { expires_at, progress: None }, steps @ ..] = rest else {
                return None;
            };
            let first = first_place(call, steps)?;
            return Some(Self::Stepped { call, first, is_started, expires_at: *expires_at });
        }
        let (last, steps) = events.split_last()?;
        let Event::AttemptClosed { closed, next: Next::End(end) } = last else { return None };
        let is_it =
            call.children.is_empty() && closed.task == task && is_reported(call, closed, end);
        let first = first_place(call, steps).filter(|_| is_it)?;
        Some(Self::Succeeded { call, first, closed })
    }

    fn of_message(task: TaskId, message: &'a Message, events: &'a [Event]) -> Option<Self> {
        let Body::Spawn { submit, lineage } = &message.body else { return None };
        let [Event::Run(event)] = events else { return None };
        let RunEvent::Spawned { submitted, lineage: said } = &**event else { return None };
        let is_it = message.to == task
            && submit.id == task
            && said == lineage
            && submit.budget.is_none()
            && submit.flow.is_none()
            && is_submission(submit, submitted);
        is_it.then_some(Self::Spawned { message, submit, lineage, due: submitted.due })
    }

    pub(super) fn form(&self) -> u8 {
        match self {
            Self::Stepped { .. } => STEPPED,
            Self::Succeeded { .. } => STEPPED_AND_SUCCEEDED,
            Self::Spawned { .. } => SPAWNED,
        }
    }

    pub(super) fn pack(&self, to: &mut PackWriter<'_>) {
        match self {
            Self::Stepped { call, first, is_started, expires_at } => {
                pack_call(to, call, *first);
                to.byte(u8::from(*is_started));
                to.time(*expires_at);
            }
            Self::Succeeded { call, first, closed } => {
                pack_call(to, call, *first);
                pack_report(to, &call.then);
                pack_closing(to, closed);
            }
            Self::Spawned { message, submit, lineage, due } => {
                to.task(message.from);
                to.number(u64::from(message.number.entry));
                to.number(u64::from(message.number.index));
                pack_submit(to, submit);
                pack_lineage(to, lineage);
                to.time(*due);
            }
        }
    }
}

/// Whether the call reported the success that closed its attempt.
fn is_reported(call: &CheckpointCall, closed: &ClosedAttempt, end: &End) -> bool {
    let Then::Report { outcome, claims } = &call.then else { return false };
    let digest = call.digest;
    is_success(Reported { caller: &call.caller, outcome, digest, claims }, closed, end)
}

/// Where the steps of the call were recorded: all of them, in order, each a success as it was asked for.
fn first_place(call: &CheckpointCall, events: &[Event]) -> Option<Place> {
    let first = recorded(events.first()?)?;
    let place = Place { number: first.number, at: first.at };
    let is_as_asked = |(n, (step, event)): (usize, (&StepCall, &Event))| {
        recorded(event).is_some_and(|found| is_recorded(call, step, place.plus(n), found))
    };
    let is_all = events.len() == call.steps.len()
        && call.steps.iter().zip(events).enumerate().all(is_as_asked);
    is_all.then_some(place)
}

impl Place {
    fn plus(self, steps: usize) -> Self {
        Self { number: self.number.saturating_add(steps as u32), ..self }
    }
}

fn recorded(event: &Event) -> Option<&Checkpoint> {
    let Event::Run(event) = event else { return None };
    match &**event {
        RunEvent::Checkpointed(checkpoint) => Some(checkpoint),
        _ => None,
    }
}

fn is_recorded(call: &CheckpointCall, step: &StepCall, place: Place, found: &Checkpoint) -> bool {
    let Checkpoint { number, key, digest, attempt, at, recorded } = found;
    let is_success = matches!(step.step.outcome, StepOutcome::Succeeded { .. });
    let Recorded::Step(said) = recorded else { return false };
    is_success
        && (*number, *at) == (place.number, place.at)
        && (key, digest) == (&step.key, &step.digest)
        && *attempt == call.caller.attempt
        && *said == step.step
}

fn pack_call(to: &mut PackWriter<'_>, call: &CheckpointCall, first: Place) {
    let CheckpointCall { caller, digest, steps, children: _, then: _, asked_by: _ } = call;
    pack_caller(to, caller);
    to.digest(digest);
    to.number(u64::from(first.number));
    to.time(first.at);
    to.number(steps.len() as u64);
    steps.iter().for_each(|step| pack_step(to, step));
}

fn pack_step(to: &mut PackWriter<'_>, call: &StepCall) {
    let StepCall { key, digest, step: Step { outcome, input, spend, is_savepoint } } = call;
    to.text(key.as_str());
    to.digest(digest);
    let StepOutcome::Succeeded { result } = outcome else {
        unreachable!("only successes are packed")
    };
    to.optional(result.as_ref(), |to, result| to.text(result.as_str()));
    to.optional(input.as_ref(), |to, input| to.digest(input));
    let Spend { cost_micros, tokens, tool_calls } = *spend;
    [cost_micros, tokens, tool_calls].into_iter().for_each(|number| to.number(number));
    to.byte(u8::from(*is_savepoint));
}

fn unpack_step(from: &mut PackReader<'_>) -> Option<StepCall> {
    let (key, digest) = (from.name()?, from.digest()?);
    let result = from.optional(PackReader::text)?.map(Json::from);
    let input = from.optional(PackReader::digest)?;
    let spend =
        Spend { cost_micros: from.number()?, tokens: from.number()?, tool_calls: from.number()? };
    let outcome = StepOutcome::Succeeded { result };
    let step = Step { outcome, input, spend, is_savepoint: from.flag()? };
    Some(StepCall { key, digest, step })
}

fn pack_report(to: &mut PackWriter<'_>, then: &Then) {
    let Then::Report { outcome: Outcome::Succeeded { output }, claims } = then else {
        unreachable!("only successes are packed")
    };
    to.optional(output.as_ref(), |to, output| to.text(output.as_str()));
    to.optional(claims.as_ref(), |to, claims| to.text(claims.as_str()));
}

fn pack_lineage(to: &mut PackWriter<'_>, lineage: &Lineage) {
    match lineage {
        Lineage::Child { run, parent, key } => {
            to.byte(0);
            to.task(*run);
            to.task(*parent);
            to.text(key.as_str());
        }
        Lineage::Detached { cause, key } => {
            to.byte(1);
            to.task(*cause);
            to.text(key.as_str());
        }
    }
}

fn unpack_lineage(from: &mut PackReader<'_>) -> Option<Lineage> {
    if from.flag()? {
        return Some(Lineage::Detached { cause: from.task()?, key: from.name()? });
    }
    Some(Lineage::Child { run: from.task()?, parent: from.task()?, key: from.name()? })
}

/// The steps that a packed call begins with.
struct Steps {
    caller: Caller,
    digest: Digest,
    first: Place,
    steps: Vec<StepCall>,
}

impl Steps {
    fn unpack(from: &mut PackReader<'_>) -> Option<Self> {
        let (caller, digest) = (unpack_caller(from)?, from.digest()?);
        let first = Place { number: from.small()?, at: from.time()? };
        let count = from.number()?;
        let steps = (0..count).map(|_| unpack_step(from)).collect::<Option<_>>()?;
        Some(Self { caller, digest, first, steps })
    }

    fn events(&self) -> impl Iterator<Item = Event> {
        let event = |(n, step): (usize, &StepCall)| {
            let Place { number, at } = self.first.plus(n);
            let checkpoint = Checkpoint {
                number,
                key: step.key.clone(),
                digest: step.digest,
                attempt: self.caller.attempt,
                at,
                recorded: Recorded::Step(step.step.clone()),
            };
            Event::Run(Box::new(RunEvent::Checkpointed(Box::new(checkpoint))))
        };
        self.steps.iter().enumerate().map(event)
    }

    fn into_request(self, then: Then) -> Request {
        let Self { caller, digest, first: _, steps } = self;
        let (children, asked_by) = (Vec::new(), None);
        let call = CheckpointCall { caller, digest, steps, children, then, asked_by };
        Request::Run(Box::new(RunRequest::Checkpoint(call)))
    }
}

/// Reads what [`PackedRun::pack`] wrote under this form.
pub(super) fn unpack(
    from: &mut PackReader<'_>,
    form: u8,
    task: TaskId,
) -> Option<(Request, Vec<Event>)> {
    match form {
        STEPPED => unpack_stepped(from),
        STEPPED_AND_SUCCEEDED => unpack_succeeded(from, task),
        SPAWNED => unpack_spawned(from, task),
        _ => None,
    }
}

fn unpack_stepped(from: &mut PackReader<'_>) -> Option<(Request, Vec<Event>)> {
    let steps = Steps::unpack(from)?;
    let started = from.flag()?.then_some(Event::Started);
    let renewed = Event::Renewed { expires_at: from.time()?, progress: None };
    let events = started.into_iter().chain([renewed]).chain(steps.events()).collect();
    Some((steps.into_request(Then::Continue), events))
}

fn unpack_succeeded(from: &mut PackReader<'_>, task: TaskId) -> Option<(Request, Vec<Event>)> {
    let steps = Steps::unpack(from)?;
    let output = from.optional(PackReader::text)?.map(Json::from);
    let claims = from.optional(PackReader::text)?.map(Json::from);
    let closed = unpack_closing(from, task, &steps.caller, steps.digest, claims.clone())?;
    let end = End { state: State::Succeeded, reason: None, output: output.clone(), fault: None };
    let closed = Event::AttemptClosed { closed: Box::new(closed), next: Next::End(end) };
    let events = steps.events().chain([closed]).collect();
    let then = Then::Report { outcome: Outcome::Succeeded { output }, claims };
    Some((steps.into_request(then), events))
}

fn unpack_spawned(from: &mut PackReader<'_>, task: TaskId) -> Option<(Request, Vec<Event>)> {
    let (sender, entry, index) = (from.task()?, from.small()?, from.small()?);
    let submit = unpack_submission(from, task)?;
    let lineage = unpack_lineage(from)?;
    let submitted = Box::new(super::delta::submitted(&submit, from.time()?));
    let spawned = RunEvent::Spawned { submitted, lineage: lineage.clone() };
    let body = Body::Spawn { submit: Box::new(submit), lineage };
    let number = MessageNumber { entry, index };
    let message = Message { from: sender, number, to: task, body };
    let request = Request::Run(Box::new(RunRequest::Message(message)));
    Some((request, vec![Event::Run(Box::new(spawned))]))
}
