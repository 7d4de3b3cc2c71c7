//! The end of a run: the store is read to its last row and compared with what everybody was told.

use historyck::event::{Audit, Settled, Usage, What};
use sha2::{Digest as _, Sha256};
use store::memory::{MemoryBrowse, MemoryStore};
use store::{AuditFilter, Audited, Browse, Entry, Found, Store, TaskKey};
use verdict::policy::UNDELIVERED_MAX;
use verdict::{AttemptOutcome, Closed, Event, Reason, Request, Subject};

use crate::decisions::{decisions, id, record, snapshot};
use crate::lateness;
use crate::mark::Mark;
use crate::setting::Setting;
use crate::stage::Stage;

/// More rows than any simulated task has.
const ALL: usize = 100_000;

/// Everything stored about one task.
struct Dossier {
    found: Found,
    history: Vec<Entry>,
    attempts: Vec<Closed>,
}

/// Looks at the store after a crash: every row must explain itself, and nothing acknowledged may be gone.
pub(crate) async fn inspect(stage: &Stage, store: &MemoryStore) {
    let report = store::verify::verify(store.browse()).await.expect("memory can be read");
    for finding in report.findings {
        stage.log.violate("verify", format_args!("{finding}"));
    }
    let found = store.browse().everything(None, ALL).await.expect("memory can be read");
    let now = stage.now();
    stage.history.borrow_mut().record(now, "judge", What::Snapshot(snapshot(&found, now)));
}

