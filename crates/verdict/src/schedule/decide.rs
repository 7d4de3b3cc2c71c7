//! The decision of a request about a schedule.
//!
//! A firing is a submission like any other, under the key of its instant. The schedule moves on in the same commit, guarded by the
//! revision of its object. So an instant fires once, whatever dies, and however many coordinators found it due.

use super::needs::{self, of_change, schedule_key, schedule_name, task_key};
use super::{
    CalendarQuery, Fired, Instants, RUN_LABEL, Schedule, ScheduleAnswer, ScheduleCall,
    ScheduleRefusal, ScheduleRequest, UNREADABLE, firing_fingerprint, firing_key, schedule_id,
    template_key,
};
use crate::desk::Desk;
use crate::id::TaskId;
use crate::known::{Body, Known};
use crate::object::ObjectKey;
use crate::request::{Cancel, CancelMode, Request};
use crate::subject::{Needs, Subject};
use crate::submission::Submission;
use crate::time::Time;
use crate::verdict::{Answer, Refusal};

/// Schedules as a subject.
#[derive(Debug)]
pub enum Schedules {}

impl Subject for Schedules {
    type Request = ScheduleRequest;

    fn needs(request: &ScheduleRequest, known: &Known, now: Time) -> Needs {
        needs::needs(request, known, now)
    }

    fn decide(desk: &mut Desk<'_>, request: &ScheduleRequest) -> Answer {
        if let ScheduleCall::Create { .. } = &request.call {
            return create(desk, request);
        }
        let Some((key, schedule)) = found(desk, request) else {
            return refused(ScheduleRefusal::NotFound);
        };
        match &request.call {
            ScheduleCall::Fire => fire(desk, &key, &schedule),
            ScheduleCall::Trigger => trigger(desk, &key, &schedule),
            call => match changed(desk, schedule, call) {
                Ok(after) => {
                    let template = match call {
                        ScheduleCall::Update { template, .. } => template.as_ref(),
                        _ => None,
                    };
                    let Some(template) = template else { return written(desk, key, after, None) };
                    desk.write(template_key(&key), Body::Template(template.run.clone()));
                    written(desk, key, after.submitting(template), None)
                }
                Err(refusal) => refused(refusal),
            },
        }
    }
}

/// The schedule that a request is about, unless it was deleted.
fn found(desk: &Desk<'_>, request: &ScheduleRequest) -> Option<(ObjectKey, Schedule)> {
    let key = request.key(|name| desk.named(name).cloned())?;
    match &desk.object(&key)?.body {
        Body::Schedule(schedule) if !schedule.is_deleted => Some((key, (**schedule).clone())),
        _ => None,
    }
}

fn create(desk: &mut Desk<'_>, request: &ScheduleRequest) -> Answer {
    let ScheduleCall::Create { name, terms, is_paused, template } = &request.call else {
        return refused(ScheduleRefusal::NotFound);
    };
    if desk.named(&schedule_name(&request.scope, name)).is_some() {
        return refused(ScheduleRefusal::NameTaken);
    }
    let next = desk.instants(&CalendarQuery::next(terms, desk.now())).next;
    let schedule = Schedule::new(name.clone(), terms.clone(), *is_paused, next, desk.now());
    let key = schedule_key(&request.scope, &schedule_id(desk.id()));
    desk.write(template_key(&key), Body::Template(template.run.clone()));
    written(desk, key, schedule.submitting(template), None)
}

/// Time has come for some instants.
fn fire(desk: &mut Desk<'_>, key: &ObjectKey, schedule: &Schedule) -> Answer {
    let now = desk.now();
    if !schedule.is_due(now) {
        return Answer::Nothing;
    }
    let former = schedule.last.map(|last| task_key(key, last.run));
    let is_former_live = former.is_some_and(|former| desk.task(&former).is_some());
    let due = CalendarQuery::due(schedule, now);
    let due = due.map_or_else(Instants::default, |query| desk.instants(&query).clone());
    let Some(round) = schedule.begin(&due, is_former_live, now) else { return Answer::Nothing };
    // A run of an instant counts as if a client had sent it, so that a schedule is no way around the rate of its tenant. What
    // has no room there waits, as with a quota.
    let allowed = if round.fire.is_empty() { 0 } else { desk.allowed(key) };
    // The older run goes on where the rate lets no newer one take its place.
    if let Some(older) = round.cancel.filter(|_| allowed > 0) {
        desk.ask(&task_key(key, older), cancel_older());
    }
    let per_decision = schedule.size.runs_per_decision();
    let fired = round.fire.iter().enumerate().map(|(n, it)| match () {
        () if n >= per_decision => Fired::Later,
        () if n >= allowed => Fired::NoRoom,
        () => outcome(submit(desk, key, it.instant)),
    });
    let fired = fired.collect();
    written(desk, key.clone(), round.end(fired, now), None)
}

