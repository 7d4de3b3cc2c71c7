//! The virtual clock and everything that is in flight.
//!
//! When every role has polled since the last change and found nothing to do, time jumps to the next moment at which
//! something can happen. So a quiet month costs a few polls.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::ending::Entry;
use super::script::{Performance, Script};
use crate::check::Topology;
use crate::claim::{self, Claim, ResourceType};
use crate::declaration::{Logic, Trigger};
use crate::deployment::{Deployment, WorkOrder};
use crate::gate;
use crate::proposal::{self, Author, Change};
use crate::roles::deadlines;
use crate::roles::runner::Execution;

/// Something that happens at its time.
#[derive(Debug, Clone)]
pub(super) enum Item {
    Step(usize),
    /// Of the claim with this number, if it is still held.
    Renew {
        poller: usize,
        number: u64,
    },
    Finish {
        poller: usize,
        execution: Execution,
    },
    Answer {
        work_order: String,
        check: String,
        answer: Value,
    },
}

/// One process of one role.
#[derive(Debug, Clone)]
pub(super) struct Poller {
    pub(super) role: String,
    pub(super) process: u32,
    /// How often it died: an owner is a process, not a role.
    pub(super) lives: u32,
    pub(super) interval: u64,
    pub(super) repeat: u32,
    pub(super) next: u64,
    /// The claim under which an executor works for it.
    pub(super) busy: Option<Held>,
    /// The state of the world in which it last found nothing to do, and when that was.
    idle_at: Option<(u64, u64)>,
}

impl Poller {
    pub(super) fn owner(&self) -> String {
        format!("{}-{}.{}", self.role, self.process, self.lives)
    }
}

/// A claim as its owner knows it.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) resource: (ResourceType, String),
    pub(super) owner: String,
    pub(super) version: u64,
    /// Which claim of the simulation it is, from 1.
    pub(super) number: u64,
}

pub(super) struct World<'w> {
    pub(super) topology: &'w Topology,
    pub(super) script: &'w Script,
    pub(super) deployment: Deployment,
    pub(super) claims: BTreeMap<(ResourceType, String), Claim>,
    pub(super) claims_made: u64,
    pub(super) pollers: Vec<Poller>,
    pub(super) now: u64,
    pub(super) log: Vec<Entry>,
    /// How often each kind and each check was played.
    pub(super) played: BTreeMap<String, usize>,
    pub(super) armed: Vec<bool>,
    /// Work orders whose executor vanished, until the next holder of the claim counts it.
    pub(super) abandoned: BTreeSet<String>,
    pub(super) refused: Vec<String>,
    /// The turns were used up.
    pub(super) is_cut: bool,
    queue: BTreeMap<(u64, u64), Item>,
    items_made: u64,
    /// Grows with every commit and every claim.
    version: u64,
}

impl<'w> World<'w> {
    pub(super) fn new(topology: &'w Topology, script: &'w Script) -> Self {
        let mut world = Self {
            topology,
            script,
            deployment: Deployment::new(&script.deployment),
            claims: BTreeMap::new(),
            claims_made: 0,
            pollers: pollers(topology, script),
            now: 0,
            log: Vec::new(),
            played: BTreeMap::new(),
            armed: vec![false; script.steps.len()],
            abandoned: BTreeSet::new(),
            refused: Vec::new(),
            is_cut: false,
            queue: BTreeMap::new(),
            items_made: 0,
            version: 0,
        };
        for (index, step) in script.steps.iter().enumerate() {
            if step.once.is_none() {
                world.armed[index] = true;
                world.schedule(step.at.ms(), Item::Step(index));
            }
        }
        world
    }

