//! Space for the log, written ahead of its use.
//!
//! A sync of a file that has grown must also make the file's new size and blocks durable, which costs
//! several times as much as the data. A log that has started again writes to blocks that it has already;
//! here a log that still grows gets them in pieces larger than one commit.
//!
//! A store with little to do never needs a longer log than [`SPACE_PAGES_MAX`]. On a busy one the log grows
//! beyond it by itself: many callers share a sync there, and space written ahead would double what is written.
//!
//! Invariant: only bytes behind the end of the file are written, and only by the owner of the write
//! transaction, because only it may append to the log. SQLite ignores what follows the last valid frame;
//! zeros are no frame.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::checkpoints::STEP_PAGES;

/// The log's header.
const HEADER_BYTES: u64 = 32;

/// A page of the log with its header.
const FRAME_BYTES: u64 = 24 + 4_096;

/// What a usual commit adds to the log. When less is left, more space is written.
const AHEAD_PAGES: u64 = 64;

/// Where the log of a store with little to do starts again: after a step, and a few commits during it.
const SPACE_PAGES_MAX: u32 = STEP_PAGES + 500;

/// Some dozens of commits of a store with little to do. Larger pieces would be rarer and make their commit later.
const PIECE_BYTES: u64 = 256 * 1024;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

pub(super) struct LogSpace {
    file: File,
    /// The file was at least this long when it was last looked at.
    length: u64,
}

impl LogSpace {
    pub(super) fn of(log: &Path) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().write(true).open(log)?, length: 0 })
    }

    /// Makes room for the next commit after `pages`. The caller has the write transaction.
    ///
    /// Best effort: without space, the commit itself reports that the disk is full.
    pub(super) fn prepare(&mut self, pages: u32) {
        let needed = bytes_of(u64::from(pages) + AHEAD_PAGES);
        if needed > self.length
            && pages < SPACE_PAGES_MAX
            && let Err(error) = self.extend(needed)
        {
            tracing::debug!(%error, "cannot write space for the log ahead of its use");
        }
    }

    fn extend(&mut self, needed: u64) -> io::Result<()> {
        self.length = self.file.metadata()?.len();
        if needed <= self.length {
            return Ok(());
        }
        let end = (needed + PIECE_BYTES).min(bytes_of(u64::from(SPACE_PAGES_MAX)));
        while self.length < end {
            let count = (end - self.length).min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..count as usize], self.length)?;
            self.length += count;
        }
        Ok(())
    }
}

/// The length of a log with this many pages.
fn bytes_of(pages: u64) -> u64 {
    HEADER_BYTES + pages * FRAME_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_written_behind_the_end_and_only_when_little_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let frames = vec![7; 10 * FRAME_BYTES as usize];
        std::fs::write(&path, &frames).unwrap();
        let mut space = LogSpace::of(&path).unwrap();
        space.prepare(10);
        let written = std::fs::read(&path).unwrap();
        assert!(written.len() as u64 >= PIECE_BYTES + frames.len() as u64);
        assert!(written.starts_with(&frames), "what was there is as it was");
        assert!(written[frames.len()..].iter().all(|byte| *byte == 0));

        let length = written.len() as u64;
        let pages = (length / FRAME_BYTES) as u32 - AHEAD_PAGES as u32 - 1;
        space.prepare(pages);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length, "there was enough");
        space.prepare(pages + 2);
        let longer = std::fs::metadata(&path).unwrap().len();
        assert!(longer >= length + PIECE_BYTES, "another piece");
    }

    #[test]
    fn a_long_log_grows_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, [7; 100]).unwrap();
        let mut space = LogSpace::of(&path).unwrap();
        let length = || std::fs::metadata(&path).unwrap().len();
        space.prepare(SPACE_PAGES_MAX - 1);
        assert_eq!(length(), bytes_of(u64::from(SPACE_PAGES_MAX)));
        space.prepare(SPACE_PAGES_MAX);
        assert_eq!(length(), bytes_of(u64::from(SPACE_PAGES_MAX)));
    }

    #[test]
    fn a_log_that_was_cut_is_extended_from_its_present_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, [7; 100]).unwrap();
        let mut space = LogSpace::of(&path).unwrap();
        space.prepare(1);
        let before = space.length;
        OpenOptions::new().write(true).open(&path).unwrap().set_len(50).unwrap();
        space.prepare((before / FRAME_BYTES) as u32);
        let written = std::fs::read(&path).unwrap();
        assert_eq!(written[..50], [7; 50]);
        assert!(written[50..].iter().all(|byte| *byte == 0));
    }
}
