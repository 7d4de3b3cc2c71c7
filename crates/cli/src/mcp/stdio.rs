//! Messages over standard input and output, one per line. Nothing else is ever written to standard output.
//!
//! Calls go on side by side, so that a wait for a run holds up no other call, and a cancellation is read in time.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use tenure::Client;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Stdin, Stdout};
use tokio::task::{self, AbortHandle, JoinError, JoinSet};

use super::endpoint::Endpoint;
use super::message::{self, Fault, Message, Request};
use super::{CALLS_MAX, MESSAGE_BYTES_MAX};
use crate::exit::{CliError, CommandResult, Exit};

/// What is under way when the input ends may take this long: its caller is about to leave.
const DRAIN: Duration = Duration::from_secs(10);

/// Read at once from standard input.
const BUFFER_BYTES: usize = 64 * 1024;

pub(super) async fn serve(endpoint: Endpoint, client: Client) -> CommandResult {
    let mut input = Lines::new(tokio::io::stdin());
    let mut session = Session {
        endpoint,
        client,
        calls: JoinSet::new(),
        by_id: HashMap::new(),
        output: tokio::io::stdout(),
    };
    loop {
        tokio::select! {
            line = input.next() => match line.map_err(unreadable)? {
                Line::Whole(line) => session.accept(&line).await?,
                Line::TooLong => session.write(&Fault::too_large().reply(None)).await?,
                Line::End => break,
            },
            Some(ended) = session.calls.join_next_with_id() => session.finish(ended).await?,
        }
    }
    session.drain().await?;
    Ok(Exit::Done)
}

fn unreadable(error: io::Error) -> CliError {
    let message = format!("cannot read standard input: {error}");
    CliError::usage("input_unreadable", message)
}

/// How the task of a call ended: with an answer, or without one.
type Ended = Result<(task::Id, String), JoinError>;

struct Session {
    endpoint: Endpoint,
    client: Client,
    calls: JoinSet<String>,
    /// Calls that await their answer, by the JSON text of their id.
    by_id: HashMap<String, AbortHandle>,
    output: Stdout,
}

impl Session {
    async fn accept(&mut self, line: &[u8]) -> Result<(), CliError> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        match message::read(line) {
            Ok(Message::Request(request)) => match self.refusal(&request) {
                Some(fault) => self.write(&fault.reply(Some(&request.id))).await,
                None => {
                    self.begin(request);
                    Ok(())
                }
            },
            Ok(Message::Notification(note)) => {
                self.note(&note);
                Ok(())
            }
            Ok(Message::Response) => Ok(()),
            Err(rejected) => self.write(&rejected.reply()).await,
        }
    }

    fn refusal(&self, request: &Request) -> Option<Fault> {
        if self.by_id.contains_key(&request.id.text()) {
            let message = "a call with this id is under way";
            return Some(Fault::invalid_request(message, "give every request an id of its own"));
        }
        (self.by_id.len() >= CALLS_MAX).then(Fault::busy)
    }

    fn begin(&mut self, request: Request) {
        let (endpoint, client) = (self.endpoint, self.client.clone());
        let id = request.id.text();
        let call = async move { endpoint.answer(&client, &request).await };
        let handle = self.calls.spawn(call);
        self.by_id.insert(id, handle);
    }

    /// A cancelled call gets no answer, as the protocol says. What it has asked of the server may have happened.
    fn note(&mut self, note: &Request<()>) {
        if note.method == "notifications/cancelled"
            && let Some(id) = cancelled_id(note.params())
            && let Some(call) = self.by_id.remove(&id)
        {
            call.abort();
        }
    }

    async fn finish(&mut self, ended: Ended) -> Result<(), CliError> {
        let (task, answer) = match ended {
            Ok((task, answer)) => (task, Some(answer)),
            Err(error) => (error.id(), None),
        };
        // None for a call that was cancelled, even if its answer was ready.
        let Some(id) = self.id_of(task) else { return Ok(()) };
        self.by_id.remove(&id);
        // A defect of this program ends one call, and its caller waits no longer.
        let answer = answer.unwrap_or_else(|| Fault::internal().reply_to(&id));
        self.write(&answer).await
    }

    fn id_of(&self, task: task::Id) -> Option<String> {
        let mut calls = self.by_id.iter();
        calls.find(|(_, call)| call.id() == task).map(|(id, _)| id.clone())
    }

    async fn write(&mut self, answer: &str) -> Result<(), CliError> {
        self.output.write_all(format!("{answer}\n").as_bytes()).await?;
        self.output.flush().await?;
        Ok(())
    }

    async fn drain(&mut self) -> Result<(), CliError> {
        let until = tokio::time::Instant::now() + DRAIN;
        loop {
            let ended = self.calls.join_next_with_id();
            match tokio::time::timeout_at(until, ended).await {
                Ok(Some(ended)) => self.finish(ended).await?,
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }
}

/// The id that a cancellation names, as text.
fn cancelled_id(params: &str) -> Option<String> {
    let params: serde_json::Value = serde_json::from_str(params).ok()?;
    params.get("requestId").map(serde_json::Value::to_string)
}

enum Line {
    Whole(Vec<u8>),
    TooLong,
    End,
}

/// Lines up to a limit. A longer one is skipped to its end, and never held as a whole.
struct Lines {
    input: BufReader<Stdin>,
    line: Vec<u8>,
    is_too_long: bool,
}

impl Lines {
    fn new(input: Stdin) -> Lines {
        let input = BufReader::with_capacity(BUFFER_BYTES, input);
        Lines { input, line: Vec::new(), is_too_long: false }
    }

    /// Can be dropped while it waits: what was read stays here.
    async fn next(&mut self) -> io::Result<Line> {
        loop {
            let buffer = self.input.fill_buf().await?;
            if buffer.is_empty() {
                // A last line needs no line break.
                let has_line = !self.line.is_empty() || self.is_too_long;
                return Ok(if has_line { self.take() } else { Line::End });
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            if self.line.len() + part.len() > MESSAGE_BYTES_MAX {
                self.is_too_long = true;
                self.line = Vec::new();
            } else if !self.is_too_long {
                self.line.extend_from_slice(part);
            }
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                return Ok(self.take());
            }
        }
    }

    fn take(&mut self) -> Line {
        let line = std::mem::take(&mut self.line);
        match std::mem::take(&mut self.is_too_long) {
            true => Line::TooLong,
            false => Line::Whole(line),
        }
    }
}
