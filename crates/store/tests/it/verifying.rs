//! `verify` beside a writer that never stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store::{
    ApiKey, AuditFilter, Audited, Batch, Browse, Entry, Failure, Filter, Listing, QueueDepth,
    Refused, Store, StoredTask, TaskBundle, TaskKey, TenantLimits, Writer, verify,
};
use storetest::ManualClock;
use storetest::conformance::{Call, Fixture, Submission, carry::carry};
use tokio::sync::Mutex;
use verdict::{ClosedAttempt, Scope, TaskId};

use crate::conformance::Sqlite;
use crate::postgres::Postgres;

/// Tasks that exist when `verify` begins.
const BEFORE: u64 = 150;
/// Tasks submitted during each read: as many as are read.
const MEANWHILE: u64 = 100;
/// Far more reads than `verify` needs to end.
const READS_MAX: u64 = 30;

/// A store that grows as fast as it is read.
struct Growing<S: Store> {
    store: S,
    writer: Arc<Mutex<S::Writer>>,
    submitted: Arc<AtomicU64>,
    reads: Arc<AtomicU64>,
}

impl<S: Store> Clone for Growing<S> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            writer: self.writer.clone(),
            submitted: self.submitted.clone(),
            reads: self.reads.clone(),
        }
    }
}

impl<S: Store> Growing<S> {
    async fn of(store: S) -> Self {
        let writer = Arc::new(Mutex::new(store.writer().await.expect("there is a writer")));
        Self { store, writer, submitted: Arc::default(), reads: Arc::default() }
    }

    async fn grow(&self, by: u64) {
        let mut writer = self.writer.lock().await;
        let mut batch = writer.begin().await.expect("a batch can be begun");
        for _ in 0..by {
            let id = u128::from(self.submitted.fetch_add(1, Ordering::SeqCst) + 1);
            let task = Submission::new(TaskId::from_u128(id), &Scope::default(), "images");
            carry(&mut batch, 1, Call::Submit(task)).await.expect("the store takes it");
        }
        batch.commit().await.expect("it commits");
    }
}

impl<S: Store> Browse for Growing<S> {
    async fn task_bundles(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<TaskBundle>, Failure> {
        let reads = self.reads.fetch_add(1, Ordering::SeqCst);
        assert!(reads < READS_MAX, "there is no end to it");
        self.grow(MEANWHILE).await;
        self.store.browse().task_bundles(after, limit).await
    }

    async fn latest(&self) -> Result<Option<TaskId>, Failure> {
        self.store.browse().latest().await
    }

    async fn integrity(&self) -> Result<Vec<String>, Failure> {
        self.store.browse().integrity().await
    }

    async fn all_tasks(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<StoredTask>, Failure> {
        self.store.browse().all_tasks(after, limit).await
    }

    async fn find(&self, key: &TaskKey) -> Result<Option<StoredTask>, Failure> {
        self.store.browse().find(key).await
    }

    async fn history(
        &self,
        key: &TaskKey,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Entry>, Failure> {
        self.store.browse().history(key, after, limit).await
    }

    async fn attempts(
        &self,
        key: &TaskKey,
        after: u32,
        limit: usize,
    ) -> Result<Vec<ClosedAttempt>, Failure> {
        self.store.browse().attempts(key, after, limit).await
    }

    async fn refused(
        &self,
        key: &TaskKey,
        after: Option<&Refused>,
        limit: usize,
    ) -> Result<Vec<Refused>, Failure> {
        self.store.browse().refused(key, after, limit).await
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Listing, Failure> {
        self.store.browse().list(scope, filter).await
    }

    async fn queues(&self, scope: Option<&Scope>) -> Result<Vec<QueueDepth>, Failure> {
        self.store.browse().queues(scope).await
    }

    async fn count_ahead(&self, key: &TaskKey, limit: usize) -> Result<usize, Failure> {
        self.store.browse().count_ahead(key, limit).await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKey>, Failure> {
        self.store.browse().api_keys().await
    }

    async fn tenant_limits(&self) -> Result<Vec<TenantLimits>, Failure> {
        self.store.browse().tenant_limits().await
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<Vec<Audited>, Failure> {
        self.store.browse().audit(filter).await
    }
}

async fn ends_beside_a_writer(mut fixture: impl Fixture) {
    // Existing tasks are checked; later ones are left for the next run.
    let store = fixture.open(Arc::new(ManualClock::default())).await;
    let growing = Growing::of(store).await;
    growing.grow(BEFORE).await;
    let report = verify::verify(&growing).await.expect("it can be read");
    assert_eq!((report.tasks, report.findings), (BEFORE, Vec::new()));
    assert!(growing.submitted.load(Ordering::SeqCst) > BEFORE, "it did grow meanwhile");
}

#[tokio::test]
async fn it_ends_on_sqlite() {
    ends_beside_a_writer(Sqlite::new()).await;
}

#[tokio::test]
async fn it_ends_on_postgres() {
    ends_beside_a_writer(Postgres::new()).await;
}
