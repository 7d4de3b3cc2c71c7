//! Checks the values of a request that has the right shape. Reports the first fault: the member,
//! what is wrong with it, and what is allowed.

pub(crate) mod budgets;
mod checkpoints;
pub(crate) mod flow;
mod log;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::RangeInclusive;

use crate::limits::*;
use crate::names::{
    FIRING_KEY_PREFIX, RECOVERY_KEY_PREFIX, RESERVED_LABEL_PREFIX, RESERVED_NAME_PREFIX,
    TOPOLOGY_KEY_PREFIX, is_idempotency_key, is_label_value, is_name, repair_text,
};
use crate::plan::{Plan, PlanForm};
use crate::requests::*;
use crate::{ErrorCategory, Json, Outcome};

/// A member of a request and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// A path such as `runs[3].retry.capMs`; empty for the body as a whole.
    pub field: String,
    /// What is wrong and what is allowed, for people.
    pub message: String,
}

impl FieldError {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> FieldError {
        FieldError { field: field.into(), message: message.into() }
    }

    /// The same fault with its path prefixed, where the request is part of a larger one.
    pub fn under(mut self, outer: &str) -> FieldError {
        self.field = match self.field.as_str() {
            "" => outer.to_owned(),
            inner => format!("{outer}.{inner}"),
        };
        self
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => write!(f, "the body {}", self.message),
            field => write!(f, "`{field}` {}", self.message),
        }
    }
}

impl std::error::Error for FieldError {}

/// Values within their limits.
pub trait Check {
    fn check(&self) -> Result<(), FieldError>;

    /// Repairs free text, which is never refused. Most requests have none.
    fn repair(&mut self) {}
}

pub(crate) type Checked = Result<(), FieldError>;

impl Check for SubmitRun {
    fn check(&self) -> Checked {
        match &self.plan {
            Some(plan) => planned(self, plan)?,
            None => {
                given("kind", &self.kind)?;
                given("queue", &self.queue)?;
            }
        }
        payload("input", Some(&self.input))?;
        text("goal", self.goal.as_deref())?;
        optional_name("taskKey", self.task_key.as_deref())?;
        optional_name("assetId", self.asset_id.as_deref())?;
        resources(self.resources.as_ref())?;
        within("priority", self.priority.map(i64::from), PRIORITY)?;
        within("maxAttempts", self.max_attempts.map(u64::from), ATTEMPTS)?;
        within("lostMax", self.lost_max.map(u64::from), ATTEMPTS)?;
        lease_and_interval(self.lease_ms, self.heartbeat_interval_ms)?;
        within("cancelGraceMs", self.cancel_grace_ms, CANCEL_GRACE_MS)?;
        stall(self)?;
        start_and_deadline(self)?;
        within("ttlMs", self.ttl_ms, TTL_MS)?;
        within("seed", self.seed, 0..=INTEGER_MAX)?;
        labels(&self.labels)?;
        retry(self.retry.as_ref())?;
        budgets::budget(self.budget.as_ref())?;
        flow::flow(self.flow.as_ref())?;
        flow::start(self)?;
        idempotency_key("idempotencyKey", self.idempotency_key.as_deref())
    }
}

fn given(field: &str, value: &str) -> Checked {
    if value.is_empty() {
        return Err(FieldError::new(field, "is missing"));
    }
    if value.starts_with(RESERVED_NAME_PREFIX) {
        let message = format!(
            "begins with {RESERVED_NAME_PREFIX}, which is reserved for the server's own work; choose another name"
        );
        return Err(FieldError::new(field, message));
    }
    name(field, value)
}

