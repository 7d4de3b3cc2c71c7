//! Refilling buffers: one statement for many of them, on a separate connection beside the batches.
//!
//! A batch never reads a queue. It records which buffers are polled and which candidates it lacks, and waits briefly
//! only for buffers that were never read. All other refills run in the background and wake the writer that grants.
//! The result is a hint: a page may be out of date when it arrives, and every candidate is locked and checked again
//! before it is granted.
//!
//! Two tasks refill: one reads many buffers at once, the other reads slow buffers, so an old snapshot that makes one
//! queue slow delays no other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::{Name, Time};

use super::candidates::{BufferKey, BufferRead};
use super::queue_buffer::{PAGE, Page, RefillFrom};
use super::queue_position::{POSITION_BYTES, QueuePosition};
use super::refill_schedule::ReadSpeed;
use crate::failure::Failure;
use crate::postgres::Shared;
use crate::postgres::connection::session::COMMIT;
use crate::postgres::errors::{self, StepError};
use crate::postgres::reads::{self, Client};
use crate::postgres::rows::Columns;
use crate::postgres::scopes::Scopes;

/// How long a batch waits for buffers that lack candidates. Far longer than such a read takes, even if its connection
/// must be made first, and a bound, so that one slow queue does not delay a batch for long.
const REFILL_WAIT_MAX: Duration = Duration::from_secs(3);

/// Maximum number of candidates per refill, over all of its buffers.
const ROWS_MAX: usize = 4 * PAGE;

/// Separates kinds in a text. Names hold no control characters.
const KIND_SEPARATOR: char = '\u{1f}';

/// Reads each buffer by the index of its queue, whatever the planner estimates for the table: an aggregate over a
/// limited subquery is not merged into the outer query. The last columns say when a buffer was done, and when the
/// first was begun.
pub(in crate::postgres) const REFILL: &str = "SELECT u.n, w.places, w.kinds, d.dues, d.places, d.kinds, \
    floor(extract(epoch FROM clock_timestamp()) * 1000000)::int8, \
    floor(extract(epoch FROM statement_timestamp()) * 1000000)::int8 \
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bool[]) \
        WITH ORDINALITY AS u(tenant, workspace, queue, kinds, after, is_head, n) \
    CROSS JOIN LATERAL (SELECT array_agg(p.place) AS places, array_agg(p.kind) AS kinds FROM \
        (SELECT l.place, l.kind FROM tenure.live l WHERE l.tenant = u.tenant \
            AND l.workspace = u.workspace AND l.queue = u.queue AND l.place > u.after \
            AND l.claimable_at IS NOT NULL AND NOT l.delayed \
            AND (u.kinds IS NULL OR l.kind = ANY (string_to_array(u.kinds, chr(31)))) \
            ORDER BY l.place LIMIT $7) p) w \
    CROSS JOIN LATERAL (SELECT array_agg(p.claimable_at) AS dues, array_agg(p.place) AS places, \
        array_agg(p.kind) AS kinds FROM \
        (SELECT l.claimable_at, l.place, l.kind FROM tenure.live l WHERE u.is_head \
            AND l.tenant = u.tenant AND l.workspace = u.workspace AND l.queue = u.queue \
            AND l.delayed AND NOT l.parked \
            AND (u.kinds IS NULL OR l.kind = ANY (string_to_array(u.kinds, chr(31)))) \
            ORDER BY l.claimable_at LIMIT $7) p) d";

/// Wakes the tasks that refill, and the batches that wait for them.
#[derive(Default)]
pub(in crate::postgres) struct RefillSignals {
    quick: Notify,
    slow: Notify,
    ended: Notify,
    is_closed: AtomicBool,
}

impl RefillSignals {
    /// Signals that a buffer may be due.
    pub(in crate::postgres) fn wake(&self) {
        self.quick.notify_one();
        self.slow.notify_one();
    }

    /// Ends the tasks that refill.
    pub(in crate::postgres) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.wake();
        self.ended.notify_waiters();
    }

    fn of(&self, speed: ReadSpeed) -> &Notify {
        match speed {
            ReadSpeed::Quick => &self.quick,
            ReadSpeed::Slow => &self.slow,
        }
    }
}

/// Starts both tasks. They end with the store.
pub(in crate::postgres) fn start(shared: &Arc<Shared>) {
    for speed in ReadSpeed::ALL {
        shared.runtime.spawn(run(Arc::downgrade(shared), shared.refill_signals.clone(), speed));
    }
}

