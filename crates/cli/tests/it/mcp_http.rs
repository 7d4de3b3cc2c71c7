//! `tenure mcp --listen`: the same over HTTP, where every caller acts with the key that it sends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::home::{Home, Process};
use crate::mcp::{key, refusal};

/// Longer than any answer takes that waits for nothing.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The server's limit on a message.
const MESSAGE_MAX: usize = 1024 * 1024;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

struct Gateway {
    _process: Process,
    address: String,
}

impl Gateway {
    fn start(home: &Home) -> Gateway {
        let flags = ["mcp", "--json", "--listen", "127.0.0.1:0", "--allow-origin", "app://agent"];
        let mut process = Process::start(home.tenure(&flags));
        let serving = process.line();
        assert_eq!(serving["server"], home.profile_url().as_str());
        let url = serving["url"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
        Gateway { _process: process, address }
    }

    /// The status and the body of one answer; the connection ends with it.
    fn ask(&self, method: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let more: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "{method} /mcp HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n{more}\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn post(&self, key: &str, body: &str) -> (u16, Value) {
        self.ask("POST", &headers(&format!("Bearer {key}"), &[]), body)
    }

    fn call(&self, key: &str, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let (status, answer) = self.post(key, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        answer["result"].clone()
    }
}

fn headers<'a>(authorization: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let usual = [
        ("authorization", authorization),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    usual.iter().chain(more).copied().collect()
}

#[test]
fn every_caller_acts_with_its_own_key() {
    let home = Home::new();
    let _server = home.serve();
    let gateway = Gateway::start(&home);
    let (client, reader) = (key(&home, &["client"]), key(&home, &["reader"]));
    let hello = json!({"protocolVersion": "2099-01-01", "capabilities": {}, "clientInfo": {}});
    let hello = json!({"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": hello});
    let (status, greeted) = gateway.post(&client, &hello.to_string());
    assert_eq!((status, &greeted["result"]["protocolVersion"]), (200, &json!("2025-11-25")));
    let listed = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let tools = gateway.post(&client, listed).1["result"]["tools"].clone();
    assert!(tools.to_string().contains("\"submit_run\""), "{tools}");

    let _worker = Process::start(home.tenure(&["work", "--json", "--queue", "q", "--exec", "cat"]));
    let wanted = json!({"kind": "k", "queue": "q", "input": [1], "waitMs": 30_000});
    let submitted = gateway.call(&client, "submit_run", &wanted);
    let run = &submitted["structuredContent"];
    assert_eq!((&run["state"], &run["run"]["output"]), (&json!("succeeded"), &json!([1])));
    // The key of the process, in the profile, may submit; it is lent to no caller.
    assert_eq!(refusal(&gateway.call(&reader, "submit_run", &wanted)), "forbidden");
    let read = gateway.call(&reader, "get_run", &json!({"runId": run["runId"]}));
    assert_eq!(read["structuredContent"]["state"], "succeeded");
    assert_eq!(refusal(&gateway.call("tnr_0_0", "list_runs", &json!({}))), "unauthenticated");
    let submitter = home.json(&["runs", "list", "--json"]);
    assert_eq!(submitter.as_array().unwrap().len(), 1, "{submitter}");
}

#[test]
fn calls_without_a_key_or_from_a_page_are_refused() {
    let home = Home::new();
    let _server = home.serve();
    let gateway = Gateway::start(&home);
    let client = format!("Bearer {}", key(&home, &["client"]));
    let status = |headers: &[(&str, &str)]| {
        let (status, answer) = gateway.ask("POST", headers, PING);
        assert!(status == 200 || answer["error"]["data"]["next"].is_string(), "{answer}");
        status
    };
    assert_eq!(status(&headers(&client, &[])), 200);
    for none in ["Basic YWRtaW46", "Bearer ", "Bearer \u{e9}"] {
        assert_eq!(status(&headers(none, &[])), 401, "{none}");
    }
    assert_eq!(status(&[("content-type", "application/json")]), 401);
    let address = format!("http://{}", gateway.address);
    for origin in ["https://evil.example", "null", "http://localhost", &address] {
        assert_eq!(status(&headers(&client, &[("origin", origin)])), 403, "{origin}");
    }
    let both = [("origin", "app://agent"), ("origin", "https://evil.example")];
    assert_eq!(status(&headers(&client, &both)), 403);
    assert_eq!(status(&headers(&client, &both[..1])), 200);
    assert_eq!(gateway.ask("GET", &[("origin", "https://evil.example")], "").0, 403);
}

#[test]
fn what_the_transport_does_not_carry_is_refused() {
    let home = Home::new();
    let _server = home.serve();
    let gateway = Gateway::start(&home);
    let client = key(&home, &["client"]);
    let bearer = format!("Bearer {client}");
    assert_eq!(gateway.post(&client, "{not json").0, 400);
    let (status, batch) = gateway.post(&client, &format!("[{PING}]"));
    assert_eq!((status, &batch["error"]["code"]), (400, &json!(-32600)));
    assert_eq!(
        gateway.post(&client, r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#).1["error"]["code"],
        -32601
    );
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(gateway.post(&client, note), (202, Value::Null));
    // One byte too much, so that the whole body is read before the answer.
    let huge = format!("{PING}{}", " ".repeat(MESSAGE_MAX + 1 - PING.len()));
    assert_eq!(gateway.post(&client, &huge).0, 413);
    assert_eq!(gateway.post(&client, &huge[..MESSAGE_MAX]).0, 200);
    for method in ["GET", "DELETE"] {
        assert_eq!(gateway.ask(method, &headers(&bearer, &[]), "").0, 405, "{method}");
    }
    let with = |name, value| gateway.ask("POST", &headers(&bearer, &[(name, value)]), PING).0;
    assert_eq!(with("mcp-protocol-version", "2025-06-18"), 200);
    assert_eq!(with("mcp-protocol-version", "1999-01-01"), 400);
    let plain = [("authorization", bearer.as_str()), ("content-type", "text/plain")];
    assert_eq!(gateway.ask("POST", &plain, PING).0, 415);
    let stream_only =
        [&plain[..1], &[("content-type", "application/json"), ("accept", "text/html")]];
    assert_eq!(gateway.ask("POST", &stream_only.concat(), PING).0, 406);
}

#[test]
fn it_listens_on_loopback_unless_an_operator_insists() {
    let home = Home::new();
    home.run(&["mcp", "--listen", "0.0.0.0:0"]).assert_error(
        2,
        "not_loopback",
        "beyond loopback",
        "--insecure-plaintext",
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    home.run(&["mcp", "--listen", &address]).assert_error(4, "port_taken", "in use", "--listen");
}