/// A run with a plan has none of the members that its steps have, and its plan is one that a coordinator can carry out.
fn planned(run: &SubmitRun, plan: &Plan) -> Checked {
    let of_steps = [
        ("kind", !run.kind.is_empty()),
        ("queue", !run.queue.is_empty()),
        ("input", !run.input.is_null()),
        ("taskKey", run.task_key.is_some()),
        ("resources", run.resources.is_some()),
        ("maxAttempts", run.max_attempts.is_some()),
        ("lostMax", run.lost_max.is_some()),
        ("leaseMs", run.lease_ms.is_some()),
        ("heartbeatIntervalMs", run.heartbeat_interval_ms.is_some()),
        ("cancelGraceMs", run.cancel_grace_ms.is_some()),
        ("retry", run.retry.is_some()),
    ];
    if let Some((field, _)) = of_steps.into_iter().find(|(_, is_given)| *is_given) {
        return Err(FieldError::new(
            field,
            "belongs to the steps of a plan, not to the run; leave it out here",
        ));
    }
    // No step has a clock, a key or a time to live yet, so nothing would hold it to one of the run's.
    let unsupported = [
        ("flow", run.flow.is_some()),
        ("stall", run.stall.is_some()),
        ("ttlMs", run.ttl_ms.is_some()),
    ];
    for (field, is_given) in unsupported {
        if is_given {
            let message = "is not supported for a run with a plan; submit the steps as runs, or write a durable function";
            return Err(FieldError::new(field, message));
        }
    }
    let compiled = plan.compile().map_err(|problems| {
        let first = problems.into_iter().next();
        first.map_or_else(
            || FieldError::new("plan", "is not valid"),
            |it| FieldError::new(format!("plan.{}", it.field), it.message),
        )
    })?;
    match compiled.form {
        PlanForm::Steps => budgets::plan(run.budget.as_ref(), &plan.steps),
        // Steps that run one after the other share the budget: a ceiling only bounds what one of them takes of it.
        PlanForm::Stages => Ok(()),
    }
}

/// Heartbeats carry progress: a worker that makes some must have had the time to say so.
fn stall(run: &SubmitRun) -> Checked {
    let Some(stall) = run.stall else { return Ok(()) };
    within("stall.afterMs", Some(stall.after_ms), STALL_AFTER_MS)?;
    let shortest = run.heartbeat_interval_ms.map(|ms| ms.saturating_mul(STALL_PER_INTERVAL_MIN));
    match shortest {
        Some(shortest) if stall.after_ms < shortest => Err(FieldError::new(
            "stall.afterMs",
            format!("must be at least twice heartbeatIntervalMs, which is {shortest}"),
        )),
        Some(_) | None => Ok(()),
    }
}

impl Check for CancelRun {
    fn check(&self) -> Checked {
        text("reason", self.reason.as_deref())
    }
}

impl Check for WaitForRuns {
    fn check(&self) -> Checked {
        names("runIds", &self.run_ids, RUNS_PER_WAIT_MAX)?;
        within("waitMs", self.wait_ms, WAIT_MS)
    }
}

impl Check for LeaseRequest {
    fn check(&self) -> Checked {
        name("workerId", &self.worker_id)?;
        names("queues", &self.queues, QUEUES_PER_POLL_MAX)?;
        if let Some(kinds) = &self.kinds {
            names("kinds", kinds, KINDS_PER_POLL_MAX)?;
        }
        within("max", Some(u64::from(self.max)), LEASES_PER_POLL)?;
        within("waitMs", self.wait_ms, WAIT_MS)?;
        optional_name("pollId", self.poll_id.as_deref())?;
        optional_name("announced", self.announced.as_deref())?;
        match &self.announce {
            Some(_) if self.announced.is_some() => {
                refuse("announced", "cannot come with `announce`")
            }
            Some(announcement) => announce(announcement),
            None => Ok(()),
        }
    }
}

fn announce(announcement: &Announcement) -> Checked {
    let Announcement { id, build_id, kinds } = announcement;
    name("announce.id", id)?;
    optional_name("announce.buildId", build_id.as_deref())?;
    let names_of: Vec<String> = kinds.iter().map(|announced| announced.kind.clone()).collect();
    names("announce.kinds", &names_of, KINDS_PER_POLL_MAX)?;
    let (mut met, mut bytes) = (HashSet::new(), 0);
    for (index, announced) in kinds.iter().enumerate() {
        let AnnouncedKind { kind, version, builds, input_schema, output_schema } = announced;
        let member = |member: &str| format!("announce.kinds[{index}].{member}");
        if !met.insert(kind) {
            return refuse(&member("kind"), "appears twice");
        }
        optional_name(&member("version"), version.as_deref())?;
        if builds.is_some() && build_id.is_none() {
            return refuse(&member("builds"), "needs `buildId`, the name of the build");
        }
        bytes += schema(&member("inputSchema"), input_schema.as_ref())?;
        bytes += schema(&member("outputSchema"), output_schema.as_ref())?;
    }
    if bytes > ANNOUNCEMENT_BYTES_MAX {
        return refuse(
            "announce",
            format!("must have at most {ANNOUNCEMENT_BYTES_MAX} bytes of schemas, but has {bytes}"),
        );
    }
    Ok(())
}

