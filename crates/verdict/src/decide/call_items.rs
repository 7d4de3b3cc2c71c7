//! What of a checkpoint call is new, what was recorded before, and what contradicts the records.
//!
//! A key of a task means one thing for ever. Each item of a call is compared with what its key means: nothing yet, and it
//! is recorded; the same, and it is a repetition; anything else, and the call is refused. This file decides nothing about
//! leases and attempts.

use std::collections::BTreeMap;

use super::flow;
use super::run::event;
use super::waiting::{self, Recording};
use crate::allowance::Quota;
use crate::approval::{ApprovalCall, CONTENTS_MAX, OPEN_MAX};
use crate::budget::Balance;
use crate::event::Event;
use crate::flow::{FlowUses, hold};
use crate::id::{Digest, Name, TaskId};
use crate::request::Submit;
use crate::run::limits::{
    CHILDREN_MAX, CHILDREN_PER_CALL_MAX, RESULT_MAX, STEPS_MAX, STEPS_PER_CALL_MAX, WAIT_ITEMS_MAX,
};
use crate::run::wait::Standing;
use crate::run::{
    AwaitedEvent, CheckpointCall, ChildCall, Loaded, Recorded, RunEvent, RunRefusal, StepCall,
    WaitCall, WaitRecord,
};
use crate::scope_budget::{self, BudgetUse};
use crate::task::Task;
use crate::time::Time;
use crate::verdict::{Context, Refusal};

/// What a key means.
#[derive(Clone, Copy)]
enum Meaning<'a> {
    Step(Digest),
    Wait(Digest, &'a WaitRecord),
    Child { digest: Digest, id: TaskId, is_detached: bool, has_ended: bool },
}

/// Compares the items of one call with the records.
pub(super) struct Items<'a> {
    task: &'a Task,
    loaded: &'a Loaded,
    quota: Option<Quota>,
    budgets: &'a [BudgetUse],
    now: Time,
    meanings: BTreeMap<&'a Name, Meaning<'a>>,
    next_number: u32,
    /// The balance after what was looked at so far.
    balance: Option<Balance>,
    /// The flow keys of the scope, after what was looked at so far.
    flows: FlowUses,
    resolved: Resolved,
}

/// What a call comes to.
#[derive(Default)]
pub(super) struct Resolved {
    /// What is new, in the order of the call.
    pub(super) events: Vec<Event>,
    /// The keys that were recorded before.
    pub(super) replayed: Vec<Name>,
    pub(super) children: Vec<(Name, TaskId)>,
    /// How many of them are new and belong to the run.
    pub(super) new_children: u32,
    pub(super) wait: Option<WaitOutcome>,
}

pub(super) enum WaitOutcome {
    /// Everything is there, and recorded with this call.
    Satisfied(WaitRecord),
    /// The wait was over before.
    Replayed(WaitRecord),
    /// So many children and signals are missing; there may be times too.
    Missing(u32),
}

impl<'a> Items<'a> {
    pub(super) fn new(task: &'a Task, loaded: &'a Loaded, context: Context<'a>, now: Time) -> Self {
        let own = loaded.checkpoints.iter().filter_map(|found| match &found.recorded {
            Recorded::Step(_) => Some((&found.key, Meaning::Step(found.digest))),
            Recorded::Wait(wait) => Some((&found.key, Meaning::Wait(found.digest, wait))),
            // The child itself says how it ended.
            Recorded::Child(_) => None,
        });
        let children = loaded.children.iter().map(|child| {
            let (digest, id, is_detached) = (child.digest, child.id, child.is_detached);
            let has_ended = child.end.is_some();
            (&child.key, Meaning::Child { digest, id, is_detached, has_ended })
        });
        let meanings = own.chain(children).collect();
        let (next_number, resolved) = (waiting::next_number(task), Resolved::default());
        let balance = task.balance().cloned();
        let Context { quota, budgets, .. } = context;
        let flows = context.flows.cloned().unwrap_or_default();
        Self { task, loaded, quota, budgets, now, meanings, next_number, balance, flows, resolved }
    }

    pub(super) fn resolve(mut self, call: &'a CheckpointCall) -> Result<Resolved, Refusal> {
        check_counts(call).map_err(Refusal::Run)?;
        for step in &call.steps {
            self.step(step).map_err(Refusal::Run)?;
        }
        for child in &call.children {
            self.child(child)?;
        }
        self.check_totals().map_err(Refusal::Run)?;
        if let Some(wait) = call.wait() {
            let outcome = self.wait(wait).map_err(Refusal::Run)?;
            self.resolved.wait = Some(outcome);
        }
        Ok(self.resolved)
    }

