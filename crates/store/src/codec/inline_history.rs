//! An inline history: entries of one history, packed one after the other into rows that are written anyway.
//!
//! Nearly every history is a submission, a grant, perhaps a start, and a success. Separate rows would be
//! most of what a lifecycle writes. So the submission's entry is in `inputs`, and the next ones are in
//! `live` and move with the task to `done`. A history longer than [`INLINE_BYTES_MAX`] continues in the
//! table `history`.
//!
//! An entry is its length, its form, and the content that the form defines. Forms store what the rules
//! added to the request, as [`delta`] does; every other entry is stored as JSON under the form [`WHOLE`].
//! A form never changes: a different encoding gets a new form. Those of durable runs are in [`run_pack`],
//! those of plans in [`plan_pack`].

use verdict::event::Submitted;
use verdict::request::{Caller, Grant, Outcome, Report, Started, Submit};
use verdict::{
    AttemptOutcome, ClosedAttempt, Digest, End, Event, Fence, FlowKey, Json, Next, Request, State,
    TaskId,
};

use super::budget_pack::{pack_budget, unpack_budget};
use super::pack::{PackReader, PackWriter};
use super::payload_digest::digest_payloads;
use super::plan_pack::{self, PackedPlan};
use super::run_pack::{self, PackedRun};
use super::{Stored, Unreadable, delta};
use crate::row::{Entry, Renewals};

/// Maximum size of an inline history in bytes: it is written again with each change of its task.
const INLINE_BYTES_MAX: usize = 1_024;

/// Request and events as JSON.
const WHOLE: u8 = 0;
const SUBMITTED: u8 = 1;
const GRANTED: u8 = 2;
const SUCCEEDED: u8 = 3;
const STARTED: u8 = 4;
/// The request as JSON, and the events without what it says.
const DELTA: u8 = 5;
/// A submission with a flow key. The forms in between are those of [`run_pack`] and [`super::plan_pack`].
const LIMITED: u8 = 12;
/// A submission with a budget, and perhaps a flow key.
const BUDGETED: u8 = 16;

/// Whether there was room for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    Inline,
    /// The inline history ends before this entry.
    NoRoom,
}

/// The packed entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InlineHistory {
    bytes: Vec<u8>,
}

impl InlineHistory {
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// `None` for an inline history without entries, which is not stored.
    pub fn bytes(&self) -> Option<&[u8]> {
        (!self.bytes.is_empty()).then_some(&self.bytes)
    }

    /// An inline history of one entry, of any length.
    pub fn of(task: TaskId, entry: &Entry) -> Self {
        let mut inline_history = Self::default();
        inline_history.append(task, entry);
        inline_history
    }

    /// Appends the entry if it follows the last one here (`after`, if there is none) and there is room.
    pub fn try_append(&mut self, task: TaskId, after: u32, entry: &Entry) -> Appended {
        let last = self.last().unwrap_or(after);
        if last.checked_add(1) != Some(entry.n) {
            return Appended::NoRoom;
        }
        let length = self.bytes.len();
        self.append(task, entry);
        if self.bytes.len() > INLINE_BYTES_MAX {
            self.bytes.truncate(length);
            return Appended::NoRoom;
        }
        Appended::Inline
    }

    fn append(&mut self, task: TaskId, entry: &Entry) {
        let mut body = Vec::with_capacity(192);
        pack(&mut PackWriter(&mut body), task, &digest_payloads(entry));
        let mut writer = PackWriter(&mut self.bytes);
        writer.number(body.len() as u64);
        self.bytes.extend_from_slice(&body);
    }

    /// The number of the last entry; `None` also if the bytes cannot be decoded.
    fn last(&self) -> Option<u32> {
        let mut bodies = PackReader(&self.bytes);
        let mut last = None;
        while !bodies.is_empty() {
            let mut body = body(&mut bodies)?;
            body.byte()?;
            last = Some(body.small()?);
        }
        last
    }

    /// All entries, in order.
    pub fn entries(&self, task: TaskId) -> Result<Vec<Entry>, Unreadable> {
        let mut bodies = PackReader(&self.bytes);
        let mut entries = Vec::new();
        while !bodies.is_empty() {
            let body = body(&mut bodies).ok_or_else(unreadable)?;
            entries.push(unpack(body, task)?);
        }
        Ok(entries)
    }
}

fn body<'a>(bodies: &mut PackReader<'a>) -> Option<PackReader<'a>> {
    let length = usize::try_from(bodies.number()?).ok()?;
    bodies.bytes(length).map(PackReader)
}

fn unreadable() -> Unreadable {
    let source = serde::de::Error::custom("the bytes are not an inline history");
    Unreadable { what: "inline history", source }
}

