//! `GET /v1/runs/{runId}/explain`: what the rules say about a task, and what only the coordinator
//! knows: whether workers poll for it, how many tasks are ahead of it, and what its tenant may
//! still use.

mod ended;

use axum::Json;
use axum::extract::State;
use store::{
    Ahead, Browse, Failure, FlowFilter, FlowKeyRow, QueuePause, StoreStatus, StoredTask, TaskKey,
};
use verdict::explain::{Gate as Rule, explain as gates_of};
use verdict::run::Divergence;
use verdict::{
    Headroom, Moment, Name, OnStall, Progress, ProgressClock, Rules, Subject, Task, Time,
};
use wire::answers::{Explanation, Gate};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::awaited;
use super::caller::RunPath;
use super::flow_keys::HOLDERS_MAX;
use super::kinds::kinds_at;
use super::steps::missing_upstreams;
use super::translate::{state, time};
use crate::admit::ReaderPrincipal;
use crate::admit::principals::Principal as _;
use crate::allowances::{Allowances, RateStanding};

/// Upstreams of a blocked step that are named.
const UPSTREAMS_NAMED_MAX: usize = 10;

/// Announced kinds that one sentence names.
const KINDS_NAMED_MAX: usize = 10;

/// The gate of a task that the next poll gets.
const READY: &str = "ready";

/// Counting stops here, and the answer says "at least": beyond this, the exact number helps no reader, and counting it would
/// keep readers from others.
const AHEAD_MAX: usize = 1_000;

pub(super) async fn explain(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    RunPath(run): RunPath,
) -> Result<Json<Explanation>, ApiError> {
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let found = app.read(app.coordinator.browse().find(&key)).await?;
    let StoredTask { subject, .. } = found.ok_or_else(ApiError::run_not_found)?;
    let now = app.coordinator.now();
    let store = app.coordinator.store();
    // Nothing is decided here, so an unknown version of the rules is no reason to refuse an answer.
    let StoreStatus { epoch, rules, .. } = store.status();
    let moment = Moment { now, epoch, rules: Rules::of(rules).unwrap_or(Rules::NEWEST) };
    let pause = find_pause(&app, &subject).await?;
    let paused_since = pause.as_ref().map(|pause| pause.at);
    let mut gates = Vec::new();
    for rule in gates_of(&subject, paused_since, subject.dated(moment)) {
        match (&rule, &subject) {
            (Rule::Ready { since }, Subject::Live(task)) => {
                let sees_holders = principal.queues().is_none();
                match flow_gate(&app, task, sees_holders).await? {
                    Some(full) => gates.push(full),
                    None => {
                        let mut found = ready(&app, &key, task, *since).await?;
                        // Nothing is granted from a paused queue, however ready it is.
                        found.retain(|gate| pause.is_none() || gate.gate != READY);
                        gates.append(&mut found);
                    }
                }
            }
            (Rule::Awaits { until, .. }, Subject::Live(task)) => {
                gates.push(awaited::gate(&app, task, *until).await?);
            }
            (Rule::Ended { .. }, Subject::Done(done)) => {
                gates.push(ended::gate(&app, &key, done).await?);
            }
            (Rule::Diverged { divergence }, Subject::Live(task)) => {
                gates.push(diverged(divergence, task));
            }
            (Rule::Steps { live }, Subject::Live(task)) => gates.push(steps(*live, task)),
            (Rule::Blocked, Subject::Live(_)) => gates.push(blocked(&app, &subject).await?),
            _ => gates.extend(spell(rule, pause.as_ref())),
        }
    }
    if let Subject::Live(task) = &subject {
        gates.extend(runs_gate(&app, &task.scope.tenant).await?);
    }
    Ok(Json(Explanation {
        run_id: run.run_name(),
        task_id: run.to_string(),
        state: subject.state().map(state).ok_or_else(ApiError::run_not_found)?,
        gates,
        server_time: time(now),
    }))
}