    fn step(&mut self, step: &'a StepCall) -> Result<(), RunRefusal> {
        let (key, bytes) = (step.key.clone(), step.step.bytes());
        if bytes > RESULT_MAX {
            let (bytes, max) = (bytes as u64, RESULT_MAX as u64);
            return Err(RunRefusal::ResultTooLarge { key, bytes, max });
        }
        match self.meanings.get(&step.key) {
            Some(Meaning::Step(digest)) if *digest == step.digest => {
                self.resolved.replayed.push(key)
            }
            Some(_) => return Err(RunRefusal::ConflictingStep { key }),
            None => {
                self.meanings.insert(&step.key, Meaning::Step(step.digest));
                if let Some(balance) = &mut self.balance {
                    balance.step(step.step.spend);
                }
                self.record(&step.key, step.digest, Recorded::Step(step.step.clone()));
            }
        }
        Ok(())
    }

    fn record(&mut self, key: &Name, digest: Digest, recorded: Recorded) {
        let (number, attempt, now) = (self.next_number, self.task.attempt, self.now);
        self.next_number += 1;
        self.resolved.events.push(Recording { number, attempt, now }.event(key, digest, recorded));
    }

    fn child(&mut self, asked: &'a ChildCall) -> Result<(), Refusal> {
        let key = asked.key.clone();
        let (id, digest) = (asked.submit.id, asked.submit.fingerprint);
        let is_detached = asked.is_detached;
        match self.meanings.get(&asked.key) {
            Some(Meaning::Child { digest: known, id, is_detached: was, .. })
                if *known == digest && *was == is_detached =>
            {
                self.resolved.children.push((key.clone(), *id));
                self.resolved.replayed.push(key);
            }
            Some(_) => return Err(Refusal::Run(RunRefusal::ConflictingStep { key })),
            // The task halts with this call, and nothing new of it starts.
            None if self.balance.as_ref().is_some_and(Balance::is_crossed) => {}
            None => {
                self.check_quota(is_detached)?;
                self.check_flow(asked)?;
                let meaning = Meaning::Child { digest, id, is_detached, has_ended: false };
                self.meanings.insert(&asked.key, meaning);
                self.spawn(asked).map_err(Refusal::Run)?;
                self.resolved.children.push((key, id));
            }
        }
        Ok(())
    }

    /// A detached child is a run like any other, and needs room in the tenant's quota and in the budgets of its workspace and
    /// tenant. Other children are paid from their run's budget, and need room among the tenant's children. The message that starts a
    /// child must not be refused later, because no caller would learn of the refusal.
    fn check_quota(&mut self, is_detached: bool) -> Result<(), Refusal> {
        if let Some(spent) =
            scope_budget::first_spent(self.budgets, self.now).filter(|_| is_detached)
        {
            return Err(Refusal::BudgetSpent(spent));
        }
        let Some(quota) = self.quota.as_mut() else { return Ok(()) };
        let is_reached =
            if is_detached { quota.is_reached() } else { quota.is_reached_by_children() };
        if is_reached {
            return Err(Refusal::QuotaReached { quota: quota.max });
        }
        if is_detached {
            quota.unfinished += 1;
        } else {
            quota.children += 1;
        }
        Ok(())
    }

    /// The children of one call share their keys with everybody, and with each other. A child that would not fit must be
    /// refused here, because no caller would learn of a later refusal.
    fn check_flow(&mut self, asked: &ChildCall) -> Result<(), Refusal> {
        flow::check(Some(&self.flows), asked.submit.flow.as_deref())?;
        flow::joined(&mut self.flows, &asked.submit);
        Ok(())
    }

    /// A child shares its parent's scope and, unless it is detached, its deadline and the slots that it holds for life.
    /// What it may use leaves its parent's balance.
    fn spawn(&mut self, asked: &ChildCall) -> Result<(), RunRefusal> {
        self.next_number += 1;
        let mut submit = Submit { scope: self.task.scope.clone(), ..asked.submit.clone() };
        if !asked.is_detached {
            submit.flow = hold::of_child(self.task, submit.flow)?;
            let deadlines = [self.task.policy.deadline, submit.policy.deadline];
            submit.policy.deadline = deadlines.into_iter().flatten().min();
            self.resolved.new_children += 1;
            if let Some(balance) = &mut self.balance {
                fund(balance, &asked.key, &mut submit)?;
            }
        }
        let child = ChildCall { submit, ..asked.clone() };
        self.resolved.events.push(event(RunEvent::ChildSpawned(Box::new(child))));
        Ok(())
    }