/// The size of a schema.
fn schema(field: &str, value: Option<&Json>) -> Result<usize, FieldError> {
    let Some(value) = value else { return Ok(0) };
    let bytes = value.text().len();
    if !value.text().starts_with('{') {
        return Err(FieldError::new(field, "must be a JSON Schema, which is an object"));
    }
    if bytes > SCHEMA_BYTES_MAX {
        let what = format!("must be at most {SCHEMA_BYTES_MAX} bytes, but is {bytes}");
        return Err(FieldError::new(field, what));
    }
    Ok(bytes)
}

impl Check for Started {
    fn check(&self) -> Checked {
        attempt(self.attempt)?;
        name("workerId", &self.worker_id)
    }
}

impl Check for StartItem {
    fn check(&self) -> Checked {
        name("taskId", &self.task_id)?;
        attempt(self.attempt)?;
        name("workerId", &self.worker_id)
    }
}

impl Check for Heartbeat {
    fn check(&self) -> Checked {
        attempt(self.attempt)?;
        name("workerId", &self.worker_id)?;
        checkpoints::spend(self.spend.as_ref())?;
        log::lines(&self.log)?;
        progress(self.progress_pct)
    }

    fn repair(&mut self) {
        repair_member(&mut self.message, MESSAGE_BYTES_MAX);
        log::repair(&mut self.log);
    }
}

impl Check for HeartbeatItem {
    fn check(&self) -> Checked {
        name("taskId", &self.task_id)?;
        attempt(self.attempt)?;
        name("workerId", &self.worker_id)?;
        checkpoints::spend(self.spend.as_ref())?;
        log::lines(&self.log)?;
        progress(self.progress_pct)
    }

    fn repair(&mut self) {
        repair_member(&mut self.message, MESSAGE_BYTES_MAX);
        log::repair(&mut self.log);
    }
}

impl Check for Completed {
    fn check(&self) -> Checked {
        attempt(self.attempt)?;
        name("workerId", &self.worker_id)?;
        outcome(self.outcome, self.output.as_ref(), self.error.as_ref())?;
        metrics(self.metrics.as_ref())?;
        checkpoints::spend(self.spend.as_ref())?;
        log::lines(&self.log)?;
        payload("partialProgress", self.partial_progress.as_ref())?;
        checkpoints::riding(self.outcome, &self.steps, &self.children, &self.effects)
    }

    fn repair(&mut self) {
        repair_error(self.error.as_mut());
        repair_member(&mut self.cancelled_during_phase, MESSAGE_BYTES_MAX);
        checkpoints::repair(&mut self.steps);
        log::repair(&mut self.log);
    }
}

impl Check for Report {
    fn check(&self) -> Checked {
        name("taskId", &self.task_id)?;
        attempt(self.attempt)?;
        name("workerId", &self.worker_id)?;
        outcome(self.outcome, self.output.as_ref(), self.error.as_ref())?;
        metrics(self.metrics.as_ref())?;
        checkpoints::spend(self.spend.as_ref())?;
        log::lines(&self.log)?;
        payload("partialProgress", self.partial_progress.as_ref())?;
        checkpoints::riding(self.outcome, &self.steps, &self.children, &self.effects)
    }

    fn repair(&mut self) {
        repair_error(self.error.as_mut());
        repair_member(&mut self.cancelled_during_phase, MESSAGE_BYTES_MAX);
        checkpoints::repair(&mut self.steps);
        log::repair(&mut self.log);
    }
}

