//! The subjects: kinds of objects whose requests are decided by rules of their own ([`verdict::subject`]).
//!
//! All of them pass through the carrier in the same way, which knows none of them by name. What differs by kind is here: which
//! rules decide, how an object is read and written, and what time asks of one that is due.

use store::ObjectChange;
use store::objects::{schedule_change, schedule_of, template_change};
use store::recovery::{policy_change, stored_policy};
use store::spend::{budget_change, stored_budget};
use verdict::desk::{DeskResult, IdBlock};
use verdict::known::{Body, Known, ObjectRow};
use verdict::recovery::{PolicyRequest, RecoveryPolicies};
use verdict::schedule::{RunSize, ScheduleCall, ScheduleRequest, ScheduleTarget, Schedules};
use verdict::scope_budget::{BudgetRequest, Budgets};
use verdict::subject::{Needs, Subject};
use verdict::{Moment, Name, Object, ObjectKey, ObjectType, Scope, Time};

use crate::weight::PAYLOAD_BYTES_PER_UNIT;

/// A request about an object, of a client or of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectRequest {
    Schedule {
        request: ScheduleRequest,
        /// What it writes at most.
        weight: usize,
    },
    Budget(BudgetRequest),
    Policy(PolicyRequest),
}

impl ObjectRequest {
    /// What time asks about an object that is due; `None` for one that is decided otherwise.
    pub(crate) fn of_due(object: &Object, now: Time) -> Option<Self> {
        let schedule = schedule_of(object)?;
        let ObjectKey { scope, id, .. } = object.key.clone();
        let (target, call) = (ScheduleTarget::Id(id), ScheduleCall::Fire);
        let request = ScheduleRequest { scope, target, call, by: None };
        Some(ObjectRequest::Schedule { request, weight: schedule.firing_weight(now) })
    }

    /// What somebody asks about a schedule, a run of which is so large.
    pub(crate) fn of_schedule(request: ScheduleRequest, size: RunSize) -> Self {
        let weight = match &request.call {
            ScheduleCall::Trigger | ScheduleCall::Fire => 1 + size.weight as usize,
            ScheduleCall::Create { template, .. }
            | ScheduleCall::Update { template: Some(template), .. } => {
                1 + template.run.as_str().len() / PAYLOAD_BYTES_PER_UNIT
            }
            ScheduleCall::Update { template: None, .. }
            | ScheduleCall::Pause
            | ScheduleCall::Resume
            | ScheduleCall::Delete
            | ScheduleCall::Backfill { .. } => 1,
        };
        ObjectRequest::Schedule { request, weight }
    }

    pub(crate) const fn scope(&self) -> &Scope {
        match self {
            ObjectRequest::Schedule { request, .. } => &request.scope,
            ObjectRequest::Budget(request) => &request.scope,
            ObjectRequest::Policy(request) => &request.scope,
        }
    }

    /// The API key of the caller; `None` if time asks.
    pub(crate) const fn by(&self) -> Option<&Name> {
        match self {
            ObjectRequest::Schedule { request, .. } => request.by.as_ref(),
            ObjectRequest::Budget(request) => request.by.as_ref(),
            ObjectRequest::Policy(request) => Some(&request.by),
        }
    }

    /// What it writes at most, in units of about one task.
    pub(crate) const fn weight(&self) -> usize {
        match self {
            ObjectRequest::Schedule { weight, .. } => *weight,
            ObjectRequest::Budget(_) | ObjectRequest::Policy(_) => 1,
        }
    }

    /// Whether it is about instants of a schedule that have come.
    pub(crate) const fn fires(&self) -> bool {
        match self {
            ObjectRequest::Schedule { request, .. } => {
                matches!(request.call, ScheduleCall::Fire | ScheduleCall::Trigger)
            }
            ObjectRequest::Budget(_) | ObjectRequest::Policy(_) => false,
        }
    }

    pub(crate) fn needs(&self, known: &Known, now: Time) -> Needs {
        match self {
            ObjectRequest::Schedule { request, .. } => Schedules::needs(request, known, now),
            ObjectRequest::Budget(request) => Budgets::needs(request, known, now),
            ObjectRequest::Policy(request) => RecoveryPolicies::needs(request, known, now),
        }
    }

    pub(crate) fn decide(&self, known: &Known, at: Moment, ids: IdBlock) -> DeskResult {
        match self {
            ObjectRequest::Schedule { request, .. } => Schedules::decided(known, request, at, ids),
            ObjectRequest::Budget(request) => Budgets::decided(known, request, at, ids),
            ObjectRequest::Policy(request) => RecoveryPolicies::decided(known, request, at, ids),
        }
    }
}

/// An object as the rules know it; `None` for one of another type, or that cannot be read.
pub(crate) fn row_of(object: &Object) -> Option<ObjectRow> {
    let body = match object.key.object_type {
        ObjectType::ScheduleTemplate => Body::Template(object.body.clone()),
        ObjectType::Budget => Body::Budget(stored_budget(object)),
        ObjectType::RecoveryPolicy => Body::Policy(Box::new(stored_policy(object))),
        _ => Body::Schedule(Box::new(schedule_of(object)?)),
    };
    Some(ObjectRow { revision: object.revision, body })
}

/// The object as it is saved.
pub(crate) fn object_change(
    key: &ObjectKey,
    row: &ObjectRow,
    at: Time,
    by: Option<&Name>,
) -> ObjectChange {
    let (revision, by) = (row.revision, by.cloned());
    match &row.body {
        Body::Schedule(schedule) => schedule_change(key.clone(), revision, schedule, at, by),
        Body::Template(body) => template_change(key, revision, body.clone(), at, by),
        Body::Budget(budget) => budget_change(key.clone(), revision, budget, at, by),
        Body::Policy(policy) => policy_change(key.clone(), revision, policy, at, by),
    }
}
