//! What lies between a commit and its being durable.
//!
//! The tables are what is on the disk. A commit that was written but not yet synced is in flight: no
//! reader sees it, its rows stay locked, and it is acknowledged only when the sync is through. If its
//! writer is gone by then, nobody knows what became of it: it is orphaned, until somebody says which
//! way it went ([`MemoryStore::settle`](super::MemoryStore::settle)) or the store is opened again.

use std::future::Future;
use std::pin::Pin;

use store::failure::Failure;

pub type Synced = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// How what was written becomes durable.
pub trait Disk: Send + Sync + 'static {
    /// Resolves when everything written before is durable. After an error nobody knows whether it is.
    fn sync(&self) -> Synced;
}

/// A disk that keeps everything at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Immediate;

impl Disk for Immediate {
    fn sync(&self) -> Synced {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What became of a commit whose writer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It had reached the disk.
    Kept,
    /// It had not.
    Lost,
}
