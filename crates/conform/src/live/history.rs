//! Calls as events of a history: what was asked, what was answered, what an attempt was shown.

use historyck::durable::{Command, DurableCall, Recorded, Replay};
use historyck::event::{Answer, Granted, Invoke, Operation, Outcome, Return, State};
use serde::Deserialize;
use serde_json::Value;

use crate::http::{Request, Response};

/// The members of batches that hold items.
const BATCHES: [&str; 4] = ["starts", "heartbeats", "checkpoints", "reports"];

fn body(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

fn segments(request: &Request) -> Vec<&str> {
    request.path.split('/').filter(|it| !it.is_empty()).collect()
}

/// A run and its task share the part after the underscore.
fn ulid(id: &Value) -> Option<String> {
    let id = id.as_str()?;
    Some(id.split_once('_').map_or(id, |(_, ulid)| ulid).to_owned())
}

fn word<T: for<'de> Deserialize<'de>>(value: &Value) -> Option<T> {
    // States and outcomes are written as on the wire.
    serde_json::from_value(value.clone()).ok()
}

/// The calls that a request makes; none for those that no invariant speaks of.
pub(super) fn asked(request: &Request) -> Vec<Invoke> {
    let said = body(&request.body);
    match (request.method.as_str(), segments(request).as_slice()) {
        ("POST", ["v1", "leases"]) => vec![Invoke {
            worker: said["workerId"].as_str().map(str::to_owned),
            poll: said["pollId"].as_str().map(str::to_owned),
            max: said["max"].as_u64(),
            ..Invoke::of(Operation::Lease)
        }],
        ("POST", ["v1", name]) if BATCHES.contains(name) => {
            let items = said[*name].as_array().cloned().unwrap_or_default();
            items.iter().map(|item| under(operation(name), item, &item["taskId"])).collect()
        }
        ("POST", ["v1", "tasks", task, name]) => {
            let task = Value::String((*task).to_owned());
            vec![under(operation(name), &said, &task)]
        }
        ("POST", ["v1", "runs"]) => {
            let runs = said["runs"].as_array().cloned().unwrap_or_else(|| vec![said.clone()]);
            runs.iter().map(|run| submitted(run, request)).collect()
        }
        ("GET", ["v1", "runs", run]) => {
            let task = ulid(&Value::String((*run).to_owned()));
            vec![Invoke { task, ..Invoke::of(Operation::Get) }]
        }
        ("POST", ["v1", "runs", run, "signals"]) => {
            let task = ulid(&Value::String((*run).to_owned()));
            vec![Invoke { task, ..Invoke::of(Operation::Signal) }]
        }
        _ => Vec::new(),
    }
}

fn operation(name: &str) -> Operation {
    match name {
        "starts" | "started" => Operation::Started,
        "heartbeats" | "heartbeat" => Operation::Heartbeat,
        "checkpoints" => Operation::Checkpoint,
        _ => Operation::Report,
    }
}

fn submitted(run: &Value, request: &Request) -> Invoke {
    let key = run["idempotencyKey"].as_str().or_else(|| request.header("idempotency-key"));
    let digest = Some(run["input"].to_string());
    Invoke { key: key.map(str::to_owned), digest, ..Invoke::of(Operation::Submit) }
}

fn under(op: Operation, item: &Value, task: &Value) -> Invoke {
    let durable = matches!(op, Operation::Checkpoint | Operation::Report);
    Invoke {
        task: ulid(task),
        attempt: item["attempt"].as_u64().map(|n| n as u32),
        worker: item["workerId"].as_str().map(str::to_owned),
        outcome: word::<Outcome>(&item["outcome"]).filter(|_| op == Operation::Report),
        digest: Some(item["output"].to_string())
            .filter(|_| op == Operation::Report && !item["output"].is_null()),
        durable: durable.then(|| recorded(item)).filter(|call| *call != DurableCall::default()),
        ..Invoke::of(op)
    }
}

fn recorded(item: &Value) -> DurableCall {
    let commands = |name: &str| {
        item[name].as_array().into_iter().flatten().map(|it| Command {
            key: it["key"].as_str().unwrap_or_default().to_owned(),
            input: it["inputDigest"].as_str().map(str::to_owned),
            result: Some(it["result"].to_string()).filter(|_| !it["result"].is_null()),
        })
    };
    DurableCall {
        steps: commands("steps").collect(),
        children: commands("children").collect(),
        wait: item["wait"]["key"].as_str().map(str::to_owned),
        diverged: item["diverged"].is_object(),
        code: None,
    }
}

/// What each of the calls was answered.
pub(super) fn answered(request: &Request, asked: &[Invoke], response: &Response) -> Vec<Return> {
    let said = body(&response.body);
    if response.status >= 400 {
        return vec![refused(response.status, &said); asked.len()];
    }
    let items = ["answers", "results"].iter().find_map(|name| said[*name].as_array().cloned());
    match items {
        Some(items) => {
            asked.iter().zip(&items).map(|(invoke, item)| of_item(invoke, item)).collect()
        }
        None if request.path == "/v1/leases" => {
            let leases = || said["leases"].as_array().into_iter().flatten();
            let grants = leases().filter_map(granted).collect();
            // A call that started a child may have died with the server that committed it.
            let recorded =
                leases().flat_map(|lease| lease["checkpoints"].as_array().into_iter().flatten());
            let started = recorded.filter(|it| it["outcome"] == "STARTED");
            let children = started.filter_map(|it| ulid(&it["taskId"])).collect();
            vec![Return { grants, children, ..Return::of(Answer::Ok) }]
        }
        None => asked.iter().map(|invoke| of_item(invoke, &said)).collect(),
    }
}

/// A refusal is definite; 429 and 5xx are not.
fn refused(status: u16, said: &Value) -> Return {
    let is_definite = status < 500 && status != 429;
    Return {
        code: said["error"].as_str().map(str::to_owned),
        verdict: said["verdict"].as_str().map(str::to_owned),
        ..Return::of(if is_definite { Answer::Fail } else { Answer::Info })
    }
}

fn of_item(invoke: &Invoke, item: &Value) -> Return {
    let status = item["status"].as_u64().unwrap_or(200) as u16;
    if status >= 400 || item["error"].is_string() {
        return refused(status.max(400), item);
    }
    let replayed = item["replayed"] == true;
    let is_riding = invoke.op == Operation::Report && invoke.durable.is_some();
    let time = |name: &str| item[name].as_str().and_then(|it| it.parse::<wire::Time>().ok());
    let is_get = invoke.op == Operation::Get;
    let children = item["children"].as_array().into_iter().flatten();
    Return {
        verdict: item["verdict"].as_str().map(str::to_owned),
        // A repeated report gets the first answer, which may be older than what others saw since.
        state: word::<State>(&item["state"]).filter(|_| !(is_riding && replayed)),
        replayed,
        task: ulid(&item["runId"]).filter(|_| invoke.op == Operation::Submit),
        attempt: item["attempt"].as_u64().map(|n| n as u32).filter(|_| is_get),
        digest: Some(item["output"].to_string()).filter(|_| is_get && !item["output"].is_null()),
        expires: time("leaseExpiresAt").map(wire::Time::as_ms),
        cancel: item["shouldCancel"] == true,
        children: children.filter_map(|child| ulid(&child["taskId"])).filter(|_| !is_get).collect(),
        ..Return::of(Answer::Ok)
    }
}

fn granted(lease: &Value) -> Option<Granted> {
    Some(Granted {
        task: ulid(&lease["taskId"])?,
        attempt: lease["attempt"].as_u64()? as u32,
        lease: lease["leaseId"].as_str().map(str::to_owned),
        fence: lease["fence"].as_u64(),
        expires: lease["leaseExpiresAt"]
            .as_str()?
            .parse::<wire::Time>()
            .ok()
            .map(wire::Time::as_ms),
        lease_ms: lease["heartbeatTimeoutMs"].as_u64(),
    })
}

/// What attempts were shown of their records, where the envelope has room for all of it.
pub(super) fn shown(request: &Request, response: &Response) -> Vec<Replay> {
    if request.path != "/v1/leases" {
        return Vec::new();
    }
    let said = body(&response.body);
    let leases = said["leases"].as_array().into_iter().flatten();
    let whole = leases.filter(|lease| lease["checkpointsAfter"].is_null());
    whole
        .filter_map(|lease| {
            let recorded: Vec<Recorded> =
                lease["checkpoints"].as_array().into_iter().flatten().map(record).collect();
            let attempt = lease["attempt"].as_u64().map(|n| n as u32);
            let replay = Replay { task: ulid(&lease["taskId"])?, attempt, recorded };
            Some(replay).filter(|replay| !replay.recorded.is_empty())
        })
        .collect()
}

fn record(checkpoint: &Value) -> Recorded {
    let parts =
        ["outcome", "result", "error", "taskId", "wait"].map(|name| checkpoint[name].to_string());
    Recorded {
        number: checkpoint["number"].as_u64().unwrap_or(0) as u32,
        key: checkpoint["key"].as_str().unwrap_or_default().to_owned(),
        started: checkpoint["outcome"] == "STARTED",
        result: Some(parts.join(" ")),
        savepoint: checkpoint["savepoint"] == true,
    }
}
