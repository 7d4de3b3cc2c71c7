//! Reading beside the writers. Every call sees one snapshot of committed state.

use std::collections::HashMap;
use std::future::Future;

use verdict::{Closed, Name, Scope, TaskId};

use crate::administration::{ApiKey, AuditFilter, Audited, SealedRing, TenantLimits};
use crate::failure::Failure;
use crate::row::{Dossier, Entry, Filter, Found, QueueDepth, Refused, TaskKey};

pub trait Browse: Clone + Send + Sync + 'static {
    fn find(&self, key: &TaskKey) -> impl Future<Output = Result<Option<Found>, Failure>> + Send;

    /// Newest first, live and done together, at most `filter.limit`.
    fn list(
        &self,
        scope: &Scope,
        filter: &Filter,
    ) -> impl Future<Output = Result<Vec<Found>, Failure>> + Send;

    /// Entries numbered above `after`, at most `limit`.
    fn history(
        &self,
        key: &TaskKey,
        after: u32,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Entry>, Failure>> + Send;

    /// Closed attempts in order.
    fn attempts(&self, key: &TaskKey) -> impl Future<Output = Result<Vec<Closed>, Failure>> + Send;

    fn refused(&self, key: &TaskKey) -> impl Future<Output = Result<Vec<Refused>, Failure>> + Send;

    /// Every queue of a scope, or of all scopes, that has live tasks.
    fn queues(
        &self,
        scope: Option<&Scope>,
    ) -> impl Future<Output = Result<Vec<QueueDepth>, Failure>> + Send;

    /// How many runs of each of these tenants wait or run, whichever coordinator they were submitted to.
    fn unfinished(
        &self,
        tenants: &[Name],
    ) -> impl Future<Output = Result<Vec<u64>, Failure>> + Send {
        async move {
            let mut unfinished: HashMap<Name, u64> = HashMap::new();
            for depth in self.queues(None).await? {
                let live = depth.ready + depth.delayed + depth.running;
                *unfinished.entry(depth.scope.tenant).or_default() += live;
            }
            let count = |tenant| unfinished.get(tenant).copied().unwrap_or(0);
            Ok(tenants.iter().map(count).collect())
        }
    }

    /// How many tasks of the same queue would be leased before this one, which is waiting: ready
    /// and more urgent, or as urgent and older. Counts to `limit` at most.
    fn ahead(
        &self,
        key: &TaskKey,
        limit: usize,
    ) -> impl Future<Output = Result<usize, Failure>> + Send;

    fn api_keys(&self) -> impl Future<Output = Result<Vec<ApiKey>, Failure>> + Send;

    /// Of every tenant that has some, by name.
    fn tenant_limits(&self) -> impl Future<Output = Result<Vec<TenantLimits>, Failure>> + Send;

    /// What was administered and refused, newest first, at most `filter.limit`.
    fn audit(
        &self,
        filter: &AuditFilter,
    ) -> impl Future<Output = Result<Vec<Audited>, Failure>> + Send;

    /// The signing keys that coordinators share through the store. None where one coordinator has it alone:
    /// then they lie in a file.
    fn ring(&self) -> impl Future<Output = Result<Option<SealedRing>, Failure>> + Send {
        std::future::ready(Ok(None))
    }

    /// The largest id of all tasks of all scopes: whoever reads everything beside writers stops there.
    fn latest(&self) -> impl Future<Output = Result<Option<TaskId>, Failure>> + Send;

    /// All tasks of all scopes in order of id, for `verify`.
    fn everything(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Found>, Failure>> + Send;

    /// The same with all that belongs to each task, for whoever checks or copies a store.
    fn dossiers(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Dossier>, Failure>> + Send {
        async move {
            let mut dossiers = Vec::new();
            for found in self.everything(after, limit).await? {
                dossiers.push(dossier(self, found).await?);
            }
            Ok(dossiers)
        }
    }

    /// The engine's own check of its files, in words; empty when nothing is wrong.
    fn integrity(&self) -> impl Future<Output = Result<Vec<String>, Failure>> + Send;
}

/// How many entries of a history are read at once.
const ENTRIES: usize = 500;

/// What belongs to a task, read in several snapshots.
pub(crate) async fn dossier<B: Browse>(browse: &B, found: Found) -> Result<Dossier, Failure> {
    let key = found.key();
    let mut history = Vec::new();
    loop {
        let after = history.last().map_or(0, |entry: &Entry| entry.n);
        let page = browse.history(&key, after, ENTRIES).await?;
        let is_last = page.len() < ENTRIES;
        history.extend(page);
        if is_last {
            break;
        }
    }
    let attempts = browse.attempts(&key).await?;
    let refused = browse.refused(&key).await?;
    Ok(Dossier { found, history, attempts, refused })
}
