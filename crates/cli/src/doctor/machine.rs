//! Checks of this machine: the store's files and their permissions, disk space, open files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{Access, access, statvfs};
use rustix::process::{Resource, getrlimit};

use super::Check;
use crate::duration;

/// A store that grows by a day's work should not fill its disk during that day.
const FREE_BYTES_WARN: u64 = 1 << 30;

/// Below this a checkpoint of the WAL may fail.
const FREE_BYTES_FAIL: u64 = 128 << 20;

/// Every waiting worker and client is an open file of the server.
const FILES_WARN: u64 = 4_096;

/// The store, its WAL, the listener and a few callers: a server cannot work with less.
const FILES_FAIL: u64 = 256;

/// The permission bits of group and others.
const GROUP_AND_OTHERS: u32 = 0o077;

pub(super) fn checks(store: &Path) -> Vec<Check> {
    let mut checks = vec![];
    if store.exists() {
        checks.push(owner_only("store", store));
        checks.push(signing_key(&store.with_extension("key")));
    } else {
        let found = format!("there is none at {}", store.display());
        let remedy = "ignore this if the server runs elsewhere; else give the path with --store";
        checks.push(Check::warn("store", found, remedy));
    }
    let folder = store.ancestors().skip(1).find(|folder| folder.is_dir());
    let folder = folder.unwrap_or(Path::new("."));
    checks.push(writable(folder));
    checks.push(disk_space(folder));
    checks.push(open_files());
    checks
}

pub(super) fn open_files() -> Check {
    files(getrlimit(Resource::Nofile).current)
}

fn signing_key(path: &Path) -> Check {
    if path.exists() {
        return owner_only("signing key", path);
    }
    let found = format!("there is none at {}", path.display());
    let remedy = "restore it; else the next start creates one and running attempts start again";
    Check::warn("signing key", found, remedy)
}

pub(super) fn owner_only(check: &'static str, path: &Path) -> Check {
    let shown = path.display();
    match fs::metadata(path).map(|meta| meta.permissions().mode() & 0o777) {
        Err(error) => Check::fail(
            check,
            format!("{shown} cannot be checked: {error}"),
            "run this as the server's user",
        ),
        Ok(mode) if mode & GROUP_AND_OTHERS == 0 => {
            Check::ok(check, format!("{shown}, mode {mode:o}"))
        }
        Ok(mode) => {
            let found = format!("{shown} can be read by others (mode {mode:o})");
            Check::fail(check, found, format!("chmod 600 {shown}"))
        }
    }
}

fn writable(folder: &Path) -> Check {
    let shown = folder.display();
    match access(folder, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Check::ok("folder", format!("{shown} is writable")),
        Err(error) => Check::fail(
            "folder",
            format!("{shown} is not writable: {error}"),
            "run this as the server's user, or change the owner of the folder",
        ),
    }
}

fn disk_space(folder: &Path) -> Check {
    match statvfs(folder) {
        Err(error) => Check::warn(
            "disk",
            format!("cannot determine the free space: {error}"),
            "check with `df`",
        ),
        Ok(disk) => grade_disk_space(disk.f_bavail.saturating_mul(disk.f_frsize)),
    }
}

fn grade_disk_space(free: u64) -> Check {
    let found = format!("{} free", duration::format_bytes(free));
    let remedy = "free some space; a full disk refuses new work and every report";
    match free {
        ..FREE_BYTES_FAIL => Check::fail("disk", found, remedy),
        FREE_BYTES_FAIL..FREE_BYTES_WARN => Check::warn("disk", found, remedy),
        _ => Check::ok("disk", found),
    }
}

/// No limit counts as sufficient.
fn files(limit: Option<u64>) -> Check {
    let Some(limit) = limit else { return Check::ok("open files", "no limit") };
    let found = format!("at most {limit}");
    let remedy = "raise it with `ulimit -n 65536`, or LimitNOFILE= in the unit";
    match limit {
        ..FILES_FAIL => Check::fail("open files", found, remedy),
        FILES_FAIL..FILES_WARN => Check::warn("open files", found, remedy),
        _ => Check::ok("open files", found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn little_room_warns_and_less_fails() {
        let grades = [100 << 20, 500 << 20, 2 << 30].map(|free| grade_disk_space(free).grade);
        assert_eq!(grades, [Grade::Fail, Grade::Warn, Grade::Ok]);
    }

    #[test]
    fn few_open_files_warn_and_fewer_fail() {
        let grades = [Some(64), Some(1024), Some(65_536), None].map(|limit| files(limit).grade);
        assert_eq!(grades, [Grade::Fail, Grade::Warn, Grade::Ok, Grade::Ok]);
    }
}
