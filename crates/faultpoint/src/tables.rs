//! The places and the bugs, by name.

/// How a place is reached, so that the lab knows what to do while it waits for the blow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// While the server works.
    Serving,
    /// While the server starts.
    Starting,
    /// After it was asked to stop.
    Stopping,
    /// While a key is administered.
    Administering,
    /// By `tenure backup`.
    BackingUp,
    /// By `tenure restore`.
    Restoring,
    /// By `tenure prune`.
    Pruning,
}

/// A place at which the process can be made to die.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub name: &'static str,
    pub reached: Reached,
}

const fn point(name: &'static str, reached: Reached) -> Point {
    Point { name, reached }
}

use Reached::{Administering, BackingUp, Pruning, Restoring, Serving, Starting, Stopping};

/// Every place, in the order in which a request or a command comes by.
#[rustfmt::skip]
pub const POINTS: &[Point] = &[
    point("open.created", Starting),        // the file is there, and empty if it is new
    point("open.migrated", Starting),       // its tables are this version's
    point("open.folded", Starting),         // its log is in the file
    point("open.rebuilt", Starting),        // the order of live tasks is in memory
    point("keys.founded", Starting),        // the first key is durable, and nobody was told
    point("recover.deciding", Starting),    // leases are about to get time back
    point("recover.saved", Starting),       // they have it, not durably
    point("recover.committed", Starting),   // durably
    point("serve.listening", Starting),     // the port is taken, nothing is announced
    point("batch.begun", Serving),
    point("batch.loaded", Serving),
    point("batch.decided", Serving),
    point("batch.swept", Serving),
    point("batch.granted", Serving),
    point("save.begun", Serving),
    point("save.row", Serving),             // between two rows of one task
    point("save.done", Serving),
    point("commit.fresh", Serving),         // new tasks are about to be written
    point("commit.clock", Serving),         // the last write before COMMIT
    point("commit.before", Serving),
    point("commit.after", Serving),
    point("carry.committed", Serving),      // durable, and nobody was told
    point("carry.polls_told", Serving),     // workers were told, callers were not
    point("carry.told", Serving),           // everybody was told, not everybody was answered
    point("answer.leaving", Serving),       // an answer is whole and not on its way
    point("grants.leaving", Serving),       // leases are about to leave
    point("admin.begun", Administering),
    point("admin.before_commit", Administering),
    point("admin.after_commit", Administering),
    point("stop.asked", Stopping),
    point("stop.drained", Stopping),
    point("stop.finished", Stopping),
    point("backup.copied", BackingUp),
    point("backup.checked", BackingUp),
    point("backup.named", BackingUp),
    point("restore.copied", Restoring),
    point("restore.raised", Restoring),     // the copy has its new epoch, and no name
    point("restore.log_gone", Restoring),   // the old store's log is gone, the old store is not
    point("restore.named", Restoring),
    point("prune.leaving", Pruning),        // what may go is marked, and still there
    point("prune.before_commit", Pruning),
    point("prune.after_commit", Pruning),
];

/// The numbers of the bugs that are built in. What each is and who catches it stands in the museum's own table.
pub const MUTANTS: &[u8] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 25, 26, 27, 28, 29, 30, 31, 33, 34, 35,
    36,
];
