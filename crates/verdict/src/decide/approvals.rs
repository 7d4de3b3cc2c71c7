//! The life of an approval: a wait asks for it, people decide it, or its time ends. See [`crate::approval`].

use super::run::{answered, event, loaded};
use super::{asking, waiting};
use crate::approval::{self, Approval, ApprovalCall, DecideCall, Outcome, Vote, VoteRefusal};
use crate::bounds;
use crate::event::{Event, Subject};
use crate::id::Digest;
use crate::run::{RunAnswer, RunEvent, RunRefusal, RunState, Signal, WaitCall};
use crate::task::Task;
use crate::time::{Moment, Time};
use crate::verdict::{Answer, ReadSet, Refusal, Verdict};

pub(super) fn decide(read_set: ReadSet<'_>, call: &DecideCall, at: Moment) -> Verdict {
    let refuse = |refusal| Verdict::refuse(Refusal::Run(RunRefusal::Approval(refusal)));
    let (task, run) = match read_set.subject {
        Subject::Absent => return refuse(VoteRefusal::NotFound),
        Subject::Done(done) => return refuse(missing(done.run.as_deref(), call.number)),
        Subject::Live(task) => (task, task.run.as_deref()),
    };
    let Some(approval) = run.and_then(|run| run.approvals.find(call.number)) else {
        return refuse(missing(run, call.number));
    };
    if !bounds::has_room(task) {
        return Verdict::refuse(Refusal::HistoryFull { state: task.state() });
    }
    match approval.vote(call, at.now) {
        Err(refusal) => refuse(refusal),
        Ok((vote, outcome)) => {
            let answer = answered(RunAnswer::Voted { outcome });
            Verdict::new(answer, voted(read_set, task, approval, vote, outcome, at.now))
        }
    }
}

/// Why an approval is not open: it was closed, or there never was one.
fn missing(run: Option<&RunState>, number: u32) -> VoteRefusal {
    let opened = run.map_or(0, |run| run.approvals.opened);
    if (1..=opened).contains(&number) { VoteRefusal::Closed } else { VoteRefusal::NotFound }
}

fn voted(
    read_set: ReadSet<'_>,
    task: &Task,
    approval: &Approval,
    vote: Vote,
    outcome: Option<Outcome>,
    now: Time,
) -> Vec<Event> {
    let mut votes = approval.votes.clone();
    votes.push(vote.clone());
    let number = approval.number;
    let mut events = vec![event(RunEvent::ApprovalVoted { number, vote: Box::new(vote) })];
    if let Some(outcome) = outcome {
        events.extend(close(read_set, task, approval, outcome, &votes, now));
    }
    events
}

/// The first approval whose time is over.
pub(super) fn expire(read_set: ReadSet<'_>, at: Moment) -> Option<Vec<Event>> {
    let task = read_set.subject.live()?;
    let open = &task.run.as_ref()?.approvals.open;
    let approval = open.iter().find(|approval| approval.is_expired(at.now))?;
    Some(close(read_set, task, approval, approval.at_expiry(), &approval.votes, at.now))
}

/// The approval is closed, and its task is told by a signal.
fn close(
    read_set: ReadSet<'_>,
    task: &Task,
    approval: &Approval,
    outcome: Outcome,
    votes: &[Vote],
    now: Time,
) -> Vec<Event> {
    if let Some(end) = asking::end(task, approval, outcome, votes) {
        let number = approval.number;
        return vec![event(RunEvent::ApprovalClosed { number, outcome }), end];
    }
    let payload = approval::told(outcome, approval.terms.digest.as_ref(), votes);
    let received = task.run.as_ref().map_or(0, |run| run.signals.received);
    let signal = Signal {
        number: bounds::next(received),
        name: approval::signal_name(&approval.key),
        key: None,
        digest: Digest::of(&[payload.as_str().as_bytes()]),
        payload: Some(payload),
    };
    let mut events = vec![
        event(RunEvent::ApprovalClosed { number: approval.number, outcome }),
        event(RunEvent::SignalReceived(Box::new(signal.clone()))),
    ];
    if waiting::open_wait(task).is_some() {
        let mut signals = loaded(read_set).signals.clone();
        signals.push(signal);
        events.extend(waiting::after_signal(task, &signals, now));
    }
    events
}

/// A wait begins. Approvals that are open and asked for again stay, with their votes; one that is asked of others, or
/// about something else, is withdrawn and opened anew.
pub(super) fn ask(task: &Task, wait: &WaitCall, now: Time) -> Vec<Event> {
    let open = task.run.as_ref().map_or(&[][..], |run| &run.approvals.open);
    let is_open = |call: &&ApprovalCall| open.iter().any(|it| it.is_asked_again(call));
    let asked: Vec<&ApprovalCall> = wait.approvals.iter().filter(|call| !is_open(call)).collect();
    let is_replaced = |it: &&Approval| asked.iter().any(|call| call.item == it.key);
    let withdrawn = open.iter().filter(is_replaced).map(|it| {
        let outcome = Outcome::Withdrawn;
        event(RunEvent::ApprovalClosed { number: it.number, outcome })
    });
    let opened = asked.iter().enumerate();
    let opened =
        opened.map(|(place, call)| approval::open(task, call, Some(&wait.key), place as u32, now));
    withdrawn.chain(opened).collect()
}

/// The answer to a sweep that closed an approval.
pub(super) fn swept(events: Vec<Event>) -> Verdict {
    Verdict::new(Answer::Done, events)
}
