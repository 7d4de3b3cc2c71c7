//! Resource usage of a process, as the kernel counts it.

use std::fs;

/// Ticks of `/proc/PID/stat` per second: fixed by the kernel's interface.
const TICKS_PER_SECOND: f64 = 100.0;

/// Pages of `/proc/PID/statm`.
const PAGE_BYTES: f64 = 4096.0;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_micros: f64,
    /// Bytes sent to the storage layer, not only to the page cache.
    pub(crate) written_bytes: f64,
}

impl Usage {
    /// All zero if the system does not report them.
    pub(crate) fn of(pid: u32) -> Self {
        Self {
            cpu_micros: Stat::read(pid).map_or(0.0, |stat| stat.cpu_micros),
            written_bytes: written(pid).unwrap_or(0.0),
        }
    }

    pub(crate) fn own() -> Self {
        Self::of(std::process::id())
    }

    pub(crate) fn of_all(pids: &[u32]) -> Self {
        pids.iter().map(|pid| Self::of(*pid)).fold(Self::default(), |sum, one| Usage {
            cpu_micros: sum.cpu_micros + one.cpu_micros,
            written_bytes: sum.written_bytes + one.written_bytes,
        })
    }

    pub(crate) fn since(&self, before: &Usage) -> Usage {
        Usage {
            cpu_micros: self.cpu_micros - before.cpu_micros,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }
}

/// A process with its children, both running and reaped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessTree {
    parent: u32,
}

impl ProcessTree {
    /// The tree of the parent of process `pid`, if `pid` exists on this machine and has this name.
    pub(crate) fn of_child(pid: u32, name: &str) -> Option<Self> {
        let stat = Stat::read(pid)?;
        (stat.name == name).then_some(Self { parent: stat.parent })
    }

    pub(crate) fn cpu_micros(&self) -> f64 {
        let Some(parent) = Stat::read(self.parent) else { return 0.0 };
        let pids = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let children = pids.filter_map(Stat::read).filter(|stat| stat.parent == self.parent);
        parent.cpu_micros + parent.buried_micros + children.map(|stat| stat.cpu_micros).sum::<f64>()
    }
}

/// The kernel's statistics of a process.
struct Stat {
    name: String,
    parent: u32,
    cpu_micros: f64,
    /// CPU time of children that have ended.
    buried_micros: f64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second column is a name in brackets and may contain anything.
        let (head, columns) = stat.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let columns: Vec<&str> = columns.split_ascii_whitespace().collect();
        let ticks = |column: usize| columns.get(column)?.parse::<f64>().ok();
        let micros = |first| Some((ticks(first)? + ticks(first + 1)?) / TICKS_PER_SECOND * 1e6);
        Some(Self {
            name: name.to_owned(),
            parent: columns.get(1)?.parse().ok()?,
            cpu_micros: micros(11)?,
            buried_micros: micros(13)?,
        })
    }
}

fn written(pid: u32) -> Option<f64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?;
    line.parse().ok()
}

pub(crate) fn rss_mib(pid: u32) -> Option<f64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: f64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE_BYTES / (1024.0 * 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_look_at_itself() {
        assert!(rss_mib(std::process::id()).unwrap() > 0.0);
        let mut sum = 0u64;
        let before = Usage::own();
        while Usage::own().since(&before).cpu_micros == 0.0 {
            sum = sum.wrapping_add(1);
        }
        assert!(sum > 0);
    }

    #[test]
    fn a_family_counts_its_children() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        while ProcessTree::of_child(child.id(), "cat").is_none() {
            std::thread::yield_now();
        }
        let process_tree = ProcessTree::of_child(child.id(), "cat").unwrap();
        assert_eq!(process_tree.parent, std::process::id());
        // In this order: the kernel keeps counting between the two readings.
        let own = Usage::own().cpu_micros;
        assert!(process_tree.cpu_micros() >= own);
        assert!(ProcessTree::of_child(child.id(), "dog").is_none());
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
