//! The client role: one JSON object per line on stdin, one answer per line on stdout.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::{Value, json};
use tenure::webhooks::{RecentIds, Secret, Seen, Verifier};
use tenure::{Client, Error, Kind, NewRun, Worker};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{Settings, durable, tasks};

/// Longer than any case lasts.
const FOREVER_MS: u64 = 3_600_000;

pub(crate) async fn serve(settings: &Settings) -> Result<(), Error> {
    let concurrency = settings.concurrency;
    let client = Client::from_env()?;
    let recent = Arc::new(Mutex::new(HashMap::new()));
    say(&json!({"ready": true}));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut calls = tokio::task::JoinSet::new();
    let term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    let mut term = term.map_err(|error| Error::Setup(error.to_string()))?;
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            _ = term.recv() => return Ok(()),
        };
        let Ok(Some(line)) = line else { return Ok(()) };
        let call: Value = serde_json::from_str(&line).expect("the kit writes JSON");
        let (client, recent) = (client.clone(), Arc::clone(&recent));
        calls.spawn(async move {
            let id = call["id"].clone();
            let done = match call["do"].as_str() {
                Some("push") => push(&call, concurrency).await.map_err(told),
                _ => perform(&client, &call, &recent).await,
            };
            say(&match done {
                Ok(ok) => json!({"id": id, "ok": ok}),
                Err(error) => json!({"id": id, "error": error}),
            });
        });
    }
}

/// Serves the kinds as a push handler, and tells its port.
async fn push(call: &Value, concurrency: usize) -> Result<Value, Error> {
    let text = |name: &str| call[name].as_str().unwrap_or_default();
    let worker = Worker::from_env()?.name("subject").concurrency(concurrency);
    let worker = durable::add(tasks::add(worker));
    let service = tenure::push::handler(worker, text("secret"), text("url"))?;
    let listening = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listening.map_err(|error| Error::Setup(error.to_string()))?;
    let port = listener.local_addr().map_err(|error| Error::Setup(error.to_string()))?.port();
    tokio::spawn(async move {
        let _ = axum::serve(listener, axum::Router::new().fallback_service(service)).await;
    });
    Ok(json!({"port": port}))
}

fn say(line: &Value) {
    println!("{line}");
}

type Recent = Mutex<HashMap<String, RecentIds>>;

async fn perform(client: &Client, call: &Value, recent: &Recent) -> Result<Value, Value> {
    let run = || client.run(call["runId"].as_str().unwrap_or_default());
    match call["do"].as_str().unwrap_or_default() {
        "submit" => {
            let submitted = client.submit_run(new_run(call)).await.map_err(told)?;
            Ok(json!({"runId": submitted.id()}))
        }
        "many" => {
            let runs = call["runs"].as_array().into_iter().flatten().map(new_run);
            let results = client.submit_many(runs).await.map_err(told)?;
            let each = results.into_iter().map(|result| match result {
                Ok(run) => json!({"runId": run.id()}),
                Err(error) => json!({"error": told(error)}),
            });
            Ok(each.collect())
        }
        "result" => result(client, call).await,
        "cancel" => {
            let reason = call["reason"].as_str().unwrap_or_default();
            run().cancel().reason(reason).await.map(|_| Value::Null).map_err(told)
        }
        "signal" => {
            let name = call["name"].as_str().unwrap_or_default();
            run().signal(name, &call["payload"]).await.map(|_| Value::Null).map_err(told)
        }
        "retry" => run().retry().await.map(|run| json!({"runId": run.id()})).map_err(told),
        "fork" => run().fork().await.map(|run| json!({"runId": run.id()})).map_err(told),
        "runs" => runs(client, call).await,
        "verify" => verify(call, recent),
        other => {
            Err(json!({"class": "Unsupported", "code": other, "message": "this SDK cannot do it"}))
        }
    }
}

fn new_run(call: &Value) -> NewRun {
    let run = NewRun::new(call["kind"].as_str().unwrap_or_default(), &call["input"]);
    let run = run.queue(call["queue"].as_str().unwrap_or_default());
    match call["idempotencyKey"].as_str() {
        Some(key) => run.idempotency_key(key),
        None => run,
    }
}

