//! Stops a server whose owner is gone, whether it exited or was killed.
//!
//! The watchdog reads from a pipe that is never written to. When the owner drops its end, or is killed, the pipe
//! closes.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::programs::{Programs, as_user};
use crate::{Error, Result};

const WATCH: &str = r#"
cat >/dev/null
"$1/pg_ctl" stop --silent --mode immediate --pgdata "$2"
rm -rf "$3"
"#;

pub(crate) struct Watchdog {
    process: Child,
}

impl Watchdog {
    pub(crate) fn over(programs: &Programs, data: &Path, folder: &Path) -> Result<Watchdog> {
        let shell = as_user(Path::new("sh"));
        // A separate session: an interrupt at the keyboard that ends a test must not end its watchdog.
        let mut watch = Command::new("setsid");
        watch.arg(shell.get_program()).args(shell.get_args()).current_dir("/");
        watch.args(["-c", WATCH, "watchdog"]).arg(programs.folder()).arg(data).arg(folder);
        watch.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = watch
            .spawn()
            .map_err(|source| Error::Start { command: "setsid".to_owned(), source })?;
        Ok(Watchdog { process })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Closes the pipe, and returns when nothing is left of the server.
        let _ = self.process.wait();
    }
}
