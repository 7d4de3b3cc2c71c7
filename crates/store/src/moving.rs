//! Moving a store that nobody serves from into another engine, whole, and proving that it arrived.
//!
//! Everything is read through [`Browse`] and written through the seam, page by page, so that memory is
//! bounded by a page and no engine needs to know another. What arrived is read again and compared by counts
//! and a digest over every field of every row; then it is verified like any store. Only then does it become
//! a store: until [`CopyTarget::finish`] nobody can open it.
//!
//! The move begins a new epoch, because the old store may still be there: every lease and token from before
//! is answered CANCELLED (S3-24). Nothing is decided here, and the source is not changed.

mod canonical;
mod copying;
mod summary;

use std::future::Future;

use verdict::Time;

pub use self::summary::{StoreSummary, summarize};
use crate::browse::Browse;
use crate::epoch;
use crate::failure::Failure;
use crate::seam::Store;
use crate::sqlite::SqliteStore;
use crate::verify;

/// How many tasks are read, written and committed together: with the largest payloads some tens of
/// megabytes, with usual ones enough to share a commit.
const PAGE: usize = 64;

/// How many records of the audit are read and written together.
const RECORDS: usize = 500;

/// How many differences are named; one is enough to know.
const DIFFERENCES_MAX: usize = 20;

/// Why a store was not moved. In each case the source is as it was.
#[derive(Debug, thiserror::Error)]
pub enum MoveFailure {
    #[error("{place} holds {what}")]
    Occupied { place: String, what: String },
    #[error("{who} still uses {place}")]
    InUse { place: String, who: String },
    #[error("{place} holds a copy that was not finished")]
    Interrupted { place: String },
    #[error("the store was changed while it was copied")]
    Changed,
    #[error("the copy differs from the source: {}", .0.join("; "))]
    Differs(Vec<String>),
    #[error("the store to copy cannot be read")]
    Source(#[source] Failure),
    #[error("the new store cannot be written")]
    Destination(#[source] Failure),
}

impl MoveFailure {
    /// Stable, for scripts and for searching the documentation.
    pub const fn code(&self) -> &'static str {
        match self {
            MoveFailure::Occupied { .. } => "store_not_empty",
            MoveFailure::InUse { .. } => "store_in_use",
            MoveFailure::Interrupted { .. } => "copy_interrupted",
            MoveFailure::Changed => "store_changed",
            MoveFailure::Differs(_) => "copy_differs",
            MoveFailure::Source(_) => "source_failed",
            MoveFailure::Destination(_) => "destination_failed",
        }
    }
}

/// A store that is left, which nobody serves from.
pub trait CopySource: Send + Sync {
    type Store: Store;

    fn store(&self) -> &Self::Store;

    /// Whether it still is as it was when the copy began.
    fn check_unchanged(&self) -> impl Future<Output = Result<(), MoveFailure>> + Send;
}

/// A file is locked by who has it open.
impl CopySource for SqliteStore {
    type Store = SqliteStore;

    fn store(&self) -> &SqliteStore {
        self
    }

    async fn check_unchanged(&self) -> Result<(), MoveFailure> {
        Ok(())
    }
}

/// A place where a store is being made. Dropped without [`CopyTarget::finish`], it stays unfinished: it is
/// removed, or recognised and refused.
pub trait CopyTarget: Send {
    type Store: Store;

    fn store(&self) -> &Self::Store;

    /// Makes it a store, in its new epoch.
    fn finish(self, epoch: u32) -> impl Future<Output = Result<(), MoveFailure>> + Send;
}

/// How far a move has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// So many tasks were copied so far.
    Copying(u64),
    /// So many of the copies were read again and compared.
    Comparing(u64),
    Verifying,
}

/// What was moved, and which life of the store begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub summary: StoreSummary,
    pub epoch: u32,
}

/// Copies everything, proves that it arrived, and makes it a store.
pub async fn move_store<D: CopySource, A: CopyTarget>(
    source: &D,
    target: A,
    watch: &mut (dyn FnMut(Stage) + Send),
) -> Result<Moved, MoveFailure> {
    let (from, to) = (source.store(), target.store());
    let (sent, at) = copying::copy(from, to, watch).await?;
    faultpoint::point!("move.copied");
    let arrived = summary::summarize_copy(to, at, watch).await?;
    refuse_differences(&sent, &arrived)?;
    watch(Stage::Verifying);
    verify_copy(to.browse()).await?;
    let wall = Time::max(from.now(), to.now());
    let epoch = epoch::above(&[from.opened().epoch, to.opened().epoch], wall);
    let epoch = epoch.map_err(MoveFailure::Destination)?;
    source.check_unchanged().await?;
    faultpoint::point!("move.proved");
    target.finish(epoch).await?;
    faultpoint::point!("move.finished");
    Ok(Moved { summary: sent, epoch })
}

fn refuse_differences(sent: &StoreSummary, arrived: &StoreSummary) -> Result<(), MoveFailure> {
    let differences = sent.differences(arrived);
    if differences.is_empty() { Ok(()) } else { Err(MoveFailure::Differs(differences)) }
}

async fn verify_copy<B: Browse>(browse: &B) -> Result<(), MoveFailure> {
    let report = verify::verify(browse).await.map_err(MoveFailure::Destination)?;
    if report.findings.is_empty() {
        return Ok(());
    }
    let shown = report.findings.iter().take(DIFFERENCES_MAX);
    Err(MoveFailure::Differs(shown.map(ToString::to_string).collect()))
}
