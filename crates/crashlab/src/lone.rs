//! One PostgreSQL server of the lab's own, without a standby, with the durability of production, that can be cut, locked and restarted.
//!
//! It refuses to run as root, so as root it runs as the user that its package made. It listens on a socket in its
//! own folder and on no port.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::cluster::{binaries, is_root};
use crate::waits;

/// Three coordinators, their readers, and whoever looks.
const SETTINGS: &str = "-c listen_addresses='' -c max_connections=100 -c shared_buffers=64MB \
    -c log_min_messages=fatal";

/// Whom its package made to run it.
const USER: &str = "postgres";

/// Sessions of coordinators, whatever each is called.
const SESSIONS: &str =
    "FROM pg_stat_activity WHERE application_name LIKE 'tenure %' AND pid <> pg_backend_pid()";

pub struct LoneDatabase {
    folder: TempDir,
    programs: PathBuf,
}

impl LoneDatabase {
    pub fn start() -> Result<LoneDatabase> {
        let folder = tempfile::Builder::new().prefix("tenure-lab-pg").tempdir()?;
        if is_root() {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
            let mut command = Command::new("chown");
            succeed(command.arg(USER).arg(folder.path()))?;
        }
        let cluster = LoneDatabase { folder, programs: binaries()? };
        let mut make = cluster.program("initdb");
        make.args(["--auth", "trust", "--username", USER, "--no-sync", "--encoding", "UTF8"]);
        succeed(make.args(["--locale", "C.UTF-8", "--pgdata"]).arg(cluster.data()))?;
        cluster.rise()?;
        Ok(cluster)
    }

    /// As `--store` takes it.
    pub fn url(&self) -> String {
        let folder = self.folder.path().to_string_lossy().replace('/', "%2F");
        format!("postgres://{USER}@{folder}/postgres")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A program of PostgreSQL's, as a user it accepts.
    fn program(&self, name: &str) -> Command {
        let path = self.programs.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", USER, "--"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        command.current_dir("/");
        command
    }

    pub fn rise(&self) -> Result<()> {
        let folder = self.folder.path().display();
        let options = format!("{SETTINGS} -c unix_socket_directories={folder}");
        let mut control = self.program("pg_ctl");
        control.args(["start", "--silent", "--wait", "--timeout", "240", "--log", "/dev/null"]);
        succeed(control.args(["--options", &options, "--pgdata"]).arg(self.data()))
    }

    /// Every process of it dies at once; nothing is written that was not written before.
    pub fn fall(&self) -> Result<()> {
        let mut control = self.program("pg_ctl");
        control.args(["stop", "--silent", "--wait", "--mode", "immediate", "--pgdata"]);
        succeed(control.arg(self.data()))
    }

    /// Every session of every coordinator ends.
    pub fn cut_connections(&self) -> Result<()> {
        self.tell(&format!("SELECT count(pg_terminate_backend(pid)) {SESSIONS}"))
    }

    /// Every statement that runs is ended as one that took too long.
    pub fn time_statements_out(&self) -> Result<()> {
        self.tell(&format!("SELECT count(pg_cancel_backend(pid)) {SESSIONS} AND state = 'active'"))
    }

    /// Holds the table of live tasks for so many seconds, so that whoever wants to write waits for its lock.
    pub fn hold_table(&self, seconds: u32) -> Result<()> {
        self.tell(&format!(
            "BEGIN; LOCK TABLE tenure.live IN SHARE MODE; SELECT pg_sleep({seconds}); COMMIT"
        ))
    }

    fn tell(&self, text: &str) -> Result<()> {
        succeed(&mut self.shell(text))
    }

    fn shell(&self, text: &str) -> Command {
        let mut command = self.program("psql");
        command.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--username", USER]);
        command.arg("--host").arg(self.folder.path()).args(["--command", text]);
        command
    }
}

impl Drop for LoneDatabase {
    fn drop(&mut self) {
        // Nothing of it is wanted any more; the folder goes with it.
        let _ = self.fall();
    }
}

fn succeed(command: &mut Command) -> Result<()> {
    let ran = waits::run(command)?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "{command:?} failed ({}): {said}", ran.status);
    Ok(())
}
