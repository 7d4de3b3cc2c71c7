//! A server with a collector sends it the spans of a run: real bytes over loopback.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::{Value, json};

use crate::home::{Home, Process, wait_until};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SUBMITTER: &str = "b7ad6b7169203331";

/// A collector that accepts everything.
struct Collector {
    endpoint: String,
    requests: Receiver<ExportTraceServiceRequest>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (tell, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let tell = tell.clone();
                std::thread::spawn(move || collect(stream, &tell));
            }
        });
        Collector { endpoint, requests }
    }

    /// Waits for `count` spans and returns them.
    fn spans(&self, count: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        wait_until("the spans", || {
            let resources = self.requests.try_iter().flat_map(|request| request.resource_spans);
            spans.extend(resources.flat_map(|it| it.scope_spans).flat_map(|it| it.spans));
            spans.len() >= count
        });
        spans
    }
}

/// Answers the requests of one connection until the peer closes it.
fn collect(stream: TcpStream, tell: &Sender<ExportTraceServiceRequest>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_ascii_lowercase());
        }
        assert!(head[0].starts_with("post /v1/traces "), "{head:?}");
        assert!(head.contains(&"content-type: application/x-protobuf".to_owned()), "{head:?}");
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        tell.send(ExportTraceServiceRequest::decode(&body[..]).unwrap()).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    }
}

/// Sends a plain HTTP request with additional headers.
fn ask(home: &Home, method: &str, path: &str, headers: &str, body: &Value) -> (u16, String) {
    let profile: Value = serde_json::from_slice(&std::fs::read(home.profile()).unwrap()).unwrap();
    let address = profile["url"].as_str().unwrap().strip_prefix("http://").unwrap();
    let (key, body) = (profile["apiKey"].as_str().unwrap(), body.to_string());
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

fn submit(home: &Home, headers: &str, body: &Value) -> String {
    let (status, text) = ask(home, "POST", "/v1/runs", headers, body);
    assert_eq!(status, 201, "{text}");
    let accepted: Value = serde_json::from_str(&text).unwrap();
    accepted["runId"].as_str().unwrap().to_owned()
}

fn serve(home: &Home, endpoint: &str) -> Process {
    let mut command =
        home.tenure(&["serve", "--json", "--listen", "127.0.0.1:0", "--write-profile"]);
    command.env("TENURE_OTLP_ENDPOINT", endpoint);
    let mut server = Process::start(command);
    server.line();
    server
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        Some(Any::StringValue(text)) => text,
        other => panic!("{name} is {other:?} in {span:?}"),
    }
}

#[test]
fn the_life_of_a_run_arrives_at_the_collector_as_one_trace() {
    // From the submitter's span through the queue to the attempt, the program in it, and back.
    let home = Home::new();
    let collector = Collector::start();
    let mut server = serve(&home, &collector.endpoint);
    let program = "printf '\"%s\"' \"$TRACEPARENT\"";
    let work = ["work", "--json", "--queue", "q", "--exec", "sh", "--", "-c", program];
    let _worker = Process::start(home.tenure(&work));
    let header = format!("traceparent: 00-{TRACE}-{SUBMITTER}-01\r\n");
    let run = submit(&home, &header, &json!({"kind": "k", "queue": "q", "input": 1}));
    let untraced = submit(&home, "traceparent: nonsense\r\n", &json!({"kind": "k", "queue": "q"}));
    let handed = home.ended(&run)["output"].as_str().unwrap().to_owned();
    assert_eq!(home.ended(&untraced)["state"], "succeeded", "an invalid trace refuses nothing");
    // Two runs with a wait, an attempt, a task and a run span each. They are sent while the server
    // runs.
    let spans = collector.spans(8);
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);

    let ours: BTreeMap<&str, &Span> = spans
        .iter()
        .filter(|span| hex(&span.trace_id) == TRACE)
        .map(|span| (span.name.as_str(), span))
        .collect();
    let names: Vec<&str> = ours.keys().copied().collect();
    assert_eq!(names, ["attempt k", "run k", "task k", "wait q"], "{spans:?}");
    let (whole, task, attempt) = (ours["run k"], ours["task k"], ours["attempt k"]);
    assert_eq!(hex(&whole.parent_span_id), SUBMITTER);
    assert_eq!(task.parent_span_id, whole.span_id);
    assert_eq!(attempt.parent_span_id, task.span_id);
    assert_eq!(ours["wait q"].parent_span_id, task.span_id);
    assert_eq!(text(attempt, "tenure.run.id"), run);
    assert_eq!(text(attempt, "tenure.outcome"), "SUCCEEDED");
    assert!(attempt.end_time_unix_nano >= attempt.start_time_unix_nano);
    // The program was given a separate span below the attempt, and the report carried it back.
    let [work] = &attempt.links[..] else { panic!("one link: {attempt:?}") };
    assert_eq!(handed, format!("00-{TRACE}-{}-01", hex(&work.span_id)));
    assert_ne!(work.span_id, attempt.span_id);
    let attempts = spans.iter().filter(|span| span.name == "attempt k");
    assert_eq!(attempts.count(), 2, "the other run has a trace of its own");
}

#[test]
fn a_collector_that_is_gone_costs_nothing_but_spans() {
    let home = Home::new();
    // Bound once, so that the port was free, and never listened on again.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let mut server = serve(&home, &endpoint);
    let _worker = Process::start(home.tenure(&["work", "--json", "--queue", "q", "--exec", "cat"]));
    let run = home.submit(&["k", "--queue", "q"]);
    assert_eq!(home.ended(&run)["state"], "succeeded");
    let lost = "tenure_spans_dropped_total{reason=\"collector\"} 0\n";
    wait_until("the lost spans are counted", || {
        let (_, metrics) = ask(&home, "GET", "/metrics", "", &Value::Null);
        metrics.contains("tenure_spans_dropped_total{reason=\"collector\"}")
            && !metrics.contains(lost)
    });
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}

#[test]
fn a_collector_that_never_answers_holds_nothing_up() {
    let home = Home::new();
    // The system accepts connections, but no process reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let mut server = serve(&home, &endpoint);
    let _worker = Process::start(home.tenure(&["work", "--json", "--queue", "q", "--exec", "cat"]));
    for _ in 0..3 {
        let run = home.submit(&["k", "--queue", "q"]);
        assert_eq!(home.ended(&run)["state"], "succeeded");
    }
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}

#[test]
fn an_address_that_is_none_is_refused() {
    let home = Home::new();
    home.run(&["serve", "--otlp-endpoint", "collector:4318"]).assert_error(
        2,
        "otlp_endpoint",
        "`collector:4318`",
        "http://127.0.0.1:4318",
    );
}
