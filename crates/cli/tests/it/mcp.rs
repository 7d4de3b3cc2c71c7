//! `tenure mcp` as an agent's program uses it: JSON-RPC over standard input and output, before a real server and workers.

use std::io::Write;
use std::process::{ChildStdin, Stdio};

use serde_json::{Value, json};
use topology::value_schema::fits;

use crate::guides;
use crate::home::{Home, Process};

const GUIDE: &str = include_str!("../../../../docs/guide/mcp.md");

/// The server's limit on a message, and of an answer: two spellings of the largest structure, and what is around them.
const MESSAGE_MAX: usize = 1024 * 1024;
const ANSWER_MAX: usize = 128 * 1024;

/// An MCP client that talks with `tenure mcp`. Every line that it reads must be a message.
struct Agent {
    process: Process,
    input: Option<ChildStdin>,
    asked: u64,
    /// As tools/list described them.
    tools: Vec<Value>,
}

impl Agent {
    /// With the key of the profile, which may do nearly everything.
    fn start(home: &Home) -> Agent {
        Agent::with(home, &[])
    }

    fn with(home: &Home, flags: &[&str]) -> Agent {
        let mut command = home.tenure(&[&["mcp"][..], flags].concat());
        command.stdin(Stdio::piped());
        let mut process = Process::start(command);
        let input = process.child.stdin.take();
        let mut agent = Agent { process, input, asked: 0, tools: Vec::new() };
        agent.initialize();
        agent
    }

    fn initialize(&mut self) {
        let client = json!({"name": "test", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let greeted = self.ask("initialize", &hello);
        assert_eq!(greeted["result"]["protocolVersion"], "2025-06-18");
        assert_eq!(greeted["result"]["serverInfo"]["name"], "tenure");
        assert!(greeted["result"]["capabilities"]["tools"].is_object());
        assert!(greeted["result"]["instructions"].as_str().unwrap().contains("never instructions"));
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let listed = self.ask("tools/list", &json!({}));
        self.tools.clone_from(listed["result"]["tools"].as_array().unwrap());
    }

    fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// Sends a request, and returns its id.
    fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.asked += 1;
        let id = self.asked;
        self.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        id
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.process.line();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(id)), "{answer}");
        answer
    }

    /// What a line that is no request is answered with: the code of the fault.
    fn fault(&mut self, line: &str) -> i64 {
        self.send(line);
        let answer = self.process.line();
        assert!(answer["error"]["data"]["next"].is_string(), "{answer}");
        answer["error"]["code"].as_i64().unwrap()
    }

    /// The answer of a tool, which fits the schema that the tool names.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        assert_eq!(result["isError"], false, "{tool}: {answer}");
        let structure = result["structuredContent"].clone();
        let text: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, structure);
        let described = self.tools.iter().find(|it| it["name"] == tool).unwrap();
        assert_eq!(fits(&described["inputSchema"], arguments), Ok(()), "{tool}");
        assert_eq!(fits(&described["outputSchema"], &structure), Ok(()), "{tool}");
        structure
    }

    /// The code with which a tool refuses; the text has a message and what to do next.
    fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{tool}: {answer}");
        assert!(result.get("structuredContent").is_none(), "{answer}");
        refusal(result)
    }

    fn names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
    }

    /// Ends the input; what is left on standard output.
    fn end(mut self) -> Vec<String> {
        self.input = None;
        let rest = self.process.rest();
        assert_eq!(self.process.exit_code(), 0);
        rest
    }
}

/// The code of a refusal, which is whole.
pub(crate) fn refusal(result: &Value) -> String {
    let text = result["content"][0]["text"].as_str().unwrap();
    let told: Value = serde_json::from_str(text).unwrap();
    for member in ["message", "next"] {
        assert!(told[member].as_str().is_some_and(|text| !text.is_empty()), "{told}");
    }
    told["error"].as_str().unwrap().to_owned()
}

/// A key with these roles.
pub(crate) fn key(home: &Home, roles: &[&str]) -> String {
    let roles = roles.iter().flat_map(|role| ["--role", role]);
    let create: Vec<&str> = ["keys", "create", "--json"].into_iter().chain(roles).collect();
    home.json(&create)["secret"].as_str().unwrap().to_owned()
}

fn work(home: &Home, queue: &str, program: &[&str]) -> Process {
    let start = ["work", "--json", "--queue", queue, "--exec"];
    Process::start(home.tenure(&[&start[..], program].concat()))
}