async fn run(shared: Weak<Shared>, refill_signals: Arc<RefillSignals>, speed: ReadSpeed) {
    while !refill_signals.is_closed.load(Ordering::SeqCst) {
        let Some(strong) = shared.upgrade() else { return };
        let here = tokio::time::Instant::now();
        let buffers = strong.memory().candidates.begin_refill(speed, here);
        if !buffers.is_empty() {
            run_refill(&strong, buffers).await;
            refill_signals.ended.notify_waiters();
            continue;
        }
        let next = strong.memory().candidates.next_refill_at(speed);
        drop(strong);
        let until_next = async {
            match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = refill_signals.of(speed).notified() => {}
            () = until_next => {}
        }
    }
}

/// Reads these buffers and applies the result.
async fn run_refill(shared: &Arc<Shared>, buffers: Vec<(BufferKey, RefillFrom)>) {
    let began = tokio::time::Instant::now();
    let read = read(shared, &buffers).await;
    let here = tokio::time::Instant::now();
    let mut memory = shared.memory();
    match read {
        Ok(found) => {
            let found = buffers.into_iter().zip(found).map(|((key, refill), mut read)| {
                read.took = read.took.min(here - began);
                (key, refill, read)
            });
            let is_any_new = memory.candidates.finish_refill(found.collect(), here);
            drop(memory);
            if is_any_new {
                shared.hints.notify_local();
            }
        }
        Err(failure) => {
            memory.candidates.abort_refill(buffers, here);
            tracing::debug!(error = &failure as &dyn std::error::Error, "reading queues failed");
        }
    }
}

/// Reads all buffers in one round trip.
async fn read(
    shared: &Shared,
    buffers: &[(BufferKey, RefillFrom)],
) -> Result<Vec<BufferRead>, Failure> {
    let client: Client = Arc::new(shared.pool.get().await.map_err(errors::no_connection)?);
    let setting = Scopes::default().add(buffers.iter().map(|(key, _)| &key.scope));
    let limit = (ROWS_MAX / buffers.len()).clamp(1, PAGE);
    let columns_asked = RefillColumns::of(buffers, limit);
    let parameters = columns_asked.parameters();
    let (begun, set, rows, ended) = futures_util::join!(
        client.batch_execute(client.begin()),
        reads::set_scopes(&client, setting),
        client.query_typed(REFILL, &parameters),
        client.batch_execute(COMMIT),
    );
    let doing = |error: StepError| error.while_doing("looking at queues");
    begun.map_err(|error| doing(error.into()))?;
    set.map_err(doing)?;
    let rows = rows.map_err(|error| doing(error.into()))?;
    ended.map_err(|error| doing(error.into()))?;
    order_reads(&rows, buffers.len(), limit)
}

/// Buffers as columns.
struct RefillColumns {
    tenants: Vec<String>,
    workspaces: Vec<String>,
    queues: Vec<String>,
    kinds: Vec<Option<String>>,
    after: Vec<Vec<u8>>,
    is_head: Vec<bool>,
    limit: i64,
}

impl RefillColumns {
    fn of(buffers: &[(BufferKey, RefillFrom)], limit: usize) -> Self {
        let text = |name: &Name| name.as_str().to_owned();
        let joined = |kinds: &Vec<Name>| {
            let kinds: Vec<&str> = kinds.iter().map(Name::as_str).collect();
            kinds.join(&KIND_SEPARATOR.to_string())
        };
        let after = |refill: &RefillFrom| match refill {
            RefillFrom::Head => Vec::new(),
            RefillFrom::After(position) => position.bytes().to_vec(),
        };
        Self {
            tenants: buffers.iter().map(|(key, _)| text(&key.scope.tenant)).collect(),
            workspaces: buffers.iter().map(|(key, _)| text(&key.scope.workspace)).collect(),
            queues: buffers.iter().map(|(key, _)| text(&key.queue)).collect(),
            kinds: buffers.iter().map(|(key, _)| key.kinds.as_ref().map(joined)).collect(),
            after: buffers.iter().map(|(_, refill)| after(refill)).collect(),
            is_head: buffers.iter().map(|(_, refill)| *refill == RefillFrom::Head).collect(),
            limit: reads::as_limit(limit),
        }
    }

    fn parameters(&self) -> [(&(dyn ToSql + Sync), Type); 7] {
        [
            (&self.tenants, Type::TEXT_ARRAY),
            (&self.workspaces, Type::TEXT_ARRAY),
            (&self.queues, Type::TEXT_ARRAY),
            (&self.kinds, Type::TEXT_ARRAY),
            (&self.after, Type::BYTEA_ARRAY),
            (&self.is_head, Type::BOOL_ARRAY),
            (&self.limit, Type::INT8),
        ]
    }
}

