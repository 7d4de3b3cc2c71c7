//! A transaction in its own spawned task, so that dropping a future cannot leave it half done.
//!
//! A future may be dropped between two of its awaits. If it owned the connection, a half-done transaction would
//! return to the pool with it. So the connection belongs to a spawned task that takes steps from a mailbox, one after
//! the other. If the mailbox closes without a commit, the task rolls back. Only a connection that is known to be idle
//! returns to the pool.
//!
//! Every transaction queries the identity of its server together with its first step. An answer from the wrong server
//! is never passed on ([`crate::postgres::failover::primary`]).
//!
//! A read whose caller has disconnected is cancelled on the server too. Otherwise it would keep its connection and
//! load the database for no purpose.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::connections::{Object, Pool};
use crate::failure::{Failure, FailureKind};
use crate::postgres::errors::{self, StepError};
use crate::postgres::failover::primary::Primary;

/// Begins every transaction. No setting outlives the transaction, so any pooler may sit in between. Lock timeouts are
/// short, because a lock is held for a single batch only. Hot tables swing between empty and full faster than their
/// statistics, so plans must not depend on those. A plan with all alternatives disabled has such a high cost that
/// PostgreSQL would JIT-compile it on every execution, so JIT is off.
pub(in crate::postgres) const BEGIN: &str = "BEGIN; \
    SET LOCAL ROLE tenure_rows; \
    SET LOCAL lock_timeout = '2s'; \
    SET LOCAL statement_timeout = '30s'; \
    SET LOCAL idle_in_transaction_session_timeout = '60s'; \
    SET LOCAL jit = off; \
    SET LOCAL enable_seqscan = off; \
    SET LOCAL enable_material = off; \
    SET LOCAL enable_mergejoin = off";

/// Settings of a direct connection (no pooler in between), sent once. The plan of a prepared statement is made once
/// too, so it must be generic: it must not depend on the values of the first batches.
pub(in crate::postgres) const DIRECT: &str = "SET lock_timeout = '2s'; \
    SET statement_timeout = '30s'; \
    SET idle_in_transaction_session_timeout = '60s'; \
    SET jit = off; \
    SET enable_seqscan = off; \
    SET enable_material = off; \
    SET enable_mergejoin = off; \
    SET plan_cache_mode = force_generic_plan";

/// Begins a batch on a direct connection, where [`DIRECT`] is already set.
pub(in crate::postgres) const BEGIN_DIRECT: &str = "BEGIN; SET LOCAL ROLE tenure_rows";

pub(in crate::postgres) const COMMIT: &str = "COMMIT";

/// Begins the transaction of a hint. It does not wait for the disk: a peer that misses a hint because the server lost
/// it polls.
pub(in crate::postgres) const BEGIN_HINT: &str = "BEGIN; SET LOCAL synchronous_commit = off";

/// Bug 24 of the museum: this commit waits neither for the disk nor for a standby.
const BEGIN_ASYNC_COMMIT: &str =
    "BEGIN; SET LOCAL ROLE tenure_rows; SET LOCAL synchronous_commit = off";

/// Begins a read on a direct connection.
pub(in crate::postgres) const BEGIN_READING_DIRECT: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL ROLE tenure_rows";

/// Settings of a direct connection for reads, sent once. The plan of a prepared statement is kept while its table
/// grows, so it must not be a sequential scan that was chosen while the table was empty.
pub(in crate::postgres) const DIRECT_READING: &str = "SET statement_timeout = '60s'; \
    SET idle_in_transaction_session_timeout = '60s'; \
    SET jit = off; \
    SET enable_seqscan = off; \
    SET plan_cache_mode = force_generic_plan";

/// For statements that count all rows: there an index scan is only slower.
pub(in crate::postgres) const WHOLE_TABLES: &str = "SET LOCAL enable_seqscan = on";

/// Without statistics, which a table has some time after it grew, the planner takes few of its rows for due: it reads them all, and
/// sorts them. Where it may not sort, it reads them from an index, in its order, as far as the limit.
pub(in crate::postgres) const WITHOUT_SORTS: &str = "SET LOCAL enable_sort = off";

