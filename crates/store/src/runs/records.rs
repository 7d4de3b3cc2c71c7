//! What a durable run recorded, as its function replays it: checkpoints and started children in the order of their
//! numbers.

use verdict::End;
use verdict::run::{Checkpoint, Recorded};
use verdict::{Name, Subject};

use super::{StoredChild, StoredSignal};
use crate::browse::{Browse, RowsAfter};
use crate::failure::Failure;
use crate::row::{PAGE_BYTES_MAX, TaskKey, TaskRows};
use crate::row_size::{self, ByteBudget};

/// Which records to read.
#[derive(Clone, Copy, Debug)]
pub enum RecordsOf<'a> {
    /// Those numbered above this.
    After(u32),
    /// Those under these keys. A child that has ended has two.
    Keys(&'a [Name]),
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunRecord {
    Checkpoint {
        checkpoint: Checkpoint,
        /// The signals that a wait took, each with the key of its item.
        taken: Vec<(Name, StoredSignal)>,
        /// How the child ended, if the checkpoint is the end of one and the child is still stored.
        end: Option<End>,
    },
    /// A child that was started. Its end is a checkpoint under the same key.
    Started(StoredChild),
}

impl RunRecord {
    pub fn number(&self) -> u32 {
        match self {
            RunRecord::Checkpoint { checkpoint, .. } => checkpoint.number,
            RunRecord::Started(child) => child.number,
        }
    }
}

/// Reads records through the reads that every engine has.
pub(crate) async fn read<B: Browse>(
    browse: &B,
    key: &TaskKey,
    of: RecordsOf<'_>,
    limit: usize,
) -> Result<Vec<RunRecord>, Failure> {
    let rows = match of {
        RecordsOf::Keys(keys) => browse.rows(key, RowsAfter::Keys(keys), limit).await?,
        RecordsOf::After(after) => after_number(browse, key, after, limit).await?,
    };
    let (mut records, mut budget) = (Vec::new(), ByteBudget::new(PAGE_BYTES_MAX));
    for row in in_order(rows).into_iter().take(limit) {
        let record = row.complete(browse, key).await?;
        if !budget.takes(row_size::record(&record)) {
            break;
        }
        records.push(record);
    }
    Ok(records)
}

/// Both kinds of rows, up to the number at which the shorter page ends.
async fn after_number<B: Browse>(
    browse: &B,
    key: &TaskKey,
    after: u32,
    limit: usize,
) -> Result<TaskRows, Failure> {
    let mut rows = browse.rows(key, RowsAfter::Checkpoint(after), limit).await?;
    let started = browse.rows(key, RowsAfter::Started(after), limit).await?;
    rows.children = started.children;
    let last = rows.checkpoints.last().map(|last| last.number);
    let next = match last {
        Some(last) => browse.rows(key, RowsAfter::Checkpoint(last), 1).await?.checkpoints,
        None => Vec::new(),
    };
    // A page of checkpoints that ended early hides those that follow: children after them come with the next page.
    if let (Some(last), Some(_)) = (last, next.first()) {
        rows.children.retain(|child| child.number < last);
    }
    if rows.children.len() == limit
        && let Some(last) = rows.children.last().map(|child| child.number)
    {
        rows.checkpoints.retain(|checkpoint| checkpoint.number < last);
    }
    Ok(rows)
}

enum Row {
    Checkpoint(Checkpoint),
    Started(StoredChild),
}

fn in_order(rows: TaskRows) -> Vec<Row> {
    let checkpoints = rows.checkpoints.into_iter().map(Row::Checkpoint);
    let mut all: Vec<Row> =
        checkpoints.chain(rows.children.into_iter().map(Row::Started)).collect();
    all.sort_by_key(Row::number);
    all
}

impl Row {
    fn number(&self) -> u32 {
        match self {
            Row::Checkpoint(checkpoint) => checkpoint.number,
            Row::Started(child) => child.number,
        }
    }

    async fn complete<B: Browse>(self, browse: &B, key: &TaskKey) -> Result<RunRecord, Failure> {
        let checkpoint = match self {
            Row::Started(child) => return Ok(RunRecord::Started(child)),
            Row::Checkpoint(checkpoint) => checkpoint,
        };
        let (mut taken, mut end) = (Vec::new(), None);
        match &checkpoint.recorded {
            Recorded::Step(_) => {}
            Recorded::Wait(wait) => {
                for it in &wait.taken {
                    let before = RowsAfter::Signal(it.signal.saturating_sub(1));
                    let found = browse.rows(key, before, 1).await?.signals;
                    taken.extend(found.into_iter().map(|signal| (it.item.clone(), signal)));
                }
            }
            Recorded::Child(ended) => {
                let child = TaskKey { scope: key.scope.clone(), id: ended.child };
                let found = browse.find(&child).await?.map(|found| found.subject);
                end = found.and_then(|subject| match subject {
                    Subject::Done(done) => Some(done.end),
                    Subject::Live(_) | Subject::Absent => None,
                });
            }
        }
        Ok(RunRecord::Checkpoint { checkpoint, taken, end })
    }
}
