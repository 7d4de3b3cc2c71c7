//! Readiness: one event for each entry of an artifact into a status that makes one.
//!
//! The artifact's own row remembers the last entry with an event, so "once" does not depend on how long events are kept.
//! An artifact that has had its share of work orders makes a pause state instead: a failing gate cannot loop without end.

use crate::check::Topology;
use crate::declaration::Trigger;
use crate::deployment::{Artifact, Event, PauseReason, PauseState};
use crate::proposal::{ArtifactChange, Change};

/// What the role proposes for one artifact.
#[must_use]
pub fn propose(topology: &Topology, role: &str, artifact: &Artifact, now: u64) -> Vec<Change> {
    // Most artifacts of a poll are done with: the cheapest question comes first.
    if artifact.emitted >= artifact.transition_no || artifact.reserved_by.is_some() {
        return Vec::new();
    }
    let emits = |event: &&str| {
        topology.role(role).is_some_and(|it| it.emits.iter().any(|name| name == event))
    };
    let event = topology.event_of(&artifact.name.kind, &artifact.status).filter(emits);
    let Some(event) = event else {
        return Vec::new();
    };
    let mut mark = ArtifactChange::of(artifact);
    mark.emitted = Some(artifact.transition_no);
    let consequence = if artifact.cycles >= topology.declaration().limits.cycles {
        Change::Pause(halted(artifact, now))
    } else {
        Change::Emit(Event::of_transition(event, artifact, now))
    };
    vec![Change::Artifact(mark), consequence]
}

fn halted(artifact: &Artifact, now: u64) -> PauseState {
    let action = format!(
        "Decide what to do with {}: {} work orders in a row did not settle it",
        artifact.name, artifact.cycles
    );
    let cause = artifact.name.to_string();
    PauseState::new(PauseReason::Halted, &cause, artifact.transition_no, &[action], now)
        .about(Some(&artifact.name))
}

/// The event of an interval, under the latest instant that has passed since `started_at`. Missed instants make none.
#[must_use]
pub fn propose_scheduled(
    topology: &Topology,
    event: &str,
    started_at: u64,
    now: u64,
) -> Vec<Change> {
    let every = topology
        .event(event)
        .filter(|source| source.on == Trigger::Schedule)
        .and_then(|source| source.every)
        .map_or(0, |every| every.ms());
    let passed = now.saturating_sub(started_at).checked_div(every).unwrap_or(0);
    if passed == 0 {
        return Vec::new();
    }
    let instant = started_at + passed * every;
    vec![Change::Emit(Event::about_deployment(event, &instant.to_string(), now))]
}
