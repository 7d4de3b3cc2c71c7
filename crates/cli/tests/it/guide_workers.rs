//! The two workers of the guide, in Python and for Node: real processes against a real server.
//!
//! Each test runs both, because they promise the same. A worker prints one line per task, and the tests wait for
//! lines and for states of runs, never for a time.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::home::{Home, Process};

/// The interpreters and their programs; `cargo xtask test` installs both.
const WORKERS: [(&str, &str); 2] = [("python3", "worker.py"), ("node", "worker.mjs")];

/// A server, and one of the workers that polls the queue `q`.
struct Site {
    home: Home,
    server: Process,
    worker: Process,
}

impl Site {
    fn start((interpreter, program): (&str, &str)) -> Site {
        let home = Home::new();
        let server = home.serve();
        let worker = worker(&home, interpreter, program);
        Site { home, server, worker }
    }

    fn submit(&self, kind: &str, input: &Value, more: &[&str]) -> String {
        let input = input.to_string();
        self.home.submit(&[&[kind, "--queue", "q", "--input", &input], more].concat())
    }

    /// A task that ends when the file appears, in the hands of the worker.
    fn waiting(&self, more: &[&str]) -> (String, PathBuf) {
        let file = self.home.path().join("signal");
        let run = self.submit("await-file", &json!({"path": file}), more);
        self.home.until(&run, "the start", |run| run["startedAt"].is_string());
        (run, file)
    }

    /// Like `waiting`, with a short lease, after the worker has received an answer to a heartbeat: it sends the
    /// second one only then.
    fn kept_alive(&self) -> (String, PathBuf) {
        let (run, file) = self.waiting(&["--lease-ms", "2000", "--heartbeat-ms", "500"]);
        let version = |run: &Value| run["lease"]["claimVersion"].as_u64();
        self.home.until(&run, "two heartbeats", |run| version(run) >= Some(3));
        (run, file)
    }

    /// The next line of the worker that is about a run.
    fn line_about(&mut self, run: &str) -> String {
        loop {
            let line = self.worker.text_line();
            if let Some(rest) = line.strip_prefix(run) {
                return rest.trim().to_owned();
            }
        }
    }

    /// The next line of the worker that begins like this.
    fn line_with(&mut self, begin: &str) {
        while !self.worker.text_line().starts_with(begin) {}
    }

    fn assert_stops(&mut self) {
        self.worker.signal("TERM");
        self.line_with("stopped");
        assert_eq!(self.worker.exit_code(), 0);
    }
}

fn worker(home: &Home, interpreter: &str, program: &str) -> Process {
    start(home, interpreter, &folder().join(program))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/workers")
}

fn start(home: &Home, interpreter: &str, program: &Path) -> Process {
    let profile: Value = serde_json::from_slice(&std::fs::read(home.profile()).unwrap()).unwrap();
    let mut command = Command::new(interpreter);
    command.arg(program).arg("q").current_dir(home.path());
    command.env("TENURE_URL", profile["url"].as_str().unwrap());
    command.env("TENURE_API_KEY", profile["apiKey"].as_str().unwrap());
    let mut worker = Process::start(command);
    assert!(worker.text_line().ends_with("works on q\n"));
    worker
}

#[test]
fn twenty_runs_succeed_and_the_worker_stops_when_told() {
    for language in WORKERS {
        let mut site = Site::start(language);
        let names: Vec<String> = (0..20).map(|n| format!("name {n}")).collect();
        let runs: Vec<String> =
            names.iter().map(|name| site.submit("greet", &json!({"name": name}), &[])).collect();
        for (run, name) in runs.iter().zip(&names) {
            assert_eq!(site.line_about(run), "SUCCEEDED COMMITTED", "{language:?}");
            let view = site.home.run_view(run);
            assert_eq!(view["output"]["text"], format!("Hello, {name}"), "{view}");
            assert_eq!((&view["state"], &view["attempt"]), (&"succeeded".into(), &1.into()));
        }
        // The poll that waits for more does not keep it.
        site.assert_stops();
    }
}

#[test]
fn a_failure_is_retried_and_ends_with_its_reason() {
    for language in WORKERS {
        let mut site = Site::start(language);
        let again = ["--max-attempts", "2", "--retry-base-ms", "1"];
        let run = site.submit("greet", &json!({}), &again);
        for _ in 0..2 {
            assert_eq!(site.line_about(&run), "FAILED COMMITTED", "{language:?}");
        }
        let view = site.home.ended(&run);
        assert_eq!((&view["state"], &view["failures"]), (&"failed".into(), &2.into()), "{view}");
        let error = &view["error"];
        let (message, trace) = (error["message"].as_str().unwrap(), error["stackTrace"].as_str());
        assert_eq!(error["category"], "USER_CODE", "{view}");
        assert!(message.contains("Error") && trace.unwrap().contains("greet"), "{view}");
        site.assert_stops();
    }
}

#[test]
fn a_node_handler_that_is_not_async_may_throw() {
    let text = std::fs::read_to_string(folder().join("worker.mjs")).unwrap();
    let changed = text.replace("greet: async (input) =>", "greet: (input) =>");
    assert_ne!(changed, text, "the handler is found");
    let home = Home::new();
    let server = home.serve();
    let program = home.path().join("worker.mjs");
    std::fs::write(&program, changed).unwrap();
    let worker = start(&home, "node", &program);
    let mut site = Site { home, server, worker };
    let failing = site.submit("greet", &json!({}), &["--max-attempts", "1"]);
    assert_eq!(site.line_about(&failing), "FAILED COMMITTED");
    // The worker lives and takes the next.
    let next = site.submit("greet", &json!({"name": "Ada"}), &[]);
    assert_eq!(site.line_about(&next), "SUCCEEDED COMMITTED");
    site.assert_stops();
}

