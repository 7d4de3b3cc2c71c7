//! The coordinator, as a program embeds it.
//!
//! Cheap to clone; every method may be called from any thread. Nothing is decided here: requests go to the
//! intake, and reads go to the store, past the carrier.

mod leasing;
mod watching;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use prometheus_client::registry::Registry;
use store::{
    Administration, DynBrowse, DynStore, Failure, PeerHint, RemoteChange, RunsOn, Store, TaskKey,
};
use tokio::sync::{oneshot, watch as channel};
use tokio::task::JoinHandle;
use verdict::approval::DecideCall;
use verdict::plan::{PlanRequest, Prepared};
use verdict::recovery::PolicyRequest;
use verdict::request::{Cancel, Heartbeat, Report, Started};
use verdict::run::{RunRequest, SignalCall};
use verdict::schedule::RunSize;
use verdict::scope_budget::BudgetRequest;
use verdict::{LeaseId, Name, Request, Retention, Scope, Text, Time};
#[cfg(feature = "http")]
use verdict::{Moment, ObjectKey};

use crate::Sealer;
use crate::allowances::Allowances;
#[cfg(feature = "http")]
use crate::carry::ObjectSet;
use crate::carry::{Carrier, CarrierOptions, CarrierRole, LeasedCarrier};
use crate::ended_feed::EndedFeed;
use crate::ids::{BufferedEntropy, Entropy, Ids};
use crate::intake::{self, Intake, IntakeReceiver};
#[cfg(feature = "http")]
use crate::item::TopologyItem;
use crate::item::{
    Granted, Item, Outage, RecoveryItem, Reply, RequestError, ScheduleRequest, Submission,
    UnavailableReason, WaitingPage,
};
use crate::metrics::{Metrics, PromiseLabel};
use crate::outbox::{EffectFeed, EndpointDirectory};
use crate::preparing::{PreparationHint, Preparer};
use crate::recent_runs::RecentRuns;
use crate::recovery::RecoveryDirectory;
use crate::requests::CheckpointRequest;
use crate::set_aside::{SetAsideList, SetAsideTask};
use crate::subjects::ObjectRequest;
use crate::task_watch::TaskWatchers;
use crate::topologies::TopologyDirectory;
use crate::trace::{self, FINAL_EXPORT_TIMEOUT, SpanExport, TaskTrace};
use crate::worker_signals::WorkerSignals;

/// `Retry-After` while leases from before the start are being recovered: the time of one commit.
const RECOVERY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// How often deployments that other coordinators made are read again.
#[cfg(feature = "http")]
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

pub struct Options {
    pub entropy: Box<dyn Entropy>,
    /// Receives what happened to tasks, as spans; `None` exports nothing.
    pub spans: Option<Arc<dyn SpanExport>>,
    /// Which ended tasks are kept while the coordinator runs.
    pub retention: Retention,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            entropy: Box::<BufferedEntropy>::default(),
            spans: None,
            retention: Retention::FOR_EVER,
        }
    }
}

/// Not generic over its store, so that everything above it is compiled once; only the commit loop knows the engine.
#[derive(Clone)]
pub struct Coordinator {
    store: DynStore,
    intake: Intake,
    watch: TaskWatchers,
    recent_runs: RecentRuns,
    signals: WorkerSignals,
    metrics: Metrics,
    set_aside: SetAsideList,
    allowances: Allowances,
    sealer: Arc<OnceLock<Sealer>>,
    ended_feed: EndedFeed,
    endpoints: EndpointDirectory,
    effect_feed: EffectFeed,
    recovery: RecoveryDirectory,
    preparations: PreparationHint,
    topologies: TopologyDirectory,
    registry: Arc<Registry>,
    ready: Arc<AtomicBool>,
    ended: channel::Receiver<Option<StopReason>>,
    /// One per carrier.
    outages: Vec<channel::Receiver<Option<Outage>>>,
    /// The task that exports spans, if there is an exporter.
    exporter_task: Option<Arc<Mutex<Option<JoinHandle<()>>>>>,
}

