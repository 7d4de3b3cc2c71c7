//! A separate home directory for each test, with a server in it and the binary.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;

use crashlab::waits::{self, TIMEOUT};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path().join("state/tenure/tenure.db")
    }

    pub(crate) fn profile(&self) -> PathBuf {
        self.path().join("config/tenure/profile.json")
    }

    /// The address in the profile.
    pub(crate) fn profile_url(&self) -> String {
        let profile = std::fs::read(self.profile()).unwrap();
        let profile: Value = serde_json::from_slice(&profile).unwrap();
        profile["url"].as_str().unwrap().to_owned()
    }

    /// The binary, which sees this home and nothing of the home of the person who runs the tests.
    pub(crate) fn tenure(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        for name in [
            "TENURE_URL",
            "TENURE_API_KEY",
            "TENURE_STORE",
            "TENURE_CA_FILE",
            "TENURE_TLS_CERT",
            "TENURE_TLS_KEY",
            "TENURE_PUBLIC_URL",
            "TENURE_CONFIG",
            "TENURE_LISTEN",
            "TENURE_INSECURE_PLAINTEXT",
            "TENURE_METRICS_LISTEN",
            "TENURE_METRICS_QUEUES",
            "TENURE_SEAL_RECORDS",
            "TENURE_RETAIN_FOR",
            "TENURE_RETAIN_RUNS",
            "TENURE_OTLP_ENDPOINT",
            "TENURE_ALLOW_PRIVATE_RECEIVERS",
            "TENURE_DEFAULT_LEASE",
            "TENURE_DEFAULT_HEARTBEAT",
            "TENURE_DEFAULT_CANCEL_GRACE",
            "TENURE_DEFAULT_MAX_ATTEMPTS",
            "TENURE_DEFAULT_LOST_MAX",
            "RUST_LOG",
            "NO_COLOR",
            "CLICOLOR_FORCE",
        ] {
            command.env_remove(name);
        }
        command.env("HOME", self.path());
        command.env("XDG_CONFIG_HOME", self.path().join("config"));
        command.env("XDG_STATE_HOME", self.path().join("state"));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(waits::run(&mut self.tenure(arguments)).unwrap())
    }

    /// Runs a command that must succeed, and reads its JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}", ran.stdout))
    }

    /// A server on a free port, saved in the profile, so that commands need no flags.
    pub(crate) fn serve(&self) -> Process {
        let arguments = ["serve", "--json", "--listen", "127.0.0.1:0", "--write-profile"];
        let mut server = Process::start(self.tenure(&arguments));
        server.line();
        server
    }

    pub(crate) fn submit(&self, arguments: &[&str]) -> String {
        let all: Vec<&str> = ["submit", "--json"].iter().chain(arguments).copied().collect();
        self.json(&all)["runId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn run_view(&self, id: &str) -> Value {
        self.json(&["runs", "show", "--json", id])
    }

    /// Waits until a condition holds for a run.
    pub(crate) fn until(&self, id: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        wait_until(what, || {
            last = self.run_view(id);
            holds(&last)
        });
        last
    }

    pub(crate) fn ended(&self, id: &str) -> Value {
        self.run(&["runs", "watch", id]);
        self.run_view(id)
    }
}

/// Polls for conditions that have no notification.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let came = waits::until(|| Ok(holds().then_some(()))).unwrap();
    came.unwrap_or_else(|| panic!("{what} did not come"));
}

/// A finished command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    pub(crate) fn of(output: Output) -> CommandOutput {
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// One sentence with its code, one hint, and nothing on stdout.
    pub(crate) fn assert_error(&self, exit: i32, code: &str, sentence: &str, hint: &str) {
        assert_eq!(self.code, exit, "{self:?}");
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{self:?}");
        assert!(
            lines[0].starts_with("error: ") && lines[0].ends_with(&format!("[{code}]")),
            "{self:?}"
        );
        assert!(lines[0].contains(sentence), "{self:?}");
        assert!(lines[1].starts_with("hint: ") && lines[1].contains(hint), "{self:?}");
        assert_eq!(self.stdout, "");
    }
}

/// A process that keeps running; it ends with the test.
pub(crate) struct Process {
    pub(crate) child: Child,
    /// Its output, read by a separate thread, so that waits can time out.
    lines: mpsc::Receiver<String>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Process {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (say, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The test may have ended.
                let _ = say.send(line);
            }
        });
        Process { child, lines }
    }

    /// The next line of stdout, as JSON.
    pub(crate) fn line(&mut self) -> Value {
        let text = self.text_line();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    /// The next line, with its line break, so that several can be joined.
    pub(crate) fn text_line(&mut self) -> String {
        match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => line + "\n",
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the process says nothing"),
            Err(_) => panic!("the process ended: {:?}", waits::death(&mut self.child, "it")),
        }
    }

    /// The lines that are left, until the process closes its output.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        let mut rest = Vec::new();
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => rest.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => return rest,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("the process goes on"),
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    pub(crate) fn exit_code(&mut self) -> i32 {
        waits::death(&mut self.child, "the process").unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
