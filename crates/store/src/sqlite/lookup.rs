//! What a batch looks up by name: tasks, closed attempts, owners of idempotency keys, leases of polls.
//!
//! Excluded tasks are not read: their rows may be unreadable, and one of them would fail the whole batch.

use rusqlite::OptionalExtension;
use verdict::{ClosedAttempt, KeyUse, LeaseId, TaskId};

use super::batch::SqliteBatch;
use super::ids::Ids;
use super::reads;
use super::work::{StepError, Work, of_task};
use crate::failure::Failure;
use crate::lookup::{DebounceQuery, DebouncedKey, PolledRoom};
use crate::row::{FlowRef, IdempotencyKey, KeyOwner, PollRef, TaskKey, TaskWithSpec};
use crate::seam::{Found, Loaded, Lookup};

/// The task of a key whose wait is not over. There is one at most; the order only makes the answer the same each time.
fn waiting(
    connection: &rusqlite::Connection,
    query: &DebounceQuery,
) -> rusqlite::Result<Option<TaskId>> {
    let sql = "SELECT l.id FROM live l JOIN lanes n ON n.lane = l.lane
        WHERE l.flow_key = ?3 AND l.debounced_until > ?4 AND n.tenant = ?1 AND n.workspace = ?2
        ORDER BY l.debounced_until DESC, l.id DESC LIMIT 1";
    let FlowRef { scope, key } = &query.flow;
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    let parameters = (tenant, workspace, key.as_str(), query.now.millis());
    let id = connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0)).optional()?;
    Ok(id.map(|bytes| TaskId::from_u128(u128::from_be_bytes(bytes))))
}

impl SqliteBatch<'_> {
    pub(super) fn find(&mut self, lookup: &Lookup<'_>, excluded: &Ids) -> Result<Found, Failure> {
        let owners = self.key_owners(lookup.keys)?;
        let loaded = self.load(&lookup.tasks_to_load(&owners), excluded)?;
        let mut found = Found::of(lookup, owners, loaded);
        found.closed = self.closed_attempts(lookup.leases, excluded)?;
        found.leased = self.leased_to_polls(lookup.polls, excluded)?;
        (found.runs, found.step_specs) = self.load_runs(lookup.runs, excluded)?;
        found.messages = self.saved_messages(lookup.messages, excluded)?;
        found.objects = self.load_objects(lookup.objects)?;
        found.unique_objects = self.load_unique_objects(lookup.unique_objects)?;
        found.flows = self.flow_uses(lookup.flows)?;
        found.debounced = self.debounced(lookup.debounced, excluded)?;
        found.spend = self.load_spend(lookup.spend)?;
        found.logs = self.load_logs(lookup.logs)?;
        found.listed = self.list_objects(lookup.listed)?;
        Ok(found)
    }

    /// From memory, which holds what this batch saved.
    fn flow_uses(&mut self, flows: &[FlowRef]) -> Result<Vec<Option<KeyUse>>, Failure> {
        self.step("looking up flow keys", |work| {
            let index = &work.memory.index;
            Ok(flows.iter().map(|flow| index.flow_use(&flow.scope, &flow.key)).collect())
        })
    }

    /// The tasks that wait for newer ones. The only writer needs no lock.
    fn debounced(
        &mut self,
        queries: &[DebounceQuery],
        excluded: &Ids,
    ) -> Result<Vec<DebouncedKey>, Failure> {
        self.step("looking up debounced runs", |work| {
            let find = |query: &DebounceQuery| {
                let Some(id) = waiting(work.connection, query)? else {
                    return Ok(DebouncedKey::Nobody);
                };
                let key = TaskKey { scope: query.flow.scope.clone(), id };
                let is_excluded = excluded.contains(&id);
                let loaded = if is_excluded { Loaded::Locked } else { work.load_one(&key)? };
                Ok(DebouncedKey::Waits(id, loaded))
            };
            queries.iter().map(find).collect()
        })
    }

    fn key_owners(&mut self, keys: &[IdempotencyKey]) -> Result<Vec<Option<KeyOwner>>, Failure> {
        self.step("looking up idempotency keys", |work| {
            let find = |key| Ok(work.memory.keys.key_owner(work.connection, key)?);
            keys.iter().map(find).collect()
        })
    }

    fn load(&mut self, keys: &[TaskKey], excluded: &Ids) -> Result<Vec<Loaded>, Failure> {
        let load = |work: &mut Work<'_>, key: &TaskKey| match excluded.contains(&key.id) {
            true => Ok(Loaded::Locked),
            false => work.load_one(key),
        };
        self.step("loading tasks", |work| keys.iter().map(|key| load(work, key)).collect())
    }

    fn closed_attempts(
        &mut self,
        leases: &[(TaskId, LeaseId)],
        excluded: &Ids,
    ) -> Result<Vec<Option<ClosedAttempt>>, Failure> {
        self.step("loading closed attempts", |work| {
            let find = |(id, lease): &(TaskId, LeaseId)| {
                if excluded.contains(id) || work.is_held(*id, *lease) {
                    return Ok(None);
                }
                match work.row_of(*id)? {
                    Some(row) => {
                        let attempt = reads::attempt(work.connection, *id, row, *lease);
                        attempt.map_err(|error| of_task(error, *id))
                    }
                    None => Ok(None),
                }
            };
            leases.iter().map(find).collect()
        })
    }

    fn leased_to_polls(
        &mut self,
        polls: &[PollRef],
        excluded: &Ids,
    ) -> Result<Vec<Option<Vec<TaskWithSpec>>>, Failure> {
        self.step("looking up polls", |work| {
            let mut room = PolledRoom::default();
            let find = |poll: &PollRef| {
                let mut ids = work.memory.index.polled(poll);
                ids.retain(|id| !excluded.contains(id));
                let found = room.takes(ids.len()).then(|| {
                    let ready = ids.into_iter().map(|id| work.ready_row(id));
                    ready.collect::<Result<Vec<TaskWithSpec>, StepError>>()
                });
                found.transpose()
            };
            polls.iter().map(find).collect()
        })
    }
}