/// The reads in the order of the buffers that were requested. Rows come in the order in which buffers were read.
fn order_reads(rows: &[Row], buffers: usize, limit: usize) -> Result<Vec<BufferRead>, Failure> {
    let mut reads: Vec<BufferRead> = Vec::new();
    reads.resize_with(buffers, BufferRead::default);
    let mut done_at = None;
    for row in rows {
        let mut columns = Columns::of(row);
        let n = usize::try_from(columns.take::<i64>()?).unwrap_or(0);
        let read = read_buffer(&mut columns, limit, &mut done_at)?;
        if let Some(position) = n.checked_sub(1).and_then(|n| reads.get_mut(n)) {
            *position = read;
        }
    }
    Ok(reads)
}

/// The read of one buffer. `done_at` is when the one before it was done, in microseconds.
fn read_buffer(
    columns: &mut Columns<'_>,
    limit: usize,
    done_at: &mut Option<i64>,
) -> Result<BufferRead, Failure> {
    let positions: Vec<(QueuePosition, Name)> = columns_zipped(columns)?;
    let dues: Option<Vec<i64>> = columns.take()?;
    let delayed: Vec<(QueuePosition, Name)> = columns_zipped(columns)?;
    let (done, begun): (i64, i64) = (columns.take()?, columns.take()?);
    let took = done.saturating_sub(done_at.replace(done).unwrap_or(begun)).max(0);
    let dues = dues.unwrap_or_default().into_iter().map(Time::from_millis);
    let delayed: Vec<_> =
        dues.zip(delayed).map(|(due, (position, kind))| (due, position, kind)).collect();
    let (is_last, is_all_delayed) = (positions.len() < limit, delayed.len() < limit);
    let page = Page { positions, is_last, delayed, is_all_delayed };
    Ok(BufferRead { page, took: Duration::from_micros(took.unsigned_abs()) })
}

/// Positions and the kinds of their tasks; empty if there are none.
fn columns_zipped(columns: &mut Columns<'_>) -> Result<Vec<(QueuePosition, Name)>, Failure> {
    let positions: Option<Vec<Vec<u8>>> = columns.take()?;
    let kinds: Option<Vec<String>> = columns.take()?;
    let position = |bytes: Vec<u8>| {
        <[u8; POSITION_BYTES]>::try_from(bytes).ok().map(QueuePosition::from_bytes)
    };
    let kinds = kinds.unwrap_or_default().into_iter().map(Name::from);
    let both = positions.unwrap_or_default().into_iter().zip(kinds);
    Ok(both.filter_map(|(bytes, kind)| Some((position(bytes)?, kind))).collect())
}

impl Shared {
    /// Requests reads of these buffers, and waits for them until a deadline.
    pub(in crate::postgres) async fn refill_and_wait(
        &self,
        needs: Vec<(BufferKey, RefillFrom)>,
        until: Instant,
    ) {
        if needs.is_empty() {
            return;
        }
        let here = tokio::time::Instant::now();
        {
            let mut memory = self.memory();
            needs
                .iter()
                .for_each(|(key, refill)| memory.candidates.request_refill(key, *refill, here));
        }
        self.refill_signals.wake();
        let buffers: Vec<BufferKey> = needs.into_iter().map(|(key, _)| key).collect();
        self.wait_for_refills(&buffers, until).await;
    }

    /// Waits until these buffers have been read, or their reads have failed.
    pub(in crate::postgres) async fn wait_for_refills(
        &self,
        buffers: &[BufferKey],
        until: Instant,
    ) {
        let waiting = async {
            loop {
                let ended = self.refill_signals.ended.notified();
                let here = tokio::time::Instant::now();
                let is_pending = {
                    let memory = self.memory();
                    buffers.iter().any(|buffer| memory.candidates.is_pending(buffer, here))
                };
                if !is_pending {
                    return;
                }
                ended.await;
            }
        };
        // After the deadline the batch continues with the candidates it has; a later result wakes it then.
        let _ = tokio::time::timeout_at(until, waiting).await;
    }
}

/// The deadline of a batch that starts to wait now.
pub(in crate::postgres) fn refill_deadline() -> Instant {
    tokio::time::Instant::now() + REFILL_WAIT_MAX
}