impl Check for ListRuns {
    fn check(&self) -> Checked {
        optional_name("queue", self.queue.as_deref())?;
        optional_name("kind", self.kind.as_deref())?;
        label_filters(&self.label)?;
        optional_name("worker", self.worker.as_deref())?;
        if self.category == Some(ErrorCategory::Cancelled) {
            return refuse("category", "CANCELLED is no failure; use `state=cancelled`");
        }
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)?;
        if self.include.as_deref().is_some_and(|list| Included::read(list).is_none()) {
            return refuse(
                "include",
                "must be one or more of `input`, `output`, `stackTrace`, separated by commas",
            );
        }
        match &self.cursor {
            Some(cursor) if cursor.len() > CURSOR_BYTES_MAX => {
                refuse("cursor", "is not a valid cursor; use `nextCursor` of the previous page")
            }
            _ => Ok(()),
        }
    }
}

impl Check for RetryRun {
    fn check(&self) -> Checked {
        Ok(())
    }
}

impl Check for ForkRun {
    fn check(&self) -> Checked {
        budgets::budget(self.budget.as_ref())?;
        match &self.from_step {
            Some(key) if !crate::names::is_step_key(key) => {
                refuse("fromStep", "is not the key of a step")
            }
            _ => Ok(()),
        }
    }
}

