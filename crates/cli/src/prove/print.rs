//! A proof for people, and as JSON.

use serde_json::json;
use store::prove::{AttemptLine, CheckpointLine, ProofFinding, TaskView};

use super::Outcome;
use crate::backup::at_text;
use crate::exit::CliError;
use crate::output::{self, BAD, BOLD, FAINT, GOOD, WARN};

/// How many tasks of a run are told in full; the rest are counted.
const TOLD_MAX: usize = 200;

pub(super) fn people(outcome: &Outcome) -> Result<(), CliError> {
    for task in outcome.tasks.iter().take(TOLD_MAX) {
        tell(task, outcome)?;
    }
    if let Some(rest) = outcome.tasks.len().checked_sub(TOLD_MAX).filter(|rest| *rest > 0) {
        output::line(format_args!("{FAINT}and {rest} more tasks, checked alike{FAINT:#}"))?;
    }
    for ProofFinding { code, task, what } in outcome.findings() {
        let task = task.map(|task| format!("{task}: ")).unwrap_or_default();
        output::line(format_args!("{BAD}finding{BAD:#} {task}{what} [{code}]"))?;
    }
    verdict(outcome)?;
    if let Some((path, bundled)) = &outcome.exported {
        output::line(format_args!(
            "{FAINT}bundle{FAINT:#}   {} with {} and {}; check it with `tenure prove --bundle {}`",
            path.display(),
            output::count(bundled.tasks, "task"),
            output::count(bundled.seals, "seal"),
            path.display()
        ))?;
    }
    Ok(())
}

fn tell(task: &TaskView, outcome: &Outcome) -> Result<(), CliError> {
    let margin = "  ".repeat(task.depth);
    let name = task.key.as_ref().map(|key| format!("{key} ")).unwrap_or_default();
    output::line(format_args!(
        "{margin}{BOLD}{name}{}{BOLD:#} {} on {} {}",
        task.task, task.kind, task.queue, task.state
    ))?;
    let line = |what: &str, text: String| {
        output::line(format_args!("{margin}  {FAINT}{what:<9}{FAINT:#}{text}"))
    };
    if let Some(goal) = &task.goal {
        line("goal", goal.clone())?;
    }
    line("created", times(task))?;
    line("input", task.input_digest.clone())?;
    for attempt in &task.first_attempts {
        line("attempt", attempt_text(attempt))?;
    }
    more(&line, "attempt", task.attempts, task.first_attempts.len())?;
    for checkpoint in &task.first_checkpoints {
        line(checkpoint.kind, checkpoint_text(checkpoint))?;
    }
    more(&line, "recorded", task.checkpoints, task.first_checkpoints.len())?;
    if task.cost_micros + task.tokens + task.tool_calls > 0 {
        let TaskView { cost_micros, tokens, tool_calls, .. } = task;
        line("spend", format!("{cost_micros} micros, {tokens} tokens, {tool_calls} tool calls"))?;
    }
    if let Some(reason) = task.reason {
        line(
            "reason",
            [Some(reason), task.error.as_deref()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", "),
        )?;
    }
    if let Some(output) = &task.output_digest {
        line("output", output.clone())?;
    }
    let rules: Vec<String> = task.rules.iter().map(u32::to_string).collect();
    let decisions = output::count(task.decisions, "decision");
    line("decided", format!("{decisions} by rules {}", rules.join(", ")))?;
    if let Some(record) = &task.record {
        line("record", format!("{record}, {}", seal_text(task, outcome)))?;
    }
    Ok(())
}

fn more(
    line: &dyn Fn(&str, String) -> Result<(), CliError>,
    what: &str,
    all: u64,
    shown: usize,
) -> Result<(), CliError> {
    match all.saturating_sub(shown as u64) {
        0 => Ok(()),
        rest => line(what, format!("and {rest} more")),
    }
}

fn times(task: &TaskView) -> String {
    let created = at_text(task.created_at);
    match task.completed_at {
        Some(at) => format!("{created}, ended {} after {} ms", at_text(at), at - task.created_at),
        None => format!("{created}, not ended"),
    }
}

fn attempt_text(attempt: &AttemptLine) -> String {
    let AttemptLine { attempt, worker, fence, outcome, reason, granted_at, closed_at } = attempt;
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let took = closed_at - granted_at;
    format!(
        "{attempt} by {worker}, fence {fence}: {outcome}{reason} at {} after {took} ms",
        at_text(*closed_at)
    )
}

fn checkpoint_text(checkpoint: &CheckpointLine) -> String {
    let CheckpointLine { number, key, has_failed, attempt, at, digest, .. } = checkpoint;
    let failed = if *has_failed { " failed" } else { "" };
    let by = if *attempt > 0 { format!(" in attempt {attempt}") } else { String::new() };
    format!("{number} {key}{failed}{by} at {}, {digest}", at_text(*at))
}

fn seal_of(task: &TaskView, outcome: &Outcome) -> Option<u64> {
    let id = store::prove::parse_id(&task.task)?;
    outcome.seals.by_task.get(&id).copied()
}

fn seal_text(task: &TaskView, outcome: &Outcome) -> String {
    match seal_of(task, outcome) {
        Some(n) => format!("in seal {n}"),
        None => "not sealed yet".to_owned(),
    }
}

