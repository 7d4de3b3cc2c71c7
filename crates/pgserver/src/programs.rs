//! The PostgreSQL programs on this machine: where they are, which user runs them, and a time limit for each.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::{Error, Result};

/// The user that the package creates to run the server, and the name of every server's administrator here.
pub(crate) const USER: &str = "postgres";

/// Longer than any program here takes on a machine that has a tenth of a core to spare.
const PATIENCE_SECONDS: u32 = 300;

/// How long a server may take to become ready, in seconds: after a crash it first replays its WAL.
pub(crate) const READY_SECONDS: &str = "240";

/// Where Debian puts each version, in a folder with its number.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Where the programs of one version of PostgreSQL are.
#[derive(Clone, Debug)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// The version that `pg_config` names, if its server is installed; otherwise the newest.
    pub fn find() -> Result<Programs> {
        let configured = configured().into_iter();
        let folder = configured.chain(newest()).find(|folder| folder.join("initdb").exists());
        folder.map(|folder| Programs { folder }).ok_or(Error::Missing)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates the data folder of an empty server.
    pub(crate) fn initdb(&self, data: &Path) -> Command {
        let mut initdb = self.command("initdb");
        initdb.args(["--auth", "trust", "--username", USER, "--no-sync", "--encoding", "UTF8"]);
        initdb.args(["--locale", "C.UTF-8", "--pgdata"]).arg(data);
        initdb
    }

    /// Starts a server, and returns when it accepts connections.
    pub(crate) fn start(&self, data: &Path, log: &Path, options: &str) -> Command {
        let mut start = self.command("pg_ctl");
        start.args(["start", "--silent", "--wait", "--timeout", READY_SECONDS, "--log"]).arg(log);
        start.args(["--options", options, "--pgdata"]).arg(data);
        start
    }

    /// A PostgreSQL program with a time limit, run as a user that PostgreSQL accepts.
    pub(crate) fn command(&self, name: &str) -> Command {
        bounded(&self.folder.join(name))
    }
}

fn configured() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    Some(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn newest() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN).ok()?.flatten();
    let numbered = versions.filter_map(|entry| {
        let number: u32 = entry.file_name().to_string_lossy().parse().ok()?;
        Some((number, entry.path().join("bin")))
    });
    Some(numbered.max()?.1)
}

pub(crate) fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// A program run as the server's user. It does not start in the current directory, which that user may not be able to
/// read.
pub(crate) fn as_user(program: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", USER, "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/");
    command
}

/// Like [`as_user`], but killed with all of its children when it takes too long.
pub(crate) fn bounded(program: &Path) -> Command {
    let inner = as_user(program);
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", &PATIENCE_SECONDS.to_string()]);
    command.arg(inner.get_program()).args(inner.get_args()).current_dir("/");
    command
}

/// Runs a program to its end, and returns its output.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let name = format!("{command:?}");
    let Output { status, stdout, stderr } = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Start { command: name.clone(), source })?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&stderr).trim().to_owned();
    Err(Error::Failed { command: name, status, said })
}

/// Gives a file or a folder to the user that the server runs as, with access for that user only.
pub fn give_to_server_user(path: &Path) -> Result<()> {
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(Error::file(path))?;
    if is_root() {
        run(Command::new("chown").arg(USER).arg(path))?;
    }
    Ok(())
}
