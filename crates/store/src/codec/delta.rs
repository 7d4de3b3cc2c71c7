//! Events stored without what they repeat from the request.
//!
//! Submissions, grants and successes are nearly all rows of the history, and their events repeat the
//! request. Such an event is stored as what the rules added; reading takes the rest from the request in
//! the same row. An event that differs from its request in any other way is stored whole.

use serde::{Deserialize, Serialize};
use verdict::event::Submitted;
use verdict::request::{Caller, Grant, Outcome, Report, Submit};
use verdict::{
    AttemptOutcome, ClosedAttempt, Digest, End, Event, Fence, Json, Next, Request, State, TaskId,
    Time,
};

use super::Unreadable;
use super::forms::EventForm;
use super::run_delta::{self, RunDelta};
use super::scalars::as_number;

/// What the rules added to the request.
#[derive(Serialize, Deserialize)]
enum Delta {
    #[serde(rename = "submitted_as_asked")]
    Submitted {
        #[serde(with = "as_number")]
        due: Time,
    },
    #[serde(rename = "granted_as_asked")]
    Granted {
        #[serde(with = "as_number")]
        fence: Fence,
        #[serde(with = "as_number")]
        expires_at: Time,
    },
    #[serde(rename = "succeeded_as_asked")]
    Succeeded {
        #[serde(with = "as_number")]
        fence: Fence,
        #[serde(with = "as_number")]
        granted_at: Time,
        #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
        started_at: Option<Time>,
        #[serde(with = "as_number")]
        closed_at: Time,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum WrittenEvent<'a> {
    Delta(Delta),
    Run(RunDelta),
    Whole(#[serde(with = "EventForm")] &'a Event),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ReadEvent {
    Delta(Delta),
    Run(RunDelta),
    Whole(#[serde(with = "EventForm")] Event),
}

/// Writes the events of one entry, without what its request says.
pub(crate) fn write(request: &Request, events: &[Event]) -> String {
    let written: Vec<WrittenEvent<'_>> =
        events.iter().map(|event| shorten(request, event)).collect();
    serde_json::to_string(&written).expect("forms have only text keys")
}

fn shorten<'a>(request: &Request, event: &'a Event) -> WrittenEvent<'a> {
    if let Some(delta) = run_delta::delta_of(request, event) {
        return WrittenEvent::Run(delta);
    }
    delta_of(request, event).map_or(WrittenEvent::Whole(event), WrittenEvent::Delta)
}

/// Reads what [`write`] wrote; the row's task and request supply what was left out.
pub(crate) fn read(task: TaskId, request: &Request, text: &str) -> Result<Vec<Event>, Unreadable> {
    let unreadable = |source| Unreadable { what: "list of events", source };
    let found: Vec<ReadEvent> = serde_json::from_str(text).map_err(unreadable)?;
    let rebuild = |found| match found {
        ReadEvent::Whole(event) => Some(event),
        ReadEvent::Delta(delta) => rebuild(task, request, delta),
        ReadEvent::Run(delta) => run_delta::rebuild(request, &delta),
    };
    let known = |found| {
        let what = "the event cannot be rebuilt from its request";
        rebuild(found).ok_or_else(|| unreadable(serde::de::Error::custom(what)))
    };
    found.into_iter().map(known).collect()
}

fn delta_of(request: &Request, event: &Event) -> Option<Delta> {
    let delta = match (request, event) {
        (Request::Submit(_), Event::Submitted(submitted)) => {
            Delta::Submitted { due: submitted.due }
        }
        (Request::Grant(_), Event::Granted { fence, expires_at, .. }) => {
            Delta::Granted { fence: *fence, expires_at: *expires_at }
        }
        (Request::Report(_), Event::AttemptClosed { closed, .. }) => Delta::Succeeded {
            fence: closed.fence,
            granted_at: closed.granted_at,
            started_at: closed.started_at,
            closed_at: closed.closed_at,
        },
        _ => return None,
    };
    is_derivable(request, event).then_some(delta)
}

/// Whether [`whole`] would produce exactly this event, compared without constructing it.
pub(super) fn is_derivable(request: &Request, event: &Event) -> bool {
    match (request, event) {
        (Request::Submit(asked), Event::Submitted(said)) => is_submission(asked, said),
        (Request::Grant(asked), Event::Granted { lease, owner, poll, fence: _, expires_at: _ }) => {
            // What is packed says no build.
            let Grant { lease: asked_lease, owner: asked_owner, poll: asked_poll, build } = asked;
            build.is_none() && (lease, owner, poll) == (asked_lease, asked_owner, asked_poll)
        }
        (Request::Report(asked), Event::AttemptClosed { closed, next: Next::End(end) }) => {
            let Report { caller, outcome, digest, claims, by: _ } = asked;
            is_success(Reported { caller, outcome, digest: *digest, claims }, closed, end)
        }
        _ => false,
    }
}

pub(super) fn is_submission(asked: &Submit, said: &Submitted) -> bool {
    let Submitted { id, scope, kind, queue, priority, policy, due: _, input, budget, flow } = said;
    (id, scope, kind, queue) == (&asked.id, &asked.scope, &asked.kind, &asked.queue)
        && (priority, policy, input) == (&asked.priority, &asked.policy, &asked.input)
        && (budget, flow) == (&asked.budget, &asked.flow)
}

/// What a worker reported, alone or with its last steps.
#[derive(Clone, Copy)]
pub(super) struct Reported<'a> {
    pub(super) caller: &'a Caller,
    pub(super) outcome: &'a Outcome,
    pub(super) digest: Digest,
    pub(super) claims: &'a Option<Json>,
}