fn pack(to: &mut PackWriter<'_>, task: TaskId, entry: &Entry) {
    if let Some(packed) = PackedRun::of(task, &entry.request, &entry.events) {
        pack_head(to, packed.form(), entry);
        return packed.pack(to);
    }
    if let Some(packed) = PackedPlan::of(task, &entry.request, &entry.events) {
        pack_head(to, packed.form(), entry);
        return packed.pack(to);
    }
    let form = form(task, entry);
    pack_head(to, form, entry);
    match (form, &entry.request, entry.events.as_slice()) {
        (SUBMITTED, Request::Submit(asked), [Event::Submitted(said)]) => {
            pack_submit(to, asked);
            to.time(said.due);
        }
        (LIMITED, Request::Submit(asked), [Event::Submitted(said)]) => {
            let flow = asked.flow.as_ref().expect("the form is for submissions with a key");
            pack_flow(to, flow);
            pack_submit(to, asked);
            to.time(said.due);
        }
        (BUDGETED, Request::Submit(asked), [Event::Submitted(said)]) => {
            let budget = asked.budget.as_ref().expect("the form is for submissions with a budget");
            pack_budget(to, budget);
            to.optional(asked.flow.as_deref(), pack_flow);
            pack_submit(to, asked);
            to.time(said.due);
        }
        (GRANTED, Request::Grant(asked), [Event::Granted { fence, expires_at, .. }]) => {
            pack_grant(to, asked);
            to.number(fence.as_u64());
            to.time(*expires_at);
        }
        (SUCCEEDED, Request::Report(asked), [Event::AttemptClosed { closed, .. }]) => {
            pack_success(to, asked);
            pack_closing(to, closed);
        }
        (STARTED, Request::Started(asked), _) => {
            pack_caller(to, &asked.caller);
            to.optional(asked.claimed_at, PackWriter::time);
        }
        (DELTA, request, events) => {
            to.text(&request.write());
            to.text(&delta::write(request, events));
        }
        _ => {
            to.text(&entry.request.write());
            to.text(&entry.events.write());
        }
    }
}

fn pack_head(to: &mut PackWriter<'_>, form: u8, entry: &Entry) {
    to.byte(form);
    to.number(u64::from(entry.n));
    to.time(entry.at);
    to.number(u64::from(entry.epoch));
    to.number(u64::from(entry.rules));
    to.optional(entry.loaded.as_ref(), pack_renewals);
}

/// The shortest form that can represent the entry: the task's id is known from the row.
fn form(task: TaskId, entry: &Entry) -> u8 {
    match (&entry.request, entry.events.as_slice()) {
        (Request::Started(_), [Event::Started]) => STARTED,
        (Request::Run(_), _) => DELTA,
        (request, [event]) if delta::is_derivable(request, event) => match event {
            Event::Submitted(said) if said.id == task && is_packed(said) => SUBMITTED,
            Event::Submitted(said) if said.id == task && is_limited(said) => LIMITED,
            Event::Submitted(said) if said.id == task && is_budgeted(said) => BUDGETED,
            Event::Granted { .. } => GRANTED,
            Event::AttemptClosed { closed, .. } if closed.task == task => SUCCEEDED,
            _ => WHOLE,
        },
        _ => WHOLE,
    }
}

/// Whether a submission has the plain packed form: most have neither a budget nor a flow key.
pub(super) fn is_packed(said: &Submitted) -> bool {
    said.budget.is_none() && said.flow.is_none()
}

/// Whether it has the packed form of a submission with a flow key, which says its name and limit and nothing else.
fn is_limited(said: &Submitted) -> bool {
    said.budget.is_none() && said.flow.as_deref().is_some_and(is_plain)
}

/// Whether it has the packed form of a submission with a budget.
fn is_budgeted(said: &Submitted) -> bool {
    said.budget.is_some() && said.flow.as_deref().is_none_or(is_plain)
}

/// Whether a flow key is its name and limit and nothing else.
fn is_plain(flow: &FlowKey) -> bool {
    *flow == FlowKey::new(flow.name.clone(), flow.limit)
}

fn unpack(mut from: PackReader<'_>, task: TaskId) -> Result<Entry, Unreadable> {
    let head = unpack_head(&mut from).ok_or_else(unreadable)?;
    let (request, events) = if head.form == WHOLE || head.form == DELTA {
        let texts = || Some((from.text()?, from.text()?));
        let (request, events) = { texts }().ok_or_else(unreadable)?;
        let request = Request::read(request)?;
        let events = match head.form {
            DELTA => delta::read(task, &request, events)?,
            _ => Vec::<Event>::read(events)?,
        };
        (request, events)
    } else if let Some((request, event)) = unpack_delta(&mut from, head.form, task) {
        (request, vec![event])
    } else {
        let packed = run_pack::unpack(&mut from, head.form, task);
        let packed = packed.or_else(|| plan_pack::unpack(&mut from, head.form, task));
        packed.ok_or_else(unreadable)?
    };
    if !from.is_empty() {
        return Err(unreadable());
    }
    let Head { form: _, n, at, epoch, rules, loaded } = head;
    Ok(Entry { n, at, epoch, rules, request, loaded, events })
}

