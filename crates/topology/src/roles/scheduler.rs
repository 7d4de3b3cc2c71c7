//! Scheduler: turns one event into a context snapshot, a work order, a status and the event's end, all in one proposal.
//!
//! An event that asks for nothing that can be done ends with its reason and makes no work order. The work order's id
//! derives from the event's, so a second scheduling of the same event is refused as a whole.

use serde_json::{Value, json};

use crate::check::Topology;
use crate::declaration::{Role, WorkOrderTemplate};
use crate::deployment::{
    Artifact, Deployment, Event, PauseReason, PauseState, TerminalReason, WorkOrder, word,
};
use crate::predicate::look_up;
use crate::proposal::{ArtifactChange, Change};
use crate::query::Answer;

/// What a scheduler read about one event.
#[derive(Debug)]
pub struct Read<'r> {
    pub deployment: &'r str,
    pub event: &'r Event,
    /// The event's artifact, if it exists.
    pub subject: Option<&'r Artifact>,
    /// Artifacts that could be taken together with it, oldest first.
    pub pending: Vec<&'r Artifact>,
    /// The artifacts of each declared list, in order.
    pub lists: Vec<Vec<&'r Artifact>>,
    pub answers: Vec<Answer>,
    pub now: u64,
}

/// Whether an event must wait although nobody has claimed it: its track is taken, or another track goes first.
#[must_use]
pub fn must_wait(topology: &Topology, deployment: &Deployment, event: &Event) -> bool {
    let Some((_, role)) = topology.scheduler_of(&event.kind) else {
        return true;
    };
    let track = role.track.as_deref();
    let Some(key) = topology.serial_key(track) else {
        return false;
    };
    let shares = |track: Option<&str>| topology.serial_key(track) == Some(key);
    let taken = deployment
        .work_orders
        .values()
        .any(|order| shares(order.track.as_deref()) && deployment.is_active(order));
    taken
        || deployment.events.values().any(|other| {
            let track_of = |role: &Role| role.track.clone();
            let other_track =
                topology.scheduler_of(&other.kind).and_then(|(_, role)| track_of(role));
            let other_track = other_track.as_deref();
            other.processed.is_none()
                && shares(other_track)
                && topology.rank(other_track) < topology.rank(track)
        })
}

/// What the role proposes for one event. Nothing for a processed one.
#[must_use]
pub fn propose(topology: &Topology, role: &str, read: &Read<'_>) -> Vec<Change> {
    let Some(role) = topology.role(role).filter(|_| read.event.processed.is_none()) else {
        return Vec::new();
    };
    let template =
        role.work_order.as_deref().and_then(|name| Some((name, topology.template(name)?)));
    let Some((name, template)) = template else {
        return Vec::new();
    };
    if read.event.subject.is_none() {
        return order(topology, role, (name, template), read, &[]);
    }
    let Some(subject) = read.subject else {
        return vec![end(read, role.reasons.missing.as_deref(), TerminalReason::MissingArtifact)];
    };
    if !is_executable(topology, read.event, subject) {
        let reason = role.reasons.not_executable.as_deref();
        return vec![end(read, reason, TerminalReason::NonExecutableStatus)];
    }
    if subject.reserved_by.is_some() {
        return vec![end(
            read,
            role.reasons.nothing_pending.as_deref(),
            TerminalReason::NothingPending,
        )];
    }
    if has_blockers(topology, subject) {
        return block(role, read, subject);
    }
    order(topology, role, (name, template), read, &taken(topology, role, read, subject))
}

/// The artifact is still in the entry into the status that made the event.
fn is_executable(topology: &Topology, event: &Event, subject: &Artifact) -> bool {
    let status = topology.event(&event.kind).and_then(|source| source.status.as_deref());
    status == Some(&subject.status) && event.transition_no == Some(subject.transition_no)
}

