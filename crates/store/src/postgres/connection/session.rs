//! A transaction in a task of its own, which nobody can drop half-way.
//!
//! A future may be dropped between two of its awaits. If it owned a connection, a half-done transaction
//! would go back to the pool with it. So the connection belongs to a spawned task that takes one step
//! after the other from a mailbox; when the mailbox closes without a commit, it rolls back, and only a
//! connection that is known to be idle returns to the pool.
//!
//! Every transaction asks as it begins which server this is, together with its first step. What a wrong server said
//! is told to nobody ([`crate::postgres::failover::primary`]).
//!
//! A read whose caller has left is cancelled on the server, too: it would keep its place in the pool, and the
//! database busy, for nobody.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::connections::{Object, Pool};
use crate::failure::{Failure, FailureKind};
use crate::postgres::errors::{self, StepError};
use crate::postgres::failover::primary::Primary;

/// What every transaction begins with: nothing of it outlives the transaction, so that any pooler may
/// stand in between. Locks are waited for briefly, because whoever has one works on a single batch.
/// Hot tables swing between empty and full faster than their statistics, so that plans are not left to
/// those. A plan that was forbidden everything else looks so expensive that it would be compiled, each
/// time anew.
pub(in crate::postgres) const BEGIN: &str = "BEGIN; \
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
pub(in crate::postgres) const DIRECT: &str = "SET lock_timeout = '2s'; \
    SET statement_timeout = '30s'; \
    SET idle_in_transaction_session_timeout = '60s'; \
    SET jit = off; \
    SET enable_seqscan = off; \
    SET enable_material = off; \
    SET enable_mergejoin = off; \
    SET plan_cache_mode = force_generic_plan";

/// What is left to say there for every batch.
pub(in crate::postgres) const BEGIN_DIRECT: &str = "BEGIN; SET LOCAL ROLE tenure_rows";

pub(in crate::postgres) const COMMIT: &str = "COMMIT";

/// For a hint: whoever misses one because the server has lost it looks by himself, so it need not wait for the disk.
pub(in crate::postgres) const BEGIN_HINT: &str = "BEGIN; SET LOCAL synchronous_commit = off";

/// Bug 24 of the museum: who commits so waits neither for the disk nor for a standby.
const BEGIN_ASYNC_COMMIT: &str =
    "BEGIN; SET LOCAL ROLE tenure_rows; SET LOCAL synchronous_commit = off";

/// What reading begins with on a connection that is ours alone.
pub(in crate::postgres) const BEGIN_READING_DIRECT: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL ROLE tenure_rows";

/// And what is said there once. A plan with a name is kept while its table grows, so that it must not be one that
/// reads whole tables because they were empty when it was made.
pub(in crate::postgres) const DIRECT_READING: &str = "SET statement_timeout = '60s'; \
    SET idle_in_transaction_session_timeout = '60s'; \
    SET jit = off; \
    SET enable_seqscan = off; \
    SET plan_cache_mode = force_generic_plan";

/// For what counts all rows anyway: there an index only makes the way longer.
pub(in crate::postgres) const WHOLE_TABLES: &str = "SET LOCAL enable_seqscan = on";

/// The same for reading beside the writers, in one snapshot.
pub(in crate::postgres) const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL ROLE tenure_rows; \
    SET LOCAL jit = off; \
    SET LOCAL statement_timeout = '60s'; \
    SET LOCAL idle_in_transaction_session_timeout = '60s'";

/// The same for the small tables that a coordinator reads again every second. One that cannot be read is better told
/// of soon.
pub(in crate::postgres) const BEGIN_UPKEEP: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL ROLE tenure_rows; \
    SET LOCAL jit = off; \
    SET LOCAL lock_timeout = '2s'; \
    SET LOCAL statement_timeout = '5s'; \
    SET LOCAL idle_in_transaction_session_timeout = '60s'";

/// How long a read may go on after its caller has left. Nearly all end by then, and to cancel one costs two
/// connections: the one that asks for it, and its own.
const CANCEL_GRACE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) enum Purpose {
    Write,
    Read,
}

/// What becomes of the transaction after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepOutcome {
    Continue,
    Committed,
    Failed,
}

/// What is done in a step: with a connection, or with the reason why there is none.
type Work = Box<
    dyn FnOnce(
            Result<(Arc<Object>, Option<ServerCheck>), Failure>,
        ) -> Pin<Box<dyn Future<Output = StepOutcome> + Send>>
        + Send,
>;

