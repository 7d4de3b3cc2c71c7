//! Rows as bytes that are equal on every engine, for digests. Each value is preceded by its length, so that
//! different rows have different bytes. A task has the cells of its columns ([`crate::tables`]); a new field of an
//! administrative row does not compile until it is added here.

use verdict::log::Piece;
use verdict::run::Checkpoint;
use verdict::{ClosedAttempt, Digest, Done, Json, Name, Scope, Subject, Task, Time, Unit};

use crate::administration::{ApiKey, Audit, Audited, Seal, TenantLimits};
use crate::cells::{Cells, TaskIdentity};
use crate::codec::packed_terms;
use crate::codec::payload_digest::digest_payloads;
use crate::columns::id_bytes;
use crate::logs::{LogRow, written};
use crate::objects::ObjectChange;
use crate::record_seals::RecordSeal;
use crate::row::{Entry, Refused, Spec, StoredTask};
use crate::runs::{MessageKey, SavedMessage, StoredChild, StoredSignal, StoredStep};
use crate::spend::SpendRow;
use crate::tables::{
    Attempt, CheckpointColumns, ChildColumns, CountColumns, Created, DoneRun, DoneState,
    HistoryEntry, LiveLease, LiveRun, LiveState, LiveWake, MessageColumns, MessageKeyColumns,
    Names, ObjectColumns, ObjectKeyColumns, ObjectLogColumns, Priority, Refusal, SignalColumns,
    Specification, StepColumns, Terms,
};

#[derive(Default)]
pub(crate) struct CanonicalBytes(Vec<u8>);

impl CanonicalBytes {
    pub(super) fn of_task(found: &StoredTask) -> Self {
        let mut canonical = Self::default();
        match &found.subject {
            Subject::Live(task) => canonical.live(task),
            Subject::Done(done) => canonical.done(done),
            Subject::Absent => unreachable!("what was found is there"),
        }
        Specification::write(&mut canonical, &found.spec);
        canonical
    }

    /// A submission as it was made, without its payload.
    pub(crate) fn of_spec_without_input(spec: &Spec) -> Self {
        let Spec { input: _, goal, task_key, asset_id, resources, labels, traceparent, .. } = spec;
        let bare = Spec {
            input: Json::from("null"),
            goal: goal.clone(),
            task_key: task_key.clone(),
            asset_id: asset_id.clone(),
            resources: *resources,
            labels: labels.clone(),
            traceparent: traceparent.clone(),
            key: spec.key.clone(),
            fingerprint: spec.fingerprint,
        };
        let mut canonical = Self::default();
        Specification::write(&mut canonical, &bare);
        canonical
    }

    pub(super) fn of_object_change(change: &ObjectChange) -> Self {
        let mut canonical = Self::default();
        ObjectKeyColumns::write(&mut canonical, &change.after.key);
        ObjectColumns::write(&mut canonical, &change.after);
        ObjectLogColumns::write(&mut canonical, change);
        canonical
    }

    pub(super) fn of_spend(row: &SpendRow) -> Self {
        let SpendRow { scope, day, amounts } = row;
        let mut canonical = Self::default();
        canonical.scope(scope);
        canonical.number(day.0);
        Unit::ALL.into_iter().for_each(|unit| canonical.number(amounts.get(unit)));
        canonical
    }

    pub(super) fn of_log(row: &LogRow) -> Self {
        let LogRow { task, piece, lines } = row;
        let Piece { id, last, lines: count, bytes, dropped } = *piece;
        let mut canonical = Self::default();
        canonical.scope(&task.scope);
        canonical.bytes_of(&id_bytes(task.id));
        [u64::from(id.attempt), id.first, last, count.into(), bytes.into(), dropped]
            .into_iter()
            .for_each(|number| canonical.number(number));
        canonical.bytes_of(written(lines).as_bytes());
        canonical
    }

    pub(super) fn of_record_seal(seal: &RecordSeal) -> Self {
        let mut canonical = Self::default();
        canonical.bytes_of(seal.chain.bytes());
        canonical.bytes_of(&seal.seal.0);
        canonical.bytes_of(&seal.leaf_bytes());
        canonical
    }

    pub(super) fn of_entry(entry: &Entry) -> Self {
        let mut canonical = Self::default();
        HistoryEntry::write(&mut canonical, &digest_payloads(entry));
        canonical
    }

    pub(super) fn of_attempt(closed: &ClosedAttempt) -> Self {
        let mut canonical = Self::default();
        Attempt::write(&mut canonical, closed);
        canonical
    }

    pub(super) fn of_refusal(refused: &Refused) -> Self {
        let mut canonical = Self::default();
        Refusal::write(&mut canonical, refused);
        canonical
    }

    pub(super) fn of_checkpoint(checkpoint: &Checkpoint) -> Self {
        let mut canonical = Self::default();
        CheckpointColumns::write(&mut canonical, checkpoint);
        canonical
    }

