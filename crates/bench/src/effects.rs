//! Effects and push, to a receiver in this process: how many deliveries a second, how long from the commit to the receiver, what a
//! dead endpoint costs the others, and how soon pushed work starts beside polled work.
//!
//! `effects:1000` spreads the effects over so many aggregates, whose order is checked. They are declared while the endpoint is
//! disabled, so that the measurement is of deliveries alone, from the call that enables it to the last arrival. On a database
//! three coordinators deliver; two of them learn within a second that they may.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::Client;
use tenure::wire::answers::Envelope;
use tenure::wire::effects::CreateEndpoint;
use tenure::wire::requests::{CheckpointCall, LeaseRequest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::{BenchError, failed};
use crate::goal::{Goal, Side, Unit};
use crate::latency::PAUSE;
use crate::load_client::micros_now;
use crate::measurement::Measurement;
use crate::plan::{Options, Target};
use crate::server::Servers;
use crate::store_factory::StoreFactory;

const DELIVERED: &str = "deliveries";
const DELIVERED_SHARED: &str = "deliveries, 3 coordinators";
const RECEIVED: &str = "commit to received";
const BESIDE_DEAD: &str = "commit to received, beside a dead endpoint";
const PUSHED: &str = "submit to started, pushed";
const POLLED: &str = "submit to started, polled";

/// Effects of one aggregate.
const EACH: usize = 20;
/// Effects of one call: as many as are allowed.
const PER_CALL: usize = 100;
/// What waits for the dead endpoint: far more than it may have in flight.
const DEAD_EFFECTS: usize = 1_000;
/// Nothing takes longer, unless something is broken.
const WITHIN: Duration = Duration::from_secs(120);
/// Longer than a measurement.
const LEASE: Duration = Duration::from_secs(600);
/// Arrivals that are kept until they are looked at.
const ARRIVED_MAX: usize = 100_000;
/// The largest head or body that is read at once.
const BUFFER: usize = 16 * 1024;

/// A receiver accepts, and has done the work that is pushed to it.
const ACCEPTED: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 23\r\n\r\n{\"outcome\":\"SUCCEEDED\"}";

/// A call that arrived: its aggregate and place there, if it is an effect, and when.
struct Arrived {
    aggregate: Option<String>,
    sequence: u64,
    at: u64,
}

struct Receiver {
    url: String,
    arrived: mpsc::Receiver<Arrived>,
}

impl Receiver {
    /// A receiver that answers each call with this.
    async fn start(answer: &'static str) -> Result<Receiver, BenchError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let (note, arrived) = mpsc::channel(ARRIVED_MAX);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receive(stream, note.clone(), answer));
            }
        });
        Ok(Receiver { url, arrived })
    }

    async fn next(&mut self) -> Result<Arrived, BenchError> {
        let arrived = tokio::time::timeout(WITHIN, self.arrived.recv()).await;
        arrived.ok().flatten().ok_or_else(|| failed("a call did not arrive"))
    }
}

async fn receive(mut stream: TcpStream, note: mpsc::Sender<Arrived>, answer: &str) -> Option<()> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; BUFFER]);
    loop {
        let length = stream.read(&mut buffer).await.ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(&buffer[..length]);
        let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let body: usize = header("content-length")?.parse().ok()?;
        if bytes.len() < end + 4 + body {
            continue;
        }
        let sequence = header("tenure-sequence").and_then(|it| it.parse().ok()).unwrap_or(0);
        let aggregate = header("tenure-aggregate").map(str::to_owned);
        note.send(Arrived { aggregate, sequence, at: micros_now() }).await.ok()?;
        stream.write_all(answer.as_bytes()).await.ok()?;
        return Some(());
    }
}

pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    aggregates: usize,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    let coordinators = if matches!(options.target, Target::Own { .. }) { 1 } else { 3 };
    progress("deliveries", 0.0);
    let (servers, _) = Servers::on_new_store(&options.program, stores, coordinators).await?;
    let client = servers.remote.sdk()?;
    let mut rows = vec![deliveries(&client, &servers, aggregates).await?];
    progress("one at a time", 0.4);
    rows.push(received(&client, "idle", options.span, RECEIVED).await?);
    let dead = leave_unanswered(&client).await?;
    rows.push(received(&client, "beside", options.span, BESIDE_DEAD).await?);
    drop(dead);
    progress("push and poll", 0.7);
    rows.push(polled(&client, options.span).await?);
    rows.push(pushed(&client, options.span).await?);
    servers.kill().await?;
    Ok(rows)
}

fn of<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, BenchError> {
    serde_json::from_value(value).map_err(failed)
}

async fn endpoint(client: &Client, name: &str, url: &str, more: Value) -> Result<(), BenchError> {
    let mut wanted = json!({"name": name, "url": url, "types": [], "concurrency": 256});
    if let (Some(wanted), Value::Object(more)) = (wanted.as_object_mut(), more) {
        wanted.extend(more);
    }
    let wanted: CreateEndpoint = of(wanted)?;
    client.endpoints().create(&wanted).await.map(drop).map_err(failed)
}

