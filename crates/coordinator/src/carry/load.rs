//! What a batch reads before it decides: tasks, the attempts that requests quote, the owners of idempotency keys, and
//! the number of unfinished runs of each tenant with a quota.
//!
//! Tasks are loaded in the order of their keys, so that two writers that lock rows never deadlock. A task that is set
//! aside is not read at all, and counts as locked.

use std::collections::BTreeSet;

use store::{Batch, IdempotencyKey, Loaded, TaskKey};
use verdict::{LeaseId, Name, TaskId};

use super::batch::{Aborted, OpenBatch};
use crate::item::{Item, Submission};

/// The rows that the requests of a batch name.
#[derive(Default)]
struct Named {
    tasks: Vec<TaskKey>,
    leases: Vec<(TaskId, LeaseId)>,
    keys: Vec<IdempotencyKey>,
}

impl Named {
    fn by(items: &[Item]) -> Self {
        let mut named = Self::default();
        for item in items {
            match item {
                Item::Submit(submission) => named.keys.extend(key_of(submission)),
                Item::About { key, .. } => {
                    named.tasks.push(key.clone());
                    named.leases.extend(item.quoted_lease().map(|lease| (key.id, lease)));
                }
            }
        }
        named
    }
}

pub(super) fn key_of(submission: &Submission) -> Option<IdempotencyKey> {
    let text = submission.spec.key.clone()?;
    Some(IdempotencyKey { scope: submission.scope.clone(), text })
}

impl<B: Batch> OpenBatch<'_, B> {
    /// Counts the unfinished runs of tenants that have a quota.
    pub(super) async fn count_unfinished(&mut self, items: &[Item]) -> Result<(), Aborted> {
        let limited = |item: &Item| match item {
            Item::Submit(submission) => {
                let tenant = &submission.scope.tenant;
                self.options.allowances.quota(tenant).map(|_| tenant.clone())
            }
            Item::About { .. } => None,
        };
        let tenants: BTreeSet<Name> = items.iter().filter_map(limited).collect();
        if tenants.is_empty() {
            return Ok(());
        }
        let tenants: Vec<Name> = tenants.into_iter().collect();
        if let Some(counted) = self.batch.unfinished(&tenants).await? {
            self.work.unfinished.extend(tenants.into_iter().zip(counted));
        }
        Ok(())
    }

    /// Loads what the requests name.
    pub(super) async fn load(&mut self, items: &[Item]) -> Result<(), Aborted> {
        let Named { mut tasks, mut leases, keys } = Named::by(items);
        self.load_key_owners(keys, &mut tasks).await?;
        tasks.sort();
        tasks.dedup();
        let set_aside = self.options.set_aside;
        let is_aside = |task: &mut TaskKey| set_aside.contains(&task.id);
        tasks.extract_if(.., is_aside).for_each(|task| self.work.put_locked(task));
        leases.retain(|(task, _)| !set_aside.contains(task));
        self.load_tasks(&tasks).await?;
        let closed = self.batch.closed_attempts(&leases).await?;
        closed.into_iter().flatten().for_each(|closed| self.work.put_closed(closed));
        Ok(())
    }

    /// Loads the owners of keys. They are tasks to be loaded, too.
    async fn load_key_owners(
        &mut self,
        keys: Vec<IdempotencyKey>,
        tasks: &mut Vec<TaskKey>,
    ) -> Result<(), Aborted> {
        if keys.is_empty() {
            return Ok(());
        }
        let owners = self.batch.key_owners(&keys).await?;
        for (key, owner) in keys.into_iter().zip(owners) {
            let Some(owner) = owner else { continue };
            tasks.push(TaskKey { scope: key.scope.clone(), id: owner.task });
            self.work.put_holder(key, owner);
        }
        Ok(())
    }

    async fn load_tasks(&mut self, tasks: &[TaskKey]) -> Result<(), Aborted> {
        let loaded = self.batch.load(tasks, self.options.lock_wait).await?;
        for (key, loaded) in tasks.iter().zip(loaded) {
            match loaded {
                Loaded::Subject(subject) => self.work.put(key.clone(), subject),
                Loaded::Locked => self.work.put_locked(key.clone()),
            }
        }
        Ok(())
    }
}
