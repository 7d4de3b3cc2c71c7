//! JSON-RPC 2.0, as far as the Model Context Protocol uses it: one message at a time, no batches.
//!
//! What a caller passes on to a run keeps its bytes: parameters stay text until a tool reads them.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What the caller sent.
#[derive(Debug)]
pub(super) enum Message {
    Request(Request),
    Notification(Request<()>),
    /// This server asks nothing, so an answer is for no request.
    Response,
}

#[derive(Debug)]
pub(super) struct Request<I = Id> {
    pub(super) id: I,
    pub(super) method: String,
    params: Option<Box<RawValue>>,
}

impl<I> Request<I> {
    pub(super) fn params(&self) -> &str {
        self.params.as_ref().map_or("{}", |params| params.get())
    }
}

/// A string or an integer, which its answer repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Id(Value);

impl Id {
    fn of(value: Value) -> Option<Id> {
        let is_integer = value.is_i64() || value.is_u64();
        (value.is_string() || is_integer).then_some(Id(value))
    }

    /// Its JSON text: the number 1 and the string "1" are two ids.
    pub(super) fn text(&self) -> String {
        self.0.to_string()
    }
}

/// Why a message or a request is refused, before any tool has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    code: i32,
    message: String,
    next: &'static str,
}

impl Fault {
    pub(super) fn parse_error(message: impl Into<String>) -> Fault {
        let next = "send one JSON-RPC 2.0 message, in UTF-8";
        Fault { code: -32700, message: message.into(), next }
    }

    pub(super) fn invalid_request(message: impl Into<String>, next: &'static str) -> Fault {
        Fault { code: -32600, message: message.into(), next }
    }

    pub(super) fn unknown_method(method: &str) -> Fault {
        let next = "this server offers initialize, ping, tools/list and tools/call";
        Fault { code: -32601, message: format!("there is no method `{}`", brief(method)), next }
    }

    pub(super) fn invalid_params(message: impl Into<String>, next: &'static str) -> Fault {
        Fault { code: -32602, message: message.into(), next }
    }

    pub(super) fn internal() -> Fault {
        let next = "tell the maintainers of Tenure what was called; the standard error has more";
        Fault {
            code: -32603,
            message: "the call failed by a defect of this program".to_owned(),
            next,
        }
    }

    /// In the range that JSON-RPC leaves to servers.
    pub(super) fn busy() -> Fault {
        let message = format!("{} calls are under way", super::CALLS_MAX);
        Fault { code: -32000, message, next: "wait for one of them to end, and call again" }
    }

    pub(super) fn too_large() -> Fault {
        let message = format!("the message is larger than {} bytes", super::MESSAGE_BYTES_MAX);
        Fault::invalid_request(
            message,
            "store the data elsewhere, and send a reference to it as the input",
        )
    }

    /// The fault as the answer to a request, or to a message whose id could not be read.
    pub(super) fn reply(&self, id: Option<&Id>) -> String {
        self.reply_to(&id.map_or_else(|| "null".to_owned(), Id::text))
    }

    /// The same with the JSON text of the id.
    pub(super) fn reply_to(&self, id: &str) -> String {
        let Fault { code, message, next } = self;
        let error = json!({"code": code, "message": message, "data": {"next": next}});
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
    }
}

/// The answer to a request; the result is JSON already.
pub(super) fn reply(id: &Id, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.text())
}

/// A message that cannot be answered as what it is.
#[derive(Debug)]
pub(super) struct Rejected {
    id: Option<Id>,
    fault: Fault,
}

impl Rejected {
    pub(super) fn reply(&self) -> String {
        self.fault.reply(self.id.as_ref())
    }
}

impl From<Fault> for Rejected {
    fn from(fault: Fault) -> Rejected {
        Rejected { id: None, fault }
    }
}