/// A run for this moment. If it is refused, nothing changes.
fn trigger(desk: &mut Desk<'_>, key: &ObjectKey, schedule: &Schedule) -> Answer {
    let now = desk.now();
    let answer = submit(desk, key, now);
    let Answer::Accepted { task, .. } = answer else { return answer };
    let after = schedule.triggered(now).end(vec![Fired::Started(task)], now);
    written(desk, key.clone(), after, Some(task))
}

/// Submits the run of an instant. [`Answer::Nothing`] if this program cannot read the template.
fn submit(desk: &mut Desk<'_>, key: &ObjectKey, instant: Time) -> Answer {
    let template = template_key(key);
    let revision = desk.object(&template).map(|row| row.revision);
    let run = revision.and_then(|revision| desk.template(&(template, revision)));
    let Some(run) = run else { return Answer::Nothing };
    desk.submit(&of_instant(run, key, instant))
}

/// What a template submits for an instant: an instant is one run, whatever the template says by then.
fn of_instant(run: &Submission, key: &ObjectKey, instant: Time) -> Submission {
    let mut submission = run.clone();
    let text = firing_key(&key.id, instant);
    submission.scope = key.scope.clone();
    // The schedule says when its runs start.
    submission.debounce = None;
    submission.spec.fingerprint = firing_fingerprint(&text);
    submission.spec.key = Some(text);
    submission.spec.labels.insert(RUN_LABEL.to_owned(), key.id.to_string());
    submission
}

fn cancel_older() -> Request {
    let reason = Some("the schedule started a newer run".into());
    Request::Cancel(Cancel { mode: CancelMode::Graceful, reason })
}

/// What the answer to a submission means for its instant.
fn outcome(answer: Answer) -> Fired {
    match answer {
        Answer::Accepted { task, .. } => Fired::Started(task),
        Answer::Refused(Refusal::QuotaReached { .. } | Refusal::BudgetSpent(_)) => Fired::NoRoom,
        Answer::Refused(refusal) => Fired::Refused(refusal.name().into()),
        _ => Fired::Refused(UNREADABLE.into()),
    }
}

/// The schedule after a change that submits nothing.
fn changed(
    desk: &Desk<'_>,
    schedule: Schedule,
    call: &ScheduleCall,
) -> Result<Schedule, ScheduleRefusal> {
    let now = desk.now();
    Ok(match call {
        ScheduleCall::Update { terms, .. } => {
            let after = schedule.terms.changed(terms, now)?;
            // Only a change of the recurrence moves the next instant: what is due and not yet fired must not be lost.
            let next = match of_change(&schedule, terms, now) {
                Some(query) => desk.instants(&query).next,
                None => schedule.next,
            };
            schedule.updated(after, next)
        }
        ScheduleCall::Pause => schedule.paused(),
        ScheduleCall::Resume => {
            let next = desk.instants(&CalendarQuery::next(&schedule.terms, now)).next;
            schedule.resumed(next)
        }
        ScheduleCall::Backfill { from, to } => {
            let query = CalendarQuery::within(&schedule.terms, *from, *to);
            schedule.backfilled(&desk.instants(&query).due, now)?
        }
        ScheduleCall::Delete => schedule.deleted(),
        ScheduleCall::Create { .. } | ScheduleCall::Fire | ScheduleCall::Trigger => schedule,
    })
}

fn written(desk: &mut Desk<'_>, key: ObjectKey, schedule: Schedule, run: Option<TaskId>) -> Answer {
    let id = key.id.clone();
    desk.write(key, Body::Schedule(Box::new(schedule.clone())));
    Answer::Schedule(Box::new(ScheduleAnswer { id, schedule, run }))
}

fn refused(refusal: ScheduleRefusal) -> Answer {
    Answer::Refused(Refusal::Schedule(refusal))
}
