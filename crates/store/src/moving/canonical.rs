//! Rows as bytes that are equal on every engine, for digests. Each value is preceded by its length, so that
//! different rows have different bytes; a new field does not compile until it is added here.

use verdict::{
    ClosedAttempt, Digest, Done, End, Lease, Name, Phase, Scope, Subject, Task, Text, Time,
};

use crate::administration::{ApiKey, Audit, Audited, Seal, TenantLimits};
use crate::codec::Stored;
use crate::row::{Entry, Refused, Spec, StoredTask};

#[derive(Default)]
pub(super) struct CanonicalBytes(Vec<u8>);

impl CanonicalBytes {
    pub(super) fn of_task(found: &StoredTask) -> Self {
        let mut canonical = Self::default();
        match &found.subject {
            Subject::Live(task) => canonical.live(task),
            Subject::Done(done) => canonical.done(done),
            Subject::Absent => unreachable!("what was found is there"),
        }
        canonical.spec(&found.spec);
        canonical
    }

    pub(super) fn of_entry(entry: &Entry) -> Self {
        let mut canonical = Self::default();
        canonical.entry(entry);
        canonical
    }

    pub(super) fn of_attempt(closed: &ClosedAttempt) -> Self {
        let mut canonical = Self::default();
        canonical.closed(closed);
        canonical
    }

    pub(super) fn of_refusal(refused: &Refused) -> Self {
        let mut canonical = Self::default();
        canonical.refused(refused);
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
        canonical.text(actor.as_str());
        canonical.text(action.as_str());
        canonical.text(object.as_str());
        canonical.optional(code.as_ref().map(Name::as_str));
        canonical.number(u64::from(*times));
        canonical.optional_digest(before.as_ref());
        canonical.optional_digest(after.as_ref());
        canonical.optional(request.as_ref().map(Name::as_str));
        canonical.some(seal.as_ref().map(|Seal(bytes)| &bytes[..]));
        canonical
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn live(&mut self, task: &Task) {
        let Task {
            id,
            scope,
            kind,
            queue,
            priority,
            policy,
            created_at,
            started_at,
            attempt,
            failures,
            lost,
            undelivered,
            claim_version,
            cancel,
            phase,
            decided_at,
            revision,
            entries,
            chain,
        } = task;
        self.number(id.as_u128());
        self.scope(scope);
        self.text(kind.as_str());
        self.text(queue.as_str());
        self.bytes_of(&priority.to_be_bytes());
        self.text(&policy.write());
        self.time(*created_at);
        self.instant(*started_at);
        for count in [attempt, failures, lost, undelivered, claim_version, revision, entries] {
            self.number(u64::from(*count));
        }
        self.optional(cancel.as_ref().map(Stored::write).as_deref());
        self.time(*decided_at);
        self.bytes_of(chain.bytes());
        match phase {
            Phase::Queued { due } | Phase::Retry { due } => self.time(*due),
            Phase::Running(lease) => self.lease(lease),
        }
        self.text(task.state().name());
    }

    fn lease(&mut self, lease: &Lease) {
        let Lease {
            id,
            owner,
            fence,
            poll,
            acquired_at,
            heartbeat_at,
            expires_at,
            started_at,
            heard,
            progress,
        } = lease;
        self.bytes_of(&id.as_u128().to_be_bytes());
        self.text(owner.as_str());
        self.number(fence.as_u64());
        self.optional(poll.as_ref().map(Name::as_str));
        for time in [acquired_at, heartbeat_at, expires_at] {
            self.time(*time);
        }
        self.instant(*started_at);
        self.number(u64::from(*heard));
        self.optional(progress.as_ref().map(Stored::write).as_deref());
    }

    fn done(&mut self, done: &Done) {
        let Done {
            id,
            scope,
            kind,
            queue,
            priority,
            created_at,
            started_at,
            completed_at,
            attempt,
            failures,
            lost,
            claim_version,
            cancel,
            end,
            entries,
            record,
        } = done;
        self.number(id.as_u128());
        self.scope(scope);
        self.text(kind.as_str());
        self.text(queue.as_str());
        self.bytes_of(&priority.to_be_bytes());
        self.time(*created_at);
        self.instant(*started_at);
        self.time(*completed_at);
        for count in [attempt, failures, lost, claim_version, entries] {
            self.number(u64::from(*count));
        }
        self.optional(cancel.as_ref().map(Stored::write).as_deref());
        let End { state, reason, output, fault } = end;
        self.text(state.name());
        self.optional(reason.map(|reason| reason.name()));
        self.optional(output.as_ref().map(|output| output.as_str()));
        self.optional(fault.as_ref().map(Stored::write).as_deref());
        self.bytes_of(record.bytes());
    }

    fn spec(&mut self, spec: &Spec) {
        let Spec {
            input,
            goal,
            task_key,
            asset_id,
            resources,
            labels,
            traceparent,
            key,
            fingerprint,
        } = spec;
        self.text(input.as_str());
        self.optional(goal.as_ref().map(Text::as_str));
        self.optional(task_key.as_ref().map(Name::as_str));
        self.optional(asset_id.as_ref().map(Text::as_str));
        self.optional(resources.as_ref().map(Stored::write).as_deref());
        self.number(labels.len() as u64);
        for (name, value) in labels {
            self.text(name);
            self.text(value);
        }
        self.optional(traceparent.as_ref().map(Text::as_str));
        self.optional(key.as_ref().map(Text::as_str));
        self.bytes_of(fingerprint.bytes());
    }

    fn entry(&mut self, entry: &Entry) {
        let Entry { n, at, epoch, rules, request, loaded, events } = entry;
        self.number(u64::from(*n));
        self.time(*at);
        self.number(u64::from(*epoch));
        self.number(u64::from(*rules));
        self.text(&request.write());
        self.optional(loaded.as_ref().map(Stored::write).as_deref());
        self.text(&events.write());
    }

    fn closed(&mut self, closed: &ClosedAttempt) {
        let ClosedAttempt {
            task: _,
            attempt,
            lease,
            fence,
            owner,
            granted_at,
            started_at,
            closed_at,
            outcome,
            reason,
            fault,
            report,
            claims,
        } = closed;
        self.number(u64::from(*attempt));
        self.bytes_of(&lease.as_u128().to_be_bytes());
        self.number(fence.as_u64());
        self.text(owner.as_str());
        self.time(*granted_at);
        self.instant(*started_at);
        self.time(*closed_at);
        self.text(outcome.name());
        self.optional(reason.map(|reason| reason.name()));
        self.optional(fault.as_ref().map(Stored::write).as_deref());
        self.optional_digest(report.as_ref());
        self.optional(claims.as_ref().map(|claims| claims.as_str()));
    }

    fn refused(&mut self, refused: &Refused) {
        let Refused { task: _, lease, attempt, worker, call, code, worker_verdict, digest, at } =
            refused;
        self.bytes_of(&lease.as_u128().to_be_bytes());
        self.number(u64::from(*attempt));
        self.text(worker.as_str());
        self.text(call.as_str());
        self.text(code.as_str());
        self.number(*worker_verdict as u64);
        self.optional_digest(digest.as_ref());
        self.time(*at);
    }

    fn scope(&mut self, scope: &Scope) {
        self.text(scope.tenant.as_str());
        self.text(scope.workspace.as_str());
    }

    fn bytes_of(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
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
