//! Looking at lanes: one statement for many, on a connection of its own, beside the batches.
//!
//! A batch never reads a queue. It says which lanes are polled and what it lacks, and for what nobody has ever looked at it
//! waits a moment; everything else is found by itself and told to whoever grants. What is read here is a hint: a
//! page may be old by the time it comes, and every candidate is locked and looked at again before it is given to anybody.
//!
//! Two tasks look: one at many lanes at once, one at those that take long, so that an old snapshot which makes one
//! queue slow makes no other wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::{Name, Time};

use super::Shared;
use super::agenda::Class;
use super::candidates::{LaneKey, Read};
use super::lane::{PAGE, Page, Refill};
use super::place::{PLACE_BYTES, Place};
use super::reads::{self, Client};
use super::rows::Columns;
use super::scopes::Scopes;
use super::session::COMMIT;
use super::trouble::{self, Trouble};
use crate::failure::Failure;

/// How long a batch waits for lanes that it knows too little of. Far longer than such a read takes, also where its
/// connection must be made first; and an end, so that one slow queue does not keep a batch for long.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Candidates that one look brings, of all its lanes.
const ROWS_MAX: usize = 4 * PAGE;

/// Between kinds in a text. Names hold no control characters.
const KINDS: char = '\u{1f}';

/// Each lane by the index of its queue, whatever the planner believes of the table: an aggregate over a limited
/// subquery is not merged into anything. The last columns say when a lane was done, and when the first was begun.
pub(super) const LOOK: &str = "SELECT u.n, w.places, w.kinds, d.dues, d.places, d.kinds, \
    floor(extract(epoch FROM clock_timestamp()) * 1000000)::int8, \
    floor(extract(epoch FROM statement_timestamp()) * 1000000)::int8 \
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bool[]) \
        WITH ORDINALITY AS u(tenant, workspace, queue, kinds, after, is_head, n) \
    CROSS JOIN LATERAL (SELECT array_agg(p.place) AS places, array_agg(p.kind) AS kinds FROM \
        (SELECT l.place, l.kind FROM tenure.live l WHERE l.tenant = u.tenant \
            AND l.workspace = u.workspace AND l.queue = u.queue AND l.place > u.after \
            AND l.due IS NOT NULL AND NOT l.delayed \
            AND (u.kinds IS NULL OR l.kind = ANY (string_to_array(u.kinds, chr(31)))) \
            ORDER BY l.place LIMIT $7) p) w \
    CROSS JOIN LATERAL (SELECT array_agg(p.due) AS dues, array_agg(p.place) AS places, \
        array_agg(p.kind) AS kinds FROM \
        (SELECT l.due, l.place, l.kind FROM tenure.live l WHERE u.is_head \
            AND l.tenant = u.tenant AND l.workspace = u.workspace AND l.queue = u.queue \
            AND l.delayed \
            AND (u.kinds IS NULL OR l.kind = ANY (string_to_array(u.kinds, chr(31)))) \
            ORDER BY l.due LIMIT $7) p) d";

/// What wakes the tasks that look, and whoever waits for them.
#[derive(Default)]
pub(super) struct Looks {
    quick: Notify,
    slow: Notify,
    ended: Notify,
    is_closed: AtomicBool,
}

impl Looks {
    /// There may be something to look at.
    pub(super) fn wake(&self) {
        self.quick.notify_one();
        self.slow.notify_one();
    }

    /// Nobody needs looks any more.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.wake();
        self.ended.notify_waiters();
    }

    fn of(&self, class: Class) -> &Notify {
        match class {
            Class::Quick => &self.quick,
            Class::Slow => &self.slow,
        }
    }
}

/// Starts both tasks. They end with the store.
pub(super) fn start(shared: &Arc<Shared>) {
    for class in Class::ALL {
        shared.runtime.spawn(run(Arc::downgrade(shared), shared.looks.clone(), class));
    }
}