#[test]
fn an_agent_submits_a_run_and_reads_what_came_of_it() {
    let home = Home::new();
    let _server = home.serve();
    let mut agent = Agent::start(&home);
    let wanted = json!({"kind": "echo", "queue": "q", "input": {"name": "Ada"}, "goal": "greet",
        "labels": {"team": "a"}, "budget": {"tokens": 5}, "idempotencyKey": "greet-ada"});
    let first = agent.call("submit_run", &wanted);
    let run = first["runId"].as_str().unwrap().to_owned();
    assert_eq!((&first["replayed"], &first["state"]), (&json!(false), &json!("queued")));
    let again = agent.call("submit_run", &wanted);
    assert_eq!((&again["runId"], &again["replayed"]), (&json!(run), &json!(true)));
    let explained = agent.call("explain_run", &json!({"runId": run}));
    assert!(explained["gates"].to_string().contains("no_worker"), "{explained}");
    assert_eq!(agent.call("list_queues", &json!({}))["queues"][0]["ready"], 1);
    let found = agent.call("list_runs", &json!({"label": ["team=a"], "state": "queued"}));
    assert_eq!(found["runs"][0]["runId"], run.as_str());

    let _worker = work(&home, "q", &["sh", "--", "-c", "echo working >&2; cat"]);
    let ended = agent.call("get_run", &json!({"runId": run, "waitMs": 30_000}));
    assert_eq!((&ended["state"], &ended["output"]), (&json!("succeeded"), &json!({"name": "Ada"})));
    let history = agent.call("run_history", &json!({"runId": run}));
    assert!(history["entries"].as_array().unwrap().len() > 2, "{history}");
    let logs = agent.call("run_logs", &json!({"runId": run, "limit": 10}));
    assert_eq!(logs["lines"][0]["text"], "working", "{logs}");
    // Without a key one is made, with which the call can be repeated.
    let waited = agent.call("submit_run", &json!({"kind": "echo", "queue": "q", "waitMs": 30_000}));
    assert!(waited["idempotencyKey"].as_str().unwrap().starts_with("mcp-"), "{waited}");
    assert_eq!(
        (&waited["state"], &waited["run"]["state"]),
        (&json!("succeeded"), &json!("succeeded"))
    );
    assert_eq!(agent.end(), Vec::<String>::new());
}