/// Why a coordinator stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Every request is answered.
    Drained,
    /// The store can no longer be trusted and must be reopened. Holds the reason.
    Fatal(String),
    /// The store is decided by rules that this program does not know: a peer has a newer version. Holds
    /// which.
    Outdated(String),
}

impl Coordinator {
    /// Starts the coordinator. Returns once live leases are extended by the time in which no coordinator ran,
    /// so that the first answer already takes it into account.
    pub async fn start<S: Store>(store: S, options: Options) -> Result<Self, Failure> {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let begun = tokio::time::Instant::now();
        metrics.start_time_seconds.set(store.now().millis() as f64 / 1_000.0);
        let opened = store.status();
        for &(promise, is_given) in opened.promises.iter() {
            metrics.promises.get_or_create(&PromiseLabel { promise }).set(i64::from(is_given));
        }
        let channels = IntakeChannels::of(opened.committers);
        let intake = channels.intake.clone();
        let (end, ended) = channel::channel(None);
        let shared = DynStore::new(store.clone());
        let allowances = Allowances::load(shared.browse()).await?;
        let endpoints = EndpointDirectory::load(shared.browse()).await?;
        intake.weigh_by(&endpoints);
        let recovery = RecoveryDirectory::load(shared.browse()).await?;
        let topologies = TopologyDirectory::load(shared.browse()).await?;
        let mut coordinator = Self {
            store: shared,
            intake,
            watch: TaskWatchers::default(),
            recent_runs: RecentRuns::default(),
            signals: WorkerSignals::default(),
            set_aside: SetAsideList::new(metrics.set_aside.clone()),
            metrics,
            allowances,
            sealer: Arc::default(),
            ended_feed: EndedFeed::default(),
            endpoints,
            effect_feed: EffectFeed::default(),
            recovery,
            preparations: PreparationHint::default(),
            topologies,
            registry: Arc::new(registry),
            ready: Arc::new(AtomicBool::new(false)),
            ended,
            outages: Vec::new(),
            exporter_task: None,
        };
        coordinator.carry(&store, channels, options, end).await?;
        coordinator.forward_remote_ends();
        coordinator.metrics.recovery_seconds.set(begun.elapsed().as_secs_f64());
        coordinator.ready.store(true, Ordering::SeqCst);
        Ok(coordinator)
    }

    /// Starts one carrier, or two that share the work. The one that handles leases comes first, because it
    /// recovers.
    async fn carry<S: Store>(
        &mut self,
        store: &S,
        channels: IntakeChannels,
        options: Options,
        end: StopSender,
    ) -> Result<(), Failure> {
        let Options { entropy, spans, retention } = options;
        let mut ids = Ids::boxed(entropy);
        let trace_sender = spans.map(|exporter| self.start_exporter(exporter));
        let end = Arc::new(StopLatch { carrying: AtomicUsize::new(channels.count()), end });
        let Some(new_work) = channels.new_work else {
            let role = CarrierRole::Everything;
            let options = self.carrier_options(role, retention, &trace_sender);
            return start(carrier(store, channels.first, ids, options).await?, end).await;
        };
        let options = CarrierOptions {
            firings: Some(channels.intake.new_work_sender()),
            ..self.carrier_options(CarrierRole::Leased, retention, &trace_sender)
        };
        // The carrier that handles leases makes no ids: the other one creates tasks and leases.
        let first = carrier(store, channels.first, Ids::new(ids.fork()), options).await?;
        let leased_carrier = LeasedCarrier {
            intake: channels.intake,
            stall: first.stall_detector(),
            outage: self.outages[0].clone(),
        };
        start(first, end.clone()).await?;
        let role = CarrierRole::NewWork(leased_carrier);
        let options = self.carrier_options(role, Retention::FOR_EVER, &trace_sender);
        start(carrier(store, new_work, ids, options).await?, end).await
    }