async fn run(shared: Weak<Shared>, looks: Arc<Looks>, class: Class) {
    while !looks.is_closed.load(Ordering::SeqCst) {
        let Some(strong) = shared.upgrade() else { return };
        let here = tokio::time::Instant::now();
        let lanes = strong.memory().candidates.begin_look(class, here);
        if !lanes.is_empty() {
            look(&strong, lanes).await;
            looks.ended.notify_waiters();
            continue;
        }
        let next = strong.memory().candidates.next_look(class);
        drop(strong);
        let until_next = async {
            match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = looks.of(class).notified() => {}
            () = until_next => {}
        }
    }
}

/// Reads these lanes and takes in what was found.
async fn look(shared: &Arc<Shared>, lanes: Vec<(LaneKey, Refill)>) {
    let began = tokio::time::Instant::now();
    let read = read(shared, &lanes).await;
    let here = tokio::time::Instant::now();
    let mut memory = shared.memory();
    match read {
        Ok(found) => {
            let found = lanes.into_iter().zip(found).map(|((key, refill), mut read)| {
                read.took = read.took.min(here - began);
                (key, refill, read)
            });
            let is_any_new = memory.candidates.end_look(found.collect(), here);
            drop(memory);
            if is_any_new {
                shared.hints.stir();
            }
        }
        Err(failure) => {
            memory.candidates.give_up_look(lanes, here);
            tracing::debug!(error = &failure as &dyn std::error::Error, "a look at queues failed");
        }
    }
}

/// All in one go, so that a look is one way there and back.
async fn read(shared: &Shared, lanes: &[(LaneKey, Refill)]) -> Result<Vec<Read>, Failure> {
    let client: Client = Arc::new(shared.pool.get().await.map_err(trouble::no_connection)?);
    let setting = Scopes::default().add(lanes.iter().map(|(key, _)| &key.scope));
    let limit = (ROWS_MAX / lanes.len()).clamp(1, PAGE);
    let asked = Asked::of(lanes, limit);
    let parameters = asked.parameters();
    let (begun, set, rows, ended) = futures_util::join!(
        client.batch_execute(client.begin()),
        reads::set_scopes(&client, setting),
        client.query_typed(LOOK, &parameters),
        client.batch_execute(COMMIT),
    );
    let doing = |trouble: Trouble| trouble.while_doing("looking at queues");
    begun.map_err(|error| doing(error.into()))?;
    set.map_err(doing)?;
    let rows = rows.map_err(|error| doing(error.into()))?;
    ended.map_err(|error| doing(error.into()))?;
    place_rows(&rows, lanes.len(), limit)
}

/// Lanes as columns.
struct Asked {
    tenants: Vec<String>,
    workspaces: Vec<String>,
    queues: Vec<String>,
    kinds: Vec<Option<String>>,
    after: Vec<Vec<u8>>,
    is_head: Vec<bool>,
    limit: i64,
}

