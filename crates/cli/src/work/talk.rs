//! What a program and its worker say to each other: a line of JSON each, over a socket in a folder that only their user can enter.
//!
//! A program never gets the worker's API key or the token of its task. It asks the worker, which holds the lease.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use wire::limits::PAYLOAD_BYTES_MAX;
use wire::{ErrorCategory, Json};

/// The environment variable with the path of the socket.
pub(crate) const SOCKET_VARIABLE: &str = "TENURE_SOCKET";
/// The longest line: the largest payload, with a subject, names and a message beside it.
const LINE_BYTES_MAX: u64 = PAYLOAD_BYTES_MAX as u64 + 64 * 1024;

/// What a program asks its worker to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Asked {
    Step { name: String, tries: u32, pause_ms: u64 },
    Sleep { name: Option<String>, ms: u64 },
    WaitFor { signal: String, within_ms: Option<u64> },
    Ask(Box<Question>),
    Child(Box<Child>),
    Effect(Box<Declared>),
    Spend(Used),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) name: String,
    pub(crate) subject: Option<String>,
    pub(crate) content: Option<Json>,
    pub(crate) quorum: u32,
    pub(crate) roles: Vec<String>,
    pub(crate) within_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Child {
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) name: Option<String>,
    pub(crate) input: Json,
    pub(crate) is_detached: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Declared {
    pub(crate) endpoint: String,
    pub(crate) r#type: String,
    pub(crate) name: Option<String>,
    pub(crate) body: Json,
    pub(crate) aggregate: Option<String>,
    pub(crate) is_awaited: bool,
}

/// What was used of the run's budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Used {
    pub(crate) tokens: u64,
    pub(crate) tool_calls: u64,
    pub(crate) cost_micros: u64,
}

/// What the worker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Told {
    /// The step is not recorded: execute its command, and say what came of it.
    Execute {
        idempotency_key: String,
        number: u32,
    },
    Done(Done),
}

/// What becomes of a command inside a program: what it prints and how it exits.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) value: Option<Json>,
    pub(crate) exit: u8,
    pub(crate) note: Option<String>,
}

/// What came of the command of a step.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Came {
    Output(Option<Json>),
    Failed { exit: u8, category: ErrorCategory, message: String },
}

/// One end of a conversation.
#[derive(Debug)]
pub(crate) struct Line(BufReader<UnixStream>);

impl Line {
    pub(crate) fn new(stream: UnixStream) -> Line {
        Line(BufReader::new(stream))
    }

    pub(crate) async fn say<T: Serialize>(&mut self, said: &T) -> io::Result<()> {
        let mut text = serde_json::to_vec(said)?;
        // Values that programs printed are kept as they are, and may be written over several lines. Within a text JSON has no
        // line break, so one that is found is a space.
        text.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        text.push(b'\n');
        self.0.get_mut().write_all(&text).await
    }

    /// Completes when the other end is gone. What it says meanwhile stays to be heard.
    pub(crate) async fn gone(&mut self) {
        if let Ok([_, ..]) = self.0.fill_buf().await {
            std::future::pending().await
        }
    }

    /// The next line. The end of the conversation is an error.
    pub(crate) async fn hear<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut text = Vec::new();
        (&mut self.0).take(LINE_BYTES_MAX).read_until(b'\n', &mut text).await?;
        if text.last() != Some(&b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_value_of_several_lines_is_one_line_here() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut here, mut there) = (Line::new(here), Line::new(there));
        let printed = Json::from_text("{\n  \"text\": \"a\\nb\"\n}".to_owned()).unwrap();
        here.say(&Came::Output(Some(printed))).await.unwrap();
        here.say(&Came::Output(None)).await.unwrap();
        let Came::Output(Some(heard)) = there.hear().await.unwrap() else { panic!("no output") };
        let heard: serde_json::Value = serde_json::from_str(heard.text()).unwrap();
        assert_eq!(heard, serde_json::json!({"text": "a\nb"}));
        assert!(matches!(there.hear().await.unwrap(), Came::Output(None)));
    }
}