    fn check_totals(&self) -> Result<(), RunRefusal> {
        let recorded = |event: &&Event| event.name() == "checkpointed";
        let new_steps = self.resolved.events.iter().filter(recorded).count() as u32;
        let steps = self.task.run.as_ref().map_or(0, |run| run.steps);
        if new_steps > 0 && steps.saturating_add(new_steps) > STEPS_MAX {
            return Err(RunRefusal::StepsExhausted { max: STEPS_MAX.into() });
        }
        let new_children = self.resolved.new_children;
        let children = self.task.live_children().saturating_add(new_children);
        if new_children > 0 && children > CHILDREN_MAX {
            return Err(RunRefusal::TooManyChildren { max: CHILDREN_MAX.into() });
        }
        Ok(())
    }

    fn wait(&mut self, wait: &'a WaitCall) -> Result<WaitOutcome, RunRefusal> {
        match self.meanings.get(&wait.key) {
            Some(Meaning::Wait(digest, record)) if *digest == wait.digest => {
                self.resolved.replayed.push(wait.key.clone());
                return Ok(WaitOutcome::Replayed((*record).clone()));
            }
            Some(_) => return Err(RunRefusal::ConflictingStep { key: wait.key.clone() }),
            None => self.check_wait(wait)?,
        }
        let has_ended = |key: &Name| {
            matches!(self.meanings.get(key), Some(Meaning::Child { has_ended: true, .. }))
        };
        match wait.standing(has_ended, &self.loaded.signals, self.now) {
            Standing::Missing(missing) => Ok(WaitOutcome::Missing(missing)),
            Standing::Satisfied(record) => {
                self.record(&wait.key, wait.digest, Recorded::Wait(record.clone()));
                Ok(WaitOutcome::Satisfied(record))
            }
        }
    }

    fn check_wait(&self, wait: &WaitCall) -> Result<(), RunRefusal> {
        if wait.items.is_empty() {
            return Err(RunRefusal::EmptyWait { key: wait.key.clone() });
        }
        if wait.approvals.len() > OPEN_MAX {
            return Err(RunRefusal::TooManyApprovals { max: OPEN_MAX as u64 });
        }
        let contents: usize = wait.approvals.iter().map(ApprovalCall::content_bytes).sum();
        if contents > CONTENTS_MAX {
            let what = "bytes of content to approve";
            let (count, max) = (contents as u64, CONTENTS_MAX as u64);
            return Err(RunRefusal::CallTooLong { what, count, max });
        }
        let is_known = |key: &Name| {
            matches!(self.meanings.get(key), Some(Meaning::Child { is_detached: false, .. }))
        };
        let unknown = wait.items.iter().find_map(|item| match &item.event {
            AwaitedEvent::Child(key) if !is_known(key) => Some(key.clone()),
            _ => None,
        });
        unknown.map_or(Ok(()), |key| Err(RunRefusal::UnknownChild { key }))
    }
}

/// Gives a child its ceiling. A spawn above the balance refuses the whole call.
pub(super) fn fund(
    balance: &mut Balance,
    key: &Name,
    submit: &mut Submit,
) -> Result<(), RunRefusal> {
    let ceiling = balance.ceiling(submit.budget.as_deref());
    if let Some((unit, asked, left)) = balance.lacks(&ceiling.limits) {
        return Err(RunRefusal::BudgetInsufficient { key: key.clone(), unit, asked, left });
    }
    balance.hold(&ceiling.limits);
    // Without limits, too: what a child of a counted run uses is counted.
    submit.budget = Some(Box::new(ceiling));
    Ok(())
}

fn check_counts(call: &CheckpointCall) -> Result<(), RunRefusal> {
    let items = call.wait().map_or(0, |wait| wait.items.len());
    let counts = [
        ("steps", call.steps.len(), STEPS_PER_CALL_MAX),
        ("children", call.children.len(), CHILDREN_PER_CALL_MAX),
        ("awaited items", items, WAIT_ITEMS_MAX),
    ];
    for (what, count, max) in counts {
        if count > max {
            return Err(RunRefusal::CallTooLong { what, count: count as u64, max: max as u64 });
        }
    }
    Ok(())
}
