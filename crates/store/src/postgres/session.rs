//! A transaction in a task of its own, which nobody can drop half-way.
//!
//! A future may be dropped between two of its awaits. If it owned a connection, a half-done transaction
//! would go back to the pool with it. So the connection belongs to a spawned task that takes one step
//! after the other from a mailbox; when the mailbox closes without a commit, it rolls back, and only a
//! connection that is known to be idle returns to the pool.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, oneshot};

use super::connections::{Object, Pool};
use super::primary::Primary;
use super::trouble::{self, Trouble};
use crate::failure::{Failure, FailureKind};

/// What every transaction begins with: nothing of it outlives the transaction, so that any pooler may
/// stand in between. Locks are waited for briefly, because whoever has one works on a single batch.
/// Hot tables swing between empty and full faster than their statistics, so that plans are not left to
/// those. A plan that was forbidden everything else looks so expensive that it would be compiled, each
/// time anew.
pub(super) const BEGIN: &str = "BEGIN; \
    SET LOCAL ROLE tenure_rows; \
    SET LOCAL lock_timeout = '2s'; \
    SET LOCAL statement_timeout = '30s'; \
    SET LOCAL idle_in_transaction_session_timeout = '60s'; \
    SET LOCAL jit = off; \
    SET LOCAL enable_seqscan = off; \
    SET LOCAL enable_material = off; \
    SET LOCAL enable_mergejoin = off";

/// What holds on a connection that is ours alone, and is said there once. A plan with a name is made once, too:
/// it must not depend on what the first batches happened to be like.
pub(super) const DIRECT: &str = "SET lock_timeout = '2s'; \
    SET statement_timeout = '30s'; \
    SET idle_in_transaction_session_timeout = '60s'; \
    SET jit = off; \
    SET enable_seqscan = off; \
    SET enable_material = off; \
    SET enable_mergejoin = off; \
    SET plan_cache_mode = force_generic_plan";

/// What is left to say there for every batch.
pub(super) const BEGIN_DIRECT: &str = "BEGIN; SET LOCAL ROLE tenure_rows";

pub(super) const COMMIT: &str = "COMMIT";

/// For a hint: whoever misses one because the server has lost it looks by himself, so it need not wait for the disk.
pub(super) const BEGIN_HINT: &str = "BEGIN; SET LOCAL synchronous_commit = off";

/// Bug 24 of the museum: who commits so waits neither for the disk nor for a standby.
const BEGIN_HASTY: &str = "BEGIN; SET LOCAL ROLE tenure_rows; SET LOCAL synchronous_commit = off";

/// What reading begins with on a connection that is ours alone.
pub(super) const BEGIN_READING_DIRECT: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL ROLE tenure_rows";

/// And what is said there once. A plan with a name is kept while its table grows, so that it must not be one that
/// reads whole tables because they were empty when it was made.
pub(super) const DIRECT_READING: &str = "SET statement_timeout = '60s'; \
    SET idle_in_transaction_session_timeout = '60s'; \
    SET jit = off; \
    SET enable_seqscan = off; \
    SET plan_cache_mode = force_generic_plan";

/// For what counts all rows anyway: there an index only makes the way longer.
pub(super) const WHOLE_TABLES: &str = "SET LOCAL enable_seqscan = on";

/// The same for reading beside the writers, in one snapshot.
pub(super) const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL ROLE tenure_rows; \
    SET LOCAL jit = off; \
    SET LOCAL statement_timeout = '60s'; \
    SET LOCAL idle_in_transaction_session_timeout = '60s'";

#[derive(Clone)]
pub(super) enum Purpose {
    /// On the server that is known; whoever meets another one commits nothing.
    Write(Arc<Primary>),
    Read,
}

/// What becomes of the transaction after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Committed,
    Failed,
}

type Step = Box<
    dyn FnOnce(Result<Arc<Object>, Failure>) -> Pin<Box<dyn Future<Output = Flow> + Send>> + Send,
>;

/// What was left to tasks of their own and is still under way, such as transactions that were dropped.
#[derive(Default)]
pub(super) struct Endings(Mutex<Vec<oneshot::Receiver<()>>>);

impl Endings {
    pub(super) fn add(&self, end: oneshot::Receiver<()>) {
        self.0.lock().expect("nothing panics with the list in hand").push(end);
    }

    /// Waits until what was dropped before has let go of its locks.
    pub(super) async fn wait(&self) {
        let ends =
            std::mem::take(&mut *self.0.lock().expect("nothing panics with the list in hand"));
        for end in ends {
            // A task that ended without a word has ended too.
            let _ = end.await;
        }
    }
}

pub(super) struct Transaction {
    steps: Option<mpsc::Sender<Step>>,
    /// Whether a step was taken: then the server is known to be the right one.
    has_begun: AtomicBool,
    ended: Option<oneshot::Receiver<()>>,
    endings: Arc<Endings>,
}