/// What a step waits for, by name.
async fn blocked(app: &AppState, subject: &Subject) -> Result<Gate, ApiError> {
    let reading = missing_upstreams(app.coordinator.browse(), subject, UPSTREAMS_NAMED_MAX);
    let (names, missing) = app.read(reading).await?.unwrap_or_else(|| (Vec::new(), 0));
    let more = (missing as usize).saturating_sub(names.len());
    let named: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let named = match (named.is_empty(), more) {
        (true, _) => "steps that it depends on".to_owned(),
        (false, 0) => named.join(", "),
        (false, more) => format!("{} and {more} more", named.join(", ")),
    };
    let have = if names.len() == 1 && more == 0 { "has" } else { "have" };
    let now = format!("is blocked: it depends on {named}, which {have} not ended");
    Ok(gate("blocked", now, "the end of the last of them", None))
}

/// The pause of the task's queue, if it has one.
async fn find_pause(app: &AppState, subject: &Subject) -> Result<Option<QueuePause>, ApiError> {
    let Subject::Live(task) = subject else { return Ok(None) };
    let paused = app.read(app.coordinator.browse().paused_queues()).await?;
    let is_ours = |pause: &&QueuePause| pause.scope == task.scope && pause.queue == task.queue;
    Ok(paused.iter().find(is_ours).cloned())
}

fn paused(pause: &QueuePause) -> Gate {
    let QueuePause { scope: _, queue, at, by, reason } = pause;
    let why = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    let now = format!("the queue `{queue}` is paused since {} by {by}{why}", time(*at));
    gate("queue_paused", now, format!("`tenure queues resume {queue}`"), None)
}

/// The flow key of the task has no free slot, or as many started as its rate allows: nothing else keeps the task now.
async fn flow_gate(
    app: &AppState,
    task: &Task,
    sees_holders: bool,
) -> Result<Option<Gate>, ApiError> {
    let Some(flow) = task.flow().filter(|_| !task.holds_for_life()) else { return Ok(None) };
    let filter = FlowFilter {
        scope: task.scope.clone(),
        key: Some(flow.name.clone()),
        after: None,
        limit: 1,
        holders: HOLDERS_MAX,
    };
    let rows = app.read(app.coordinator.browse().flow_keys(&filter)).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    if row.held < u64::from(row.limit) {
        return Ok(flow_rate_gate(row));
    }
    let mut holders: Vec<String> =
        row.holders.iter().filter(|_| sees_holders).map(ToString::to_string).collect();
    if row.held > holders.len() as u64 && sees_holders {
        holders.push("…".to_owned());
    }
    let held_by = if holders.is_empty() { String::new() } else { ": ".to_owned() };
    let FlowKeyRow { key, limit, held, .. } = row;
    let now = format!(
        "the flow key `{key}` is full: {held} of {limit} slots are held{held_by}{}; tasks that wait for one: {}",
        holders.join(", "),
        row.parked()
    );
    let change = "one of these giving its slot back, then priority and age";
    Ok(Some(gate("flow_key", now, change, None)))
}

/// As many tasks of the key started as its rate allows.
fn flow_rate_gate(row: &FlowKeyRow) -> Option<Gate> {
    let (rate, opens_at) = (row.rate?.rate, row.opens_at?);
    let now = format!(
        "the flow key `{}` starts at most {} tasks per {} ms, and that many have started; tasks that wait: {}",
        row.key,
        rate.count,
        rate.per.millis(),
        row.parked()
    );
    Some(gate("flow_key", now, "the next start, then by priority and age", Some(opens_at)))
}

/// Workers announced what they can do at the queue of the task, and its kind is not among it.
fn unserved(app: &AppState, task: &Task) -> Option<Gate> {
    let Task { scope, queue, kind, .. } = task;
    let announced = kinds_at(app, scope, queue);
    if announced.is_empty() || announced.contains(kind.as_str()) {
        return None;
    }
    let more = announced.len().saturating_sub(KINDS_NAMED_MAX);
    let mut named: Vec<String> =
        announced.iter().take(KINDS_NAMED_MAX).map(|kind| format!("`{kind}`")).collect();
    named.extend((more > 0).then(|| format!("{more} more")));
    let now = format!(
        "no worker that announced its kinds for `{queue}` serves `{kind}`; they serve {}",
        named.join(", ")
    );
    let change = format!("a worker that serves `{kind}`; `tenure kinds` lists what is announced");
    Some(gate("kind_not_served", now, change, None))
}

