//! One server in its own folder: create, start, stop, kill, query.

use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::builder::{Builder, Listen};
use crate::programs::{Programs, READY_SECONDS, USER, give_to_server_user, run};
use crate::watchdog::Watchdog;
use crate::{Error, Result, processes};

/// How often another port is tried because another process took the last one.
const PORTS_TRIED: usize = 5;

/// The port in the name of the socket, for a server that does not listen on TCP.
const SOCKET_PORT: u16 = 5432;

/// How many lines of a log are reported.
const LOG_LINES_TOLD: usize = 20;

/// How a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Sessions are terminated, and all data is written.
    Fast,
    /// All of its processes end at once; unwritten data is lost.
    Immediate,
}

/// A server; stopped and removed when this value is dropped.
pub struct Server {
    programs: Programs,
    data: PathBuf,
    listen: Listen,
    port: u16,
    /// Stops the server when it is dropped, and removes the folder.
    _watchdog: Watchdog,
    folder: TempDir,
}

impl Server {
    pub fn builder<'prepare>() -> Builder<'prepare> {
        Builder::new()
    }

    pub(crate) fn make(builder: Builder<'_>) -> Result<Server> {
        let Builder { settings, listen, volume, prepare } = builder;
        let mut server = Server::in_new_folder(listen, volume.as_deref())?;
        let mut initdb = server.programs.initdb(&server.data);
        run(initdb.arg("--waldir").arg(server.path("wal")))?;
        server.write_settings(&settings)?;
        prepare(&server.data);
        server.start_on_free_port()?;
        Ok(server)
    }

    /// Creates an empty folder for a server.
    pub(crate) fn in_new_folder(listen: Listen, volume: Option<&Path>) -> Result<Server> {
        let programs = Programs::find()?;
        let folder = tempfile::Builder::new().prefix("tenure-pg-").tempdir();
        let folder = folder.map_err(Error::file(std::env::temp_dir()))?;
        give_to_server_user(folder.path())?;
        let data = volume.unwrap_or(folder.path()).join("data");
        let watchdog = Watchdog::over(&programs, &data, folder.path())?;
        Ok(Server { programs, data, listen, port: SOCKET_PORT, _watchdog: watchdog, folder })
    }

    fn write_settings(&self, settings: &[(String, String)]) -> Result<()> {
        let file = self.data.join("postgresql.conf");
        let mut text = fs::read_to_string(&file).map_err(Error::file(&file))?;
        for (name, value) in settings {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} = '{}'", value.replace('\'', "''"));
        }
        fs::write(&file, text).map_err(Error::file(&file))
    }

    pub(crate) fn start_on_free_port(&mut self) -> Result<()> {
        if self.listen == Listen::Socket {
            return self.start();
        }
        let mut last = None;
        for _ in 0..PORTS_TRIED {
            self.port = free_port()?;
            match self.start() {
                Ok(()) => return Ok(()),
                Err(failure) => last = Some(failure),
            }
        }
        Err(last.expect("some port was tried"))
    }

    /// Starts the server, for the first time or again, and returns when it accepts connections.
    pub fn start(&self) -> Result<()> {
        let addresses = match self.listen {
            Listen::Socket => "",
            Listen::Port => "127.0.0.1",
        };
        let options = format!(
            "-p {} -c listen_addresses='{addresses}' -c unix_socket_directories={}",
            self.port,
            self.folder().display()
        );
        match run(&mut self.programs.start(&self.data, &self.path("log"), &options)) {
            Ok(_) => Ok(()),
            Err(source) => Err(Error::NoStart { log: self.log(), source: Box::new(source) }),
        }
    }

    pub fn stop(&self, how: Stop) -> Result<()> {
        let mode = match how {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        let mut stop = self.programs.command("pg_ctl");
        stop.args(["stop", "--silent", "--wait", "--timeout", READY_SECONDS, "--mode", mode]);
        run(stop.arg("--pgdata").arg(&self.data)).map(drop)
    }

    /// Kills all of its processes at the same moment, as a crash of its machine does.
    pub fn kill(&self) -> Result<()> {
        processes::kill(&self.data)?;
        self.forget_processes()
    }

    /// Removes the lock files, as after a reboot. Both files name a process, and a killed process counts as alive
    /// until its parent has reaped it.
    fn forget_processes(&self) -> Result<()> {
        let socket = self.path(&format!(".s.PGSQL.{}.lock", self.port));
        for file in [self.data.join("postmaster.pid"), socket] {
            if file.exists() {
                fs::remove_file(&file).map_err(Error::file(&file))?;
            }
        }
        Ok(())
    }

    /// Promotes a standby.
    pub fn promote(&self) -> Result<()> {
        let mut promote = self.programs.command("pg_ctl");
        promote.args(["promote", "--silent", "--wait", "--timeout", READY_SECONDS, "--pgdata"]);
        run(promote.arg(&self.data)).map(drop)
    }

    /// Runs SQL as the administrator, and returns the result as text without a header.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String> {
        let mut psql = self.programs.command("psql");
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
        psql.args(["--set", "ON_ERROR_STOP=1", "--username", USER, "--host"]).arg(self.folder());
        run(psql.args(["--port", &self.port.to_string(), "--command", sql, database]))
    }

    /// Changes a setting of the whole server that needs no restart.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        self.sql("postgres", &format!("ALTER SYSTEM SET {name} = '{value}'"))?;
        self.sql("postgres", "SELECT pg_reload_conf()").map(drop)
    }

    /// The folder of its socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn programs(&self) -> &Programs {
        &self.programs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// A libpq connection string, through its socket.
    pub fn conninfo(&self, database: &str) -> String {
        let (folder, port) = (self.folder().display(), self.port);
        format!("host={folder} port={port} user={USER} dbname={database}")
    }

    /// A URL for `--store`, through its socket.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@{}:{}/{database}", self.host(), self.port)
    }

    /// The socket folder as the host of a URL.
    pub fn host(&self) -> String {
        self.folder().to_string_lossy().replace('/', "%2F")
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_TOLD)..].join("\n")
    }
}

fn free_port() -> Result<u16> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
    Ok(free.map_err(Error::file("127.0.0.1"))?.port())
}
