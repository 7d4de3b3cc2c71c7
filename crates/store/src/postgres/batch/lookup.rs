//! What a batch looks up by name: tasks, closed attempts, owners of idempotency keys, leases of polls, the shortest
//! lease.
//!
//! Tasks are locked in the order of their keys. The clock is read in the same round trip, after the locks, and the tasks
//! that will probably be granted are locked in it too.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use verdict::{ClosedAttempt, LeaseId, Span, Subject, Task, TaskId};

use super::PostgresBatch;
use super::pending_writes::LockedRow;
use crate::failure::Failure;
use crate::lookup::PolledRoom;
use crate::postgres::reads::run_records::{FoundRuns, RunReads};
use crate::postgres::reads::{self, Keys};
use crate::row::{IdempotencyKey, KeyOwner, PollRef, TaskKey, TaskWithSpec};
use crate::seam::{Loaded, LockWait};

impl PostgresBatch<'_> {
    async fn load_from_tables(
        &mut self,
        wanted: Vec<TaskKey>,
        lock_wait: LockWait,
        run_reads: RunReads,
    ) -> Result<(HashMap<TaskKey, Loaded>, FoundRuns), Failure> {
        let prefetched = self.prefetched.ids();
        let scopes = wanted.iter().map(|key| &key.scope).chain(self.prefetched.scopes());
        let setting = self.scopes.add(scopes.chain(run_reads.scopes()));
        let keys = Arc::new(Keys::of(wanted.iter()));
        let is_clock_ours = self.writer.shared.clock.injected().is_none();
        let (asked, shared) = (keys.clone(), self.writer.shared.clone());
        let work = move |client| async move {
            let clock = async {
                if is_clock_ours { reads::clock(&client).await.map(Some) } else { Ok(None) }
            };
            // Sent together and answered in this order: the clock is read after the locks, and so are the records.
            let (set, locked, taken, runs, clock) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::lock(&client, &asked, lock_wait),
                reads::lock_waiting(&client, &prefetched),
                run_reads.read(&client),
                clock,
            );
            set?;
            let mut locked = locked?;
            reads::complete_waits(&client, &mut locked, &shared.long_waits).await?;
            Ok((locked, taken?, runs?, clock?))
        };
        let (locked, taken, runs, clock) = self.transaction().run("loading tasks", work).await?;
        self.prefetched.took(taken);
        self.read = clock;
        let is_whole = locked.len() == wanted.len();
        let mut found = if is_whole { HashMap::new() } else { self.missing(wanted, keys).await? };
        for row in locked {
            self.locked.insert(row.task.id, LockedRow::of(&row));
            let key = TaskKey { scope: row.task.scope.clone(), id: row.task.id };
            found.insert(key, Loaded::Subject(Subject::Live(row.task)));
        }
        Ok((found, runs))
    }

    /// Why tasks could not be locked: another writer has locked them, or they have ended.
    async fn missing(
        &mut self,
        wanted: Vec<TaskKey>,
        keys: Arc<Keys>,
    ) -> Result<HashMap<TaskKey, Loaded>, Failure> {
        let work = move |client| async move {
            let (present, ended) =
                futures_util::join!(reads::present(&client, &keys), reads::ended(&client, &keys),);
            Ok((present?, ended?))
        };
        let (present, ended) = self.transaction().run("loading tasks", work).await?;
        let present: HashSet<TaskId> = present.into_iter().collect();
        let held = wanted.into_iter().filter(|key| present.contains(&key.id));
        let mut found: HashMap<TaskKey, Loaded> = held.map(|key| (key, Loaded::Locked)).collect();
        // A task that ended between two of these statements counts as done, whatever the others saw.
        for done in ended {
            let key = TaskKey { scope: done.scope.clone(), id: done.id };
            found.insert(key, Loaded::Subject(Subject::Done(done)));
        }
        Ok(found)
    }

    /// Loads and locks tasks, and reads the records of durable runs behind the locks. The answers are in the order of the
    /// keys.
    pub(super) async fn load(
        &mut self,
        keys: &[TaskKey],
        lock_wait: LockWait,
        run_reads: RunReads,
    ) -> Result<(Vec<Loaded>, FoundRuns), Failure> {
        self.has_answers |= !keys.is_empty();
        let mut wanted: Vec<TaskKey> =
            keys.iter().filter(|key| self.is_in_table(key.id)).cloned().collect();
        wanted.sort();
        wanted.dedup();
        let (found, runs) = if wanted.is_empty() {
            (HashMap::new(), self.read_runs(run_reads).await?)
        } else {
            self.load_from_tables(wanted, lock_wait, run_reads).await?
        };
        let answer = |key: &TaskKey| match self.pending.get(key.id) {
            _ if self.excluded.contains(&key.id) => Loaded::Locked,
            Some(pending) if pending.subject.scope() == Some(&key.scope) => {
                Loaded::Subject(pending.subject.clone())
            }
            Some(_) => Loaded::Subject(Subject::Absent),
            None => found.get(key).cloned().unwrap_or(Loaded::Subject(Subject::Absent)),
        };
        Ok((keys.iter().map(answer).collect(), runs))
    }

    /// Whether to read a task from the table: not if this batch has changed it, or may not read it.
    fn is_in_table(&self, id: TaskId) -> bool {
        !self.pending.contains(id) && !self.excluded.contains(&id)
    }

    pub(super) async fn closed_attempts(
        &mut self,
        leases: &[(TaskId, LeaseId)],
    ) -> Result<Vec<Option<ClosedAttempt>>, Failure> {
        // A task's current lease is not closed, and nearly every report refers to that one.
        let is_current = |(task, lease): &&(TaskId, LeaseId)| {
            self.locked.get(task).is_some_and(|locked| locked.lease == Some(*lease))
        };
        let is_asked =
            |quoted: &&(TaskId, LeaseId)| !is_current(quoted) && !self.excluded.contains(&quoted.0);
        let asked: Vec<_> = leases.iter().filter(is_asked).copied().collect();
        let found = if asked.is_empty() {
            Vec::new()
        } else {
            let work = move |client| async move { reads::closed(&client, &asked).await };
            self.transaction().run("loading closed attempts", work).await?
        };
        let find = |(task, lease): &(TaskId, LeaseId)| {
            let is_it = |closed: &&ClosedAttempt| closed.task == *task && closed.lease == *lease;
            found.iter().chain(self.pending.closed(*task)).find(is_it).cloned()
        };
        Ok(leases.iter().map(find).collect())
    }

    pub(super) async fn key_owners(
        &mut self,
        keys: &[IdempotencyKey],
    ) -> Result<Vec<Option<KeyOwner>>, Failure> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.has_answers = true;
        let wanted: Vec<IdempotencyKey> =
            keys.iter().filter(|key| !self.pending.keys.contains_key(key)).cloned().collect();
        let setting = self.scopes.add(wanted.iter().map(|key| &key.scope));
        let asked = wanted.clone();
        let work = move |client| async move {
            let (set, key_owners) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::key_owners(&client, &asked)
            );
            set?;
            key_owners
        };
        let found = self.transaction().run("looking up idempotency keys", work).await?;
        let found: HashMap<IdempotencyKey, KeyOwner> = found.into_iter().collect();
        for key in wanted {
            let seen = found.get(&key).map(|held| held.task);
            self.pending.seen_keys.entry(key).or_insert(seen);
        }
        Ok(keys.iter().map(|key| self.pending.keys.get(key).or(found.get(key)).cloned()).collect())
    }

    pub(super) async fn leased_to_polls(
        &mut self,
        polls: &[PollRef],
    ) -> Result<Vec<Option<Vec<TaskWithSpec>>>, Failure> {
        if polls.is_empty() {
            return Ok(Vec::new());
        }
        let (counts, mut room) = (self.count_polled(polls).await?, PolledRoom::default());
        let served: Vec<bool> = counts.iter().map(|leases| room.takes(*leases)).collect();
        let has_leases =
            |(n, poll): (usize, &PollRef)| (served[n] && counts[n] > 0).then(|| poll.clone());
        let leased: Vec<PollRef> = polls.iter().enumerate().filter_map(has_leases).collect();
        let mut found = match leased.is_empty() {
            true => Vec::new(),
            false => self.polled_in_table(leased).await?,
        };
        // Leases from another batch are returned again. Marking this batch ensures that they are durable before a
        // caller gets them.
        self.has_answers |= !found.is_empty();
        found.retain(|ready| !self.pending.contains(ready.task.id));
        let asked: HashSet<&PollRef> = polls.iter().collect();
        let is_asked = |task: &&Task| poll_of(task).is_some_and(|poll| asked.contains(&poll));
        let pending: Vec<Task> = self.pending.live().filter(is_asked).cloned().collect();
        let mut specs = self.specs(&pending).await?;
        found.extend(pending.into_iter().filter_map(|task| {
            let spec = specs.remove(&task.id)?;
            Some(TaskWithSpec { task, spec })
        }));
        found.sort_by_key(|ready| ready.task.id);
        let mut by_poll: HashMap<PollRef, Vec<TaskWithSpec>> = HashMap::new();
        for ready in found {
            let Some(poll) = poll_of(&ready.task) else { continue };
            by_poll.entry(poll).or_default().push(ready);
        }
        let of = |(poll, served): (&PollRef, bool)| {
            served.then(|| by_poll.get(poll).cloned().unwrap_or_default())
        };
        Ok(polls.iter().zip(served).map(of).collect())
    }

    async fn count_polled(&mut self, polls: &[PollRef]) -> Result<Vec<usize>, Failure> {
        let setting = self.scopes.add(polls.iter().map(|poll| &poll.scope));
        let polls = polls.to_vec();
        let work = move |client| async move {
            let (set, counts) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::count_polled(&client, &polls)
            );
            set?;
            counts
        };
        self.transaction().run("looking up polls", work).await
    }

    async fn polled_in_table(&mut self, polls: Vec<PollRef>) -> Result<Vec<TaskWithSpec>, Failure> {
        let setting = self.scopes.add(polls.iter().map(|poll| &poll.scope));
        let excluded = self.excluded.clone();
        let work = move |client| async move {
            let (set, ready) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::polled(&client, &polls, &excluded)
            );
            set?;
            ready
        };
        self.transaction().run("looking up polls", work).await
    }

    /// Reads the shortest lease of all coordinators; [`crate::seam::Writer::shortest_lease`] knows it from then on.
    pub(super) async fn read_shortest_lease(&mut self) -> Result<Option<Span>, Failure> {
        let grants = self.writer.shared.memory().grants;
        let setting = self.scopes.all();
        let work = move |client| async move {
            let (set, shortest) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::shortest_lease(&client)
            );
            set?;
            shortest
        };
        let shortest = self.transaction().run("looking for the shortest lease", work).await?;
        self.writer.shared.memory().note_shortest_lease(shortest, grants);
        Ok(shortest)
    }
}

/// The poll that a task was leased to.
fn poll_of(task: &Task) -> Option<PollRef> {
    let lease = task.lease()?;
    let (scope, owner) = (task.scope.clone(), lease.owner.clone());
    Some(PollRef { scope, owner, poll: lease.poll.clone()? })
}
