//! What a durable run recorded, drawn on the timeline of its attempts: steps as points, waits and children as bars.
//!
//! Built from the records, from the history, which says when a wait began, and from the wait that is open now.

use std::collections::BTreeMap;

use wire::answers::{Checkpoint, HistoryEntry, OpenWait, Run, TakenSignal};
use wire::{CheckpointKind, CheckpointOutcome, Time};

use super::entry::member;
use super::timeline::bar;
use crate::output::{BAD, BUSY, FAINT, GOOD, WARN};

/// Fits beside the bar; `tenure runs history --json` has the rest.
const RESULT_CHARS_MAX: usize = 40;

/// Begins the name of the signal that tells what came of an approval.
const APPROVAL: &str = "#approval:";

/// Begins the name of the signal that tells what became of an effect.
const EFFECT: &str = "#effect:";

/// One line of the drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordLine {
    kind: &'static str,
    key: String,
    from: Time,
    /// Absent while it is open.
    to: Option<Time>,
    outcome: &'static str,
    detail: String,
}

/// The lines of a run, in the order in which each began.
pub(crate) fn lines_of(
    records: &[Checkpoint],
    history: &[HistoryEntry],
    run: &Run,
) -> Vec<RecordLine> {
    let began = wait_starts(history);
    let mut lines: Vec<RecordLine> = Vec::new();
    for record in records {
        match (record.kind, record.outcome) {
            (CheckpointKind::Child, CheckpointOutcome::Started) => lines.push(child(record)),
            (CheckpointKind::Child, _) => end_child(&mut lines, record),
            (CheckpointKind::Step, _) => lines.push(step(record)),
            (CheckpointKind::Wait, _) => lines.push(wait(record, &began)),
        }
    }
    let waiting = run.durable.as_ref().and_then(|durable| durable.waiting.as_ref());
    lines.extend(waiting.and_then(|waiting| waiting.wait.as_ref()).map(|it| open(it, &began, run)));
    lines
}

/// When the attempts were suspended, by the key of the wait that they were suspended for.
fn wait_starts(history: &[HistoryEntry]) -> BTreeMap<String, Time> {
    let suspended = history.iter().filter(|entry| entry.kind == "attempt_closed");
    suspended.filter_map(|entry| Some((member(entry, "wait")?, entry.at))).collect()
}

fn step(record: &Checkpoint) -> RecordLine {
    let attempt = record.attempt.map(|n| format!("attempt {n}"));
    let savepoint = record.savepoint.then(|| "savepoint".to_owned());
    let said = match &record.error {
        Some(error) => Some(format!("{}: {}", error_word(record), first_line(&error.message))),
        None => record.result.as_ref().filter(|it| !it.is_null()).map(|it| short(it.text())),
    };
    RecordLine {
        kind: "step",
        key: record.key.clone(),
        from: record.recorded_at,
        to: Some(record.recorded_at),
        outcome: word(record.outcome),
        detail: joined([attempt, savepoint, said]),
    }
}

fn error_word(record: &Checkpoint) -> String {
    let Some(error) = &record.error else { return String::new() };
    let category = error.category.map(|category| category.to_string());
    error.reason.clone().or(category).unwrap_or_else(|| "FAILED".to_owned())
}

fn child(record: &Checkpoint) -> RecordLine {
    let detached = record.detached.then(|| "detached".to_owned());
    RecordLine {
        kind: "child",
        key: record.key.clone(),
        from: record.recorded_at,
        to: record.detached.then_some(record.recorded_at),
        outcome: if record.detached { "STARTED" } else { "" },
        detail: joined([record.task_id.clone(), detached, None]),
    }
}

fn end_child(lines: &mut [RecordLine], record: &Checkpoint) {
    let is_it = |line: &&mut RecordLine| line.kind == "child" && line.key == record.key;
    let Some(line) = lines.iter_mut().find(is_it) else { return };
    line.to = Some(record.recorded_at);
    line.outcome = word(record.outcome);
    if record.outcome == CheckpointOutcome::Failed {
        line.detail = joined([Some(line.detail.clone()), Some(error_word(record)), None]);
    }
}