/// The run is pinned to a build, and no worker of it polls.
fn no_build(task: &Task, build: &Name, since: wire::Time) -> Gate {
    let Task { queue, kind, .. } = task;
    let now = format!(
        "ready since {since}, and pinned to build `{build}`, of which no worker polls for `{kind}` on `{queue}` at this moment"
    );
    let change = format!(
        "a worker of build `{build}`, or `tenure runs unpin {}`, which lets workers of every build continue it",
        task.id.run_name()
    );
    gate("no_worker_of_build", now, change, None)
}

/// The rules allow a grant: does a worker poll for it, and what is ahead of it?
async fn ready(
    app: &AppState,
    key: &TaskKey,
    task: &Task,
    since: Time,
) -> Result<Vec<Gate>, ApiError> {
    let Task { scope, queue, kind, .. } = task;
    let offered_in = task.offered_in().into_owned();
    let asked = app.coordinator.count_polls(scope.clone(), offered_in, kind.clone());
    let waiting = app.decided(asked).await??;
    let browse = app.coordinator.browse();
    let (ahead, running) = app
        .read(async {
            let ahead = browse.count_ahead(key, AHEAD_MAX).await?;
            Ok::<_, Failure>((ahead, running_beside(app, task).await?))
        })
        .await?;
    let since = time(since);
    let mut gates = Vec::new();
    let allowances = app.coordinator.allowances();
    gates.extend(rate_gate(allowances, &scope.tenant, app.coordinator.now()));
    if waiting == 0
        && let Some(build) = task.pin()
    {
        gates.push(no_build(task, build, since));
    } else if waiting == 0 {
        gates.push(gate(
            "no_worker",
            format!(
                "ready since {since}, but no worker polls for `{kind}` on `{queue}` at this moment; \
                 tasks running on that queue: {running}"
            ),
            format!("a worker that polls `{queue}`, or a busy one that finishes and polls again"),
            None,
        ));
    }
    gates.extend(unserved(app, task));
    let others = of_other_kinds(ahead);
    if ahead.of_kind > 0 {
        let least = if ahead.count() == AHEAD_MAX { "at least " } else { "" };
        let count = ahead.of_kind;
        gates.push(gate(
            "ahead",
            format!("ready since {since}; `{kind}` tasks of `{queue}` ahead of it: {least}{count}{others}"),
            "their leases, because they are more urgent or older; more workers shorten the wait",
            None,
        ));
    }
    if gates.is_empty() {
        let now = format!(
            "ready since {since}; workers waiting for it: {waiting}, no task of its kind ahead of it{others}"
        );
        gates.push(gate(READY, now, "the next commit, which grants it", None));
    }
    Ok(gates)
}

/// Tasks of other kinds delay a task only at workers that take both.
fn of_other_kinds(ahead: Ahead) -> String {
    match ahead.of_others {
        0 => String::new(),
        count => {
            format!("; of other kinds: {count}, which count only if its workers take those too")
        }
    }
}

/// A tenant that has spent its rate cannot poll: its workers are refused like all its callers.
fn rate_gate(allowances: &Allowances, tenant: &Name, now: Time) -> Option<Gate> {
    let RateStanding { per_second, burst, left, wait, .. } = allowances.rate(tenant, now)?;
    let then = match Headroom::of(left.into(), burst.into()) {
        Headroom::Ample => return None,
        Headroom::Low => "with a burst of calls, polls of its workers are refused",
        Headroom::Exhausted => "polls of its workers are refused",
    };
    let said = format!(
        "the tenant `{tenant}` may make {per_second} requests per second, {burst} at once, and has \
         {left} left: {then}"
    );
    let change = "time, fewer calls, or a higher rate (`tenure limits set`)";
    Some(gate("tenant_rate", said, change, wait.map(|wait| now.plus(wait))))
}

