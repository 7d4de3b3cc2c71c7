//! `/v1/schedules`: create, list, show, preview, update, pause, resume, trigger, backfill and delete.
//!
//! A schedule is named by its name or its id. Whatever changes it is decided in a batch like a request about a task; lists and
//! previews read what is stored. A key that is limited to queues may use the schedules that submit to them, and no lists.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use store::objects::{ObjectChange, ObjectFilter, ObjectLogFilter, schedule_of, template_key};
use store::{Browse, PAGE_BYTES_MAX};
use verdict::schedule::{
    CatchUp, LastFiring, Overlap, Recurrence, RefusedFiring, Schedule, ScheduleAnswer,
    ScheduleRefusal, Terms,
};
use verdict::{Answer, Name, Object, ObjectKey, ObjectType, Scope};
use wire::limits::{PAGE_ITEMS_DEFAULT, SCHEDULE_PREVIEW_DEFAULT};
use wire::names::SCHEDULE_ID_PREFIX;
use wire::requests::SubmitRun;
use wire::schedules::{
    BackfillSchedule, CreateSchedule, ListSchedules, PreviewSchedule, ScheduleCall as Nothing,
    ScheduleEntry, ScheduleFiring, ScheduleHistory, ScheduleHistoryQuery, ScheduleList,
    SchedulePreview, ScheduleTriggered, ScheduleView, UpdateSchedule,
};
use wire::{Code, ScheduleState};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{API_BYTES_MAX, JsonBody, LARGE_BYTES_MAX};
use super::queue_limit::check_queue;
use super::submit::unexpected;
use super::translate::{instant, query, time};
use crate::admit::principals::Principal;
use crate::admit::{ClientPrincipal, ReaderPrincipal};
use crate::item::{Reply, ScheduleCall, ScheduleRequest, ScheduleTarget};
use crate::schedules;

