//! What a batch reads before it decides: tasks, the attempts that requests quote, the owners of idempotency keys, and
//! the unfinished work of each tenant with a quota, flow keys, and what requests about durable runs name.
//!
//! A task that is set aside is not read at all, and counts as locked.

use std::collections::{BTreeMap, BTreeSet};

use store::{Batch, FlowRef, IdempotencyKey, Loaded, Lookup, Plan, RunLookup, SpendQuery, TaskKey};
use verdict::scope_budget::{BudgetUse, ScopeBudget};
use verdict::{LeaseId, Moment, Name, Scope, TaskId};

use super::batch::{Aborted, OpenBatch};
use crate::item::{Item, Submission};

/// The rows that the requests of a batch name.
#[derive(Default)]
struct Named {
    tasks: Vec<TaskKey>,
    leases: Vec<(TaskId, LeaseId)>,
    keys: Vec<IdempotencyKey>,
    runs: Vec<RunLookup>,
    flows: Vec<FlowRef>,
}

impl Named {
    fn by(items: &[Item]) -> Self {
        let mut named = Self::default();
        for item in items {
            match item {
                Item::Submit { submission, .. } => {
                    named.keys.extend(submission.idempotency_key());
                    named.flows.extend(flow_of(submission));
                }
                Item::WithChildren { children, .. } => {
                    named.flows.extend(children.iter().filter_map(flow_of));
                }
                Item::About { .. } | Item::Object(_) | Item::Recovery(_) | Item::Topology(_) => {}
            }
            let Some((key, request)) = item.about() else { continue };
            named.tasks.push(key.clone());
            named.leases.extend(item.quoted_lease().map(|lease| (key.id, lease)));
            named.runs.extend(RunLookup::of(key, request));
        }
        named
    }
}

pub(super) fn flow_of(submission: &Submission) -> Option<FlowRef> {
    let flow = submission.flow.as_ref()?;
    Some(FlowRef { scope: submission.scope.clone(), key: flow.name.clone() })
}

impl<B: Batch> OpenBatch<'_, B> {
    /// Says which rows the batch will touch, and learns the unfinished work of tenants that have a quota.
    pub(super) async fn prepare(&mut self, items: &[Item]) -> Result<(), Aborted> {
        let (tenants, wants) = (self.limited_tenants(items), self.likely_wants().await?);
        let set_aside = Some(self.options.set_aside).filter(|tasks| !tasks.is_empty());
        let plan = Plan { exclude: set_aside, tenants: &tenants, prefetch: &wants };
        if let Some(counted) = self.batch.prepare(plan).await? {
            for (tenant, counted) in tenants.into_iter().zip(counted) {
                self.work.known.room.put_counted(tenant, counted);
            }
        }
        Ok(())
    }

    fn limited_tenants(&self, items: &[Item]) -> Vec<Name> {
        let limited = |item: &Item| {
            let tenant = &item.creates_in()?.tenant;
            self.options.allowances.quota(tenant).map(|_| tenant.clone())
        };
        let tenants: BTreeSet<Name> = items.iter().filter_map(limited).collect();
        tenants.into_iter().collect()
    }

    /// Learns what is used of the budgets that hold for new runs of this batch. Asked after the clock was read, which says what period
    /// this is.
    pub(super) async fn load_spend(&mut self, items: &[Item], at: Moment) -> Result<(), Aborted> {
        let budgets = self.options.allowances.budgets();
        if budgets.is_empty() {
            return Ok(());
        }
        let scopes: BTreeSet<&Scope> = items.iter().filter_map(Item::starts_in).collect();
        let found: BTreeMap<Scope, ScopeBudget> =
            scopes.into_iter().flat_map(|scope| budgets.of(scope)).collect();
        if found.is_empty() {
            return Ok(());
        }
        let query = |(scope, budget): (&Scope, &ScopeBudget)| SpendQuery {
            scope: scope.clone(),
            since: budget.period.first_day(at.now),
        };
        let wanted: Vec<SpendQuery> = found.iter().map(query).collect();
        let sums = self.batch.look_up(Lookup::spend(&wanted)).await?.spend;
        let uses = found.into_iter().zip(sums);
        self.work.known.room.budgets = uses
            .map(|((scope, budget), used)| (scope.clone(), BudgetUse { scope, budget, used }))
            .collect();
        Ok(())
    }

    /// Loads what the requests name.
    pub(super) async fn load(&mut self, items: &[Item]) -> Result<(), Aborted> {
        let Named { mut tasks, leases, keys, runs, mut flows } = Named::by(items);
        tasks.sort();
        tasks.dedup();
        flows.sort();
        flows.dedup();
        let lock_wait = self.options.lock_wait;
        let lookup = Lookup {
            tasks: &tasks,
            keys: &keys,
            lock_wait,
            leases: &leases,
            runs: &runs,
            flows: &flows,
            ..Lookup::default()
        };
        let found = self.batch.look_up(lookup).await?;
        self.work.put_flows(flows, found.flows);
        for (key, loaded) in tasks.into_iter().zip(found.tasks) {
            self.put(key, loaded);
        }
        for (key, owner) in keys.into_iter().zip(found.owners) {
            let Some((owner, loaded)) = owner else { continue };
            self.put(TaskKey { scope: key.scope.clone(), id: owner.task }, loaded);
            self.work.put_holder(key, owner);
        }
        found.closed.into_iter().flatten().for_each(|closed| self.work.put_closed(closed));
        for (lookup, loaded) in runs.into_iter().zip(found.runs) {
            self.work.put_records(lookup.task, loaded);
        }
        Ok(())
    }

    /// Learns what is kept of the logs that calls add lines to.
    pub(super) async fn load_logs(&mut self, items: &[Item]) -> Result<(), Aborted> {
        let logged = items.iter().filter_map(Item::log).map(|(key, _, _)| key);
        let logged: BTreeSet<&TaskKey> = logged.filter(|key| !self.work.is_locked(key)).collect();
        if logged.is_empty() {
            return Ok(());
        }
        let tasks: Vec<TaskKey> = logged.into_iter().cloned().collect();
        let found = self.batch.look_up(Lookup::logs(&tasks)).await?.logs;
        self.work.put_logs(tasks.into_iter().zip(found));
        Ok(())
    }

    pub(super) fn put(&mut self, key: TaskKey, loaded: Loaded) {
        match loaded {
            Loaded::Subject(subject) => self.work.put(key, subject),
            Loaded::Locked => self.work.put_locked(key),
        }
    }
}
