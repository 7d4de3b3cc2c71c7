//! One poll of each role: what it reads, what it claims, and what it does with the proposal.

use serde_json::{Value, json};

use super::script::Performance;
use super::world::{Held, Item, World, renew_after};
use crate::claim::ResourceType;
use crate::declaration::{Logic, Role, Trigger};
use crate::deployment::{Artifact, WorkOrder};
use crate::gate;
use crate::proposal::{Author, Change};
use crate::query;
use crate::roles::runner::Execution;
use crate::roles::{deadlines, readiness, review, runner, scheduler};

impl World<'_> {
    pub(super) fn poll(&mut self, poller: usize) {
        let name = self.pollers[poller].role.clone();
        let Some(role) = self.topology.role(&name) else {
            return;
        };
        match role.uses {
            Logic::Readiness => self.poll_readiness(poller, &name, role),
            Logic::Review => {
                self.poll_artifacts(poller, &name, |world, it| review::propose(world.topology, &name, it));
            }
            Logic::DeadlineMonitor => self.poll_artifacts(poller, &name, |world, artifact| {
                let proposed = deadlines::propose(world.topology, &name, artifact, world.now);
                let known = |change: &Change| matches!(change, Change::Pause(it) if world.deployment.pauses.contains_key(&it.id));
                if proposed.iter().all(known) { Vec::new() } else { proposed }
            }),
            Logic::Scheduler => self.poll_scheduler(poller, &name, role),
            Logic::Runner => self.poll_runner(poller, role),
            Logic::Gate => self.poll_gate(poller, &name, role),
        }
    }

    /// Roles that claim nothing: one proposal for each artifact.
    fn poll_artifacts(
        &mut self,
        poller: usize,
        role: &str,
        propose: impl Fn(&Self, &Artifact) -> Vec<Change>,
    ) {
        let who = self.pollers[poller].owner();
        let proposals: Vec<Vec<Change>> =
            self.deployment.artifacts.values().map(|artifact| propose(self, artifact)).collect();
        for proposal in proposals {
            self.commit(&who, Author::Role(role), &proposal);
        }
    }

    fn poll_readiness(&mut self, poller: usize, name: &str, role: &Role) {
        self.poll_artifacts(poller, name, |world, it| {
            readiness::propose(world.topology, name, it, world.now)
        });
        let who = self.pollers[poller].owner();
        for event in &role.emits {
            let scheduled = self.topology.event(event).is_some_and(|it| it.on == Trigger::Schedule);
            let proposal = readiness::propose_scheduled(self.topology, event, 0, self.now);
            let new = |change: &Change| matches!(change, Change::Emit(it) if !self.deployment.events.contains_key(&it.id));
            if scheduled && proposal.iter().any(new) {
                self.commit(&who, Author::Role(name), &proposal);
            }
        }
    }

    fn is_claimable(&self, kind: ResourceType, id: &str) -> bool {
        let claim = self.claims.get(&(kind, id.to_owned()));
        claim.is_none_or(|claim| !claim.is_live(self.now))
    }

    /// Claims the oldest, and dies with the claim if the script says so.
    fn claim_one(&mut self, poller: usize, kind: ResourceType, id: &str) -> Option<Held> {
        let held = self.claim(poller, kind, id)?;
        if self.script.crash_after_claim.contains(&held.number) {
            self.die(poller, &format!("died with its claim on {id}"));
            return None;
        }
        Some(held)
    }

    fn commit_and_release(&mut self, poller: usize, held: &Held, role: &str, changes: &[Change]) {
        // A holder whose claim is gone writes nothing.
        if !self.holds(held) {
            return;
        }
        let who = self.pollers[poller].owner();
        self.commit(&who, Author::Role(role), changes);
        if self.script.crash_before_release.contains(&held.number) {
            self.die(poller, &format!("died before it released {}", held.resource.1));
        } else {
            self.release(held);
        }
    }

    fn poll_scheduler(&mut self, poller: usize, name: &str, role: &Role) {
        let candidate = self
            .deployment
            .events
            .values()
            .filter(|event| event.processed.is_none() && Some(&event.kind) == role.event.as_ref())
            .filter(|event| self.is_claimable(ResourceType::Event, &event.id))
            .min_by_key(|event| (event.created_at, &event.id))
            .filter(|event| !scheduler::must_wait(self.topology, &self.deployment, event))
            .map(|event| event.id.clone());
        let Some(id) = candidate else {
            return;
        };
        let Some(held) = self.claim_one(poller, ResourceType::Event, &id) else {
            return;
        };
        let changes = self.schedule_event(name, role, &id);
        self.commit_and_release(poller, &held, name, &changes);
    }

    fn schedule_event(&self, name: &str, role: &Role, id: &str) -> Vec<Change> {
        let Some(event) = self.deployment.events.get(id) else {
            return Vec::new();
        };
        let subject = event.subject.as_ref().and_then(|it| self.deployment.artifacts.get(it));
        let of_kind = |kind: &str, status: Option<&str>| {
            let found = self.deployment.artifacts.values().filter(|it| {
                it.name.kind == kind && status.is_none_or(|status| it.status == status)
            });
            let mut found: Vec<&Artifact> = found.collect();
            found.sort_by_key(|artifact| artifact.created_at);
            found
        };
        let pending = subject.filter(|_| role.collect.is_some());
        let pending =
            pending.map(|it| of_kind(&it.name.kind, Some(&it.status))).unwrap_or_default();
        let lists =
            role.lists.iter().map(|it| of_kind(&it.artifact, it.status.as_deref())).collect();
        let answers = self.script.deployments.iter().flat_map(|(target, stored)| {
            role.queries
                .iter()
                .map(|artifact| query::answer(self.topology, target, stored, artifact))
        });
        let read = scheduler::Read {
            deployment: &self.deployment.id,
            event,
            subject,
            pending,
            lists,
            answers: answers.collect(),
            is_ordered: false,
            now: self.now,
        };
        scheduler::propose(self.topology, name, &read)
    }

    fn poll_runner(&mut self, poller: usize, role: &Role) {
        let limit = self.topology.declaration().limits.executors as usize;
        if self.executing() >= limit {
            return;
        }
        let Some(order) = self.oldest_order(role, runner::is_wanted) else {
            return;
        };
        let (id, kind, budget) = (order.id.clone(), order.kind.clone(), order.budget_ms);
        let Some(held) = self.claim_one(poller, ResourceType::WorkOrder, &id) else {
            return;
        };
        if self.abandoned.remove(&id) && self.settle_loss(poller, &held) {
            return;
        }
        let performance = self.next_performance(&kind);
        let (takes, execution) = played(&performance, budget);
        let number = held.number;
        self.pollers[poller].busy = Some(held);
        self.schedule(self.now + takes, Item::Finish { poller, execution });
        let lease = self.script.lease.ms();
        self.schedule(self.now + renew_after(lease), Item::Renew { poller, number });
    }

    /// The next holder of the claim counts the lost attempt. Whether that was the last one.
    fn settle_loss(&mut self, poller: usize, held: &Held) -> bool {
        let Some(order) = self.work_order(&held.resource.1) else {
            return true;
        };
        let changes = runner::propose(self.topology, order, &Execution::Lost, self.now);
        let (who, role) = (self.pollers[poller].owner(), self.pollers[poller].role.clone());
        self.commit(&who, Author::Role(&role), &changes);
        let ended = self.work_order(&held.resource.1).is_none_or(|order| !runner::is_wanted(order));
        if ended {
            self.release(held);
        }
        ended
    }

    /// The oldest claimable work order that is wanted. A question to a gate is dear, so it is asked in that order.
    fn oldest_order(&self, role: &Role, wanted: impl Fn(&WorkOrder) -> bool) -> Option<&WorkOrder> {
        let mut orders: Vec<&WorkOrder> = self
            .deployment
            .work_orders
            .values()
            .filter(|order| role.work_orders.contains(&order.template))
            .filter(|order| self.deployment.is_active(order))
            .filter(|order| self.is_claimable(ResourceType::WorkOrder, &order.id))
            .collect();
        let rank = |order: &WorkOrder| self.topology.rank(order.track.as_deref());
        orders.sort_by(|a, b| (rank(a), a.created_at, &a.id).cmp(&(rank(b), b.created_at, &b.id)));
        orders.into_iter().find(|order| wanted(order))
    }

    pub(super) fn finish(&mut self, poller: usize, execution: &Execution) {
        let Some(held) = self.pollers[poller].busy.take() else {
            return;
        };
        let id = held.resource.1.clone();
        let Some(order) = self.work_order(&id).cloned() else {
            return;
        };
        let role = self.pollers[poller].role.clone();
        if *execution == Execution::Lost {
            self.abandoned.insert(id.clone());
            self.die(poller, &format!("died with its executor on {id}"));
            return;
        }
        let changes = runner::propose(self.topology, &order, execution, self.now);
        self.commit_and_release(poller, &held, &role, &changes);
    }

    fn poll_gate(&mut self, poller: usize, name: &str, role: &Role) {
        let ready =
            |order: &WorkOrder| order.output.is_some() && !self.judge_order(name, order).is_empty();
        let Some(id) = self.oldest_order(role, ready).map(|order| order.id.clone()) else {
            return;
        };
        let Some(held) = self.claim_one(poller, ResourceType::WorkOrder, &id) else {
            return;
        };
        let Some(order) = self.work_order(&id).cloned() else {
            return;
        };
        let changes = self.judge_order(name, &order);
        self.commit_and_release(poller, &held, name, &changes);
        self.put_questions(&order, &changes);
    }

    fn judge_order(&self, role: &str, order: &WorkOrder) -> Vec<Change> {
        let artifacts = order.artifacts.iter().filter_map(|it| self.deployment.artifacts.get(it));
        let read = gate::Read {
            work_order: order,
            recorded: self.deployment.run_records.contains_key(&order.id),
            artifacts: artifacts.collect(),
            now: self.now,
        };
        gate::propose(self.topology, role, &read)
    }

    /// Lets the script answer what a gate asked.
    fn put_questions(&mut self, order: &WorkOrder, changes: &[Change]) {
        let Some(gate) = self.topology.gate_of(&order.template) else {
            return;
        };
        for change in changes {
            let Change::Ask { check: name, .. } = change else {
                continue;
            };
            let judge =
                gate.checks.iter().find(|it| it.name == *name).and_then(|it| it.judge.as_ref());
            let answer = match judge {
                Some(judge) => {
                    let performance = self.next_performance(&judge.kind);
                    performance.output.map(|output| (performance.takes.ms(), output))
                }
                None => self.next_decision(name),
            };
            if let Some((takes, answer)) = answer {
                let (work_order, check) = (order.id.clone(), name.clone());
                self.schedule(self.now + takes, Item::Answer { work_order, check, answer });
            }
        }
    }

    fn next_decision(&mut self, check: &str) -> Option<(u64, Value)> {
        let script = self.script;
        let listed = script.people.get(check)?;
        let turn = self.turn(&format!("people/{check}"), listed.len())?;
        let decision = &listed[turn];
        let answer = json!({"approved": decision.approved, "reason": decision.reason});
        Some((decision.takes.ms(), answer))
    }
}

/// How an execution ends, and when: never after the budget.
fn played(performance: &Performance, budget_ms: u64) -> (u64, Execution) {
    let takes = performance.takes.ms();
    if takes >= budget_ms {
        return (budget_ms, Execution::BudgetExhausted);
    }
    let execution = match performance {
        Performance { dies: true, .. } => Execution::Lost,
        Performance { raises: Some(error), .. } => Execution::Raised(error.clone()),
        Performance { output: Some(output), .. } => Execution::Completed(output.clone()),
        _ => return (budget_ms, Execution::BudgetExhausted),
    };
    (takes, execution)
}
