//! A worker: fetches work, runs tasks under their leases, reports their outcomes.
//!
//! Only the coordinator decides what is true. The loop obeys its three verdicts, isolates
//! heartbeats from the tasks' code, stops a task when its own clock says that the lease may be
//! over, and never repeats a task on its own initiative.

mod attempt;
mod backoff;
mod checkpoints;
pub(crate) mod clock;
mod ctx;
mod durable;
mod event;
mod heartbeat_thread;
mod heartbeats;
pub(crate) mod lease_state;
mod lease_table;
mod panic;
mod poller;
mod reports;
mod starts;
pub(crate) mod task;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wire::limits::BATCH_ITEMS_MAX;
use workflow::{Failure, Flow};

use self::attempt::SharedState;
use self::clock::Clock;
pub use self::ctx::Ctx;
use self::event::Events;
pub use self::event::WorkerEvent;
use self::heartbeat_thread::{HeartbeatThread, Pending};
pub use self::lease_state::StopReason;
use self::lease_table::LeaseTable;
pub(crate) use self::panic::catch_panic;
use self::poller::Poller;
use self::task::{Handler, Tasks, typed};
use crate::client::random_hex;
use crate::task_error::TaskResult;
use crate::{Client, Error, Retries};

/// More would not fit into one batch of heartbeats; start a second process instead.
const CONCURRENCY_MAX: usize = BATCH_ITEMS_MAX;
const CONCURRENCY_DEFAULT: usize = 8;
/// The usual time that supervisors wait between SIGTERM and SIGKILL, minus a reserve.
const SHUTDOWN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(25);
/// Less than the time left of any lease of 2.5 s or more when the worker's own deadline passes.
const CLEANUP_TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
/// Some 40 s of retries: long enough for a coordinator to restart, and at most half a usual lease.
const RETRIES_DEFAULT: Retries = Retries::new(10);
/// Enough random characters to distinguish two starts of one worker.
const INSTANCE_CHARS: usize = 12;

/// A worker to configure and run.
///
/// A handler takes its attempt's context and an input of any type that can be read from JSON, and
/// returns an output of any type that can be written as JSON. Errors of any type become a
/// [`TaskError`](crate::TaskError) through `?`; its constructors say whether another attempt may help.
///
/// ```no_run
/// use tenure::{TaskError, Worker};
///
/// #[derive(serde::Deserialize)]
/// struct Resize { path: String, width: u32 }
///
/// #[tokio::main]
/// async fn main() -> Result<(), tenure::Error> {
///     Worker::from_env()?
///         .queue("images")
///         .concurrency(4)
///         .handle("resize", |ctx, job: Resize| async move {
///             if job.width == 0 {
///                 return Err(TaskError::permanent("the width must not be zero"));
///             }
///             let origin = std::env::var("IMAGES_AT")?;
///             ctx.progress(10.0, format!("fetching {origin}/{}", job.path));
///             Ok(format!("resized/{}", ctx.fence()))
///         })
///         .run()
///         .await
/// }
/// ```
#[must_use = "a worker does nothing until it is run"]
pub struct Worker {
    client: Client,
    name: String,
    queues: Vec<String>,
    tasks: Tasks,
    concurrency: usize,
    shutdown_timeout: Duration,
    cleanup_timeout: Duration,
    awaits_starts: bool,
    retries: Retries,
    events: Events,
    clock: Clock,
}

impl Worker {
    pub fn new(client: Client) -> Worker {
        Worker {
            client,
            name: "worker".to_owned(),
            queues: Vec::new(),
            tasks: Tasks::default(),
            concurrency: CONCURRENCY_DEFAULT,
            shutdown_timeout: SHUTDOWN_TIMEOUT_DEFAULT,
            cleanup_timeout: CLEANUP_TIMEOUT_DEFAULT,
            awaits_starts: false,
            retries: RETRIES_DEFAULT,
            events: Events::new(|_| {}),
            clock: Clock::system(),
        }
    }

    /// A worker of the coordinator that `TENURE_URL` and `TENURE_API_KEY` name.
    pub fn from_env() -> Result<Worker, Error> {
        Ok(Worker::new(Client::from_env()?))
    }

    /// The worker's name, for people. Every start adds random characters: a restarted worker is a
    /// different worker and inherits no lease.
    pub fn name(mut self, name: impl Into<String>) -> Worker {
        self.name = name.into();
        self
    }

