//! Moves a whole store that no coordinator serves into another engine, and proves that the copy is complete.
//!
//! Everything is read through [`Browse`] and written through the seam, page by page. So memory is bounded by
//! a page, and no engine knows another. The copy is read back and compared by counts and by a digest over every
//! field of every row; then it is verified like any store. Only then does it become a store: it cannot be
//! opened before [`CopyTarget::finish`].
//!
//! A move begins a new epoch, because the old store may still exist: every earlier lease and token is answered
//! CANCELLED (S3-24). Nothing is decided here, and the source is not changed.

pub mod bundle;
pub(crate) mod canonical;
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

/// How many tasks are read, written and committed together: some tens of megabytes with the largest
/// payloads, and with usual ones enough to share the cost of a commit.
const PAGE: usize = 64;

/// How many audit records are read and written together.
const RECORDS: usize = 500;

/// How many differences are reported; one is enough to fail.
const DIFFERENCES_MAX: usize = 20;

/// Why a store was not moved. The source is unchanged in each case.
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
    /// A stable code, for scripts and for searching the documentation.
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

/// The store to copy from. No coordinator serves from it.
pub trait CopySource: Send + Sync {
    type Store: Store;

    fn store(&self) -> &Self::Store;

    /// Checks that it is unchanged since the copy began.
    fn check_unchanged(&self) -> impl Future<Output = Result<(), MoveFailure>> + Send;
}

/// The opener of a file holds its lock.
impl CopySource for SqliteStore {
    type Store = SqliteStore;

    fn store(&self) -> &SqliteStore {
        self
    }

    async fn check_unchanged(&self) -> Result<(), MoveFailure> {
        Ok(())
    }
}

/// The place of a store that is being written. Dropped without [`CopyTarget::finish`], it stays unfinished: it is
/// removed, or recognised and refused.
pub trait CopyTarget: Send {
    type Store: Store;

    fn store(&self) -> &Self::Store;

    /// Turns it into a store, in its new epoch.
    fn finish(self, epoch: u32) -> impl Future<Output = Result<(), MoveFailure>> + Send;
}

/// The progress of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The number of tasks copied so far.
    Copying(u64),
    /// The number of copies read back and compared so far.
    Comparing(u64),
    Verifying,
}

/// What was moved, and the epoch that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub summary: StoreSummary,
    pub epoch: u32,
}

/// Copies everything, proves that the copy is complete, and turns it into a store.
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
    let epoch = epoch::above(&[from.status().epoch, to.status().epoch], wall);
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
