//! Samples of what workers announce.

use serde_json::{Value, json};

use super::AT;

pub(super) fn announced_kind() -> Value {
    json!({"kind": "k", "version": "1", "builds": "pin", "inputSchema": {"type": "string"},
        "outputSchema": {}})
}

pub(super) fn announcement() -> Value {
    json!({"id": "a", "buildId": "b", "kinds": [announced_kind()]})
}

pub(super) fn kind_view() -> Value {
    json!({"kind": "k", "version": "1", "buildId": "b", "builds": "pin", "queues": ["q"], "workers": 1,
        "inputSchema": {"type": "string"}, "outputSchema": {}, "lastSeenAt": AT})
}