    /// Runs until nothing can happen any more, the time is over, or the turns of the script are used up.
    pub(super) fn run(&mut self) {
        for _ in 0..self.script.turns {
            let item = self.queue.first_key_value().map(|((at, _), _)| *at);
            let poll = self.next_poll();
            let next = [item, poll.map(|(at, _)| at)].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= self.script.until.ms()) else {
                return;
            };
            self.now = self.now.max(next);
            // What was due happens before anybody looks.
            if item.is_some_and(|item| item <= next) {
                if let Some((_, item)) = self.queue.pop_first() {
                    self.happen(item);
                }
            } else if let Some((_, poller)) = poll {
                self.poll_of(poller);
            }
            self.arm_steps();
        }
        self.is_cut = true;
    }

    fn happen(&mut self, item: Item) {
        match item {
            Item::Step(step) => self.step(step),
            Item::Renew { poller, number } => self.renew(poller, number),
            Item::Finish { poller, execution } => self.finish(poller, &execution),
            Item::Answer { work_order, check, answer } => {
                let who = format!("answer to {check}");
                self.commit(&who, Author::Person, &[Change::Answer { work_order, check, answer }]);
            }
        }
    }

    fn poll_of(&mut self, index: usize) {
        let before = self.version;
        for _ in 0..self.pollers[index].repeat {
            if self.pollers[index].busy.is_none() {
                self.poll(index);
            }
        }
        let idle = (self.version == before).then_some((self.version, self.now));
        let poller = &mut self.pollers[index];
        poller.idle_at = idle;
        poller.next = self.now + poller.interval;
    }

    /// The next poll that can change something, with its time.
    fn next_poll(&mut self) -> Option<(u64, usize)> {
        if let Some(since) = self.idle_since() {
            let due = self.next_due(since)?;
            for poller in self.pollers.iter_mut().filter(|poller| poller.busy.is_none()) {
                poller.next = first_poll(poller.next, poller.interval, due);
                poller.idle_at = None;
            }
        }
        let free = self.pollers.iter().enumerate().filter(|(_, poller)| poller.busy.is_none());
        free.map(|(index, poller)| (poller.next, index)).min()
    }

    /// When every free process has looked at the present state and found nothing to do: since the earliest look, only
    /// time can have made work.
    fn idle_since(&self) -> Option<u64> {
        let mut since = self.now;
        for poller in self.pollers.iter().filter(|poller| poller.busy.is_none()) {
            let (_, looked_at) = poller.idle_at.filter(|(version, _)| *version == self.version)?;
            since = since.min(looked_at);
        }
        Some(since)
    }

    /// The next moment after `since` at which time alone makes work for a role.
    fn next_due(&self, since: u64) -> Option<u64> {
        let expiries = self.claims.values().map(|claim| claim.lease_expires_at);
        let open = self.deployment.work_orders.values().filter(|it| self.deployment.is_active(it));
        let timeouts = open.filter_map(|order| gate::next_timeout(self.topology, order));
        let monitors: Vec<_> = self.topology.roles_using(Logic::DeadlineMonitor).collect();
        let deadlines = self.deployment.artifacts.values().flat_map(|artifact| {
            monitors
                .iter()
                .filter_map(|(_, role)| deadlines::deadline(self.topology, role, artifact))
        });
        let schedules = self.topology.declaration().events.values().filter_map(|source| {
            let every = source.every.filter(|_| source.on == Trigger::Schedule)?.ms();
            Some((since / every + 1) * every)
        });
        let items = self.queue.keys().map(|(at, _)| *at);
        let all = expiries.chain(timeouts).chain(deadlines).chain(schedules).chain(items);
        all.filter(|at| *at > since).min()
    }

    pub(super) fn schedule(&mut self, at: u64, item: Item) {
        self.items_made += 1;
        self.queue.insert((at, self.items_made), item);
    }

    pub(super) fn commit(&mut self, who: &str, author: Author<'_>, changes: &[Change]) -> bool {
        if changes.is_empty() {
            return true;
        }
        let committed =
            proposal::commit(self.topology, &mut self.deployment, author, changes, self.now);
        match committed {
            Ok(()) => {
                self.version += 1;
                let entries = changes.iter().filter_map(|change| Entry::of(self.now, who, change));
                self.log.extend(entries);
                true
            }
            Err(refusal) => {
                self.refused.push(format!("{who}: {refusal}"));
                false
            }
        }
    }

    pub(super) fn claim(&mut self, poller: usize, kind: ResourceType, id: &str) -> Option<Held> {
        let resource = (kind, id.to_owned());
        let owner = self.pollers[poller].owner();
        let lease = self.script.lease.ms();
        let claim =
            claim::acquire(self.claims.get(&resource), (kind, id), &owner, lease, self.now)?;
        let version = claim.claim_version;
        self.claims.insert(resource.clone(), claim);
        self.claims_made += 1;
        self.version += 1;
        Some(Held { resource, owner, version, number: self.claims_made })
    }

    /// Whether the holder may still write.
    pub(super) fn holds(&self, held: &Held) -> bool {
        self.claims.get(&held.resource).is_some_and(|claim| {
            claim.is_live(self.now)
                && claim.owner_id == held.owner
                && claim.claim_version == held.version
        })
    }

    pub(super) fn release(&mut self, held: &Held) {
        let claim = self.claims.get(&held.resource);
        let released = claim.and_then(|it| claim::release(it, &held.owner, held.version, self.now));
        if let Some(released) = released {
            self.claims.insert(held.resource.clone(), released);
        }
    }

    fn renew(&mut self, poller: usize, number: u64) {
        let held = self.pollers[poller].busy.clone().filter(|held| held.number == number);
        let Some(mut held) = held else {
            return;
        };
        let lease = self.script.lease.ms();
        let claim = self.claims.get(&held.resource);
        let renewed =
            claim.and_then(|it| claim::renew(it, &held.owner, held.version, lease, self.now));
        if let Some(renewed) = renewed {
            held.version = renewed.claim_version;
            self.claims.insert(held.resource.clone(), renewed);
            self.pollers[poller].busy = Some(held);
            self.schedule(self.now + renew_after(lease), Item::Renew { poller, number });
        }
    }

    /// The process dies and is started again: its claims stay until they expire.
    pub(super) fn die(&mut self, poller: usize, why: &str) {
        let who = self.pollers[poller].owner();
        self.log.push(Entry { at: self.now, who, what: why.to_owned() });
        self.pollers[poller].lives += 1;
        self.pollers[poller].busy = None;
        self.version += 1;
    }

    /// What the script plays next under this name.
    pub(super) fn next_performance(&mut self, kind: &str) -> Performance {
        let listed = self.script.executors.get(kind).map(Vec::as_slice).unwrap_or_default();
        let turn = self.turn(kind, listed.len());
        turn.and_then(|turn| listed.get(turn)).cloned().unwrap_or_default()
    }

    pub(super) fn turn(&mut self, name: &str, listed: usize) -> Option<usize> {
        let played = self.played.entry(name.to_owned()).or_default();
        let turn = (*played).min(listed.checked_sub(1)?);
        *played += 1;
        Some(turn)
    }

    pub(super) fn executing(&self) -> usize {
        self.pollers.iter().filter(|poller| poller.busy.is_some()).count()
    }

    pub(super) fn work_order(&self, id: &str) -> Option<&WorkOrder> {
        self.deployment.work_orders.get(id)
    }
}

/// A third of the lease: two renewals may fail before it expires.
pub(super) fn renew_after(lease_ms: u64) -> u64 {
    (lease_ms / 3).max(1)
}

/// The first poll of an unbroken rhythm that is not before `due`.
fn first_poll(next: u64, interval: u64, due: u64) -> u64 {
    let missed = due.saturating_sub(next).div_ceil(interval);
    next + missed * interval
}

fn pollers(topology: &Topology, script: &Script) -> Vec<Poller> {
    let mut pollers = Vec::new();
    for role in topology.declaration().roles.keys() {
        let polling = script.roles.get(role).cloned().unwrap_or_default();
        let interval = polling.poll.unwrap_or(script.poll).ms();
        let processes = polling.processes.unwrap_or(1);
        for process in 1..=processes {
            let offset = interval * u64::from(process - 1) / u64::from(processes);
            pollers.push(Poller {
                role: role.clone(),
                process,
                lives: 0,
                interval,
                repeat: polling.repeat.unwrap_or(1),
                next: polling.first.ms() + offset,
                busy: None,
                idle_at: None,
            });
        }
    }
    pollers
}