/// The end of that, for the rest of the transaction.
pub(in crate::postgres) const WITH_SORTS: &str = "SET LOCAL enable_sort TO DEFAULT";

/// Begins a read beside the writers, in one snapshot.
pub(in crate::postgres) const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL ROLE tenure_rows; \
    SET LOCAL jit = off; \
    SET LOCAL statement_timeout = '60s'; \
    SET LOCAL idle_in_transaction_session_timeout = '60s'";

/// Begins a read of the small tables that a coordinator reads every second. A short timeout reports early that they
/// cannot be read.
pub(in crate::postgres) const BEGIN_UPKEEP: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL ROLE tenure_rows; \
    SET LOCAL jit = off; \
    SET LOCAL lock_timeout = '2s'; \
    SET LOCAL statement_timeout = '5s'; \
    SET LOCAL idle_in_transaction_session_timeout = '60s'";

/// How long a read may continue after its caller has disconnected. Nearly all reads end by then, and a cancellation
/// costs two connections: the one that sends the request, and the cancelled one.
const CANCEL_GRACE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) enum Purpose {
    Write,
    Read,
}

/// State of the transaction after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepOutcome {
    Continue,
    Committed,
    Failed,
}

/// The work of a step. It gets a connection, or the reason why there is none.
type Work = Box<
    dyn FnOnce(
            Result<(Arc<Object>, Option<ServerCheck>), Failure>,
        ) -> Pin<Box<dyn Future<Output = StepOutcome> + Send>>
        + Send,
>;

/// Whether the server is the right one. Resolves before any answer of the first step.
type ServerCheck = oneshot::Receiver<Result<(), Failure>>;

struct Step {
    work: Work,
    /// Closes when the caller drops its future.
    caller: oneshot::Receiver<()>,
}

/// Spawned tasks that are still running, such as rollbacks of dropped transactions.
#[derive(Default)]
pub(in crate::postgres) struct BackgroundTasks(Mutex<Vec<oneshot::Receiver<()>>>);

impl BackgroundTasks {
    pub(in crate::postgres) fn add(&self, end: oneshot::Receiver<()>) {
        self.0.lock().expect("nothing panics with the list in hand").push(end);
    }

    /// Waits until the transactions dropped before this call have released their locks.
    pub(in crate::postgres) async fn wait(&self) {
        let ends =
            std::mem::take(&mut *self.0.lock().expect("nothing panics with the list in hand"));
        for end in ends {
            // A task that ended without sending has ended too.
            let _ = end.await;
        }
    }
}

pub(in crate::postgres) struct Transaction {
    steps: Option<mpsc::Sender<Step>>,
    /// Whether a step has run. From then on the server is known to be the right one.
    has_begun: AtomicBool,
    ended: Option<oneshot::Receiver<()>>,
    background_tasks: Arc<BackgroundTasks>,
}

impl Transaction {
    /// Sends nothing to the database before the first step.
    pub(in crate::postgres) fn new(
        runtime: &tokio::runtime::Handle,
        pool: Pool,
        background_tasks: Arc<BackgroundTasks>,
        primary: Arc<Primary>,
        purpose: Purpose,
    ) -> Self {
        let (steps, inbox) = mpsc::channel(1);
        let (end, ended) = oneshot::channel();
        runtime.spawn(async move {
            run_transaction(pool, inbox, &primary, purpose).await;
            // The receiver may be gone.
            let _ = end.send(());
        });
        Self {
            steps: Some(steps),
            has_begun: AtomicBool::new(false),
            ended: Some(ended),
            background_tasks,
        }
    }

    /// Runs one step. The first failure rolls the whole transaction back.
    pub(in crate::postgres) fn run<T, F, W>(
        &self,
        what: &'static str,
        work: W,
    ) -> impl Future<Output = Result<T, Failure>> + Send
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StepError>> + Send,
        W: FnOnce(Arc<Object>) -> F + Send + 'static,
    {
        let step = boxed(work, StepOutcome::Continue);
        async move { self.step(what, step).await?.map_err(|error| error.while_doing(what)) }
    }