impl Transaction {
    /// Nothing is sent to the database before the first step.
    pub(super) fn new(
        runtime: &tokio::runtime::Handle,
        pool: Pool,
        endings: Arc<Endings>,
        purpose: Purpose,
    ) -> Self {
        let (steps, inbox) = mpsc::channel(1);
        let (end, ended) = oneshot::channel();
        runtime.spawn(async move {
            live(pool, inbox, purpose).await;
            // Nobody may be waiting for the end.
            let _ = end.send(());
        });
        Self { steps: Some(steps), has_begun: AtomicBool::new(false), ended: Some(ended), endings }
    }

    /// Runs one step. The first failure rolls the whole transaction back.
    pub(super) async fn run<T, F, W>(&self, what: &'static str, work: W) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Trouble>> + Send,
        W: FnOnce(Arc<Object>) -> F + Send + 'static,
    {
        self.step(what, Flow::On, work).await?.map_err(|trouble| trouble.while_doing(what))
    }

    pub(super) async fn commit(self) -> Result<Result<(), Trouble>, Failure> {
        self.commit_with(|client: Arc<Object>| async move { client.commit(COMMIT).await }).await
    }

    /// Runs the last step, which sends COMMIT. Its trouble is returned as it is: what it means is for the caller to
    /// find out.
    pub(super) async fn commit_with<E, F, W>(mut self, work: W) -> Result<Result<(), E>, Failure>
    where
        E: From<Trouble> + Send + 'static,
        F: Future<Output = Result<(), E>> + Send,
        W: FnOnce(Arc<Object>) -> F + Send + 'static,
    {
        if !self.has_begun.load(Ordering::Relaxed) {
            // The first step goes together with the question which server this is.
            self.run("beginning a batch", |_| async { Ok(()) }).await?;
        }
        let committed = self.step("committing a batch", Flow::Committed, work).await;
        self.steps = None;
        committed
    }

    async fn step<T, E, F, W>(
        &self,
        what: &'static str,
        then: Flow,
        work: W,
    ) -> Result<Result<T, E>, Failure>
    where
        T: Send + 'static,
        E: From<Trouble> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send,
        W: FnOnce(Arc<Object>) -> F + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let step: Step = Box::new(move |client| {
            Box::pin(async move {
                let result = match client {
                    Ok(client) => work(client).await,
                    Err(failure) => Err(Trouble::Failure(failure).into()),
                };
                let flow = if result.is_ok() { then } else { Flow::Failed };
                // Whoever asked may have left; the step is done all the same.
                let _ = reply.send(result);
                flow
            })
        });
        let steps = self.steps.as_ref().expect("no step follows a commit");
        steps.send(step).await.map_err(|_| over(what))?;
        let answer = answer.await.map_err(|_| over(what));
        self.has_begun.store(true, Ordering::Relaxed);
        answer
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.steps.take().is_some()
            && let Some(ended) = self.ended.take()
        {
            self.endings.add(ended);
        }
    }
}

fn over(what: &'static str) -> Failure {
    let failure = Failure::new(FailureKind::Unavailable, "the batch was rolled back before");
    failure.because(format!("while {what}"))
}

/// The life of one transaction.
async fn live(pool: Pool, mut inbox: mpsc::Receiver<Step>, purpose: Purpose) {
    let Some(first) = inbox.recv().await else { return };
    let client = match pool.get().await {
        Ok(client) => Arc::new(client),
        Err(error) => {
            first(Err(trouble::no_connection(error))).await;
            return;
        }
    };
    let begin = async {
        match &purpose {
            Purpose::Read => client.batch_execute(client.begin_reading()).await.map(|()| true),
            Purpose::Write(primary) => {
                let begin = if faultpoint::mutant(24) { BEGIN_HASTY } else { client.begin() };
                let answer = client.simple_query(&primary.ask_after(begin)).await?;
                Ok(primary.is_same(&answer))
            }
        }
    };
    // Sent together: the connection keeps their order, and nothing runs outside a transaction, because
    // a failed BEGIN means a connection that runs nothing any more.
    let (begun, mut flow) = futures_util::join!(begin, first(Ok(client.clone())));
    match begun {
        Ok(true) => {}
        // Whatever the first step said, nothing of it is ever committed.
        Ok(false) => flow = Flow::Failed,
        Err::<_, tokio_postgres::Error>(error) => {
            tracing::warn!(%error, "a transaction could not be begun");
            flow = Flow::Failed;
        }
    }
    while flow == Flow::On
        && let Some(step) = inbox.recv().await
    {
        flow = step(Ok(client.clone())).await;
    }
    inbox.close();
    let is_idle = match flow {
        Flow::Committed => true,
        _ if faultpoint::mutant(20) => true,
        Flow::On | Flow::Failed => client.batch_execute("ROLLBACK").await.is_ok(),
    };
    if let Some(client) = Arc::into_inner(client)
        && !is_idle
    {
        drop(Object::take(client));
    }
}
