//! What happens between a commit and its durability.
//!
//! The tables hold what is on disk. A commit that was written but not yet synced is in flight: no reader
//! sees it, its rows stay locked, and it is acknowledged only after the sync. If its writer is gone by
//! then, its outcome is unknown: it is orphaned until a caller decides the outcome
//! ([`MemoryStore::settle`](super::MemoryStore::settle)) or the store is reopened.

use std::future::Future;
use std::pin::Pin;

use store::failure::Failure;

pub type Synced = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// How written data becomes durable.
pub trait Disk: Send + Sync + 'static {
    /// Resolves when everything written before is durable. After an error it is unknown whether it is.
    fn sync(&self) -> Synced;
}

/// A disk that syncs at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Immediate;

impl Disk for Immediate {
    fn sync(&self) -> Synced {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The outcome of a commit whose writer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It had reached the disk.
    Kept,
    /// It had not.
    Lost,
}