fn has_blockers(topology: &Topology, subject: &Artifact) -> bool {
    let declared = topology.artifact(&subject.name.kind).and_then(|it| it.blockers.as_ref());
    let Some(declared) = declared else {
        return false;
    };
    let blockers = look_up(&subject.fields, &declared.path).and_then(Value::as_array);
    let open = |blocker: &Value| look_up(blocker, &declared.resolved) != Some(&Value::Bool(true));
    blockers.is_some_and(|blockers| blockers.iter().any(open))
}

fn end(read: &Read<'_>, declared: Option<&str>, standard: TerminalReason) -> Change {
    let reason = declared.map_or_else(|| word(&standard), str::to_owned);
    Change::Process { event: read.event.id.clone(), reason }
}

fn block(role: &Role, read: &Read<'_>, subject: &Artifact) -> Vec<Change> {
    let mut change = ArtifactChange::of(subject);
    change.to.clone_from(&role.blocked);
    let cause = subject.name.to_string();
    let instant = subject.transition_no;
    let pause =
        PauseState::new(PauseReason::Blocked, &cause, instant, &role.blocked_actions, read.now);
    vec![
        Change::Artifact(change),
        Change::Pause(pause.about(Some(&subject.name))),
        end(read, role.reasons.blocked.as_deref(), TerminalReason::Blocked),
    ]
}

/// The event's artifact, and with `collect` others that wait in the same status. Artifacts whose cycles are used up stay.
fn taken<'r>(
    topology: &Topology,
    role: &Role,
    read: &Read<'r>,
    subject: &'r Artifact,
) -> Vec<&'r Artifact> {
    let at_most = role.collect.as_ref().map_or(1, |collect| collect.at_most as usize);
    let cycles = topology.declaration().limits.cycles;
    let others = read.pending.iter().copied().filter(|other| {
        other.name != subject.name
            && other.name.kind == subject.name.kind
            && other.status == subject.status
            && other.reserved_by.is_none()
            && other.cycles < cycles
    });
    std::iter::once(subject).chain(others).take(at_most).collect()
}

fn order(
    topology: &Topology,
    role: &Role,
    (name, template): (&str, &WorkOrderTemplate),
    read: &Read<'_>,
    taken: &[&Artifact],
) -> Vec<Change> {
    let id = read.event.work_order_id();
    let work_order = WorkOrder {
        id: id.clone(),
        event: read.event.id.clone(),
        template: name.to_owned(),
        kind: template.kind.clone(),
        queue: template.queue.clone(),
        track: role.track.clone(),
        topology: topology.digest().to_owned(),
        artifacts: taken.iter().map(|artifact| artifact.name.clone()).collect(),
        snapshot: snapshot(role, template, read, taken),
        budget_ms: template.budget.time.ms(),
        created_at: read.now,
        failures: 0,
        lost: 0,
        output: None,
        asked: std::collections::BTreeMap::new(),
    };
    let take = |artifact: &&Artifact| {
        let mut change = ArtifactChange::of(artifact);
        change.to.clone_from(&role.to);
        change.cycles = Some(artifact.cycles + 1);
        change.reserved_by = Some(Some(id.clone()));
        Change::Artifact(change)
    };
    let mut changes = vec![Change::Order(Box::new(work_order))];
    changes.extend(taken.iter().map(take));
    changes.push(end(read, role.reasons.scheduled.as_deref(), TerminalReason::Scheduled));
    changes
}

fn snapshot(
    role: &Role,
    template: &WorkOrderTemplate,
    read: &Read<'_>,
    taken: &[&Artifact],
) -> Value {
    let shown = |artifact: &&Artifact| json!({"type": artifact.name.kind, "id": artifact.name.id, "status": artifact.status, "fields": artifact.fields});
    let lists: Vec<Value> = role
        .lists
        .iter()
        .zip(&read.lists)
        .map(|(listing, found)| {
            let found: Vec<Value> =
                found.iter().take(listing.at_most as usize).map(shown).collect();
            json!({"artifact": listing.artifact, "status": listing.status, "found": found})
        })
        .collect();
    json!({
        "deployment": read.deployment,
        "event": read.event.id,
        "instructions": template.instructions,
        "artifacts": taken.iter().map(shown).collect::<Vec<_>>(),
        "lists": lists,
        "answers": read.answers,
    })
}
