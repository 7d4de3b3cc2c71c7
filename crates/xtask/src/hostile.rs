//! `cargo xtask hostile`: schemathesis tests the OpenAPI document against a live server on loopback, with valid and
//! with invalid requests.
//!
//! The document is read from the server itself. The settings of each route are in `protocol/schemathesis.toml`. A run
//! whose key was revoked half way would prove nothing, so the key is tried again at the end.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// Pinned, because a new version sends new requests: their findings are handled at the upgrade, not at the release.
const VERSION: &str = "4.32.0";

/// Enough for every change; use `--examples` for more.
const EXAMPLES: &str = "6";

/// A fixed seed, so that a failure can be reproduced.
const SEED: &str = "1";

/// An emergency rotation of the signing keys voids the token of the task under test, so it comes last.
const VOIDS_TOKENS: &str = "^/v1/signing-keys";

const CONFIG: &str = "protocol/schemathesis.toml";

pub(crate) fn run(root: &Path, server: &Path, words: &[&str]) -> Result<()> {
    let examples = match words {
        [] => EXAMPLES,
        ["--examples", count] if count.parse::<u32>().is_ok_and(|count| count > 0) => count,
        _ => bail!("`{}` is not `--examples N`", words.join(" ")),
    };
    let target = target(root);
    let program = schemathesis(&target)?;
    let folder = target.join("hostile");
    let _gone = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let server = Server::start(server, &folder)?;
    let fixture = server.create_fixture()?;
    ask(root, &program, &fixture, examples, &["--exclude-path-regex", VOIDS_TOKENS])?;
    server.still_knows_its_key(&fixture)?;
    let alone = ["--include-path-regex", VOIDS_TOKENS, "--phases", "coverage,fuzzing"];
    ask(root, &program, &fixture, examples, &alone)?;
    server.still_knows_its_key(&fixture)
}

/// Cargo's target folder.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// The program, in a virtual environment below `target`; installed if this version is missing.
fn schemathesis(target: &Path) -> Result<PathBuf> {
    let folder = target.join(format!("schemathesis-{VERSION}"));
    let program = folder.join("bin/st");
    let works = |program: &Path| {
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    if works(&program).is_ok_and(|status| status.success()) {
        return Ok(program);
    }
    println!("installing schemathesis {VERSION} into {}", folder.display());
    finish(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let package = format!("schemathesis=={VERSION}");
    let pip = ["install", "--quiet", "--disable-pip-version-check", package.as_str()];
    finish(Command::new(folder.join("bin/pip")).args(pip))?;
    Ok(program)
}

fn finish(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}

fn ask(
    root: &Path,
    program: &Path,
    fixture: &Fixture,
    examples: &str,
    which: &[&str],
) -> Result<()> {
    let mut command = Command::new(program);
    command.current_dir(root).args(["--config-file", CONFIG, "run"]);
    command.arg(format!("{}/openapi.json", fixture.url));
    command.args([
        "--max-examples",
        examples,
        "--seed",
        SEED,
        "--no-color",
        "--continue-on-failure",
    ]);
    command.args(["--generation-database", "none"]).args(which);
    command.env("TENURE_KEY", &fixture.key).env("TENURE_SPARE_KEY", &fixture.spare_key);
    command.env("TENURE_TASK", &fixture.task).env("TENURE_TASK_TOKEN", &fixture.token);
    let status = command.status().context("start schemathesis")?;
    ensure!(
        status.success(),
        "schemathesis found something ({status}); its lines above say how to repeat it"
    );
    Ok(())
}

/// A server for this run only; it is stopped at the end.
struct Server {
    child: Child,
    url: String,
    key: String,
}

/// What the requests need to exist.
struct Fixture {
    url: String,
    key: String,
    spare_key: String,
    task: String,
    token: String,
}

impl Server {
    fn start(binary: &Path, folder: &Path) -> Result<Self> {
        let log = std::fs::File::create(folder.join("server.log")).context("make a log file")?;
        let mut child = Command::new(binary)
            .args(["serve", "--json", "--listen", "127.0.0.1:0"])
            .env("HOME", folder)
            .env("XDG_CONFIG_HOME", folder.join("config"))
            .env("XDG_STATE_HOME", folder.join("state"))
            .env_remove("TENURE_STORE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let stdout = child.stdout.take().context("the server's stdout is a pipe")?;
        let mut server = Self { child, url: String::new(), key: String::new() };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("read the server's first line")?;
        let ready: Value = serde_json::from_str(&line).context("the server did not start")?;
        server.url = text(&ready, "/url")?;
        server.key = text(&ready, "/apiKey")?;
        Ok(server)
    }

    /// Creates a task under a lease, and a key that may be revoked.
    fn create_fixture(&self) -> Result<Fixture> {
        // An hour: longer than any run of this command.
        let run = json!({ "kind": "hostile", "queue": "hostile", "leaseMs": 3_600_000 });
        self.post("/v1/runs", &run)?;
        let poll = json!({ "workerId": "w1", "queues": ["hostile"], "max": 1, "waitMs": 30_000 });
        let leases = self.post("/v1/leases", &poll)?;
        let spare = self.post("/v1/keys", &json!({ "roles": ["client"] }))?;
        Ok(Fixture {
            url: self.url.clone(),
            key: self.key.clone(),
            spare_key: text(&spare, "/key/keyId")?,
            task: text(&leases, "/leases/0/taskId")?,
            token: text(&leases, "/leases/0/taskToken")?,
        })
    }

    fn still_knows_its_key(&self, fixture: &Fixture) -> Result<()> {
        let run = json!({ "kind": "hostile", "queue": "afterwards" });
        let accepted = self.post("/v1/runs", &run)?;
        let lost = format!(
            "the server at {} no longer accepts its key, so the run proved nothing",
            fixture.url
        );
        text(&accepted, "/runId").context(lost).map(drop)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--header", "Content-Type: application/json"])
            .args(["--header", &format!("Authorization: Bearer {}", self.key)])
            .args(["--data", &body.to_string(), &format!("{}{path}", self.url)])
            .output()
            .context("start curl")?;
        ensure!(output.status.success(), "curl: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).context("the server's answer is not JSON")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already, and nothing of it is needed any more.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn text(value: &Value, pointer: &str) -> Result<String> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.map(str::to_owned).with_context(|| format!("no text at {pointer} in {value}"))
}