impl Check for ListKinds {
    fn check(&self) -> Checked {
        optional_name("kind", self.kind.as_deref())?;
        optional_name("after", self.after.as_deref())?;
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

impl Check for ListWorkers {
    fn check(&self) -> Checked {
        optional_name("after", self.after.as_deref())?;
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

impl Check for ListFlowKeys {
    fn check(&self) -> Checked {
        optional_name("key", self.key.as_deref())?;
        optional_name("after", self.after.as_deref())?;
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

impl Check for WaitMs {
    fn check(&self) -> Checked {
        within("waitMs", self.wait_ms, WAIT_MS)
    }
}

impl Check for GetRun {
    fn check(&self) -> Checked {
        within("waitMs", self.wait_ms, WAIT_MS)?;
        within("tree", self.tree.map(u64::from), TREE_MAX)
    }
}

impl Check for RecordsQuery {
    fn check(&self) -> Checked {
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

impl Check for LogsQuery {
    fn check(&self) -> Checked {
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

impl Check for RecordQuery {
    fn check(&self) -> Checked {
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

impl Check for HistoryQuery {
    fn check(&self) -> Checked {
        within("after", self.after, 0..=INTEGER_MAX)?;
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)?;
        within("waitMs", self.wait_ms, WAIT_MS)
    }
}

/// Checks the key in the `Idempotency-Key` header or in an item of a batch.
pub fn idempotency_key(field: &str, key: Option<&str>) -> Checked {
    match key {
        Some(key) if !is_idempotency_key(key) => {
            refuse(field, format!("must be 1 to {IDEMPOTENCY_KEY_CHARS_MAX} printable characters"))
        }
        Some(key) if key.starts_with(FIRING_KEY_PREFIX) => refuse(
            field,
            format!(
                "begins with {FIRING_KEY_PREFIX}, which is reserved for schedules; choose another key"
            ),
        ),
        Some(key) if key.starts_with(RECOVERY_KEY_PREFIX) => refuse(
            field,
            format!(
                "begins with {RECOVERY_KEY_PREFIX}, which is reserved for recovery; choose another key"
            ),
        ),
        Some(key) if key.starts_with(TOPOLOGY_KEY_PREFIX) => refuse(
            field,
            format!(
                "begins with {TOPOLOGY_KEY_PREFIX}, which is reserved for topologies; choose another key"
            ),
        ),
        _ => Ok(()),
    }
}

pub(crate) fn refuse(field: &str, message: impl Into<String>) -> Checked {
    Err(FieldError::new(field, message))
}

pub(crate) fn within<T: PartialOrd + fmt::Display>(
    field: &str,
    value: Option<T>,
    range: RangeInclusive<T>,
) -> Checked {
    match value {
        Some(value) if !range.contains(&value) => refuse(
            field,
            format!("must be from {} to {}, but is {value}", range.start(), range.end()),
        ),
        _ => Ok(()),
    }
}

/// Checks a name that does not come in a body, such as a part of a path.
pub fn check_name(field: &str, value: &str) -> Result<(), FieldError> {
    name(field, value)
}

pub(crate) fn name(field: &str, value: &str) -> Checked {
    if is_name(value) {
        return Ok(());
    }
    let problem = if value.is_empty() { "is empty" } else { "is not a valid name" };
    refuse(
        field,
        format!("{problem}; a name is 1 to {NAME_BYTES_MAX} characters of A-Z a-z 0-9 . _ : / -"),
    )
}

pub(crate) fn optional_name(field: &str, value: Option<&str>) -> Checked {
    value.map_or(Ok(()), |value| name(field, value))
}

pub(crate) fn names(field: &str, values: &[String], max: usize) -> Checked {
    if values.is_empty() || values.len() > max {
        return refuse(field, format!("must have 1 to {max} entries, but has {}", values.len()));
    }
    match values.iter().position(|value| !is_name(value)) {
        Some(index) => name(&format!("{field}[{index}]"), &values[index]),
        None => Ok(()),
    }
}

pub(crate) fn text(field: &str, value: Option<&str>) -> Checked {
    match value {
        Some(value) if value.len() > MESSAGE_BYTES_MAX => refuse(
            field,
            format!("must be at most {MESSAGE_BYTES_MAX} bytes, but is {}", value.len()),
        ),
        Some(value) if value.contains('\0') => refuse(field, "must not contain the NUL character"),
        _ => Ok(()),
    }
}

fn payload(field: &str, value: Option<&Json>) -> Checked {
    match value.map_or(0, |json| json.text().len()) {
        bytes if bytes > PAYLOAD_BYTES_MAX => refuse(
            field,
            format!(
                "must be at most {PAYLOAD_BYTES_MAX} bytes of JSON, but is {bytes}; \
                 store it elsewhere and send a reference"
            ),
        ),
        _ => Ok(()),
    }
}

fn labels(labels: &BTreeMap<String, String>) -> Checked {
    if labels.len() > LABELS_MAX {
        return refuse("labels", format!("must be at most {LABELS_MAX}, but are {}", labels.len()));
    }
    for (label, value) in labels {
        if !is_name(label) {
            return name("labels", label).map_err(|fault| {
                FieldError::new("labels", format!("have a name that {}", fault.message))
            });
        }
        if label.starts_with(RESERVED_LABEL_PREFIX) {
            return refuse(
                &format!("labels.{label}"),
                format!(
                    "begins with {RESERVED_LABEL_PREFIX}, which is reserved; choose another name"
                ),
            );
        }
        if !is_label_value(value) {
            return refuse(
                &format!("labels.{label}"),
                format!(
                    "must be at most {LABEL_VALUE_CHARS_MAX} characters, none a control character"
                ),
            );
        }
    }
    Ok(())
}

fn label_filters(labels: &[String]) -> Checked {
    if labels.len() > LABELS_MAX {
        let many = labels.len();
        return refuse("label", format!("may be given {LABELS_MAX} times, but was given {many}"));
    }
    let is_valid = |label: &String| {
        let LabelQuery { name, value } = LabelQuery::of(label);
        is_name(name) && value.is_none_or(is_label_value)
    };
    if labels.iter().all(is_valid) {
        return Ok(());
    }
    refuse("label", "must be written name=value, or name for a label with any value")
}

fn lease_and_interval(lease_ms: Option<u64>, interval_ms: Option<u64>) -> Checked {
    within("leaseMs", lease_ms, LEASE_MS)?;
    within("heartbeatIntervalMs", interval_ms, HEARTBEAT_INTERVAL_MS)?;
    let lease_ms = lease_ms.unwrap_or(LEASE_MS_DEFAULT);
    match interval_ms {
        Some(interval_ms) if lease_ms < LEASE_PER_INTERVAL_MIN * interval_ms => refuse(
            "heartbeatIntervalMs",
            format!("must be at most half of leaseMs ({lease_ms}), but is {interval_ms}"),
        ),
        _ => Ok(()),
    }
}

/// Each is an instant or a span, and the deadline comes after the start. An instant and a span are not compared: only
/// the coordinator knows when the span begins.
fn start_and_deadline(run: &SubmitRun) -> Checked {
    within("delayMs", run.delay_ms, DELAY_MS)?;
    within("deadlineMs", run.deadline_ms, DEADLINE_MS)?;
    if run.run_at.is_some() && run.delay_ms.is_some() {
        return refuse("delayMs", "is given together with runAt; send one of them");
    }
    if run.deadline.is_some() && run.deadline_ms.is_some() {
        return refuse("deadlineMs", "is given together with deadline; send one of them");
    }
    if let (Some(run_at), Some(deadline)) = (run.run_at, run.deadline)
        && deadline <= run_at
    {
        return refuse("deadline", format!("must be after runAt ({run_at}), but is {deadline}"));
    }
    match (run.delay_ms, run.deadline_ms) {
        (Some(delay), Some(deadline)) if deadline <= delay => {
            refuse("deadlineMs", format!("must be more than delayMs ({delay}), but is {deadline}"))
        }
        _ => Ok(()),
    }
}

fn retry(retry: Option<&Retry>) -> Checked {
    let Some(retry) = retry else { return Ok(()) };
    within("retry.baseMs", retry.base_ms, RETRY_BASE_MS)?;
    within("retry.capMs", retry.cap_ms, RETRY_CAP_MS)?;
    // An absent member takes its default, adjusted so that it never contradicts the given one.
    match (retry.base_ms, retry.cap_ms) {
        (Some(base), Some(cap)) if cap < base => {
            refuse("retry.capMs", format!("must be at least baseMs ({base}), but is {cap}"))
        }
        _ => Ok(()),
    }
}

fn resources(resources: Option<&Resources>) -> Checked {
    let Some(resources) = resources else { return Ok(()) };
    within("resources.memoryBytes", resources.memory_bytes, 0..=INTEGER_MAX)?;
    within("resources.cpuMillicores", resources.cpu_millicores, 0..=INTEGER_MAX)?;
    within("resources.timeoutMs", resources.timeout_ms, 1..=INTEGER_MAX)
}

fn metrics(metrics: Option<&Metrics>) -> Checked {
    let Some(metrics) = metrics else { return Ok(()) };
    within("metrics.cpuTimeMs", metrics.cpu_time_ms, 0..=INTEGER_MAX)?;
    within("metrics.peakMemoryBytes", metrics.peak_memory_bytes, 0..=INTEGER_MAX)?;
    within("metrics.ioReadBytes", metrics.io_read_bytes, 0..=INTEGER_MAX)?;
    within("metrics.ioWriteBytes", metrics.io_write_bytes, 0..=INTEGER_MAX)
}

fn attempt(attempt: u32) -> Checked {
    match attempt {
        0 => refuse("attempt", "must be at least 1; attempts are numbered from 1"),
        _ => Ok(()),
    }
}

fn progress(progress_pct: Option<f64>) -> Checked {
    within("progressPct", progress_pct, PROGRESS_PCT)
}

fn outcome(outcome: Outcome, output: Option<&Json>, error: Option<&ReportedError>) -> Checked {
    payload("output", output)?;
    match (outcome, error) {
        (Outcome::Failed, None) => {
            refuse("error", "is missing; a FAILED report needs a category and a message")
        }
        (Outcome::Succeeded, Some(_)) => refuse("error", "is not allowed in a SUCCEEDED report"),
        (Outcome::Released, Some(_)) => {
            refuse("error", "is not allowed in a RELEASED report; report FAILED instead")
        }
        (Outcome::Failed, Some(error)) if error.category == ErrorCategory::Cancelled => {
            refuse("error.category", "may be CANCELLED only when the outcome is CANCELLED")
        }
        (Outcome::Failed | Outcome::Cancelled | Outcome::Released, _) if output.is_some() => {
            refuse(
                "output",
                "is allowed only in a SUCCEEDED report; send partial results as partialProgress",
            )
        }
        _ => Ok(()),
    }
}

fn repair_error(error: Option<&mut ReportedError>) {
    if let Some(error) = error {
        error.message = repair_text(&error.message, MESSAGE_BYTES_MAX).into_owned();
        repair_member(&mut error.stack_trace, STACK_TRACE_BYTES_MAX);
    }
}

fn repair_member(member: &mut Option<String>, bytes_max: usize) {
    if let Some(text) = member {
        *text = repair_text(text, bytes_max).into_owned();
    }
}

#[cfg(test)]
mod tests;
