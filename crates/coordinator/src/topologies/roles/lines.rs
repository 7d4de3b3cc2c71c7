//! Lines: which events and gates are leased together, by the coordinator for its own roles or by an outside process for one role.
//!
//! A line takes no more events than there are free slots, and an event of a serial key gives way to those of tracks that go first,
//! whoever takes them. Both are looked at before a poll and, for the order of tracks, again after it; whether a slot is free is
//! decided where a work order is committed.

use std::collections::BTreeSet;
use std::time::Duration;

use store::{Browse, Failure, Filter, ObjectFilter};
use tokio::sync::watch;
use tokio::time::Instant;
use topology::Topology;
use topology::declaration::Logic;
use verdict::topology::{event_queue, gate_queue, outside_gate_queue};
use verdict::{Name, Scope, State};

use super::{LEASES_MAX, Roles, SCAN_SHARED};
use crate::item::{Granted, Poll, RequestError};
use crate::topologies::rows::{DeploymentRow, EXECUTORS, TrackRow, track_key};

/// What is leased by one poll.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    /// The gates of all deployments of a scope that no outside process has.
    Gates(Scope),
    /// The gates of one role, for an outside process.
    RoleGates { scope: Scope, deployment: Name, generation: u32, role: String },
    /// Events of one deployment, as many as there are free slots.
    Events {
        scope: Scope,
        deployment: Name,
        generation: u32,
        /// Of the events whose work orders go one after the other.
        serial: Option<String>,
        /// The role for which an outside process takes them; `None` for all roles that no such process has.
        role: Option<String>,
    },
}

impl Line {
    fn scope(&self) -> &Scope {
        match self {
            Line::Gates(scope) | Line::RoleGates { scope, .. } | Line::Events { scope, .. } => {
                scope
            }
        }
    }
}

/// What a line polls for now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    queues: Vec<Name>,
    /// All kinds without it.
    kinds: Option<Vec<Name>>,
    max: usize,
}

impl Wanted {
    fn is_nothing(&self) -> bool {
        let is_no_kind = self.kinds.as_ref().is_some_and(Vec::is_empty);
        self.queues.is_empty() || self.max == 0 || is_no_kind
    }

    /// Whether a poll that waits is given up for this one. One for fewer or more tasks goes on: what it gets too much is refused
    /// where it is decided.
    fn replaces(&self, waiting: &Wanted) -> bool {
        self.queues != waiting.queues || self.kinds != waiting.kinds || self.is_nothing()
    }
}

