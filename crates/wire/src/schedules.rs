//! Schedules: when runs are submitted again and again, and what became of it.

use serde::{Deserialize, Serialize};

use crate::check::flow::no_debounce;
use crate::check::{Check, Checked, name, refuse, within};
use crate::limits::{PAGE_ITEMS, SCHEDULE_EVERY_MS, SCHEDULE_PREVIEW, SCHEDULE_WINDOW_MS};
use crate::names::SCHEDULE_ID_PREFIX;
use crate::parse::Body;
use crate::requests::{SubmitRun, object};
use crate::{CatchUp, Overlap, ScheduleState, Time};

/// Long enough for every list of minutes, and no text to search through.
const CRON_BYTES_MAX: usize = 256;

/// `POST /v1/schedules`: submits a run at every instant that `cron` or `everyMs` names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSchedule {
    /// Unique in the workspace.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub name: String,
    /// Five fields as in Vixie cron (minute, hour, day of month, month, day of week), or a nickname such as @daily. Excludes
    /// `everyMs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 256))]
    pub cron: Option<String>,
    /// The interval, counted from the creation. Excludes `cron`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1000, maximum = 316224000000u64))]
    pub every_ms: Option<u64>,
    /// The IANA name of the time zone of `cron`; UTC when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 64))]
    pub time_zone: Option<String>,
    /// What becomes of an instant while the run before it has not ended; `skip` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// What becomes of instants that passed while no server ran; `one` when absent. `all` needs `overlap` queue or allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<CatchUp>,
    /// How late an instant may fire; a day when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 10000, maximum = 31622400000u64))]
    pub catch_up_window_ms: Option<u64>,
    /// Whether it begins paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// What is submitted: all members of a submission, except for `idempotencyKey` and `runAt`.
    pub run: SubmitRun,
}

/// `POST /v1/schedules/{schedule}/update`: what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateSchedule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 256))]
    pub cron: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1000, maximum = 316224000000u64))]
    pub every_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 64))]
    pub time_zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<CatchUp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 10000, maximum = 31622400000u64))]
    pub catch_up_window_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub run: Option<SubmitRun>,
}

/// The body of a call that says all with its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleCall {}

/// `POST /v1/schedules/{schedule}/backfill`: fires the instants of a range of the past, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackfillSchedule {
    pub from: Time,
    /// Included.
    pub to: Time,
}

/// `GET /v1/schedules?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListSchedules {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ScheduleState>,
    /// The `cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// `GET /v1/schedules/{schedule}/preview?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct PreviewSchedule {
    /// How many instants; 10 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 100))]
    pub count: Option<u32>,
}

/// `GET /v1/schedules/{schedule}/history?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ScheduleHistoryQuery {
    /// Only revisions before this one: `nextBefore` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1))]
    pub before: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// What became of a schedule: one entry for each change and each round of firing, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ScheduleHistory {
    pub entries: Vec<ScheduleEntry>,
    /// `before` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_before: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ScheduleEntry {
    pub revision: u32,
    pub at: Time,
    /// The API key that made the change; absent if time did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The schedule from then on.
    pub schedule: ScheduleView,
}

/// A page of schedules, in the order of their creation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ScheduleList {
    pub schedules: Vec<ScheduleView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ScheduleView {
    pub schedule_id: String,
    pub name: String,
    pub state: ScheduleState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    pub overlap: Overlap,
    pub catch_up: CatchUp,
    pub catch_up_window_ms: u64,
    pub created_at: Time,
    /// The next instant that is to fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
    /// How many instants have come and could not fire yet.
    pub waiting: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ScheduleFiring>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<ScheduleRefusal>,
    pub fired: u64,
    /// Left out because the run before had not ended, or too many waited.
    pub skipped: u64,
    /// Too late.
    pub missed: u64,
    /// Refused for good.
    pub refused: u64,
    /// What is submitted; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<SubmitRun>,
}

/// The last instant that became a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ScheduleFiring {
    pub instant: Time,
    pub run_id: String,
    pub at: Time,
}

/// The last instant whose run was refused for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ScheduleRefusal {
    pub instant: Time,
    pub at: Time,
    /// The code of the refusal.
    pub error: String,
}

/// A run was submitted for this moment: 201.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ScheduleTriggered {
    pub schedule_id: String,
    pub run_id: String,
}

/// The instants that follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct SchedulePreview {
    pub instants: Vec<Time>,
}

impl Body for CreateSchedule {}
impl Body for UpdateSchedule {}
impl Body for ScheduleCall {}
impl Body for BackfillSchedule {}

impl Check for CreateSchedule {
    fn check(&self) -> Checked {
        name("name", &self.name)?;
        if self.name.starts_with(SCHEDULE_ID_PREFIX) {
            return refuse("name", "begins like the id of a schedule; choose another name");
        }
        if self.cron.is_some() == self.every_ms.is_some() {
            return refuse("cron", "or everyMs must be given, and not both");
        }
        recurrence(self.cron.as_deref(), self.every_ms, self.time_zone.as_deref())?;
        within("catchUpWindowMs", self.catch_up_window_ms, SCHEDULE_WINDOW_MS)?;
        template(&self.run)
    }
}

impl Check for UpdateSchedule {
    fn check(&self) -> Checked {
        if *self == UpdateSchedule::default() {
            return refuse("", "names nothing to change");
        }
        if self.cron.is_some() && self.every_ms.is_some() {
            return refuse("cron", "and everyMs exclude each other");
        }
        recurrence(self.cron.as_deref(), self.every_ms, self.time_zone.as_deref())?;
        within("catchUpWindowMs", self.catch_up_window_ms, SCHEDULE_WINDOW_MS)?;
        self.run.as_ref().map_or(Ok(()), template)
    }
}

fn recurrence(cron: Option<&str>, every_ms: Option<u64>, zone: Option<&str>) -> Checked {
    within("everyMs", every_ms, SCHEDULE_EVERY_MS)?;
    if cron.is_some_and(|text| text.is_empty() || text.len() > CRON_BYTES_MAX) {
        return refuse("cron", format!("must be 1 to {CRON_BYTES_MAX} bytes"));
    }
    if zone.is_some() && every_ms.is_some() {
        return refuse("timeZone", "belongs to cron; an interval is the same in every zone");
    }
    Ok(())
}

/// The instant is the key and the start of a run.
fn template(run: &SubmitRun) -> Checked {
    let of_instant = [
        ("run.idempotencyKey", run.idempotency_key.is_some()),
        ("run.runAt", run.run_at.is_some()),
    ];
    if let Some((field, _)) = of_instant.into_iter().find(|(_, is_given)| *is_given) {
        return refuse(field, "follows from the instant; leave it out");
    }
    if run.deadline.is_some() {
        return refuse("run.deadline", "would be the same for every run; use deadlineMs");
    }
    no_debounce(run).and_then(|()| run.check()).map_err(|error| error.under("run"))
}

impl Check for ScheduleCall {
    fn check(&self) -> Checked {
        Ok(())
    }
}

impl Check for BackfillSchedule {
    fn check(&self) -> Checked {
        if self.from > self.to {
            return refuse("from", "must not be after to");
        }
        Ok(())
    }
}

impl Check for ListSchedules {
    fn check(&self) -> Checked {
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

impl Check for ScheduleHistoryQuery {
    fn check(&self) -> Checked {
        within("before", self.before.map(u64::from), 1..=u64::from(u32::MAX))?;
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

impl Check for PreviewSchedule {
    fn check(&self) -> Checked {
        within("count", self.count.map(u64::from), SCHEDULE_PREVIEW)
    }
}
