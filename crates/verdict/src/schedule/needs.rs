//! What a request about a schedule needs.
//!
//! First the schedule that it names; then what the schedule names: its template, the run before, and the runs that have the keys of
//! its instants.

use super::{
    CalendarQuery, Instants, Schedule, ScheduleCall, ScheduleRequest, ScheduleTarget, Terms,
    TermsChange, firing_key, template_key,
};
use crate::id::{Name, Scope, TaskId};
use crate::key::{IdempotencyKey, TaskKey, UniqueKey};
use crate::known::{Fetched, Known};
use crate::object::{ObjectKey, ObjectType};
use crate::subject::Needs;
use crate::time::Time;

pub(super) fn schedule_key(scope: &Scope, id: &Name) -> ObjectKey {
    ObjectKey { scope: scope.clone(), object_type: ObjectType::Schedule, id: id.clone() }
}

pub(super) fn schedule_name(scope: &Scope, name: &Name) -> UniqueKey {
    let (scope, unique_key) = (scope.clone(), name.clone());
    UniqueKey { scope, object_type: ObjectType::Schedule, unique_key }
}

pub(super) fn task_key(schedule: &ObjectKey, run: TaskId) -> TaskKey {
    TaskKey { scope: schedule.scope.clone(), id: run }
}

fn firing(schedule: &ObjectKey, instant: Time) -> IdempotencyKey {
    let text = firing_key(&schedule.id, instant);
    IdempotencyKey { scope: schedule.scope.clone(), text }
}

impl ScheduleRequest {
    /// The schedule that it is about, where it names one.
    pub(super) fn key(&self, named: impl Fn(&UniqueKey) -> Option<ObjectKey>) -> Option<ObjectKey> {
        match &self.target {
            ScheduleTarget::New => None,
            ScheduleTarget::Id(id) => Some(schedule_key(&self.scope, id)),
            ScheduleTarget::Name(name) => named(&schedule_name(&self.scope, name)),
        }
    }
}

/// What the recurrence of changed terms is asked for; `None` where the change leaves it as it is, or is refused.
pub(super) fn of_change(schedule: &Schedule, to: &TermsChange, now: Time) -> Option<CalendarQuery> {
    let terms: Terms = schedule.terms.changed(to, now).ok()?;
    let is_same = terms.recurrence == schedule.terms.recurrence;
    (!is_same).then(|| CalendarQuery::next(&terms, now))
}

pub(super) fn needs(request: &ScheduleRequest, known: &Known, now: Time) -> Needs {
    let mut needs = Needs::default();
    if let ScheduleTarget::Name(name) = &request.target {
        needs.names.insert(schedule_name(&request.scope, name));
    }
    if let ScheduleCall::Create { name, terms, .. } = &request.call {
        needs.names.insert(schedule_name(&request.scope, name));
        needs.facts.instants.insert(CalendarQuery::next(terms, now));
        return needs;
    }
    let named = |name: &UniqueKey| known.objects.named(name).and_then(Fetched::loaded).cloned();
    let Some(key) = request.key(named) else { return needs };
    if let Some(schedule) = known.objects.schedule(&key).filter(|it| !it.is_deleted) {
        of_schedule(&mut needs, &request.call, (&key, schedule), known, now);
    }
    needs.objects.insert(key);
    needs
}

fn of_schedule(
    needs: &mut Needs,
    call: &ScheduleCall,
    (key, schedule): (&ObjectKey, &Schedule),
    known: &Known,
    now: Time,
) {
    match call {
        ScheduleCall::Create { .. } | ScheduleCall::Pause | ScheduleCall::Delete => {}
        ScheduleCall::Update { terms, template } => {
            needs.objects.extend(template.is_some().then(|| template_key(key)));
            needs.facts.instants.extend(of_change(schedule, terms, now));
        }
        ScheduleCall::Resume => {
            needs.facts.instants.insert(CalendarQuery::next(&schedule.terms, now));
        }
        ScheduleCall::Backfill { from, to } => {
            needs.facts.instants.insert(CalendarQuery::within(&schedule.terms, *from, *to));
        }
        ScheduleCall::Trigger => {
            of_submission(needs, key, known);
            needs.keys.insert(firing(key, now));
        }
        ScheduleCall::Fire if !schedule.is_due(now) => {}
        ScheduleCall::Fire => of_firing(needs, (key, schedule), known, now),
    }
}

/// What every run of a schedule needs.
fn of_submission(needs: &mut Needs, key: &ObjectKey, known: &Known) {
    let template = template_key(key);
    if let Some(row) = known.objects.fetched(&template).and_then(Fetched::loaded) {
        needs.facts.templates.insert((template.clone(), row.revision));
    }
    needs.objects.insert(template);
    needs.facts.quotas.insert(key.scope.tenant.clone());
}

fn of_firing(
    needs: &mut Needs,
    (key, schedule): (&ObjectKey, &Schedule),
    known: &Known,
    now: Time,
) {
    of_submission(needs, key, known);
    let former = schedule.last.map(|last| task_key(key, last.run));
    needs.tasks.extend(former.clone());
    needs.keys.extend(schedule.waiting.iter().map(|it| firing(key, it.instant)));
    let query = CalendarQuery::due(schedule, now);
    needs.facts.instants.extend(query.clone());
    let none = Instants::default();
    let instants = query.as_ref().map_or(Some(&none), |query| known.facts.instants(query));
    let Some(instants) = instants else { return };
    needs.keys.extend(instants.due.iter().map(|it| firing(key, *it)));
    if former.as_ref().is_some_and(|it| !known.tasks.contains(it)) {
        return;
    }
    // The rate has room for a number of runs, so it is asked last, when their number is known.
    let is_former_live = former.is_some_and(|it| known.tasks.live(&it).is_some());
    if let Some(round) = schedule.begin(instants, is_former_live, now)
        && !round.fire.is_empty()
    {
        let runs = round.fire.len().min(schedule.size.runs_per_decision());
        needs.facts.allowed.insert((key.clone(), runs, schedule.size.requests()));
    }
}
