//! Reads a file with a plan from YAML or JSON: the steps, what else its run has, and when it is submitted. Remembers on which line each
//! step begins.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::Spanned;
use wire::plan::{Plan, PlanStep};
use wire::requests::{Budget, SubmitRun};
use wire::schedules::CreateSchedule;
use wire::{CatchUp, Overlap};

use crate::exit::CliError;

/// The largest plan that is read: ten thousand steps with short inputs, and more than a server takes in one call.
const PLAN_BYTES_MAX: u64 = 16 * 1024 * 1024;

pub(crate) struct PlanFile {
    pub(super) plan: Plan,
    about: About,
    lines: Vec<u64>,
}

/// What a file says beside the steps.
#[derive(Default)]
struct About {
    goal: Option<String>,
    labels: BTreeMap<String, String>,
    budget: Option<Budget>,
    deadline_ms: Option<u64>,
    schedule: Option<Timing>,
}

/// When a plan is submitted, as `POST /v1/schedules` has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Timing {
    cron: Option<String>,
    every_ms: Option<u64>,
    time_zone: Option<String>,
    overlap: Option<Overlap>,
    catch_up: Option<CatchUp>,
    catch_up_window_ms: Option<u64>,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    steps: Vec<PlanStep>,
    goal: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    budget: Option<Budget>,
    deadline_ms: Option<u64>,
    schedule: Option<Timing>,
}

/// The steps of a plan, for their places in the file.
#[derive(Deserialize)]
struct Places {
    steps: Vec<Spanned<IgnoredAny>>,
}

impl PlanFile {
    /// The run that the file describes.
    pub(crate) fn into_run(self) -> SubmitRun {
        let About { goal, labels, budget, deadline_ms, schedule: _ } = self.about;
        SubmitRun {
            plan: Some(self.plan),
            goal,
            labels,
            budget,
            deadline_ms,
            ..SubmitRun::default()
        }
    }

    /// The schedule that the file describes: what is said beside it counts, and of its own timing what is left open.
    pub(crate) fn into_schedule(mut self, said: CreateSchedule) -> CreateSchedule {
        let timing = self.about.schedule.take();
        let run = self.into_run();
        let Some(mut timing) = timing else { return CreateSchedule { run, ..said } };
        // An interval beside the file takes the place of its cron expression, with its time zone.
        let is_timed = said.cron.is_some() || said.every_ms.is_some();
        let when = if is_timed { (None, None, None) } else { timing.when() };
        let (cron, every_ms, time_zone) = when;
        CreateSchedule {
            cron: said.cron.or(cron),
            every_ms: said.every_ms.or(every_ms),
            time_zone: said.time_zone.or(time_zone),
            overlap: said.overlap.or(timing.overlap),
            catch_up: said.catch_up.or(timing.catch_up),
            catch_up_window_ms: said.catch_up_window_ms.or(timing.catch_up_window_ms),
            run,
            ..said
        }
    }

    /// Whether the file says when its plan is submitted.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.about.schedule.is_some()
    }

    /// What the file says beside the steps, as people read it.
    pub(super) fn about(&self) -> Vec<String> {
        let About { goal, labels, budget, deadline_ms, schedule } = &self.about;
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let said = [
            goal.as_ref().map(|goal| format!("for: {goal}")),
            (!labels.is_empty()).then(|| format!("labels: {}", labels.join(", "))),
            budget.as_ref().map(|budget| format!("budget: {}", json(budget))),
            deadline_ms.map(|millis| format!("ends within {millis} ms")),
            schedule.as_ref().map(Timing::said),
        ];
        said.into_iter().flatten().collect()
    }

    /// The line on which the step in this place begins, from 1.
    pub(super) fn line_of(&self, place: usize) -> Option<u64> {
        self.lines.get(place).copied().filter(|line| *line > 0)
    }
}

impl Timing {
    fn when(&mut self) -> (Option<String>, Option<u64>, Option<String>) {
        (self.cron.take(), self.every_ms.take(), self.time_zone.take())
    }

    fn said(&self) -> String {
        let zone = self.time_zone.as_deref().unwrap_or("UTC");
        match (&self.cron, self.every_ms) {
            (Some(cron), _) => format!("schedule: {cron} ({zone}), with `tenure schedules create`"),
            (None, Some(millis)) => {
                format!("schedule: every {millis} ms, with `tenure schedules create`")
            }
            (None, None) => "schedule: without `cron` or `everyMs`".to_owned(),
        }
    }
}

fn json(budget: &Budget) -> String {
    serde_json::to_string(budget).expect("a budget is plain JSON")
}

pub(crate) fn read(file: &Path) -> Result<PlanFile, CliError> {
    let text = read_text(file).map_err(|error| unreadable(file, &error))?;
    let written = parse(&text).map_err(|message| {
        let message = format!("{} is not a plan: {message}", file.display());
        CliError::usage("plan_unreadable", message)
            .hint("a plan is an object with `steps`; see `docs/guide/plans.md` for all members")
    })?;
    // A file that is a plan has these places. Without them only the lines are missing from messages.
    let places = serde_saphyr::from_str::<Places>(&text).map(|places| places.steps);
    let line = |step: &Spanned<IgnoredAny>| step.referenced.line();
    let lines = places.unwrap_or_default().iter().map(line).collect();
    let Written { steps, goal, labels, budget, deadline_ms, schedule } = written;
    let about = About { goal, labels, budget, deadline_ms, schedule };
    Ok(PlanFile { plan: Plan { steps }, about, lines })
}

fn read_text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        io::stdin().take(PLAN_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        File::open(file)?.take(PLAN_BYTES_MAX + 1).read_to_string(&mut text)
    };
    if read? as u64 > PLAN_BYTES_MAX {
        let message = format!("it has more than {PLAN_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

fn unreadable(file: &Path, error: &io::Error) -> CliError {
    let message = format!("cannot read {}: {error}", file.display());
    CliError::usage("input_unreadable", message).hint("give a YAML or JSON file with a plan")
}

/// JSON is read as JSON, which keeps numbers as they are written. Everything else is YAML.
fn parse(text: &str) -> Result<Written, String> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    let value: serde_json::Value =
        serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    serde_json::from_str(&value.to_string()).map_err(|error| without_place(&error))
}

/// The place is one in the JSON that the YAML was turned into, and would mislead.
fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&place).unwrap_or(&message).to_owned()
}