/// A digest over every task.
pub(crate) async fn digest(store: &MemoryStore) -> String {
    let found = store.browse().everything(None, ALL).await.expect("memory can be read");
    let mut digest = Sha256::new();
    found.iter().for_each(|found| digest.update(format!("{:?}", found.subject)));
    let digest = digest.finalize();
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Looks at everything, once all is quiet.
pub(crate) async fn judge(stage: &Stage, store: &MemoryStore) {
    inspect(stage, store).await;
    let dossiers = read(store).await;
    let now = stage.now();
    for dossier in &dossiers {
        for decision in decisions(&dossier.found, &dossier.history) {
            stage.history.borrow_mut().record(now, "store", What::Decision(decision));
        }
        if let Subject::Done(done) = &dossier.found.subject {
            let record = What::Record(record(done));
            stage.history.borrow_mut().record(now, "store", record);
        }
        check_rules(stage, dossier);
        note_marks(stage, dossier);
        check_fairness(stage, dossier);
        check_ended(stage, dossier);
        record_usage(stage, dossier);
        if stage.options.is_quiet() {
            lateness::check(stage, &id(&dossier.found.subject), &dossier.history);
        }
        if stage.options.nemesis.seats.spares_hearing {
            check_no_gift(stage, dossier);
        }
    }
    record_audit(stage, store).await;
    stage.history.borrow_mut().record(now, "judge", What::Settled(Settled {}));
    check_history(stage);
    stage.say(format_args!("{} runs in the store", dossiers.len()));
}

/// How long a history may be where nothing fails: what is submitted, a cancel, and of each attempt its grant, start,
/// signal and end.
fn record_usage(stage: &Stage, dossier: &Dossier) {
    if !matches!(stage.options.setting, Setting::Quiet | Setting::Crowd) {
        return;
    }
    let submitted = dossier.history.iter().flat_map(|entry| &entry.events).find_map(|event| {
        let Event::Submitted(submitted) = event else { return None };
        Some(submitted.policy.failures_max + submitted.policy.lost_max + UNDELIVERED_MAX)
    });
    let usage = Usage {
        what: "entries of a history".to_owned(),
        task: Some(id(&dossier.found.subject)),
        used: dossier.history.len() as u64,
        limit: 4 + 4 * u64::from(submitted.unwrap_or(0)),
    };
    stage.history.borrow_mut().record(stage.now(), "judge", What::Usage(usage));
}

/// What was administered, where somebody administers.
async fn record_audit(stage: &Stage, store: &MemoryStore) {
    if stage.administrator.is_none() {
        return;
    }
    let filter = AuditFilter { limit: ALL, ..AuditFilter::default() };
    let audited = store.browse().audit(&filter).await.expect("memory can be read");
    for Audited { audit, .. } in audited.into_iter().filter(|it| it.audit.code.is_none()) {
        let change = format!("{} {}", audit.action, audit.object);
        let record = Audit { change, by: Some(audit.actor.to_string()) };
        stage.history.borrow_mut().record(stage.now(), "store", What::Audit(record));
    }
}

async fn read(store: &MemoryStore) -> Vec<Dossier> {
    let browse = store.browse();
    let mut dossiers = Vec::new();
    for found in browse.everything(None, ALL).await.expect("memory can be read") {
        let (scope, task) = match &found.subject {
            Subject::Live(task) => (task.scope.clone(), task.id),
            Subject::Done(done) => (done.scope.clone(), done.id),
            Subject::Absent => unreachable!("what was found is there"),
        };
        let key = TaskKey { scope, id: task };
        let (history, attempts) = (history(browse, &key).await, attempts(browse, &key).await);
        dossiers.push(Dossier { found, history, attempts });
    }
    dossiers
}

async fn history(browse: &MemoryBrowse, key: &TaskKey) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map_or(0, |entry| entry.n);
        let page = browse.history(key, after, ALL).await.expect("memory can be read");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

async fn attempts(browse: &MemoryBrowse, key: &TaskKey) -> Vec<Closed> {
    let mut all: Vec<Closed> = Vec::new();
    loop {
        let after = all.last().map_or(0, |closed| closed.attempt);
        let page = browse.attempts(key, after, ALL).await.expect("memory can be read");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

fn check_history(stage: &Stage) {
    let history = stage.history.borrow();
    let findings = historyck::check(history.events()).expect("a recorded history is well formed");
    for finding in findings {
        let told = historyck::describe(&finding, history.events());
        stage.log.violate(finding.invariant.id(), format_args!("{told}"));
    }
}

/// Lease time runs only while a coordinator could have heard a heartbeat: where nothing but coordinators
/// and stores failed, a worker that keeps the rules never loses its lease.
fn check_fairness(stage: &Stage, dossier: &Dossier) {
    if !stage.options.is_fair_to_workers() {
        return;
    }
    let books = stage.books.borrow();
    for closed in &dossier.attempts {
        let place = (id(&dossier.found.subject), closed.attempt);
        let is_lost = matches!(closed.outcome, AttemptOutcome::Lost | AttemptOutcome::Undelivered)
            && closed.reason == Some(Reason::HeartbeatTimeout);
        if let Some(held) = books.held.get(&place).filter(|held| held.is_obedient && is_lost) {
            stage.log.violate(
                "A8",
                format_args!(
                    "worker-{} kept the rules and lost {} attempt {}",
                    held.worker, place.0, place.1
                ),
            );
        }
    }
}

/// Whoever hears workers was spared: nobody has missed any time.
fn check_no_gift(stage: &Stage, dossier: &Dossier) {
    let is_gift = |event: &Event| matches!(event, Event::Extended { .. });
    if dossier.history.iter().any(|entry| entry.events.iter().any(is_gift)) {
        let id = id(&dossier.found.subject);
        stage.log.violate("A8", format_args!("{id} got time back although somebody listened"));
    }
}

/// On no task do older rules decide after newer ones.
fn check_rules(stage: &Stage, dossier: &Dossier) {
    let versions: Vec<u32> = dossier.history.iter().map(|entry| entry.rules).collect();
    if !versions.is_sorted() {
        let id = id(&dossier.found.subject);
        stage.log.violate("rules", format_args!("{id} was decided by versions {versions:?}"));
    }
    if versions.first() != versions.last() {
        stage.log.mark(Mark::DecidedByOlderThenNewer);
    }
}

fn check_ended(stage: &Stage, dossier: &Dossier) {
    if let Subject::Live(task) = &dossier.found.subject {
        let state = task.state().name();
        stage.log.violate("G1", format_args!("{} is still {state}", task.id));
    }
}

fn note_marks(stage: &Stage, dossier: &Dossier) {
    let log = &stage.log;
    for entry in &dossier.history {
        for event in &entry.events {
            match event {
                Event::Extended { .. } => log.mark(Mark::LeaseExtendedAfterOutage),
                Event::Granted { .. } if entry.n > 2 => {
                    let is_after_loss = dossier
                        .attempts
                        .iter()
                        .any(|closed| closed.outcome == AttemptOutcome::Lost);
                    if is_after_loss {
                        log.mark(Mark::TakenOver);
                    }
                }
                Event::AttemptClosed { closed, .. } => note_closed(stage, &entry.request, closed),
                _ => {}
            }
        }
    }
    if let Subject::Done(done) = &dossier.found.subject {
        note_end(stage, dossier, done);
    }
}

fn note_closed(stage: &Stage, request: &Request, closed: &Closed) {
    let mark = match (closed.outcome, closed.reason) {
        (AttemptOutcome::Undelivered, Some(Reason::HeartbeatTimeout)) => Mark::GrantUnheard,
        (AttemptOutcome::Undelivered, _) => Mark::GrantHandedBack,
        (AttemptOutcome::Lost, _) => Mark::WorkerLost,
        (AttemptOutcome::Revoked, Some(Reason::AttemptTimeout)) => Mark::AttemptLimitReached,
        (AttemptOutcome::Revoked, Some(Reason::DeadlineExceeded)) => Mark::DeadlineWhileRunning,
        (AttemptOutcome::Revoked, Some(Reason::CancelForced)) => Mark::CancelledByForce,
        (AttemptOutcome::Cancelled, _) if matches!(request, Request::Started(_)) => {
            Mark::StartMetCancel
        }
        (AttemptOutcome::Failed, None) => Mark::RetriedAfterFailure,
        _ => return,
    };
    stage.log.mark(mark);
}

fn note_end(stage: &Stage, dossier: &Dossier, done: &verdict::Done) {
    let log = &stage.log;
    let was_leased = !dossier.attempts.is_empty();
    match done.end.reason {
        Some(Reason::HeartbeatTimeout) => log.mark(Mark::LostTooOften),
        Some(Reason::AttemptsExhausted) => log.mark(Mark::AttemptsExhausted),
        Some(Reason::NotRetryable) => log.mark(Mark::NotRetryable),
        Some(Reason::CancelTimeout) => log.mark(Mark::CancelGraceRanOut),
        Some(Reason::CancelRequested) if !was_leased => log.mark(Mark::CancelledWaiting),
        Some(Reason::CancelRequested)
            if dossier.attempts.last().is_some_and(|closed| closed.report.is_some()) =>
        {
            log.mark(Mark::CancelledByWorker);
        }
        Some(Reason::DeadlineExceeded) if !was_leased => log.mark(Mark::DeadlineWhileWaiting),
        None if done.cancel.is_some() => log.mark(Mark::CancelledButSucceeded),
        _ => {}
    }
    let is_delayed = dossier.history.iter().any(|entry| {
        let due = |event: &Event| match event {
            Event::Submitted(submitted) => submitted.due > entry.at,
            _ => false,
        };
        entry.events.iter().any(due)
    });
    if is_delayed && was_leased {
        log.mark(Mark::StartDelayed);
    }
}