/// A task under a lease, whose steps ask for effects.
async fn leased(client: &Client, queue: &str) -> Result<Envelope, BenchError> {
    submit(client, queue).await?;
    let poll: LeaseRequest =
        of(json!({"workerId": "w", "queues": [queue], "max": 1, "waitMs": 10_000}))?;
    let leases = client.lease(&poll).await.map_err(failed)?.leases;
    leases.into_iter().next().ok_or_else(|| failed("no lease"))
}

/// One call with effects of these aggregates.
async fn declare(
    client: &Client,
    lease: &Envelope,
    (endpoint, call): (&str, usize),
    aggregates: &[usize],
) -> Result<(), BenchError> {
    let step = format!("s#{call}");
    let effect = |(n, aggregate): (usize, &usize)| {
        json!({"key": format!("e{n}"), "step": step, "endpoint": endpoint, "type": "t",
            "aggregate": format!("a{aggregate}"), "body": n})
    };
    let effects: Vec<Value> = aggregates.iter().enumerate().map(effect).collect();
    let call: CheckpointCall = of(json!({"attempt": lease.attempt, "workerId": "w",
        "steps": [{"key": step, "outcome": "SUCCEEDED"}], "effects": effects}))?;
    let sent = client.checkpoint(&lease.task_id, &lease.task_token, &call).await;
    sent.map(drop).map_err(failed)
}

async fn deliveries(
    client: &Client,
    servers: &Servers,
    aggregates: usize,
) -> Result<Measurement, BenchError> {
    let mut receiver = Receiver::start(ACCEPTED).await?;
    endpoint(client, "many", &receiver.url, json!({})).await?;
    client.endpoints().pause("many").await.map_err(failed)?;
    let lease = leased(client, "many").await?;
    let all: Vec<usize> = (0..EACH).flat_map(|_| 0..aggregates).collect();
    for (call, part) in all.chunks(PER_CALL).enumerate() {
        declare(client, &lease, ("many", call + 1), part).await?;
    }
    let meter = servers.monitored.begin().await?;
    client.endpoints().resume("many").await.map_err(failed)?;
    all_in_order(&mut receiver, all.len()).await?;
    let (elapsed, used) = meter.end().await?;
    let name = if servers.remote.addresses.len() == 1 { DELIVERED } else { DELIVERED_SHARED };
    let rate = all.len() as f64 / elapsed.as_secs_f64();
    let row = Measurement { lifecycles_per_second: Some(rate), ..Measurement::named(name) };
    Ok(used.put(row, all.len() as u64))
}

/// An endpoint of its own and a task under a lease, whose effects are delivered one after the other.
#[cfg(test)]
pub(crate) struct Deliveries {
    client: Client,
    receiver: Receiver,
    lease: Envelope,
    declared: usize,
}

#[cfg(test)]
impl Deliveries {
    pub(crate) async fn begin(client: Client) -> Result<Self, BenchError> {
        let receiver = Receiver::start(ACCEPTED).await?;
        endpoint(&client, "alone", &receiver.url, json!({})).await?;
        let lease = leased(&client, "alone").await?;
        Ok(Self { client, receiver, lease, declared: 0 })
    }

    /// From the declaration of an effect to its arrival.
    pub(crate) async fn deliver(&mut self) -> Result<(), BenchError> {
        self.declared += 1;
        declare(&self.client, &self.lease, ("alone", self.declared), &[0]).await?;
        self.receiver.next().await.map(drop)
    }
}

/// Waits for so many effects. Each aggregate must arrive in its order; one that arrives again counts once.
async fn all_in_order(receiver: &mut Receiver, count: usize) -> Result<(), BenchError> {
    let (mut last, mut seen): (HashMap<String, u64>, usize) = (HashMap::new(), 0);
    while seen < count {
        let Arrived { aggregate, sequence, .. } = receiver.next().await?;
        let last = last.entry(aggregate.unwrap_or_default()).or_default();
        if sequence > *last + 1 {
            return Err(failed("an effect arrived before one that was decided earlier"));
        }
        if sequence == *last + 1 {
            (*last, seen) = (sequence, seen + 1);
        }
    }
    Ok(())
}

/// From the answer of the call that declared an effect to its arrival.
async fn received(
    client: &Client,
    endpoint_name: &str,
    span: Duration,
    name: &str,
) -> Result<Measurement, BenchError> {
    let mut receiver = Receiver::start(ACCEPTED).await?;
    endpoint(client, endpoint_name, &receiver.url, json!({})).await?;
    let lease = leased(client, endpoint_name).await?;
    let (end, mut micros, mut call) = (Instant::now() + span, Vec::new(), 0);
    while Instant::now() < end {
        call += 1;
        declare(client, &lease, (endpoint_name, call), &[0]).await?;
        let committed = micros_now();
        micros.push(receiver.next().await?.at.saturating_sub(committed));
        tokio::time::sleep(PAUSE).await;
    }
    Ok(Measurement::named(name).with_latencies(micros))
}

