//! A receiver of webhooks on loopback: it notes everything and answers as it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use webhook::{Secret, Verifier, VerifyError};

use super::super::test_server::PATIENCE;

/// What arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) head: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Delivery {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.head.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn id(&self) -> &str {
        self.header("webhook-id")
    }

    /// As a receiver with this secret judges it, at the time that the sender names.
    pub(crate) fn verify(&self, secret: &str) -> Result<(), VerifyError> {
        let (id, timestamp) = (self.id(), self.header("webhook-timestamp"));
        let verifier = Verifier::new(Secret::parse(secret).unwrap());
        let now = timestamp.parse().unwrap();
        let signature = self.header("webhook-signature");
        verifier.verify(id, timestamp, signature, self.body.as_bytes(), now)
    }
}

/// What it answers with.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Text(&'static str),
    /// Nothing: it ends the connection.
    HangsUp,
    /// Nothing: it keeps the connection.
    Hangs,
}

pub(crate) const OK: Answer = Answer::Text("HTTP/1.1 204 No Content\r\n\r\n");
pub(crate) const DOWN: Answer =
    Answer::Text("HTTP/1.1 500 Broken\r\ncontent-length: 4\r\n\r\noops");
pub(crate) const GONE: Answer = Answer::Text("HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n");
pub(crate) const HANGS_UP: Answer = Answer::HangsUp;
pub(crate) const HANGS: Answer = Answer::Hangs;

pub(crate) struct Receiver {
    pub(crate) url: String,
    /// The answers to the next deliveries; afterwards [`OK`].
    pub(crate) answers: Arc<Mutex<VecDeque<Answer>>>,
    arrived: mpsc::UnboundedReceiver<Delivery>,
}

impl Receiver {
    #[expect(clippy::disallowed_methods, reason = "a test delivers as much as it asked for")]
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks", listener.local_addr().unwrap());
        let (note, arrived) = mpsc::unbounded_channel();
        let answers: Arc<Mutex<VecDeque<Answer>>> = Arc::default();
        let planned = answers.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receive(stream, planned.clone(), note.clone()));
            }
        });
        Self { url, answers, arrived }
    }

    pub(crate) fn answers(&self, answers: &[Answer]) {
        self.answers.lock().unwrap().extend(answers);
    }

    /// The next delivery.
    pub(crate) async fn next(&mut self) -> Delivery {
        let arrived = tokio::time::timeout(PATIENCE, self.arrived.recv()).await;
        arrived.expect("it arrives in time").expect("the receiver runs")
    }

    /// So many deliveries.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<Delivery> {
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.push(self.next().await);
        }
        taken
    }

    /// Asserts that nothing more has arrived by now.
    pub(crate) fn assert_quiet(&mut self) {
        assert_eq!(self.arrived.try_recv().ok(), None, "nothing more was to arrive");
    }
}

async fn receive(
    mut stream: TcpStream,
    planned: Arc<Mutex<VecDeque<Answer>>>,
    note: mpsc::UnboundedSender<Delivery>,
) {
    let Some(delivery) = read(&mut stream).await else { return };
    let answer = planned.lock().unwrap().pop_front().unwrap_or(OK);
    note.send(delivery).ok();
    match answer {
        Answer::Text(answer) => {
            stream.write_all(answer.as_bytes()).await.ok();
            stream.shutdown().await.ok();
        }
        Answer::HangsUp => {}
        Answer::Hangs => std::future::pending().await,
    }
}

async fn read(stream: &mut TcpStream) -> Option<Delivery> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head: Vec<(String, String)> = head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect();
            let length = head.iter().find(|(name, _)| name == "content-length");
            if length.is_some_and(|(_, length)| length.parse() == Ok(body.len())) {
                return Some(Delivery { head, body: body.to_owned() });
            }
        }
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut buffer)).await;
        let length = read.ok()?.ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(&buffer[..length]);
    }
}