    fn carrier_options(
        &mut self,
        role: CarrierRole,
        retention: Retention,
        trace_sender: &Option<trace::TraceSender>,
    ) -> CarrierOptions {
        let (outage, outages) = channel::channel(None);
        self.outages.push(outages);
        CarrierOptions {
            role,
            retention,
            watch: self.watch.clone(),
            recent_runs: self.recent_runs.clone(),
            signals: self.signals.clone(),
            metrics: self.metrics.clone(),
            outage,
            set_aside: self.set_aside.clone(),
            allowances: self.allowances.clone(),
            sealer: self.sealer.clone(),
            ended_feed: self.ended_feed.clone(),
            endpoints: self.endpoints.clone(),
            effect_feed: self.effect_feed.clone(),
            recovery: self.recovery.clone(),
            preparations: self.preparations.clone(),
            topologies: self.topologies.clone(),
            trace_sender: trace_sender.clone(),
            firings: None,
        }
    }

    /// Wakes local waiters of a task that another coordinator has ended or is to cancel, without waiting for their
    /// next poll of the store or their next heartbeat.
    fn forward_remote_ends(&self) {
        if self.store.status().writers == 1 {
            return;
        }
        let (store, mut ended) = (self.store.clone(), self.ended.clone());
        let (watch, signals) = (self.watch.clone(), self.signals.clone());
        let recent_runs = self.recent_runs.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    biased;
                    _ = ended.wait_for(Option::is_some) => return,
                    changes = store.peer_hint(PeerHint::Tasks) => {
                        for change in changes {
                            match change {
                                RemoteChange::Ended(task) => {
                                    signals.forget([task]);
                                    recent_runs.forget([task].into_iter());
                                    watch.changed(&[task]);
                                    watch.ended(&[task], Vec::new());
                                }
                                RemoteChange::CancelRequested(hint) => signals.raise(hint),
                            }
                        }
                    }
                }
            }
        });
    }

    fn start_exporter(&mut self, exporter: Arc<dyn SpanExport>) -> trace::TraceSender {
        let (browse, metrics) = (self.browse().clone(), self.metrics.clone());
        let (trace_sender, exporter_task) =
            trace::open(exporter, browse, metrics, self.ended.clone());
        self.exporter_task = Some(Arc::new(Mutex::new(Some(exporter_task))));
        trace_sender
    }

    /// The `traceparent` a worker continues from: the attempt's span if spans are exported, else the
    /// submitter's.
    pub fn traceparent(&self, granted: &Granted) -> Option<String> {
        let given = granted.spec.traceparent.as_ref().map(|text| text.as_str());
        let trace = TaskTrace::of(granted.task.id, given);
        if self.exporter_task.is_some() && trace.is_sampled() {
            return Some(trace.attempt(granted.lease()).to_string());
        }
        given.map(str::to_owned)
    }

    /// Records new tasks, or finds the ones that own their idempotency keys.
    pub async fn submit(&self, submissions: Vec<Submission>) -> Vec<Reply> {
        self.intake.ask(submissions.into_iter().map(Item::submit).collect()).await
    }

    pub async fn started(&self, key: TaskKey, started: Started) -> Reply {
        self.about(key, Request::Started(started)).await
    }

    pub async fn heartbeat(&self, key: TaskKey, heartbeat: Heartbeat) -> Reply {
        self.about(key, Request::Heartbeat(heartbeat)).await
    }

    pub async fn report(&self, key: TaskKey, report: Report) -> Reply {
        self.about(key, Request::Report(report)).await
    }

    pub async fn starts(&self, starts: Vec<(TaskKey, Started)>) -> Vec<Reply> {
        let items =
            starts.into_iter().map(|(key, started)| Item::asking(key, Request::Started(started)));
        self.intake.ask(items.collect()).await
    }

    pub async fn heartbeats(&self, heartbeats: Vec<(TaskKey, Heartbeat)>) -> Vec<Reply> {
        let items = heartbeats
            .into_iter()
            .map(|(key, heartbeat)| Item::asking(key, Request::Heartbeat(heartbeat)));
        self.intake.ask(items.collect()).await
    }

    pub async fn reports(&self, reports: Vec<(TaskKey, Report)>) -> Vec<Reply> {
        let items =
            reports.into_iter().map(|(key, report)| Item::asking(key, Request::Report(report)));
        self.intake.ask(items.collect()).await
    }

    /// Records steps and children of a durable run, and what it waits for.
    pub async fn checkpoint(&self, key: TaskKey, request: CheckpointRequest) -> Reply {
        let mut replies = self.ask(vec![request.into_item(key)]).await;
        replies.pop().expect("one item has one reply")
    }

    /// Answers each item in order.
    pub(crate) async fn ask(&self, items: Vec<Item>) -> Vec<Reply> {
        self.intake.ask(items).await
    }

    /// Sends a value to a run. It is kept until the run takes it.
    pub async fn signal(&self, key: TaskKey, signal: SignalCall) -> Reply {
        self.about(key, Request::Run(Box::new(RunRequest::Signal(signal)))).await
    }

    /// Decides an approval that a task waits for.
    pub async fn decide(&self, key: TaskKey, call: DecideCall) -> Reply {
        self.about(key, Request::Run(Box::new(RunRequest::Decide(call)))).await
    }

    /// A request about recovery.
    pub async fn recover(&self, item: RecoveryItem) -> Reply {
        let mut replies = self.intake.ask(vec![Item::Recovery(Box::new(item))]).await;
        replies.pop().expect("one request has one reply")
    }

    /// Evaluates recovery candidates that policies leave to the coordinator, and submits the runs of what was decided, until it is
    /// dropped. A served coordinator does so by itself.
    #[cfg(feature = "http")]
    pub async fn carry_out_recovery(&self) {
        let recoverer = crate::recovery::recoverer::Recoverer::new(self.clone());
        recoverer.run(tokio_util::sync::CancellationToken::new()).await;
    }

    /// Runs the roles of deployments, and learns of deployments that other coordinators made, until it is dropped. A served
    /// coordinator does so by itself.
    #[cfg(feature = "http")]
    pub async fn run_roles(&self) {
        let roles = crate::topologies::roles::Roles::new(self.clone());
        let following = async {
            loop {
                tokio::time::sleep(FOLLOW_PAUSE).await;
                // What could not be read is read the next time.
                let _ = self.topologies().reload(self.browse()).await;
            }
        };
        tokio::join!(roles.run(tokio_util::sync::CancellationToken::new()), following);
    }

    /// A request about a deployment.
    #[cfg(feature = "http")]
    pub(crate) async fn deploy(&self, item: TopologyItem) -> Reply {
        let mut replies = self.intake.ask(vec![Item::Topology(Box::new(item))]).await;
        replies.pop().expect("one request has one reply")
    }

    /// A request about a schedule.
    pub async fn schedule(&self, item: ScheduleRequest) -> Reply {
        self.schedule_of_size(item, RunSize::ONE).await
    }

    /// The same, where the caller knows how large a run of the schedule is.
    pub(crate) async fn schedule_of_size(&self, item: ScheduleRequest, size: RunSize) -> Reply {
        self.object(ObjectRequest::of_schedule(item, size)).await
    }

    /// A request about the budget of a workspace or tenant.
    pub async fn budget(&self, item: BudgetRequest) -> Reply {
        self.object(ObjectRequest::Budget(item)).await
    }

    /// A request about a recovery policy.
    pub async fn recovery_policy(&self, item: PolicyRequest) -> Reply {
        self.object(ObjectRequest::Policy(item)).await
    }

    async fn object(&self, request: ObjectRequest) -> Reply {
        let mut replies = self.intake.ask(vec![Item::Object(Box::new(request))]).await;
        replies.pop().expect("one request has one reply")
    }

    /// Lets a diverged run continue.
    pub async fn resume(&self, key: TaskKey) -> Reply {
        self.about(key, Request::Run(Box::new(RunRequest::Resume))).await
    }

    /// Lets workers of every build continue a run that is pinned to one.
    pub async fn unpin(&self, key: TaskKey) -> Reply {
        self.about(key, Request::Run(Box::new(RunRequest::Unpin))).await
    }

    pub async fn cancel(&self, key: TaskKey, cancel: Cancel) -> Reply {
        self.about(key, Request::Cancel(cancel)).await
    }

    /// Writes an administrative act with its audit entry. Goes through the carrier, which owns the writer.
    pub async fn administer(&self, act: Administration) -> Result<(), RequestError> {
        self.intake.administer(act).await
    }

    /// Hands back grants whose answer could not be delivered. Best effort: lease expiry does the same, later.
    pub fn release(&self, grants: Vec<(TaskKey, LeaseId)>) {
        self.intake.hand_back(grants.into_iter());
    }

    /// The input of a granted stage refers to what is not there: the grant is taken back, and the stage ends for good.
    pub async fn input_unresolved(
        &self,
        key: TaskKey,
        lease: LeaseId,
        message: Text,
    ) -> Vec<Reply> {
        let request = PlanRequest::InputUnresolved { message };
        let request = Request::Run(Box::new(RunRequest::Plan(request)));
        let taken_back = Item::undelivered(key.clone(), lease);
        let mut replies = self.intake.ask(vec![taken_back]).await;
        replies.extend(self.intake.ask(vec![Item::asking(key, request)]).await);
        replies
    }

    /// What was found of the outputs that a step depends on.
    pub(crate) async fn prepared(&self, key: TaskKey, prepared: Prepared) -> Reply {
        let request = PlanRequest::Prepared(prepared);
        self.about(key, Request::Run(Box::new(RunRequest::Plan(request)))).await
    }

    /// Judges the conditions of steps, and composes what people are asked, until it is dropped. A served coordinator does so by itself.
    pub async fn prepare_steps(&self) {
        let preparer = Preparer::new(self.clone());
        preparer.run(tokio_util::sync::CancellationToken::new()).await;
    }

    async fn about(&self, key: TaskKey, request: Request) -> Reply {
        let mut replies = self.intake.ask(vec![Item::asking(key, request)]).await;
        replies.pop().expect("one item has one reply")
    }

    pub fn store(&self) -> &DynStore {
        &self.store
    }

    pub fn browse(&self) -> &DynBrowse {
        self.store.browse()
    }

    /// The store's time, the only one that decisions use.
    pub fn now(&self) -> Time {
        self.store.now()
    }

    /// Seals audit entries from now on. Only the first sealer is used.
    #[cfg(feature = "http")]
    pub(crate) fn seal_with(&self, sealer: Sealer) {
        let is_first = self.sealer.set(sealer).is_ok();
        debug_assert!(is_first, "two sealers would make two chains");
    }

    /// Writes seals of records.
    #[cfg(feature = "http")]
    pub(crate) async fn seal_records(
        &self,
        seals: Vec<store::RecordSeal>,
    ) -> Result<(), RequestError> {
        self.intake.seal_records(seals).await
    }

    /// Which tasks end in the commits of this coordinator.
    #[cfg(feature = "http")]
    pub(crate) fn ended_feed(&self) -> &EndedFeed {
        &self.ended_feed
    }

    /// Refuses a call of new work while the coordinator drains, before it looks anything up.
    #[cfg(feature = "http")]
    pub(crate) fn refuse_if_draining(&self) -> Result<(), RequestError> {
        if self.intake.is_draining() { Err(RequestError::ShuttingDown) } else { Ok(()) }
    }

    /// Which endpoints there are.
    #[cfg(feature = "http")]
    pub(crate) fn endpoints(&self) -> &EndpointDirectory {
        &self.endpoints
    }

    /// Where steps of plans wait to be prepared.
    pub(crate) fn preparations(&self) -> &PreparationHint {
        &self.preparations
    }

    /// For which runs recovery is wanted.
    #[cfg(feature = "http")]
    pub(crate) fn recovery(&self) -> &RecoveryDirectory {
        &self.recovery
    }

    /// Which deployments there are.
    #[cfg(feature = "http")]
    pub(crate) fn topologies(&self) -> &TopologyDirectory {
        &self.topologies
    }

    /// Which effects become ready in the commits of this coordinator.
    #[cfg(feature = "http")]
    pub(crate) fn effect_feed(&self) -> &EffectFeed {
        &self.effect_feed
    }

    /// Decides about objects alone: loads and locks those with these keys, calls `decide`, and returns what it returned
    /// once its changes are durable. `decide` is called again if another writer was first, so only its last result counts.
    #[cfg(feature = "http")]
    pub(crate) async fn decide_objects<T: Send + 'static>(
        &self,
        keys: Vec<ObjectKey>,
        mut decide: impl FnMut(&mut ObjectSet, Moment) -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        let result = Arc::new(Mutex::new(None));
        let decided = result.clone();
        let decide = Box::new(move |objects: &mut ObjectSet, at: Moment| {
            *decided.lock().expect("nobody panics holding it") = Some(decide(objects, at));
        });
        self.intake.decide_objects(keys, decide).await?;
        let result = result.lock().expect("nobody panics holding it").take();
        result.ok_or(RequestError::Unknown)
    }

    /// The limits of tenants and their use.
    #[cfg(feature = "http")]
    pub(crate) fn allowances(&self) -> &Allowances {
        &self.allowances
    }

    /// How many runs of each of these tenants wait or run. If other coordinators write too, only the store
    /// knows.
    #[cfg(feature = "http")]
    pub(crate) async fn unfinished(&self, tenants: &[Name]) -> Result<Vec<u64>, Failure> {
        if self.store.status().writers > 1 {
            return store::Browse::unfinished(self.browse(), tenants).await;
        }
        Ok(tenants.iter().map(|tenant| self.allowances.unfinished(tenant).runs).collect())
    }

    /// Tasks that cannot be processed, for operators.
    pub fn set_aside(&self) -> Vec<SetAsideTask> {
        self.set_aside.list(tokio::time::Instant::now())
    }

    #[cfg(feature = "http")]
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Proves progress: a batch went through the carrier, and the store accepts writes.
    pub async fn is_progressing(&self) -> Result<(), RequestError> {
        if self.ended.borrow().is_some() || self.intake.is_draining() {
            return Err(RequestError::ShuttingDown);
        }
        if !self.ready.load(Ordering::SeqCst) {
            let outage =
                Outage { reason: UnavailableReason::Recovering, retry_after: RECOVERY_RETRY_AFTER };
            return Err(RequestError::Unavailable(outage));
        }
        self.has_caught_up().await
    }

    /// Waits until the carrier has completed a round. A stall that ended earlier is noticed by then and
    /// leases are extended by it, unless the store refuses the write.
    pub(crate) async fn has_caught_up(&self) -> Result<(), RequestError> {
        self.intake.ping().await?;
        match self.outages.iter().find_map(|outage| *outage.borrow()) {
            Some(outage) => Err(RequestError::Unavailable(outage)),
            None => Ok(()),
        }
    }

    /// How many workers wait now for tasks of this queue and kind.
    pub async fn count_polls(
        &self,
        scope: Scope,
        queue: Name,
        kind: Name,
    ) -> Result<usize, RequestError> {
        self.intake.count_polls(scope, queue, kind).await
    }

    /// The workers of a scope whose polls wait here, by name, after the worker `after`. Polls that wait at other
    /// coordinators of the store are not among them. If `queues` is given, polls are shown as far as they wait at those.
    pub async fn list_polls(
        &self,
        scope: Scope,
        queues: Option<Vec<Name>>,
        after: Option<Name>,
        limit: usize,
    ) -> Result<WaitingPage, RequestError> {
        self.intake.list_polls(scope, queues, after, limit).await
    }

    /// Refuses new work, answers waiting polls empty, and still accepts reports and heartbeats.
    pub fn drain(&self) {
        self.intake.drain();
    }

    /// Accepts nothing more; requests that are already in the intake are still answered.
    pub async fn stop(&self) -> StopReason {
        self.intake.drain();
        self.intake.close().await;
        let ended = self.stopped().await;
        self.flush_spans().await;
        ended
    }

    /// Waits for the last spans for a limited time, and releases the store in any case.
    async fn flush_spans(&self) {
        let exporter_task = self.exporter_task.as_ref();
        let exporter_task =
            exporter_task.and_then(|it| it.lock().expect("nobody panics holding it").take());
        let Some(mut exporter_task) = exporter_task else { return };
        if tokio::time::timeout(FINAL_EXPORT_TIMEOUT, &mut exporter_task).await.is_err() {
            tracing::warn!("the last spans are lost because the collector is too slow");
            exporter_task.abort();
            let _ = exporter_task.await;
        }
    }

    /// Resolves when the carrier has ended, through [`Coordinator::stop`] or because the store failed.
    pub async fn stopped(&self) -> StopReason {
        let mut ended = self.ended.clone();
        let end = ended.wait_for(Option::is_some).await;
        end.ok()
            .and_then(|end| end.clone())
            .unwrap_or_else(|| StopReason::Fatal(carrier_died().what))
    }
}