/// An endpoint that takes connections and never answers, with much to send.
async fn leave_unanswered(client: &Client) -> Result<TcpListener, BenchError> {
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    endpoint(client, "dead", &format!("http://{}/", silent.local_addr()?), json!({})).await?;
    let lease = leased(client, "dead").await?;
    let all: Vec<usize> = (0..DEAD_EFFECTS).collect();
    for (call, part) in all.chunks(PER_CALL).enumerate() {
        declare(client, &lease, ("dead", call + 1), part).await?;
    }
    Ok(silent)
}

async fn polled(client: &Client, span: Duration) -> Result<Measurement, BenchError> {
    let poll: LeaseRequest =
        of(json!({"workerId": "w", "queues": ["polled"], "max": 1, "waitMs": 10_000}))?;
    let (end, mut micros, client) = (Instant::now() + span, Vec::new(), Arc::new(client.clone()));
    while Instant::now() < end {
        let polling = tokio::spawn({
            let (client, poll) = (client.clone(), poll.clone());
            async move {
                let leased = client.lease(&poll).await;
                (leased.map(|it| it.leases.len()), micros_now())
            }
        });
        tokio::time::sleep(PAUSE).await;
        let begun = micros_now();
        submit(&client, "polled").await?;
        let (leased, at) = polling.await.map_err(failed)?;
        if leased.map_err(failed)? == 1 {
            micros.push(at.saturating_sub(begun));
        }
    }
    Ok(Measurement::named(POLLED).with_latencies(micros))
}

async fn pushed(client: &Client, span: Duration) -> Result<Measurement, BenchError> {
    let mut receiver = Receiver::start(DONE).await?;
    endpoint(client, "pushed", &receiver.url, json!({"queues": ["pushed"]})).await?;
    // The first one waits until the endpoint is known to whoever pushes.
    submit(client, "pushed").await?;
    receiver.next().await?;
    let (end, mut micros) = (Instant::now() + span, Vec::new());
    while Instant::now() < end {
        tokio::time::sleep(PAUSE).await;
        let begun = micros_now();
        submit(client, "pushed").await?;
        micros.push(receiver.next().await?.at.saturating_sub(begun));
    }
    Ok(Measurement::named(PUSHED).with_latencies(micros))
}

async fn submit(client: &Client, queue: &str) -> Result<(), BenchError> {
    let run = client.submit("k", &()).queue(queue).lease(LEASE);
    run.await.map(drop).map_err(failed)
}

/// The goals of effects and push.
pub(crate) fn goals(rows: &[Measurement]) -> Vec<Goal> {
    let row = |name: &str| rows.iter().find(|row| row.name == name);
    let at_most = |figure: &str, limit: f64, measured: f64| Goal {
        figure: figure.to_owned(),
        side: Side::AtMost,
        limit,
        unit: Unit::Milliseconds,
        measured,
    };
    let rate = |name: &str, limit: f64| {
        let measured = row(name)?.lifecycles_per_second?;
        let (figure, side, unit) = (name.to_owned(), Side::AtLeast, Unit::PerSecond);
        Some(Goal { figure, side, limit, unit, measured })
    };
    let rates = [rate(DELIVERED, 5_000.0), rate(DELIVERED_SHARED, 3_000.0)];
    let idle = row(RECEIVED).and_then(|row| row.p50_ms);
    let idle_goal = idle.map(|measured| at_most("commit to received, p50", 2.0, measured));
    let tail = |name: &str| row(name).and_then(|row| row.p99_ms);
    let dead = tail(BESIDE_DEAD).zip(tail(RECEIVED)).map(|(beside, alone)| {
        at_most("delay by a dead endpoint, p99", 10.0, (beside - alone).max(0.0))
    });
    let middle = |name: &str| row(name).and_then(|row| row.p50_ms);
    let push = middle(PUSHED)
        .zip(middle(POLLED))
        .map(|(pushed, polled)| at_most("submit to started by push, p50", polled + 2.0, pushed));
    rates.into_iter().chain([idle_goal, dead, push]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_is_compared_with_poll_and_a_dead_endpoint_with_none() {
        let row = |name: &str, p50, p99| Measurement {
            p50_ms: Some(p50),
            p99_ms: Some(p99),
            ..Measurement::named(name)
        };
        let rows = [
            row(RECEIVED, 1.0, 3.0),
            row(BESIDE_DEAD, 1.0, 14.0),
            row(POLLED, 4.0, 9.0),
            row(PUSHED, 5.5, 9.0),
        ];
        let met: Vec<bool> = goals(&rows).iter().map(Goal::is_met).collect();
        assert_eq!(met, [true, false, true]);
    }
}
