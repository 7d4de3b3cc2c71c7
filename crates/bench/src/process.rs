//! What a process has used, as the kernel counts it.

use std::fs;

/// Ticks of `/proc/PID/stat` per second: fixed by the kernel's interface.
const TICKS_PER_SECOND: f64 = 100.0;

/// Pages of `/proc/PID/statm`.
const PAGE_BYTES: f64 = 4096.0;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_micros: f64,
    /// Bytes handed to the storage layer, not merely to the page cache's readers.
    pub(crate) written_bytes: f64,
}

impl Usage {
    /// All zero where the system does not say.
    pub(crate) fn of(pid: u32) -> Self {
        Self {
            cpu_micros: cpu_micros(pid).unwrap_or(0.0),
            written_bytes: written(pid).unwrap_or(0.0),
        }
    }

    pub(crate) fn own() -> Self {
        Self::of(std::process::id())
    }

    pub(crate) fn since(&self, before: &Usage) -> Usage {
        Usage {
            cpu_micros: self.cpu_micros - before.cpu_micros,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }
}

fn cpu_micros(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second column is a name in brackets and may contain anything.
    let (_, columns) = stat.rsplit_once(')')?;
    let mut columns = columns.split_ascii_whitespace().skip(11);
    let user: f64 = columns.next()?.parse().ok()?;
    let system: f64 = columns.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND * 1e6)
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
}
