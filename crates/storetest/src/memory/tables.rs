//! The tables, and which batch holds which row.

use std::collections::{BTreeMap, BTreeSet};

use store::administration::{Administration, ApiKey, Audit, RingChange, SealedRing, TenantLimits};
use store::engine;
use store::failure::{Failure, FailureKind};
use store::logs::{LogRow, LogsOf, SavedLog};
use store::pauses::PausedQueues;
use store::record_seals::{
    EndedRecord, EndedRecords, Leaf, RecordSeal, SealFilter, SealsOf, leaf_digest,
};
use store::row::{Entry, FlowRef, IdempotencyKey, KeyOwner, Refused, Spec, StoredTask, TaskKey};
use store::runs::{MessageKey, SavedMessage};
use store::spend::{SpendQuery, SpendRow, add};
use verdict::log::{Piece, PieceId};
use verdict::rules::{to_activate, to_join};
use verdict::scope_budget::Day;
use verdict::{
    Amounts, ClosedAttempt, Done, Name, ObjectKey, Rules, Scope, Subject, SupportedRules, Task,
    TaskId, Time,
};

use super::flows::{AllStarts, has_rate};
use super::objects::Objects;
use super::runs::{Messages, RunTables};
use crate::memory::CommitOutcome;

/// Everything the store holds. A batch keeps what it saved in a second, small set of tables.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) live: BTreeMap<TaskId, Task>,
    pub(super) done: BTreeMap<TaskId, Done>,
    pub(super) specs: BTreeMap<TaskId, Spec>,
    pub(super) attempts: BTreeMap<(TaskId, u32), ClosedAttempt>,
    pub(super) history: BTreeMap<(TaskId, u32), Entry>,
    /// The last use of each idempotency key, kept for ever: the rules define how long it counts.
    pub(super) keys: BTreeMap<IdempotencyKey, KeyOwner>,
    pub(super) refused: Vec<Refused>,
    pub(super) api_keys: BTreeMap<Name, ApiKey>,
    pub(super) tenant_limits: BTreeMap<Name, TenantLimits>,
    pub(super) paused: PausedQueues,
    pub(super) audit: Vec<Audit>,
    pub(super) record_seals: BTreeMap<(Name, u64), RecordSeal>,
    pub(super) ring: Option<SealedRing>,
    pub(super) last_commit_at: Option<Time>,
    /// Ended tasks that a batch deletes with all their rows.
    pub(super) forgotten: BTreeSet<TaskId>,
    /// What durable runs recorded. A batch has a copy of what it changed.
    pub(super) runs: BTreeMap<TaskId, RunTables>,
    pub(super) messages: BTreeMap<MessageKey, SavedMessage>,
    pub(super) objects: Objects,
    /// What was used. A batch has what it adds.
    pub(super) spend: BTreeMap<(Scope, Day), Amounts>,
    pub(super) logs: BTreeMap<(TaskId, PieceId), LogRow>,
    /// What a batch does to logs.
    pub(super) saved_logs: Vec<SavedLog>,
    /// What a batch did to messages.
    pub(super) message_changes: Messages,
}

impl Tables {
    pub(super) fn subject(&self, id: TaskId) -> Option<Subject> {
        let done = self.done.get(&id).cloned().map(Subject::Done);
        done.or_else(|| self.live.get(&id).cloned().map(Subject::Live))
    }

    /// The starts of flow keys with a rate, if a live task has one.
    pub(super) fn flow_starts(&self) -> AllStarts {
        let mut starts = AllStarts::default();
        if self.live.values().any(has_rate) {
            self.add_starts(&mut starts, |id| self.subject(id));
        }
        starts
    }

    /// Adds the starts in these histories.
    pub(super) fn add_starts(
        &self,
        starts: &mut AllStarts,
        subject: impl Fn(TaskId) -> Option<Subject>,
    ) {
        for ((id, _), entry) in &self.history {
            subject(*id).iter().for_each(|subject| starts.add(subject, entry));
        }
    }

    /// The task, if it belongs to this scope.
    pub(super) fn find(&self, key: &TaskKey) -> Option<Subject> {
        self.subject(key.id).filter(|subject| subject.scope() == Some(&key.scope))
    }

