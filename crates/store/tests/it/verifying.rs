//! `verify` beside a writer that never stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store::logs::{LogRow, LogsOf};
use store::{
    AdministrationRows, Ahead, AuditFilter, Audited, Batch, Browse, EndedRecord, EndedRecords,
    Failure, Filter, FlowFilter, FlowKeyRow, HeldLeases, Listing, MessageKey, ObjectChange,
    ObjectFilter, ObjectLogFilter, PausedQueues, QueueDepth, RecordSeal, RowsAfter, SavedMessage,
    ScanDepth, SealFilter, SpendQuery, SpendRow, Store, StoredTask, TaskBundle, TaskKey, TaskRows,
    Writer, verify,
};
use storetest::ManualClock;
use storetest::conformance::{Call, Fixture, Submission, carry::carry};
use tokio::sync::Mutex;
use verdict::scope_budget::Day;
use verdict::{Amounts, Name, Object, Scope, TaskId};

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
    async fn scan(
        &self,
        after: Option<TaskId>,
        limit: usize,
        depth: ScanDepth,
    ) -> Result<Vec<TaskBundle>, Failure> {
        let reads = self.reads.fetch_add(1, Ordering::SeqCst);
        assert!(reads < READS_MAX, "there is no end to it");
        self.grow(MEANWHILE).await;
        self.store.browse().scan(after, limit, depth).await
    }

    async fn spend(&self, wanted: &[SpendQuery]) -> Result<Vec<Amounts>, Failure> {
        self.store.browse().spend(wanted).await
    }

    async fn spend_rows(
        &self,
        after: Option<&(Scope, Day)>,
        limit: usize,
    ) -> Result<Vec<SpendRow>, Failure> {
        self.store.browse().spend_rows(after, limit).await
    }

    async fn logs(&self, of: &LogsOf, limit: usize) -> Result<Vec<LogRow>, Failure> {
        self.store.browse().logs(of, limit).await
    }

    async fn latest(&self) -> Result<Option<TaskId>, Failure> {
        self.store.browse().latest().await
    }

    async fn integrity(&self) -> Result<Vec<String>, Failure> {
        self.store.browse().integrity().await
    }

    async fn find(&self, key: &TaskKey) -> Result<Option<StoredTask>, Failure> {
        self.store.browse().find(key).await
    }

    async fn rows(
        &self,
        key: &TaskKey,
        after: RowsAfter<'_>,
        limit: usize,
    ) -> Result<TaskRows, Failure> {
        self.store.browse().rows(key, after, limit).await
    }

    async fn flow_keys(&self, filter: &FlowFilter) -> Result<Vec<FlowKeyRow>, Failure> {
        self.store.browse().flow_keys(filter).await
    }

    async fn leaves_queues(&self, root: &TaskKey, queues: &[Name]) -> Result<bool, Failure> {
        self.store.browse().leaves_queues(root, queues).await
    }

    async fn held_leases(
        &self,
        scope: &Scope,
        queues: Option<&[Name]>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<HeldLeases>, Failure> {
        self.store.browse().held_leases(scope, queues, after, limit).await
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Listing, Failure> {
        self.store.browse().list(scope, filter).await
    }

    async fn queues(&self, scope: Option<&Scope>) -> Result<Vec<QueueDepth>, Failure> {
        self.store.browse().queues(scope).await
    }

    async fn count_ahead(&self, key: &TaskKey, limit: usize) -> Result<Ahead, Failure> {
        self.store.browse().count_ahead(key, limit).await
    }

    async fn administration(&self) -> Result<AdministrationRows, Failure> {
        self.store.browse().administration().await
    }

    async fn paused_queues(&self) -> Result<PausedQueues, Failure> {
        self.store.browse().paused_queues().await
    }

    async fn saved_messages(
        &self,
        after: Option<&MessageKey>,
        limit: usize,
    ) -> Result<Vec<SavedMessage>, Failure> {
        self.store.browse().saved_messages(after, limit).await
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<Vec<Audited>, Failure> {
        self.store.browse().audit(filter).await
    }

    async fn record_seals(&self, filter: &SealFilter) -> Result<Vec<RecordSeal>, Failure> {
        self.store.browse().record_seals(filter).await
    }

    async fn objects(&self, filter: &ObjectFilter) -> Result<Vec<Object>, Failure> {
        self.store.browse().objects(filter).await
    }

    async fn object_log(&self, filter: &ObjectLogFilter) -> Result<Vec<ObjectChange>, Failure> {
        self.store.browse().object_log(filter).await
    }

    async fn ended_records(&self, of: &EndedRecords) -> Result<Vec<EndedRecord>, Failure> {
        self.store.browse().ended_records(of).await
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