    pub(super) fn of_child(child: &StoredChild) -> Self {
        let mut canonical = Self::default();
        ChildColumns::write(&mut canonical, child);
        canonical
    }

    pub(super) fn of_step(stored: &StoredStep) -> Self {
        let mut canonical = Self::default();
        StepColumns::write(&mut canonical, stored);
        if let Some(counted) = stored.count() {
            CountColumns::write(&mut canonical, counted);
        }
        canonical
    }

    pub(super) fn of_signal(stored: &StoredSignal) -> Self {
        let mut canonical = Self::default();
        SignalColumns::write(&mut canonical, &stored.signal, stored.is_taken);
        canonical
    }

    pub(super) fn of_message(saved: &SavedMessage) -> Self {
        let MessageKey { to, from, number } = saved.key();
        let mut canonical = Self::default();
        MessageKeyColumns::write(&mut canonical, &to, from, number.entry, number.index);
        MessageColumns::write(&mut canonical, saved);
        canonical
    }

    pub(super) fn of_api_key(key: &ApiKey) -> Self {
        let mut canonical = Self::default();
        canonical.bytes_of(key.fingerprint().bytes());
        canonical.instant(key.last_used_at);
        canonical
    }

    pub(super) fn of_limits(limits: &TenantLimits) -> Self {
        let mut canonical = Self::default();
        canonical.bytes_of(limits.fingerprint().bytes());
        canonical
    }

    pub(super) fn of_record(record: &Audited) -> Self {
        let Audited { n, audit } = record;
        let Audit { at, scope, actor, action, object, code, times, before, after, request, seal } =
            audit;
        let mut canonical = Self::default();
        canonical.number(*n);
        canonical.time(*at);
        canonical.scope(scope);
        canonical.word(actor.as_str());
        canonical.word(action.as_str());
        canonical.word(object.as_str());
        canonical.optional(code.as_ref().map(Name::as_str));
        canonical.number(u64::from(*times));
        canonical.optional_digest(before.as_ref());
        canonical.optional_digest(after.as_ref());
        canonical.optional(request.as_ref().map(Name::as_str));
        canonical.some(seal.as_ref().map(|Seal(bytes)| &bytes[..]));
        canonical
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn live(&mut self, task: &Task) {
        self.identity(&TaskIdentity::live(task));
        Terms::write(self, Some(&packed_terms::Terms::of(task)));
        LiveState::write(self, task);
        LiveLease::write(self, task);
        LiveRun::write(self, task);
        LiveWake::write(self, task);
    }

    fn done(&mut self, done: &Done) {
        self.identity(&TaskIdentity::done(done));
        DoneState::write(self, done);
        DoneRun::write(self, done.run.as_deref());
    }

    fn identity(&mut self, task: &TaskIdentity<'_>) {
        self.number(task.id.as_u128());
        Names::write(self, task);
        Priority::write(self, task.priority);
        Created::write(self, task.created_at);
    }

    fn scope(&mut self, scope: &Scope) {
        self.word(scope.tenant.as_str());
        self.word(scope.workspace.as_str());
    }

    fn bytes_of(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn word(&mut self, text: &str) {
        self.bytes_of(text.as_bytes());
    }

    fn number(&mut self, number: impl Into<u128>) {
        self.bytes_of(&number.into().to_be_bytes());
    }

    fn time(&mut self, time: Time) {
        self.bytes_of(&time.millis().to_be_bytes());
    }

    /// Absent differs from empty.
    fn some(&mut self, bytes: Option<&[u8]>) {
        self.0.push(u8::from(bytes.is_some()));
        self.bytes_of(bytes.unwrap_or_default());
    }

    fn optional(&mut self, text: Option<&str>) {
        self.some(text.map(str::as_bytes));
    }

    fn optional_digest(&mut self, digest: Option<&Digest>) {
        self.some(digest.map(|digest| &digest.bytes()[..]));
    }

    fn instant(&mut self, time: Option<Time>) {
        self.some(time.map(|time| time.millis().to_be_bytes()).as_ref().map(|bytes| &bytes[..]));
    }
}

impl Cells for CanonicalBytes {
    fn text(&mut self, value: Option<&str>) -> &mut Self {
        self.optional(value);
        self
    }

    fn bytes(&mut self, value: Option<&[u8]>) -> &mut Self {
        self.some(value);
        self
    }

    fn int(&mut self, value: Option<i32>) -> &mut Self {
        self.long(value.map(i64::from))
    }

    fn count(&mut self, value: Option<u32>) -> &mut Self {
        self.long(value.map(i64::from))
    }

    fn long(&mut self, value: Option<i64>) -> &mut Self {
        self.some(value.map(i64::to_be_bytes).as_ref().map(|bytes| &bytes[..]));
        self
    }

    fn flag(&mut self, value: Option<bool>) -> &mut Self {
        self.long(value.map(i64::from))
    }
}
