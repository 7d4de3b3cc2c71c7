//! What must hold of any task, whatever was decided about it.

use verdict::record;
use verdict::{Digest, Event, Subject};

use crate::row::Dossier;

pub(super) fn check(dossier: &Dossier) -> Vec<String> {
    let mut wrong = Vec::new();
    check_attempts(dossier, &mut wrong);
    check_times(dossier, &mut wrong);
    check_record(dossier, &mut wrong);
    check_input(dossier, &mut wrong);
    wrong
}

/// Attempts are numbered from 1 without gaps, and each fence is larger than every one before.
fn check_attempts(dossier: &Dossier, wrong: &mut Vec<String>) {
    for (closed, n) in dossier.attempts.iter().zip(1..) {
        if closed.attempt != n {
            wrong.push(format!("attempt {} stands where attempt {n} belongs", closed.attempt));
            return;
        }
    }
    let (attempt, open) = match &dossier.found.subject {
        Subject::Live(task) => (task.attempt, task.lease().map(|lease| lease.fence)),
        Subject::Done(done) => (done.attempt, None),
        Subject::Absent => return,
    };
    let known = dossier.attempts.len() + usize::from(open.is_some());
    if attempt as usize != known {
        wrong.push(format!("{attempt} attempts are counted and {known} are known"));
    }
    let fences: Vec<_> = dossier.attempts.iter().map(|closed| closed.fence).chain(open).collect();
    if fences.windows(2).any(|pair| pair[0] >= pair[1]) {
        wrong.push("a fence is not larger than the one before it".to_owned());
    }
}

fn check_times(dossier: &Dossier, wrong: &mut Vec<String>) {
    let (created_at, started_at, completed_at) = match &dossier.found.subject {
        Subject::Live(task) => (task.created_at, task.started_at, None),
        Subject::Done(done) => (done.created_at, done.started_at, Some(done.completed_at)),
        Subject::Absent => return,
    };
    let times: Vec<_> =
        [Some(created_at), started_at, completed_at].into_iter().flatten().collect();
    if times.windows(2).any(|pair| pair[0] > pair[1]) {
        wrong.push("it was not created, started and completed in that order".to_owned());
    }
    if let Subject::Done(done) = &dossier.found.subject
        && !done.end.state.is_terminal()
    {
        wrong.push(format!("it has ended as {}, which is no end", done.end.state.name()));
    }
}

/// The record's digest, computed from the submission, the attempts and the end.
fn check_record(dossier: &Dossier, wrong: &mut Vec<String>) {
    let Some(begun) = first_chain(dossier) else { return };
    let chain = dossier.attempts.iter().fold(begun, record::extend);
    let matches = match &dossier.found.subject {
        Subject::Live(task) => task.chain == chain,
        Subject::Done(done) => {
            let sealed = record::seal_chain(chain, &done.end, done.created_at, done.completed_at);
            done.record == sealed
        }
        Subject::Absent => return,
    };
    if !matches {
        wrong.push("its record's digest is not that of its attempts and end".to_owned());
    }
}

fn first_chain(dossier: &Dossier) -> Option<Digest> {
    let first = dossier.history.first()?;
    let submitted = first.events.iter().take(1).filter(|event| is_submission(event));
    let events: Vec<Event> = submitted.cloned().collect();
    let subject = Subject::Absent.settle(&events, first.at);
    subject.live().map(|task| task.chain)
}

fn is_submission(event: &Event) -> bool {
    matches!(event, Event::Submitted(_))
}

/// The payload is the one whose digest was decided about.
fn check_input(dossier: &Dossier, wrong: &mut Vec<String>) {
    let submitted = dossier.history.first().and_then(|entry| entry.events.first());
    if let Some(Event::Submitted(submitted)) = submitted
        && submitted.input != Digest::of(&[dossier.found.spec.input.as_str().as_bytes()])
    {
        wrong.push("its input is not the one that was submitted".to_owned());
    }
}
