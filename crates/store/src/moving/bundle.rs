//! Writes one run with its descendants and the seals of its tenant into a separate store: a bundle.
//!
//! A bundle is an ordinary SQLite store, so whatever checks a store checks a bundle, on any machine. It holds every row of
//! the run, all seals of its tenant, and the list of sealed records only of those seals that cover the run: the ids and
//! digests of other runs that were sealed together with it are in it, and nothing else of them.
//!
//! Nothing is decided here, and the source is not changed.

use std::collections::HashSet;

use verdict::{Name, TaskId};

use super::copying::{self, long};
use super::{CopyTarget, MoveFailure, PAGE};
use crate::administration::Administration;
use crate::browse::{self, Browse};
use crate::prove::Descendants;
use crate::record_seals::{Leaves, RecordSeal, SealFilter, SealsOf};
use crate::row::{StoredTask, TaskBundle};
use crate::seam::{Store, Writer};

/// What a bundle holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bundled {
    pub tasks: u64,
    pub seals: u64,
}

/// Copies a run and its descendants.
pub async fn export_run<B: Browse, T: CopyTarget>(
    from: &B,
    root: StoredTask,
    target: T,
) -> Result<Bundled, MoveFailure> {
    let tenant = root.key().scope.tenant;
    let mut writer = target.store().writer().await.map_err(MoveFailure::Destination)?;
    let mut tasks = HashSet::new();
    let mut descendants = Descendants::of(root.key());
    while let Some(key) = descendants.next(from).await.map_err(MoveFailure::Source)? {
        let Some(found) = from.find(&key).await.map_err(MoveFailure::Source)? else { continue };
        copy_task(from, &mut writer, found).await?;
        tasks.insert(key.id);
    }
    let seals = copy_seals(from, &mut writer, &tenant, &tasks).await?;
    drop(writer);
    let epoch = target.store().status().epoch;
    target.finish(epoch).await?;
    Ok(Bundled { tasks: tasks.len() as u64, seals })
}

async fn copy_task<B: Browse, W: Writer>(
    from: &B,
    writer: &mut W,
    found: StoredTask,
) -> Result<(), MoveFailure> {
    let bundle = browse::bundle(from, found).await.map_err(MoveFailure::Source)?;
    match bundle {
        TaskBundle { task, rows: Some(rows) } => {
            let written = copying::write_page(writer, vec![(task, rows)]).await;
            written.map_err(MoveFailure::Destination)
        }
        TaskBundle { task, rows: None } => long::copy(from, writer, &task).await.map(drop),
    }
}

async fn copy_seals<B: Browse, W: Writer>(
    from: &B,
    writer: &mut W,
    tenant: &Name,
    tasks: &HashSet<TaskId>,
) -> Result<u64, MoveFailure> {
    let (mut after, mut seals) = (None, 0);
    loop {
        let of = SealsOf::After(after.take());
        let tenant = Some(tenant.clone());
        let filter = SealFilter { tenant, of, leaves: Leaves::ALL, limit: PAGE };
        let page = from.record_seals(&filter).await.map_err(MoveFailure::Source)?;
        let Some(last) = page.last() else { return Ok(seals) };
        after = Some((last.tenant.clone(), last.n));
        seals += page.len() as u64;
        let record_seals = page.into_iter().map(|seal| covering(seal, tasks)).collect();
        let act = Administration { record_seals, ..Administration::default() };
        copying::administer(writer, &act).await?;
    }
}

/// The seal with its leaves only if it covers one of the tasks.
fn covering(seal: RecordSeal, tasks: &HashSet<TaskId>) -> RecordSeal {
    if seal.leaves.iter().any(|leaf| tasks.contains(&leaf.task)) {
        return seal;
    }
    RecordSeal { leaves: Vec::new(), ..seal }
}