    pub(in crate::postgres) async fn commit(self) -> Result<Result<(), StepError>, Failure> {
        self.commit_with(|client: Arc<Object>| async move { client.commit(COMMIT).await }).await
    }

    /// Runs the last step, which sends COMMIT. Its error is returned unchanged: the caller determines what it means.
    pub(in crate::postgres) fn commit_with<E, F, W>(
        self,
        work: W,
    ) -> impl Future<Output = Result<Result<(), E>, Failure>> + Send
    where
        E: From<StepError> + Send + 'static,
        F: Future<Output = Result<(), E>> + Send,
        W: FnOnce(Arc<Object>) -> F + Send + 'static,
    {
        let step = boxed(work, StepOutcome::Committed);
        async move {
            if !self.has_begun.load(Ordering::Relaxed) {
                // The server check goes with the first step, so COMMIT must not be the first step.
                self.run("beginning a batch", |_| async { Ok(()) }).await?;
            }
            let committed = self.step("committing a batch", step).await;
            self.end();
            committed
        }
    }

    /// Ends it after COMMIT: nothing is left to roll back in the background.
    fn end(mut self) {
        self.steps.take();
    }

    async fn step<T, E>(
        &self,
        what: &'static str,
        (work, answer): BoxedStep<T, E>,
    ) -> Result<Result<T, E>, Failure> {
        // Dropped together with this future, at whichever await that happens.
        let (_here, caller) = oneshot::channel();
        let steps = self.steps.as_ref().expect("no step follows a commit");
        steps.send(Step { work, caller }).await.map_err(|_| rolled_back_before(what))?;
        let answer = answer.await.map_err(|_| rolled_back_before(what));
        self.has_begun.store(true, Ordering::Relaxed);
        answer
    }
}

/// The work of a step, and what it will answer.
type BoxedStep<T, E> = (Work, oneshot::Receiver<Result<T, E>>);

/// Boxes the work of a step at once, so that what it holds is not copied with the futures that wait for it.
fn boxed<T, E, F, W>(work: W, then: StepOutcome) -> BoxedStep<T, E>
where
    T: Send + 'static,
    E: From<StepError> + Send + 'static,
    F: Future<Output = Result<T, E>> + Send,
    W: FnOnce(Arc<Object>) -> F + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let work: Work = Box::new(move |begun| {
        Box::pin(async move {
            let result = match begun {
                Ok((client, server_check)) => {
                    after_server_check(work(client).await, server_check).await
                }
                Err(failure) => Err(StepError::Failure(failure).into()),
            };
            let outcome = if result.is_ok() { then } else { StepOutcome::Failed };
            // The caller may be gone; the step runs all the same.
            let _ = reply.send(result);
            outcome
        })
    });
    (work, answer)
}

/// The result of a step, if the server is the right one.
async fn after_server_check<T, E: From<StepError>>(
    result: Result<T, E>,
    server_check: Option<ServerCheck>,
) -> Result<T, E> {
    let Some(server_check) = server_check.filter(|_| result.is_ok()) else { return result };
    match server_check.await {
        Ok(Ok(())) => result,
        Ok(Err(failure)) => Err(StepError::Failure(failure).into()),
        Err(_) => Err(StepError::Failure(rolled_back_before("beginning a transaction")).into()),
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.steps.take().is_some()
            && let Some(ended) = self.ended.take()
        {
            self.background_tasks.add(ended);
        }
    }
}

fn rolled_back_before(what: &'static str) -> Failure {
    let failure = Failure::new(FailureKind::Unavailable, "the batch was rolled back before");
    failure.because(format!("while {what}"))
}