pub(super) fn is_success(asked: Reported<'_>, closed: &ClosedAttempt, end: &End) -> bool {
    let Outcome::Succeeded { output } = asked.outcome else { return false };
    let ClosedAttempt {
        task: _,
        attempt,
        lease,
        fence: _,
        owner,
        granted_at: _,
        started_at: _,
        closed_at: _,
        outcome,
        reason: None,
        fault: None,
        report,
        claims,
    } = closed
    else {
        return false;
    };
    let End { state: State::Succeeded, reason: None, output: said, fault: None } = end else {
        return false;
    };
    *outcome == AttemptOutcome::Succeeded
        && said == output
        && (*attempt, *lease) == (asked.caller.attempt, asked.caller.lease)
        && *owner == asked.caller.worker
        && *report == Some(asked.digest)
        && claims == asked.claims
}

/// The submission that was accepted as it was asked for.
pub(super) fn submitted(asked: &Submit, due: Time) -> Submitted {
    let Submit { id, scope, kind, queue, priority, policy, input, budget, flow, .. } =
        asked.clone();
    Submitted { id, scope, kind, queue, priority, policy, due, input, budget, flow }
}

fn rebuild(task: TaskId, request: &Request, delta: Delta) -> Option<Event> {
    match (request, delta) {
        (Request::Submit(asked), Delta::Submitted { due }) => {
            Some(Event::Submitted(Box::new(submitted(asked, due))))
        }
        (Request::Grant(asked), Delta::Granted { fence, expires_at }) => {
            let Grant { lease, owner, poll, build: _ } = asked.clone();
            Some(Event::Granted { lease, owner, poll, fence, expires_at })
        }
        (Request::Report(asked), Delta::Succeeded { fence, granted_at, started_at, closed_at }) => {
            let Report { caller, outcome, digest, claims, by: _ } = asked.clone();
            let Outcome::Succeeded { output } = outcome else { return None };
            let closed = ClosedAttempt {
                task,
                attempt: caller.attempt,
                lease: caller.lease,
                fence,
                owner: caller.worker,
                granted_at,
                started_at,
                closed_at,
                outcome: AttemptOutcome::Succeeded,
                reason: None,
                fault: None,
                report: Some(digest),
                claims,
            };
            let end = End { state: State::Succeeded, reason: None, output, fault: None };
            Some(Event::AttemptClosed { closed: Box::new(closed), next: Next::End(end) })
        }
        _ => None,
    }
}