#[test]
fn a_cancel_reaches_the_code_and_is_reported() {
    for language in WORKERS {
        let mut site = Site::start(language);
        let (run, _) = site.waiting(&["--lease-ms", "2000", "--heartbeat-ms", "500"]);
        assert_eq!(site.home.run(&["runs", "cancel", &run]).code, 0);
        assert_eq!(site.line_about(&run), "CANCELLED COMMITTED", "{language:?}");
        assert_eq!(site.home.ended(&run)["state"], "cancelled");
        site.assert_stops();
    }
}

#[test]
fn heartbeats_keep_a_lease_for_much_longer_than_its_length() {
    for language in WORKERS {
        let mut site = Site::start(language);
        let (run, file) = site.kept_alive();
        let expiry = |view: &Value| view["lease"]["expiresAt"].as_str().unwrap().to_owned();
        // Renewed from one expiry to the next, five times.
        for _ in 0..5 {
            let before = expiry(&site.home.run_view(&run));
            site.home.until(&run, "a renewal", |view| expiry(view) > before);
        }
        std::fs::write(file, "").unwrap();
        assert_eq!(site.line_about(&run), "SUCCEEDED COMMITTED", "{language:?}");
        assert_eq!(site.home.run_view(&run)["attempt"], 1);
        site.assert_stops();
    }
}

#[test]
fn work_in_hand_is_reported_before_the_worker_stops() {
    for language in WORKERS {
        let mut site = Site::start(language);
        let (run, file) = site.waiting(&[]);
        site.worker.signal("TERM");
        let next = site.submit("greet", &json!({"name": "Ada"}), &[]);
        std::fs::write(file, "").unwrap();
        assert_eq!(site.line_about(&run), "SUCCEEDED COMMITTED", "{language:?}");
        site.line_with("stopped");
        assert_eq!(site.worker.exit_code(), 0);
        assert_eq!(site.home.run_view(&next)["state"], "queued", "it asked for no more work");
    }
}

#[test]
fn a_report_is_repeated_until_the_server_is_back() {
    for language in WORKERS {
        let mut site = Site::start(language);
        let url = site.home.profile_url();
        let (run, file) = site.waiting(&["--lease-ms", "60000"]);
        site.server.signal("KILL");
        site.server.exit_code();
        std::fs::write(file, "").unwrap();
        site.line_with("no decision");
        let listen = url.strip_prefix("http://").unwrap();
        let mut server = Process::start(site.home.tenure(&["serve", "--json", "--listen", listen]));
        server.line();
        assert_eq!(site.line_about(&run), "SUCCEEDED COMMITTED", "{language:?}");
        assert_eq!(site.home.run_view(&run)["attempt"], 1);
        site.assert_stops();
    }
}

#[test]
fn a_lease_that_cannot_be_renewed_ends_the_work_and_its_result_is_discarded() {
    for language in WORKERS {
        let mut site = Site::start(language);
        let (run, _) = site.kept_alive();
        // The server answers nothing more: only the worker's own clock can end the work.
        site.server.signal("STOP");
        assert_eq!(site.line_about(&run), "lease lost", "{language:?}");
        site.server.signal("CONT");
        site.home.until(&run, "another attempt", |run| run["attempt"] == 2);
        assert_eq!(site.home.run(&["runs", "cancel", "--force", &run]).code, 0);
        site.assert_stops();
    }
}

#[test]
fn a_worker_that_was_paused_for_longer_than_its_lease_reports_nothing() {
    for language in WORKERS {
        let mut site = Site::start(language);
        let (run, file) = site.kept_alive();
        site.worker.signal("STOP");
        std::fs::write(file, "").unwrap();
        site.home.until(&run, "the loss", |run| run["lost"] == 1);
        site.worker.signal("CONT");
        // The code has its result at once, and the clock says that it is worth nothing.
        assert_eq!(site.line_about(&run), "lease lost", "{language:?}");
        assert_eq!(site.line_about(&run), "SUCCEEDED COMMITTED", "{language:?}");
        let view = site.home.run_view(&run);
        assert_eq!((&view["attempt"], &view["failures"]), (&2.into(), &0.into()), "{view}");
        site.assert_stops();
    }
}

#[test]
fn a_worker_without_its_settings_says_how_to_start_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/workers");
    let settings = [("TENURE_URL", "http://127.0.0.1:9"), ("TENURE_API_KEY", "tnr_x")];
    for (interpreter, program) in WORKERS {
        for (missing, _) in settings.iter().chain([&("the queue", "")]) {
            let mut command = Command::new(interpreter);
            command.arg(folder.join(program));
            if *missing != "the queue" {
                command.arg("q");
            }
            command.envs(settings).env_remove(missing);
            let said = command.output().unwrap();
            let stderr = String::from_utf8(said.stderr).unwrap();
            assert!(!said.status.success(), "{program} without {missing}");
            assert!(stderr.starts_with("usage: TENURE_URL="), "{program}: {stderr}");
            assert_eq!(stderr.lines().count(), 1, "{program}: {stderr}");
        }
    }
}