/// Says whether the server is the right one. Comes before any answer of the first step.
type ServerCheck = oneshot::Receiver<Result<(), Failure>>;

struct Step {
    work: Work,
    /// Ends when the caller does.
    caller: oneshot::Receiver<()>,
}

/// What was left to tasks of their own and is still under way, such as transactions that were dropped.
#[derive(Default)]
pub(in crate::postgres) struct BackgroundTasks(Mutex<Vec<oneshot::Receiver<()>>>);

impl BackgroundTasks {
    pub(in crate::postgres) fn add(&self, end: oneshot::Receiver<()>) {
        self.0.lock().expect("nothing panics with the list in hand").push(end);
    }

    /// Waits until what was dropped before has let go of its locks.
    pub(in crate::postgres) async fn wait(&self) {
        let ends =
            std::mem::take(&mut *self.0.lock().expect("nothing panics with the list in hand"));
        for end in ends {
            // A task that ended without a word has ended too.
            let _ = end.await;
        }
    }
}

pub(in crate::postgres) struct Transaction {
    steps: Option<mpsc::Sender<Step>>,
    /// Whether a step was taken: then the server is known to be the right one.
    has_begun: AtomicBool,
    ended: Option<oneshot::Receiver<()>>,
    background_tasks: Arc<BackgroundTasks>,
}

impl Transaction {
    /// Nothing is sent to the database before the first step.
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
            // Nobody may be waiting for the end.
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
    pub(in crate::postgres) async fn run<T, F, W>(
        &self,
        what: &'static str,
        work: W,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StepError>> + Send,
        W: FnOnce(Arc<Object>) -> F + Send + 'static,
    {
        self.step(what, StepOutcome::Continue, work).await?.map_err(|error| error.while_doing(what))
    }

    pub(in crate::postgres) async fn commit(self) -> Result<Result<(), StepError>, Failure> {
        self.commit_with(|client: Arc<Object>| async move { client.commit(COMMIT).await }).await
    }

    /// Runs the last step, which sends COMMIT. Its trouble is returned as it is: what it means is for the caller to
    /// find out.
    pub(in crate::postgres) async fn commit_with<E, F, W>(
        mut self,
        work: W,
    ) -> Result<Result<(), E>, Failure>
    where
        E: From<StepError> + Send + 'static,
        F: Future<Output = Result<(), E>> + Send,
        W: FnOnce(Arc<Object>) -> F + Send + 'static,
    {
        if !self.has_begun.load(Ordering::Relaxed) {
            // The first step goes together with the question which server this is.
            self.run("beginning a batch", |_| async { Ok(()) }).await?;
        }
        let committed = self.step("committing a batch", StepOutcome::Committed, work).await;
        self.steps = None;
        committed
    }

    async fn step<T, E, F, W>(
        &self,
        what: &'static str,
        then: StepOutcome,
        work: W,
    ) -> Result<Result<T, E>, Failure>
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
                // Whoever asked may have left; the step is done all the same.
                let _ = reply.send(result);
                outcome
            })
        });
        // Dropped with this future, wherever that is.
        let (_here, caller) = oneshot::channel();
        let steps = self.steps.as_ref().expect("no step follows a commit");
        steps.send(Step { work, caller }).await.map_err(|_| rolled_back_before(what))?;
        let answer = answer.await.map_err(|_| rolled_back_before(what));
        self.has_begun.store(true, Ordering::Relaxed);
        answer
    }
}

/// What a step says, if the server is the right one.
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

/// The life of one transaction.
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
    // Sent together: the connection keeps their order, and nothing runs outside a transaction, because
    // a failed BEGIN means a connection that runs nothing any more.
    let beginning = async {
        let (begun, told) = begin(&client, primary, purpose).await;
        // The first step may have failed before it asked.
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
        // Whatever the first step said, nothing of it is ever committed.
        Some((Begun::OnOtherServer, _)) => false,
        Some((Begun::Failed, _)) => roll_back(&client).await,
        None => {
            client.cancel().await;
            // Its place in the pool is free when the server has let go.
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

/// Resolves when nobody waits for a read any more, and has not for a while.
async fn caller_gone(caller: oneshot::Receiver<()>) {
    // Nothing is ever sent: it ends when its other end is dropped.
    let _ = caller.await;
    tokio::time::sleep(CANCEL_GRACE).await;
}

/// Where a transaction has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    OnPrimary,
    /// On a server that is not the one whose commits count.
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

/// Takes one step after the other. Returns whether the connection is idle at the end.
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