/// The fields that every form begins with.
struct Head {
    form: u8,
    n: u32,
    at: verdict::Time,
    epoch: u32,
    rules: u32,
    loaded: Option<Renewals>,
}

fn unpack_head(from: &mut PackReader<'_>) -> Option<Head> {
    Some(Head {
        form: from.byte()?,
        n: from.small()?,
        at: from.time()?,
        epoch: from.small()?,
        rules: from.small()?,
        loaded: from.optional(unpack_renewals)?,
    })
}

fn unpack_delta(from: &mut PackReader<'_>, form: u8, task: TaskId) -> Option<(Request, Event)> {
    match form {
        SUBMITTED => unpack_submitted(from, task),
        LIMITED => unpack_limited(from, task),
        BUDGETED => unpack_budgeted(from, task),
        GRANTED => unpack_granted(from),
        SUCCEEDED => unpack_succeeded(from, task),
        STARTED => {
            let (caller, claimed_at) = (unpack_caller(from)?, from.optional(PackReader::time)?);
            Some((Request::Started(Started { caller, claimed_at }), Event::Started))
        }
        _ => None,
    }
}

fn pack_renewals(to: &mut PackWriter<'_>, renewals: &Renewals) {
    let Renewals {
        claim_version,
        revision,
        decided_at,
        heartbeat_at,
        expires_at,
        heard,
        progressed_at,
        stalled_at,
    } = renewals;
    to.number(u64::from(*claim_version));
    to.number(u64::from(*revision));
    to.time(*decided_at);
    to.optional(*heartbeat_at, PackWriter::time);
    to.optional(*expires_at, PackWriter::time);
    // The last byte once said only whether the worker was heard: without a progress clock nothing follows it.
    let clock = 2 * u8::from(progressed_at.is_some()) + 4 * u8::from(stalled_at.is_some());
    to.byte(u8::from(*heard) + clock);
    progressed_at.map(|at| to.time(at));
    stalled_at.map(|at| to.time(at));
}

fn unpack_renewals(from: &mut PackReader<'_>) -> Option<Renewals> {
    let (claim_version, revision) = (from.small()?, from.small()?);
    let decided_at = from.time()?;
    let heartbeat_at = from.optional(PackReader::time)?;
    let expires_at = from.optional(PackReader::time)?;
    let flags = from.byte().filter(|flags| *flags < 8)?;
    let heard = flags & 1 != 0;
    let progressed_at = if flags & 2 != 0 { Some(from.time()?) } else { None };
    let stalled_at = if flags & 4 != 0 { Some(from.time()?) } else { None };
    Some(Renewals {
        claim_version,
        revision,
        decided_at,
        heartbeat_at,
        expires_at,
        heard,
        progressed_at,
        stalled_at,
    })
}

fn pack_flow(to: &mut PackWriter<'_>, flow: &FlowKey) {
    to.text(flow.name.as_str());
    to.number(u64::from(flow.limit));
}

fn unpack_flow(from: &mut PackReader<'_>) -> Option<Box<FlowKey>> {
    Some(Box::new(FlowKey::new(from.name()?, from.small()?)))
}

/// All of a submission but its budget and its flow key, which have forms of their own.
pub(super) fn pack_submit(to: &mut PackWriter<'_>, asked: &Submit) {
    let Submit { id: _, scope, kind, queue, priority, policy, run_at, input, .. } = asked;
    let Submit { budget: _, flow: _, fingerprint, .. } = asked;
    for name in [&scope.tenant, &scope.workspace, kind, queue] {
        to.text(name.as_str());
    }
    to.signed(i64::from(*priority));
    to.policy(policy);
    to.optional(*run_at, PackWriter::time);
    to.digest(input);
    to.digest(fingerprint);
}

pub(super) fn unpack_submission(from: &mut PackReader<'_>, id: TaskId) -> Option<Submit> {
    Some(Submit {
        id,
        scope: verdict::Scope { tenant: from.name()?, workspace: from.name()? },
        kind: from.name()?,
        queue: from.name()?,
        priority: i32::try_from(from.signed()?).ok()?,
        policy: from.policy()?,
        run_at: from.optional(PackReader::time)?,
        input: from.digest()?,
        budget: None,
        flow: None,
        fingerprint: from.digest()?,
    })
}

fn unpack_submitted(from: &mut PackReader<'_>, id: TaskId) -> Option<(Request, Event)> {
    let asked = unpack_submission(from, id)?;
    let said = delta::submitted(&asked, from.time()?);
    Some((Request::Submit(asked), Event::Submitted(Box::new(said))))
}

