//! Between schedules and their surroundings: requests of clients, the calendar that names instants, and what a template submits.
//!
//! The rules ([`verdict::schedule`]) know none of them. What is computed here depends on nothing but the schedule and the time of the
//! decision, so every coordinator computes the same.

use calendar::{Cron, Interval, Zone};
use verdict::schedule::{
    CalendarQuery, CatchUp, DUE_MAX, InstantRange, Instants, Overlap, Recurrence, RunSize,
    Template, Terms, TermsChange, WINDOW_DEFAULT, ZONE_DEFAULT,
};
use verdict::{Json, Name, Scope, Span, Text, Time};
use wire::requests::SubmitRun;
use wire::schedules::{CreateSchedule, UpdateSchedule};
use wire::{Check as _, FieldError};

use crate::item::{ScheduleCall, ScheduleRequest, ScheduleTarget, Submission};
use crate::requests::checked_submission;
use crate::submit_defaults::SubmitDefaults;
use crate::weight;

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
) -> Result<ScheduleRequest, FieldError> {
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
        template: template(scope, run, defaults),
    };
    let target = ScheduleTarget::New;
    Ok(ScheduleRequest { scope: scope.clone(), target, call, by: Some(by) })
}

/// The change of a schedule, from a request that was validated when it was parsed.
pub fn update(
    scope: &Scope,
    asked: UpdateSchedule,
    defaults: &SubmitDefaults,
) -> Result<ScheduleCall, FieldError> {
    let UpdateSchedule { cron, every_ms, time_zone, overlap, catch_up, catch_up_window_ms, run } =
        asked;
    let terms = change(cron, every_ms, time_zone, overlap, catch_up, catch_up_window_ms)?;
    Ok(ScheduleCall::Update { terms, template: run.map(|run| template(scope, run, defaults)) })
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

fn template(scope: &Scope, mut run: SubmitRun, defaults: &SubmitDefaults) -> Template {
    if run.plan.is_none() {
        defaults.fill(&mut run);
        defaults.fill_flow(&mut run);
        if let Some(flow) = &mut run.flow {
            // The schedule says when its runs start.
            (flow.debounce_ms, flow.debounce_max_ms) = (None, None);
        }
    }
    let text = serde_json::to_string(&run).expect("what was parsed can be written again");
    let run = Json::from(text);
    let size = submission(scope, &run).map_or(RunSize::ONE, |run| run_size(&run));
    Template { run, size }
}

/// What every run of a template writes. Who is told of its end is not known yet, and is not its own.
pub fn run_size(run: &Submission) -> RunSize {
    let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    RunSize { tasks: narrow(weight::tasks(run)), weight: narrow(weight::of_submission(run)) }
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

/// What a template submits, apart from what its instant adds; `None` if it cannot be read. It was checked when it was written, so
/// that is where this program knows less than the one that wrote it.
pub fn submission(scope: &Scope, template: &Json) -> Option<Submission> {
    let run = template_run(template)?;
    Some(checked_submission(scope, run, None, &SubmitDefaults::default()))
}

/// A stored recurrence; `None` if this program cannot read them.
fn readable(recurrence: &Recurrence) -> Option<calendar::Recurrence> {
    Some(match recurrence {
        Recurrence::Cron { expression, zone } => calendar::Recurrence::Cron {
            cron: expression.as_str().parse().ok()?,
            zone: Zone::named(zone.as_str()).ok()?,
        },
        Recurrence::Every { every, anchor } => {
            calendar::Recurrence::Interval(Interval::new(every.millis(), anchor.millis()).ok()?)
        }
    })
}

/// The instants after a time, at most `count`.
pub fn upcoming(terms: &Terms, after: Time, count: usize) -> Vec<Time> {
    let found = readable(&terms.recurrence).map(|it| it.upcoming(after.millis(), count));
    times(found.unwrap_or_default())
}

/// What the calendar says. Of a recurrence that cannot be read there are no instants.
pub fn instants(query: &CalendarQuery) -> Instants {
    let Some(recurrence) = readable(&query.recurrence) else { return Instants::default() };
    match query.range {
        InstantRange::After(now) => Instants { due: Vec::new(), next: next(&recurrence, now) },
        InstantRange::Due { first, now } => Instants {
            due: times(recurrence.latest(first.millis(), now.millis(), DUE_MAX)),
            next: next(&recurrence, now),
        },
        InstantRange::Within { from, to } => {
            let (after, until) = (from.millis().saturating_sub(1), to.millis());
            Instants { due: times(recurrence.within(after, until, BACKFILL_MAX)), next: None }
        }
    }
}

fn next(recurrence: &calendar::Recurrence, after: Time) -> Option<Time> {
    recurrence.next(after.millis()).map(Time::from_millis)
}

fn times(millis: Vec<i64>) -> Vec<Time> {
    millis.into_iter().map(Time::from_millis).collect()
}

#[cfg(test)]
mod tests {
    use edge::digests;
    use verdict::schedule::{RUN_LABEL, firing_fingerprint};
    use wire::names::SCHEDULE_LABEL;

    use super::*;

    #[test]
    fn a_template_knows_how_much_each_of_its_runs_writes() {
        let step = |key: &str, more: &str| {
            format!(r#"{{"key": "{key}", "kind": "k", "queue": "q", "dependsOn": [{more}]}}"#)
        };
        let steps = [step("a", ""), step("b", r#""a""#), step("c", r#""a""#)].join(",");
        let plan = format!(r#"{{"plan": {{"steps": [{steps}]}}}}"#);
        for (run, size) in [
            (r#"{"kind": "k", "queue": "q"}"#, RunSize::ONE),
            (&plan, RunSize { tasks: 4, weight: 4 }),
        ] {
            let run = wire::parse(run.as_bytes()).unwrap();
            let template = template(&Scope::default(), run, &SubmitDefaults::default());
            assert_eq!(template.size, size);
        }
    }

    #[test]
    fn the_rules_and_the_edge_name_a_run_of_a_schedule_alike() {
        let key = "sched/sched_01k9zz/1763500000000";
        assert_eq!(firing_fingerprint(&key.into()), digests::firing(key));
        assert_eq!(RUN_LABEL, SCHEDULE_LABEL);
    }
}