fn verdict(outcome: &Outcome) -> Result<(), CliError> {
    let (proof, seals) = (&outcome.proof, &outcome.seals);
    let (style, word) = match outcome.findings().count() {
        0 => (GOOD, "proved".to_owned()),
        n => (BAD, output::count(n as u64, "finding")),
    };
    output::line(format_args!(
        "{style}{word}{style:#} {}, {}, {} and {} of {}",
        output::count(proof.tasks, "task"),
        output::count(proof.decisions, "decision"),
        output::count(proof.attempts, "attempt"),
        output::count(proof.checkpoints, "checkpoint"),
        outcome.place
    ))?;
    let records = proof.records.len();
    let newest = seals
        .newest
        .map(|(n, at, _)| format!("; the newest seal is {n} of {}", at_text(at.millis())));
    output::line(format_args!(
        "{FAINT}sealed{FAINT:#}   {} of {records} records; unsealed tail of the tenant: {}{}",
        seals.sealed,
        output::count(seals.tail, "record"),
        newest.unwrap_or_default()
    ))?;
    if proof.live > 0 {
        let live = output::count(proof.live, "task");
        output::line(format_args!(
            "{WARN}not ended{WARN:#} {live}: a record is written at the end"
        ))?;
    }
    limits(outcome);
    Ok(())
}

/// What was not checked, so that a good verdict is not taken for more than it is.
fn limits(outcome: &Outcome) {
    if !outcome.has_keys && outcome.seals.seals > 0 {
        output::note(
            "without the key file the seals prove only that digests fit each other: a person who made all of them could \
             have made them up; give the key with --key-file, or compare the chain with a value you kept (--anchor)",
        );
    }
    if !outcome.is_anchored {
        output::note("without an anchor it cannot be noticed that the newest seals were removed");
    }
    if !outcome.seals.unsealed.is_empty() {
        output::note(
            "a record that is not sealed is checked against its rows alone; ask again in a few seconds",
        );
    }
}

pub(super) fn members(outcome: &Outcome) -> serde_json::Value {
    let (proof, seals) = (&outcome.proof, &outcome.seals);
    let findings: Vec<_> = outcome.findings().map(finding).collect();
    json!({
        "proved": findings.is_empty(),
        "tasks": outcome.tasks.iter().map(|it| task(it, outcome)).collect::<Vec<_>>(),
        "decisions": proof.decisions,
        "attempts": proof.attempts,
        "checkpoints": proof.checkpoints,
        "notEnded": proof.live,
        "records": proof.records.len(),
        "sealedRecords": seals.sealed,
        "unsealedTail": seals.tail,
        "seals": seals.seals,
        "sealsCheckedWithKey": seals.keyed,
        "newestSeal": seals.newest.map(|(n, at, chain)| {
            json!({ "n": n, "at": at_text(at.millis()), "chain": chain.to_string() })
        }),
        "anchored": outcome.is_anchored,
        "bundle": outcome.exported.as_ref().map(|(path, _)| path),
        "findings": findings,
    })
}

fn finding(finding: &ProofFinding) -> serde_json::Value {
    let task = finding.task.map(|id| id.to_string());
    json!({ "taskId": task, "code": finding.code, "message": finding.what })
}

fn task(task: &TaskView, outcome: &Outcome) -> serde_json::Value {
    let attempts: Vec<_> = task.first_attempts.iter().map(attempt).collect();
    let checkpoints: Vec<_> = task.first_checkpoints.iter().map(checkpoint).collect();
    json!({
        "taskId": task.task,
        "key": task.key,
        "depth": task.depth,
        "tenantId": task.tenant,
        "workspaceId": task.workspace,
        "kind": task.kind,
        "queue": task.queue,
        "goal": task.goal,
        "state": task.state,
        "reason": task.reason,
        "error": task.error,
        "inputDigest": task.input_digest,
        "outputDigest": task.output_digest,
        "createdAt": at_text(task.created_at),
        "startedAt": task.started_at.map(at_text),
        "completedAt": task.completed_at.map(at_text),
        "decisions": task.decisions,
        "rules": task.rules,
        "attempts": attempts,
        "checkpoints": checkpoints,
        "children": task.children,
        "signals": task.signals,
        "refusedCalls": task.refused_calls,
        "spend": {
            "costMicros": task.cost_micros,
            "tokens": task.tokens,
            "toolCalls": task.tool_calls,
        },
        "record": task.record,
        "seal": seal_of(task, outcome),
    })
}

fn attempt(line: &AttemptLine) -> serde_json::Value {
    json!({
        "attempt": line.attempt,
        "owner": line.worker,
        "fence": line.fence,
        "outcome": line.outcome,
        "reason": line.reason,
        "grantedAt": at_text(line.granted_at),
        "endedAt": at_text(line.closed_at),
    })
}

fn checkpoint(line: &CheckpointLine) -> serde_json::Value {
    json!({
        "number": line.number,
        "kind": line.kind,
        "key": line.key,
        "failed": line.has_failed,
        "attempt": line.attempt,
        "recordedAt": at_text(line.at),
        "digest": line.digest,
    })
}
