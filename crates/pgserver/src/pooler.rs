//! pgbouncer in transaction mode in front of a server: each transaction may run in another server session.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::processes::until;
use crate::programs::{USER, give_to_server_user, is_root};
use crate::{Error, Result};

const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// Part of the socket's name; the pooler listens on no TCP port.
const PORT: u16 = 6432;

/// Number of server sessions that all clients share: fewer than a single coordinator would use.
const SESSIONS: usize = 2;

pub struct Pooler {
    process: Child,
    folder: TempDir,
}

impl Pooler {
    pub fn is_installed() -> bool {
        Path::new(PROGRAM).exists()
    }

    /// Starts a pooler for one database of the server whose socket is in a folder.
    pub fn start(server: &Path, database: &str) -> Result<Pooler> {
        if !Pooler::is_installed() {
            return Err(Error::PoolerMissing);
        }
        let folder = tempfile::Builder::new().prefix("tenure-pool-").tempdir();
        let folder = folder.map_err(Error::file(std::env::temp_dir()))?;
        give_to_server_user(folder.path())?;
        let settings = folder.path().join("pgbouncer.ini");
        fs::write(&settings, text(server, database, folder.path()))
            .map_err(Error::file(&settings))?;
        give_to_server_user(&settings)?;
        let process = spawn(&settings)?;
        let pooler = Pooler { process, folder };
        let socket = pooler.folder.path().join(format!(".s.PGSQL.{PORT}"));
        until("the pooler to listen", || Ok(UnixStream::connect(&socket).is_ok()))?;
        Ok(pooler)
    }

    /// A libpq connection string.
    pub fn conninfo(&self) -> String {
        format!("host={} port={PORT} user={USER} dbname=any", self.folder.path().display())
    }
}

fn text(server: &Path, database: &str, folder: &Path) -> String {
    let (server, folder) = (server.display(), folder.display());
    format!(
        "[databases]\n* = user={USER} dbname={database} host={server}\n[pgbouncer]\nlisten_addr =\n\
         unix_socket_dir = {folder}\nlisten_port = {PORT}\nauth_type = any\nlogfile = {folder}/log\n\
         pool_mode = transaction\ndefault_pool_size = {SESSIONS}\nmax_client_conn = 100\n\
         ignore_startup_parameters = extra_float_digits\n"
    )
}

fn spawn(settings: &Path) -> Result<Child> {
    let mut command = Command::new(PROGRAM);
    if is_root() {
        // pgbouncer switches to this user on its own.
        command.args(["-u", USER]);
    }
    command.arg(settings).current_dir("/");
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().map_err(|source| Error::Start { command: PROGRAM.to_owned(), source })
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
