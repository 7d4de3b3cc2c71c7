//! Reading committed state. Each call holds the tables for its whole length: one snapshot.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use verdict::{Closed, Name, Scope, Subject, Task, TaskId, Time};

use super::lock;
use super::tables::{Shared, Tables};
use crate::administration::{ApiKey, AuditFilter, Audited, SealedRing, TenantLimits};
use crate::browse::Browse;
use crate::clock::Reading;
use crate::failure::Failure;
use crate::row::{Entry, Filter, Found, QueueDepth, Refused, TaskKey};

#[derive(Clone)]
pub struct MemoryBrowse {
    pub(super) shared: Arc<Mutex<Shared>>,
    pub(super) reading: Reading,
}

impl MemoryBrowse {
    fn read<T>(&self, read: impl FnOnce(&Tables) -> T) -> T {
        read(&lock(&self.shared).tables)
    }

    /// The rows of a task, if it is of the scope that asks.
    fn rows<T>(&self, key: &TaskKey, read: impl FnOnce(&Tables) -> Vec<T>) -> Vec<T> {
        self.read(|tables| tables.find(key).map_or_else(Vec::new, |_| read(tables)))
    }
}

impl Browse for MemoryBrowse {
    async fn find(&self, key: &TaskKey) -> Result<Option<Found>, Failure> {
        Ok(self.read(|tables| tables.find(key).map(|_| tables.found(key.id))))
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Vec<Found>, Failure> {
        Ok(self.read(|tables| {
            let newest_first = tables.ids().into_iter().rev().map(|id| tables.found(id));
            let wanted = newest_first
                .filter(|found| found.subject.scope() == Some(scope) && matches(found, filter));
            wanted.take(filter.limit).collect()
        }))
    }

    async fn history(
        &self,
        key: &TaskKey,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Entry>, Failure> {
        let range = (Bound::Excluded((key.id, after)), Bound::Included((key.id, u32::MAX)));
        Ok(self.rows(key, |tables| {
            if after == u32::MAX {
                return Vec::new();
            }
            tables.history.range(range).take(limit).map(|(_, entry)| entry.clone()).collect()
        }))
    }

    async fn attempts(&self, key: &TaskKey) -> Result<Vec<Closed>, Failure> {
        let all = (key.id, 0)..=(key.id, u32::MAX);
        Ok(self.rows(key, |tables| tables.attempts.range(all).map(|row| row.1.clone()).collect()))
    }

    async fn refused(&self, key: &TaskKey) -> Result<Vec<Refused>, Failure> {
        Ok(self.rows(key, |tables| {
            tables.refused.iter().filter(|refused| refused.task == *key).cloned().collect()
        }))
    }

    async fn queues(&self, scope: Option<&Scope>) -> Result<Vec<QueueDepth>, Failure> {
        let now = self.reading.now();
        Ok(self.read(|tables| {
            let mut depths = BTreeMap::new();
            let wanted = |task: &&Task| scope.is_none_or(|scope| task.scope == *scope);
            for task in tables.live.values().filter(wanted) {
                count(&mut depths, task, now);
            }
            depths.into_values().collect()
        }))
    }

    async fn ahead(&self, key: &TaskKey, limit: usize) -> Result<usize, Failure> {
        let now = self.reading.now();
        Ok(self.read(|tables| {
            let Some(Subject::Live(mine)) = tables.find(key).map(|_| tables.found(key.id).subject)
            else {
                return 0;
            };
            let place = |task: &Task| (Reverse(task.priority), task.id);
            let is_ahead = |task: &&Task| {
                (&task.scope, &task.queue) == (&mine.scope, &mine.queue)
                    && task.claimable_at().is_some_and(|due| due.has_come(now))
                    && place(task) < place(&mine)
            };
            tables.live.values().filter(is_ahead).take(limit).count()
        }))
    }

    async fn api_keys(&self) -> Result<Vec<ApiKey>, Failure> {
        Ok(self.read(|tables| tables.api_keys.values().cloned().collect()))
    }

    async fn ring(&self) -> Result<Option<SealedRing>, Failure> {
        Ok(self.read(|tables| tables.ring.clone()))
    }

    async fn tenant_limits(&self) -> Result<Vec<TenantLimits>, Failure> {
        Ok(self.read(|tables| tables.tenant_limits.values().cloned().collect()))
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<Vec<Audited>, Failure> {
        Ok(self.read(|tables| {
            let numbered =
                tables.audit.iter().enumerate().rev().map(|(i, audit)| (i as u64 + 1, audit));
            let wanted = numbered.filter(|(n, audit)| {
                filter.before.is_none_or(|before| *n < before)
                    && filter.tenant.as_ref().is_none_or(|tenant| *tenant == audit.scope.tenant)
                    && filter.workspace.as_ref().is_none_or(|it| *it == audit.scope.workspace)
            });
            let page = wanted.take(filter.limit);
            page.map(|(n, audit)| Audited { n, audit: audit.clone() }).collect()
        }))
    }

    async fn latest(&self) -> Result<Option<TaskId>, Failure> {
        Ok(self.read(|tables| tables.ids().last().copied()))
    }

    async fn everything(&self, after: Option<TaskId>, limit: usize) -> Result<Vec<Found>, Failure> {
        Ok(self.read(|tables| {
            let ids = tables.ids().into_iter().filter(|id| after.is_none_or(|after| *id > after));
            ids.take(limit).map(|id| tables.found(id)).collect()
        }))
    }

    async fn integrity(&self) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }
}

fn matches(found: &Found, filter: &Filter) -> bool {
    let (id, queue, kind) = match &found.subject {
        verdict::Subject::Live(task) => (task.id, &task.queue, &task.kind),
        verdict::Subject::Done(done) => (done.id, &done.queue, &done.kind),
        verdict::Subject::Absent => unreachable!("what was found is there"),
    };
    filter.before.is_none_or(|before| id < before)
        && filter.state.is_none_or(|state| found.subject.state() == Some(state))
        && filter.queue.as_ref().is_none_or(|wanted| queue == wanted)
        && filter.kind.as_ref().is_none_or(|wanted| kind == wanted)
        && filter.label.as_ref().is_none_or(|(name, value)| {
            found.spec.labels.get(name).is_some_and(|labelled| labelled == value)
        })
}

fn count(depths: &mut BTreeMap<(Scope, Name), QueueDepth>, task: &Task, now: Time) {
    let place = (task.scope.clone(), task.queue.clone());
    let depth = depths.entry(place).or_insert_with(|| QueueDepth {
        scope: task.scope.clone(),
        queue: task.queue.clone(),
        ready: 0,
        delayed: 0,
        running: 0,
        oldest_ready_at: None,
    });
    match task.claimable_at() {
        None => depth.running += 1,
        Some(at) if at.has_come(now) => {
            depth.ready += 1;
            depth.oldest_ready_at = Some(depth.oldest_ready_at.map_or(at, |oldest| oldest.min(at)));
        }
        Some(_) => depth.delayed += 1,
    }
}
