//! The end of a run: reads every row of the store and compares it with every answer that callers got.

use historyck::event::{Audit, EventKind, Settled, Usage};
use sha2::{Digest as _, Sha256};
use store::{
    AuditFilter, Audited, Browse, Entry, RowsAfter, ScanDepth, Store, StoredTask, TaskKey,
};
use storetest::MemoryStore;
use storetest::memory::MemoryBrowse;
use verdict::policy::UNDELIVERED_MAX;
use verdict::{AttemptOutcome, ClosedAttempt, Event, Reason, Request, State, Subject};

use crate::actor_context::ActorContext;
use crate::coverage::CoverageGoal;
use crate::decisions::{decisions, id, record, snapshot};
use crate::deployments;
use crate::durable;
use crate::escrow;
use crate::flows;
use crate::lateness;
use crate::recovery;
use crate::scenario::Scenario;
use crate::schedules;

/// More rows than any simulated task has.
const ALL: usize = 100_000;

/// Everything stored about one task.
struct TaskRows {
    found: StoredTask,
    history: Vec<Entry>,
    attempts: Vec<ClosedAttempt>,
}

/// Checks the store after a crash: every row must be consistent with its history, and no acknowledged write may be
/// missing.
pub(crate) async fn inspect(ctx: &ActorContext, store: &MemoryStore) {
    let report = store::verify::verify(store.browse()).await.expect("memory can be read");
    for finding in report.findings {
        ctx.log.violate("verify", format_args!("{finding}"));
    }
    let mut found = all_tasks(store.browse()).await;
    found.retain(|found| !is_own(found));
    let now = ctx.now();
    ctx.history.borrow_mut().record(now, "judge", EventKind::Snapshot(snapshot(&found, now)));
}

/// Whether a task is recovery's own (an evaluation, or a question to people) or that of a deployment.
fn is_own(found: &StoredTask) -> bool {
    if deployments::judge::is_own(found) {
        return true;
    }
    let kind = match &found.subject {
        Subject::Live(task) => &task.kind,
        Subject::Done(done) => &done.kind,
        Subject::Absent => return false,
    };
    verdict::recovery::is_own(kind)
}

