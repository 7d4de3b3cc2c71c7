//! The next stage of a task, leased with the answer to a report.
//!
//! A report says `next: true`; whether its worker gets the stage follows from the poll that leased the task: its token says how
//! far that poll goes. The lease is like any other, and so is its envelope. Where the envelope cannot be made, the
//! lease is handed back: the report is recorded whatever becomes of its wish.
//!
//! A lease whose answer is lost is not handed back at once, unlike that of a poll: the worker repeats its report, and gets the
//! same lease again while it is current.

use store::{Browse, Spec, TaskKey};
use verdict::plan::{Advance, NextLease, PlanRequest};
use verdict::run::RunRequest;
use verdict::{LeaseId, Request, State, Subject, Task};
use wire::answers::Envelope;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::lease::{Reach, complete_envelope};
use super::stages::stages_of;
use crate::admit::TokenScope;
use crate::item::Granted;

/// The report with its wish for the next stage, if the poll that leased the task goes that far and its key is still valid.
pub(super) fn asking(app: &AppState, token: &TokenScope, report: Request) -> Request {
    let is_usable = |key| app.inner.keys.is_usable(key, app.coordinator.now());
    let key = token.key.as_ref().filter(|key| is_usable(key.as_str()));
    let (Some(until), Some(_)) = (token.until, key) else { return report };
    // The id of the lease and the closed queues are those of the moment of the decision.
    let next = NextLease { lease: LeaseId::from_u128(0), until, closed_queues: Vec::new() };
    let asked = Advance { report: Box::new(report), next };
    Request::Run(Box::new(RunRequest::Plan(PlanRequest::Advance(asked))))
}

/// The envelope of the stage that was leased, and the state of its task. `None` if it is no longer leased.
pub(super) async fn envelope(
    app: &AppState,
    token: &TokenScope,
    key: &TaskKey,
    lease: LeaseId,
    leased: Option<Box<Task>>,
) -> (Option<Envelope>, State) {
    let made = made(app, token, key, lease, leased).await.unwrap_or_else(|_| {
        app.coordinator.release(vec![(key.clone(), lease)]);
        None
    });
    match made {
        Some(envelope) => (Some(envelope), State::Running),
        None => (None, state_of(app, key).await.unwrap_or(State::Queued)),
    }
}

async fn made(
    app: &AppState,
    token: &TokenScope,
    key: &TaskKey,
    lease: LeaseId,
    leased: Option<Box<Task>>,
) -> Result<Option<Envelope>, ApiError> {
    let at_hand = leased.zip(app.inner.plans_at_hand.get(key));
    let found = match at_hand {
        Some((task, spec)) => Some((*task, spec)),
        None => stored(app, key).await?,
    };
    let Some((task, spec)) = found else { return Ok(None) };
    let Some(held_by) = token.key.as_ref().filter(|_| is_leased(&task, lease)) else {
        return Ok(None);
    };
    let current = stages_of(task.run.as_deref()).map_or(0, |stages| stages.current);
    let until = token.until.filter(|until| *until > current);
    let granted = Granted { task, spec, at: app.coordinator.now() };
    complete_envelope(app, Some(held_by), &granted, Reach(until)).await
}

async fn stored(app: &AppState, key: &TaskKey) -> Result<Option<(Task, Spec)>, ApiError> {
    let found = app.read(app.coordinator.browse().find(key)).await?;
    Ok(found.and_then(|found| match found.subject {
        Subject::Live(task) => Some((task, found.spec)),
        Subject::Absent | Subject::Done(_) => None,
    }))
}

fn is_leased(task: &Task, lease: LeaseId) -> bool {
    task.lease().is_some_and(|held| held.id == lease)
}

async fn state_of(app: &AppState, key: &TaskKey) -> Option<State> {
    let found = app.read(app.coordinator.browse().find(key)).await.ok()??;
    found.subject.state()
}
