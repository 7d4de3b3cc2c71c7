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
use crate::outside::{Decision, Objection, Taken};
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
    /// Whether its work order exists: then it was processed, whatever became of its claim.
    pub is_ordered: bool,
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
    let decision = decide(topology, role, read);
    decision.map_or_else(Vec::new, |decision| changes(topology, role, read, &decision))
}

/// What the role decides about one event; `None` for a processed one.
#[must_use]
pub fn decide(topology: &Topology, role: &str, read: &Read<'_>) -> Option<Decision> {
    let (role, _, template) =
        declared(topology, role).filter(|_| read.event.processed.is_none())?;
    let end = |reason| Some(Decision::End { reason });
    let subject = match (read.is_ordered, &read.event.subject, read.subject) {
        (true, _, _) => return end(TerminalReason::NothingPending),
        (false, None, _) => {
            return Some(Decision::order(&[], snapshot(role, template, read, &[])));
        }
        (false, Some(_), None) => return end(TerminalReason::MissingArtifact),
        (false, Some(_), Some(subject)) => subject,
    };
    if !is_executable(topology, read.event, subject) {
        return end(TerminalReason::NonExecutableStatus);
    }
    if subject.reserved_by.is_some() {
        return end(TerminalReason::NothingPending);
    }
    if has_blockers(topology, subject) {
        return Some(Decision::Block);
    }
    let taken = taken(topology, role, read, subject);
    Some(Decision::order(&taken, snapshot(role, template, read, &taken)))
}

/// What an outside process decided, as changes. It may choose what a work order takes along and what its executor is told, and
/// never whether an event counts: where the rows say how the event ends, it ends so.
pub fn decided(
    topology: &Topology,
    role: &str,
    read: &Read<'_>,
    decision: &Decision,
) -> Result<Vec<Change>, Objection> {
    let done = || Objection::Stale(format!("{} is processed", read.event.id));
    match (decide(topology, role, read).ok_or_else(done)?, decision) {
        (Decision::Order { .. }, Decision::Order { take, snapshot }) => {
            check_order(topology, role, read, take, snapshot)?;
        }
        (Decision::Order { .. }, _) => {
            let why = "the event asks for a work order; return the turn to have it tried later";
            return Err(Objection::NotAllowed(why.to_owned()));
        }
        (own, decided) if own == *decided => {}
        (own, _) => {
            let why = format!("what the event is about has changed: it is to {}", own.words());
            return Err(Objection::Stale(why));
        }
    }
    Ok(changes(topology, role, read, decision))
}

fn check_order(
    topology: &Topology,
    role: &str,
    read: &Read<'_>,
    take: &[Taken],
    snapshot: &Value,
) -> Result<(), Objection> {
    let Some((role, _, _)) = declared(topology, role) else { return Ok(()) };
    let candidates: Vec<&Artifact> = match read.subject.filter(|_| read.event.subject.is_some()) {
        Some(subject) => candidates(topology, role, read, subject).collect(),
        None => Vec::new(),
    };
    let at_most = role.collect.as_ref().map_or(1, |collect| collect.at_most as usize);
    if take.len() > at_most {
        let why = format!("a work order of this role takes at most {at_most} artifacts");
        return Err(Objection::NotAllowed(why));
    }
    if take.first().map(|it| &it.artifact) != candidates.first().map(|it| &it.name) {
        let why = "the artifact of the event is taken first".to_owned();
        return Err(Objection::NotAllowed(why));
    }
    for (place, taken) in take.iter().enumerate() {
        let name = &taken.artifact;
        if take[..place].iter().any(|before| before.artifact == *name) {
            return Err(Objection::NotAllowed(format!("{name} is taken twice")));
        }
        let found = candidates.iter().find(|it| it.name == *name);
        if found.is_none_or(|it| it.revision != taken.revision) {
            return Err(Objection::Stale(format!("{name} has changed since it was read")));
        }
    }
    match snapshot.is_object() {
        true => Ok(()),
        false => Err(Objection::Invalid("the snapshot must be an object".to_owned())),
    }
}

/// The role with the template of its work orders.
fn declared<'t>(
    topology: &'t Topology,
    role: &str,
) -> Option<(&'t Role, &'t str, &'t WorkOrderTemplate)> {
    let role = topology.role(role)?;
    let name = role.work_order.as_deref()?;
    Some((role, name, topology.template(name)?))
}

fn changes(topology: &Topology, role: &str, read: &Read<'_>, decision: &Decision) -> Vec<Change> {
    let Some((role, name, template)) = declared(topology, role) else { return Vec::new() };
    match (decision, read.subject) {
        (Decision::Order { take, snapshot }, _) => {
            let find = |taken: &Taken| {
                let mut all = read.subject.into_iter().chain(read.pending.iter().copied());
                all.find(|it| it.name == taken.artifact)
            };
            let taken: Vec<&Artifact> = take.iter().filter_map(find).collect();
            order(topology, role, (name, template), read, &taken, snapshot.clone())
        }
        (Decision::Block, Some(subject)) => block(role, read, subject),
        (Decision::End { reason }, _) => vec![end(role, read, *reason)],
        _ => Vec::new(),
    }
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

fn end(role: &Role, read: &Read<'_>, reason: TerminalReason) -> Change {
    let names = &role.reasons;
    let declared = match reason {
        TerminalReason::Scheduled => &names.scheduled,
        TerminalReason::MissingArtifact => &names.missing,
        TerminalReason::NonExecutableStatus => &names.not_executable,
        TerminalReason::Blocked => &names.blocked,
        TerminalReason::NothingPending => &names.nothing_pending,
    };
    let reason = declared.clone().unwrap_or_else(|| word(&reason));
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
        end(role, read, TerminalReason::Blocked),
    ]
}

/// The event's artifact, and with `collect` others, as many as one work order takes.
fn taken<'r>(
    topology: &Topology,
    role: &Role,
    read: &Read<'r>,
    subject: &'r Artifact,
) -> Vec<&'r Artifact> {
    let at_most = role.collect.as_ref().map_or(1, |collect| collect.at_most as usize);
    candidates(topology, role, read, subject).take(at_most).collect()
}

/// The event's artifact, and with `collect` those that wait in the same status. Artifacts whose cycles are used up stay.
fn candidates<'r>(
    topology: &Topology,
    role: &Role,
    read: &Read<'r>,
    subject: &'r Artifact,
) -> impl Iterator<Item = &'r Artifact> {
    let cycles = topology.declaration().limits.cycles;
    let is_collecting = role.collect.is_some();
    let others: Vec<&'r Artifact> = read
        .pending
        .iter()
        .copied()
        .filter(|other| {
            is_collecting
                && other.name != subject.name
                && other.name.kind == subject.name.kind
                && other.status == subject.status
                && other.reserved_by.is_none()
                && other.cycles < cycles
        })
        .collect();
    std::iter::once(subject).chain(others)
}

fn order(
    topology: &Topology,
    role: &Role,
    (name, template): (&str, &WorkOrderTemplate),
    read: &Read<'_>,
    taken: &[&Artifact],
    snapshot: Value,
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
        snapshot,
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
    changes.push(end(role, read, TerminalReason::Scheduled));
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
