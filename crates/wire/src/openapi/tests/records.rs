//! Samples of records and of what they say of attempts.

use serde_json::{Value, json};

use super::{AT, metrics, run_error, spend};

pub(super) fn claims() -> Value {
    json!({"startedAt": AT, "heartbeatAt": AT, "completedAt": AT, "metrics": metrics(),
        "partialProgress": {"rows": 1},
        "traceparent": "p"})
}

pub(super) fn attempt_view() -> Value {
    json!({
        "attempt": 1, "leaseId": "l", "fence": 1, "owner": "w", "outcome": "LOST",
        "reason": "HEARTBEAT_TIMEOUT", "category": "TIMEOUT", "grantedAt": AT, "startedAt": AT,
        "endedAt": AT, "reportDigest": "d", "claims": claims(), "clockSkewMs": 400000,
    })
}

pub(super) fn recorded_run() -> Value {
    json!({
        "steps": 1, "checkpoints": 2, "children": 1, "signals": 0, "suspensions": 0,
        "spend": spend(),
    })
}

pub(super) fn record() -> Value {
    json!({
        "runId": "r", "state": "failed", "kind": "k", "queue": "q", "goal": "g", "inputDigest": "i",
        "decisions": 4, "rules": [5], "durable": recorded_run(),
        "outputDigest": "o", "error": run_error(), "attempts": [attempt_view()], "nextAfter": 1,
        "createdAt": AT,
        "startedAt": AT, "completedAt": AT, "durationMs": 1, "digest": "d", "toolCalls": [tool_call()], "toolCallsLeftOut": 1,
    })
}

pub(super) fn tool_call() -> Value {
    json!({"key": "k", "outcome": "SUCCEEDED", "attempt": 1, "recordedAt": AT, "spend": spend()})
}