/// Members of any type, so that a message with a wrong one is answered under its id.
#[derive(Deserialize)]
struct Envelope {
    jsonrpc: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<Value>,
    params: Option<Box<RawValue>>,
    result: Option<Value>,
    error: Option<Value>,
}

/// Tells null, which is no id, from an absent member.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

pub(super) fn read(bytes: &[u8]) -> Result<Message, Rejected> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| Fault::parse_error("the message is not UTF-8"))?;
    match text.trim_start().as_bytes().first() {
        Some(b'[') => return Err(batch().into()),
        Some(b'{') => {}
        _ => return Err(Fault::parse_error("the message is not a JSON object").into()),
    }
    let envelope: Envelope = serde_json::from_str(text).map_err(|error| {
        Fault::parse_error(format!("the message is not valid JSON: {}", without_place(&error)))
    })?;
    message_of(envelope)
}

fn batch() -> Fault {
    let message = "the message is a batch, which the protocol does not have since 2025-06-18";
    Fault::invalid_request(message, "send each message alone")
}

fn message_of(envelope: Envelope) -> Result<Message, Rejected> {
    let Envelope { jsonrpc, id, method, params, result, error } = envelope;
    let has_id = id.is_some();
    let id = id.and_then(Id::of);
    let refuse = |id: Option<Id>, what: &str| {
        let next = "send a JSON-RPC 2.0 request with `jsonrpc`, `id` and `method`";
        Err(Rejected { id, fault: Fault::invalid_request(what, next) })
    };
    if jsonrpc != Some(Value::from("2.0")) {
        return refuse(id, "`jsonrpc` is not \"2.0\"");
    }
    if method.is_none() && (result.is_some() || error.is_some()) {
        return Ok(Message::Response);
    }
    let Some(Value::String(method)) = method else {
        return refuse(id, "`method` is not a string");
    };
    match (id, has_id) {
        (Some(id), _) => Ok(Message::Request(Request { id, method, params })),
        (None, false) => Ok(Message::Notification(Request { id: (), method, params })),
        (None, true) => refuse(None, "`id` is neither a string nor an integer"),
    }
}

/// Lines and columns of a message mean nothing to its sender.
pub(super) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what).to_owned()
}

/// Of a name that a caller made up.
pub(super) fn brief(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> (Value, i64) {
        let rejected = read(text.as_bytes()).unwrap_err();
        let reply: Value = serde_json::from_str(&rejected.reply()).unwrap();
        assert!(reply["error"]["data"]["next"].is_string(), "{reply}");
        (reply["id"].clone(), reply["error"]["code"].as_i64().unwrap())
    }

    #[test]
    fn what_is_no_request_is_refused_under_its_id() {
        assert_eq!(code("{"), (Value::Null, -32700));
        assert_eq!(code("7"), (Value::Null, -32700));
        assert_eq!(code(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#), (Value::Null, -32600));
        assert_eq!(code(r#"{"id":1,"method":"ping"}"#), (json!(1), -32600));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":"a","method":7}"#), (json!("a"), -32600));
        for id in ["null", "1.5", "{}", "true"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(code(&text), (Value::Null, -32600), "{id}");
        }
        assert!(read(b"\"\xff\"").is_err());
    }

    #[test]
    fn requests_notifications_and_responses_are_told_apart() {
        let message = |text: &str| read(text.as_bytes()).unwrap();
        let Message::Request(asked) =
            message(r#"{"jsonrpc":"2.0","id":"x","method":"m","params":{"b": 1.0}}"#)
        else {
            panic!("a request");
        };
        assert_eq!((asked.id.text().as_str(), asked.params()), ("\"x\"", r#"{"b": 1.0}"#));
        assert_eq!(reply(&asked.id, "{}"), r#"{"jsonrpc":"2.0","id":"x","result":{}}"#);
        let noted = message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert!(matches!(noted, Message::Notification(note) if note.params() == "{}"));
        let answered = message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert!(matches!(answered, Message::Response));
    }
}
