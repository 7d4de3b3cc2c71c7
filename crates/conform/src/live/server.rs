//! The real server of a live run: started, killed, started again on the same port and store.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::http::{self, Request};

/// How long a server may take to answer after its start; recovery of a small store is a matter of milliseconds.
const READY_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(super) struct LiveServer {
    binary: PathBuf,
    folder: PathBuf,
    port: u16,
    api_key: String,
    public_url: Option<String>,
    child: Child,
}

impl LiveServer {
    pub(super) async fn start(binary: &Path, folder: &Path) -> io::Result<LiveServer> {
        // The port is free for others between here and the server's start; nothing else on loopback looks for one.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut child = spawn(binary, folder, port, None)?;
        let api_key = first_key(&mut child).await?;
        let (binary, folder) = (binary.to_owned(), folder.to_owned());
        let server = LiveServer { binary, folder, port, api_key, public_url: None, child };
        server.wait_until_ready().await?;
        Ok(server)
    }

    pub(super) fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(super) fn api_key(&self) -> &str {
        &self.api_key
    }

    /// Starts it again, so that workers are told to call this address.
    pub(super) async fn serve_as(&mut self, url: &str) -> io::Result<()> {
        self.public_url = Some(url.to_owned());
        self.kill().await?;
        self.restart().await
    }

    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.child.start_kill()?;
        self.child.wait().await.map(|_| ())
    }

    pub(super) async fn restart(&mut self) -> io::Result<()> {
        self.child = spawn(&self.binary, &self.folder, self.port, self.public_url.as_deref())?;
        self.wait_until_ready().await
    }

    async fn wait_until_ready(&self) -> io::Result<()> {
        let ready = async {
            loop {
                let answer = http::call(&self.authority(), Request::get("/readyz")).await;
                if answer.is_ok_and(|answer| answer.status == 200) {
                    return;
                }
                sleep(LOOK_AGAIN).await;
            }
        };
        timeout(READY_WITHIN, ready)
            .await
            .map_err(|_| io::Error::other("the server did not get ready"))
    }

    /// Ends it as an operator does.
    pub(super) async fn stop(&mut self) {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        if timeout(READY_WITHIN, self.child.wait()).await.is_err() {
            let _ = self.kill().await;
        }
    }

    /// What `tenure verify` finds in the store.
    pub(super) async fn verify(&self) -> io::Result<Vec<String>> {
        let verified = Command::new(&self.binary)
            .args(["verify", "--store", &store(&self.folder)])
            .env("HOME", &self.folder)
            .output()
            .await?;
        if verified.status.success() {
            return Ok(Vec::new());
        }
        let text = String::from_utf8_lossy(&verified.stderr);
        Ok(vec![format!("tenure verify: {}", text.trim())])
    }
}

fn store(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("live.db").display())
}

fn spawn(binary: &Path, folder: &Path, port: u16, public_url: Option<&str>) -> io::Result<Child> {
    let mut command = Command::new(binary);
    command.args([
        "--json",
        "serve",
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--store",
        &store(folder),
    ]);
    if let Some(url) = public_url {
        command.args(["--public-url", url]);
    }
    // Settings of the machine's own server are not those of this one.
    command.env("HOME", folder).env_remove("TENURE_URL").env_remove("TENURE_API_KEY");
    let log = std::fs::File::options().create(true).append(true).open(folder.join("server.log"))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true).spawn()
}

/// The key that a new store prints.
async fn first_key(child: &mut Child) -> io::Result<String> {
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("the server has no output"))?;
    let mut lines = BufReader::new(stdout).lines();
    let line = timeout(READY_WITHIN, lines.next_line()).await.map_err(io::Error::other)??;
    let told: Value = serde_json::from_str(&line.unwrap_or_default()).map_err(io::Error::other)?;
    // It goes on writing; a full pipe must not stop it.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let key = told["apiKey"].as_str();
    key.map(str::to_owned).ok_or_else(|| io::Error::other("the server printed no key"))
}