    /// Adds a queue to fetch work from.
    pub fn queue(mut self, queue: impl Into<String>) -> Worker {
        self.queues.push(queue.into());
        self
    }

    /// How many tasks run at the same time, from 1 to 1000; 8 by default.
    pub fn concurrency(mut self, concurrency: usize) -> Worker {
        self.concurrency = concurrency.clamp(1, CONCURRENCY_MAX);
        self
    }

    /// How long a shutdown waits for running tasks before it asks them to stop; 25 s by default.
    pub fn shutdown_timeout(mut self, shutdown_timeout: Duration) -> Worker {
        self.shutdown_timeout = shutdown_timeout;
        self
    }

    /// How long a task that must stop (lost lease, shutdown, timeout) may clean up before its
    /// future is dropped; 1 s by default. After a lost lease the code may do nothing but clean up.
    pub fn cleanup_timeout(mut self, cleanup_timeout: Duration) -> Worker {
        self.cleanup_timeout = cleanup_timeout;
        self
    }

    /// Runs no handler before the coordinator has acknowledged its start.
    ///
    /// By default the handler of a first attempt runs at once, and its start is reported a few
    /// milliseconds later. Use this for code that may kill its process, so that such an attempt always
    /// counts as lost, or that must not run at all if its run was cancelled before. It costs a commit
    /// for each task. Later attempts always wait.
    pub fn await_starts(mut self) -> Worker {
        self.awaits_starts = true;
        self
    }

    /// How often a call about an attempt is repeated while nothing was decided.
    pub fn retries(mut self, retries: Retries) -> Worker {
        self.retries = retries;
        self
    }

    /// Calls `observer` for every event that a program may want to count or alert on. Must not
    /// block.
    pub fn on_event(mut self, observer: impl Fn(&WorkerEvent) + Send + Sync + 'static) -> Worker {
        self.events = Events::new(observer);
        self
    }

    /// Replaces the machine's boot clock, so that a test can simulate a suspended machine: leases
    /// expire earlier by as much as this clock jumps ahead.
    #[doc(hidden)]
    pub fn boot_time(mut self, boot: impl Fn() -> Duration + Send + Sync + 'static) -> Worker {
        self.clock = Clock::with_boot_time(boot);
        self
    }

    /// Adds the handler of a kind. A panic in it fails the task, not the worker.
    pub fn handle<F, I, O, Fut>(mut self, kind: impl Into<String>, work: F) -> Worker
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        Fut: Future<Output = TaskResult<O>> + Send + 'static,
    {
        self.tasks.add(kind.into(), Handler::Task(typed(work)));
        self
    }

    /// Adds a durable function: ordinary code whose steps are recorded, one by one, and skipped when another worker
    /// continues the run after a crash or a wait. See the page about determinism for what its code may do.
    ///
    /// An error that the function returns ends the run: steps have their own retries. A panic fails the attempt, and
    /// the coordinator decides about another one.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tenure::{Flow, Failure, Retry, Worker};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Order { id: u64, cents: u64 }
    ///
    /// # async fn charge(_: &str, _: u64) -> Result<String, Failure> { Ok(String::new()) }
    /// # async fn ship(_: u64) -> Result<(), Failure> { Ok(()) }
    /// #[tokio::main]
    /// async fn main() -> Result<(), tenure::Error> {
    ///     Worker::from_env()?
    ///         .queue("orders")
    ///         .durable("order", |ctx: Flow, order: Order| async move {
    ///             let receipt: String = ctx
    ///                 .step("charge", async |step| charge(step.idempotency_key(), order.cents).await)
    ///                 .retry(Retry::tries(5))
    ///                 .await?;
    ///             ctx.sleep(Duration::from_secs(86_400)).await;
    ///             ctx.step("ship", async |_| ship(order.id).await).await?;
    ///             Ok(receipt)
    ///         })
    ///         .run()
    ///         .await
    /// }
    /// ```
    pub fn durable<F, I, O, Fut>(mut self, kind: impl Into<String>, code: F) -> Worker
    where
        F: Fn(Flow, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send,
        O: Serialize + Send,
        Fut: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        self.tasks.add(kind.into(), Handler::Durable(workflow::function(code)));
        self
    }

