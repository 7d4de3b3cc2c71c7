//! A PostgreSQL server for one test, with the durability of production, that can die.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::server::{binaries, is_root, make_folder, program, run};

pub(crate) struct Alone {
    folder: TempDir,
    binaries: PathBuf,
    settings: String,
}

impl Alone {
    pub(crate) fn start(settings: &str) -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        make_folder(folder.path());
        if is_root() {
            run(Command::new("chmod").arg("755").arg(folder.path()));
        }
        let settings = format!(
            "{settings} -c listen_addresses='' -c log_min_messages=fatal -c unix_socket_directories={}",
            folder.path().display()
        );
        let alone = Self { folder, binaries: binaries(), settings };
        run(program(&alone.binaries, "initdb")
            .args(["--auth", "trust", "--username", "postgres", "--no-sync"])
            .args(["--encoding", "UTF8", "--locale", "C.UTF-8", "--pgdata"])
            .arg(alone.data()));
        alone.rise();
        alone
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn url(&self) -> String {
        format!("host={} user=postgres dbname=postgres", self.folder.path().display())
    }

    pub(crate) fn rise(&self) {
        run(program(&self.binaries, "pg_ctl")
            .args(["start", "--silent", "--wait", "--timeout", "240", "--log", "/dev/null"])
            .args(["--options", &self.settings, "--pgdata"])
            .arg(self.data()));
    }

    /// All its processes end at once; what was not written is lost.
    pub(crate) fn die(&self) {
        run(program(&self.binaries, "pg_ctl")
            .args(["stop", "--silent", "--mode", "immediate", "--pgdata"])
            .arg(self.data()));
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.die();
    }
}
