//! A receiver of effects, and callers that ask for them. Both write what they saw into one history, which `historyck` judges:
//! each effect is one, reaches its receiver with the same bytes however often it is sent, and in the order of its aggregate.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use historyck::event::EventKind;
use historyck::outbox::{Declared, Delivered};
use historyck::{Event, Recorder};
use serde_json::{Value, json};
use tenure::Client;
use wire::EffectState;
use wire::effects::CreateEndpoint;
use wire::requests::{CheckpointCall, LeaseRequest};

use crate::load::RETRY_DELAY;

/// Effects of one run, in one aggregate.
pub(crate) const EFFECTS: u64 = 3;

const ENDPOINT: &str = "lab";
const WORKER: &str = "w";

/// A receiver that accepts everything, and the history of what was asked for and seen.
#[derive(Clone)]
pub(crate) struct Receiver {
    url: String,
    pub(crate) history: Arc<Recorder>,
}

/// A call that asks for effects, under the lease of its run.
pub(crate) struct Declaration {
    task: String,
    token: String,
    call: CheckpointCall,
}

impl Receiver {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/", listener.local_addr()?);
        let receiver = Self { url, history: Arc::default() };
        let history = receiver.history.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let history = history.clone();
                // A server that died left its connection behind.
                std::thread::spawn(move || drop(receive(stream, &history)));
            }
        });
        Ok(receiver)
    }

    /// Registers the receiver as an endpoint.
    pub(crate) async fn register(&self, client: &Client) -> Result<()> {
        let endpoint: CreateEndpoint = serde_json::from_value(
            json!({"name": ENDPOINT, "url": self.url, "types": [], "retry": {"baseMs": 100}}),
        )?;
        client.endpoints().create(&endpoint).await?;
        Ok(())
    }

    /// Leases a new run, whose worker is to ask for effects.
    pub(crate) async fn begin(&self, client: &Client, queue: &str) -> Result<Declaration> {
        client.submit("k", &Value::Null).queue(queue).await?;
        let poll = json!({"workerId": WORKER, "queues": [queue], "max": 1, "waitMs": 1_000});
        let poll: LeaseRequest = serde_json::from_value(poll)?;
        let leases = client.lease(&poll).await?.leases;
        let lease = leases.first().context("the run is ready")?;
        let step = |n: u64| json!({"key": format!("s#{n}"), "outcome": "SUCCEEDED"});
        let effect = |n: u64| {
            json!({"key": "e", "step": format!("s#{n}"), "endpoint": ENDPOINT, "type": "t",
                "body": body(&lease.task_id, n)})
        };
        let call = json!({
            "attempt": lease.attempt,
            "workerId": WORKER,
            "steps": (1..=EFFECTS).map(step).collect::<Vec<_>>(),
            "effects": (1..=EFFECTS).map(effect).collect::<Vec<_>>(),
        });
        let (task, token) = (lease.task_id.clone(), lease.task_token.clone());
        Ok(Declaration { task, token, call: serde_json::from_value(call)? })
    }

    /// Records steps with effects of one aggregate, in one call, which may be the repetition of one that got no answer.
    pub(crate) async fn declare(&self, client: &Client, asked: &Declaration) -> Result<()> {
        self.note(&asked.task, false)?;
        client.checkpoint(&asked.task, &asked.token, &asked.call).await?;
        self.note(&asked.task, true)
    }

    fn note(&self, task: &str, acknowledged: bool) -> Result<()> {
        for number in 1..=EFFECTS {
            let (aggregate, body) = (task.to_owned(), body(task, number).to_string());
            let declared = Declared { aggregate, number, body, acknowledged };
            self.history.record(WORKER, EventKind::Declared(declared))?;
        }
        Ok(())
    }

    /// Whether everything that this call asked for was seen.
    pub(crate) fn has_seen(&self, asked: &Declaration) -> bool {
        let is_last = |event: &Event| {
            matches!(&event.what, EventKind::Delivered(it)
                if it.aggregate == asked.task && it.number == EFFECTS)
        };
        self.history.events().iter().any(is_last)
    }
}

/// What an effect says.
fn body(task: &str, number: u64) -> Value {
    json!({"task": task, "n": number})
}

/// Waits until every effect is delivered.
pub(crate) async fn settled(client: &Client) -> Result<()> {
    while !is_settled(client).await? {
        tokio::time::sleep(RETRY_DELAY).await;
    }
    Ok(())
}

async fn is_settled(client: &Client) -> Result<bool> {
    for state in [EffectState::Queued, EffectState::Pending, EffectState::InFlight] {
        if !client.effects().list().state(state).await?.effects.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn receive(mut stream: TcpStream, history: &Recorder) -> Result<()> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let header = |head: &str, name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.to_owned())
    };
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && header(head, "content-length").and_then(|it| it.parse().ok()) == Some(body.len())
        {
            let effect = header(head, "webhook-id").context("a delivery has an id")?;
            history.record("receiver", EventKind::Delivered(seen(effect, body)?))?;
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
            return Ok(());
        }
        let read = stream.read(&mut buffer)?;
        ensure!(read > 0, "the request is cut");
        bytes.extend_from_slice(&buffer[..read]);
    }
}

/// The bytes count as they came: the same members in another order would be another body.
fn seen(effect: String, body: &str) -> Result<Delivered> {
    let said: Value = serde_json::from_str(body)?;
    let aggregate = said["task"].as_str().context("a body names its task")?.to_owned();
    let number = said["n"].as_u64().context("and its number")?;
    Ok(Delivered { effect, aggregate, number, body: body.to_owned() })
}