    /// Applies an act as a whole or not at all: keys keep their scope, and revoked keys stay revoked.
    pub(super) fn administer(&mut self, act: &Administration) -> Result<(), Failure> {
        if act.follows.is_some_and(|follows| follows != self.audit.len() as u64) {
            return Err(engine::audit_conflict());
        }
        if let Some(change) = &act.ring {
            let version = self.ring.as_ref().map(|ring| ring.version);
            if version != change.before {
                return Err(engine::audit_conflict());
            }
        }
        for key in &act.keys {
            let Some(known) = self.api_keys.get(&key.id) else { continue };
            let revived = known.revoked_at.is_some() && known.revoked_at != key.revoked_at;
            if known.scope != key.scope || revived {
                let what = "a key that changes its scope or comes back from revocation";
                return Err(Failure::new(FailureKind::Invalid, what));
            }
        }
        for key in &act.keys {
            // A change of a key does not count as a use.
            let last_used_at = self.api_keys.get(&key.id).and_then(|known| known.last_used_at);
            self.api_keys.insert(key.id.clone(), ApiKey { last_used_at, ..key.clone() });
        }
        for (id, at) in &act.uses {
            if let Some(key) = self.api_keys.get_mut(id) {
                key.last_used_at = Some(*at);
            }
        }
        let limits = act.limits.iter().map(|limits| (limits.tenant.clone(), limits.clone()));
        self.tenant_limits.extend(limits);
        self.paused = self.paused.changed(&act.pauses);
        self.audit.extend(act.audit.iter().cloned());
        act.record_seals.iter().for_each(|seal| self.add_record_seal(seal));
        if let Some(RingChange { before, sealed }) = act.ring.clone() {
            self.ring = Some(SealedRing { version: before.unwrap_or(0) + 1, sealed });
        }
        Ok(())
    }

    /// Adds a seal, unless it does not follow the newest one of its tenant.
    fn add_record_seal(&mut self, seal: &RecordSeal) {
        let before = self.newest_seal(&seal.tenant).map_or(0, |newest| newest.n);
        if seal.n == before + 1 {
            self.record_seals.insert((seal.tenant.clone(), seal.n), seal.clone());
        }
    }

    fn newest_seal(&self, tenant: &Name) -> Option<&RecordSeal> {
        let range = (tenant.clone(), 0)..=(tenant.clone(), u64::MAX);
        self.record_seals.range(range).next_back().map(|(_, seal)| seal)
    }

    pub(super) fn seals(&self, filter: &SealFilter) -> Vec<RecordSeal> {
        let wanted = |seal: &&RecordSeal| {
            let key = (&seal.tenant, seal.n);
            filter.tenant.as_ref().is_none_or(|tenant| *tenant == seal.tenant)
                && match &filter.of {
                    SealsOf::Newest => self.newest_seal(&seal.tenant) == Some(seal),
                    SealsOf::After(after) => {
                        after.as_ref().is_none_or(|(tenant, n)| key > (tenant, *n))
                    }
                }
        };
        let seals = self.record_seals.values().filter(wanted).take(filter.limit);
        let shown = |seal: &RecordSeal| match filter.leaves.include(seal.first_end, seal.last_end) {
            true => seal.clone(),
            false => RecordSeal { leaves: Vec::new(), ..seal.clone() },
        };
        seals.map(shown).collect()
    }

    pub(super) fn ended(&self, of: &EndedRecords) -> Vec<EndedRecord> {
        let record = |done: &Done| {
            let digest = leaf_digest(&done.record, &self.specs[&done.id]);
            let leaf = Leaf { task: done.id, digest };
            EndedRecord { tenant: done.scope.tenant.clone(), completed_at: done.completed_at, leaf }
        };
        match of {
            EndedRecords::Of(ids) => {
                ids.iter().filter_map(|id| self.done.get(id)).map(record).collect()
            }
            EndedRecords::Since { from, after, limit } => {
                let is_next = |done: &&Done| {
                    done.completed_at >= *from && after.is_none_or(|(_, id)| done.id > id)
                };
                self.done.values().filter(is_next).take(*limit).map(record).collect()
            }
        }
    }