fn unpack_limited(from: &mut PackReader<'_>, id: TaskId) -> Option<(Request, Event)> {
    let flow = Some(unpack_flow(from)?);
    let asked = Submit { flow, ..unpack_submission(from, id)? };
    let said = delta::submitted(&asked, from.time()?);
    Some((Request::Submit(asked), Event::Submitted(Box::new(said))))
}

fn unpack_budgeted(from: &mut PackReader<'_>, id: TaskId) -> Option<(Request, Event)> {
    let budget = Some(Box::new(unpack_budget(from)?));
    let flow = from.optional(unpack_flow)?;
    let asked = Submit { budget, flow, ..unpack_submission(from, id)? };
    let said = delta::submitted(&asked, from.time()?);
    Some((Request::Submit(asked), Event::Submitted(Box::new(said))))
}

fn pack_grant(to: &mut PackWriter<'_>, asked: &Grant) {
    let Grant { lease, owner, poll, build: _ } = asked;
    to.lease(*lease);
    to.text(owner.as_str());
    to.optional(poll.as_ref(), |to, poll| to.text(poll.as_str()));
}

fn unpack_granted(from: &mut PackReader<'_>) -> Option<(Request, Event)> {
    let (lease, owner) = (from.lease()?, from.name()?);
    let poll = from.optional(PackReader::name)?;
    let (fence, expires_at) = (Fence::from_u64(from.number()?), from.time()?);
    let asked = Grant { lease, owner: owner.clone(), poll: poll.clone(), build: None };
    Some((Request::Grant(asked), Event::Granted { lease, owner, poll, fence, expires_at }))
}

pub(super) fn pack_caller(to: &mut PackWriter<'_>, caller: &Caller) {
    let Caller { worker, attempt, lease, epoch } = caller;
    to.text(worker.as_str());
    to.number(u64::from(*attempt));
    to.lease(*lease);
    to.number(u64::from(*epoch));
}

pub(super) fn unpack_caller(from: &mut PackReader<'_>) -> Option<Caller> {
    Some(Caller {
        worker: from.name()?,
        attempt: from.small()?,
        lease: from.lease()?,
        epoch: from.small()?,
    })
}

pub(super) fn pack_success(to: &mut PackWriter<'_>, asked: &Report) {
    let Report { caller, outcome, digest, claims, by: _ } = asked;
    pack_caller(to, caller);
    let output = match outcome {
        Outcome::Succeeded { output } => output.as_ref(),
        Outcome::Failed(_) | Outcome::Cancelled { .. } | Outcome::Released => {
            unreachable!("a success was reported")
        }
    };
    to.optional(output, |to, output| to.text(output.as_str()));
    to.digest(digest);
    to.optional(claims.as_ref(), |to, claims| to.text(claims.as_str()));
}

/// What the rules added to the report of a success.
pub(super) fn pack_closing(to: &mut PackWriter<'_>, closed: &ClosedAttempt) {
    to.number(closed.fence.as_u64());
    to.time(closed.granted_at);
    to.optional(closed.started_at, PackWriter::time);
    to.time(closed.closed_at);
}

pub(super) fn unpack_closing(
    from: &mut PackReader<'_>,
    task: TaskId,
    caller: &Caller,
    digest: Digest,
    claims: Option<Json>,
) -> Option<ClosedAttempt> {
    Some(ClosedAttempt {
        task,
        attempt: caller.attempt,
        lease: caller.lease,
        fence: Fence::from_u64(from.number()?),
        owner: caller.worker.clone(),
        granted_at: from.time()?,
        started_at: from.optional(PackReader::time)?,
        closed_at: from.time()?,
        outcome: AttemptOutcome::Succeeded,
        reason: None,
        fault: None,
        report: Some(digest),
        claims,
    })
}

fn unpack_succeeded(from: &mut PackReader<'_>, task: TaskId) -> Option<(Request, Event)> {
    let report = unpack_success(from)?;
    let Report { caller, outcome, digest, claims, by: _ } = &report;
    let closed = unpack_closing(from, task, caller, *digest, claims.clone())?;
    let Outcome::Succeeded { output } = outcome else { return None };
    let output = output.clone();
    let end = End { state: State::Succeeded, reason: None, output, fault: None };
    let event = Event::AttemptClosed { closed: Box::new(closed), next: Next::End(end) };
    Some((Request::Report(report), event))
}

/// What [`pack_success`] wrote.
pub(super) fn unpack_success(from: &mut PackReader<'_>) -> Option<Report> {
    let caller = unpack_caller(from)?;
    let output = from.optional(PackReader::text)?.map(Json::from);
    let digest = from.digest()?;
    let claims = from.optional(PackReader::text)?.map(Json::from);
    Some(Report { caller, outcome: Outcome::Succeeded { output }, digest, claims, by: None })
}
