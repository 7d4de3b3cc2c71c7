//! Records the final state of a run in its history, and judges the history.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use futures_util::{TryStreamExt, stream};
use historyck::event::{
    self, Cause, Decision, EventKind, Outcome, Record, Settled, Snapshot, State, TaskSnapshot,
};
use historyck::{Event, Recorder};
use serde_json::Value;
use tenure::Client;
use wire::answers::{HistoryEntry, Run};
use wire::requests::ListRuns;

use crate::load::{QUEUE, RETRY_DELAY};
use crate::recording_client::{RecordingClient, state, ulid_of};

const COORDINATOR: &str = "coordinator";
const PAGE: u32 = 200;
/// How many runs are read concurrently. A run takes three calls, and reading thousands of runs sequentially takes
/// longer than the faults did. More concurrency than the coordinators have connections would only queue.
const READ_AT_A_TIME: usize = 12;
/// How often a reader retries a call: the faults are over, but the machine may still be slow.
const TRIES_MAX: usize = 20;

/// Reads every run with all its details, through HTTP like any client.
pub(crate) async fn record_all_runs(reader: &RecordingClient) -> Result<usize> {
    let all = all_runs(reader.client()).await?;
    // Workers of other queues record no history.
    let runs: Vec<&Run> = all.iter().filter(|run| run.queue == QUEUE).collect();
    let reading = stream::iter(runs.iter().copied().map(Ok));
    reading
        .try_for_each_concurrent(READ_AT_A_TIME, async |run| {
            write_run(reader, run).await.with_context(|| format!("read {}", run.run_id))
        })
        .await?;
    let tasks = runs.iter().map(|run| TaskSnapshot {
        task: ulid_of(&run.run_id),
        state: state(run.state),
        expires: None,
    });
    let now =
        runs.iter().filter_map(|run| run.completed_at).map(wire::Time::as_ms).max().unwrap_or(0);
    reader.note(EventKind::Snapshot(Snapshot {
        now,
        slack_ms: None,
        tasks: tasks.collect(),
        counted: None,
    }));
    reader.note(EventKind::Settled(Settled {}));
    Ok(all.len())
}

pub(crate) async fn all_runs(client: &Client) -> Result<Vec<Run>> {
    let mut filters = ListRuns { limit: Some(PAGE), ..ListRuns::default() };
    let mut runs = Vec::new();
    loop {
        let page = persist(|| client.runs_with(filters.clone()).into_future()).await?;
        runs.extend(page.runs);
        filters.cursor = page.next_cursor;
        if filters.cursor.is_none() {
            return Ok(runs);
        }
    }
}

/// Retries a read that got no answer, up to the limit.
async fn persist<T, F>(read: impl Fn() -> F) -> Result<T, tenure::Error>
where
    F: Future<Output = Result<T, tenure::Error>>,
{
    for _ in 1..TRIES_MAX {
        match read().await {
            Err(error) if error.is_retryable() => tokio::time::sleep(RETRY_DELAY).await,
            read => return read,
        }
    }
    read().await
}

async fn write_run(reader: &RecordingClient, run: &Run) -> Result<()> {
    let task = ulid_of(&run.run_id);
    let handle = reader.client().run(&run.run_id);
    persist(|| reader.get(&run.run_id)).await?;
    let mut reported: BTreeMap<u32, bool> = BTreeMap::new();
    if state(run.state).is_terminal() {
        let record = persist(|| handle.record()).await?;
        reported = record.attempts.iter().map(|a| (a.attempt, a.report_digest.is_some())).collect();
        reader.note(EventKind::Record(Record {
            task: task.clone(),
            state: state(record.state),
            digest: record.digest,
            created: Some(record.created_at.as_ms()),
            started: record.started_at.map(wire::Time::as_ms),
            completed: Some(record.completed_at.as_ms()),
        }));
    }
    let mut request = handle.history().limit(PAGE);
    let mut before = None;
    loop {
        let history = persist(|| request.clone().into_future()).await?;
        for entry in &history.entries {
            let decision = decision(&task, entry, before, &reported)?;
            before = Some(decision.after);
            reader
                .history
                .record(COORDINATOR, EventKind::Decision(decision))
                .context("a history is kept in memory")?;
        }
        if history.entries.is_empty() {
            return Ok(());
        }
        request = request.after(history.next_after);
    }
}

