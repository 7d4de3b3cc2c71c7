//! A small disk in memory (tmpfs), mounted in a separate mount namespace. It needs no root where user namespaces are
//! allowed, and it disappears with its processes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::waits;

pub const DISK_BYTES: usize = 16 << 20;
/// The size of the file that is deleted when space is needed. It takes most of the disk, because a WAL is
/// checkpointed into the database before it is truncated, so both need space for a moment.
const BALLAST_BYTES: usize = 12 << 20;

/// A disk that is visible only to processes in its namespace.
pub struct SmallDisk {
    keeper: Child,
    mounted_at: PathBuf,
    rights: Rights,
}

#[derive(Clone, Copy, Debug)]
enum Rights {
    /// A user namespace as well, in which any user may mount.
    Anybody,
    Administrator,
}

impl Rights {
    fn unshare(self) -> &'static [&'static str] {
        match self {
            Rights::Anybody => &["--user", "--map-root-user", "--mount"],
            Rights::Administrator => &["--mount"],
        }
    }

    fn enter(self) -> &'static [&'static str] {
        match self {
            Rights::Anybody => &["--user", "--preserve-credentials", "--mount"],
            Rights::Administrator => &["--mount"],
        }
    }

    fn are_enough(self) -> bool {
        let tried =
            Command::new("unshare").args(self.unshare()).arg("true").stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    }
}

impl SmallDisk {
    pub fn mount(at: &Path) -> Result<SmallDisk> {
        fs::create_dir(at)?;
        let rights =
            [Rights::Anybody, Rights::Administrator].into_iter().find(|rights| rights.are_enough());
        let rights = rights.context(
            "a small disk cannot be mounted: allow user namespaces (sysctl kernel.unprivileged_userns_clone=1) or run as root",
        )?;
        let mount = r#"mount -t tmpfs -o "size=$1" tmpfs "$2" && echo mounted && exec cat"#;
        let mut command = Command::new("unshare");
        command.args(rights.unshare()).args(["sh", "-c", mount, "sh"]);
        command.arg(DISK_BYTES.to_string()).arg(at).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = command.spawn()?;
        let said = waits::first_line(&mut keeper, "the small disk")?;
        ensure!(said.trim() == "mounted", "the small disk was not mounted");
        Ok(SmallDisk { keeper, mounted_at: at.to_owned(), rights })
    }

    /// The mount point inside the namespace.
    pub fn inside(&self) -> &Path {
        &self.mounted_at
    }

    /// The path of a file as seen from outside the namespace.
    pub fn outside(&self, name: &str) -> PathBuf {
        let inside = self.mounted_at.strip_prefix("/").unwrap_or(&self.mounted_at).join(name);
        Path::new("/proc").join(self.keeper.id().to_string()).join("root").join(inside)
    }

    /// A command that runs inside the namespace.
    pub fn enter(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.keeper.id().to_string()])
            .args(self.rights.enter())
            .arg(program);
        command
    }

    pub fn lay_ballast(&self) -> Result<()> {
        let mut ballast = fs::File::create(self.outside("ballast"))?;
        Ok(ballast.write_all(&vec![0; BALLAST_BYTES])?)
    }

    pub fn drop_ballast(&self) -> Result<()> {
        Ok(fs::remove_file(self.outside("ballast"))?)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}
