//! The judge of deployments: it reads tasks and rows once everything has ended, and knows the declaration and nothing of how roles
//! work. Every event ended once, with its reason or a pause state that says why not; each work order belongs to one event and has
//! one run record, written with its pause state; artifacts moved only as declared; and nothing is taken or waits any more.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use store::objects::{ObjectFilter, ObjectLogFilter};
use store::{Browse, Store, StoredTask};
use storetest::MemoryStore;
use topology::Topology;
use topology::check::ACTIONS_MAX;
use topology::deployment::{Artifact, Event, PauseState, RunRecord, WorkOrder};
use verdict::topology::{KEY_PREFIX, deployment_of_events};
use verdict::{Done, Object, ObjectKey, ObjectType, State, Subject};
use wire::names::DEPLOYMENT_LABEL;

use super::{DEPLOYMENT, DeploymentOptions};
use crate::actor_context::ActorContext;
use crate::coverage::CoverageGoal;

/// More rows than any world has.
const ALL: usize = 100_000;

/// Why events may end by their role.
const TERMINAL: [&str; 4] = ["SCHEDULED", "NON_EXECUTABLE_STATUS", "NOTHING_PENDING", "BLOCKED"];

/// Whether a task belongs to a deployment: no worker whose calls are recorded has leased it.
pub(crate) fn is_own(found: &StoredTask) -> bool {
    found.spec.labels.contains_key(DEPLOYMENT_LABEL)
}

async fn objects(store: &MemoryStore, object_type: ObjectType) -> Vec<Object> {
    let filter =
        ObjectFilter { object_type: Some(object_type), limit: ALL, ..ObjectFilter::default() };
    store.browse().objects(&filter).await.expect("memory can be read")
}

async fn revisions(store: &MemoryStore, key: &ObjectKey) -> Vec<Object> {
    let filter = ObjectLogFilter { key: Some(key.clone()), after: None, limit: ALL };
    let log = store.browse().object_log(&filter).await.expect("memory can be read");
    log.into_iter().map(|change| change.after).collect()
}

/// What is still to be done about rows, of whatever type.
async fn unfinished(store: &MemoryStore) -> Vec<String> {
    let mut found = Vec::new();
    for object_type in [ObjectType::Artifact, ObjectType::WorkOrder, ObjectType::UnprocessedEvent] {
        let left = objects(store, object_type).await.into_iter();
        let left = left.filter(|object| object.is_pending || object.due.is_some());
        found.extend(left.map(|object| format!("{} {}", object_type.name(), object.key.id)));
    }
    found
}

/// Whether roles have something to do still.
pub(crate) async fn is_busy(store: &MemoryStore) -> bool {
    !unfinished(store).await.is_empty()
}

pub(crate) async fn report_unfinished(ctx: &ActorContext, store: &MemoryStore) {
    for what in unfinished(store).await {
        ctx.log.violate("deployment", format_args!("{what} waits for ever"));
    }
}

/// A member of a row.
fn member<T: serde::de::DeserializeOwned>(object: &Object, name: &str) -> Option<T> {
    let body: Value = serde_json::from_str(object.body.as_str()).ok()?;
    serde_json::from_value(body.get(name)?.clone()).ok()
}

/// The task of an event that has ended.
struct Ended {
    event: Event,
    done: Done,
}

impl Ended {
    fn of(found: &StoredTask) -> Option<Self> {
        let Subject::Done(done) = &found.subject else { return None };
        deployment_of_events(&done.queue)?;
        let input: Value = serde_json::from_str(found.spec.input.as_str()).ok()?;
        let event = serde_json::from_value(input["event"].clone()).ok()?;
        Some(Self { event, done: done.clone() })
    }

    fn output(&self) -> Value {
        let output = self.done.end.output.as_ref();
        output.and_then(|json| serde_json::from_str(json.as_str()).ok()).unwrap_or_default()
    }

    /// The pause state of an end that no role made.
    fn pause_id(&self) -> Option<String> {
        let reason = match self.done.end.state {
            State::Succeeded => return None,
            State::Cancelled => "CANCELLED",
            _ => "HALTED",
        };
        Some(format!("{reason}/{}/{}", self.event.id, self.done.completed_at.millis()))
    }
}

/// Everything that a deployment left.
struct Rows {
    topology: Topology,
    events: Vec<Ended>,
    orders: Vec<(Object, WorkOrder, Option<RunRecord>)>,
    pauses: BTreeMap<String, (Object, PauseState)>,
    artifacts: Vec<(Object, Artifact)>,
}

