//! One server for many short-lived processes, such as tests that each run in a separate process.
//!
//! The first process that needs the server creates it in the temporary folder. A watchdog stops and removes it when
//! it has not been used for a while. Every user holds a shared lock on a file in the meantime. Commits do not wait
//! for the disk: tests here check what an engine returns and stores, not power loss.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::programs::{Programs, USER, as_user, give_to_server_user, run};
use crate::{Error, Result};

const SETTINGS: &str = "-c listen_addresses='' -c fsync=off -c full_page_writes=off \
    -c synchronous_commit=off -c max_connections=300 -c shared_buffers=64MB -c autovacuum=off \
    -c log_min_messages=fatal";

/// Ends the server when the lock was free in several checks in a row. The lock files belong to the user that runs the
/// tests. The watchdog may run as another user, so it opens them for reading only.
const WATCH: &str = r#"
idle=0
while [ $idle -lt 4 ]; do
  sleep 5
  if flock --exclusive --nonblock "$1/users.lock" true; then idle=$((idle + 1)); else idle=0; fi
done
exec 8<"$1/start.lock"
flock --exclusive 8
if flock --exclusive --nonblock "$1/users.lock" true; then
  "$2/pg_ctl" stop --silent --mode immediate --pgdata "$1/data"
  rm -rf "$1/data"
fi
"#;

/// A share in the server, which runs while at least one exists.
pub struct Shared {
    folder: PathBuf,
    _use: File,
}

impl Shared {
    /// Finds or starts the server that all processes with the same name and user share.
    pub fn find_or_start(name: &str) -> Result<Shared> {
        let mut hasher = DefaultHasher::new();
        (name, rustix::process::getuid().as_raw()).hash(&mut hasher);
        let folder = std::env::temp_dir().join(format!("tenure-pg-{:x}", hasher.finish()));
        std::fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
        give_to_server_user(&folder)?;
        let starting = lock_file(&folder.join("start.lock"))?;
        starting.lock().map_err(Error::file(&folder))?;
        let using = lock_file(&folder.join("users.lock"))?;
        using.lock_shared().map_err(Error::file(&folder))?;
        let programs = Programs::find()?;
        if !is_running(&folder, &programs) {
            start(&folder, &programs)?;
        }
        Ok(Shared { folder, _use: using })
    }

    /// The folder of its socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A libpq connection string.
    pub fn conninfo(&self, database: &str) -> String {
        format!("host={} user={USER} dbname={database}", self.folder.display())
    }
}

fn lock_file(path: &Path) -> Result<File> {
    File::create(path).map_err(Error::file(path))
}

fn is_running(folder: &Path, programs: &Programs) -> bool {
    let mut status = programs.command("pg_ctl");
    run(status.arg("status").arg("--pgdata").arg(folder.join("data"))).is_ok()
}

fn start(folder: &Path, programs: &Programs) -> Result<()> {
    let (data, log) = (folder.join("data"), folder.join("log"));
    // Left over from a machine that went down: nothing in it is worth keeping.
    if data.exists() {
        std::fs::remove_dir_all(&data).map_err(Error::file(&data))?;
    }
    run(&mut programs.initdb(&data))?;
    let options = format!("{SETTINGS} -c unix_socket_directories={}", folder.display());
    run(&mut programs.start(&data, &log, &options)).map_err(|source| Error::NoStart {
        log: std::fs::read_to_string(&log).unwrap_or_default(),
        source: Box::new(source),
    })?;
    watch(folder, programs)
}

fn watch(folder: &Path, programs: &Programs) -> Result<()> {
    let shell = as_user(Path::new("sh"));
    let mut watch = Command::new("setsid");
    watch.arg(shell.get_program()).args(shell.get_args()).current_dir("/");
    watch.args(["-c", WATCH, "watchdog"]).arg(folder).arg(programs.folder());
    watch.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let command = "setsid".to_owned();
    watch.spawn().map(drop).map_err(|source| Error::Start { command, source })
}
