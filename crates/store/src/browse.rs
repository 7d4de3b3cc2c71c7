//! Reading beside the writers. Every call sees one snapshot of committed state.

use std::future::Future;

use verdict::{Closed, Scope, TaskId};

use crate::administration::{ApiKey, AuditFilter, Audited, TenantLimits};
use crate::failure::Failure;
use crate::row::{Entry, Filter, Found, QueueDepth, Refused, TaskKey};

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

    /// All tasks of all scopes in order of id, for `verify`.
    fn everything(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Found>, Failure>> + Send;

    /// The engine's own check of its files, in words; empty when nothing is wrong.
    fn integrity(&self) -> impl Future<Output = Result<Vec<String>, Failure>> + Send;
}
