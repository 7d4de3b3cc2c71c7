//! A soft limit that asks: a run that crosses it waits until people say that it may go on.
//!
//! Only a checkpoint call can make a run wait, because only there a worker can be let go and continue later from what it has
//! recorded. What a heartbeat or a report says is noted, and the next call waits. Going on is approved once; without the
//! approval the run halts, with its steps kept.

use super::run::answered;
use super::{budget, engine};
use crate::approval::{self, ApprovalCall, Outcome, Terms};
use crate::budget::{Balance, BudgetEvent, Unit};
use crate::done::End;
use crate::event::{Event, Subject};
use crate::id::{Name, Text};
use crate::request::Request;
use crate::run::limits::WAIT_DEFAULT;
use crate::run::{Awaited, AwaitedEvent, CheckpointCall, RunAnswer, RunEvent, Wait, WaitMode};
use crate::task::{State, Task};
use crate::time::Moment;
use crate::verdict::{Answer, Verdict};

/// The key of the approval and of the wait for it. No caller can use it: keys of calls have no spaces.
pub(crate) const KEY: &str = "budget soft limit";

/// The verdict, with a wait for people in place of going on if this decision crosses a soft limit that asks.
pub(super) fn ask(
    task: &Task,
    after: &Subject,
    request: &Request,
    verdict: Verdict,
    at: Moment,
) -> Verdict {
    let crossed = after.live().filter(|after| after.lease().is_some()).and_then(Task::balance);
    let Some((balance, unit)) = crossed.and_then(|it| Some((it, it.to_ask()?))) else {
        return verdict;
    };
    let asks = task.cancel.is_none();
    match (request.checkpoint_call(), goes_on(&verdict.answer)) {
        (Some(call), true) if asks => suspend(task, balance, unit, call, verdict, at),
        _ => verdict,
    }
}

/// Whether the caller of a checkpoint call would keep its lease.
fn goes_on(answer: &Answer) -> bool {
    let Answer::Run(answer) = answer else { return false };
    matches!(&**answer, RunAnswer::Checkpointed(it) if it.state == State::Running)
}

fn suspend(
    task: &Task,
    balance: &Balance,
    unit: Unit,
    call: &CheckpointCall,
    verdict: Verdict,
    at: Moment,
) -> Verdict {
    let Verdict { answer, events } = verdict;
    let is_kept = |event: &Event| !matches!(event, Event::Renewed { .. } | Event::Started);
    let mut events: Vec<Event> = events.into_iter().filter(is_kept).collect();
    events.push(budget::event(BudgetEvent::Asked(unit)));
    let key = Name::from(KEY);
    let (terms, asked_by) = (terms(balance, unit), call.asked_by.clone());
    let asked = ApprovalCall { item: key.clone(), terms, asked_by };
    events.push(approval::open(task, &asked, Some(&key), 0, at.now));
    let item =
        Awaited { key: key.clone(), event: AwaitedEvent::Signal(approval::signal_name(&key)) };
    let wait = Wait {
        key,
        digest: call.digest,
        mode: WaitMode::All,
        items: [item].into_iter().collect(),
        missing: 1,
        gives_up_at: at.now.plus(WAIT_DEFAULT),
    };
    events.push(engine::suspend(task, call.digest, wait, at.now));
    Verdict::new(waiting(answer), events)
}

/// Anybody with the role of approvers decides, once, except for the key that holds the lease.
fn terms(balance: &Balance, unit: Unit) -> Terms {
    let subject = format!("{}: may the run go on?", budget::soft_use(balance, unit));
    Terms {
        roles: Vec::new(),
        keys: Vec::new(),
        quorum: 1,
        expires_at: None,
        expires_in: None,
        default: None,
        subject: Some(Text::from(subject)),
        digest: None,
        content: None,
        shows: None,
        done_by: Vec::new(),
    }
}

fn waiting(answer: Answer) -> Answer {
    match answer {
        Answer::Run(answer) => match *answer {
            RunAnswer::Checkpointed(mut answer) => {
                (answer.state, answer.expires_at, answer.cancel) = (State::Waiting, None, None);
                (answer.replayed, answer.wait) = (false, None);
                answered(RunAnswer::Checkpointed(answer))
            }
            other => answered(other),
        },
        other => other,
    }
}

/// How the run ends if these events say that going on was not approved.
pub(super) fn refused(task: &Task, events: &[Event]) -> Option<End> {
    let approvals = &task.run.as_ref()?.approvals;
    let is_ours = |number: u32| approvals.find(number).is_some_and(|it| it.key.as_str() == KEY);
    let is_refused = events.iter().any(|event| {
        let Event::Run(event) = event else { return false };
        match &**event {
            RunEvent::ApprovalClosed { number, outcome } => {
                is_ours(*number) && matches!(outcome, Outcome::Rejected | Outcome::Expired)
            }
            _ => false,
        }
    });
    is_refused.then(|| budget::not_approved(task))
}