type StopSender = channel::Sender<Option<StopReason>>;

/// The intake and its receivers, for one carrier or two.
struct IntakeChannels {
    intake: Intake,
    /// Receives everything, or calls under a lease.
    first: IntakeReceiver,
    new_work: Option<IntakeReceiver>,
}

impl IntakeChannels {
    fn of(committers: usize) -> Self {
        if committers == 1 {
            let (intake, first) = intake::for_one_carrier();
            return Self { intake, first, new_work: None };
        }
        let (intake, first, new_work) = intake::for_two_carriers();
        Self { intake, first, new_work: Some(new_work) }
    }

    fn count(&self) -> usize {
        1 + usize::from(self.new_work.is_some())
    }
}

/// The end of all carriers: the first that fails, or the last that has drained.
struct StopLatch {
    carrying: AtomicUsize,
    end: StopSender,
}

impl StopLatch {
    fn carrier_stopped(&self, ended: StopReason) {
        let is_last = self.carrying.fetch_sub(1, Ordering::SeqCst) == 1;
        let has_failed = ended != StopReason::Drained && !faultpoint::mutant(42);
        if has_failed || is_last {
            self.end.send_if_modified(|end| {
                let is_first = end.is_none();
                end.get_or_insert(ended);
                is_first
            });
        }
    }
}

