//! A PostgreSQL server for tests, shared by all of them, with a database for each.
//!
//! The first test that needs it makes a cluster in the temporary folder and starts it; a small watchdog
//! stops it and removes the cluster when no test has used it for a while. Every test holds a shared lock
//! on a file meanwhile. The server refuses to run as root, so as root it is run as another user.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, mpsc};

use tokio_postgres::NoTls;

/// Nobody waits for the disk: what is tested here is what the engine says and keeps, not the loss of power.
const SETTINGS: &str = "-c listen_addresses='' -c fsync=off -c full_page_writes=off \
    -c synchronous_commit=off -c max_connections=300 -c shared_buffers=64MB -c autovacuum=off \
    -c log_min_messages=fatal";

/// Ends the server when nobody has held the lock for a few looks in a row. The files of locks belong to whoever
/// runs the tests, so the watchdog, who may be another user, opens them for reading only.
const WATCHDOG: &str = r#"
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

struct Server {
    folder: PathBuf,
    _use: File,
}

static SERVER: LazyLock<Server> = LazyLock::new(Server::find_or_start);

impl Server {
    fn find_or_start() -> Self {
        let mut hasher = DefaultHasher::new();
        (env!("CARGO_MANIFEST_DIR"), rustix::process::getuid().as_raw()).hash(&mut hasher);
        let folder = std::env::temp_dir().join(format!("tenure-pg-{:x}", hasher.finish()));
        make_folder(&folder);
        let starting = File::create(folder.join("start.lock")).expect("a lock file can be made");
        starting.lock().expect("the lock is given sooner or later");
        let using = File::create(folder.join("users.lock")).expect("a lock file can be made");
        using.lock_shared().expect("the lock is given sooner or later");
        let binaries = binaries();
        if !is_running(&folder, &binaries) {
            start(&folder, &binaries);
        }
        Self { folder, _use: using }
    }

    fn url(&self, database: &str) -> String {
        format!("host={} user=postgres dbname={database}", self.folder.display())
    }
}

pub(crate) fn make_folder(folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder can be made");
    if is_root() {
        run(Command::new("chown").arg("postgres").arg(folder));
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

pub(crate) fn binaries() -> PathBuf {
    let output = Command::new("pg_config").arg("--bindir").output();
    if let Ok(output) = output
        && output.status.success()
    {
        return PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let newest = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).max();
    newest.expect("some version of PostgreSQL is installed")
}

/// A program of PostgreSQL's, as a user it accepts.
pub(crate) fn program(binaries: &Path, name: &str) -> Command {
    let path = binaries.join(name);
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(path);
    command
}

pub(crate) fn run(command: &mut Command) {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = quiet.current_dir("/").status().expect("the program starts");
    assert!(status.success(), "{command:?} failed: {status}");
}

fn is_running(folder: &Path, binaries: &Path) -> bool {
    let mut status = program(binaries, "pg_ctl");
    status.arg("status").arg("--pgdata").arg(folder.join("data")).current_dir("/");
    let quiet = status.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().expect("the program starts").success()
}

#[expect(clippy::zombie_processes, reason = "the watchdog outlives whoever starts it")]
fn start(folder: &Path, binaries: &Path) {
    let data = folder.join("data");
    // Left over from a machine that went down: nothing in it is worth keeping.
    if data.exists() {
        std::fs::remove_dir_all(&data).expect("an old cluster can be removed");
    }
    run(program(binaries, "initdb")
        .args(["--auth", "trust", "--username", "postgres", "--no-sync", "--encoding", "UTF8"])
        .args(["--locale", "C.UTF-8", "--pgdata"])
        .arg(&data));
    let options = format!("{SETTINGS} -c unix_socket_directories={}", folder.display());
    run(program(binaries, "pg_ctl")
        .args([
            "start",
            "--silent",
            "--wait",
            "--timeout",
            "120",
            "--log",
            "/dev/null",
            "--options",
        ])
        .arg(options)
        .arg("--pgdata")
        .arg(&data));
    let mut watchdog = Command::new("setsid");
    if is_root() {
        watchdog.args(["runuser", "-u", "postgres", "--"]);
    }
    watchdog.args(["sh", "-c", WATCHDOG, "watchdog"]).arg(folder).arg(binaries);
    let quiet = watchdog.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.current_dir("/").spawn().expect("the watchdog starts");
}

/// A database of its own, dropped with this value.
pub(crate) struct Database {
    name: String,
    url: String,
}

impl Database {
    pub(crate) fn create() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let name = format!("t_{}_{number}", std::process::id());
        administer(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        administer(format!("CREATE DATABASE {name}"));
        let url = SERVER.url(&name);
        Self { name, url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where the server's socket is.
    pub(crate) fn folder(&self) -> PathBuf {
        SERVER.folder.clone()
    }

    /// The address for whoever reaches the server through another folder.
    pub(crate) fn url_through(&self, folder: &str) -> String {
        format!("host={folder} user=postgres dbname={}", self.name)
    }

    /// As a restart of the server would: every session of this database ends.
    pub(crate) async fn end_all_connections(&self) {
        administer(format!(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        ));
    }

    /// Waits until no transaction is open in this database.
    pub(crate) async fn settle(&self) {
        let (client, connection) =
            tokio_postgres::connect(&self.url, NoTls).await.expect("it is up");
        let connection = tokio::spawn(connection);
        let open = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() \
            AND xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        while !client.query(open, &[]).await.expect("it answers").is_empty() {
            tokio::task::yield_now().await;
        }
        drop(client);
        connection.await.expect("the connection's task ends").expect("it ends well");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        administer(format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// Runs one statement on the server, on a thread of its own: callers may be inside a runtime.
fn administer(sql: String) {
    let url = SERVER.url("postgres");
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be made").block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&url, NoTls).await.expect("it is up");
            let connection = tokio::spawn(connection);
            client.batch_execute(&sql).await.expect("the server does what it is told");
            drop(client);
            connection.await.expect("the connection's task ends").expect("it ends well");
        });
        done.send(()).expect("somebody waits");
    });
    wait.recv().expect("the thread has not panicked");
}
