//! A folder with a store and servers that die in every way a server can.
//!
//! A server always restarts on the same store and address. One server uses a file; several share a database. This
//! module starts, breaks and waits; it does not judge.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::rng::SeededRng;
use crate::single_database::SingleDatabase;
use crate::small_disk::SmallDisk;
use crate::waits;

/// Below the range of ephemeral ports, so that no outgoing connection takes our port while it is free.
const FIRST_PORT: u64 = 20_000;
const PORTS: u64 = 10_000;

/// The files of a store.
const FILES: [&str; 3] = ["tenure.db", "tenure.db-wal", "tenure.db-shm"];

pub struct TestCluster {
    binary: PathBuf,
    folder: TempDir,
    /// The addresses of its servers, one each.
    pub listen: Vec<String>,
    storage: Storage,
    /// The museum bug that every server of this cluster plays.
    mutant: Option<u8>,
    clocks: Clocks,
}

/// Which wall clocks the servers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clocks {
    Machine,
    /// Each its own, as on separate machines.
    Own,
}

/// What the store is kept on.
enum Storage {
    Folder,
    /// A disk that fills up soon.
    SmallDisk(SmallDisk),
    Database(SingleDatabase),
}

/// A server that runs, or has ended.
pub struct Server {
    child: Child,
    pub ready: Option<Value>,
}

impl TestCluster {
    pub fn new(binary: &Path, mutant: Option<u8>, rng: &mut SeededRng) -> Result<TestCluster> {
        let folder = tempfile::Builder::new().prefix("tenure-lab").tempdir()?;
        let binary = binary.canonicalize().with_context(|| format!("find {}", binary.display()))?;
        let listen = vec![free_address(rng)];
        Ok(TestCluster {
            binary,
            folder,
            listen,
            storage: Storage::Folder,
            mutant,
            clocks: Clocks::Machine,
        })
    }

    /// Puts the store on a disk that fills up soon.
    pub fn on_small_disk(mut self) -> Result<TestCluster> {
        self.storage = Storage::SmallDisk(SmallDisk::mount(&self.folder.path().join("disk"))?);
        Ok(self)
    }

    /// Uses a private database as the store, shared by this many servers.
    pub fn on_a_database(mut self, servers: usize, rng: &mut SeededRng) -> Result<TestCluster> {
        self.storage = Storage::Database(SingleDatabase::start()?);
        while self.listen.len() < servers {
            self.listen.push(free_address(rng));
        }
        Ok(self)
    }

    /// Gives every server a separate wall clock, which can be set while it runs.
    pub fn with_clocks(mut self) -> Result<TestCluster> {
        self.clocks = Clocks::Own;
        (0..self.listen.len()).try_for_each(|at| self.set_clock(at, 0))?;
        Ok(self)
    }

    /// Sets the wall clock of a server this many milliseconds ahead.
    pub fn set_clock(&self, at: usize, ahead_ms: i64) -> Result<()> {
        let file = self.clock_of(&self.listen[at]);
        // The file is renamed into place, so that no server reads half a number.
        let new = file.with_extension("new");
        fs::write(&new, ahead_ms.to_string())?;
        Ok(fs::rename(new, file)?)
    }

    fn clock_of(&self, listen: &str) -> PathBuf {
        self.folder.path().join(format!("clock-{}", listen.replace(':', "-")))
    }

    pub fn disk(&self) -> Result<&SmallDisk> {
        match &self.storage {
            Storage::SmallDisk(disk) => Ok(disk),
            _ => bail!("this store is not on a small disk"),
        }
    }

