//! Everything a store shows, in a form in which two stores can be compared.

use store::{
    Batch, Browse, Entry, Loaded, Lookup, QueueDepth, Refused, RowsAfter, ScanDepth, Selection,
    Store, StoredChild, StoredSignal, StoredTask, TaskKey, Want, Writer,
};
use storetest::conformance::{Driver, Fixture};
use verdict::run::Checkpoint;
use verdict::{ClosedAttempt, Scope, Span, TaskId, Time};

const PAGE: usize = 1000;

/// What is cheap enough to compare after every batch: the position of every live task in every order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    queues: Vec<QueueDepth>,
    ready: Vec<Vec<TaskId>>,
    due: Vec<TaskId>,
    running: Vec<TaskId>,
}

pub(crate) async fn summary<F: Fixture>(driver: &mut Driver<F>) -> Summary {
    let queues = driver.browse().queues(None).await.expect("the store answers");
    let wants = ["acme", "other"].map(|tenant| Want {
        scope: Scope::new(tenant, "main"),
        queues: vec!["images".into(), "letters".into(), "mails".into()],
        kinds: None,
        max: PAGE,
    });
    let now = driver.store().now();
    let mut batch = driver.writer().begin().await.expect("the store answers");
    let ready = batch.ready(&wants, now).await.expect("the store answers");
    let ready = ready.iter().map(|want| want.iter().map(|ready| ready.task.id).collect()).collect();
    let due = batch
        .select(Selection::Due { now }, PAGE)
        .await
        .expect("the store answers")
        .iter()
        .map(|task| task.id)
        .collect();
    let running = batch
        .select(Selection::Running { after: None }, PAGE)
        .await
        .expect("the store answers")
        .iter()
        .map(|task| task.id)
        .collect();
    Summary { queues, ready, due, running }
}

/// The next wake, from a writer that has just run a batch.
pub(crate) async fn wakes<F: Fixture>(driver: &mut Driver<F>) -> (Option<Time>, Option<Span>) {
    let mut batch = driver.writer().begin().await.expect("the store answers");
    batch.moment().await.expect("the store answers");
    batch.commit().await.expect("the store answers");
    (
        driver.writer().next_wake().await.expect("the store answers"),
        driver.writer().shortest_lease(),
    )
}

/// One task with all its rows, as readers and as writers see it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    found: Option<StoredTask>,
    loaded: Vec<Loaded>,
    history: Vec<Entry>,
    attempts: Vec<ClosedAttempt>,
    closed: Vec<Option<ClosedAttempt>>,
    refused: Vec<Refused>,
    checkpoints: Vec<Checkpoint>,
    children: Vec<StoredChild>,
    signals: Vec<StoredSignal>,
}

pub(crate) async fn rows<F: Fixture>(driver: &mut Driver<F>, key: &TaskKey) -> Rows {
    let browse = driver.browse();
    let found = browse.find(key).await.expect("the store answers");
    let history =
        browse.rows(key, RowsAfter::Entry(0), PAGE).await.expect("the store answers").history;
    let attempts =
        browse.rows(key, RowsAfter::Attempt(0), PAGE).await.expect("the store answers").attempts;
    let refused =
        browse.rows(key, RowsAfter::Refusal(None), PAGE).await.expect("the store answers").refused;
    let read = async |after| browse.rows(key, after, PAGE).await.expect("the store answers");
    let checkpoints = read(RowsAfter::Checkpoint(0)).await.checkpoints;
    let children = read(RowsAfter::Child(None)).await.children;
    let signals = read(RowsAfter::Signal(0)).await.signals;
    let leases: Vec<_> = attempts.iter().map(|closed| (closed.task, closed.lease)).collect();
    let mut batch = driver.writer().begin().await.expect("the store answers");
    let loaded = batch
        .look_up(Lookup::tasks(std::slice::from_ref(key)))
        .await
        .expect("the store answers")
        .tasks;
    let closed = batch.look_up(Lookup::leases(&leases)).await.expect("the store answers").closed;
    drop(batch);
    Rows { found, loaded, history, attempts, closed, refused, checkpoints, children, signals }
}

/// Every row of every task.
pub(crate) async fn whole<F: Fixture>(driver: &mut Driver<F>) -> Vec<Rows> {
    let mut all = Vec::new();
    for found in driver.browse().scan(None, PAGE, ScanDepth::Task).await.expect("the store answers")
    {
        all.push(rows(driver, &found.task.key()).await);
    }
    all
}
