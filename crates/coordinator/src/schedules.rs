//! Between schedules and their surroundings: the calendar that names instants, and the submission of a template.
//!
//! The rules ([`verdict::schedule`]) know neither. What is computed here depends on nothing but the schedule and the time of the
//! decision, so every coordinator computes the same.

use calendar::{Cron, Interval, Zone};
use edge::digests;
use verdict::schedule::{
    CatchUp, DUE_MAX, Instants, Overlap, Recurrence, Schedule, Terms, TermsChange, WINDOW_DEFAULT,
    ZONE_DEFAULT, firing_key,
};
use verdict::{Json, Name, Scope, Span, Text, Time};
use wire::names::SCHEDULE_LABEL;
use wire::requests::SubmitRun;
use wire::schedules::{CreateSchedule, UpdateSchedule};
use wire::{Check as _, Code, FieldError};

use crate::item::{ScheduleCall, ScheduleItem, ScheduleTarget, Submission};
use crate::requests::checked_submission;
use crate::submit_defaults::SubmitDefaults;

/// The most instants of one backfill: as many as may wait, and one more, so that a longer range is refused and not cut.
const BACKFILL_MAX: usize = verdict::schedule::WAITING_MAX + 1;

/// A schedule to be created from a request that was validated when it was parsed. The defaults of this server become part
/// of the template, so that every coordinator submits the same.
pub fn create(
    scope: &Scope,
    asked: CreateSchedule,
    defaults: &SubmitDefaults,
    now: Time,
    by: Name,
) -> Result<ScheduleItem, FieldError> {
    let CreateSchedule {
        name,
        cron,
        every_ms,
        time_zone,
        overlap,
        catch_up,
        catch_up_window_ms,
        paused,
        run,
    } = asked;
    let change = change(cron, every_ms, time_zone, overlap, catch_up, catch_up_window_ms)?;
    let first = Terms {
        recurrence: Recurrence::Cron { expression: Text::from(""), zone: ZONE_DEFAULT.into() },
        overlap: Overlap::Skip,
        catch_up: CatchUp::One,
        window: WINDOW_DEFAULT,
    };
    let call = ScheduleCall::Create {
        name: Name::from(name),
        // An interval counts from the creation; the time of the decision is a moment later.
        terms: first.changed(&change, now).map_err(|_| catch_up_needs_room())?,
        is_paused: paused.unwrap_or(false),
        template: template(run, defaults),
    };
    let target = ScheduleTarget::New;
    Ok(ScheduleItem { scope: scope.clone(), target, call, by: Some(by) })
}

/// The change of a schedule, from a request that was validated when it was parsed.
pub fn update(
    asked: UpdateSchedule,
    defaults: &SubmitDefaults,
) -> Result<ScheduleCall, FieldError> {
    let UpdateSchedule { cron, every_ms, time_zone, overlap, catch_up, catch_up_window_ms, run } =
        asked;
    let terms = change(cron, every_ms, time_zone, overlap, catch_up, catch_up_window_ms)?;
    Ok(ScheduleCall::Update { terms, template: run.map(|run| template(run, defaults)) })
}

pub fn catch_up_needs_room() -> FieldError {
    FieldError::new(
        "catchUp",
        "is all, which needs overlap queue or allow: otherwise nearly all of them would be skipped",
    )
}

fn change(
    cron: Option<String>,
    every_ms: Option<u64>,
    time_zone: Option<String>,
    overlap: Option<wire::Overlap>,
    catch_up: Option<wire::CatchUp>,
    window_ms: Option<u64>,
) -> Result<TermsChange, FieldError> {
    if let Some(text) = &cron {
        let parsed: Result<Cron, _> = text.parse();
        parsed.map_err(|error| FieldError::new("cron", format!("is not valid: {error}")))?;
    }
    let zone = time_zone.as_deref().map(Zone::named).transpose();
    let zone = zone.map_err(|error| FieldError::new("timeZone", format!("is unknown: {error}")))?;
    Ok(TermsChange {
        expression: cron.map(Text::from),
        zone: zone.map(|zone| Name::from(zone.name())),
        every: every_ms.map(Span::from_millis),
        overlap: overlap.map(overlap_of),
        catch_up: catch_up.map(catch_up_of),
        window: window_ms.map(Span::from_millis),
    })
}

