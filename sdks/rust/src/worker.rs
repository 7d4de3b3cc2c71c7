//! A worker: fetches work, runs tasks under their leases, reports their outcomes.
//!
//! Only the coordinator decides what is true. The loop obeys its three verdicts, isolates
//! heartbeats from the tasks' code, stops a task when its own clock says that the lease may be
//! over, and never repeats a task on its own initiative.

mod announcement;
mod attempt;
mod backoff;
mod checkpoints;
pub(crate) mod clock;
mod ctx;
mod durable;
mod event;
mod handlers;
mod heartbeat_thread;
mod heartbeats;
pub(crate) mod lease_state;
mod lease_table;
mod log_buffer;
mod metrics;
mod outbox;
mod panic;
mod poller;
mod program;
mod reports;
mod starts;
pub(crate) mod task;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wire::limits::BATCH_ITEMS_MAX;
use wire::requests::AnnouncedKind;

use self::announcement::Announcement;
pub(crate) use self::attempt::{SharedState, run_pushed};
use self::clock::Clock;
pub use self::ctx::Ctx;
use self::event::Events;
pub use self::event::WorkerEvent;
pub use self::handlers::WithState;
pub(crate) use self::heartbeat_thread::HeartbeatThread;
use self::heartbeat_thread::Pending;
pub use self::lease_state::StopReason;
use self::lease_table::LeaseTable;
use self::log_buffer::LogSwitch;
pub use self::metrics::{Metrics, WorkerMetrics};
use self::outbox::Outbox;
pub(crate) use self::panic::catch_panic;
use self::poller::Poller;
#[doc(hidden)]
pub use self::program::{ProgramEnd, Recorder, RecorderEnd};
pub use self::task::TaskKind;
use self::task::Tasks;
use crate::client::random_hex;
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
/// A handler is a plain function of its attempt's context and an input, both of its [`Kind`](crate::Kind)'s types. Errors of any
/// type become a [`Failure`](crate::Failure) through `?`; its constructors say whether another attempt may help.
///
/// ```no_run
/// use tenure::{Ctx, Failure, Kind, Worker};
///
/// #[derive(serde::Deserialize)]
/// struct Resize { path: String, width: u32 }
///
/// const RESIZE: Kind<Resize, String> = Kind::new("resize").queue("images");
///
/// async fn resize(ctx: Ctx, job: Resize) -> Result<String, Failure> {
///     if job.width == 0 {
///         return Err(Failure::permanent("the width must not be zero"));
///     }
///     let origin = std::env::var("IMAGES_AT")?;
///     ctx.progress(10.0, format!("fetching {origin}/{}", job.path));
///     Ok(format!("resized/{}", ctx.fence()))
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), tenure::Error> {
///     Worker::from_env()?.concurrency(4).handle(RESIZE, resize).run().await
/// }
/// ```
///
/// What a program must do before its first task or after its last stands before and after [`Worker::run`]: no hook is needed.
#[must_use = "a worker does nothing until it is run"]
pub struct Worker<S = ()> {
    state: S,
    client: Client,
    name: String,
    queues: Vec<String>,
    tasks: Tasks,
    /// What is announced of each kind, or why it cannot be.
    kinds: Vec<Result<AnnouncedKind, String>>,
    build_id: Option<String>,
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
            state: (),
            client,
            name: "worker".to_owned(),
            queues: Vec::new(),
            tasks: Tasks::default(),
            kinds: Vec::new(),
            build_id: None,
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

    /// Gives every handler that is added from here on a clone of `state`, between its context and its input: connections,
    /// settings, an HTTP client.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use tenure::{Ctx, Failure, Kind, Worker};
    ///
    /// struct App { greeting: String }
    /// const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
    ///
    /// async fn greet(_: Ctx, app: Arc<App>, name: String) -> Result<String, Failure> {
    ///     Ok(format!("{}, {name}!", app.greeting))
    /// }
    ///
    /// # async fn example() -> Result<(), tenure::Error> {
    /// let app = Arc::new(App { greeting: "Hello".into() });
    /// Worker::from_env()?.with_state(app).handle(GREET, greet).run().await
    /// # }
    /// ```
    pub fn with_state<S>(self, state: S) -> Worker<WithState<S>>
    where
        S: Clone + Send + Sync + 'static,
    {
        self.replace_state(WithState(state))
    }

    fn replace_state<S>(self, state: S) -> Worker<S> {
        let Worker {
            state: (),
            client,
            name,
            queues,
            tasks,
            kinds,
            build_id,
            concurrency,
            shutdown_timeout,
            cleanup_timeout,
            awaits_starts,
            retries,
            events,
            clock,
        } = self;
        Worker {
            state,
            client,
            name,
            queues,
            tasks,
            kinds,
            build_id,
            concurrency,
            shutdown_timeout,
            cleanup_timeout,
            awaits_starts,
            retries,
            events,
            clock,
        }
    }
}

impl<S> Worker<S> {
    /// The worker's name, for people. Every start adds random characters: a restarted worker is a
    /// different worker and inherits no lease.
    pub fn name(mut self, name: impl Into<String>) -> Worker<S> {
        self.name = name.into();
        self
    }

    /// Adds a queue to fetch work from. Those of the worker's kinds need not be named.
    pub fn queue(mut self, queue: impl Into<String>) -> Worker<S> {
        self.queues.push(queue.into());
        self
    }

    /// The name of this build, which the worker announces with its kinds: 1 to 128 letters, digits and `. _ : / -`. Without
    /// it, the variable `TENURE_BUILD_ID`.
    pub fn build_id(mut self, build_id: impl Into<String>) -> Worker<S> {
        self.build_id = Some(build_id.into());
        self
    }

    /// How many tasks run at the same time, from 1 to 1000; 8 by default.
    pub fn concurrency(mut self, concurrency: usize) -> Worker<S> {
        self.concurrency = concurrency.clamp(1, CONCURRENCY_MAX);
        self
    }

    /// How long a shutdown waits for running tasks before it asks them to stop; 25 s by default.
    pub fn shutdown_timeout(mut self, shutdown_timeout: Duration) -> Worker<S> {
        self.shutdown_timeout = shutdown_timeout;
        self
    }

    /// How long a task that must stop (lost lease, shutdown, timeout) may clean up before its
    /// future is dropped; 1 s by default. After a lost lease the code may do nothing but clean up.
    pub fn cleanup_timeout(mut self, cleanup_timeout: Duration) -> Worker<S> {
        self.cleanup_timeout = cleanup_timeout;
        self
    }

    /// Runs no handler before the coordinator has acknowledged its start.
    ///
    /// By default the handler of a first attempt runs at once, and its start is reported a few
    /// milliseconds later. Use this for code that may kill its process, so that such an attempt always
    /// counts as lost, or that must not run at all if its run was cancelled before. It costs a commit
    /// for each task. Later attempts always wait.
    pub fn await_starts(mut self) -> Worker<S> {
        self.awaits_starts = true;
        self
    }

    /// How often a call about an attempt is repeated while nothing was decided.
    pub fn retries(mut self, retries: Retries) -> Worker<S> {
        self.retries = retries;
        self
    }

    /// Calls `observer` for every event that a program may want to count or alert on. Must not
    /// block.
    pub fn on_event(
        mut self,
        observer: impl Fn(&WorkerEvent) + Send + Sync + 'static,
    ) -> Worker<S> {
        self.events = self.events.observed_by(observer);
        self
    }

    /// The counts of this worker: take them before it runs, and read them while it does.
    pub fn metrics(&self) -> Metrics {
        self.events.metrics.clone()
    }

    /// Replaces the machine's boot clock, so that a test can simulate a suspended machine: leases
    /// expire earlier by as much as this clock jumps ahead.
    #[doc(hidden)]
    pub fn boot_time(mut self, boot: impl Fn() -> Duration + Send + Sync + 'static) -> Worker<S> {
        self.clock = Clock::with_boot_time(boot);
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
        let announcement =
            Announcement::new(&self.kinds, self.build_id.clone(), self.client.codec())?;
        let worker_id = instance_id(&self.name)?.into();
        let Begun { shared, heartbeat_thread, queues, concurrency, retries, shutdown_timeout } =
            self.begin(worker_id)?;
        let slots = Arc::new(Semaphore::new(concurrency));
        let concurrency = u32::try_from(concurrency).unwrap_or(u32::MAX);
        let open = Mutex::default();
        let poller = Poller { shared, queues, slots, concurrency, retries, announcement, open };
        let mut running = JoinSet::new();
        let ended = tokio::select! {
            biased;
            () = shutdown => Ok(()),
            refusal = poller.run(&mut running) => Err(refusal),
        };
        poller.shared.draining.cancel();
        if ended.is_ok() {
            running.spawn(poller.end_open_poll());
        }
        let is_drained = tokio::select! {
            drained = timeout(shutdown_timeout, join_all(&mut running)) => drained.is_ok(),
            () = cut => running.is_empty(),
        };
        if !is_drained {
            poller.shared.drain_expired.cancel();
            // Set from here too: code that blocks its thread keeps its attempt from noticing the
            // shutdown.
            poller.shared.lease_table.stop_all(&StopReason::ShuttingDown);
            join_or_detach(running, poller.shared.cleanup_timeout).await;
            poller.shared.lease_table.abandon_all();
        }
        heartbeat_thread.end().await;
        ended
    }

    /// Starts the thread that calls for attempts.
    pub(crate) fn begin(self, worker_id: Arc<str>) -> Result<Begun, Error> {
        let lease_table = Arc::new(LeaseTable::new(self.events.clone(), self.clock.clone()));
        let client = self.client.clone().with_retries(self.retries);
        let outbox = Outbox::new(client.clone(), self.retries, Arc::clone(&lease_table));
        let outbox = Arc::new(outbox);
        let (calls, pending_calls) = mpsc::channel(BATCH_ITEMS_MAX);
        let pending = Pending { outbox: Arc::clone(&outbox), calls: pending_calls };
        let heartbeat_thread =
            HeartbeatThread::start(&self.client, self.retries, Arc::clone(&lease_table), pending)?;
        let shared = Arc::new(SharedState {
            client,
            task_client: self.client,
            worker_id,
            tasks: self.tasks,
            lease_table,
            outbox,
            calls,
            events: self.events,
            clock: self.clock,
            log_switch: LogSwitch::default(),
            awaits_starts: self.awaits_starts,
            cleanup_timeout: self.cleanup_timeout,
            draining: CancellationToken::new(),
            drain_expired: CancellationToken::new(),
            running_leases: Mutex::default(),
        });
        Ok(Begun {
            shared,
            heartbeat_thread,
            queues: self.queues,
            concurrency: self.concurrency,
            retries: self.retries,
            shutdown_timeout: self.shutdown_timeout,
        })
    }

    /// The name that was given, for the worker of an endpoint.
    pub(crate) fn given_name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> Result<(), Error> {
        let missing = if self.queues.is_empty() {
            "a worker needs a queue to fetch work from; handle a `Kind`, or call `.queue(…)`"
        } else if self.tasks.is_empty() {
            "a worker needs a task to run; call `.handle(…)` or `.durable(…)`"
        } else {
            return Ok(());
        };
        Err(Error::Setup(missing.to_owned()))
    }
}

/// A worker whose attempts can run.
pub(crate) struct Begun {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) heartbeat_thread: HeartbeatThread,
    queues: Vec<String>,
    pub(crate) concurrency: usize,
    retries: Retries,
    shutdown_timeout: Duration,
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

pub(crate) fn instance_id(name: &str) -> Result<String, Error> {
    let random = random_hex()?;
    Ok(format!("{name}-{}", &random[..INSTANCE_CHARS]))
}

pub(crate) async fn termination_signal() {
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