    /// Adds the handler of every kind without a handler; [`Ctx::kind`] returns the
    /// kind.
    pub fn handle_any<F, I, O, Fut>(mut self, work: F) -> Worker
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize,
        Fut: Future<Output = TaskResult<O>> + Send + 'static,
    {
        self.tasks.set_fallback(typed(work));
        self
    }

    /// Works until the process is asked to end (Ctrl-C, SIGTERM), then drains.
    pub async fn run(self) -> Result<(), Error> {
        self.run_until(termination_signal()).await
    }

    /// Works until `shutdown` completes, then drains: fetches nothing more, keeps heartbeats going,
    /// waits for running tasks, then asks them to stop and hands back those that are not done. A
    /// task that is handed back is leased by another worker and loses none of its attempts. An
    /// error means that the coordinator refused the worker itself; running tasks are drained in
    /// that case too.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        self.run_until_cut(shutdown, std::future::pending()).await
    }

    /// As [`run_until`](Worker::run_until), and stops waiting for running tasks when `cut`
    /// completes: for an operator who asks a second time.
    pub async fn run_until_cut(
        self,
        shutdown: impl Future<Output = ()>,
        cut: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        self.check()?;
        let lease_table = Arc::new(LeaseTable::new(self.events.clone(), self.clock.clone()));
        let (reports, pending_reports) = mpsc::channel(BATCH_ITEMS_MAX);
        let (calls, pending_calls) = mpsc::channel(BATCH_ITEMS_MAX);
        let pending = Pending { reports: pending_reports, calls: pending_calls };
        let heartbeat_thread =
            HeartbeatThread::start(&self.client, self.retries, Arc::clone(&lease_table), pending)?;
        let (draining, drain_expired) = (CancellationToken::new(), CancellationToken::new());
        let shared = Arc::new(SharedState {
            client: self.client.clone().with_retries(self.retries),
            task_client: self.client,
            worker_id: instance_id(&self.name)?.into(),
            tasks: self.tasks,
            lease_table,
            reports,
            calls,
            events: self.events,
            clock: self.clock,
            awaits_starts: self.awaits_starts,
            cleanup_timeout: self.cleanup_timeout,
            draining: draining.clone(),
            drain_expired: drain_expired.clone(),
            running_leases: Mutex::default(),
        });
        let slots = Arc::new(Semaphore::new(self.concurrency));
        let concurrency = u32::try_from(self.concurrency).unwrap_or(u32::MAX);
        let poller =
            Poller { shared, queues: self.queues, slots, concurrency, retries: self.retries };
        let mut running = JoinSet::new();
        let ended = tokio::select! {
            biased;
            () = shutdown => Ok(()),
            refusal = poller.run(&mut running) => Err(refusal),
        };
        draining.cancel();
        let is_drained = tokio::select! {
            drained = timeout(self.shutdown_timeout, join_all(&mut running)) => drained.is_ok(),
            () = cut => running.is_empty(),
        };
        if !is_drained {
            drain_expired.cancel();
            // Set from here too: code that blocks its thread keeps its attempt from noticing the
            // shutdown.
            poller.shared.lease_table.stop_all(&StopReason::ShuttingDown);
            join_or_detach(running, self.cleanup_timeout).await;
            poller.shared.lease_table.abandon_all();
        }
        heartbeat_thread.end().await;
        ended
    }

    fn check(&self) -> Result<(), Error> {
        let missing = if self.queues.is_empty() {
            "a worker needs a queue to fetch work from; call `.queue(…)`"
        } else if self.tasks.is_empty() {
            "a worker needs a task to run; call `.handle(…)` or `.durable(…)`"
        } else {
            return Ok(());
        };
        Err(Error::Setup(missing.to_owned()))
    }
}

/// Each attempt gives its code time to clean up and then ends. Twice that time passes only if code
/// blocks its thread, which nothing can stop, or if a report is still in flight, which the
/// heartbeat thread delivers.
async fn join_or_detach(mut running: JoinSet<()>, cleanup_timeout: Duration) {
    if timeout(cleanup_timeout * 2, join_all(&mut running)).await.is_err() {
        running.detach_all();
    }
}

async fn join_all(running: &mut JoinSet<()>) {
    while running.join_next().await.is_some() {}
}

fn instance_id(name: &str) -> Result<String, Error> {
    let random = random_hex()?;
    Ok(format!("{name}-{}", &random[..INSTANCE_CHARS]))
}

async fn termination_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    // Without a signal handler the worker keeps running; its supervisor can still kill it.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
