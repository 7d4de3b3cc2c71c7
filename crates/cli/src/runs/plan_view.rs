//! The plan of a run, drawn: each step with what it depends on, its state, its time and why it failed or did not run.
//!
//! Steps that stand side by side and look alike are one line, and the drawing ends after a few screens, so that a plan of ten
//! thousand steps can be read as well as one of four.

use wire::answers::{PlanStage, Run};
use wire::{State, Time};

use super::timeline::bar;
use crate::duration;
use crate::output::{FAINT, style_of};

/// Fits beside the other columns on a narrow terminal.
const KEY_CHARS_MAX: usize = 28;

/// Upstreams that a line names.
const UPSTREAMS_SHOWN: usize = 3;

/// Steps that look alike and are drawn one by one; more of them are one line.
const ALIKE_MAX: usize = 4;

/// Lines of the drawing: a few screens.
const LINES_MAX: usize = 60;

/// The lines of the plan; none for a run without one.
pub(crate) fn lines(run: &Run) -> Vec<String> {
    if run.plan.is_empty() {
        return Vec::new();
    }
    let to = run.completed_at.unwrap_or(run.server_time);
    let groups = groups(&run.plan);
    let shown: usize = groups.iter().take(LINES_MAX).map(|group| group.len()).sum();
    let names: Vec<String> = groups.iter().take(LINES_MAX).map(|group| name(group)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
    let mut lines = vec![head(run, width)];
    let drawn = groups.iter().zip(&names);
    lines.extend(drawn.map(|(group, name)| line(group, name, width, run.created_at, to)));
    lines.extend(rest(run, shown));
    lines
}

fn head(run: &Run, width: usize) -> String {
    let all = run.plan_steps.map_or(run.plan.len(), |steps| steps as usize);
    let open = run.durable.as_ref().filter(|_| run.plan_steps.is_some());
    let open = open.map_or_else(String::new, |it| format!(", {} not ended", it.live_children));
    let head = format!("{:<width$}  state", "step");
    format!("{FAINT}{head}      plan of {all} steps{open}{FAINT:#}")
}

/// What the drawing leaves out.
fn rest(run: &Run, shown: usize) -> Option<String> {
    let all = run.plan_steps.map_or(run.plan.len(), |steps| steps as usize);
    let left = all.saturating_sub(shown);
    let line = || format!("{FAINT}… and {left} more: `GET /v1/runs/{}/plan`{FAINT:#}", run.run_id);
    (left > 0).then(line)
}

/// Neighbours that look alike, in the order of the plan.
fn groups(plan: &[PlanStage]) -> Vec<&[PlanStage]> {
    let alike = plan.chunk_by(|one, next| looks(one) == looks(next));
    alike
        .flat_map(|group| match group.len() > ALIKE_MAX {
            true => vec![group],
            false => group.chunks(1).collect(),
        })
        .collect()
}

fn looks(step: &PlanStage) -> (&str, &str, State, Option<&str>, &[String]) {
    (&step.kind, &step.queue, step.state, step.reason.as_deref(), &step.depends_on)
}

fn name(group: &[PlanStage]) -> String {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return String::new() };
    match group.len() {
        1 => short(&first.key),
        count => format!("{} … {} ({count})", short(&first.key), short(&last.key)),
    }
}

fn short(key: &str) -> String {
    match key.chars().count() > KEY_CHARS_MAX {
        true => key.chars().take(KEY_CHARS_MAX - 1).chain(['…']).collect(),
        false => key.to_owned(),
    }
}

fn line(group: &[PlanStage], name: &str, width: usize, from: Time, to: Time) -> String {
    let Some(step) = group.first() else { return String::new() };
    let style = style_of(step.state);
    let began = group.iter().filter_map(|it| it.started_at).min();
    let ended = group.iter().map(|it| it.completed_at).max().flatten();
    let time = began.map(|began| {
        let until = ended.filter(|_| step.state.is_terminal()).unwrap_or(to);
        let drawn = bar(began, until, from, to);
        format!("  {style}{drawn}{style:#}  {:>7}", duration::between(began, until))
    });
    let why = step.message.clone().or_else(|| step.reason.clone());
    let waits = step.waits_for.map(|missing| format!("waits for {missing}"));
    let asks = step.approval_id.as_ref().map(|approval| format!("asks people: {approval}"));
    let notes = [after(&step.depends_on), waits, asks, why].into_iter().flatten();
    let notes: Vec<String> = notes.collect();
    let word = step.state.to_string();
    format!(
        "{name:<width$}  {style}{word:<9}{style:#}{}  {}",
        time.unwrap_or_default(),
        notes.join("; ")
    )
    .trim_end()
    .to_owned()
}

/// What a step depends on.
fn after(upstreams: &[String]) -> Option<String> {
    let named: Vec<String> = upstreams.iter().take(UPSTREAMS_SHOWN).map(|it| short(it)).collect();
    let more = upstreams.len().saturating_sub(UPSTREAMS_SHOWN);
    match (named.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("after {}", named.join(", "))),
        (false, more) => Some(format!("after {} and {more} more", named.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(key: &str, state: State, upstreams: &[&str]) -> PlanStage {
        PlanStage {
            key: key.to_owned(),
            kind: "k".to_owned(),
            queue: "q".to_owned(),
            state,
            reason: None,
            message: None,
            depends_on: upstreams.iter().map(|it| (*it).to_owned()).collect(),
            waits_for: None,
            task_id: None,
            approval_id: None,
            started_at: None,
            completed_at: None,
        }
    }

    #[test]
    fn steps_that_look_alike_are_one_line() {
        let mut plan: Vec<PlanStage> =
            (0..90).map(|n| step(&format!("s{n:02}"), State::Succeeded, &["a"])).collect();
        plan.push(step("odd", State::Failed, &["a"]));
        plan.extend((0..3).map(|n| step(&format!("t{n}"), State::Queued, &[])));
        let names: Vec<String> = groups(&plan).into_iter().map(name).collect();
        assert_eq!(names, ["s00 … s89 (90)", "odd", "t0", "t1", "t2"]);
    }

    #[test]
    fn a_line_says_what_a_step_comes_after_and_why_it_did_not_run() {
        let skipped = PlanStage {
            message: Some("upstream step `b` failed".to_owned()),
            ..step("d", State::Skipped, &["b", "c", "x", "y", "z"])
        };
        let drawn = line(&[skipped], "d", 4, Time::from_ms(0), Time::from_ms(10));
        let plain = anstream::adapter::strip_str(&drawn).to_string();
        assert_eq!(plain, "d     skipped    after b, c, x and 2 more; upstream step `b` failed");
    }
}