impl Asked {
    fn of(lanes: &[(LaneKey, Refill)], limit: usize) -> Self {
        let text = |name: &Name| name.as_str().to_owned();
        let joined = |kinds: &Vec<Name>| {
            let kinds: Vec<&str> = kinds.iter().map(Name::as_str).collect();
            kinds.join(&KINDS.to_string())
        };
        let after = |refill: &Refill| match refill {
            Refill::Head => Vec::new(),
            Refill::After(place) => place.bytes().to_vec(),
        };
        Self {
            tenants: lanes.iter().map(|(key, _)| text(&key.scope.tenant)).collect(),
            workspaces: lanes.iter().map(|(key, _)| text(&key.scope.workspace)).collect(),
            queues: lanes.iter().map(|(key, _)| text(&key.queue)).collect(),
            kinds: lanes.iter().map(|(key, _)| key.kinds.as_ref().map(joined)).collect(),
            after: lanes.iter().map(|(_, refill)| after(refill)).collect(),
            is_head: lanes.iter().map(|(_, refill)| *refill == Refill::Head).collect(),
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

/// Every lane's read at its place. Rows come in the order in which lanes were read.
fn place_rows(rows: &[Row], lanes: usize, limit: usize) -> Result<Vec<Read>, Failure> {
    let mut reads: Vec<Read> = Vec::new();
    reads.resize_with(lanes, Read::default);
    let mut done_at = None;
    for row in rows {
        let mut columns = Columns::of(row);
        let n = usize::try_from(columns.take::<i64>()?).unwrap_or(0);
        let read = read_lane(&mut columns, limit, &mut done_at)?;
        if let Some(place) = n.checked_sub(1).and_then(|n| reads.get_mut(n)) {
            *place = read;
        }
    }
    Ok(reads)
}

/// One lane. `done_at` is when the one before it was done, in microseconds.
fn read_lane(
    columns: &mut Columns<'_>,
    limit: usize,
    done_at: &mut Option<i64>,
) -> Result<Read, Failure> {
    let places: Vec<(Place, Name)> = columns_zipped(columns)?;
    let dues: Option<Vec<i64>> = columns.take()?;
    let delayed: Vec<(Place, Name)> = columns_zipped(columns)?;
    let (done, begun): (i64, i64) = (columns.take()?, columns.take()?);
    let took = done.saturating_sub(done_at.replace(done).unwrap_or(begun)).max(0);
    let dues = dues.unwrap_or_default().into_iter().map(Time::from_millis);
    let delayed: Vec<_> =
        dues.zip(delayed).map(|(due, (place, kind))| (due, place, kind)).collect();
    let (is_last, is_all_delayed) = (places.len() < limit, delayed.len() < limit);
    let page = Page { places, is_last, delayed, is_all_delayed };
    Ok(Read { page, took: Duration::from_micros(took.unsigned_abs()) })
}

/// Places and the kinds of their tasks; nothing where there are none.
fn columns_zipped(columns: &mut Columns<'_>) -> Result<Vec<(Place, Name)>, Failure> {
    let places: Option<Vec<Vec<u8>>> = columns.take()?;
    let kinds: Option<Vec<String>> = columns.take()?;
    let place = |bytes: Vec<u8>| <[u8; PLACE_BYTES]>::try_from(bytes).ok().map(Place::from_bytes);
    let kinds = kinds.unwrap_or_default().into_iter().map(Name::from);
    let both = places.unwrap_or_default().into_iter().zip(kinds);
    Ok(both.filter_map(|(bytes, kind)| Some((place(bytes)?, kind))).collect())
}

impl Shared {
    /// Has these lanes read, and waits for it a while.
    pub(super) async fn look_at(&self, needs: Vec<(LaneKey, Refill)>, until: Instant) {
        if needs.is_empty() {
            return;
        }
        let here = tokio::time::Instant::now();
        {
            let mut memory = self.memory();
            needs.iter().for_each(|(key, refill)| memory.candidates.need(key, *refill, here));
        }
        self.looks.wake();
        let lanes: Vec<LaneKey> = needs.into_iter().map(|(key, _)| key).collect();
        self.wait_for(&lanes, until).await;
    }

    /// Waits until these lanes have been read, or could not be.
    pub(super) async fn wait_for(&self, lanes: &[LaneKey], until: Instant) {
        let waiting = async {
            loop {
                let ended = self.looks.ended.notified();
                let here = tokio::time::Instant::now();
                let is_pending = {
                    let memory = self.memory();
                    lanes.iter().any(|lane| memory.candidates.is_pending(lane, here))
                };
                if !is_pending {
                    return;
                }
                ended.await;
            }
        };
        // Whoever has waited long enough goes on with what is known; what is found later is told then.
        let _ = tokio::time::timeout_at(until, waiting).await;
    }
}

/// Until when a batch that begins to wait now does.
pub(super) fn patience() -> Instant {
    tokio::time::Instant::now() + WAIT_MAX
}