/// The quota blocks no existing run, only new ones.
async fn runs_gate(app: &AppState, tenant: &Name) -> Result<Option<Gate>, ApiError> {
    let Some(quota) = app.coordinator.allowances().quota(tenant) else { return Ok(None) };
    let tenants = std::slice::from_ref(tenant);
    let counted = app.read(app.coordinator.unfinished(tenants)).await?;
    let unfinished = counted.into_iter().sum::<u64>();
    let then = match Headroom::of(quota.saturating_sub(unfinished), quota) {
        Headroom::Ample => return Ok(None),
        Headroom::Low => "soon new runs are refused",
        Headroom::Exhausted => "new runs are refused",
    };
    let said = format!("the tenant `{tenant}` has {unfinished} of {quota} unfinished runs: {then}");
    let change = "the end of runs, including this one, or a higher quota (`tenure limits set`)";
    Ok(Some(gate("tenant_runs", said, change, None)))
}

async fn running_beside(app: &AppState, task: &Task) -> Result<u64, Failure> {
    let depths = app.inner.queue_depths.of(app.coordinator.browse(), &task.scope).await?;
    Ok(depths.iter().find(|depth| depth.queue == task.queue).map_or(0, |depth| depth.running))
}

pub(super) fn gate(
    name: &str,
    now: impl Into<String>,
    change: impl Into<String>,
    at: Option<Time>,
) -> Gate {
    Gate { gate: name.to_owned(), now: now.into(), change: Some(change.into()), at: at.map(time) }
}

/// One gate in words: its name, its value now, what changes it, and when. `pause` is that of the task's queue.
fn spell(rule: Rule, pause: Option<&QueuePause>) -> Option<Gate> {
    Some(match rule {
        Rule::RunAt { due } => {
            let now = format!("was submitted to start at {}", time(due));
            gate("run_at", now, "its start time", Some(due))
        }
        Rule::Debounced { key, due, last } => {
            let now = format!(
                "is held back in case a newer run with flow key `{key}` comes, which would replace it; until {} at most",
                time(last)
            );
            gate("debounce", now, "the end of its wait, unless a newer run comes first", Some(due))
        }
        Rule::Backoff {
            due,
            failures,
            failures_max,
            lost,
            undelivered,
            uncounted,
            uncounted_max,
        } => {
            let now = format!(
                "waits before the next attempt; failed: {failures} of at most {failures_max}, \
                 lost: {lost}, undelivered: {undelivered}, released or undelivered in all: \
                 {uncounted} of at most {uncounted_max}"
            );
            gate("backoff", now, "the end of the wait", Some(due))
        }
        Rule::QueuePaused { since: _ } => return pause.map(paused),
        Rule::Ready { since } => {
            let now = format!("ready since {}", time(since));
            gate(READY, now, "a worker that polls for it", None)
        }
        Rule::Leased { owner, attempt, heard_at, until, progress } => {
            leased(&owner, attempt, heard_at, until, progress.as_ref())
        }
        Rule::Unheard { owner, granted_at, until, undelivered, undelivered_max } => {
            unheard(&owner, granted_at, until, undelivered, undelivered_max)
        }
        Rule::Restored { owner, until } => restored(&owner, until),
        Rule::CancelUntold { requested_at, until } => cancel_untold(requested_at, until),
        Rule::CancelTold { told_at, until } => cancel_told(told_at, until),
        Rule::Blocked => {
            let now = "is blocked: steps that it depends on have not ended";
            gate("blocked", now, "the end of the last of them", None)
        }
        Rule::AttemptLimit { at } => {
            let change = "its report; else the attempt fails as ATTEMPT_TIMEOUT";
            gate("attempt_limit", "this attempt has a time limit", change, Some(at))
        }
        Rule::Deadline { at } => {
            let now = format!("has a deadline at {}", time(at));
            let change = "the end of the run; else it fails as DEADLINE_EXCEEDED";
            gate("deadline", now, change, Some(at))
        }
        Rule::TimeToLive { at } => {
            let now = format!("is dropped unless a worker takes it by {}", time(at));
            gate(
                "time_to_live",
                now,
                "a worker that takes it; else it fails as TTL_EXPIRED",
                Some(at),
            )
        }
        Rule::Progress { clock, since, stalled_at, until } => {
            progress(clock, since, stalled_at, until)
        }
        // Spelled where the task is at hand.
        Rule::Awaits { .. } | Rule::Diverged { .. } | Rule::Steps { .. } | Rule::Ended { .. } => {
            return None;
        }
        Rule::Closing { state, live_children } => closing(state, live_children),
    })
}