fn wait(record: &Checkpoint, began: &BTreeMap<String, Time>) -> RecordLine {
    let outcome = record.wait.as_ref();
    let winner = outcome.and_then(|wait| wait.winner.clone());
    let signals: Vec<String> =
        outcome.map_or_else(Vec::new, |wait| wait.signals.iter().map(taken).collect());
    let signals = (!signals.is_empty()).then(|| signals.join(", "));
    RecordLine {
        kind: "wait",
        key: short_key(&record.key),
        from: began.get(&record.key).copied().unwrap_or(record.recorded_at),
        to: Some(record.recorded_at),
        outcome: "OVER",
        detail: joined([winner.map(|key| format!("first: {key}")), signals, None]),
    }
}

/// A signal by its name; of an approval what came of it, and by whose word; of an effect what became of it.
fn taken(signal: &TakenSignal) -> String {
    let told = signal.payload.as_ref().and_then(|it| it.read::<serde_json::Value>().ok());
    match (signal.name.starts_with(APPROVAL), told) {
        (true, Some(told)) => {
            let votes = told["votes"].as_array().map_or(&[][..], Vec::as_slice);
            let by = votes.iter().filter_map(|vote| vote["key"].as_str()).collect::<Vec<_>>();
            let by = if by.is_empty() { "nobody".to_owned() } else { by.join(" and ") };
            format!("{} by {by}", told["outcome"].as_str().unwrap_or("decided"))
        }
        (false, Some(told)) if signal.name.starts_with(EFFECT) => {
            let outcome = told["outcome"].as_str().unwrap_or("told");
            let reason = told["reason"].as_str().map_or_else(String::new, |it| format!(" ({it})"));
            format!("effect {outcome}{reason}")
        }
        _ => format!("signal {}", signal.name),
    }
}

fn open(wait: &OpenWait, began: &BTreeMap<String, Time>, run: &Run) -> RecordLine {
    RecordLine {
        kind: "wait",
        key: short_key(&wait.key),
        from: began.get(&wait.key).copied().unwrap_or(run.created_at),
        to: None,
        outcome: "",
        detail: awaited(wait),
    }
}

/// The key of a wait for several things ends in a digest of them; its beginning is enough to tell waits apart.
fn short_key(key: &str) -> String {
    const DIGEST: usize = 32;
    const SHOWN: usize = 8;
    let begins = key.len().checked_sub(DIGEST).filter(|begins| key.is_char_boundary(*begins));
    match begins {
        Some(begins) if key[begins..].bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            key[..begins + SHOWN].to_owned()
        }
        _ => key.to_owned(),
    }
}

/// What a wait is for, in words.
pub(crate) fn awaited(wait: &OpenWait) -> String {
    /// How many items are named: the rest is counted.
    const NAMED: usize = 3;
    let named = wait.items.iter().take(NAMED).map(|item| {
        match (item.until, &item.signal, &item.approval, &item.effect) {
            (Some(until), _, _, _) => format!("until {until}"),
            (None, Some(signal), _, _) => format!("signal {signal}"),
            (None, None, Some(_), _) => {
                let until = item.expires_at.map(|at| format!(" (expires {at})"));
                let name = item.key.trim_start_matches("approval:");
                format!("approval {name}{}", until.unwrap_or_default())
            }
            (None, None, None, Some(_)) => {
                format!("the delivery of {}", item.key.trim_start_matches("delivery:"))
            }
            (None, None, None, None) => {
                format!("child {}", item.child.as_deref().unwrap_or(&item.key))
            }
        }
    });
    let between = if wait.mode == wire::WaitMode::Any { " or " } else { " and " };
    let named: Vec<String> = named.collect();
    let rest = (wait.count as usize).saturating_sub(named.len());
    let more = if rest > 0 { format!("{between}{rest} more") } else { String::new() };
    format!("{}{more}", named.join(between))
}

impl RecordLine {
    /// The line for a run that began at `from`, drawn up to `to`.
    pub(crate) fn draw(&self, width: usize, from: Time, to: Time) -> String {
        let (style, outcome) = match self.outcome {
            "" => (BUSY, "open"),
            "SUCCEEDED" | "OVER" => (GOOD, self.outcome),
            "FAILED" => (BAD, self.outcome),
            other => (WARN, other),
        };
        let bar = bar(self.from, self.to.unwrap_or(to), from, to);
        let RecordLine { kind, key, detail, .. } = self;
        format!(
            "{FAINT}{kind:>5}{FAINT:#}  {key:<width$}  {style}{outcome:<9}{style:#}  {style}{bar}{style:#}  {detail}"
        )
        .trim_end()
        .to_owned()
    }

