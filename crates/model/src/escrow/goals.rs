//! Which situations of [`super::property::GOALS`] a decision reaches.

use verdict::run::{Body, Recorded, RunEvent, RunRequest};
use verdict::{Answer, BudgetEvent, Event, Request, State, Subject};

use super::ledger::{Decided, Ledger, end_of, total_of};
use super::world::{balance_of, place};

/// The goals that one decision reaches. The ledger is as it was before.
pub(super) fn goals(ledger: &Ledger, decided: &Decided<'_>) -> Vec<&'static str> {
    let mut reached = Vec::new();
    for event in &decided.verdict.events {
        reached.extend(goal_of_event(ledger, decided, event));
    }
    reached.extend(goal_of_total(ledger, decided));
    reached.extend(goal_of_answer(decided));
    reached.extend(goal_of_end(decided));
    reached
}

fn goal_of_event(ledger: &Ledger, decided: &Decided<'_>, event: &Event) -> Option<&'static str> {
    match event {
        Event::AttemptClosed { .. } if decided.request.caller().is_none() => {
            let used = |subject: &Subject| balance_of(subject).map_or(0, |it| it.used.tokens);
            let is_settled = used(decided.after) > used(decided.before);
            let is_swept = matches!(decided.request, Request::Sweep);
            let unheard = is_swept.then_some("a grant that nobody answered settles nothing");
            if is_settled { Some("a reservation is settled") } else { unheard }
        }
        Event::Run(event) => match &**event {
            RunEvent::ChildSpawned(_) if is_inherited(decided.request) => {
                Some("a child starts again in a continuation")
            }
            RunEvent::ChildSpawned(_) => Some("a child is funded"),
            RunEvent::Forked { .. } => Some("a run is continued"),
            RunEvent::Checkpointed(checkpoint) => match &checkpoint.recorded {
                Recorded::Child(end) => Some(match ledger.used_more_than_given(place(end.child)) {
                    true => "a child used more than its ceiling",
                    false => "a share comes back",
                }),
                Recorded::Step(_) | Recorded::Wait(_) => None,
            },
            RunEvent::Budget(event) => match **event {
                BudgetEvent::Warned(_) => Some("a soft limit is noted"),
                BudgetEvent::Asked(_) => Some("people are asked"),
                BudgetEvent::Metered(_) | BudgetEvent::Refunded(_) => None,
            },
            RunEvent::ApprovalClosed { .. } if end_of(decided.after).is_some() => {
                Some("going on is refused")
            }
            RunEvent::ApprovalClosed { .. } => Some("going on is approved"),
            _ => None,
        },
        _ => None,
    }
}

fn is_inherited(request: &Request) -> bool {
    matches!(request, Request::Run(request) if matches!(**request, RunRequest::Inherit(_)))
}

fn goal_of_total(ledger: &Ledger, decided: &Decided<'_>) -> Option<&'static str> {
    let total = total_of(decided.request);
    let is_refused = matches!(decided.verdict.answer, Answer::Refused(_));
    match (total > 0, is_refused) {
        (true, true) => Some("a late word about spend is refused"),
        (true, false) if ledger.is_no_news(decided.task, total) => {
            Some("a smaller total says nothing")
        }
        _ => None,
    }
}

fn goal_of_answer(decided: &Decided<'_>) -> Option<&'static str> {
    match &decided.verdict.answer {
        Answer::Refused(refusal) if refusal.name() == "budget_insufficient" => {
            Some("a spawn beyond the balance is refused")
        }
        _ => None,
    }
}

fn goal_of_end(decided: &Decided<'_>) -> Vec<&'static str> {
    let (was, is) = (end_of(decided.before), end_of(decided.after));
    let has_children = decided.after.live().is_some_and(|task| task.live_children() > 0);
    let mut reached = Vec::new();
    if was.is_none() && is == Some(State::Halted) {
        reached.push(halted_by(decided.request));
        if has_children {
            reached.push("halted with children left");
        }
        if steps_of(decided.after) > 0 {
            reached.push("a halted task keeps its steps");
        }
    }
    if was.is_none() && is == Some(State::Cancelled) && has_children {
        reached.push("cancelled with children left");
    }
    let is_done = matches!(decided.after, Subject::Done(_));
    if was == Some(State::Halted) && decided.before.live().is_some() && is_done {
        reached.push("a halted task ends after its children");
    }
    reached
}

fn steps_of(subject: &Subject) -> u32 {
    let run = match subject {
        Subject::Absent => None,
        Subject::Live(task) => task.run.as_deref(),
        Subject::Done(done) => done.run.as_deref(),
    };
    run.map_or(0, |run| run.steps)
}

fn halted_by(request: &Request) -> &'static str {
    if request.report().is_some() {
        return "a success beyond the limit halts";
    }
    let Request::Run(request) = request else { return "halted by a call" };
    match &**request {
        RunRequest::Metered(metered) if matches!(*metered.call, Request::Heartbeat(_)) => {
            "halted by a heartbeat"
        }
        RunRequest::Message(message) if matches!(message.body, Body::ChildEnded { .. }) => {
            "halted by the end of a child"
        }
        RunRequest::Decide(_) => "going on is refused",
        _ => "halted by a call",
    }
}