/// The events that a line takes, and those of the same serial key that somebody else takes, each with its rank.
struct Shares<'t> {
    own: Vec<(&'t str, u32)>,
    others: Vec<(&'t str, u32)>,
}

impl Roles {
    /// The lines that this coordinator leases for.
    pub(super) async fn lines(&self) -> Vec<Line> {
        let known = self.coordinator.topologies().snapshot();
        let mut lines = Vec::new();
        for (scope, deployments) in known.iter() {
            lines.push(Line::Gates(scope.clone()));
            for (name, row) in deployments {
                for serial in self.serial_keys(scope, row).await {
                    let (scope, deployment) = (scope.clone(), name.clone());
                    let generation = row.generation;
                    lines.push(Line::Events { scope, deployment, generation, serial, role: None });
                }
            }
        }
        lines
    }

    /// The serial keys of a deployment, and none for the events without one.
    async fn serial_keys(&self, scope: &Scope, row: &DeploymentRow) -> BTreeSet<Option<String>> {
        let version = self.version(scope, &row.version).await.ok().flatten();
        let tracks = version.iter().flat_map(|it| it.declaration().tracks.values());
        let keys = tracks.map(|track| track.serial.clone());
        keys.chain([None]).collect()
    }

    /// Leases up to `max` tasks of a line, waiting until there are some; `None` if its deployments are gone.
    pub(super) async fn take(
        &self,
        line: &Line,
        worker: &Name,
        max: usize,
        until: Instant,
    ) -> Option<Result<Vec<Granted>, RequestError>> {
        let mut changes = self.coordinator.topologies().changes();
        loop {
            changes.borrow_and_update();
            let wanted = self.wanted(line).await?;
            if wanted.is_nothing() {
                let left = until.saturating_duration_since(tokio::time::Instant::now());
                if left.is_zero() || self.coordinator.refuse_if_draining().is_err() {
                    return Some(Ok(Vec::new()));
                }
                wait(&mut changes, SCAN_SHARED.min(left)).await;
                continue;
            }
            let poll = Poll {
                scope: line.scope().clone(),
                worker: worker.clone(),
                queues: wanted.queues.clone(),
                kinds: wanted.kinds.clone(),
                max: wanted.max.min(max),
                until,
                poll: None,
                build: None,
            };
            let leasing = self.coordinator.lease(poll);
            tokio::pin!(leasing);
            let granted = loop {
                tokio::select! {
                    // Grants first: a poll that is given up hands them back.
                    biased;
                    granted = &mut leasing => break Some(granted),
                    _ = changes.changed() => {
                        if self.wanted(line).await.is_none_or(|now| now.replaces(&wanted)) {
                            break None;
                        }
                    }
                }
            };
            match granted {
                None => {}
                Some(Ok(granted)) if granted.is_empty() => return Some(Ok(granted)),
                Some(Ok(granted)) => {
                    let first = self.without_followers(line, granted).await;
                    if !first.is_empty() {
                        return Some(Ok(first));
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
            }
        }
    }

    /// What a line polls for now; `None` if its deployments are gone.
    async fn wanted(&self, line: &Line) -> Option<Wanted> {
        let known = self.coordinator.topologies().snapshot();
        let of_scope = known.get(line.scope())?;
        match line {
            Line::Gates(scope) => {
                let mut queues = Vec::new();
                for row in of_scope.values().filter(|row| !row.is_paused) {
                    queues.push(gate_queue(&row.name));
                    queues.extend(self.left_gates(scope, row).await);
                }
                Some(Wanted { queues, kinds: None, max: LEASES_MAX })
            }
            Line::RoleGates { deployment, generation, role, .. } => {
                let row = of_scope.get(deployment).filter(|it| it.generation == *generation)?;
                let max = if row.is_paused { 0 } else { LEASES_MAX };
                let queues = vec![outside_gate_queue(&row.name, role)];
                Some(Wanted { queues, kinds: None, max })
            }
            Line::Events { scope, deployment, generation, serial, role } => {
                let row = of_scope.get(deployment).filter(|it| it.generation == *generation)?;
                let serial = serial.as_deref();
                let queues = vec![event_queue(deployment.as_str(), serial)];
                let max = match row.is_paused {
                    true => 0,
                    false => self.free_slots(scope, row, serial).await,
                };
                let kinds = match max {
                    0 => None,
                    _ => self.kinds(scope, row, serial, role.as_deref()).await.ok()?,
                };
                Some(Wanted { queues, kinds, max })
            }
        }
    }

    /// Queues of gates that an earlier version gave to outside processes and this one does not.
    async fn left_gates(&self, scope: &Scope, row: &DeploymentRow) -> Vec<Name> {
        if row.outside_gates.is_empty() {
            return Vec::new();
        }
        let Ok(Some(version)) = self.version(scope, &row.version).await else { return Vec::new() };
        let is_outside = |name: &String| {
            let role = version.role(name).filter(|role| role.uses == Logic::Gate);
            role.is_some_and(|role| role.outside)
        };
        let left = row.outside_gates.iter().filter(|name| !is_outside(name));
        left.map(|name| outside_gate_queue(&row.name, name)).collect()
    }

    /// How many work orders may be made now. Nobody knows while the store does not answer.
    async fn free_slots(&self, scope: &Scope, row: &DeploymentRow, serial: Option<&str>) -> usize {
        let version = self.version(scope, &row.version).await.ok().flatten();
        let Some(version) = version else { return 0 };
        let all = version.declaration().limits.executors as usize;
        let mut free = LEASES_MAX;
        let serial = serial.map(|key| (key, 1));
        for (key, limit) in [Some((EXECUTORS, all)), serial].into_iter().flatten() {
            let filter = ObjectFilter::one(&track_key(scope, &row.prefix(), key));
            let Ok(found) = self.coordinator.browse().objects(&filter).await else { return 0 };
            let held = found.first().and_then(TrackRow::of).map_or(0, |row| row.holders.len());
            free = free.min(limit.saturating_sub(held));
        }
        free
    }

    /// The kinds of events that a line may take now; `None` for all, where no outside process takes any of them.
    async fn kinds(
        &self,
        scope: &Scope,
        row: &DeploymentRow,
        serial: Option<&str>,
        role: Option<&str>,
    ) -> Result<Option<Vec<Name>>, Failure> {
        let Some(version) = self.version(scope, &row.version).await? else {
            return Ok(Some(Vec::new()));
        };
        let Shares { own, others } = shares(&version, serial, role);
        if role.is_none() && others.is_empty() {
            return Ok(None);
        }
        let mut first = u32::MAX;
        // Without a serial key nobody waits for anybody.
        for (kind, rank) in others.into_iter().filter(|_| serial.is_some()) {
            if rank < first && self.is_waiting(scope, row, serial, kind).await? {
                first = rank;
            }
        }
        let free = own.into_iter().filter(|(_, rank)| *rank <= first);
        Ok(Some(free.map(|(kind, _)| Name::from(kind)).collect()))
    }

    /// Whether an unprocessed event of this kind exists.
    async fn is_waiting(
        &self,
        scope: &Scope,
        row: &DeploymentRow,
        serial: Option<&str>,
        kind: &str,
    ) -> Result<bool, Failure> {
        for state in [State::Queued, State::Retry, State::Running] {
            let mut filter = Filter {
                queue: Some(event_queue(&row.name, serial)),
                kind: Some(kind.into()),
                state: Some(state),
                limit: 1,
                ..Filter::default()
            };
            loop {
                let page = self.coordinator.browse().list(scope, &filter).await?;
                if !page.tasks.is_empty() {
                    return Ok(true);
                }
                filter.before = page.next;
                if filter.before.is_none() {
                    break;
                }
            }
        }
        Ok(false)
    }

    /// Hands back events that must give way: one of a track that goes first came while the poll waited.
    async fn without_followers(&self, line: &Line, granted: Vec<Granted>) -> Vec<Granted> {
        let Line::Events { scope, deployment, serial: Some(serial), role, .. } = line else {
            return granted;
        };
        let known = self.coordinator.topologies().snapshot();
        let row = known.get(scope).and_then(|of_scope| of_scope.get(deployment));
        let Some(row) = row else { return granted };
        let kinds = self.kinds(scope, row, Some(serial), role.as_deref()).await;
        let Ok(Some(kinds)) = kinds else { return granted };
        let (first, late): (Vec<Granted>, Vec<Granted>) =
            granted.into_iter().partition(|granted| kinds.contains(&granted.task.kind));
        if !late.is_empty() {
            let late = late.iter().map(|granted| (granted.key(), granted.lease())).collect();
            self.coordinator.release(late);
        }
        first
    }
}

fn shares<'t>(version: &'t Topology, serial: Option<&str>, taker: Option<&str>) -> Shares<'t> {
    let mut shares = Shares { own: Vec::new(), others: Vec::new() };
    for (name, role) in version.roles_using(Logic::Scheduler) {
        let track = role.track.as_deref();
        let Some(event) = role.event.as_deref() else { continue };
        if version.serial_key(track) != serial {
            continue;
        }
        let is_own = match taker {
            Some(taker) => name == taker,
            None => !role.outside,
        };
        let share = if is_own { &mut shares.own } else { &mut shares.others };
        share.push((event, version.rank(track)));
    }
    shares
}

async fn wait(changes: &mut watch::Receiver<u64>, at_most: Duration) {
    tokio::select! {
        biased;
        changed = changes.changed() => if changed.is_err() { tokio::time::sleep(at_most).await },
        () = tokio::time::sleep(at_most) => {}
    }
}