    pub(crate) fn key_width(lines: &[RecordLine]) -> usize {
        lines.iter().map(|line| line.key.len()).max().unwrap_or(0)
    }
}

const fn word(outcome: CheckpointOutcome) -> &'static str {
    match outcome {
        CheckpointOutcome::Started => "STARTED",
        CheckpointOutcome::Succeeded => "SUCCEEDED",
        CheckpointOutcome::Failed => "FAILED",
        CheckpointOutcome::Cancelled => "CANCELLED",
    }
}

fn joined(parts: [Option<String>; 3]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

fn first_line(text: &str) -> String {
    short(text.lines().next().unwrap_or_default())
}

fn short(text: &str) -> String {
    if text.chars().count() <= RESULT_CHARS_MAX {
        return text.to_owned();
    }
    let cut: String = text.chars().take(RESULT_CHARS_MAX - 1).collect();
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wait_is_named_by_the_beginning_of_its_digest() {
        assert_eq!(short_key("wait:8b12bf265a53bd208ba651e5a16d6e3c"), "wait:8b12bf26");
        for whole in ["wait:sleep#1", "8b12bf265a53bd208ba651e5a16d6e3", "", &"ä".repeat(40)] {
            assert_eq!(short_key(whole), whole);
        }
    }

    fn at(seconds: u32) -> String {
        format!("2026-03-01T12:00:{seconds:02}.000Z")
    }

    fn record(value: serde_json::Value) -> Checkpoint {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    fn waiting_run() -> Run {
        let run = json!({
            "runId": "run_1", "taskId": "task_1", "tenantId": "d", "workspaceId": "d", "kind": "order",
            "queue": "q", "state": "waiting", "attempt": 1, "failures": 0, "lost": 0, "maxAttempts": 3,
            "priority": 0, "createdAt": at(0), "serverTime": at(40),
            "durable": {"steps": 1, "children": 1, "liveChildren": 0, "pendingSignals": 0, "suspensions": 2,
                "waiting": {"wait": {"key": "wait:go#1", "mode": "any", "count": 2, "missing": 1,
                    "givesUpAt": at(50),
                    "for": [{"key": "go#1", "signal": "go"}, {"key": "t", "until": at(50)}]}}},
        });
        serde_json::from_str(&run.to_string()).unwrap()
    }

    #[test]
    fn steps_children_and_waits_share_one_scale() {
        let records = [
            record(json!({"number": 1, "key": "charge#1", "kind": "STEP", "outcome": "SUCCEEDED",
                "result": {"ok": true}, "attempt": 1, "recordedAt": at(0)})),
            record(json!({"number": 2, "key": "c#1", "kind": "CHILD", "outcome": "STARTED",
                "taskId": "task_2", "recordedAt": at(0)})),
            record(json!({"number": 3, "key": "c#1", "kind": "CHILD", "outcome": "FAILED",
                "taskId": "task_2", "recordedAt": at(20), "error": {"reason": "TIMEOUT", "message": "m"}})),
        ];
        let run = waiting_run();
        let lines = lines_of(&records, &[], &run);
        let width = RecordLine::key_width(&lines);
        let drawn: Vec<String> = lines
            .iter()
            .map(|line| line.draw(width, run.created_at, run.server_time))
            .map(|line| anstream::adapter::strip_str(&line).to_string())
            .collect();
        assert!(drawn[0].starts_with(" step  charge#1   SUCCEEDED  ━ "), "{}", drawn[0]);
        assert!(drawn[0].ends_with(r#"attempt 1, {"ok":true}"#), "{}", drawn[0]);
        assert!(drawn[1].contains(&format!("FAILED     {}{}", "━".repeat(16), " ".repeat(16))));
        assert!(drawn[1].ends_with("task_2, TIMEOUT"), "{}", drawn[1]);
        assert!(drawn[2].starts_with(" wait  wait:go#1  open"), "{}", drawn[2]);
        assert!(drawn[2].ends_with(&format!("signal go or until {}", at(50))), "{}", drawn[2]);
    }
}