/// Runs one transaction from BEGIN to its end.
async fn run_transaction(
    pool: Pool,
    mut inbox: mpsc::Receiver<Step>,
    primary: &Primary,
    purpose: Purpose,
) {
    let Some(Step { work, mut caller }) = inbox.recv().await else { return };
    let found = tokio::select! {
        biased;
        _ = &mut caller, if purpose == Purpose::Read => return,
        found = pool.get() => found,
    };
    let client = match found {
        Ok(client) => Arc::new(client),
        Err(error) => {
            work(Err(errors::no_connection(error))).await;
            return;
        }
    };
    let (tell, server_check) = oneshot::channel();
    // Sent together. The connection keeps their order. Nothing runs outside a transaction: if BEGIN fails, the
    // connection is broken and runs no further statement.
    let beginning = async {
        let (begun, told) = begin(&client, primary, purpose).await;
        // The receiver is gone if the first step failed before it waited for the check.
        let _ = tell.send(told);
        begun
    };
    let first =
        async { futures_util::join!(beginning, work(Ok((client.clone(), Some(server_check))))) };
    let done = tokio::select! {
        biased;
        done = first => Some(done),
        () = caller_gone(caller), if purpose == Purpose::Read => None,
    };
    let is_idle = match done {
        Some((Begun::OnPrimary, outcome)) => run_steps(&client, outcome, &mut inbox).await,
        // Whatever the first step returned, it is never committed.
        Some((Begun::OnOtherServer, _)) => false,
        Some((Begun::Failed, _)) => roll_back(&client).await,
        None => {
            Box::pin(client.cancel()).await;
            // The connection's place in the pool becomes free once the server has ended the transaction.
            roll_back(&client).await;
            false
        }
    };
    inbox.close();
    if let Some(client) = Arc::into_inner(client)
        && !is_idle
    {
        drop(Object::take(client));
    }
}

/// Resolves `CANCEL_GRACE` after the caller of a read has gone.
async fn caller_gone(caller: oneshot::Receiver<()>) {
    // No value is ever sent: this resolves when the sender is dropped.
    let _ = caller.await;
    tokio::time::sleep(CANCEL_GRACE).await;
}

/// Where a transaction has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    OnPrimary,
    /// On a server that is not the current primary.
    OnOtherServer,
    Failed,
}

async fn begin(
    client: &Object,
    primary: &Primary,
    purpose: Purpose,
) -> (Begun, Result<(), Failure>) {
    let begin = match purpose {
        Purpose::Read => client.begin_reading(),
        Purpose::Write if faultpoint::mutant(24) => BEGIN_ASYNC_COMMIT,
        Purpose::Write => client.begin(),
    };
    match client
        .simple_query(&primary.with_timeline_query(begin))
        .await
        .map(|said| primary.check_timeline(&said))
    {
        Ok(Ok(())) => (Begun::OnPrimary, Ok(())),
        Ok(Err(refused)) => (Begun::OnOtherServer, Err(refused)),
        Err(error) => {
            tracing::warn!(%error, "cannot begin a transaction");
            let failure = StepError::from(error).while_doing("beginning a transaction");
            (Begun::Failed, Err(failure))
        }
    }
}

/// Runs one step after the other. Returns whether the connection is idle at the end.
async fn run_steps(
    client: &Arc<Object>,
    first: StepOutcome,
    inbox: &mut mpsc::Receiver<Step>,
) -> bool {
    let mut outcome = first;
    while outcome == StepOutcome::Continue
        && let Some(Step { work, .. }) = inbox.recv().await
    {
        outcome = work(Ok((client.clone(), None))).await;
    }
    inbox.close();
    match outcome {
        StepOutcome::Committed => true,
        _ if faultpoint::mutant(20) => true,
        StepOutcome::Continue | StepOutcome::Failed => roll_back(client).await,
    }
}

async fn roll_back(client: &Object) -> bool {
    client.batch_execute("ROLLBACK").await.is_ok()
}

/// The size of the future that a function returns; it is never called.
#[cfg(test)]
pub(in crate::postgres) fn future_bytes<A, F: Future>(_: impl FnOnce(A) -> F) -> usize {
    size_of::<F>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is copied when a transaction is spawned, once for each.
    const TASK_BYTES_MAX: usize = 2_560;

    #[test]
    fn the_task_of_a_transaction_is_small() {
        type Arguments = (Pool, mpsc::Receiver<Step>, &'static Primary);
        let task = future_bytes(|(pool, inbox, primary): Arguments| {
            run_transaction(pool, inbox, primary, Purpose::Write)
        });
        assert!(task <= TASK_BYTES_MAX, "{task}");
    }
}