/// Opens a writer and builds a carrier with it.
async fn carrier<S: Store>(
    store: &S,
    receiver: IntakeReceiver,
    ids: Ids,
    options: CarrierOptions,
) -> Result<Carrier<S>, Failure> {
    let writer = store.writer().await?;
    Ok(Carrier::new(store.clone(), writer, ids, receiver, options))
}

/// Starts a carrier on the runtime or thread that its store asks for, and waits until it has recovered.
async fn start<S: Store>(carrier: Carrier<S>, end: Arc<StopLatch>) -> Result<(), Failure> {
    let (recovered, recovery) = oneshot::channel();
    let work = async move {
        let ended = carrier.run(recovered).await;
        end.carrier_stopped(ended);
    };
    match S::RUNS_ON {
        RunsOn::Runtime => {
            tokio::spawn(work);
        }
        RunsOn::OwnThread => {
            let spawned = thread::Builder::new().name("tenure-carry".into()).spawn(move || {
                tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .build()
                    .expect("a runtime with only a timer needs nothing from the system")
                    .block_on(work);
            });
            spawned.expect("the system can start one thread");
        }
    }
    recovery.await.map_err(|_| carrier_died())?
}

fn carrier_died() -> Failure {
    Failure::new(store::FailureKind::Fatal, "the commit loop ended unexpectedly")
}