impl Rows {
    async fn read(store: &MemoryStore, options: DeploymentOptions, found: &[&StoredTask]) -> Self {
        let orders = objects(store, ObjectType::WorkOrder).await.into_iter();
        let pauses = objects(store, ObjectType::PauseState).await.into_iter();
        let artifacts = objects(store, ObjectType::Artifact).await.into_iter();
        Self {
            topology: options.topology(),
            events: found.iter().filter_map(|found| Ended::of(found)).collect(),
            orders: orders
                .filter_map(|it| {
                    let (order, record) = (member(&it, "order")?, member(&it, "record"));
                    Some((it, order, record))
                })
                .collect(),
            // By the id of the row, which has that of the deployment in front.
            pauses: pauses
                .filter_map(|it| {
                    let pause = member(&it, "pause")?;
                    let id = it.key.id.as_str().split_once('/')?.1.to_owned();
                    Some((id, (it, pause)))
                })
                .collect(),
            artifacts: artifacts
                .filter_map(|it| Some((it.clone(), member(&it, "artifact")?)))
                .collect(),
        }
    }

    fn record_pause(order: &WorkOrder) -> [String; 3] {
        ["RUN_COMPLETE", "GATE_FAILED", "BUDGET_EXHAUSTED"].map(|it| format!("{it}/{}/0", order.id))
    }
}

/// Checks everything that the deployment did, once everything has ended.
pub(crate) async fn check(
    ctx: &ActorContext,
    store: &MemoryStore,
    options: DeploymentOptions,
    found: &[&StoredTask],
) {
    let rows = Rows::read(store, options, found).await;
    if rows.artifacts.len() as u64 != options.planks {
        ctx.log.violate("deployment", format_args!("{} planks", rows.artifacts.len()));
    }
    check_events(ctx, &rows);
    check_orders(ctx, store, &rows, found).await;
    check_artifacts(ctx, store, &rows).await;
    check_pauses(ctx, &rows);
    for track in objects(store, ObjectType::Track).await {
        if track.status.as_str() != "free" {
            ctx.log.violate("deployment", format_args!("{} is still taken", track.key.id));
        }
    }
}

/// S0-17, A0-11: one task for each event, which ended with one reason, or left a pause state that says why not.
fn check_events(ctx: &ActorContext, rows: &Rows) {
    let mut seen = BTreeSet::new();
    let ordered: BTreeSet<&str> = rows.orders.iter().map(|(_, it, _)| it.id.as_str()).collect();
    for ended in &rows.events {
        let id = &ended.event.id;
        if !seen.insert(id) {
            ctx.log.violate("deployment", format_args!("{id} has two tasks"));
        }
        if let Some(pause) = ended.pause_id() {
            ctx.log.reach_goal(CoverageGoal::EventUnprocessed);
            if !rows.pauses.contains_key(&pause) {
                ctx.log.violate("deployment", format_args!("{id} ended and nobody is told"));
            }
            continue;
        }
        let output = ended.output();
        let reason = output["terminalReason"].as_str().unwrap_or_default();
        if !TERMINAL.contains(&reason) {
            ctx.log.violate("deployment", format_args!("{id} ended with {output}"));
        }
        let order = output["workOrder"].as_str();
        if (reason == "SCHEDULED") != order.is_some_and(|it| ordered.contains(it)) {
            ctx.log.violate("deployment", format_args!("{id} is {reason}, and made {order:?}"));
        }
    }
}

