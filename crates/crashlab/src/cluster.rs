//! Two PostgreSQL servers on this machine: one takes writes, the other follows and takes over.
//!
//! They are reached through sockets in a folder of their own, so that no port can be taken. The servers refuse
//! to run as root, so as root they run as another user. Nothing here judges.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::waits;

/// Which acknowledgements a failover may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replication {
    /// A commit waits until the standby has it: none.
    Synchronous,
    /// The standby follows when it can: the last ones.
    Asynchronous,
}

/// The name under which a standby follows.
const STANDBY: &str = "standby";

/// What both servers share. The disk is waited for as in production.
const SETTINGS: &str = "-c listen_addresses='' -c max_connections=120 -c shared_buffers=32MB \
    -c wal_keep_size=256MB -c wal_retrieve_retry_interval=100ms -c log_min_messages=fatal";

pub(crate) struct Cluster {
    folder: TempDir,
    binaries: PathBuf,
    /// Which of the two takes writes.
    primary: usize,
    replication: Replication,
}

impl Cluster {
    /// One server and a standby that has all of it.
    pub(crate) fn start(replication: Replication) -> Result<Cluster> {
        let folder = tempfile::Builder::new().prefix("tenure-pg").tempdir()?;
        let mut cluster = Cluster { folder, binaries: binaries()?, primary: 0, replication };
        for node in 0..2 {
            fs::create_dir(cluster.socket(node))?;
        }
        if is_root() {
            run(Command::new("chown").args(["-R", "postgres"]).arg(cluster.folder.path()))?;
        }
        let data = cluster.data(0);
        run(cluster
            .program("initdb")
            .args(["--auth", "trust", "--username", "postgres", "--no-sync", "--encoding", "UTF8"])
            .args(["--locale", "C.UTF-8", "--pgdata"])
            .arg(&data))?;
        cluster.start_server(0)?;
        cluster.sql(0, "CREATE DATABASE tenure")?;
        cluster.follow()?;
        Ok(cluster)
    }

    /// The address that names both: whoever connects takes the one that takes writes.
    pub(crate) fn url(&self) -> String {
        let host = |node| self.socket(node).display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{},{}/tenure", host(0), host(1))
    }