fn leased(
    owner: &Name,
    attempt: u32,
    heard_at: Time,
    until: Time,
    progress: Option<&Progress>,
) -> Gate {
    let (heard_at, progress) = (time(heard_at), spell_progress(progress));
    let now = format!("attempt {attempt} is held by {owner}, last call at {heard_at}{progress}");
    let change = "its report; without another heartbeat the lease expires";
    gate("leased", now, change, Some(until))
}

/// The progress clock of the attempt, running or not.
fn progress(
    clock: ProgressClock,
    since: Time,
    stalled_at: Option<Time>,
    until: Option<Time>,
) -> Gate {
    let then = match clock.action {
        OnStall::Warn => "the stall is recorded",
        OnStall::Cancel => "the run is cancelled as STALLED",
        OnStall::Requeue => "the attempt ends as STALLED and the task is offered again",
    };
    let (since, after) = (time(since), spelled(clock.after.millis()));
    let now = match stalled_at {
        Some(at) => format!("has stalled: no progress since {since}, noticed at {}", time(at)),
        None => format!("made progress at {since}, and stalls after {after} without any"),
    };
    let change = match until {
        Some(_) => format!("progress in a heartbeat, or a checkpoint; else {then}"),
        None => "progress in a heartbeat, or a checkpoint".to_owned(),
    };
    gate("stall", now, change, until)
}

/// Whole hours where they are, because that is how long bounds are set.
fn spelled(millis: u64) -> String {
    const HOUR: u64 = 3_600_000;
    if millis >= HOUR && millis.is_multiple_of(HOUR) {
        format!("{} h", millis / HOUR)
    } else {
        format!("{millis} ms")
    }
}

fn unheard(
    owner: &Name,
    granted_at: Time,
    until: Time,
    undelivered: u32,
    undelivered_max: u32,
) -> Gate {
    let now = format!(
        "granted to {owner} at {}, which has not made a call yet; earlier undelivered grants: \
         {undelivered} of at most {undelivered_max}",
        time(granted_at)
    );
    let change = "the worker's first call; without one the grant is revoked";
    gate("unheard", now, change, Some(until))
}

fn restored(owner: &Name, until: Time) -> Gate {
    let now = format!("{owner} held it when the store was restored and may not report any more");
    let change = "the expiry of that lease; then the task is leased again";
    gate("restored", now, change, Some(until))
}

fn cancel_untold(requested_at: Time, until: Time) -> Gate {
    let asked = time(requested_at);
    let now = format!("its cancel was requested at {asked}; the worker was not told yet");
    let change = "the worker's next heartbeat, which tells it; without one the lease expires";
    gate("cancel_untold", now, change, Some(until))
}

fn cancel_told(told_at: Time, until: Time) -> Gate {
    let now = format!("its worker was told to stop at {}", time(told_at));
    let change = "the worker's report; else the lease is revoked when the grace period ends";
    gate("cancel_told", now, change, Some(until))
}

fn diverged(divergence: &Divergence, task: &Task) -> Gate {
    let Divergence { branch, index, recorded, actual } = divergence;
    let branch =
        if branch.as_str().is_empty() { String::new() } else { format!("branch `{branch}`, ") };
    let now = format!(
        "its code does not match its checkpoints: {branch}step {index} was recorded as {recorded}, and is {actual} now"
    );
    let run = task.id.run_name();
    let change = format!("`tenure runs resume {run}`, after code was deployed that matches");
    gate("diverged", now, change, None)
}

fn steps(live: u32, task: &Task) -> Gate {
    let now = format!("has a plan with {live} steps that have not ended");
    let change = format!(
        "the end of the last step; `tenure runs show {}` lists them, and `tenure inbox` what waits for people",
        task.id.run_name()
    );
    gate("steps", now, change, None)
}

fn closing(state: verdict::State, live_children: u32) -> Gate {
    let now = format!("will be {}; children that have not ended: {live_children}", state.name());
    gate("closing", now, "the end of its last child", None)
}

fn spell_progress(progress: Option<&Progress>) -> String {
    let Some(Progress { percent, message }) = progress else { return String::new() };
    let percent = percent.map(|percent| format!(", {percent} %"));
    let message = message.as_ref().map(|message| format!(", {message}"));
    [percent, message].into_iter().flatten().collect()
}