/// What `"as": "order"` reads.
#[derive(serde::Serialize, Deserialize)]
struct Order {
    id: String,
    items: Vec<Item>,
}

#[derive(serde::Serialize, Deserialize)]
struct Item {
    cents: u64,
}

async fn result(client: &Client, call: &Value) -> Result<Value, Value> {
    const ORDER: Kind<Value, Order> = Kind::new("order");
    let run = client.run(call["runId"].as_str().unwrap_or_default());
    let timeout = Duration::from_millis(call["timeoutMs"].as_u64().unwrap_or(FOREVER_MS));
    match call["as"].as_str() {
        Some("order") => {
            let order = run.of(ORDER).result_timeout(timeout).await;
            order.map(|order| json!(order)).map_err(told)
        }
        _ => run.result_timeout(timeout).await.map_err(told),
    }
}

/// Every run that fits, page by page.
async fn runs(client: &Client, call: &Value) -> Result<Value, Value> {
    let (mut ids, mut cursor): (Vec<String>, Option<String>) = (Vec::new(), None);
    let wanted = call["take"].as_u64().unwrap_or(u64::MAX) as usize;
    loop {
        let mut request = client.runs().queue("conform");
        if let Some(cursor) = cursor {
            request = request.cursor(cursor);
        }
        let page = request.await.map_err(told)?;
        ids.extend(page.runs.into_iter().map(|run| run.run_id));
        cursor = page.next_cursor;
        if cursor.is_none() || ids.len() >= wanted {
            ids.truncate(wanted);
            return Ok(json!(ids));
        }
    }
}

fn verify(call: &Value, recent: &Recent) -> Result<Value, Value> {
    let refused = |error: &dyn std::fmt::Display| json!({"class": "Verification", "code": null, "retryable": false, "message": error.to_string()});
    let secrets = call["secrets"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let secrets: Vec<&str> = secrets.collect();
    let first = Secret::parse(secrets[0]).map_err(|error| refused(&error))?;
    let mut verifier = Verifier::new(first);
    for secret in &secrets[1..] {
        verifier = verifier.or(Secret::parse(secret).map_err(|error| refused(&error))?);
    }
    let header = |name: &str| call["headers"][name].as_str().unwrap_or_default();
    let (id, body) = (header("webhook-id"), call["body"].as_str().unwrap_or_default());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
        as i64;
    verifier
        .verify(id, header("webhook-timestamp"), header("webhook-signature"), body.as_bytes(), now)
        .map_err(|error| refused(&error))?;
    let mut recent = recent.lock().expect("nothing panics under it");
    let seen = recent.entry(secrets[0].to_owned()).or_default().note(id, now);
    let event: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    Ok(
        json!({"id": id, "type": event["type"], "data": event["data"], "repeated": seen == Seen::Repeated}),
    )
}

/// An error as the kit reads it: class, code, whether the same call may be repeated.
fn told(error: Error) -> Value {
    let class = match &error {
        Error::Refused(_) => "Refused",
        Error::RunFailed(_) => "RunFailed",
        Error::OutputUnreadable { .. } => "OutputUnreadable",
        Error::TimedOut { .. } => "TimedOut",
        Error::Unreachable { .. } => "Unreachable",
        Error::UnknownOutcome(_) => "UnknownOutcome",
        Error::Protocol { .. } => "Protocol",
        _ => "Setup",
    };
    let field = error.problem().and_then(|problem| problem.field.clone());
    let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
    let mut said = json!({
        "class": class, "code": error.code().map(|code| code.as_str()), "retryable": error.is_retryable(),
        "field": field, "message": format!("{error}{}", source.unwrap_or_default()),
    });
    if let Some(failure) = error.run_failure() {
        said["state"] = json!(failure.state);
        said["reason"] = json!(failure.reason);
        said["category"] = json!(failure.category);
        said["attempt"] = json!(failure.attempt);
    }
    said
}
