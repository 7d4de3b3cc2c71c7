//! The slowest one in a hundred, next to what the disk itself does: how long a sync takes, and the goals
//! for a store that is a file.
//!
//! A lifecycle waits for three commits, and a commit for a sync. A tail that the disk makes cannot be
//! shorter than the disk's own, so the goal is the larger of two limits.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::BenchError;
use crate::goal::{Goal, Side, Unit};
use crate::load_client::micros_now;
use crate::measurement::{Measurement, Mode};

pub(crate) const SYNC: &str = "a sync of the disk";

/// The concurrency for which tails are promised.
const AT_ONCE: usize = 256;

/// A lifecycle's tail: at most this many times its median, or this many syncs.
const MEDIANS_MAX: f64 = 4.0;
pub(crate) const SYNCS_MAX: f64 = 3.0;

/// From a submission to its start on an idle server.
const START_MS_MAX: f64 = 2.0;

/// About what a commit of many requests writes.
const COMMIT_BYTES: usize = 256 * 1024;

/// Like a log, the file is written again from its beginning.
const COMMITS_IN_FILE: u64 = 64;

/// Writes and syncs a file in `folder` for this long.
pub(crate) async fn syncs(folder: &Path, span: Duration) -> Result<Measurement, BenchError> {
    let path = folder.join("sync");
    let measured = tokio::task::spawn_blocking(move || {
        let micros = sync_repeatedly(&path, Instant::now() + span);
        std::fs::remove_file(&path)?;
        micros
    });
    let micros = measured.await.map_err(|panic| BenchError::Engine(panic.to_string()))??;
    Ok(Measurement::named(SYNC).with_latencies(micros))
}

fn sync_repeatedly(path: &Path, end: Instant) -> io::Result<Vec<u64>> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    let bytes = vec![1; COMMIT_BYTES];
    let at = |number: u64| number % COMMITS_IN_FILE * COMMIT_BYTES as u64;
    (0..COMMITS_IN_FILE).try_for_each(|number| file.write_all_at(&bytes, at(number)))?;
    file.sync_all()?;
    let mut micros = Vec::new();
    for number in 0.. {
        file.write_all_at(&bytes, at(number))?;
        let begun = micros_now();
        file.sync_data()?;
        micros.push(micros_now() - begun);
        if Instant::now() >= end {
            break;
        }
    }
    Ok(micros)
}

/// The goals for the tails of a store that is a file.
pub(crate) fn goals(rows: &[Measurement]) -> Vec<Goal> {
    let Some(sync) = rows.iter().find(|row| row.name == SYNC).and_then(|row| row.p99_ms) else {
        return Vec::new();
    };
    let start = rows.iter().find(|row| row.name == "submit to started");
    let start =
        start.and_then(|row| Some(at_most(START_MS_MAX, row.p99_ms?, "submit to started, p99")));
    let loads = [Mode::Single, Mode::Batch].into_iter().filter_map(|mode| tail(rows, mode, sync));
    start.into_iter().chain(loads).collect()
}

fn tail(rows: &[Measurement], mode: Mode, sync: f64) -> Option<Goal> {
    let is_it = |row: &&Measurement| {
        row.name == "lifecycles" && row.mode == Some(mode) && row.concurrency == Some(AT_ONCE)
    };
    let row = rows.iter().find(is_it)?;
    let limit = (MEDIANS_MAX * row.p50_ms?).max(SYNCS_MAX * sync);
    let how = match mode {
        Mode::Single => "single calls",
        Mode::Batch => "in batches",
        Mode::Sdk => "through the SDK",
    };
    let figure = format!("{how}, {AT_ONCE} at once, p99 beside a sync's of {sync:.1} ms");
    Some(at_most(limit, row.p99_ms?, &figure))
}

fn at_most(limit: f64, measured: f64, figure: &str) -> Goal {
    let (side, unit) = (Side::AtMost, Unit::Milliseconds);
    Goal { figure: figure.to_owned(), side, limit, unit, measured }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, p50_ms: f64, p99_ms: f64) -> Measurement {
        let (p50_ms, p99_ms) = (Some(p50_ms), Some(p99_ms));
        let (mode, concurrency) = (Some(Mode::Single), Some(AT_ONCE));
        Measurement { p50_ms, p99_ms, mode, concurrency, ..Measurement::named(name) }
    }

    fn judged(sync_p99: f64) -> Vec<(f64, bool)> {
        let rows = [
            row(SYNC, 1.0, sync_p99),
            row("submit to started", 1.0, 2.5),
            row("lifecycles", 5.0, 25.0),
        ];
        goals(&rows).iter().map(|goal| (goal.limit, goal.is_met())).collect()
    }

    #[test]
    fn a_tail_is_held_against_its_median_or_the_disk_whichever_is_larger() {
        assert_eq!(judged(2.0), [(2.0, false), (20.0, false)]);
        assert_eq!(judged(9.0), [(2.0, false), (27.0, true)]);
        assert_eq!(goals(&[row("lifecycles", 5.0, 25.0)]), [], "another kind of store");
    }

    #[tokio::test]
    async fn syncs_are_measured_and_leave_nothing_behind() {
        let folder = std::env::temp_dir().join(format!("tenure-syncs-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let row = syncs(&folder, Duration::ZERO).await.unwrap();
        assert!(row.p50_ms.is_some() && row.p99_ms.is_some());
        std::fs::remove_dir(&folder).expect("an empty folder");
    }
}