fn decision(
    task: &str,
    entry: &HistoryEntry,
    before: Option<State>,
    reported: &BTreeMap<u32, bool>,
) -> Result<Decision> {
    let detail: Value = entry.detail.read()?;
    let text = |name: &str| detail[name].as_str().map(str::to_owned);
    let time = |name: &str| {
        text(name).and_then(|text| text.parse::<wire::Time>().ok()).map(wire::Time::as_ms)
    };
    let after = match text("state") {
        Some(state) => serde_json::from_value(Value::String(state))?,
        None if entry.kind == "submitted" => State::Queued,
        None if entry.kind == "granted" => State::Running,
        None => before.context("a history begins with its submission")?,
    };
    let outcome: Option<Outcome> =
        text("outcome").map(|o| serde_json::from_value(Value::String(o))).transpose()?;
    let is_reported = entry.attempt.and_then(|a| reported.get(&a)).copied().unwrap_or(false);
    Ok(Decision {
        task: task.to_owned(),
        n: u32::try_from(entry.n).ok(),
        now: entry.at.as_ms(),
        epoch: None,
        cause: cause(entry, outcome, text("reason").as_deref(), is_reported)?,
        before,
        after,
        scope: None,
        key: None,
        attempt: entry.attempt,
        lease: text("leaseId"),
        fence: detail["fence"].as_u64(),
        worker: text("owner"),
        expires: time("leaseExpiresAt"),
        due: time("dueAt").or(time("nextAttemptAt")),
        deadline: None,
        failures_max: None,
        lost_max: None,
        outcome,
        reason: text("reason"),
        digest: None,
        parent: None,
    })
}

fn cause(
    entry: &HistoryEntry,
    outcome: Option<Outcome>,
    reason: Option<&str>,
    is_reported: bool,
) -> Result<Cause> {
    Ok(match (entry.kind.as_str(), outcome, reason) {
        ("submitted", ..) => Cause::Submit,
        ("granted", ..) => Cause::Grant,
        ("started", ..) => Cause::Started,
        ("extended", ..) => Cause::Extend,
        ("cancel_signalled", ..) => Cause::Heartbeat,
        ("cancel_requested", ..) | ("ended", _, Some("CANCEL_REQUESTED")) => Cause::Cancel,
        ("ended", ..) => Cause::Sweep,
        ("attempt_closed", Some(Outcome::Lost), _) => Cause::Sweep,
        ("attempt_closed", Some(Outcome::Undelivered), Some("HEARTBEAT_TIMEOUT")) => Cause::Sweep,
        ("attempt_closed", Some(Outcome::Undelivered), _) => Cause::Undelivered,
        ("attempt_closed", Some(Outcome::Revoked), Some("CANCEL_FORCED")) => Cause::Cancel,
        ("attempt_closed", Some(Outcome::Revoked), _) => Cause::Sweep,
        ("attempt_closed", Some(Outcome::Cancelled), _) if !is_reported => Cause::Started,
        ("attempt_closed", ..) => Cause::Report,
        (other, ..) => bail!("{other} is a kind of decision this lab does not know"),
    })
}

/// Checks a history, and writes it to a file if it violates an invariant.
pub(crate) fn judge(name: &str, history: &Recorder, keep: &Path) -> Result<usize> {
    let events: Vec<Event> = history.events();
    let findings = historyck::check(&events)?;
    if findings.is_empty() {
        return Ok(events.len());
    }
    std::fs::create_dir_all(keep)?;
    let path = keep.join(format!("{name}.jsonl"));
    let text: Vec<String> = events.iter().map(historyck::text::write).collect();
    std::fs::write(&path, text.join("\n") + "\n")?;
    let told: Vec<String> =
        findings.iter().take(5).map(|f| historyck::describe(f, &events)).collect();
    bail!(
        "{} invariants are broken; `historyck {}` says which:\n{}",
        findings.len(),
        path.display(),
        told.join("\n")
    )
}

/// How many answers replayed the recorded answer of an earlier call.
pub(crate) fn replayed(history: &Recorder) -> usize {
    let is_recorded =
        |event: &&Event| matches!(&event.what, EventKind::Return(answer) if answer.replayed);
    history.events().iter().filter(is_recorded).count()
}

/// How many calls got no answer.
pub(crate) fn unanswered(history: &Recorder) -> usize {
    let is_open = |event: &&Event| matches!(&event.what, EventKind::Return(answer) if answer.answer == event::Answer::Info);
    history.events().iter().filter(is_open).count()
}