pub(super) async fn create(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<(StatusCode, Json<ScheduleView>), ApiError> {
    let asked: CreateSchedule = wire::parse(&body)?;
    check_queues(&principal, &asked.run)?;
    let run = Some(asked.run.clone());
    let (now, by) = (app.coordinator.now(), principal.key().clone());
    let defaults = &app.inner.submit_defaults;
    let item = schedules::create(principal.scope(), asked, defaults, now, by)?;
    let ScheduleAnswer { id, schedule, .. } = decided(&app, item).await?;
    Ok((StatusCode::CREATED, Json(view(&id, schedule, run))))
}

pub(super) async fn list(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    uri: Uri,
) -> Result<Json<ScheduleList>, ApiError> {
    let ListSchedules { state, cursor, limit } = query(&uri)?;
    if principal.queues().is_some() {
        let message = "schedules are not listed by queue, and this API key is limited to queues";
        let key = Principal::key(&principal);
        return Err(ApiError::new(Code::Forbidden, message).by(&key.id, &key.scope));
    }
    let scope = principal.scope();
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let mut filter = ObjectFilter {
        scope: Some(scope.clone()),
        object_type: Some(ObjectType::Schedule),
        status: state.map(|state| Name::from(state.as_str())),
        after: cursor.map(|cursor| schedule_key(scope, &cursor)),
        limit,
        bytes: Some(PAGE_BYTES_MAX),
        ..ObjectFilter::default()
    };
    let mut schedules = Vec::new();
    // Deleted ones stay in the store, and are shown only to those who ask for them.
    loop {
        let found = app.read(app.coordinator.browse().objects(&filter)).await?;
        let is_last = filter.is_last(&found);
        filter.after = found.last().map(|last| last.key.clone());
        let is_wanted = |schedule: &Schedule| state.is_some() || !schedule.is_deleted;
        let views = found.iter().filter_map(|object| {
            let schedule = schedule_of(object).filter(is_wanted)?;
            Some(view(&object.key.id, schedule, None))
        });
        schedules.extend(views);
        if is_last || !schedules.is_empty() {
            let cursor = filter.after.filter(|_| !is_last).map(|key| key.id.to_string());
            return Ok(Json(ScheduleList { schedules, cursor }));
        }
    }
}

pub(super) async fn show(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    Path(named): Path<String>,
) -> Result<Json<ScheduleView>, ApiError> {
    let found = find(&app, &principal, principal.scope(), &named).await?;
    Ok(Json(view(&found.id, found.schedule, found.run)))
}

pub(super) async fn preview(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    Path(named): Path<String>,
    uri: Uri,
) -> Result<Json<SchedulePreview>, ApiError> {
    let PreviewSchedule { count } = query(&uri)?;
    let found = find(&app, &principal, principal.scope(), &named).await?;
    let count = count.unwrap_or(SCHEDULE_PREVIEW_DEFAULT) as usize;
    let instants = schedules::upcoming(&found.schedule.terms, app.coordinator.now(), count);
    Ok(Json(SchedulePreview { instants: instants.into_iter().map(time).collect() }))
}

/// The newest entries of its log, the newest first.
pub(super) async fn history(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    Path(named): Path<String>,
    uri: Uri,
) -> Result<Json<ScheduleHistory>, ApiError> {
    let ScheduleHistoryQuery { before, limit } = query(&uri)?;
    let found = find(&app, &principal, principal.scope(), &named).await?;
    let before = before.unwrap_or(u32::MAX).min(found.revision.saturating_add(1));
    let oldest = ObjectType::Schedule.first_kept(found.revision);
    let first = before.saturating_sub(limit.unwrap_or(PAGE_ITEMS_DEFAULT)).max(oldest);
    let key = schedule_key(principal.scope(), found.id.as_str());
    let filter = ObjectLogFilter {
        key: Some(key.clone()),
        after: Some((key, first - 1)),
        limit: before.saturating_sub(first) as usize,
    };
    let log = app.read(app.coordinator.browse().object_log(&filter)).await?;
    let entries = log.into_iter().rev().filter_map(entry).collect();
    Ok(Json(ScheduleHistory { entries, next_before: (first > oldest).then_some(first) }))
}

fn entry(change: ObjectChange) -> Option<ScheduleEntry> {
    let ObjectChange { after, at, by } = change;
    Some(ScheduleEntry {
        revision: after.revision,
        at: time(at),
        key_id: by.map(|key| key.to_string()),
        schedule: view(&after.key.id, schedule_of(&after)?, None),
    })
}

pub(super) async fn update(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    Path(named): Path<String>,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Json<ScheduleView>, ApiError> {
    let asked: UpdateSchedule = wire::parse(&body)?;
    if let Some(run) = &asked.run {
        check_queues(&principal, run)?;
    }
    let run = asked.run.clone();
    let call = schedules::update(principal.scope(), asked, &app.inner.submit_defaults)?;
    change(&app, &principal, &named, call, run).await
}

macro_rules! plain_change {
    ($name:ident, $call:expr) => {
        pub(super) async fn $name(
            State(app): State<AppState>,
            principal: ClientPrincipal,
            Path(named): Path<String>,
            JsonBody(body): JsonBody<API_BYTES_MAX>,
        ) -> Result<Json<ScheduleView>, ApiError> {
            let Nothing {} = wire::parse(&body)?;
            change(&app, &principal, &named, $call, None).await
        }
    };
}

plain_change!(pause, ScheduleCall::Pause);
plain_change!(resume, ScheduleCall::Resume);
plain_change!(delete, ScheduleCall::Delete);

pub(super) async fn backfill(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    Path(named): Path<String>,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<ScheduleView>, ApiError> {
    let BackfillSchedule { from, to } = wire::parse(&body)?;
    let call = ScheduleCall::Backfill { from: instant(from), to: instant(to) };
    change(&app, &principal, &named, call, None).await
}

pub(super) async fn trigger(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    Path(named): Path<String>,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<(StatusCode, Json<ScheduleTriggered>), ApiError> {
    let Nothing {} = wire::parse(&body)?;
    let found = find(&app, &principal, principal.scope(), &named).await?;
    let item = found.asked(principal.scope(), ScheduleCall::Trigger, principal.key());
    let size = found.schedule.size;
    app.charge(&principal.scope().tenant, size.requests());
    let asked = app.coordinator.schedule_of_size(item, size);
    let ScheduleAnswer { id, run, .. } = answered(&app, asked).await?;
    let run = run.ok_or_else(|| unexpected(&Answer::Nothing))?;
    let answer = ScheduleTriggered { schedule_id: id.to_string(), run_id: run.run_name() };
    Ok((StatusCode::CREATED, Json(answer)))
}

/// Changes a schedule that the principal may use.
async fn change(
    app: &AppState,
    principal: &ClientPrincipal,
    named: &str,
    call: ScheduleCall,
    new_run: Option<SubmitRun>,
) -> Result<Json<ScheduleView>, ApiError> {
    let found = find(app, principal, principal.scope(), named).await?;
    let item = found.asked(principal.scope(), call, principal.key());
    let ScheduleAnswer { id, schedule, .. } = decided(app, item).await?;
    Ok(Json(view(&id, schedule, new_run.or(found.run))))
}

async fn decided(app: &AppState, item: ScheduleRequest) -> Result<ScheduleAnswer, ApiError> {
    answered(app, app.coordinator.schedule(item)).await
}

async fn answered(
    app: &AppState,
    asked: impl Future<Output = Reply>,
) -> Result<ScheduleAnswer, ApiError> {
    match app.decided(asked).await??.answer {
        Answer::Schedule(answer) => Ok(*answer),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(unexpected(&other)),
    }
}

/// A schedule as it was read.
struct FoundSchedule {
    id: Name,
    revision: u32,
    schedule: Schedule,
    run: Option<SubmitRun>,
}

impl FoundSchedule {
    fn asked(&self, scope: &Scope, call: ScheduleCall, by: &Name) -> ScheduleRequest {
        let target = ScheduleTarget::Id(self.id.clone());
        ScheduleRequest { scope: scope.clone(), target, call, by: Some(by.clone()) }
    }
}

/// The schedule with this name or id, if the principal may use its queues. A deleted one is found by its id.
async fn find<P: Principal>(
    app: &AppState,
    principal: &P,
    scope: &Scope,
    named: &str,
) -> Result<FoundSchedule, ApiError> {
    let object = match named.starts_with(SCHEDULE_ID_PREFIX) {
        true => one(app, &schedule_key(scope, named)).await?,
        false => by_name(app, scope, named).await?,
    };
    let object = object.ok_or_else(not_found)?;
    let schedule = schedule_of(&object).ok_or_else(not_found)?;
    let template = one(app, &template_key(&object.key)).await?;
    let run = template.and_then(|template| schedules::template_run(&template.body));
    if principal.queues().is_some() {
        // What cannot be read is not theirs.
        check_queues(principal, run.as_ref().ok_or_else(not_found)?).map_err(|_| not_found())?;
    }
    Ok(FoundSchedule { id: object.key.id, revision: object.revision, schedule, run })
}

async fn one(app: &AppState, key: &ObjectKey) -> Result<Option<Object>, ApiError> {
    let filter = ObjectFilter::one(key);
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    Ok(found.into_iter().next())
}

async fn by_name(app: &AppState, scope: &Scope, name: &str) -> Result<Option<Object>, ApiError> {
    let filter = ObjectFilter {
        scope: Some(scope.clone()),
        object_type: Some(ObjectType::Schedule),
        unique_key: Some(name.into()),
        limit: 1,
        ..ObjectFilter::default()
    };
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    Ok(found.into_iter().next())
}

fn check_queues<P: Principal>(principal: &P, run: &SubmitRun) -> Result<(), ApiError> {
    match &run.plan {
        Some(plan) => {
            let mut steps = plan.steps.iter();
            steps.try_for_each(|step| check_queue(principal, "submit to", plan.queue_of(step)))
        }
        None => check_queue(principal, "submit to", &run.queue),
    }
}

fn schedule_key(scope: &Scope, id: &str) -> ObjectKey {
    ObjectKey { scope: scope.clone(), object_type: ObjectType::Schedule, id: id.into() }
}

fn not_found() -> ApiError {
    ApiError::new(Code::ScheduleNotFound, "no schedule of this workspace has this name or id")
}

fn view(id: &Name, schedule: Schedule, run: Option<SubmitRun>) -> ScheduleView {
    let state = match (schedule.is_deleted, schedule.is_paused) {
        (true, _) => ScheduleState::Deleted,
        (false, true) => ScheduleState::Paused,
        (false, false) => ScheduleState::Active,
    };
    let Schedule { name, terms, created_at, next, waiting, last, last_refusal, counts, .. } =
        schedule;
    let Terms { recurrence, overlap, catch_up, window } = terms;
    let (cron, time_zone, every_ms) = match recurrence {
        Recurrence::Cron { expression, zone } => {
            (Some(expression.to_string()), Some(zone.to_string()), None)
        }
        Recurrence::Every { every, .. } => (None, None, Some(every.millis())),
    };
    ScheduleView {
        schedule_id: id.to_string(),
        name: name.to_string(),
        state,
        cron,
        every_ms,
        time_zone,
        overlap: overlap_view(overlap),
        catch_up: catch_up_view(catch_up),
        catch_up_window_ms: window.millis(),
        created_at: time(created_at),
        next_at: next.map(time),
        waiting: u32::try_from(waiting.len()).unwrap_or(u32::MAX),
        last: last.map(firing_view),
        last_refusal: last_refusal.map(refusal_view),
        fired: counts.fired,
        skipped: counts.skipped,
        missed: counts.missed,
        refused: counts.refused,
        run,
    }
}

fn firing_view(last: LastFiring) -> ScheduleFiring {
    let LastFiring { instant, run, at } = last;
    ScheduleFiring { instant: time(instant), run_id: run.run_name(), at: time(at) }
}

fn refusal_view(refusal: RefusedFiring) -> wire::schedules::ScheduleRefusal {
    let RefusedFiring { instant, at, code } = refusal;
    wire::schedules::ScheduleRefusal {
        instant: time(instant),
        at: time(at),
        error: code.to_string(),
    }
}

fn overlap_view(overlap: Overlap) -> wire::Overlap {
    match overlap {
        Overlap::Skip => wire::Overlap::Skip,
        Overlap::Queue => wire::Overlap::Queue,
        Overlap::CancelOlder => wire::Overlap::CancelOlder,
        Overlap::Allow => wire::Overlap::Allow,
    }
}

fn catch_up_view(catch_up: CatchUp) -> wire::CatchUp {
    match catch_up {
        CatchUp::One => wire::CatchUp::One,
        CatchUp::All => wire::CatchUp::All,
    }
}

/// Why a request about a schedule was refused.
fn from_refusal(refusal: ScheduleRefusal) -> ApiError {
    match refusal {
        ScheduleRefusal::NotFound => not_found(),
        ScheduleRefusal::NameTaken => ApiError::new(
            Code::ScheduleExists,
            "another schedule has this name; update it, or delete it first",
        ),
        ScheduleRefusal::NothingToBackfill => ApiError::field(
            "to",
            "must be in the past, and the range must contain an instant of the schedule",
        ),
        ScheduleRefusal::TooManyWaiting => ApiError::field(
            "to",
            "makes the range contain more instants than may wait, which is 100; give a shorter range",
        ),
        ScheduleRefusal::ZoneOfInterval => {
            ApiError::field("timeZone", "belongs to cron; the schedule has an interval")
        }
        ScheduleRefusal::CatchUpNeedsRoom => schedules::catch_up_needs_room().into(),
    }
}

impl From<ScheduleRefusal> for ApiError {
    fn from(refusal: ScheduleRefusal) -> Self {
        from_refusal(refusal)
    }
}