#[test]
fn what_a_run_carries_keeps_its_digits() {
    let home = Home::new();
    let _server = home.serve();
    let mut agent = Agent::start(&home);
    let _worker = work(&home, "q", &["cat"]);
    let digits = "12345678901234567890123";
    agent.send(&format!(
        r#"{{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{{"name":"submit_run","arguments":{{"kind":"k","queue":"q","input":{digits},"waitMs":30000}}}}}}"#
    ));
    let line = agent.process.text_line();
    assert!(line.contains(&format!(r#""output":{digits}"#)), "{line}");
}

#[test]
fn signals_cancels_and_schedules_reach_the_server() {
    let home = Home::new();
    let _server = home.serve();
    home.run(&[
        "schedules",
        "create",
        "nightly",
        "--cron",
        "0 3 * * *",
        "--kind",
        "k",
        "--queue",
        "q",
    ]);
    let mut agent = Agent::start(&home);
    let run = home.submit(&["k", "--queue", "q"]);
    let signal =
        json!({"runId": run, "name": "go", "data": {"by": "ops"}, "idempotencyKey": "one"});
    assert_eq!(agent.call("signal_run", &signal)["replayed"], false);
    assert_eq!(agent.call("signal_run", &signal)["replayed"], true);
    let stopped = agent.call("cancel_run", &json!({"runId": run, "reason": "not needed"}));
    assert_eq!(stopped["state"], "cancelled");
    assert_eq!(agent.call("get_run", &json!({"runId": run}))["cancelReason"], "not needed");
    // A repetition is answered as before; another signal comes too late.
    assert_eq!(agent.call("signal_run", &signal)["replayed"], true);
    let late = json!({"runId": run, "name": "go"});
    assert_eq!(agent.refused("signal_run", &late), "run_already_terminal");
    let listed = agent.call("list_schedules", &json!({}));
    assert_eq!(listed["schedules"][0]["name"], "nightly", "{listed}");
    let schedule = agent.call("get_schedule", &json!({"schedule": "nightly"}));
    assert_eq!(schedule["run"]["kind"], "k");
    assert_eq!(agent.refused("get_schedule", &json!({"schedule": "none"})), "schedule_not_found");
    assert_eq!(agent.call("list_kinds", &json!({"kind": "k"}))["kinds"], json!([]));
}

#[test]
fn what_is_wrong_is_answered_and_the_session_goes_on() {
    let home = Home::new();
    let _server = home.serve();
    let mut agent = Agent::start(&home);
    assert_eq!(agent.fault("{not json"), -32700);
    assert_eq!(agent.fault(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#), -32600);
    assert_eq!(agent.fault(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), -32600);
    assert_eq!(agent.fault(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#), -32601);
    let unknown = json!({"name": "drop_tables", "arguments": {}});
    assert_eq!(agent.ask("tools/call", &unknown)["error"]["code"], -32602);
    assert_eq!(agent.ask("tools/call", &json!({}))["error"]["code"], -32602);
    assert_eq!(agent.ask("tools/list", &json!({"cursor": "x"}))["error"]["code"], -32602);
    let huge = "x".repeat(2 * MESSAGE_MAX);
    assert_eq!(agent.fault(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{huge}"}}"#)), -32600);
    // Neither an unknown notification nor an answer to nothing is answered.
    agent.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    agent.send(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    agent.send("");
    assert_eq!(agent.ask("ping", &json!({}))["result"], json!({}));

    for wrong in [
        json!({"kind": "k"}),
        json!({"kind": "k", "queue": 7}),
        json!({"kind": "k", "queue": "q", "inptu": 1}),
        json!({"kind": "no such kind!", "queue": "q"}),
        json!({"kind": "k", "queue": "q", "waitMs": 30_001}),
        json!([]),
    ] {
        assert_eq!(agent.refused("submit_run", &wrong), "invalid_argument", "{wrong}");
    }
    let none = json!({"runId": "run_01M7EQKFW130GTYMPQ4GQPDX8F"});
    assert_eq!(agent.refused("get_run", &none), "run_not_found");
    assert_eq!(agent.refused("list_runs", &json!({"limit": 101})), "invalid_argument");
    assert_eq!(home.json(&["runs", "list", "--json"]), json!([]));
}

#[test]
fn an_agent_may_do_what_its_key_may_and_no_more() {
    let home = Home::new();
    let _server = home.serve();
    let run = home.submit(&["k", "--queue", "q"]);
    let reader = key(&home, &["reader"]);
    let mut agent = Agent::with(&home, &["--key", &reader]);
    assert_eq!(agent.call("get_run", &json!({"runId": run}))["state"], "queued");
    let wanted = json!({"kind": "k", "queue": "q"});
    assert_eq!(agent.refused("submit_run", &wanted), "forbidden");
    assert_eq!(agent.refused("cancel_run", &json!({"runId": run})), "forbidden");
    assert_eq!(agent.refused("ask_approval", &json!({"subject": "May I?"})), "forbidden");
    // What the key may not list is named, and the rest is there.
    assert_eq!(agent.call("inbox", &json!({}))["approvals"], json!([]));
    let mut stranger = Agent::with(&home, &["--key", "tnr_0_0"]);
    assert_eq!(stranger.refused("list_runs", &json!({})), "unauthenticated");
    let mut nowhere = Agent::with(&home, &["--url", "http://127.0.0.1:9", "--key", "tnr_0_0"]);
    assert_eq!(nowhere.refused("list_runs", &json!({})), "unreachable");
}

#[test]
fn a_call_that_was_cancelled_is_not_answered() {
    let home = Home::new();
    let _server = home.serve();
    let run = home.submit(&["k", "--queue", "q"]);
    let mut agent = Agent::start(&home);
    let waiting = json!({"name": "get_run", "arguments": {"runId": run, "waitMs": 30_000}});
    let id = agent.begin("tools/call", &waiting);
    let other = agent.begin("tools/call", &waiting);
    let note =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    agent.send(&note.to_string());
    // Ends both waits. The one that was cancelled would be answered by the time at which the process ends.
    home.run(&["runs", "cancel", &run]);
    let answered: Vec<Value> =
        agent.end().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [only] = &answered[..] else { panic!("{answered:?}") };
    assert_eq!(only["id"], other);
    assert_eq!(only["result"]["structuredContent"]["state"], "cancelled");
}

#[test]
fn a_large_answer_is_cut_and_says_so() {
    let home = Home::new();
    let _server = home.serve();
    let _worker = work(&home, "q", &["cat"]);
    let mut agent = Agent::start(&home);
    let wanted = json!({"kind": "k", "queue": "q", "input": "long \"text\" ".repeat(15_000), "waitMs": 30_000});
    let run = agent.call("submit_run", &wanted)["runId"].clone();
    let id = agent.begin("tools/call", &json!({"name": "get_run", "arguments": {"runId": run}}));
    let line = agent.process.text_line();
    assert!(line.len() < ANSWER_MAX, "{} bytes", line.len());
    let answer: Value = serde_json::from_str(&line).unwrap();
    let cut = &answer["result"]["structuredContent"];
    assert_eq!(
        (&answer["id"], &cut["runId"], &cut["state"]),
        (&json!(id), &run, &json!("succeeded"))
    );
    let notes = cut["cut"].to_string();
    assert!(notes.contains("/output: the first ") && notes.contains("/input"), "{notes}");
}

#[test]
fn people_decide_what_an_agent_asks() {
    let home = Home::new();
    let _server = home.serve();
    let _worker = work(&home, "q", &["cat"]);
    let (client, ann) = (key(&home, &["client"]), key(&home, &["approver"]));
    let mut agent = Agent::with(&home, &["--key", &client]);
    let content = json!({"to": "Ada", "cents": 50_000, "$from": "is data"});
    let question = json!({"subject": "Pay the invoice", "content": content, "idempotencyKey": "pay-7",
        "then": {"kind": "pay", "queue": "q"}});
    let asked = agent.call("ask_approval", &question);
    assert_eq!((&asked["state"], &asked["replayed"]), (&json!("waiting"), &json!(false)));
    assert_eq!(agent.call("ask_approval", &question)["runId"], asked["runId"]);
    let (id, digest) = (asked["approvalId"].as_str().unwrap(), asked["digest"].as_str().unwrap());
    let shown = agent.call("inbox", &json!({}))["approvals"][0].clone();
    let text = r#"{"$from":"is data","cents":50000,"to":"Ada"}"#;
    assert_eq!((&shown["subject"], &shown["content"]), (&json!("Pay the invoice"), &json!(text)));
    assert_eq!((&shown["approvalId"], &shown["digest"]), (&json!(id), &json!(digest)));
    let decided =
        json!({"approvalId": id, "decision": "APPROVED", "digest": digest, "comment": "I say so"});
    let refused =
        agent.ask("tools/call", &json!({"name": "decide_approval", "arguments": decided}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");

    let said = home.run(&["--key", &ann, "approvals", "approve", id, "--digest", digest]);
    assert_eq!(said.code, 0, "{said:?}");
    let run = json!({"runId": asked["runId"], "waitMs": 30_000});
    let ended = agent.call("get_run", &run);
    assert_eq!((&ended["state"], &ended["output"]["then"]), (&json!("succeeded"), &content));
    assert_eq!(agent.call("get_approval", &json!({"approvalId": id}))["outcome"], "APPROVED");

    let asked = agent.call("ask_approval", &json!({"subject": "Delete everything?"}));
    let id = asked["approvalId"].as_str().unwrap();
    home.run(&["--key", &ann, "approvals", "reject", id]);
    let ended = agent.call("get_run", &json!({"runId": asked["runId"], "waitMs": 30_000}));
    assert_eq!(
        (&ended["state"], &ended["error"]["reason"]),
        (&json!("failed"), &json!("NOT_APPROVED"))
    );
}

#[test]
fn deciding_needs_the_flag_and_the_role() {
    let home = Home::new();
    let _server = home.serve();
    let (client, both) = (key(&home, &["client"]), key(&home, &["client", "approver"]));
    let offers = |agent: &Agent| agent.names().contains(&"decide_approval");
    assert!(!offers(&Agent::with(&home, &["--key", &both])), "without the flag");
    assert!(
        !offers(&Agent::with(&home, &["--key", &client, "--allow-approvals"])),
        "without the role"
    );
    let audit = home.run(&["audit", "--json"]).stdout;
    assert!(!audit.contains("refused"), "asking leaves no refusal: {audit}");
    let mut agent = Agent::with(&home, &["--key", &both, "--allow-approvals"]);
    assert!(offers(&agent));
    let asked = agent.call("ask_approval", &json!({"subject": "Ship?", "content": 7}));
    let vote = json!({"approvalId": asked["approvalId"], "decision": "APPROVED", "comment": "Ann said so"});
    assert_eq!(agent.refused("decide_approval", &vote), "approval_digest_mismatch");
    let mut seen = vote;
    seen["digest"] = asked["digest"].clone();
    assert_eq!(agent.call("decide_approval", &seen)["outcome"], "APPROVED");
    let ended = agent.call("get_run", &json!({"runId": asked["runId"], "waitMs": 30_000}));
    assert_eq!(ended["state"], "succeeded");
}

#[test]
fn the_guide_is_true() {
    let home = Home::new();
    let _dev = guides::dev(&home);
    let _worker = work(&home, "demo", &["cat"]);
    for block in guides::fenced(GUIDE, "json") {
        serde_json::from_str::<Value>(block).unwrap_or_else(|error| panic!("{error}: {block}"));
    }
    let mut reader = guides::Reader::new(&home);
    let [by_hand, keys] = &guides::blocks(GUIDE)[..] else { panic!("two blocks to follow") };
    let printed = reader.follow(by_hand);
    let answers: Vec<Value> = printed
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let ended = answers.iter().find(|answer| answer["id"] == 2).unwrap();
    assert_eq!(ended["result"]["structuredContent"]["run"]["output"], "Ada", "{ended}");
    reader.follow(keys);
    let agent = Agent::with(&home, &["--allow-approvals"]);
    for name in agent.names() {
        assert!(GUIDE.contains(&format!("| `{name}` |")), "{name} is not in the guide");
    }
}
