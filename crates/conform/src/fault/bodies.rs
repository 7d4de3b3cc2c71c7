//! Bodies of calls as a fault sees them: their items, and answers that look like a coordinator's.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::coordinator::Coordinator;
use crate::http::{Reply, Request, Response};

pub(super) fn call_of(method: &str, path: &str) -> &'static str {
    let segments: Vec<&str> = path.split('/').filter(|it| !it.is_empty()).collect();
    match segments.as_slice() {
        ["conform", "mark"] => "mark",
        ["v1", "leases"] => "poll",
        ["v1", "starts"] | ["v1", "tasks", _, "started"] => "start",
        ["v1", "heartbeats"] | ["v1", "tasks", _, "heartbeat"] => "heartbeat",
        ["v1", "reports"] | ["v1", "tasks", _, "completed"] => "report",
        ["v1", "tasks", _, "checkpoints"] if method == "GET" => "page",
        ["v1", "checkpoints"] | ["v1", "tasks", _, "checkpoints"] => "checkpoint",
        ["v1", "runs"] if method == "GET" => "list",
        ["v1", "runs"] => "submit",
        ["v1", "runs", _] => "read",
        _ => "other",
    }
}

/// The items of a member that is a list. Indexing would make the member up where it is absent.
pub(super) fn list<'v>(value: &'v mut Value, name: &str) -> std::slice::IterMut<'v, Value> {
    let items = value.get_mut(name).and_then(Value::as_array_mut);
    items.map(|items| items.iter_mut()).unwrap_or_default()
}

/// The items of a batch, or the body of a single call.
pub(super) fn each(body: &mut Value, mut change: impl FnMut(&mut Value)) {
    let batches = ["reports", "checkpoints", "heartbeats", "starts", "runs"];
    match batches.into_iter().find(|name| body.get(*name).is_some_and(Value::is_array)) {
        Some(name) => list(body, name).for_each(change),
        None => change(body),
    }
}

pub(super) fn items(body: &mut Value, change: impl FnMut(&mut Value)) {
    list(body, "answers").for_each(change);
}

pub(super) fn has_status(body: &Value, status: u16) -> bool {
    body["answers"].as_array().into_iter().flatten().any(|item| item["status"] == status)
}

pub(super) fn is_release(request: &Request) -> bool {
    String::from_utf8_lossy(&request.body).contains("RELEASED")
}

pub(super) fn is_diverged(request: &Request) -> bool {
    String::from_utf8_lossy(&request.body).contains("\"diverged\"")
}

/// Leases that end a minute later than they do.
pub(super) fn longer(body: &mut Value) {
    let change = |value: &mut Value| {
        let at = value["leaseExpiresAt"].as_str().and_then(|it| it.parse::<wire::Time>().ok());
        if let Some(at) = at {
            value["leaseExpiresAt"] = json!(wire::Time::from_ms(at.as_ms() + 60_000));
            value.as_object_mut().and_then(|members| members.remove("deadline"));
        }
    };
    for name in ["answers", "leases"] {
        list(body, name).for_each(change);
    }
}

/// The answer that a coordinator would give to a call that it committed.
pub(super) fn acknowledged(call: &str, request: &Request) -> Reply {
    let now = wire::Time::from_ms(jiff::Timestamp::now().as_millisecond());
    let later = wire::Time::from_ms(now.as_ms() + 60_000);
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let one = |item: &Value| {
        json!({"taskId": item["taskId"], "status": 200, "verdict": "COMMITTED", "state": "running",
            "shouldCancel": false, "leaseExpiresAt": later, "recordedAt": now, "replayed": false,
            "finalState": item["outcome"]})
    };
    if call == "poll" {
        return whole(200, &json!({"leases": [], "serverTime": now}));
    }
    for name in ["reports", "checkpoints", "heartbeats", "starts"] {
        if let Some(items) = body[name].as_array() {
            let answers: Vec<Value> = items.iter().map(one).collect();
            return whole(200, &json!({"answers": answers, "serverTime": now}));
        }
    }
    let mut answer = one(&body);
    answer["acknowledged"] = json!(true);
    answer["serverTime"] = json!(now);
    whole(200, &answer)
}

/// Takes all steps but the last out of the items of a checkpoint call, each as a call of its own.
pub(super) fn single_steps(request: &mut Request) -> Vec<Request> {
    let Ok(mut body) = serde_json::from_slice::<Value>(&request.body) else { return Vec::new() };
    let is_batch = body.get("checkpoints").is_some();
    let mut parts = Vec::new();
    each(&mut body, |item| {
        let steps: Vec<Value> = list(item, "steps").map(|step| step.clone()).collect();
        let Some((last, before)) = steps.split_last() else { return };
        item["steps"] = json!([last]);
        for step in before {
            let mut part = item.clone();
            part["steps"] = json!([step]);
            part.as_object_mut().into_iter().for_each(|members| {
                members.retain(|name, _| {
                    !matches!(name.as_str(), "wait" | "children" | "effects" | "diverged")
                });
            });
            parts.push(if is_batch { json!({"checkpoints": [part]}) } else { part });
        }
    });
    request.body = Bytes::from(body.to_string());
    let whole = request.clone();
    parts
        .into_iter()
        .map(|part| Request { body: Bytes::from(part.to_string()), ..whole.clone() })
        .collect()
}

pub(super) fn forged_request(path: &str, body: &Value, coordinator: &Coordinator) -> Request {
    Request {
        method: "POST".to_owned(),
        path: path.to_owned(),
        query: String::new(),
        headers: vec![("authorization".to_owned(), format!("Bearer {}", coordinator.api_key))],
        body: Bytes::from(body.to_string()),
        address: 1,
    }
}

pub(super) fn whole(status: u16, body: &Value) -> Reply {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Reply::Whole(Response { status, headers, body: Bytes::from(body.to_string()) })
}
