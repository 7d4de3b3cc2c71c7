//! A server of our own: a child process on a new store, so that its use of the machine can be told
//! from the load's.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::measurement::Mode;
use crate::remote::Remote;
use crate::trouble::Trouble;

pub(crate) struct Server {
    child: Child,
    pub(crate) pid: u32,
    pub(crate) remote: Remote,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    url: String,
    api_key: Option<String>,
}

impl Server {
    /// Starts `program serve` on the store; `key` is that of a store which was served before.
    pub(crate) async fn start(
        program: &Path,
        store: &Path,
        key: Option<&str>,
    ) -> Result<Self, Trouble> {
        let mut child = Command::new(program)
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--store"])
            .arg(format!("sqlite:{}", store.display()))
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Trouble::Start(error.to_string()))?;
        let ready = ready(&mut child).await?;
        let address = address(&ready.url)?;
        let key = ready.api_key.or_else(|| key.map(str::to_owned));
        let key = key.ok_or_else(|| Trouble::Start("it made no key".to_owned()))?;
        let pid = child.id().ok_or_else(|| Trouble::Start("it ended at once".to_owned()))?;
        let remote = Remote { address, key, queue: "bench".to_owned(), mode: Mode::Single };
        Ok(Self { child, pid, remote })
    }

    /// Ends it as a loss of power would, and waits until it is gone.
    pub(crate) async fn kill(mut self) -> Result<(), Trouble> {
        Ok(self.child.kill().await?)
    }
}

async fn ready(child: &mut Child) -> Result<Ready, Trouble> {
    let stdout = child.stdout.take().expect("the child's output is piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await?;
    serde_json::from_str(&line).map_err(|_| Trouble::Start(format!("it said `{}`", line.trim())))
}

pub(crate) fn address(url: &str) -> Result<SocketAddr, Trouble> {
    let authority = url.trim_end_matches('/').strip_prefix("http://").unwrap_or(url);
    let mut addresses = std::net::ToSocketAddrs::to_socket_addrs(authority)?;
    Ok(addresses.next().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?)
}

/// A folder for stores that are thrown away.
pub(crate) struct Scratch {
    folder: PathBuf,
    made: std::cell::Cell<u32>,
}

impl Scratch {
    /// Inside `parent`, which says on which disk.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        let folder = parent.join(format!("tenure-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder, made: std::cell::Cell::new(0) })
    }

    /// The path of a store that does not exist; those before it are removed.
    pub(crate) fn store(&self) -> io::Result<PathBuf> {
        self.made.set(self.made.get() + 1);
        std::fs::remove_dir_all(&self.folder)?;
        std::fs::create_dir_all(&self.folder)?;
        Ok(self.folder.join(format!("{}.db", self.made.get())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody is left to tell; the folder's name says what it was.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
