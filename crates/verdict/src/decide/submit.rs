//! A submission: creates a task, or finds the one that already holds its idempotency key.

use super::flow;
use crate::event::{Event, Subject};
use crate::plan::StepTerms;
use crate::request::Submit;
use crate::run::Lineage;
use crate::scope_budget;
use crate::task::State;
use crate::time::{Moment, Span, Time};
use crate::transition;
use crate::verdict::{Answer, Context, KeyHolder, ReadSet, Refusal, Verdict};

/// An idempotency key stays valid for a day after its task ends, so that a client that lost the
/// answer finds its run instead of creating a second one.
pub const KEY_WINDOW: Span = Span::from_secs(24 * 60 * 60);

/// Owns the creation of tasks.
pub struct Submitter(());

pub(super) fn decide(read_set: ReadSet<'_>, submit: &Submit, at: Moment) -> Verdict {
    match read_set.context.holder {
        Some(holder) if holds_key(holder.subject, at.now) => recall(holder, submit),
        Some(_) | None => admit(&read_set.context, submit, at.now),
    }
}

/// Whether a task still blocks other submissions from using its key.
pub fn holds_key(subject: &Subject, now: Time) -> bool {
    match subject {
        Subject::Absent => false,
        Subject::Live(_) => true,
        Subject::Done(done) => !done.completed_at.plus(KEY_WINDOW).has_come(now),
    }
}

fn recall(holder: KeyHolder<'_>, submit: &Submit) -> Verdict {
    let (task, state, created_at) = match holder.subject {
        Subject::Live(task) => (task.id, task.state(), task.created_at),
        Subject::Done(done) => (done.id, done.end.state, done.created_at),
        Subject::Absent => unreachable!("an absent task holds no key"),
    };
    if holder.fingerprint != submit.fingerprint {
        return Verdict::refuse(Refusal::KeyReused { holder: task });
    }
    Verdict::new(Answer::Accepted { task, state, created_at, replayed: true }, Vec::new())
}

/// An existing run is found whatever quota and budgets say; a new run needs room in all of them, and the limit of its flow key.
fn admit(context: &Context<'_>, submit: &Submit, now: Time) -> Verdict {
    if let Some(quota) = context.quota.filter(|quota| quota.is_reached()) {
        return Verdict::refuse(Refusal::QuotaReached { quota: quota.max });
    }
    if let Some(spent) = scope_budget::first_spent(context.budgets, now) {
        return Verdict::refuse(Refusal::BudgetSpent(spent));
    }
    match flow::check(context.flows, submit.flow.as_deref()) {
        Err(refusal) => Verdict::refuse(refusal),
        Ok(()) => create(submit, now),
    }
}

/// A task that another task's call asks for. Its key was checked where it was asked for.
pub(super) fn spawn(submit: &Submit, lineage: &Lineage, now: Time) -> Event {
    transition::spawn(&Submitter(()), submit, lineage, now)
}

/// A step that the root of a plan asks for.
pub(super) fn spawn_step(
    submit: &Submit,
    lineage: &Lineage,
    terms: StepTerms,
    is_blocked: bool,
    now: Time,
) -> Event {
    transition::spawn_step(&Submitter(()), submit, lineage, terms, is_blocked, now)
}

fn create(submit: &Submit, now: Time) -> Verdict {
    let event = transition::submit(&Submitter(()), submit, now);
    let answer = Answer::Accepted {
        task: submit.id,
        state: State::Queued,
        created_at: now,
        replayed: false,
    };
    Verdict::new(answer, vec![event])
}
