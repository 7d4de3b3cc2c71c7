//! The guides to the shipped topologies, run as written: their executors are the programs of the guides.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::guides::{self, Reader};
use crate::home::{Home, Process, wait_until};

const EXECUTION: &str = include_str!("../../../../docs/guide/topologies/execution.md");
const TASK_MANAGEMENT: &str = include_str!("../../../../docs/guide/topologies/task-management.md");
const AGENT_REVIEW: &str = include_str!("../../../../docs/guide/topologies/agent-review.md");

/// The port of the receiver in the guide.
const RECEIVER_PORT: &str = "8097";

/// A reader with a coordinator, the folder of topologies, and the programs of a guide saved and at work.
struct Desk {
    home: Home,
    reader: Reader,
    blocks: std::vec::IntoIter<String>,
    _running: Vec<Process>,
}

impl Desk {
    fn new(guide: &'static str, programs: &[(&str, &str)]) -> Desk {
        let home = Home::new();
        symlink(shipped(), home.path().join("topologies")).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let moved = |text: &str| text.replace(RECEIVER_PORT, &free.to_string());
        for (name, text) in programs {
            let file = home.path().join(name);
            std::fs::write(&file, moved(text)).unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let (dev, _) = guides::dev(&home);
        let mut running = vec![dev];
        if programs.iter().any(|(name, _)| *name == "receiver.py") {
            let mut python = Command::new("python3");
            python.arg("receiver.py").current_dir(home.path());
            running.push(Process::start(python));
            let address = ("127.0.0.1", free);
            wait_until("the receiver", || std::net::TcpStream::connect(address).is_ok());
        }
        let terminals = guides::terminals(guide);
        assert_eq!(terminals.first(), Some(&"tenure dev"), "{terminals:?}");
        for line in &terminals[1..] {
            let words: Vec<&str> = line.split_whitespace().skip(1).collect();
            running.push(Process::start(home.tenure(&words)));
        }
        let blocks: Vec<String> = guides::blocks(guide).into_iter().map(moved).collect();
        let reader = Reader::new(&home);
        Desk { home, reader, blocks: blocks.into_iter(), _running: running }
    }

    /// Follows the next block, which must print all of these.
    fn follow(&mut self, expected: &[&str]) -> String {
        let block = self.blocks.next().expect("one more block");
        let printed = self.reader.follow(&block);
        for part in expected {
            assert!(printed.contains(part), "{part} after {block}\n{printed}");
        }
        printed
    }

    /// Waits as a reader does who looks once more.
    fn until(&self, arguments: &[&str], what: &str, holds: impl Fn(&Value) -> bool) {
        wait_until(what, || holds(&self.home.json(arguments)));
    }

    fn artifact(&self, of: [&str; 3], what: &str, holds: impl Fn(&Value) -> bool) {
        let [deployment, kind, id] = of;
        self.until(&["artifacts", "show", deployment, kind, id, "--json"], what, holds);
    }

    fn pause(&self, deployment: &str, reason: &str) {
        self.until(&["inbox", "--deployment", deployment, "--json"], reason, |inbox| {
            inbox["pauseStates"].as_array().unwrap().iter().any(|it| it["reason"] == reason)
        });
    }

    fn ends(mut self) {
        assert_eq!(self.blocks.next(), None, "every block of the guide is followed");
    }
}

fn shipped() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies").canonicalize().unwrap()
}

#[test]
fn the_guide_from_a_ticket_to_a_patch_is_true() {
    // S0-57, S0-58: who approves is one line of the file.
    let program = guides::fenced(EXECUTION, "bash")[0];
    let mut desk = Desk::new(EXECUTION, &[("make-patch.sh", program)]);
    desk.follow(&[]);
    desk.follow(&["is valid", "does not exist yet", "execution is active"]);
    desk.follow(&["objective/T-1  NEW"]);
    desk.follow(&["objective/T-1  TODO"]);
    desk.artifact(["execution", "objective", "T-1"], "a patch", |it| it["passed"].is_string());
    desk.follow(&["Read the patch and confirm the ticket.", "waits to be confirmed", "+Say hello"]);
    desk.follow(&["DONE", "1 work order passed"]);
    desk.follow(&["objective/T-2  NEW"]);
    desk.pause("execution", "BLOCKED");
    desk.follow(&["Resolve what blocks the ticket", "objective/T-2  BLOCKED"]);
    desk.follow(&["objective/T-2  TODO"]);
    desk.artifact(["execution", "objective", "T-2"], "a patch", |it| it["passed"].is_string());
    desk.follow(&["role:review", "execution is active", "objective/T-3"]);
    desk.artifact(["execution", "objective", "T-3"], "a patch", |it| it["passed"].is_string());
    desk.follow(&["T-1", "T-2", "T-3", "IN_PROGRESS"]);
    desk.ends();
}

#[test]
fn the_guide_to_captures_manifests_and_deadlines_is_true() {
    let programs = guides::fenced(TASK_MANAGEMENT, "python");
    let programs = [("triage.py", programs[0]), ("manifest.py", programs[1])];
    let mut desk = Desk::new(TASK_MANAGEMENT, &programs);
    desk.follow(&["execution is active", "task-management is active"]);
    desk.follow(&["capture_buffer/milk", "capture_buffer/stamps"]);
    for id in ["milk", "bread", "stamps"] {
        let of = ["task-management", "capture_buffer", id];
        desk.artifact(of, "a triage", |it| it["status"] == "PROCESSED");
    }
    desk.follow(&["PROCESSED", "Decide whether the candidate becomes an objective."]);
    desk.follow(&["objective/T-1"]);
    desk.pause("execution", "BLOCKED");
    desk.follow(&["BLOCKED"]);
    let asked = desk.follow(&[]);
    let lines: Vec<&str> = asked.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines[0], lines[1], "the same key is the same request");
    desk.until(
        &["artifacts", "list", "task-management", "session_manifest", "--json"],
        "a manifest",
        |found| !found.as_array().unwrap().is_empty(),
    );
    desk.follow(&["WRITTEN", "Look at execution: BLOCKED."]);
    desk.follow(&["objective/taxes"]);
    desk.pause("task-management", "DEADLINE_OVERDUE");
    desk.follow(&["Work on the objective now, or lower its urgency."]);
    desk.follow(&["is closed"]);
    desk.ends();
}

#[test]
fn the_guide_to_agents_judges_and_people_is_true() {
    let shell = guides::fenced(AGENT_REVIEW, "bash");
    let receiver = guides::fenced(AGENT_REVIEW, "python")[0];
    let programs = [("agent.sh", shell[0]), ("judge.sh", shell[1]), ("receiver.py", receiver)];
    let mut desk = Desk::new(AGENT_REVIEW, &programs);
    desk.follow(&["agent-review is active", "whsec_"]);
    desk.follow(&["assignment/greeting"]);
    desk.until(&["approvals", "--json"], "a question", |it| !it.as_array().unwrap().is_empty());
    desk.follow(&["being-built", "Does the change do what was asked for?"]);
    desk.follow(&["Does the change do what was asked for?"]);
    let of = ["agent-review", "assignment", "greeting"];
    desk.artifact(of, "the end", |it| it["status"] == "accepted");
    let received = desk.home.path().join("received.txt");
    wait_until("the webhook", || {
        std::fs::read_to_string(&received).is_ok_and(|it| it.contains("run.succeeded"))
    });
    desk.follow(&["accepted", "Merge the change.", "run.succeeded"]);
    desk.follow(&["execute", "succeeded"]);
    desk.ends();
}
