//! Steps of a plan that ask people: opens their approvals, and ends them with what was decided. See [`crate::plan`].

use super::engine;
use super::waiting::open_wait;
use crate::approval::{self, Approval, ApprovalCall, Outcome, Terms, Vote};
use crate::done::{Category, End, Fault, Reason};
use crate::event::{Event, Next, Subject};
use crate::id::Text;
use crate::plan::{PlanEvent, Shown, preparing};
use crate::run::RunEvent;
use crate::task::{State, Task};
use crate::time::Moment;
use crate::verdict::Verdict;

/// The verdict, with the approval of the step that it lets a task enter.
pub(super) fn open(subject: &Subject, verdict: Verdict, at: Moment) -> Verdict {
    if !verdict.events.iter().any(enters) {
        return verdict;
    }
    let after = subject.clone().settle(&verdict.events, at.now);
    let shown = preparing::shown(&verdict.events);
    let opening = after.live().and_then(|task| opening(task, shown, at));
    let Some(event) = opening else { return verdict };
    let Verdict { answer, mut events } = verdict;
    events.push(event);
    Verdict::new(answer, events)
}

/// Whether a task may be in another step after this event.
fn enters(event: &Event) -> bool {
    match event {
        Event::AttemptClosed { next, .. } => matches!(next, Next::Stage(_)),
        Event::Run(event) => match &**event {
            RunEvent::Plan(event) => matches!(
                **event,
                PlanEvent::Planned(_)
                    | PlanEvent::StageEntered(_)
                    | PlanEvent::StepSpawned { .. }
                    | PlanEvent::Released { .. }
                    | PlanEvent::Prepared { .. }
            ),
            _ => false,
        },
        _ => false,
    }
}

/// A step that is prepared first asks when that is done.
fn opening(task: &Task, shown: Option<&Shown>, at: Moment) -> Option<Event> {
    let is_asking = open_wait(task).is_some() && task.preparing().is_none();
    let (key, terms) = task.asking().filter(|_| is_asking)?;
    let mut terms = with_work(task, terms.clone());
    if let Some(shown) = shown {
        terms.subject = shown.subject.clone().or(terms.subject);
        (terms.content, terms.digest) = (shown.content.clone(), shown.digest());
    }
    let call = ApprovalCall { item: key.clone(), terms, asked_by: None };
    Some(approval::open(task, &call, Some(key), 0, at.now))
}

/// The terms with who did the work, and the digest of what is shown of it.
fn with_work(task: &Task, mut terms: Terms) -> Terms {
    if let Some(step) = task.step_terms() {
        terms.done_by.extend(step.done_by.iter().cloned());
    }
    let Some(stages) = task.stages() else { return terms };
    terms.done_by.extend(stages.done_by.iter().cloned());
    let shown = terms.shows.as_ref().and_then(|stage| stages.output(stage));
    terms.digest = shown.or(terms.digest);
    terms
}

/// How the step ends that this approval was opened for; `None` if a worker waits for it.
pub(super) fn end(
    task: &Task,
    approval: &Approval,
    outcome: Outcome,
    votes: &[Vote],
) -> Option<Event> {
    let (key, _) = task.asking()?;
    if *key != approval.key || open_wait(task).is_none() || task.preparing().is_some() {
        return None;
    }
    let output = approval::told(outcome, approval.terms.digest.as_ref(), votes);
    let end = match outcome {
        Outcome::Approved => {
            End { state: State::Succeeded, reason: None, output: Some(output), fault: None }
        }
        Outcome::Rejected | Outcome::Expired | Outcome::Withdrawn => not_approved(outcome, votes),
    };
    Some(engine::end_asking(task, end))
}

fn not_approved(outcome: Outcome, votes: &[Vote]) -> End {
    let message = match votes.last() {
        Some(vote) if outcome == Outcome::Rejected => format!("the key {} rejected it", vote.key),
        _ if outcome == Outcome::Rejected => "nobody decided in time, which rejects it".to_owned(),
        _ => "nobody decided in time".to_owned(),
    };
    let fault = Fault {
        category: Category::UserCode,
        message: Text::from(message.as_str()),
        stack_trace: None,
        retryable: Some(false),
    };
    let reason = Some(Reason::NotApproved);
    End { state: State::Failed, reason, output: None, fault: Some(fault) }
}
