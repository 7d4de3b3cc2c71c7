//! Stores decisions atomically. It makes none.
//!
//! [`seam`] defines what a store can do; [`sqlite`] and `postgres` implement it; [`engine`] holds what engines share.
//! The rules live in `verdict`. This crate stores their results, selects tasks by two numbers that the rules compute
//! (`claimable_at`, `wakes_at`) and guards revisions. The crate `storetest` has the conformance suite that every engine
//! must pass, and the reference engine.

pub mod administration;
pub mod browse;
mod cells;
pub mod clock;
pub mod codec;
mod columns;
pub mod dyn_store;
pub mod effects;
pub mod engine;
mod epoch;
pub mod failure;
mod flow_starts;
pub mod logs;
pub mod lookup;
pub mod moving;
pub mod objects;
mod overview;
pub mod pauses;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod prove;
pub mod record_seals;
pub mod recovery;
pub mod row;
pub mod row_size;
mod rules;
mod run_columns;
pub mod runs;
mod schema;
pub mod seam;
pub mod spend;
pub mod sqlite;
mod tables;
pub mod verify;

pub use administration::{
    Administration, AdministrationRows, ApiKey, Audit, AuditFilter, Audited, PreviousSecret,
    RingChange, Seal, SealedRing, TenantLimits,
};
pub use browse::{Browse, RowsAfter, ScanDepth};
pub use clock::{Clock, ClockAhead, MonotonicClock, SystemClock};
pub use dyn_store::{DynBrowse, DynStore};
pub use failure::{CommitFailure, Failure, FailureKind};
pub use logs::{LogRow, LogsOf, SavedLog};
pub use lookup::{DebounceQuery, DebouncedKey, Found, Loaded, LockWait, Lookup};
pub use objects::{
    LoadedObject, ObjectChange, ObjectFilter, ObjectLogFilter, PendingObjects, UniqueKey,
};
pub use overview::TaskOverview;
pub use pauses::{PauseChange, PausedQueues, QueuePause};
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use record_seals::{EndedRecord, EndedRecords, Leaf, Leaves, RecordSeal, SealFilter, SealsOf};
pub use row::{
    Ahead, Backlog, BatchSpec, Bodies, Change, EndedPosition, EndedTask, Entry, Filter, FlowFilter,
    FlowKeyRow, FlowRef, HeldLeases, IdempotencyKey, KeyOwner, LabelFilter, Listed, Listing,
    PAGE_BYTES_MAX, PageStop, PollRef, QueueDepth, Refused, Renewals, Resources, Spec, StoredTask,
    TaskBundle, TaskKey, TaskRows, TaskWithSpec, Unfinished, Want,
};
pub use runs::{
    DeferredMessage, MessageChanges, MessageKey, ParkedMessage, RecordsOf, RunLookup, RunRecord,
    RunRows, SavedMessage, StoredChild, StoredSignal,
};
pub use schema::Schema;
pub use seam::{
    Batch, CancelHint, Claimable, Decided, KindLooks, PeerHint, Plan, PolledQueues, RemoteChange,
    RunsOn, Selection, Store, StoreStatus, Writer,
};
pub use spend::{SpendQuery, SpendRow};
pub use sqlite::SqliteStore;
