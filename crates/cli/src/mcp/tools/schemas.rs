//! The JSON Schemas of arguments and answers.
//!
//! Of an answer they name what a caller reads first. It has more members, which the OpenAPI document describes, and gains
//! others in later versions.

use serde_json::{Map, Value, json};

/// Arguments: these and no others. Each has a name, a schema and a description.
fn arguments<const N: usize>(
    required: &[&str],
    members: [(&'static str, Value, &'static str); N],
) -> Value {
    let described = |(name, mut schema, description): (&str, Value, &str)| {
        schema["description"] = description.into();
        (name.to_owned(), schema)
    };
    let properties: Map<String, Value> = members.into_iter().map(described).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// An answer: these members and more, and `cut` where it was too large.
fn answer<const N: usize>(required: &[&str], members: [(&'static str, Value); N]) -> Value {
    let members = members.into_iter().map(|(name, schema)| (name.to_owned(), schema));
    let mut properties: Map<String, Value> = members.collect();
    let cut = json!({
        "type": "array",
        "items": {"type": "string"},
        "description": "What is missing, because the answer was too large: a place, and how much of it is here.",
    });
    properties.insert("cut".to_owned(), cut);
    json!({"type": "object", "properties": properties, "required": required})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn integer(min: u64, max: u64) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": max})
}

fn yes_or_no() -> Value {
    json!({"type": "boolean"})
}

/// A kind, a queue or the like.
fn name() -> Value {
    json!({"type": "string", "pattern": "^[A-Za-z0-9._:/-]{1,128}$"})
}

fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

/// Any JSON value.
fn any() -> Value {
    json!({})
}

fn object() -> Value {
    json!({"type": "object"})
}

fn labels() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

const STATES: [&str; 8] =
    ["queued", "running", "retry", "waiting", "succeeded", "failed", "halted", "cancelled"];
const DECISIONS: [&str; 2] = ["APPROVED", "REJECTED"];

const RUN_ID: &str = "The id of a run, such as run_01M7EQKFW130GTYMPQ4GQPDX8F.";
const WAIT: &str = "Wait so many milliseconds for the end of the run.";
const KEY: &str = "A key that makes it safe to repeat the call. Choose it before the first call, from what the call is for.";
const TIME: &str = "An instant, such as 2026-03-01T12:00:00Z.";
const PAGE: &str = "At most this many.";

fn run_id() -> (&'static str, Value, &'static str) {
    ("runId", text(), RUN_ID)
}

fn wait_ms() -> (&'static str, Value, &'static str) {
    ("waitMs", integer(0, 30_000), WAIT)
}

fn idempotency_key() -> (&'static str, Value, &'static str) {
    ("idempotencyKey", json!({"type": "string", "minLength": 1, "maxLength": 255}), KEY)
}

pub(super) fn nothing() -> Value {
    arguments(&[], [])
}

pub(super) fn of_run() -> Value {
    arguments(&["runId"], [run_id()])
}

fn budget() -> Value {
    let amount = || json!({"type": "integer", "minimum": 0});
    json!({
        "type": "object",
        "properties": {
            "costMicros": amount(), "tokens": amount(), "steps": amount(), "toolCalls": amount(),
            "wallMs": {"type": "integer", "minimum": 1}, "activeMs": {"type": "integer", "minimum": 1},
        },
        "additionalProperties": false,
    })
}

pub(super) fn submit_run() -> Value {
    arguments(
        &["kind", "queue"],
        [
            ("kind", name(), "What a worker must be able to do; list_kinds shows some."),
            ("queue", name(), "Where the run waits for a worker."),
            (
                "input",
                any(),
                "Passed to the worker: any JSON of at most 256 KiB, as itself and not as text.",
            ),
            ("goal", text(), "What the run is for, in words, for people who read its record."),
            ("labels", labels(), "Names and values to find the run by."),
            (
                "priority",
                json!({"type": "integer", "minimum": -1000, "maximum": 1000}),
                "Higher goes first.",
            ),
            ("maxAttempts", integer(1, 100), "How many attempts may fail before the run fails."),
            ("delayMs", integer(0, 315_576_000_000), "Start no earlier than after this time."),
            (
                "deadlineMs",
                integer(1, 315_576_000_000),
                "Fail the run if it has not ended by then.",
            ),
            (
                "ttlMs",
                integer(1, 315_576_000_000),
                "Drop the run if no worker has taken it by then.",
            ),
            (
                "budget",
                budget(),
                "What the run and its children may use. The call that crosses a limit halts the run.",
            ),
            idempotency_key(),
            wait_ms(),
        ],
    )
}

pub(super) fn submitted() -> Value {
    answer(
        &["runId", "state", "replayed", "idempotencyKey"],
        [
            ("runId", text()),
            ("taskId", text()),
            ("state", text()),
            ("createdAt", text()),
            ("replayed", yes_or_no()),
            ("idempotencyKey", text()),
            ("run", object()),
            ("next", text()),
        ],
    )
}

pub(super) fn get_run() -> Value {
    arguments(&["runId"], [run_id(), wait_ms()])
}

pub(super) fn run() -> Value {
    answer(
        &["runId", "state", "kind", "queue", "attempt"],
        [
            ("runId", text()),
            ("state", text()),
            ("kind", text()),
            ("queue", text()),
            ("attempt", json!({"type": "integer"})),
            ("input", any()),
            ("output", any()),
            ("error", object()),
            ("plan", list(&object())),
        ],
    )
}

pub(super) fn list_runs() -> Value {
    arguments(
        &[],
        [
            ("state", one_of(&STATES), "Only runs in this state."),
            ("queue", name(), "Only runs of this queue."),
            ("kind", name(), "Only runs of this kind."),
            ("label", list(&text()), "Only runs with these labels, each as name=value or name."),
            ("since", text(), TIME),
            ("until", text(), TIME),
            ("worker", name(), "Only runs that this worker holds, or had last."),
            (
                "category",
                one_of(&[
                    "USER_CODE",
                    "DATA_QUALITY",
                    "INFRASTRUCTURE",
                    "CONFIGURATION",
                    "TIMEOUT",
                ]),
                "Only runs that ended with a failure of this category.",
            ),
            ("children", yes_or_no(), "List tasks that other tasks started too."),
            ("limit", integer(1, 100), PAGE),
            ("cursor", text(), "The nextCursor of the page before."),
            (
                "include",
                json!({"type": "string", "pattern": "^(input|output|stackTrace)(,(input|output|stackTrace)){0,2}$"}),
                "Bodies to bring along: input, output, stackTrace, separated by commas.",
            ),
        ],
    )
}

pub(super) fn runs() -> Value {
    answer(&["runs"], [("runs", list(&object())), ("nextCursor", text()), ("stopped", text())])
}

pub(super) fn explanation() -> Value {
    let gate = json!({
        "type": "object",
        "properties": {"gate": text(), "now": text(), "change": text(), "at": text()},
        "required": ["gate", "now"],
    });
    answer(
        &["runId", "state", "gates"],
        [("runId", text()), ("state", text()), ("gates", list(&gate))],
    )
}

pub(super) fn run_history() -> Value {
    let after = json!({"type": "integer", "minimum": 0});
    arguments(
        &["runId"],
        [
            run_id(),
            ("after", after, "Only entries after this one."),
            ("limit", integer(1, 200), PAGE),
        ],
    )
}

pub(super) fn history() -> Value {
    answer(&["entries"], [("entries", list(&object())), ("nextAfter", json!({"type": "integer"}))])
}

pub(super) fn run_logs() -> Value {
    arguments(
        &["runId"],
        [
            run_id(),
            ("after", text(), "The nextAfter of the page before."),
            ("limit", integer(1, 500), PAGE),
        ],
    )
}

pub(super) fn logs() -> Value {
    answer(&["lines"], [("lines", list(&object())), ("nextAfter", text())])
}

pub(super) fn signal_run() -> Value {
    arguments(
        &["runId", "name"],
        [
            run_id(),
            ("name", name(), "The name that the run waits for; explain_run shows it."),
            ("data", any(), "The value: any JSON, as itself and not as text."),
            idempotency_key(),
        ],
    )
}

pub(super) fn signalled() -> Value {
    answer(
        &["runId", "state", "replayed", "idempotencyKey"],
        [
            ("runId", text()),
            ("state", text()),
            ("replayed", yes_or_no()),
            ("idempotencyKey", text()),
        ],
    )
}

pub(super) fn cancel_run() -> Value {
    arguments(
        &["runId"],
        [
            run_id(),
            ("reason", text(), "Why, for the worker and the record."),
            (
                "force",
                yes_or_no(),
                "Revoke the lease at once instead of asking the worker to stop.",
            ),
        ],
    )
}

pub(super) fn cancelled() -> Value {
    answer(
        &["runId", "state"],
        [("runId", text()), ("state", text()), ("cancelRequestedAt", text())],
    )
}

pub(super) fn ask_approval() -> Value {
    let then = json!({
        "type": "object",
        "properties": {"kind": name(), "queue": name()},
        "required": ["kind", "queue"],
        "additionalProperties": false,
    });
    arguments(
        &["subject"],
        [
            ("subject", text(), "The question, for people, on one line."),
            (
                "content",
                any(),
                "What they approve, as JSON. With the subject at most 4096 bytes; people see both.",
            ),
            (
                "then",
                then,
                "The kind and queue of what follows if they approve. Its input is the content.",
            ),
            (
                "quorum",
                integer(1, 32),
                "How many must approve; one rejection rejects. 1 when absent.",
            ),
            (
                "expiresInMs",
                integer(1, 315_576_000_000),
                "How long people may take; 30 days when absent.",
            ),
            (
                "default",
                one_of(&DECISIONS),
                "What counts when the time is over; without it the run fails then.",
            ),
            (
                "roles",
                list(&one_of(&["client", "worker", "reader", "approver", "admin"])),
                "Only keys with one of these roles may decide.",
            ),
            ("keys", list(&name()), "Only keys with these ids may decide."),
            ("goal", text(), "What the run is for, in words."),
            ("labels", labels(), "Names and values to find the run by."),
            idempotency_key(),
            wait_ms(),
        ],
    )
}

pub(super) fn asked() -> Value {
    answer(
        &["runId", "state", "subject", "replayed", "idempotencyKey", "next"],
        [
            ("runId", text()),
            ("state", text()),
            ("approvalId", text()),
            ("subject", text()),
            ("digest", text()),
            ("replayed", yes_or_no()),
            ("idempotencyKey", text()),
            ("run", object()),
            ("next", text()),
        ],
    )
}

fn approval_id() -> (&'static str, Value, &'static str) {
    ("approvalId", text(), "The id of an approval, as inbox and ask_approval show it.")
}

pub(super) fn of_approval() -> Value {
    arguments(&["approvalId"], [approval_id()])
}

pub(super) fn approval() -> Value {
    answer(
        &["approvalId", "runId", "state", "quorum", "votes"],
        [
            ("approvalId", text()),
            ("runId", text()),
            ("state", text()),
            ("outcome", text()),
            ("subject", text()),
            ("digest", text()),
            ("content", text()),
            ("quorum", json!({"type": "integer"})),
            ("votes", list(&object())),
        ],
    )
}

pub(super) fn inbox() -> Value {
    arguments(&[], [("deployment", name(), "Only the pauses of this deployment.")])
}

pub(super) fn waiting() -> Value {
    answer(
        &["pauseStates", "approvals", "effects"],
        [
            ("pauseStates", list(&object())),
            ("approvals", list(&object())),
            ("effects", list(&object())),
            ("notAllowed", list(&text())),
        ],
    )
}

pub(super) fn queues() -> Value {
    answer(&["queues"], [("queues", list(&object()))])
}

pub(super) fn list_kinds() -> Value {
    arguments(
        &[],
        [
            ("kind", name(), "Only this kind, with its schemas."),
            ("after", name(), "The nextAfter of the page before."),
            ("limit", integer(1, 200), PAGE),
        ],
    )
}

pub(super) fn kinds() -> Value {
    answer(&["kinds"], [("kinds", list(&object())), ("nextAfter", text())])
}

pub(super) fn list_schedules() -> Value {
    arguments(
        &[],
        [
            ("state", one_of(&["active", "paused"]), "Only schedules in this state."),
            ("cursor", text(), "The cursor of the page before."),
            ("limit", integer(1, 200), PAGE),
        ],
    )
}

pub(super) fn schedules() -> Value {
    answer(&["schedules"], [("schedules", list(&object())), ("cursor", text())])
}

pub(super) fn get_schedule() -> Value {
    arguments(&["schedule"], [("schedule", text(), "The name or the id of a schedule.")])
}

pub(super) fn schedule() -> Value {
    answer(
        &["scheduleId", "name", "state"],
        [
            ("scheduleId", text()),
            ("name", text()),
            ("state", text()),
            ("nextAt", text()),
            ("run", object()),
        ],
    )
}

pub(super) fn decide_approval() -> Value {
    let digest = json!({"type": "string", "pattern": "^[0-9a-f]{64}$"});
    arguments(
        &["approvalId", "decision", "comment"],
        [
            approval_id(),
            ("decision", one_of(&DECISIONS), "The vote. One rejection rejects."),
            ("digest", digest, "The digest that get_approval shows, if it shows one."),
            ("comment", text(), "Who told you to decide so, and why: part of the record."),
        ],
    )
}

pub(super) fn decided() -> Value {
    answer(
        &["approvalId", "state"],
        [("approvalId", text()), ("state", text()), ("outcome", text())],
    )
}
