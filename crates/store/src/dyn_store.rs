//! A store whose engine is known only at run time.
//!
//! Everything that only reads a store (HTTP, keys, limits, spans) uses these types, so it is compiled once and not
//! once for each engine. A call costs one allocation beside the read. Writers and batches are not here: the commit
//! loop knows its engine, and every row goes through it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use verdict::scope_budget::Day;
use verdict::{Amounts, Name, Object, Scope, TaskId, Time};

use crate::administration::{AdministrationRows, AuditFilter, Audited};
use crate::browse::{Browse, RowsAfter, ScanDepth};
use crate::failure::Failure;
use crate::logs::{LogRow, LogsOf};
use crate::objects::{ObjectChange, ObjectFilter, ObjectLogFilter, PendingObjects};
use crate::overview::TaskOverview;
use crate::pauses::PausedQueues;
use crate::record_seals::{EndedRecord, EndedRecords, RecordSeal, SealFilter};
use crate::row::{
    Ahead, Filter, FlowFilter, FlowKeyRow, HeldLeases, Listing, QueueDepth, StoredTask, TaskBundle,
    TaskKey, TaskRows,
};
use crate::runs::{MessageKey, RecordsOf, RunRecord, SavedMessage};
use crate::seam::{PeerHint, RemoteChange, Store, StoreStatus};
use crate::spend::{SpendQuery, SpendRow};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Read<'a, T> = Boxed<'a, Result<T, Failure>>;

/// Any open store, without its writers.
#[derive(Clone)]
pub struct DynStore {
    store: Arc<dyn ErasedStore>,
    browse: DynBrowse,
}

impl DynStore {
    pub fn new<S: Store>(store: S) -> Self {
        let browse = DynBrowse::new(store.browse().clone());
        Self { store: Arc::new(store), browse }
    }

    /// See [`Store::browse`].
    pub fn browse(&self) -> &DynBrowse {
        &self.browse
    }

    /// See [`Store::now`].
    pub fn now(&self) -> Time {
        self.store.now()
    }

    /// See [`Store::status`].
    pub fn status(&self) -> StoreStatus {
        self.store.status()
    }

    /// See [`Store::peer_hint`].
    pub async fn peer_hint(&self, of: PeerHint) -> Vec<RemoteChange> {
        self.store.peer_hint(of).await
    }

    /// See [`Store::wait_for_dropped_writers`].
    pub async fn wait_for_dropped_writers(&self) {
        self.store.wait_for_dropped_writers().await;
    }
}

/// [`Browse`] of any engine.
#[derive(Clone)]
pub struct DynBrowse(Arc<dyn ErasedBrowse>);

impl DynBrowse {
    pub fn new(browse: impl Browse) -> Self {
        Self(Arc::new(browse))
    }
}

/// [`Store`] with boxed futures.
trait ErasedStore: Send + Sync {
    fn now(&self) -> Time;
    fn status(&self) -> StoreStatus;
    fn peer_hint(&self, of: PeerHint) -> Boxed<'_, Vec<RemoteChange>>;
    fn wait_for_dropped_writers(&self) -> Boxed<'_, ()>;
}

impl<S: Store> ErasedStore for S {
    fn now(&self) -> Time {
        Store::now(self)
    }

    fn status(&self) -> StoreStatus {
        Store::status(self)
    }

    fn peer_hint(&self, of: PeerHint) -> Boxed<'_, Vec<RemoteChange>> {
        Box::pin(Store::peer_hint(self, of))
    }

    fn wait_for_dropped_writers(&self) -> Boxed<'_, ()> {
        Box::pin(Store::wait_for_dropped_writers(self))
    }
}

/// Writes each method of [`Browse`] as one that returns a boxed future, with its implementation for every engine.
macro_rules! erase {
    ($($method:ident($($name:ident: $of:ty),*) -> $found:ty;)*) => {
        /// [`Browse`] with boxed futures.
        trait ErasedBrowse: Send + Sync {
            $(fn $method<'a>(&'a self, $($name: $of),*) -> Read<'a, $found>;)*
        }

        impl<B: Browse> ErasedBrowse for B {
            $(fn $method<'a>(&'a self, $($name: $of),*) -> Read<'a, $found> {
                Box::pin(Browse::$method(self, $($name),*))
            })*
        }
    };
}

