//! One writer: a committer with its own id in the database.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use verdict::{Span, Time};

use super::PostgresBatch;
use super::commit::Marker;
use crate::administration::Administration;
use crate::failure::{CommitFailure, Failure};
use crate::postgres::administration::pauses;
use crate::postgres::failover::primary;
use crate::postgres::reads::{self, Client, WakeTimes};
use crate::postgres::{Shared, administration, peers};
use crate::seam::Writer;

pub struct PostgresWriter {
    pub(in crate::postgres) shared: Arc<Shared>,
    pub(in crate::postgres) committer: [u8; 16],
    marked: i64,
    /// When a batch last read the clock: tasks that were ready by then have been seen.
    pub(in crate::postgres) clock_read_at: Option<Time>,
}

impl PostgresWriter {
    /// The caller has counted this writer already.
    pub(in crate::postgres) async fn open(shared: Arc<Shared>) -> Result<Self, Failure> {
        let is_first = shared.committers().is_empty();
        let named = match is_first {
            true => peers::register(&shared).await,
            // The coordinator is registered already; a further writer only needs an id for its batches.
            false => peers::new_committer_id(&shared).await,
        };
        let committer = match named {
            Ok(committer) => committer,
            Err(failure) => {
                shared.writers.fetch_sub(1, Ordering::SeqCst);
                return Err(failure);
            }
        };
        shared.committers().push(committer);
        let mut writer = Self { shared, committer, marked: 0, clock_read_at: None };
        pauses::refresh(&writer.shared).await?;
        writer.next_wake().await?;
        Ok(writer)
    }

    pub(in crate::postgres) fn next_marker(&mut self) -> Marker {
        self.marked += 1;
        Marker { committer: self.committer, n: self.marked }
    }
}

impl Writer for PostgresWriter {
    type Batch<'w> = PostgresBatch<'w>;

    async fn begin(&mut self) -> Result<PostgresBatch<'_>, Failure> {
        self.shared.background_tasks.wait().await;
        primary::settle_failover(&self.shared).await?;
        let rules = self.shared.rules.rules()?;
        let (number, pauses) = (self.shared.number_batch(), self.shared.pauses.get());
        Ok(PostgresBatch::new(self, number, rules, pauses))
    }

    async fn next_wake(&mut self) -> Result<Option<Time>, Failure> {
        let grants = self.shared.memory().grants;
        let after = self.clock_read_at.unwrap_or(Time::from_millis(i64::MIN));
        let look = move |client: Client| async move { reads::wake_times(&client, after).await };
        let wake_times = self.shared.read_for_writer("looking for the next wake-up", look).await?;
        let shortest =
            wake_times.shortest_lease_ms.map(|millis| Span::from_millis(millis.unsigned_abs()));
        let mut memory = self.shared.memory();
        memory.note_shortest_lease(shortest, grants);
        memory.note_message(wake_times.message_due);
        memory.note_due_object(wake_times.object_due);
        let WakeTimes { wakes_at, due, message_due, object_due, .. } = wake_times;
        let times = [wakes_at, due, message_due, object_due, memory.flows.next_wake()];
        Ok(times.into_iter().flatten().min())
    }

    fn shortest_lease(&self) -> Option<Span> {
        self.shared.memory().shortest_lease
    }

    async fn administer(&mut self, act: &Administration) -> Result<(), CommitFailure> {
        let (act, has_pauses) = (act.clone(), !act.pauses.is_empty());
        let write = move |client: Client| async move { administration::write(&client, &act).await };
        self.shared.in_own_transaction("saving an administrative change", write).await?;
        if has_pauses {
            // If this fails, the next batch finds the version changed and reads again.
            if let Err(error) = pauses::refresh(&self.shared).await {
                tracing::debug!(%error, "cannot read the paused queues yet");
            }
        }
        Ok(())
    }
}

impl Drop for PostgresWriter {
    fn drop(&mut self) {
        self.shared.writers.fetch_sub(1, Ordering::SeqCst);
        self.shared.committers().retain(|committer| *committer != self.committer);
        self.shared.primary.forget(&self.committer);
        peers::deregister(&self.shared, self.committer);
    }
}
