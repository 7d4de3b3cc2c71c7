//! A server that may not allocate much more than it has: it refuses, or it ends and starts again. Nothing that it
//! acknowledged is lost.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::caller::Caller;
use crate::home::{Home, Process};

/// Far less than the bodies that the callers have in flight together.
const SPARE_BYTES: u64 = 4 * 1024 * 1024;
const CALLERS: usize = 64;
/// The largest input that a submission may have, less its quotes.
const INPUT_BYTES: usize = 256 * 1024 - 2;
/// Many times the memory to spare; a server that lives through it has shown that it sheds load.
const SUBMISSIONS_PER_CALLER: usize = 16;

/// Limits a running server to the address space it has now, and a little more.
fn limit_memory(server: &Process) {
    let pid = server.child.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let kib: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    let limit = kib * 1024 + SPARE_BYTES;
    let mut command = Command::new("prlimit");
    command.args([format!("--pid={pid}"), format!("--as={limit}")]);
    assert!(command.status().unwrap().success());
}

/// Submits the largest inputs until the server has nothing to say. Returns the acknowledged runs, and whether
/// anything was refused or left unanswered.
fn flood(ready: &Value, caller: usize) -> (Vec<String>, bool) {
    let input = "x".repeat(INPUT_BYTES);
    let body = format!(r#"{{"kind": "k", "queue": "q{caller}", "input": "{input}"}}"#);
    let mut acknowledged = Vec::new();
    let Ok(mut connection) = Caller::try_connect(ready) else { return (acknowledged, true) };
    for _ in 0..SUBMISSIONS_PER_CALLER {
        match connection.ask("POST", "/v1/runs", &body) {
            Ok(answer) if answer.starts_with("HTTP/1.1 201") => {
                acknowledged.push(run_id(&answer));
            }
            _ => return (acknowledged, true),
        }
    }
    (acknowledged, false)
}

fn run_id(answer: &str) -> String {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    body["runId"].as_str().unwrap().to_owned()
}

#[test]
fn f16_when_memory_runs_out_nothing_that_was_acknowledged_is_lost() {
    // C1, G4: the process may die of it; its answers may not turn out to be false.
    let home = Home::new();
    let arguments = ["serve", "--json", "--listen", "127.0.0.1:0", "--write-profile"];
    let mut serve = home.tenure(&arguments);
    // The allocator reserves address space ahead, and the limit counts that as used.
    serve.env("MIMALLOC_ARENA_RESERVE", "0");
    let mut server = Process::start(serve);
    let ready = server.line();
    let before = home.submit(&["k", "-q", "first"]);
    limit_memory(&server);
    let suffered = AtomicBool::new(false);
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let (ready, suffered) = (&ready, &suffered);
        let spawn = |caller| {
            scope.spawn(move || {
                let (acknowledged, refused) = flood(ready, caller);
                suffered.fetch_or(refused, Ordering::Relaxed);
                acknowledged
            })
        };
        let callers: Vec<_> = (0..CALLERS).map(spawn).collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    assert!(suffered.into_inner(), "{} submissions fitted into the limit", acknowledged.len());
    server.signal("KILL");
    server.exit_code();
    let mut server = home.serve();
    let kept = home.json(&["runs", "list", "--json", "--limit", "2000"]);
    let kept: BTreeSet<&str> =
        kept.as_array().unwrap().iter().map(|run| run["runId"].as_str().unwrap()).collect();
    let lost = acknowledged.iter().chain([&before]).find(|run| !kept.contains(run.as_str()));
    assert_eq!(lost, None);
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    assert_eq!(home.run(&["verify"]).code, 0);
}
