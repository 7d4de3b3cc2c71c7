//! A volume that fills up soon.
//!
//! It is a tmpfs in a private mount namespace, which the server's user reaches through `/proc`. It needs no
//! privileges where users may create namespaces, and it disappears with its keeper process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use tempfile::TempDir;

use crate::programs::{as_user, bounded, give_to_server_user, run};
use crate::{Error, Result};

const MOUNT: &str =
    r#"mount -t tmpfs -o "size=$1,mode=0700" tmpfs "$2" && echo mounted && exec cat"#;

pub struct SmallVolume {
    keeper: Child,
    folder: TempDir,
}

impl SmallVolume {
    pub fn mount(bytes: usize) -> Result<SmallVolume> {
        let folder = tempfile::Builder::new().prefix("tenure-volume-").tempdir();
        let folder = folder.map_err(Error::file(std::env::temp_dir()))?;
        give_to_server_user(folder.path())?;
        let mut keeper = as_user(Path::new("/usr/bin/unshare"));
        keeper.args(["--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh"]);
        keeper.arg(bytes.to_string()).arg(folder.path());
        keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut keeper = keeper
            .spawn()
            .map_err(|source| Error::Start { command: "unshare".to_owned(), source })?;
        let said = keeper.stdout.take().expect("its output is piped");
        let mut line = String::new();
        let read = BufReader::new(said).read_line(&mut line);
        let volume = SmallVolume { keeper, folder };
        match read {
            Ok(_) if line.trim() == "mounted" => Ok(volume),
            _ => Err(Error::NoVolume),
        }
    }

    /// The process that holds the namespace: the keeper, or its child that runs as another user.
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

    pub fn path(&self) -> PathBuf {
        let inside =
            self.folder.path().strip_prefix("/").expect("a temporary folder's path is whole");
        Path::new("/proc").join(self.holder().to_string()).join("root").join(inside)
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Takes up space, as the server's user: the namespace maps no other user.
    pub fn lay_ballast(&self, bytes: usize) -> Result<()> {
        let mut fallocate = bounded(Path::new("/usr/bin/fallocate"));
        run(fallocate.args(["-l", &bytes.to_string()]).arg(self.ballast())).map(drop)
    }

    pub fn drop_ballast(&self) -> Result<()> {
        run(bounded(Path::new("/bin/rm")).arg(self.ballast())).map(drop)
    }
}

impl Drop for SmallVolume {
    fn drop(&mut self) {
        // The keeper exits when its input closes.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
