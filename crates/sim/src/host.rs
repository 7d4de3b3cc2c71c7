//! A machine that runs a coordinator: the production code with its production routes, in a separate runtime whose
//! time advances only when the world advances it.
//!
//! A crash drops the runtime with everything in it, at whatever await point each task has reached. During a pause the
//! world continues without the host; when the pause ends, the host's clock has jumped. The clock may run faster or
//! slower than true time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use coordinator::admit::{ApiKeys, Keyring};
use coordinator::http::{AppState, Timeouts, router};
use coordinator::{Coordinator, Options, SeededEntropy, StopReason};
use http_body_util::BodyExt;
use store::{Failure, Store};
use storetest::MemoryStore;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tower::ServiceExt;
use verdict::{Retention, SupportedRules};

use crate::clock::HostClock;
use crate::network::{CallId, HttpRequest, HttpResponse};
use crate::options::Topology;
use crate::store_faults::{SimStore, StoreFaults};

/// How long a stopping coordinator lets calls finish.
const DRAIN: Duration = Duration::from_millis(300);

/// One process of the coordinator.
struct HostProcess {
    runtime: Runtime,
    began: Instant,
    elapsed_us: u64,
    /// Time that passed while the process was paused.
    missed_us: u64,
    state: Arc<Mutex<ProcessState>>,
    calls: BTreeMap<u64, (CallId, AbortHandle)>,
    calls_made: u64,
}

#[derive(Default)]
struct ProcessState {
    serving: Option<Serving>,
    /// Why the process ended, if it has.
    ended: Option<String>,
    /// Answers by call number.
    answered: Vec<(u64, HttpResponse)>,
}

#[derive(Clone)]
struct Serving {
    routes: Router,
    coordinator: Coordinator,
}

pub(crate) struct Host {
    topology: Topology,
    drift_ppm: i64,
    pub(crate) clock: Arc<HostClock>,
    /// The reading of the host's monotonic clock.
    monotonic_us: u64,
    process: Option<HostProcess>,
    /// The rule versions that its next process supports, and those of every process after that.
    knows: [SupportedRules; 2],
    pub(crate) paused_until: Option<u64>,
    pub(crate) down_until: u64,
}

fn lock(state: &Mutex<ProcessState>) -> MutexGuard<'_, ProcessState> {
    state.lock().expect("no code panics while it holds the state")
}

/// The parameters of a new process.
pub(crate) struct Boot {
    pub(crate) host: usize,
    /// Number of committers; `None` draws one or two.
    pub(crate) committers: Option<usize>,
    pub(crate) retention: Retention,
    pub(crate) store_faults: StoreFaults,
    pub(crate) entropy: u64,
    pub(crate) signing_key: [u8; 32],
    pub(crate) database_ms: u64,
    /// Whether there are deployments, whose roles coordinators run.
    pub(crate) has_roles: bool,
}

impl Host {
    pub(crate) fn new(topology: Topology, drift_ppm: i64, knows: [SupportedRules; 2]) -> Self {
        Self {
            topology,
            drift_ppm,
            clock: Arc::new(HostClock::new()),
            monotonic_us: 0,
            process: None,
            knows,
            paused_until: None,
            down_until: 0,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.process.as_ref().is_some_and(|process| lock(&process.state).serving.is_some())
    }

    /// Starts a process on the store that `open` returns, under this host's clock.
    pub(crate) fn boot(&mut self, boot: Boot, open: impl FnOnce(&Arc<HostClock>) -> MemoryStore) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime with only a timer needs nothing from the system");
        let entered = runtime.enter();
        let began = virtual_now();
        self.clock.anchor(began, self.anchor_ms(boot.database_ms));
        let [knows, later] = self.knows;
        self.knows = [later; 2];
        let inner = open(&self.clock).with_rules(knows);
        // Over a database half of the starts have two writers: both variants must be correct, also side by side.
        let has_two = boot.store_faults.database.is_enabled() && boot.entropy.is_multiple_of(2);
        let committers = boot.committers.unwrap_or(1 + usize::from(has_two));
        let (store_faults, host, given) = (boot.store_faults.clone(), boot.host, Arc::default());
        let store = SimStore { inner, store_faults, committers, host, given };
        let state = Arc::new(Mutex::new(ProcessState::default()));
        runtime.spawn(run_process(store, boot, state.clone()));
        drop(entered);
        self.process = Some(HostProcess {
            runtime,
            began,
            elapsed_us: 0,
            missed_us: 0,
            state,
            calls: BTreeMap::new(),
            calls_made: 0,
        });
    }

    fn anchor_ms(&self, database_ms: u64) -> u64 {
        match self.topology {
            Topology::Embedded => self.monotonic_us / 1_000,
            Topology::Shared => database_ms,
        }
    }

    /// Advances true time.
    pub(crate) fn advance(&mut self, millis: u64, database_ms: u64) {
        let rate = (1_000_000 + self.drift_ppm) as u64;
        let passed_us = millis * rate / 1_000;
        self.monotonic_us += passed_us;
        let is_paused = self.paused_until.is_some();
        let Some(process) = &mut self.process else { return };
        process.elapsed_us += passed_us;
        if is_paused {
            process.missed_us += passed_us;
            return;
        }
        let target = process.began + Duration::from_micros(process.elapsed_us);
        let jump = Duration::from_micros(std::mem::take(&mut process.missed_us));
        let (clock, topology) = (&self.clock, self.topology);
        process.runtime.block_on(async move {
            if !jump.is_zero() {
                tokio::time::advance(jump).await;
            }
            if topology == Topology::Shared {
                clock.anchor(virtual_now(), database_ms);
            }
            tokio::time::sleep_until(target).await;
        });
    }

