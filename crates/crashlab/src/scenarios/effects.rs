//! Effects while the server dies at every step of a delivery: before and after the commit of a claim, before the call, after
//! the answer, and after its record. The receiver's own log is judged: each effect of an aggregate is first seen in the
//! order of its decision (D4), and all deliveries of one id have the same bytes (D3).
//!
//! A claim holds for a minute. Where a dead server left one, the clock of the next server is ahead by more than that.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};
use faultpoint::{POINTS, Point, Trigger};
use rustix::process::Signal;
use serde_json::{Value, json};
use tenure::Client;
use wire::EffectState;
use wire::effects::{CreateEndpoint, ListEffects};
use wire::requests::{CheckpointCall, LeaseRequest};

use super::{LabOptions, Tally};
use crate::rng::SeededRng;
use crate::test_cluster::TestCluster;
use crate::waits;

/// Effects of one run, in one aggregate.
const EFFECTS: usize = 3;

/// At each fault point the server dies when it is reached for the first time, and for the second.
const TIMES: u64 = 2;

/// Longer than a claim, and the pause after a try.
const CLAIM_OVER_MS: i64 = 90_000;

/// What a receiver has seen: the id and the body of each delivery.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

pub(crate) async fn killed_while_delivering(options: &LabOptions) -> Result<Tally> {
    let mut rng = SeededRng::new(options.seed ^ 0xeffe);
    let cluster = TestCluster::new(&options.binary, options.mutant, &mut rng)?.with_clocks()?;
    let (url, seen) = receiver()?;
    let mut server = tokio::task::block_in_place(|| cluster.start(0, None))?;
    let client = Client::new(&format!("http://{}", cluster.listen[0]), &server.api_key()?)?;
    let endpoint: CreateEndpoint = serde_json::from_value(
        json!({"name": "lab", "url": url, "types": [], "retry": {"baseMs": 100}}),
    )?;
    client.endpoints().create(&endpoint).await?;
    server.kill()?;
    let points: Vec<&Point> =
        POINTS.iter().filter(|point| point.trigger == Trigger::Delivering).collect();
    let mut tally = Tally { points: points.len(), ..Tally::default() };
    for point in &points {
        for time in 1..=TIMES {
            let fault_spec = format!("kill@{}#{time}", point.name);
            let ahead = CLAIM_OVER_MS * (tally.kills as i64 + 1);
            deliver(&cluster, &client, &fault_spec, ahead).await.with_context(|| fault_spec)?;
            tally.kills += 1;
            tally.verified += 1;
        }
    }
    tally.runs = tally.kills;
    tally.events = judge(&seen.lock().expect("the receiver does not panic"), tally.runs)?;
    Ok(tally)
}

/// A run with effects, whose delivery a death interrupts.
async fn deliver(
    cluster: &TestCluster,
    client: &Client,
    fault_spec: &str,
    ahead: i64,
) -> Result<()> {
    let mut server = tokio::task::block_in_place(|| cluster.start(0, Some(fault_spec)))?;
    // Whether the call is answered before the server dies does not matter: its commit is what the server dies after. The
    // queue is new, since an older run may be ready again by now.
    let declaring = tokio::spawn({
        let (client, queue) = (client.clone(), fault_spec.replace(['@', '#'], "-"));
        async move { declare(&client, &queue).await }
    });
    let died = tokio::task::block_in_place(|| server.wait_for_death(fault_spec))?;
    declaring.abort();
    ensure!(died.signal() == Some(Signal::KILL.as_raw()), "the server ended by itself");
    tokio::task::block_in_place(|| cluster.verify())?;
    cluster.set_clock(0, ahead)?;
    let mut server = tokio::task::block_in_place(|| cluster.start(0, None))?;
    let settled = waits::within("all effects are delivered", async {
        while !is_settled(client).await? {
            tokio::time::sleep(crate::load::RETRY_DELAY).await;
        }
        anyhow::Ok(())
    });
    settled.await??;
    server.kill()
}

/// Records steps with effects of one aggregate, in one call.
async fn declare(client: &Client, queue: &str) -> Result<()> {
    client.submit("k", &Value::Null).queue(queue).await?;
    let poll = json!({"workerId": "w", "queues": [queue], "max": 1, "waitMs": 1_000});
    let poll: LeaseRequest = serde_json::from_value(poll)?;
    let leases = client.lease(&poll).await?.leases;
    let lease = leases.first().context("the run is ready")?;
    let steps: Vec<Value> =
        (1..=EFFECTS).map(|n| json!({"key": format!("s#{n}"), "outcome": "SUCCEEDED"})).collect();
    let effect = |n: usize| {
        json!({"key": "e", "step": format!("s#{n}"), "endpoint": "lab", "type": "t",
            "body": {"task": lease.task_id, "n": n}})
    };
    let effects: Vec<Value> = (1..=EFFECTS).map(effect).collect();
    let call: CheckpointCall = serde_json::from_value(
        json!({"attempt": lease.attempt, "workerId": "w", "steps": steps, "effects": effects}),
    )?;
    client.checkpoint(&lease.task_id, &lease.task_token, &call).await?;
    Ok(())
}

/// Whether every effect is delivered.
async fn is_settled(client: &Client) -> Result<bool> {
    for state in [EffectState::Queued, EffectState::Pending, EffectState::InFlight] {
        let page = ListEffects { state: Some(state), ..ListEffects::default() };
        if !client.effects().list(&page).await?.effects.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Judges the receiver's log: returns how many deliveries it has.
fn judge(seen: &[(String, String)], runs: usize) -> Result<usize> {
    let mut bodies: BTreeMap<&str, &str> = BTreeMap::new();
    let mut numbers: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (id, body) in seen {
        if let Some(first) = bodies.insert(id, body) {
            ensure!(first == body, "the effect {id} was sent as {first} and as {body}");
            continue;
        }
        let said: Value = serde_json::from_str(body)?;
        let task = said["task"].as_str().context("a body names its task")?.to_owned();
        numbers.entry(task).or_default().push(said["n"].as_u64().context("and its number")?);
    }
    let in_order: Vec<u64> = (1..=EFFECTS as u64).collect();
    for (task, numbers) in &numbers {
        ensure!(*numbers == in_order, "the effects of {task} were first seen as {numbers:?}");
    }
    ensure!(numbers.len() == runs, "{} of {runs} runs were heard of", numbers.len());
    Ok(seen.len())
}

/// A receiver that notes everything and accepts it.
fn receiver() -> Result<(String, Seen)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/", listener.local_addr()?);
    let seen = Seen::default();
    let noted = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let noted = noted.clone();
            // A server that died left its connection behind.
            std::thread::spawn(move || drop(receive(stream, &noted)));
        }
    });
    Ok((url, seen))
}

fn receive(mut stream: TcpStream, noted: &Seen) -> Result<()> {
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
            let id = header(head, "webhook-id").context("a delivery has an id")?;
            noted.lock().expect("no code panics holding it").push((id, body.to_owned()));
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
            return Ok(());
        }
        let read = stream.read(&mut buffer)?;
        ensure!(read > 0, "the request is cut");
        bytes.extend_from_slice(&buffer[..read]);
    }
}
