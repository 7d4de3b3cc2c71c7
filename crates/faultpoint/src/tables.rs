//! The tables of fault points and bugs.

/// How a fault point is reached, so that the lab knows which operation to trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
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
    /// By `tenure migrate`.
    Moving,
    /// While an effect is delivered.
    Delivering,
}

/// Which store must be in use for a fault point to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    Any,
    Sqlite,
    Postgres,
}

/// A fault point: a place in the code at which the process can be made to die.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub name: &'static str,
    pub trigger: Trigger,
    pub store: StoreKind,
}

const fn point(name: &'static str, trigger: Trigger) -> Point {
    Point { name, trigger, store: StoreKind::Any }
}

const fn sqlite(name: &'static str, trigger: Trigger) -> Point {
    Point { name, trigger, store: StoreKind::Sqlite }
}

const fn postgres(name: &'static str, trigger: Trigger) -> Point {
    Point { name, trigger, store: StoreKind::Postgres }
}

use Trigger::{
    Administering, BackingUp, Delivering, Moving, Pruning, Restoring, Serving, Starting, Stopping,
};

/// Every fault point, in the order in which a request or a command reaches it.
#[rustfmt::skip]
pub const POINTS: &[Point] = &[
    sqlite("open.created", Starting),        // the file is there, and empty if it is new
    sqlite("open.migrated", Starting),       // its tables are this version's
    sqlite("open.folded", Starting),         // its log is in the file
    sqlite("open.rebuilt", Starting),        // the order of live tasks is in memory
    point("keys.founded", Starting),        // the first key is durable, and nobody was told
    point("recover.deciding", Starting),    // leases are about to get time back
    point("recover.saved", Starting),       // they have it, not durably
    point("recover.committed", Starting),   // durably
    point("serve.listening", Starting),     // the port is taken, nothing is announced
    sqlite("batch.begun", Serving),
    point("batch.loaded", Serving),
    point("batch.decided", Serving),
    point("batch.swept", Serving),
    point("batch.granted", Serving),
    point("save.begun", Serving),
    sqlite("save.row", Serving),             // between two rows of one task
    point("save.done", Serving),
    sqlite("commit.fresh", Serving),         // new tasks are about to be written
    sqlite("commit.clock", Serving),         // the last write before COMMIT
    sqlite("commit.before", Serving),
    sqlite("commit.after", Serving),
    postgres("pg.deciding", Serving),       // locks are held, nothing is written
    postgres("pg.committed", Serving),      // COMMIT is answered
    postgres("pg.remembered", Serving),     // and memory follows it
    point("carry.committed", Serving),      // durable, and nobody was told
    point("carry.polls_told", Serving),     // workers were told, callers were not
    point("carry.told", Serving),           // everybody was told, not everybody was answered
    point("answer.leaving", Serving),       // an answer is whole and not on its way
    point("grants.leaving", Serving),       // leases are about to leave
    point("objects.saved", Delivering),     // claimed or settled, not durably
    point("objects.committed", Delivering), // durably, and the sender was not told
    point("outbox.claimed", Delivering),    // claimed, and nothing is sent
    point("outbox.sent", Delivering),       // the receiver has answered, and nothing is settled
    point("outbox.settled", Delivering),
    sqlite("admin.begun", Administering),
    sqlite("admin.before_commit", Administering),
    sqlite("admin.after_commit", Administering),
    point("stop.asked", Stopping),
    point("stop.drained", Stopping),
    point("stop.finished", Stopping),
    sqlite("backup.copied", BackingUp),
    sqlite("backup.checked", BackingUp),
    sqlite("backup.named", BackingUp),
    sqlite("restore.copied", Restoring),
    sqlite("restore.raised", Restoring),     // the copy has its new epoch, and no name
    sqlite("restore.log_folded", Restoring), // the old store's file holds all of it, its log is still there
    sqlite("restore.log_gone", Restoring),   // the old store's log is gone, the old store is not
    sqlite("restore.named", Restoring),
    sqlite("prune.leaving", Pruning),        // what may go is marked, and still there
    sqlite("prune.before_commit", Pruning),
    sqlite("prune.after_commit", Pruning),
    point("move.keys", Moving),             // the new store's key file is there, the new store is not
    postgres("move.opened", Moving),         // the database has empty tables, and nothing says what for
    point("move.page", Moving),             // some of it is there
    point("move.copied", Moving),           // all of it
    point("move.proved", Moving),           // compared and verified, and still no store
    postgres("move.raised", Moving),         // it has its new epoch, not durably
    sqlite("move.sealed", Moving),           // it has its new epoch, and no name
    point("move.finished", Moving),         // a store, and nobody was told
];

/// The numbers of the built-in bugs. The museum's table describes each one and the test that catches it.
pub const MUTANTS: &[u8] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
    27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48,
];