/// A digest over every task.
pub(crate) async fn digest(store: &MemoryStore) -> String {
    let found = all_tasks(store.browse()).await;
    let mut digest = Sha256::new();
    found.iter().for_each(|found| digest.update(format!("{:?}", found.subject)));
    let digest = digest.finalize();
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks everything once the world is idle.
pub(crate) async fn judge(ctx: &ActorContext, store: &MemoryStore) {
    inspect(ctx, store).await;
    let all_task_rows = read(store).await;
    let now = ctx.now();
    for task_rows in &all_task_rows {
        if is_own(&task_rows.found) {
            // Nobody whose calls are recorded has leased it.
            check_ended(ctx, task_rows);
            continue;
        }
        for decision in decisions(&task_rows.found, &task_rows.history) {
            ctx.history.borrow_mut().record(now, "store", EventKind::Decision(decision));
        }
        if let Subject::Done(done) = &task_rows.found.subject {
            let record = EventKind::Record(record(done));
            ctx.history.borrow_mut().record(now, "store", record);
        }
        check_rules(ctx, task_rows);
        note_goals(ctx, task_rows);
        check_fairness(ctx, task_rows);
        check_ended(ctx, task_rows);
        record_usage(ctx, task_rows);
        if ctx.options.is_idle() {
            lateness::check(ctx, &id(&task_rows.found.subject), &task_rows.history);
        }
        if ctx.options.nemesis.committer_faults.new_work_only {
            check_no_extension(ctx, task_rows);
        }
    }
    if ctx.options.durable.is_some() {
        let found: Vec<&StoredTask> = all_task_rows.iter().map(|rows| &rows.found).collect();
        durable::judge::check(ctx, store, &found).await;
    }
    if ctx.options.durable.is_some_and(|durable| durable.escrow) {
        let all: Vec<(&StoredTask, &[Entry])> =
            all_task_rows.iter().map(|rows| (&rows.found, rows.history.as_slice())).collect();
        escrow::account(ctx, &all);
        escrow::check_continuations(ctx, &all);
    }
    if ctx.options.runs.flow_keys > 0 {
        let all: Vec<(&StoredTask, &[Entry])> =
            all_task_rows.iter().map(|rows| (&rows.found, rows.history.as_slice())).collect();
        flows::check_rates(&ctx.log, &all);
    }
    if ctx.options.schedules > 0 {
        let found: Vec<&StoredTask> = all_task_rows.iter().map(|rows| &rows.found).collect();
        schedules::check(ctx, store, &found).await;
    }
    if let Some(terms) = &ctx.options.recovery {
        let found: Vec<&StoredTask> = all_task_rows.iter().map(|rows| &rows.found).collect();
        recovery::check(ctx, store, terms, &found).await;
    }
    if let Some(options) = ctx.options.deployment {
        let found: Vec<&StoredTask> = all_task_rows.iter().map(|rows| &rows.found).collect();
        deployments::judge::check(ctx, store, options, &found).await;
    }
    record_audit(ctx, store).await;
    ctx.history.borrow_mut().record(now, "judge", EventKind::Settled(Settled {}));
    check_history(ctx);
    ctx.say(format_args!("{} runs in the store", all_task_rows.len()));
}

/// Records how long a history may be where nothing fails: one entry for the submission, one for a cancel, and for
/// each attempt its grant, start, signal and end.
fn record_usage(ctx: &ActorContext, task_rows: &TaskRows) {
    if !matches!(ctx.options.scenario, Scenario::Idle | Scenario::ManyTenants) {
        return;
    }
    let submitted = task_rows.history.iter().flat_map(|entry| &entry.events).find_map(|event| {
        let Event::Submitted(submitted) = event else { return None };
        Some(submitted.policy.failures_max + submitted.policy.lost_max + UNDELIVERED_MAX)
    });
    let usage = Usage {
        what: "entries of a history".to_owned(),
        task: Some(id(&task_rows.found.subject)),
        used: task_rows.history.len() as u64,
        limit: 4 + 4 * u64::from(submitted.unwrap_or(0)),
    };
    ctx.history.borrow_mut().record(ctx.now(), "judge", EventKind::Usage(usage));
}

/// Records the audit, where the world has an administrator.
async fn record_audit(ctx: &ActorContext, store: &MemoryStore) {
    if ctx.administrator.is_none() {
        return;
    }
    let filter = AuditFilter { limit: ALL, ..AuditFilter::default() };
    let audited = store.browse().audit(&filter).await.expect("memory can be read");
    for Audited { audit, .. } in audited.into_iter().filter(|it| it.audit.code.is_none()) {
        let change = format!("{} {}", audit.action, audit.object);
        let record = Audit { change, by: Some(audit.actor.to_string()) };
        ctx.history.borrow_mut().record(ctx.now(), "store", EventKind::Audit(record));
    }
}

async fn read(store: &MemoryStore) -> Vec<TaskRows> {
    let browse = store.browse();
    let mut all_task_rows = Vec::new();
    for found in all_tasks(browse).await {
        let (scope, task) = match &found.subject {
            Subject::Live(task) => (task.scope.clone(), task.id),
            Subject::Done(done) => (done.scope.clone(), done.id),
            Subject::Absent => unreachable!("what was found is there"),
        };
        let key = TaskKey { scope, id: task };
        let (history, attempts) = (history(browse, &key).await, attempts(browse, &key).await);
        all_task_rows.push(TaskRows { found, history, attempts });
    }
    all_task_rows
}

async fn all_tasks(browse: &MemoryBrowse) -> Vec<StoredTask> {
    let found = browse.scan(None, ALL, ScanDepth::Task).await.expect("memory can be read");
    found.into_iter().map(|found| found.task).collect()
}

async fn history(browse: &MemoryBrowse, key: &TaskKey) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map_or(0, |entry| entry.n);
        let page = browse.rows(key, RowsAfter::Entry(after), ALL).await;
        let page = page.expect("memory can be read").history;
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

async fn attempts(browse: &MemoryBrowse, key: &TaskKey) -> Vec<ClosedAttempt> {
    let mut all: Vec<ClosedAttempt> = Vec::new();
    loop {
        let after = all.last().map_or(0, |closed| closed.attempt);
        let page = browse.rows(key, RowsAfter::Attempt(after), ALL).await;
        let page = page.expect("memory can be read").attempts;
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

fn check_history(ctx: &ActorContext) {
    let history = ctx.history.borrow();
    let findings = historyck::check(history.events()).expect("a recorded history is well formed");
    for finding in findings {
        let told = historyck::describe(&finding, history.events());
        ctx.log.violate(finding.invariant.id(), format_args!("{told}"));
    }
}

/// Lease time runs only while a coordinator could have received a heartbeat: where only coordinators and stores
/// failed, an obedient worker never loses its lease.
fn check_fairness(ctx: &ActorContext, task_rows: &TaskRows) {
    if !ctx.options.is_fair_to_workers() {
        return;
    }
    let observations = ctx.observations.borrow();
    for closed in &task_rows.attempts {
        let place = (id(&task_rows.found.subject), closed.attempt);
        let is_lost = matches!(closed.outcome, AttemptOutcome::Lost | AttemptOutcome::Undelivered)
            && closed.reason == Some(Reason::HeartbeatTimeout);
        // One that says how far it is with each heartbeat is not stuck either.
        let is_lost = is_lost || closed.reason == Some(Reason::Stalled);
        if let Some(held) = observations.held.get(&place).filter(|held| held.is_obedient && is_lost)
        {
            ctx.log.violate(
                "A8",
                format_args!(
                    "worker-{} kept the rules and lost {} attempt {}",
                    held.worker, place.0, place.1
                ),
            );
        }
    }
}

/// The committer for calls under a lease was spared, so no stall occurred and no lease may have been extended.
fn check_no_extension(ctx: &ActorContext, task_rows: &TaskRows) {
    let is_extension = |event: &Event| matches!(event, Event::Extended { .. });
    if task_rows.history.iter().any(|entry| entry.events.iter().any(is_extension)) {
        let id = id(&task_rows.found.subject);
        ctx.log.violate("A8", format_args!("{id} was extended without a stall"));
    }
}

/// No task is decided by older rules after newer ones.
fn check_rules(ctx: &ActorContext, task_rows: &TaskRows) {
    let versions: Vec<u32> = task_rows.history.iter().map(|entry| entry.rules).collect();
    if !versions.is_sorted() {
        let id = id(&task_rows.found.subject);
        ctx.log.violate("rules", format_args!("{id} was decided by versions {versions:?}"));
    }
    if versions.first() != versions.last() {
        ctx.log.reach_goal(CoverageGoal::DecidedByOlderThenNewer);
    }
}

fn check_ended(ctx: &ActorContext, task_rows: &TaskRows) {
    if let Subject::Live(task) = &task_rows.found.subject {
        let state = task.state().name();
        ctx.log.violate("G1", format_args!("{} is still {state}", task.id));
    }
}

fn note_goals(ctx: &ActorContext, task_rows: &TaskRows) {
    let log = &ctx.log;
    for entry in &task_rows.history {
        for event in &entry.events {
            match event {
                Event::Extended { .. } => log.reach_goal(CoverageGoal::LeaseExtendedAfterOutage),
                Event::Granted { .. } if entry.n > 2 => {
                    let is_after_loss = task_rows
                        .attempts
                        .iter()
                        .any(|closed| closed.outcome == AttemptOutcome::Lost);
                    if is_after_loss {
                        log.reach_goal(CoverageGoal::TakenOver);
                    }
                }
                Event::AttemptClosed { closed, .. } => {
                    note_closed_goal(ctx, &entry.request, closed)
                }
                _ => {}
            }
        }
    }
    if let Subject::Done(done) = &task_rows.found.subject {
        note_end_goal(ctx, task_rows, done);
    }
}

fn note_closed_goal(ctx: &ActorContext, request: &Request, closed: &ClosedAttempt) {
    let goal = match (closed.outcome, closed.reason) {
        (AttemptOutcome::Undelivered, Some(Reason::HeartbeatTimeout)) => CoverageGoal::GrantUnheard,
        (AttemptOutcome::Undelivered, _) => CoverageGoal::GrantHandedBack,
        (AttemptOutcome::Lost, _) => CoverageGoal::WorkerLost,
        (AttemptOutcome::Revoked, Some(Reason::AttemptTimeout)) => {
            CoverageGoal::AttemptLimitReached
        }
        (AttemptOutcome::Revoked, Some(Reason::DeadlineExceeded)) => {
            CoverageGoal::DeadlineWhileRunning
        }
        (AttemptOutcome::Revoked, Some(Reason::CancelForced)) => CoverageGoal::CancelledByForce,
        (AttemptOutcome::Cancelled, _) if matches!(request, Request::Started(_)) => {
            CoverageGoal::StartMetCancel
        }
        (AttemptOutcome::Failed, None) => CoverageGoal::RetriedAfterFailure,
        (AttemptOutcome::Released, _) => CoverageGoal::ReleasedByWorker,
        _ => return,
    };
    ctx.log.reach_goal(goal);
}

fn note_end_goal(ctx: &ActorContext, task_rows: &TaskRows, done: &verdict::Done) {
    let log = &ctx.log;
    if done.end.state == State::Halted && done.run.as_ref().is_none_or(|it| it.balance.is_none()) {
        log.violate("halt", format_args!("{} halted without a budget", done.id));
    }
    let was_leased = !task_rows.attempts.is_empty();
    match done.end.reason {
        Some(Reason::HeartbeatTimeout) => log.reach_goal(CoverageGoal::LostTooOften),
        Some(Reason::AttemptsExhausted) => log.reach_goal(CoverageGoal::AttemptsExhausted),
        Some(Reason::NotRetryable) => log.reach_goal(CoverageGoal::NotRetryable),
        Some(Reason::CancelTimeout) => log.reach_goal(CoverageGoal::CancelGraceRanOut),
        Some(Reason::CancelRequested) if !was_leased => {
            log.reach_goal(CoverageGoal::CancelledWaiting)
        }
        Some(Reason::CancelRequested)
            if task_rows.attempts.last().is_some_and(|closed| closed.report.is_some()) =>
        {
            log.reach_goal(CoverageGoal::CancelledByWorker);
        }
        Some(Reason::DeadlineExceeded) if !was_leased => {
            log.reach_goal(CoverageGoal::DeadlineWhileWaiting)
        }
        None if done.cancel.is_some() => log.reach_goal(CoverageGoal::CancelledButSucceeded),
        _ => {}
    }
    let is_delayed = task_rows.history.iter().any(|entry| {
        let due = |event: &Event| match event {
            Event::Submitted(submitted) => submitted.due > entry.at,
            _ => false,
        };
        entry.events.iter().any(due)
    });
    if is_delayed && was_leased {
        log.reach_goal(CoverageGoal::StartDelayed);
    }
}
