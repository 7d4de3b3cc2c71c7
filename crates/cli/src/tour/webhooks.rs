//! The chapter on webhooks: a receiver hears of everything, signed and in order, although it was away and the server was
//! killed in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tenure::webhooks::{HEADER_ID, HEADER_SIGNATURE, HEADER_TIMESTAMP, Secret, Verifier};
use tenure::{Effect, Failure, Flow, Worker};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use wire::State;

use super::processes::{QUEUE, expect, unexpected};
use super::{LONG_LEASE_MS, Tour};
use crate::exit::CliError;
use crate::output::GOOD;
use crate::server;

/// What the shop hears of one order, in this order.
const CHANGES: [&str; 4] = ["paid", "packed", "shipped", "delivered"];

/// The kind of the run.
const SHIPMENT: &str = "shipment";

/// Longer than a retry takes, so that only a defect reaches it.
const ARRIVES_WITHIN: Duration = Duration::from_secs(15);

/// Between two looks at whether the shop was called.
const LOOK: Duration = Duration::from_millis(20);

/// More than this chapter sends.
const ARRIVED_MAX: usize = 64;

/// A request to the shop.
struct Arrived {
    head: String,
    body: String,
}

/// A receiver in this process: it refuses everything until it opens.
struct Shop {
    url: String,
    is_open: Arc<AtomicBool>,
    refused: Arc<AtomicU32>,
    arrived: mpsc::Receiver<Arrived>,
}

impl Tour {
    pub(super) async fn webhooks(&mut self) -> Result<(), CliError> {
        self.say.act("A shop hears of an order, signed and in order, although the server dies.")?;
        let mut shop = Shop::start().await?;
        let create = ["endpoints", "create", "--json", "shop", &shop.url];
        let settings = ["--no-types", "--retry-base", "100ms", "--retry-cap", "500ms"];
        let made = self.server.run_command(&[&create[..], &settings].concat()).await?;
        expect(made.is_success, format_args!("an endpoint is registered: {}", made.stderr))?;
        let made: serde_json::Value = serde_json::from_str(&made.stdout).map_err(unexpected)?;
        let secret = Secret::parse(made["secret"].as_str().unwrap_or_default());
        let verifier = Verifier::new(secret.map_err(unexpected)?);
        self.say.tell("registered", format_args!("{}, with a secret of its own", shop.url))?;
        self.ship().await?;
        shop.was_refused().await?;
        self.say.tell("refused", "the first one, by the shop, which is closed")?;
        self.server.kill_and_restart().await?;
        self.say.tell("killed", "the server, with SIGKILL; another one has the same store")?;
        shop.is_open.store(true, Ordering::SeqCst);
        for (place, change) in CHANGES.iter().enumerate() {
            self.receive(&mut shop, &verifier, place + 1, change).await?;
        }
        expect(shop.arrived.try_recv().is_err(), "each of them arrives once")
    }

    /// A run whose steps ask for the effects.
    async fn ship(&self) -> Result<(), CliError> {
        let worker = Worker::new(self.server.client.clone()).name("erin").queue(QUEUE);
        let worker = worker.durable(SHIPMENT, ship);
        let (stop, stopped) = oneshot::channel::<()>();
        let working = tokio::spawn(worker.run_until(async { drop(stopped.await) }));
        let id = self.submit(SHIPMENT, LONG_LEASE_MS).await?;
        let run = self.ended(&id).await?;
        drop(stop);
        working.await.map_err(unexpected)?.map_err(server::cli_error)?;
        expect(run.state == State::Succeeded, "the order is shipped")?;
        let count = CHANGES.len();
        let recorded = format_args!("{count} effects, each in the commit of its step");
        self.say.tell("recorded", recorded)
    }

    async fn receive(
        &self,
        shop: &mut Shop,
        verifier: &Verifier,
        place: usize,
        change: &str,
    ) -> Result<(), CliError> {
        let arrived = tokio::time::timeout(ARRIVES_WITHIN, shop.arrived.recv()).await;
        let arrived = arrived.map_err(|_| unexpected("nothing arrives"))?;
        let Arrived { head, body } = arrived.ok_or_else(|| unexpected("the shop is gone"))?;
        let value = |name: &str| header(&head, name);
        let (id, sent) = (value(HEADER_ID), value(HEADER_TIMESTAMP));
        let now = sent.parse().map_err(unexpected)?;
        let judged = verifier.verify(id, sent, value(HEADER_SIGNATURE), body.as_bytes(), now);
        expect(judged.is_ok(), format_args!("the signature fits: {judged:?}"))?;
        let number = value("tenure-sequence");
        expect(number == place.to_string(), format_args!("number {place} is next, not {number}"))?;
        expect(body == format!("\"{change}\""), format_args!("{change} is next, not {body}"))?;
        let line = format_args!("number {number}, {body}, {GOOD}signature verified{GOOD:#}");
        self.say.tell("received", line)
    }
}

async fn ship(ctx: Flow, _: ()) -> Result<(), Failure> {
    for change in CHANGES {
        ctx.effect("tell", Effect::to("shop", change, change)?).await?;
    }
    Ok(())
}

impl Shop {
    async fn start() -> Result<Shop, CliError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let (note, arrived) = mpsc::channel(ARRIVED_MAX);
        let (is_open, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (open, count) = (is_open.clone(), refused.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = read(&mut stream).await else { continue };
                let is_open = open.load(Ordering::SeqCst);
                let status = if is_open { "204 No Content" } else { "503 Closed" };
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    continue;
                }
                if !is_open {
                    count.fetch_add(1, Ordering::SeqCst);
                } else if note.send(request).await.is_err() {
                    return;
                }
            }
        });
        Ok(Shop { url, is_open, refused, arrived })
    }

    async fn was_refused(&self) -> Result<(), CliError> {
        let called = async {
            while self.refused.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(LOOK).await;
            }
        };
        let called = tokio::time::timeout(ARRIVES_WITHIN, called).await;
        called.map_err(|_| unexpected("the shop was not called"))
    }
}

async fn read(stream: &mut TcpStream) -> Option<Arrived> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && header(head, "content-length").parse() == Ok(body.len())
        {
            return Some(Arrived { head: head.to_owned(), body: body.to_owned() });
        }
        let length = stream.read(&mut buffer).await.ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(&buffer[..length]);
    }
}

fn header<'h>(head: &'h str, name: &str) -> &'h str {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
}
