//! The copying itself: a page of tasks, one commit, and so on; then what is administered.

mod long;

use verdict::Time;

use super::survey::{Counted, Counting, Tally, held_keys};
use super::{MoveFailure, PAGE, RECORDS, Stage};
use crate::administration::{Administration, AuditFilter, Audited};
use crate::browse::Browse;
use crate::failure::{CommitFailure, Failure};
use crate::row::{Change, Dossier, Found, Key, Parts, Refused, TaskKey};
use crate::seam::{Batch, Store, Writer};

/// Copies everything. Returns what was sent, and at which time of the source.
pub(super) async fn copy<S: Store, D: Store>(
    from: &S,
    to: &D,
    watch: &mut (dyn FnMut(Stage) + Send),
) -> Result<(Tally, Time), MoveFailure> {
    let at = from.now();
    let mut counting = Counting::new(at);
    let mut writer = to.writer().await.map_err(MoveFailure::Destination)?;
    let mut after = None;
    loop {
        let page = from.browse().dossiers(after, PAGE).await.map_err(MoveFailure::Source)?;
        let Some(last) = page.last() else { break };
        after = Some(last.found.key().id);
        let (whole, long) = apart(page);
        whole.iter().for_each(|(found, parts)| counting.task(found, Counted::of(parts)));
        write_page(&mut writer, whole).await.map_err(MoveFailure::Destination)?;
        for found in long {
            let counted = long::copy(from.browse(), &mut writer, &found).await?;
            counting.task(&found, counted);
        }
        faultpoint::point!("move.page");
        watch(Stage::Copying(counting.tasks()));
    }
    copy_administration(from.browse(), &mut writer, &mut counting).await?;
    Ok((counting.done(), at))
}

/// Tasks that are written with all that belongs to them, and long ones. A long one is alone in its page, so that
/// tasks are counted in their order.
fn apart(page: Vec<Dossier>) -> (Vec<(Found, Parts)>, Vec<Found>) {
    let (mut whole, mut long) = (Vec::new(), Vec::new());
    for Dossier { found, parts } in page {
        match parts {
            Some(parts) => whole.push((found, parts)),
            None => long.push(found),
        }
    }
    (whole, long)
}

/// One commit: each task as one change that makes it what it is.
async fn write_page<W: Writer>(writer: &mut W, page: Vec<(Found, Parts)>) -> Result<(), Failure> {
    let mut batch = writer.begin().await?;
    let found: Vec<&Found> = page.iter().map(|(found, _)| found).collect();
    load(&mut batch, &found).await?;
    let mut changes = Vec::new();
    let mut refused: Vec<Refused> = Vec::new();
    for (found, parts) in page {
        let Parts { history, attempts, refused: refusals } = parts;
        refused.extend(refusals);
        changes.push(Change {
            before: None,
            after: found.subject,
            spec: Some(found.spec),
            closed: attempts,
            entries: history,
        });
    }
    batch.save(changes, refused).await?;
    commit(batch).await
}

/// What a batch asks before it writes: who looks at a key before it takes it may take it from a task that has
/// ended.
async fn load<B: Batch>(batch: &mut B, page: &[&Found]) -> Result<(), Failure> {
    let keys: Vec<TaskKey> = page.iter().map(|found| found.key()).collect();
    batch.load(&keys).await?;
    let used: Vec<Key> = page.iter().filter_map(|found| key_of(found)).collect();
    if !used.is_empty() {
        batch.holders(&used).await?;
    }
    batch.now().await?;
    Ok(())
}

async fn commit<B: Batch>(batch: B) -> Result<(), Failure> {
    batch.commit().await.map_err(|failure| match failure {
        CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure) => failure,
    })
}

pub(super) fn key_of(found: &Found) -> Option<Key> {
    Some(Key { scope: found.key().scope, text: found.spec.key.clone()? })
}

async fn copy_administration<B: Browse, W: Writer>(
    from: &B,
    writer: &mut W,
    counting: &mut Counting,
) -> Result<(), MoveFailure> {
    let keys = from.api_keys().await.map_err(MoveFailure::Source)?;
    let limits = from.tenant_limits().await.map_err(MoveFailure::Source)?;
    counting.administration(&keys, &limits);
    let uses = keys.iter().filter_map(|key| Some((key.id.clone(), key.last_used_at?))).collect();
    let act = Administration { keys, limits, uses, ..Administration::default() };
    administer(writer, &act).await?;
    let mut n = 0;
    loop {
        let page = records(from, n).await.map_err(MoveFailure::Source)?;
        let Some(last) = page.last() else { return Ok(()) };
        n = last.n;
        page.iter().for_each(|record| counting.record(record));
        let audit = page.into_iter().map(|record| record.audit).collect();
        administer(writer, &Administration { audit, ..Administration::default() }).await?;
    }
}

async fn administer<W: Writer>(writer: &mut W, act: &Administration) -> Result<(), MoveFailure> {
    writer.administer(act).await.map_err(|failure| match failure {
        CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure) => {
            MoveFailure::Destination(failure)
        }
    })
}

/// The records behind the `n`th, oldest first: they are numbered without gaps.
pub(super) async fn records<B: Browse>(browse: &B, n: u64) -> Result<Vec<Audited>, Failure> {
    let filter = AuditFilter {
        before: Some(n + RECORDS as u64 + 1),
        limit: RECORDS,
        ..AuditFilter::default()
    };
    let mut page = browse.audit(&filter).await?;
    page.retain(|record| record.n > n);
    page.reverse();
    Ok(page)
}

/// Keys of these tasks that no other task may use now, with who must be found to hold them.
pub(super) async fn check_holders<W: Writer>(
    writer: &mut W,
    page: &[Found],
    at: Time,
) -> Result<Vec<String>, Failure> {
    let held = held_keys(page, at);
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<Key> = held.iter().map(|(key, _)| key.clone()).collect();
    let mut batch = writer.begin().await?;
    let found = batch.holders(&keys).await?;
    drop(batch);
    let wrong = held.iter().zip(found).filter(|((_, held), found)| found.as_ref() != Some(held));
    Ok(wrong
        .map(|((_, held), _)| format!("the idempotency key of {} is not remembered", held.task))
        .collect())
}
