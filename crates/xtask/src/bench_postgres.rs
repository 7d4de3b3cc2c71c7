//! `cargo xtask bench-postgres`: the benchmark against a PostgreSQL server of its own, started for it and removed
//! afterwards.
//!
//! As durable as PostgreSQL is by default: every commit waits for the disk. The server refuses to run as
//! root, so as root it is run as another user.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::steps;

/// What an operator of a small machine would set. Durability is the default's, and said all the same.
const SETTINGS: &str = "-c listen_addresses='' -c fsync=on -c synchronous_commit=on \
    -c full_page_writes=on -c shared_buffers=512MB -c max_wal_size=4GB";

pub(crate) fn run(root: &Path, more: &[&str]) -> Result<()> {
    let cluster = Cluster::start()?;
    let url = format!("postgres:///postgres?host={}&user=postgres", cluster.folder.display());
    let bench = ["run", "--release", "--package", "tenure", "--", "bench", "--store", &url];
    steps::cargo(root, "benchmark", &[&bench, more].concat())
}

/// A server with its data, both gone with this value.
struct Cluster {
    binaries: PathBuf,
    folder: PathBuf,
}

impl Cluster {
    fn start() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("tenure-bench-pg-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let cluster = Self { binaries: binaries()?, folder };
        if is_root() {
            run_quietly(Command::new("chown").arg("postgres").arg(&cluster.folder))?;
        }
        let mut make = cluster.program("initdb");
        make.args(["--auth", "trust", "--username", "postgres", "--no-sync", "--encoding", "UTF8"]);
        run_quietly(make.args(["--locale", "C.UTF-8", "--pgdata"]).arg(cluster.data()))?;
        let options = format!("{SETTINGS} -c unix_socket_directories={}", cluster.folder.display());
        let mut start = cluster.program("pg_ctl");
        start.args(["start", "--silent", "--wait", "--log", "/dev/null", "--options"]);
        run_quietly(start.arg(options).arg("--pgdata").arg(cluster.data()))?;
        Ok(cluster)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// A program of PostgreSQL's, as a user it accepts.
    fn program(&self, name: &str) -> Command {
        let path = self.binaries.join(name);
        if !is_root() {
            return Command::new(path);
        }
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(path);
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = self.program("pg_ctl");
        stop.args(["stop", "--silent", "--mode", "immediate", "--pgdata"]).arg(self.data());
        // Nobody is left to tell; the folder's name says what it was.
        let _ = run_quietly(&mut stop);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout == b"0\n")
}

fn binaries() -> Result<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output();
    if let Ok(output) = output
        && output.status.success()
    {
        return Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .context("PostgreSQL is not installed: apt-get install postgresql")?;
    let newest = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).max();
    newest.context("no version of PostgreSQL is installed: apt-get install postgresql")
}

fn run_quietly(command: &mut Command) -> Result<()> {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = quiet.current_dir("/").status().with_context(|| format!("start {quiet:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
