//! A server that we start: a child process on a new store, so that its resource usage can be
//! separated from the load's.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::error::BenchError;
use crate::measurement::Mode;
use crate::remote::Remote;
use crate::resource_usage::Monitored;
use crate::store_factory::{StoreFactory, StoreLocation};

pub(crate) struct Server {
    child: Child,
    pub(crate) pid: u32,
    pub(crate) remote: Remote,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadyMessage {
    url: String,
    api_key: Option<String>,
}

impl Server {
    /// Starts `program serve` on the store; `key` is the key of a store that was served before.
    /// Servers of one database find each other's signing key in `state`.
    pub(crate) async fn start(
        program: &Path,
        store: &StoreLocation,
        state: &Path,
        key: Option<&str>,
    ) -> Result<Self, BenchError> {
        let mut child = Command::new(program)
            .args(["serve", "--json", "--listen", "127.0.0.1:0"])
            // Receivers of effects are in the measuring process.
            .args(["--allow-private-receivers", "127.0.0.0/8", "--store"])
            .arg(store.address())
            .env("RUST_LOG", "error")
            .env("XDG_STATE_HOME", state)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| BenchError::Start(error.to_string()))?;
        let ready = ready(&mut child).await?;
        let address = address(&ready.url)?;
        let key = ready.api_key.or_else(|| key.map(str::to_owned));
        let key = key.ok_or_else(|| BenchError::Start("it made no key".to_owned()))?;
        let pid = child.id().ok_or_else(|| BenchError::Start("it ended at once".to_owned()))?;
        let remote = Remote::new(vec![address], key, Mode::Single);
        Ok(Self { child, pid, remote })
    }

    /// Kills it, as a power loss would, and waits until it is gone.
    pub(crate) async fn kill(mut self) -> Result<(), BenchError> {
        Ok(self.child.kill().await?)
    }
}

/// Servers on one store, and a client target for all of them: calls rotate among them.
pub(crate) struct Servers {
    servers: Vec<Server>,
    pub(crate) remote: Remote,
    pub(crate) monitored: Monitored,
}

impl Servers {
    /// A new store with `count` servers on it.
    pub(crate) async fn on_new_store(
        program: &Path,
        stores: &StoreFactory,
        count: usize,
    ) -> Result<(Self, StoreLocation), BenchError> {
        let store = stores.create_store().await?;
        Ok((Self::start(program, stores, &store, count, None).await?, store))
    }

    /// `key` is the key of a store that was served before.
    pub(crate) async fn start(
        program: &Path,
        stores: &StoreFactory,
        store: &StoreLocation,
        count: usize,
        key: Option<&str>,
    ) -> Result<Self, BenchError> {
        let first = Server::start(program, store, stores.state_dir(), key).await?;
        let (key, mut servers) = (first.remote.key.clone(), vec![first]);
        while servers.len() < count {
            servers.push(Server::start(program, store, stores.state_dir(), Some(&key)).await?);
        }
        let addresses = servers.iter().flat_map(|server| server.remote.addresses.iter().copied());
        let remote = Remote::new(addresses.collect(), key, Mode::Single);
        let monitored = Monitored {
            servers: servers.iter().map(|server| server.pid).collect(),
            database: stores.databases.as_ref().map(|databases| databases.server()),
        };
        Ok(Self { servers, remote, monitored })
    }

    /// The client target of one of them.
    pub(crate) fn remote_of(&self, number: usize) -> &Remote {
        &self.servers[number].remote
    }

    pub(crate) async fn kill(self) -> Result<(), BenchError> {
        for server in self.servers {
            server.kill().await?;
        }
        Ok(())
    }
}

async fn ready(child: &mut Child) -> Result<ReadyMessage, BenchError> {
    let stdout = child.stdout.take().expect("the child's output is piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await?;
    serde_json::from_str(&line).map_err(|_| BenchError::Start(format!("it said `{}`", line.trim())))
}

pub(crate) fn address(url: &str) -> Result<SocketAddr, BenchError> {
    let authority = url.trim_end_matches('/').strip_prefix("http://").unwrap_or(url);
    let mut addresses = std::net::ToSocketAddrs::to_socket_addrs(authority)?;
    Ok(addresses.next().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?)
}