fn overlap_of(overlap: wire::Overlap) -> Overlap {
    match overlap {
        wire::Overlap::Skip => Overlap::Skip,
        wire::Overlap::Queue => Overlap::Queue,
        wire::Overlap::CancelOlder => Overlap::CancelOlder,
        wire::Overlap::Allow => Overlap::Allow,
    }
}

fn catch_up_of(catch_up: wire::CatchUp) -> CatchUp {
    match catch_up {
        wire::CatchUp::One => CatchUp::One,
        wire::CatchUp::All => CatchUp::All,
    }
}

fn template(mut run: SubmitRun, defaults: &SubmitDefaults) -> Json {
    if run.plan.is_none() {
        defaults.fill(&mut run);
        defaults.fill_flow(&mut run);
        if let Some(flow) = &mut run.flow {
            // The schedule says when its runs start.
            (flow.debounce_ms, flow.debounce_max_ms) = (None, None);
        }
    }
    Json::from(serde_json::to_string(&run).expect("what was parsed can be written again"))
}

/// What a template submits; `None` if it cannot be read.
pub fn template_run(template: &Json) -> Option<SubmitRun> {
    let mut run: SubmitRun = serde_json::from_str(template.as_str()).ok()?;
    // A key that an operator gave is none that a client could have named.
    let given = run.flow.take_if(|flow| wire::names::is_operator_flow(&flow.key));
    run.check().ok()?;
    run.flow = run.flow.or(given);
    Some(run)
}

/// The submission for an instant, or the code of its refusal.
pub fn submission(
    scope: &Scope,
    id: &Name,
    instant: Time,
    template: &Json,
) -> Result<Submission, Name> {
    // The template was checked when it was written. It is refused if this program knows less than the one that wrote it.
    let run = template_run(template).ok_or_else(|| Name::from(Code::InvalidArgument.as_str()))?;
    let key = firing_key(id, instant);
    let mut submission =
        checked_submission(scope, run, Some(key.to_string()), &SubmitDefaults::default());
    // Whatever the template says by then: an instant is one run.
    submission.spec.fingerprint = digests::firing(key.as_str());
    submission.spec.labels.insert(SCHEDULE_LABEL.to_owned(), id.to_string());
    Ok(submission)
}

/// The recurrence of stored terms; `None` if this program cannot read them.
fn recurrence(terms: &Terms) -> Option<calendar::Recurrence> {
    Some(match &terms.recurrence {
        Recurrence::Cron { expression, zone } => calendar::Recurrence::Cron {
            cron: expression.as_str().parse().ok()?,
            zone: Zone::named(zone.as_str()).ok()?,
        },
        Recurrence::Every { every, anchor } => {
            calendar::Recurrence::Interval(Interval::new(every.millis(), anchor.millis()).ok()?)
        }
    })
}

/// The first instant after a time.
pub fn next(terms: &Terms, after: Time) -> Option<Time> {
    recurrence(terms)?.next(after.millis()).map(Time::from_millis)
}

/// The instants after a time, at most `count`.
pub fn upcoming(terms: &Terms, after: Time, count: usize) -> Vec<Time> {
    let found = recurrence(terms).map(|it| it.upcoming(after.millis(), count));
    found.unwrap_or_default().into_iter().map(Time::from_millis).collect()
}

/// What the calendar says at the moment of a decision.
pub fn instants(schedule: &Schedule, now: Time) -> Instants {
    let recurrence = recurrence(&schedule.terms);
    let (Some(recurrence), Some(first)) = (recurrence, schedule.next) else {
        return Instants::default();
    };
    let due = recurrence.latest(first.millis(), now.millis(), DUE_MAX);
    Instants {
        due: due.into_iter().map(Time::from_millis).collect(),
        next: recurrence.next(now.millis()).map(Time::from_millis),
    }
}

/// The instants of a range, both ends included: all of them, or one more than may wait.
pub fn in_range(terms: &Terms, from: Time, to: Time) -> Vec<Time> {
    let found = recurrence(terms)
        .map(|it| it.within(from.millis().saturating_sub(1), to.millis(), BACKFILL_MAX));
    found.unwrap_or_default().into_iter().map(Time::from_millis).collect()
}