    pub fn database(&self) -> Result<&SingleDatabase> {
        match &self.storage {
            Storage::Database(cluster) => Ok(cluster),
            _ => bail!("this store is not a database"),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn store_folder(&self) -> PathBuf {
        match &self.storage {
            Storage::SmallDisk(disk) => disk.inside().to_owned(),
            _ => self.folder.path().join("store"),
        }
    }

    /// The store, as `--store` takes it.
    pub fn store(&self) -> String {
        match &self.storage {
            Storage::Database(cluster) => cluster.url(),
            _ => format!("sqlite:{}", self.store_folder().join(FILES[0]).display()),
        }
    }

    /// The binary, isolated from the environment and configuration of the user.
    pub fn tenure(&self, arguments: &[&str], fault_spec: Option<&str>) -> Command {
        let mut command = match &self.storage {
            Storage::SmallDisk(disk) => disk.enter(&self.binary),
            _ => Command::new(&self.binary),
        };
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let is_ours = name.to_str().is_some_and(|name| {
                name.starts_with("TENURE_") || name.starts_with("XDG_") || name.starts_with("PG")
            });
            if is_ours {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.folder.path()).env("RUST_LOG", "error");
        let mutant = self.mutant.map(|number| format!("mutant@{number}"));
        let chosen: Vec<String> = mutant.into_iter().chain(fault_spec.map(str::to_owned)).collect();
        command.env("TENURE_LAB", chosen.join(","));
        // Receivers of effects are on this machine.
        command.env("TENURE_ALLOW_PRIVATE_RECEIVERS", "127.0.0.0/8");
        command
    }

    /// Starts the server with this index; returns when it is ready or dead.
    pub fn start(&self, at: usize, fault_spec: Option<&str>) -> Result<Server> {
        self.start_on(&self.listen[at], &self.store(), fault_spec)
    }

    /// The same at another address, on another store.
    pub fn start_on(&self, listen: &str, store: &str, fault_spec: Option<&str>) -> Result<Server> {
        let arguments = ["serve", "--json", "--listen", listen, "--store", store];
        let clock = match self.clocks {
            Clocks::Machine => None,
            Clocks::Own => Some(format!("skew-in@{}", self.clock_of(listen).display())),
        };
        let chosen: Vec<&str> = fault_spec.into_iter().chain(clock.as_deref()).collect();
        let mut command = self.tenure(&arguments, Some(&chosen.join(",")));
        let log = fs::File::options().create(true).append(true).open(self.log())?;
        let child =
            command.stdout(Stdio::piped()).stderr(log).spawn().context("start the server")?;
        let mut server = Server { child, ready: None };
        let line = waits::first_line(&mut server.child, "the server to start")?;
        if !line.is_empty() {
            server.ready = Some(serde_json::from_str(&line)?);
        }
        Ok(server)
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Verifies the store: a database in place, files as a copy, so that the next server still finds them as the last
    /// one left them.
    pub fn verify(&self) -> Result<u64> {
        let copy = tempfile::tempdir_in(self.folder.path())?;
        for name in FILES {
            let from = match &self.storage {
                Storage::Database(cluster) => return self.verify_store(&cluster.url()),
                Storage::SmallDisk(disk) => disk.outside(name),
                Storage::Folder => self.store_folder().join(name),
            };
            if from.exists() {
                fs::copy(from, copy.path().join(name))?;
            }
        }
        self.verify_file(&copy.path().join(FILES[0]))
    }

    /// Verifies a store and returns its number of tasks.
    pub fn verify_file(&self, path: &Path) -> Result<u64> {
        self.verify_store(&format!("sqlite:{}", path.display()))
    }

    /// The same for any store.
    pub fn verify_store(&self, store: &str) -> Result<u64> {
        let mut command = Command::new(&self.binary);
        command.args(["verify", "--json", "--store", store]).env("RUST_LOG", "error");
        command.env_remove("TENURE_LAB").env("HOME", self.folder.path());
        let ran = waits::run(&mut command)?;
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
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.pid(), signal)?)
    }

    /// Pauses the process (SIGSTOP), and returns when none of its threads runs any more.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let frozen = waits::until(|| Ok(self.is_frozen()?.then_some(())))?;
        frozen.context("a stopped server still runs")
    }

    fn is_frozen(&self) -> Result<bool> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        Ok(threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name may contain anything, so the state follows its last parenthesis.
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        }))
    }

    pub fn expect_running(&mut self, cluster: &TestCluster) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = fs::read_to_string(cluster.log()).unwrap_or_default();
            bail!("a server ended by itself, {status}; its last words: {}", last_words(&log));
        }
        Ok(())
    }

    /// How the process has exited; `None` while it runs.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until the process has exited.
    pub fn wait_for_death(&mut self, what: &str) -> Result<ExitStatus> {
        waits::death(&mut self.child, what)
    }

    /// The key that the server printed for a new store.
    pub fn api_key(&self) -> Result<String> {
        let key = self.ready.as_ref().and_then(|ready| ready["apiKey"].as_str());
        Ok(key.context("a new store gets a key")?.to_owned())
    }

    pub fn expect_ready(self, cluster: &TestCluster) -> Result<Server> {
        if self.ready.is_none() {
            let log = fs::read_to_string(cluster.log()).unwrap_or_default();
            bail!("the server did not start; it said {}", last_words(&log));
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

fn last_words(log: &str) -> &str {
    log.lines().last().unwrap_or("nothing")
}

pub(crate) fn free_address(rng: &mut SeededRng) -> String {
    loop {
        let address = format!("127.0.0.1:{}", FIRST_PORT + rng.below(PORTS));
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}