    fn data(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("data{node}"))
    }

    fn socket(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("at{node}"))
    }

    fn standby(&self) -> usize {
        1 - self.primary
    }

    /// A program of PostgreSQL's, as a user it accepts.
    fn program(&self, name: &str) -> Command {
        let path = self.binaries.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        command.current_dir("/");
        command
    }

    fn start_server(&self, node: usize) -> Result<()> {
        let options =
            format!("{SETTINGS} -c unix_socket_directories={}", self.socket(node).display());
        let log = self.folder.path().join(format!("log{node}"));
        run(self
            .program("pg_ctl")
            .args(["start", "--silent", "--wait", "--timeout", "120", "--log"])
            .arg(&log)
            .arg("--options")
            .arg(options)
            .arg("--pgdata")
            .arg(self.data(node)))
        .with_context(|| fs::read_to_string(&log).unwrap_or_default())
    }

    fn sql(&self, node: usize, sql: &str) -> Result<String> {
        self.sql_in("postgres", node, sql)
    }

    /// What a query says, as text.
    fn sql_in(&self, database: &str, node: usize, sql: &str) -> Result<String> {
        let mut psql = self.program("psql");
        psql.arg("--host").arg(self.socket(node)).args(["--username", "postgres"]);
        psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--command", sql, database]);
        let ran = waits::run(&mut psql)?;
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        ensure!(ran.status.success(), "`{sql}` failed: {said}");
        Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
    }

    fn set(&self, node: usize, setting: &str, value: &str) -> Result<()> {
        self.sql(node, &format!("ALTER SYSTEM SET {setting} = '{value}'"))?;
        self.sql(node, "SELECT pg_reload_conf()").map(drop)
    }

    /// A fresh standby of the server that takes writes; returns when commits wait for it, if they shall.
    pub(crate) fn follow(&mut self) -> Result<()> {
        let (primary, standby) = (self.primary, self.standby());
        let data = self.data(standby);
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        self.clear_socket(standby)?;
        let source = format!(
            "host={} user=postgres application_name={STANDBY}",
            self.socket(primary).display()
        );
        run(self
            .program("pg_basebackup")
            .args([
                "--checkpoint",
                "fast",
                "--wal-method",
                "stream",
                "--no-sync",
                "--write-recovery-conf",
            ])
            .args(["--dbname", &source, "--pgdata"])
            .arg(&data))?;
        let settings = data.join("postgresql.auto.conf");
        let written = fs::read_to_string(&settings)?;
        fs::write(&settings, format!("{written}primary_conninfo = '{source}'\n"))?;
        self.start_server(standby)?;
        if self.replication == Replication::Synchronous {
            self.set(primary, "synchronous_standby_names", STANDBY)?;
        }
        let wanted = match self.replication {
            Replication::Synchronous => "sync",
            Replication::Asynchronous => "async",
        };
        let look = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'";
        until_true("a standby to follow", || Ok(self.sql(primary, look)? == wanted))
    }

    /// As a machine that comes up again finds it. The lock beside a socket names a process, and one that was killed
    /// counts as alive until its parent has noticed.
    fn clear_socket(&self, node: usize) -> Result<()> {
        for entry in fs::read_dir(self.socket(node))? {
            fs::remove_file(entry?.path())?;
        }
        Ok(())
    }

    /// Coordinators notice within seconds that commits wait for a standby again; until then a failover would
    /// void every lease, to be on the safe side.
    pub(crate) fn until_noticed(&self) -> Result<()> {
        let look = "SELECT waits FROM tenure.meta";
        until_true("coordinators to notice", || {
            Ok(self.sql_in("tenure", self.primary, look)? == "t")
        })
    }

    /// The standby hears nothing more, as behind a broken network.
    pub(crate) fn cut(&self) -> Result<()> {
        let nowhere = format!("host={}", self.folder.path().join("nowhere").display());
        self.set(self.standby(), "primary_conninfo", &nowhere)?;
        let look = "SELECT count(*) FROM pg_stat_replication";
        until_true("the standby to be cut off", || Ok(self.sql(self.primary, look)? == "0"))
    }

    /// Every process of the server that takes writes dies in the same moment, as with its machine.
    pub(crate) fn kill_primary(&self) -> Result<()> {
        let data = self.data(self.primary);
        let file = fs::read_to_string(data.join("postmaster.pid"))?;
        let id = file.lines().next().and_then(|line| line.trim().parse().ok());
        let parent = id.and_then(Pid::from_raw).context("a server notes its process")?;
        // Stopped first, so that it starts nobody while the others are killed.
        kill_process(parent, Signal::STOP)?;
        until_true("a killed server to be gone", || {
            let left = at_work_in(&data)?;
            for process in &left {
                // Some end by themselves when they see their parent gone.
                let _ = kill_process(*process, Signal::KILL);
            }
            Ok(left.is_empty())
        })
    }

    /// The standby takes over. Commits wait for nobody until there is a standby again.
    pub(crate) fn promote(&mut self) -> Result<()> {
        let standby = self.standby();
        run(self
            .program("pg_ctl")
            .args(["promote", "--silent", "--wait", "--timeout", "120", "--pgdata"])
            .arg(self.data(standby)))?;
        self.primary = standby;
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in 0..2 {
            let data = self.data(node);
            if data.join("postmaster.pid").exists() {
                let mut stop = self.program("pg_ctl");
                stop.args(["stop", "--silent", "--mode", "immediate", "--pgdata"]).arg(data);
                // What cannot be stopped is dead already.
                let _ = run(&mut stop);
            }
        }
    }
}

/// Every process of a server works in its data folder, and nobody else does. One that was missed would keep the
/// server's memory, and the next server in that folder would refuse to start.
fn at_work_in(data: &Path) -> Result<Vec<Pid>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let id = entry.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        let is_there = fs::read_link(entry.path().join("cwd")).is_ok_and(|place| place == data);
        processes.extend(id.filter(|_| is_there));
    }
    Ok(processes)
}

pub(crate) fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

pub(crate) fn binaries() -> Result<PathBuf> {
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output()
        && output.status.success()
        && Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("initdb").exists()
    {
        return Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    let versions = fs::read_dir("/usr/lib/postgresql").context("PostgreSQL is not installed")?;
    let newest = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).max();
    newest.context("PostgreSQL is not installed")
}

fn until_true(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let came = waits::until(|| Ok(holds()?.then_some(())))?;
    came.with_context(|| format!("waited in vain for {what}"))
}

fn run(command: &mut Command) -> Result<()> {
    // A server that is started keeps what it is given, so it is given nothing.
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = quiet.status().with_context(|| format!("start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
