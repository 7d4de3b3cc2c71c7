//! A PostgreSQL server of one test's own, for what the shared one cannot be: encrypted, restarted, full,
//! carelessly set up. It ends with the test, and also if the test is killed.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use super::server::{binaries, is_root, program, run};

/// Ends the server when the test's process is gone.
const WATCHDOG: &str = r#"
while [ -d "/proc/$1" ]; do sleep 2; done
"$2/pg_ctl" stop --silent --mode immediate --pgdata "$3"
rm -rf "$4"
"#;

/// How often another port is tried because somebody was faster.
const PORTS_TRIED: usize = 5;

pub(crate) struct PrivateServer {
    folder: TempDir,
    data: PathBuf,
    binaries: PathBuf,
    options: String,
    pub(crate) port: u16,
}

impl PrivateServer {
    /// `options` as on the server's command line.
    pub(crate) fn start(options: &str) -> Self {
        Self::start_in(options, None, |_| {})
    }

    /// With its data on another volume (its log stays here), and after `prepare` has seen the folder of its data.
    pub(crate) fn start_in(
        options: &str,
        volume: Option<&Path>,
        prepare: impl FnOnce(&Path),
    ) -> Self {
        let folder = tempfile::Builder::new().prefix("tenure-own-pg").tempdir().unwrap();
        give(folder.path());
        let data = volume.unwrap_or(folder.path()).join("data");
        let binaries = binaries();
        run(program(&binaries, "initdb")
            .args(["--auth", "trust", "--username", "postgres", "--no-sync", "--encoding", "UTF8"])
            .args(["--locale", "C.UTF-8", "--waldir"])
            .arg(folder.path().join("wal"))
            .arg("--pgdata")
            .arg(&data));
        prepare(&data);
        let options = options.to_owned();
        let mut server = Self { folder, data, binaries, options, port: 0 };
        server.find_port();
        server.watch();
        server
    }

    fn find_port(&mut self) {
        for _ in 0..PORTS_TRIED {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            self.port = free.local_addr().unwrap().port();
            drop(free);
            if self.try_start() {
                return;
            }
        }
        panic!("the server does not start: {}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn try_start(&self) -> bool {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={} \
             -c shared_buffers=32MB -c autovacuum=off {}",
            self.port,
            self.folder.path().display(),
            self.options
        );
        let mut start = program(&self.binaries, "pg_ctl");
        start.args(["start", "--silent", "--wait", "--timeout", "120", "--log"]);
        start.arg(self.folder.path().join("log")).arg("--options").arg(options);
        start.arg("--pgdata").arg(&self.data).current_dir("/");
        let quiet = start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().unwrap().success()
    }

    #[expect(clippy::zombie_processes, reason = "the watchdog outlives the test")]
    fn watch(&self) {
        let mut watchdog = Command::new("setsid");
        if is_root() {
            watchdog.args(["runuser", "-u", "postgres", "--"]);
        }
        watchdog.args(["sh", "-c", WATCHDOG, "watchdog"]).arg(std::process::id().to_string());
        watchdog.arg(&self.binaries).arg(&self.data).arg(self.folder.path());
        let quiet = watchdog.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.current_dir("/").spawn().unwrap();
    }

    pub(crate) fn stop(&self, mode: &str) {
        run(program(&self.binaries, "pg_ctl")
            .args(["stop", "--silent", "--wait", "--timeout", "120", "--mode", mode, "--pgdata"])
            .arg(&self.data));
    }

    pub(crate) fn start_again(&self) {
        assert!(self.try_start(), "the server does not start again: {}", self.log());
    }

    pub(crate) fn socket_url(&self) -> String {
        format!("host={} port={} user=postgres", self.folder.path().display(), self.port)
    }

    pub(crate) fn tcp_url(&self, host: &str) -> String {
        format!("host={host} port={} user=postgres", self.port)
    }

    /// A session of the administrator.
    pub(crate) async fn client(&self) -> Client {
        let (client, connection) =
            tokio_postgres::connect(&self.socket_url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        let mut stop = program(&self.binaries, "pg_ctl");
        stop.args(["stop", "--silent", "--mode", "immediate", "--pgdata"]).arg(&self.data);
        let quiet = stop.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A server that a test has stopped already.
        let _ = quiet.current_dir("/").status();
    }
}

/// Gives a file or folder to the user that the server runs as, and to nobody else.
pub(crate) fn give(path: &Path) {
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    if is_root() {
        run(Command::new("chown").arg("postgres").arg(path));
    }
}

/// A small volume in memory, in a mount namespace of its own, which the server's user reaches through `/proc`. It
/// needs no rights where users may make namespaces, and it is gone with its keeper.
pub(crate) struct SmallVolume {
    keeper: std::process::Child,
    folder: TempDir,
}

impl SmallVolume {
    pub(crate) fn mount(bytes: usize) -> Self {
        let folder = tempfile::Builder::new().prefix("tenure-volume").tempdir().unwrap();
        give(folder.path());
        let mount =
            r#"mount -t tmpfs -o "size=$1,mode=0700" tmpfs "$2" && echo mounted && exec cat"#;
        let mut keeper = program(Path::new("/usr/bin"), "unshare");
        keeper.args(["--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]);
        keeper.arg(bytes.to_string()).arg(folder.path()).current_dir("/");
        keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut keeper = keeper.spawn().unwrap();
        let mut line = String::new();
        let said = keeper.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).unwrap();
        assert_eq!(
            line.trim(),
            "mounted",
            "this test mounts a small volume and may not: allow user namespaces \
             (sysctl kernel.unprivileged_userns_clone=1)"
        );
        Self { keeper, folder }
    }

    /// The process that holds the namespace: the keeper itself, or what it started as another user.
    fn holder(&self) -> u32 {
        let mut id = self.keeper.id();
        loop {
            let children = format!("/proc/{id}/task/{id}/children");
            let children = fs::read_to_string(children).unwrap_or_default();
            match children.split_whitespace().next().and_then(|child| child.parse().ok()) {
                Some(child) => id = child,
                None => return id,
            }
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        let inside = self.folder.path().strip_prefix("/").unwrap().to_owned();
        Path::new("/proc").join(self.holder().to_string()).join("root").join(inside)
    }
}

impl SmallVolume {
    /// Takes room away, as the server's user: nobody else is known there.
    pub(crate) fn lay_ballast(&self, bytes: usize) {
        let ballast = self.path().join("ballast");
        run(program(Path::new("/usr/bin"), "fallocate")
            .args(["-l", &bytes.to_string()])
            .arg(ballast));
    }

    pub(crate) fn drop_ballast(&self) {
        run(program(Path::new("/bin"), "rm").arg(self.path().join("ballast")));
    }
}

impl Drop for SmallVolume {
    fn drop(&mut self) {
        // Without its input the keeper ends.
        drop(self.keeper.stdin.take());
        self.keeper.wait().expect("it is ours");
    }
}