erase! {
    find(key: &'a TaskKey) -> Option<StoredTask>;
    overview(key: &'a TaskKey, refused_max: usize) -> Option<TaskOverview>;
    list(scope: &'a Scope, filter: &'a Filter) -> Listing;
    rows(key: &'a TaskKey, after: RowsAfter<'a>, limit: usize) -> TaskRows;
    leaves_queues(root: &'a TaskKey, queues: &'a [Name]) -> bool;
    flow_keys(filter: &'a FlowFilter) -> Vec<FlowKeyRow>;
    queues(scope: Option<&'a Scope>) -> Vec<QueueDepth>;
    held_leases(
        scope: &'a Scope,
        queues: Option<&'a [Name]>,
        after: Option<&'a Name>,
        limit: usize
    ) -> Vec<HeldLeases>;
    unfinished(tenants: &'a [Name]) -> Vec<u64>;
    count_ahead(key: &'a TaskKey, limit: usize) -> Ahead;
    count_pending_objects() -> Vec<PendingObjects>;
    administration() -> AdministrationRows;
    paused_queues() -> PausedQueues;
    settings_in_force() -> ();
    records(key: &'a TaskKey, of: RecordsOf<'a>, limit: usize) -> Vec<RunRecord>;
    saved_messages(after: Option<&'a MessageKey>, limit: usize) -> Vec<SavedMessage>;
    objects(filter: &'a ObjectFilter) -> Vec<Object>;
    object_log(filter: &'a ObjectLogFilter) -> Vec<ObjectChange>;
    spend(wanted: &'a [SpendQuery]) -> Vec<Amounts>;
    spend_rows(after: Option<&'a (Scope, Day)>, limit: usize) -> Vec<SpendRow>;
    logs(of: &'a LogsOf, limit: usize) -> Vec<LogRow>;
    audit(filter: &'a AuditFilter) -> Vec<Audited>;
    record_seals(filter: &'a SealFilter) -> Vec<RecordSeal>;
    ended_records(of: &'a EndedRecords) -> Vec<EndedRecord>;
    latest() -> Option<TaskId>;
    scan(after: Option<TaskId>, limit: usize, depth: ScanDepth) -> Vec<TaskBundle>;
    integrity() -> Vec<String>;
}

impl Browse for DynBrowse {
    async fn find(&self, key: &TaskKey) -> Result<Option<StoredTask>, Failure> {
        self.0.find(key).await
    }

    async fn overview(
        &self,
        key: &TaskKey,
        refused_max: usize,
    ) -> Result<Option<TaskOverview>, Failure> {
        self.0.overview(key, refused_max).await
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Listing, Failure> {
        self.0.list(scope, filter).await
    }

    async fn rows(
        &self,
        key: &TaskKey,
        after: RowsAfter<'_>,
        limit: usize,
    ) -> Result<TaskRows, Failure> {
        self.0.rows(key, after, limit).await
    }

    async fn leaves_queues(&self, root: &TaskKey, queues: &[Name]) -> Result<bool, Failure> {
        self.0.leaves_queues(root, queues).await
    }

    async fn flow_keys(&self, filter: &FlowFilter) -> Result<Vec<FlowKeyRow>, Failure> {
        self.0.flow_keys(filter).await
    }

    async fn queues(&self, scope: Option<&Scope>) -> Result<Vec<QueueDepth>, Failure> {
        self.0.queues(scope).await
    }

    async fn held_leases(
        &self,
        scope: &Scope,
        queues: Option<&[Name]>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<HeldLeases>, Failure> {
        self.0.held_leases(scope, queues, after, limit).await
    }

    async fn unfinished(&self, tenants: &[Name]) -> Result<Vec<u64>, Failure> {
        self.0.unfinished(tenants).await
    }

    async fn count_pending_objects(&self) -> Result<Vec<PendingObjects>, Failure> {
        self.0.count_pending_objects().await
    }

    async fn count_ahead(&self, key: &TaskKey, limit: usize) -> Result<Ahead, Failure> {
        self.0.count_ahead(key, limit).await
    }

    async fn administration(&self) -> Result<AdministrationRows, Failure> {
        self.0.administration().await
    }

    async fn paused_queues(&self) -> Result<PausedQueues, Failure> {
        self.0.paused_queues().await
    }

    async fn settings_in_force(&self) -> Result<(), Failure> {
        self.0.settings_in_force().await
    }

    async fn records(
        &self,
        key: &TaskKey,
        of: RecordsOf<'_>,
        limit: usize,
    ) -> Result<Vec<RunRecord>, Failure> {
        self.0.records(key, of, limit).await
    }

    async fn saved_messages(
        &self,
        after: Option<&MessageKey>,
        limit: usize,
    ) -> Result<Vec<SavedMessage>, Failure> {
        self.0.saved_messages(after, limit).await
    }

    async fn objects(&self, filter: &ObjectFilter) -> Result<Vec<Object>, Failure> {
        self.0.objects(filter).await
    }

    async fn object_log(&self, filter: &ObjectLogFilter) -> Result<Vec<ObjectChange>, Failure> {
        self.0.object_log(filter).await
    }

    async fn spend(&self, wanted: &[SpendQuery]) -> Result<Vec<Amounts>, Failure> {
        self.0.spend(wanted).await
    }

    async fn spend_rows(
        &self,
        after: Option<&(Scope, Day)>,
        limit: usize,
    ) -> Result<Vec<SpendRow>, Failure> {
        self.0.spend_rows(after, limit).await
    }

    async fn logs(&self, of: &LogsOf, limit: usize) -> Result<Vec<LogRow>, Failure> {
        self.0.logs(of, limit).await
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<Vec<Audited>, Failure> {
        self.0.audit(filter).await
    }

    async fn record_seals(&self, filter: &SealFilter) -> Result<Vec<RecordSeal>, Failure> {
        self.0.record_seals(filter).await
    }

    async fn ended_records(&self, of: &EndedRecords) -> Result<Vec<EndedRecord>, Failure> {
        self.0.ended_records(of).await
    }

    async fn latest(&self) -> Result<Option<TaskId>, Failure> {
        self.0.latest().await
    }

    async fn scan(
        &self,
        after: Option<TaskId>,
        limit: usize,
        depth: ScanDepth,
    ) -> Result<Vec<TaskBundle>, Failure> {
        self.0.scan(after, limit, depth).await
    }

    async fn integrity(&self) -> Result<Vec<String>, Failure> {
        self.0.integrity().await
    }
}
