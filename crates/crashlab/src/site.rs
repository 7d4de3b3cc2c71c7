//! A place on this machine with a store and a server that dies in every way a server can.
//!
//! The server always comes back on the same store and address. Nothing here judges; it starts, breaks, waits.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::chance::Chance;
use crate::ground::SmallDisk;

/// Below the ports that systems give to outgoing connections: nobody takes ours while it is free.
const FIRST_PORT: u64 = 20_000;
const PORTS: u64 = 10_000;

/// How often to look for what nobody announces.
const LOOK: Duration = Duration::from_millis(5);

/// The files of a store.
const FILES: [&str; 3] = ["tenure.db", "tenure.db-wal", "tenure.db-shm"];

pub(crate) struct Site {
    binary: PathBuf,
    folder: TempDir,
    pub(crate) listen: String,
    disk: Option<SmallDisk>,
    /// Played by every server of this place.
    mutant: Option<u8>,
}

/// A server that runs, or ran.
pub(crate) struct Server {
    child: Child,
    pub(crate) ready: Option<Value>,
}

impl Site {
    pub(crate) fn new(binary: &Path, mutant: Option<u8>, chance: &mut Chance) -> Result<Site> {
        let folder = tempfile::Builder::new().prefix("tenure-lab").tempdir()?;
        let binary = binary.canonicalize().with_context(|| format!("find {}", binary.display()))?;
        Ok(Site { binary, folder, listen: free_address(chance), disk: None, mutant })
    }

    /// The store shall be on a disk that is soon full.
    pub(crate) fn on_small_disk(mut self) -> Result<Site> {
        self.disk = Some(SmallDisk::mount(&self.folder.path().join("disk"))?);
        Ok(self)
    }

    pub(crate) fn disk(&self) -> Option<&SmallDisk> {
        self.disk.as_ref()
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn store_folder(&self) -> PathBuf {
        match &self.disk {
            Some(disk) => disk.inside().to_owned(),
            None => self.folder.path().join("store"),
        }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.store_folder().join(FILES[0])
    }

    /// The binary, which sees nothing of the person's who runs it.
    pub(crate) fn tenure(&self, arguments: &[&str], blow: Option<&str>) -> Command {
        let mut command = match &self.disk {
            Some(disk) => disk.enter(&self.binary),
            None => Command::new(&self.binary),
        };
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        for name in ["TENURE_URL", "TENURE_API_KEY", "TENURE_STORE"] {
            command.env_remove(name);
        }
        command.env("HOME", self.folder.path()).env("RUST_LOG", "error");
        let mutant = self.mutant.map(|number| format!("mutant@{number}"));
        let chosen: Vec<String> = mutant.into_iter().chain(blow.map(str::to_owned)).collect();
        command.env("TENURE_LAB", chosen.join(","));
        command
    }

    /// Starts a server, and returns when it says that it is ready or when it is dead.
    pub(crate) fn start(&self, blow: Option<&str>) -> Result<Server> {
        let store = format!("sqlite:{}", self.store().display());
        self.start_on(&self.listen, &store, blow)
    }

    /// The same at another address, on another store.
    pub(crate) fn start_on(&self, listen: &str, store: &str, blow: Option<&str>) -> Result<Server> {
        let arguments = ["serve", "--json", "--listen", listen, "--store", store];
        let mut command = self.tenure(&arguments, blow);
        let log = fs::File::options().create(true).append(true).open(self.log())?;
        let mut child =
            command.stdout(Stdio::piped()).stderr(log).spawn().context("start the server")?;
        let stdout = child.stdout.take().context("the server's output is piped")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let ready = if line.is_empty() { None } else { Some(serde_json::from_str(&line)?) };
        Ok(Server { child, ready })
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Checks a copy of the store, so that the next server still finds what the last one left.
    pub(crate) fn verify(&self) -> Result<u64> {
        let copy = tempfile::tempdir_in(self.folder.path())?;
        for name in FILES {
            let from = match &self.disk {
                Some(disk) => disk.outside(name),
                None => self.store_folder().join(name),
            };
            if from.exists() {
                fs::copy(from, copy.path().join(name))?;
            }
        }
        self.verify_file(&copy.path().join(FILES[0]))
    }

    /// The number of tasks in a store that is whole.
    pub(crate) fn verify_file(&self, path: &Path) -> Result<u64> {
        self.verify_store(&format!("sqlite:{}", path.display()))
    }

    /// The same, wherever it lies.
    pub(crate) fn verify_store(&self, store: &str) -> Result<u64> {
        let mut command = Command::new(&self.binary);
        command.args(["verify", "--json", "--store", store]).env("RUST_LOG", "error");
        command.env("HOME", self.folder.path());
        command.env_remove("TENURE_LAB").stdin(Stdio::null());
        let ran = command.output()?;
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let found: Value = serde_json::from_str(&said).with_context(|| {
            format!("verify said {said:?} and {}", String::from_utf8_lossy(&ran.stderr))
        })?;
        let findings = found["findings"].as_array().context("verify lists findings")?;
        ensure!(findings.is_empty() && ran.status.success(), "verify found {findings:#?}");
        Ok(found["tasks"].as_u64().unwrap_or(0))
    }
}

impl Server {
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.pid(), signal)?)
    }

    /// Stops it where it stands, and returns when not one of its threads runs any more.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        while !self.is_frozen()? {
            pause();
        }
        Ok(())
    }

    fn is_frozen(&self) -> Result<bool> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        Ok(threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name may hold anything, so the state is what follows its last parenthesis.
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        }))
    }

    /// Waits until it is dead, for as long as `patience`.
    pub(crate) fn wait_for_death(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let mut looks = patience.as_millis() / LOOK.as_millis();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            let Some(left) = looks.checked_sub(1) else { return Ok(None) };
            looks = left;
            pause();
        }
    }

    /// The key of a store that had none.
    pub(crate) fn api_key(&self) -> Result<String> {
        let key = self.ready.as_ref().and_then(|ready| ready["apiKey"].as_str());
        Ok(key.context("a new store gets a key")?.to_owned())
    }

    pub(crate) fn expect_ready(self, site: &Site) -> Result<Server> {
        if self.ready.is_none() {
            let log = fs::read_to_string(site.log()).unwrap_or_default();
            bail!("the server did not start; it said {}", log.lines().last().unwrap_or("nothing"));
        }
        Ok(self)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Between two looks at something that nobody announces.
pub(crate) fn pause() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let _ = told.recv_timeout(LOOK);
    drop(tell);
}

pub(crate) fn free_address(chance: &mut Chance) -> String {
    loop {
        let address = format!("127.0.0.1:{}", FIRST_PORT + chance.below(PORTS));
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}
