//! SQLite without waiting for the disk, for tests of everything but power loss.

use std::sync::Arc;

use store::Clock;
use store::sqlite::Options;

/// Options of a store whose commits survive the end of the process, but not a power loss. The code is the same, and
/// a test runs in a fraction of the time.
pub fn unsynced(clock: Arc<dyn Clock>) -> Options {
    Options::new(clock).without_sync()
}