    /// Delivers a request to the coordinator; `false` if no process is listening.
    pub(crate) fn deliver(&mut self, ask: HttpRequest, call_id: CallId) -> bool {
        let Some(process) = &mut self.process else { return false };
        let serving = lock(&process.state).serving.clone();
        let Some(Serving { routes, .. }) = serving else { return false };
        process.calls_made += 1;
        let number = process.calls_made;
        let answered = process.state.clone();
        let handler = process.runtime.spawn(async move {
            let reply = answer(routes, ask).await;
            lock(&answered).answered.push((number, reply));
        });
        process.calls.insert(number, (call_id, handler.abort_handle()));
        true
    }

    /// The caller has disconnected: its handler is dropped at its current await point.
    pub(crate) fn hang_up(&mut self, call_id: CallId) {
        let Some(process) = &mut self.process else { return };
        process.calls.retain(|_, (of, handler)| {
            let is_over = *of == call_id;
            if is_over {
                handler.abort();
            }
            !is_over
        });
    }

    /// Answers since the last call of this function.
    pub(crate) fn answers(&mut self) -> Vec<(CallId, HttpResponse)> {
        let Some(process) = &mut self.process else { return Vec::new() };
        let answered = std::mem::take(&mut lock(&process.state).answered);
        let call_ids = answered.into_iter().filter_map(|(number, reply)| {
            let (call_id, _) = process.calls.remove(&number)?;
            Some((call_id, reply))
        });
        call_ids.collect()
    }

    /// Why the process ended on its own, if it did.
    pub(crate) fn ended(&self) -> Option<String> {
        self.process.as_ref().and_then(|process| lock(&process.state).ended.clone())
    }

    /// Asks the process to shut down gracefully.
    pub(crate) fn stop(&self) {
        let Some(process) = &self.process else { return };
        let Some(Serving { coordinator, .. }) = lock(&process.state).serving.clone() else {
            return;
        };
        process.runtime.spawn(async move {
            coordinator.drain();
            tokio::time::sleep(DRAIN).await;
            coordinator.stop().await;
        });
    }

    /// Kills the process; returns the calls whose connections are reset.
    pub(crate) fn crash(&mut self) -> Vec<CallId> {
        self.paused_until = None;
        let Some(process) = self.process.take() else { return Vec::new() };
        let call_ids = process.calls.values().map(|(call_id, _)| *call_id).collect();
        drop(process);
        call_ids
    }
}

/// The whole life of a process.
async fn run_process(store: SimStore, boot: Boot, state: Arc<Mutex<ProcessState>>) {
    let has_roles = boot.has_roles;
    let ended = match start(store, boot).await {
        Err(failure) => format!("did not start: {failure}"),
        Ok(serving) => {
            let coordinator = serving.coordinator.clone();
            let recovering = coordinator.clone();
            tokio::spawn(async move { recovering.carry_out_recovery().await });
            if has_roles {
                let working = coordinator.clone();
                tokio::spawn(async move { working.run_roles().await });
            }
            lock(&state).serving = Some(serving);
            match coordinator.stopped().await {
                StopReason::Drained => "drained".to_owned(),
                StopReason::Fatal(why) => format!("fatal: {why}"),
                StopReason::Outdated(why) => format!("outdated: {why}"),
            }
        }
    };
    let mut state = lock(&state);
    state.serving = None;
    state.ended = Some(ended);
}

async fn start(store: SimStore, boot: Boot) -> Result<Serving, Failure> {
    let keys = ApiKeys::load(Store::browse(&store)).await?;
    let entropy = Box::new(SeededEntropy::new(boot.entropy));
    let options = Options { entropy, retention: boot.retention, ..Options::default() };
    let coordinator = Coordinator::start(store, options).await?;
    let app = AppState::new(
        coordinator.clone(),
        Keyring::from_bytes(boot.signing_key),
        keys,
        "http://sim".to_owned(),
        Timeouts::default(),
        SeededEntropy::new(boot.entropy ^ 1),
    );
    Ok(Serving { routes: router(app), coordinator })
}

async fn answer(routes: Router, ask: HttpRequest) -> HttpResponse {
    let mut request = Request::builder()
        .method(ask.method)
        .uri(&ask.path)
        .header("authorization", format!("Bearer {}", ask.bearer));
    if let Some(key) = &ask.idempotency_key {
        request = request.header("idempotency-key", key);
    }
    if ask.body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let body = Body::from(ask.body.unwrap_or_default());
    let request = request.body(body).expect("the world asks in well-formed HTTP");
    let Ok(response) = routes.oneshot(request).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("answers are in memory");
    HttpResponse { status, body: body.to_bytes().to_vec() }
}

/// Virtual time: every runtime here is paused.
pub(crate) fn virtual_now() -> Instant {
    Instant::now()
}