    /// Stores the first refusal of its kind under a lease; later ones add nothing.
    pub(super) fn add_refused(&mut self, refused: Refused) {
        if !self.has_refused(&refused) {
            self.refused.push(refused);
        }
    }

    pub(super) fn has_refused(&self, refused: &Refused) -> bool {
        self.refused.iter().any(|row| {
            (&row.task, row.lease, &row.call, &row.code)
                == (&refused.task, refused.lease, &refused.call, &refused.code)
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
            && self.done.is_empty()
            && self.refused.is_empty()
            && self.forgotten.is_empty()
            && self.message_changes.is_empty()
            && self.objects.log.is_empty()
            && self.spend.is_empty()
            && self.saved_logs.is_empty()
    }

    pub(super) fn found(&self, id: TaskId) -> StoredTask {
        let subject = self.subject(id).expect("only known tasks are asked for");
        let spec = self.specs.get(&id).expect("a task is submitted with its spec").clone();
        StoredTask { subject, spec }
    }

    /// The sum of a scope from a day on.
    pub(super) fn spent(&self, query: &SpendQuery) -> Amounts {
        let places = self.spend.iter();
        let wanted = places
            .filter(|((scope, day), _)| *scope == query.scope && *day >= query.since)
            .map(|(_, amounts)| *amounts);
        wanted.fold(Amounts::default(), add)
    }

    pub(super) fn spend_rows(&self, after: Option<&(Scope, Day)>, limit: usize) -> Vec<SpendRow> {
        let later = self.spend.iter().filter(|(place, _)| after.is_none_or(|after| *place > after));
        let row = |((scope, day), amounts): (&(Scope, Day), &Amounts)| SpendRow {
            scope: scope.clone(),
            day: *day,
            amounts: *amounts,
        };
        later.take(limit).map(row).collect()
    }

    fn save_log(&mut self, SavedLog { task, change }: SavedLog) {
        for id in change.removed {
            self.logs.remove(&(task.id, id));
        }
        for (piece, lines) in change.saved {
            let empty = || LogRow { task: task.clone(), piece, lines: Vec::new() };
            let row = self.logs.entry((task.id, piece.id)).or_insert_with(empty);
            row.piece = piece;
            row.lines.extend(lines);
        }
    }

    pub(super) fn pieces(&self, key: &TaskKey) -> Vec<Piece> {
        let of_task = self.logs.values().filter(|row| row.task == *key);
        of_task.map(|row| row.piece).collect()
    }

    pub(super) fn log_rows(&self, of: &LogsOf, limit: usize) -> Vec<LogRow> {
        let is_wanted = |row: &&LogRow| match of {
            LogsOf::Task { key, after } => {
                let end = (row.piece.id.attempt, row.piece.last);
                row.task == *key && after.is_none_or(|after| end > after)
            }
            LogsOf::All { after } => after.is_none_or(|after| (row.task.id, row.piece.id) > after),
        };
        self.logs.values().filter(is_wanted).take(limit).cloned().collect()
    }

    /// Every task, live or done, in order of id.
    pub(super) fn ids(&self) -> Vec<TaskId> {
        let mut ids: Vec<TaskId> = self.live.keys().chain(self.done.keys()).copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Adds what a batch saved. A task is live or done, never both.
    pub(super) fn absorb(&mut self, saved: Tables, at: Time) {
        for id in saved.done.keys() {
            self.live.remove(id);
        }
        self.live.extend(saved.live);
        self.specs.extend(saved.specs);
        self.keys.extend(saved.keys);
        for refused in saved.refused {
            self.add_refused(refused);
        }
        insert_only(&mut self.done, saved.done);
        insert_only(&mut self.attempts, saved.attempts);
        insert_only(&mut self.history, saved.history);
        self.runs.extend(saved.runs);
        for (key, message) in saved.message_changes {
            match message {
                Some(message) => drop(self.messages.insert(key, message)),
                None => drop(self.messages.remove(&key)),
            }
        }
        self.objects.absorb(saved.objects);
        for (place, more) in saved.spend {
            let sum = self.spend.entry(place).or_default();
            *sum = add(*sum, more);
        }
        saved.saved_logs.into_iter().for_each(|saved| self.save_log(saved));
        self.last_commit_at = self.last_commit_at.max(Some(at));
        if !saved.forgotten.is_empty() {
            self.forget(&saved.forgotten);
        }
    }

    fn forget(&mut self, gone: &BTreeSet<TaskId>) {
        self.done.retain(|id, _| !gone.contains(id));
        self.specs.retain(|id, _| !gone.contains(id));
        self.attempts.retain(|(id, _), _| !gone.contains(id));
        self.history.retain(|(id, _), _| !gone.contains(id));
        self.refused.retain(|refused| !gone.contains(&refused.task.id));
        self.keys.retain(|_, held| !gone.contains(&held.task));
        self.runs.retain(|id, _| !gone.contains(id));
        self.logs.retain(|(id, _), _| !gone.contains(id));
        self.messages.retain(|key, _| !gone.contains(&key.to.id));
        let runs: BTreeSet<Name> = gone.iter().map(|id| id.run_name().into()).collect();
        self.objects.forget(|object| object.parent.as_ref().is_some_and(|it| runs.contains(it)));
    }

    /// A run with its descendants.
    pub(super) fn run(&self, root: TaskId) -> impl Iterator<Item = TaskId> {
        let of_run = move |done: &&Done| Subject::Done((*done).clone()).run_id() == Some(root);
        self.done.values().filter(of_run).map(|done| done.id)
    }
}

/// A commit that was written but may not be durable yet.
struct InFlight {
    batch: u64,
    saved: Tables,
    at: Time,
    is_orphan: bool,
}

fn insert_only<K: Ord, V>(table: &mut BTreeMap<K, V>, rows: BTreeMap<K, V>) {
    for (key, row) in rows {
        assert!(table.insert(key, row).is_none(), "a row that was written once is written again");
    }
}

/// What all writers share.
pub(super) struct Shared {
    pub(super) tables: Tables,
    /// See [`super::MemoryBrowse::rows_read`].
    pub(super) rows_read: u64,
    /// Which batch has a task locked.
    pub(super) locks: BTreeMap<TaskId, u64>,
    /// Which batch has an object locked.
    pub(super) object_locks: BTreeMap<ObjectKey, u64>,
    /// Which batch may grant tasks with a flow key.
    pub(super) flow_locks: BTreeMap<FlowRef, u64>,
    /// Keys with which a batch submits a run that waits for a newer one.
    debounce_locks: BTreeMap<FlowRef, u64>,
    pub(super) writers: usize,
    /// The version of the rules in force.
    pub(super) rules: u32,
    /// The versions that each writer supports, by the writer's number.
    writer_rules: BTreeMap<u64, SupportedRules>,
    joined: u64,
    in_flight: Vec<InFlight>,
    /// The outcome of every batch that was written.
    outcomes: BTreeMap<u64, CommitOutcome>,
    opening: u64,
    batches: u64,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            tables: Tables::default(),
            rows_read: 0,
            locks: BTreeMap::new(),
            object_locks: BTreeMap::new(),
            flow_locks: BTreeMap::new(),
            debounce_locks: BTreeMap::new(),
            writers: 0,
            rules: Rules::OLDEST.number(),
            writer_rules: BTreeMap::new(),
            joined: 0,
            in_flight: Vec::new(),
            outcomes: BTreeMap::new(),
            opening: 0,
            batches: 0,
        }
    }

    /// Begins a new opening: writers of the previous one lose their locks and may no longer write, and
    /// unsynced commits are lost.
    pub(super) fn start_opening(&mut self) -> u64 {
        self.locks.clear();
        self.object_locks.clear();
        self.flow_locks.clear();
        self.debounce_locks.clear();
        self.in_flight.clear();
        self.writers = 0;
        self.writer_rules.clear();
        self.opening += 1;
        self.opening
    }

    pub(super) fn check_opening(&self, opening: u64) -> Result<(), Failure> {
        if self.opening == opening {
            Ok(())
        } else {
            Err(Failure::new(FailureKind::Closed, "the store was opened again since"))
        }
    }

    /// Adds a writer, unless it does not support the rules in force. Returns its number.
    pub(super) fn add_writer(&mut self, newcomer: SupportedRules) -> Result<u64, Failure> {
        let living: Vec<SupportedRules> = self.writer_rules.values().copied().collect();
        let number = to_join(self.rules, newcomer, &living);
        self.rules = number.ok_or_else(|| engine::unknown_rules(self.rules, newcomer))?;
        self.writers += 1;
        self.joined += 1;
        self.writer_rules.insert(self.joined, newcomer);
        Ok(self.joined)
    }

    /// Removes a writer: it may be the last one that did not support a newer version.
    pub(super) fn remove_writer(&mut self, writer: u64) {
        self.writers -= 1;
        self.writer_rules.remove(&writer);
        let living: Vec<SupportedRules> = self.writer_rules.values().copied().collect();
        self.rules = to_activate(self.rules, &living);
    }

    pub(super) fn number_batch(&mut self) -> u64 {
        self.batches += 1;
        self.batches
    }

    pub(super) fn is_locked_by_another(&self, id: TaskId, batch: u64) -> bool {
        self.locks.get(&id).is_some_and(|holder| *holder != batch)
    }

    /// Locks the flow key of a task for a batch that may grant it. A task without one is free.
    pub(super) fn takes_flow(&mut self, task: &Task, batch: u64) -> bool {
        let Some(flow) = FlowRef::of(task) else { return true };
        *self.flow_locks.entry(flow).or_insert(batch) == batch
    }

    /// Locks a key for a batch that submits with a debounce.
    pub(super) fn takes_debounce(&mut self, flow: &FlowRef, batch: u64) -> bool {
        *self.debounce_locks.entry(flow.clone()).or_insert(batch) == batch
    }

    pub(super) fn is_object_locked_by_another(&self, key: &ObjectKey, batch: u64) -> bool {
        self.object_locks.get(key).is_some_and(|holder| *holder != batch)
    }

    /// Ends a batch. A commit that was written but not synced keeps its locks.
    pub(super) fn end_batch(&mut self, batch: u64) {
        match self.in_flight.iter_mut().find(|commit| commit.batch == batch) {
            Some(commit) => commit.is_orphan = true,
            None => self.unlock(batch),
        }
    }

    fn unlock(&mut self, batch: u64) {
        self.locks.retain(|_, holder| *holder != batch);
        self.object_locks.retain(|_, holder| *holder != batch);
        self.flow_locks.retain(|_, holder| *holder != batch);
        self.debounce_locks.retain(|_, holder| *holder != batch);
    }

    pub(super) fn write(&mut self, batch: u64, saved: Tables, at: Time) {
        self.in_flight.push(InFlight { batch, saved, at, is_orphan: false });
    }

    /// Whether a commit in flight uses this key: its outcome must be known first.
    pub(super) fn is_in_flight(&self, key: &IdempotencyKey) -> bool {
        self.in_flight.iter().any(|commit| commit.saved.keys.contains_key(key))
    }

    /// Whether a commit in flight changes this message.
    pub(super) fn is_message_in_flight(&self, key: &MessageKey) -> bool {
        self.in_flight.iter().any(|commit| commit.saved.message_changes.contains_key(key))
    }

    pub(super) fn has_commits_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    pub(super) fn orphans(&self) -> Vec<u64> {
        let orphans = self.in_flight.iter().filter(|commit| commit.is_orphan);
        orphans.map(|commit| commit.batch).collect()
    }

    pub(super) fn settle(&mut self, batch: u64, outcome: CommitOutcome) {
        let place = self.in_flight.iter().position(|commit| commit.batch == batch);
        let commit = self.in_flight.remove(place.expect("a commit is settled once"));
        if outcome == CommitOutcome::Kept {
            self.tables.absorb(commit.saved, commit.at);
        }
        self.outcomes.insert(batch, outcome);
        self.unlock(batch);
    }

    pub(super) fn commit_outcome(&self, batch: u64) -> Option<CommitOutcome> {
        self.outcomes.get(&batch).copied()
    }
}