/// S0-50, S0-52: one work order for an event, one run record for a work order, written once, together with its pause state.
async fn check_orders(ctx: &ActorContext, store: &MemoryStore, rows: &Rows, found: &[&StoredTask]) {
    let keys = |text: &str| text.starts_with(&format!("{KEY_PREFIX}{DEPLOYMENT}~1/wo/"));
    let is_run = |it: &&&StoredTask| it.spec.key.as_ref().is_some_and(|key| keys(key.as_str()));
    let runs = found.iter().filter(is_run).count();
    if runs != rows.orders.len() {
        let orders = rows.orders.len();
        ctx.log.violate("deployment", format_args!("{orders} work orders have {runs} runs"));
    }
    let mut events = BTreeSet::new();
    for (object, order, record) in &rows.orders {
        ctx.log.reach_goal(CoverageGoal::WorkOrdered);
        let id = &order.id;
        if !events.insert(&order.event) || *id != format!("wo/{}", order.event) {
            ctx.log.violate("deployment", format_args!("{} has two work orders", order.event));
        }
        let Some(record) = record else {
            ctx.log.violate("deployment", format_args!("{id} has no run record"));
            continue;
        };
        let pauses = Rows::record_pause(order);
        let told: Vec<&PauseState> =
            pauses.iter().filter_map(|id| Some(&rows.pauses.get(id)?.1)).collect();
        if !matches!(told[..], [pause] if pause.created_at == record.created_at) {
            ctx.log.violate("deployment", format_args!("{id} was judged apart from its pause"));
        }
        let log = revisions(store, &object.key).await;
        let written = log.iter().filter(|it| member::<RunRecord>(it, "record").is_some());
        if written.count() != 1 {
            ctx.log.violate("deployment", format_args!("{id} was judged twice"));
        }
    }
}

/// S0-8: every change of a status is declared; at the end nothing is taken, and what waits for a person has a pause state.
async fn check_artifacts(ctx: &ActorContext, store: &MemoryStore, rows: &Rows) {
    for (object, artifact) in &rows.artifacts {
        let (name, kind) = (&artifact.name, artifact.name.kind.as_str());
        let log = revisions(store, &object.key).await;
        let states: Vec<Artifact> = log.iter().filter_map(|it| member(it, "artifact")).collect();
        for pair in states.windows(2) {
            let (from, to) = (pair[0].status.as_str(), pair[1].status.as_str());
            let entries = pair[1].transition_no - pair[0].transition_no;
            let is_declared = from == to || rows.topology.authority(kind, from, to).is_some();
            if entries > 1 || !is_declared {
                ctx.log.violate("deployment", format_args!("{name} went from {from} to {to}"));
            }
        }
        if let Some(order) = &artifact.reserved_by {
            ctx.log.violate("deployment", format_args!("{name} is still taken by {order}"));
        }
        if !matches!(artifact.status.as_str(), "smooth" | "scrap")
            && !waits_for_a_person(artifact, rows)
        {
            let status = &artifact.status;
            ctx.log.violate("deployment", format_args!("{name} is {status} and forgotten"));
        }
    }
}

/// Whether a pause state says why nothing happens about an artifact.
fn waits_for_a_person(artifact: &Artifact, rows: &Rows) -> bool {
    let (name, entry) = (&artifact.name, artifact.transition_no);
    let event = format!("plank-arrived/{name}/{entry}");
    let is_told = |ended: &Ended| ended.event.id == event && ended.pause_id().is_some();
    rows.pauses.contains_key(&format!("HALTED/{name}/{entry}")) || rows.events.iter().any(is_told)
}

/// Every pause state has one cause, is written once, and tells what to do.
fn check_pauses(ctx: &ActorContext, rows: &Rows) {
    let mut causes: BTreeSet<String> = rows.events.iter().filter_map(Ended::pause_id).collect();
    causes.extend(rows.orders.iter().flat_map(|(_, order, _)| Rows::record_pause(order)));
    for (id, (object, pause)) in &rows.pauses {
        if id.starts_with("DEADLINE_OVERDUE/") {
            ctx.log.reach_goal(CoverageGoal::ArtifactOverdue);
        }
        if !(causes.contains(id) || is_of_artifact(id, rows)) {
            ctx.log.violate("deployment", format_args!("the pause state {id} has no cause"));
        }
        if object.revision != 1 || *id != pause.id {
            ctx.log.violate("deployment", format_args!("the pause state {id} is written twice"));
        }
        if !(1..=ACTIONS_MAX).contains(&pause.actions.len()) {
            ctx.log.violate("deployment", format_args!("the pause state {id} says {pause:?}"));
        }
    }
}

/// Whether an artifact was given up after that entry, or was due then.
fn is_of_artifact(id: &str, rows: &Rows) -> bool {
    rows.artifacts.iter().any(|(_, artifact)| {
        let name = &artifact.name;
        let is_halted = (1..=artifact.transition_no).any(|n| id == format!("HALTED/{name}/{n}"));
        let deadline = id.strip_prefix(&format!("DEADLINE_OVERDUE/{name}/"));
        let is_due = deadline.is_some_and(|at| at.parse::<u64>().is_ok());
        is_halted || is_due
    })
}
