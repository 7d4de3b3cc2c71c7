//! Sends a task to the push handler of a subject, as the coordinator does.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use webhook::{
    HEADER_ID, HEADER_PUSH_TOKEN, HEADER_SIGNATURE, HEADER_TIMESTAMP, Secret, push_tokens,
    signatures,
};

use crate::case::Push;
use crate::coordinator::Coordinator;
use crate::http::{self, Request};
use crate::log::{Entry, Sort};

/// The secret that cases give to their handlers.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// The URL that cases tell their handlers to have.
pub(crate) const URL: &str = "https://push.example/work";

/// Leases a task for the endpoint and sends it. What comes back is an event of the case.
pub(crate) fn send(coordinator: &Arc<Coordinator>, wanted: &Push) {
    let (coordinator, wanted) = (Arc::clone(coordinator), wanted.clone());
    tokio::spawn(async move {
        for _ in 0..wanted.copies {
            let Some((authority, request)) = prepare(&coordinator, &wanted) else { return };
            let answer = http::call(&authority, request).await;
            note(&coordinator, &wanted.offer, answer);
        }
    });
}

fn prepare(coordinator: &Coordinator, wanted: &Push) -> Option<(String, Request)> {
    let mut model = coordinator.model();
    let port = model
        .log
        .entries
        .iter()
        .find(|entry| entry.name == "said" && entry.members["id"] == wanted.to)?;
    let port = port.members["ok"]["port"].as_u64()?;
    let envelope = model.push_lease(&wanted.offer)?;
    let id = format!("push_{}_{}", envelope.task_id, envelope.attempt);
    let body = serde_json::to_vec(&envelope).ok()?;
    let secret = Secret::parse(wanted.secret.as_deref().unwrap_or(SECRET)).ok()?;
    let now = jiff::Timestamp::now().as_second();
    let url = wanted.url.as_deref().unwrap_or(URL);
    let secrets = [secret];
    let header = |name: &str, value: String| (name.to_owned(), value);
    let headers = vec![
        header("content-type", "application/json".to_owned()),
        header(HEADER_ID, id.clone()),
        header(HEADER_TIMESTAMP, now.to_string()),
        header(HEADER_SIGNATURE, signatures(&secrets, &id, now, &body)),
        header(HEADER_PUSH_TOKEN, push_tokens(&secrets, url, &id, now)),
    ];
    let request = Request {
        method: "POST".to_owned(),
        path: "/work".to_owned(),
        query: String::new(),
        headers,
        body: Bytes::from(body),
        address: 1,
    };
    Some((format!("127.0.0.1:{port}"), request))
}

fn note(coordinator: &Coordinator, offer: &str, answer: std::io::Result<http::Response>) {
    let members = match answer {
        Ok(response) => {
            let body: Value = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
            let retry = response.headers.iter().find(|(name, _)| name == "retry-after");
            json!({"status": response.status, "report": body, "bytes": response.body.len(),
                "retryAfter": retry.map(|(_, value)| value)})
        }
        Err(error) => json!({"status": 0, "why": error.to_string()}),
    };
    let entry =
        Entry { sort: Sort::Event, of: Some(offer.to_owned()), ..Entry::event("pushed", members) };
    coordinator.model().log.add(entry);
    coordinator.tell();
}
