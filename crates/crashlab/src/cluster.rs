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
        run(self
            .program("pg_ctl")
            .args(["start", "--silent", "--wait", "--timeout", "120", "--log", "/dev/null"])
            .arg("--options")
            .arg(options)
            .arg("--pgdata")
            .arg(self.data(node)))
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
        let file = fs::read_to_string(self.data(self.primary).join("postmaster.pid"))?;
        let id = file.lines().next().and_then(|line| line.trim().parse().ok());
        let parent = id.and_then(Pid::from_raw).context("a server notes its process")?;
        // Stopped first, so that it starts nobody while its children are counted.
        kill_process(parent, Signal::STOP)?;
        let children = children_of(parent)?;
        kill_process(parent, Signal::KILL)?;
        for child in children {
            // Some end by themselves when they see their parent gone.
            let _ = kill_process(child, Signal::KILL);
        }
        Ok(())
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

fn children_of(parent: Pid) -> Result<Vec<Pid>> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name may hold anything, so the fields are what follows its last parenthesis.
        let of = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        let id = entry.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        if of == Some(parent.as_raw_nonzero().get()) {
            children.extend(id);
        }
    }
    Ok(children)
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
