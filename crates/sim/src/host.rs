//! A machine that runs a coordinator: the real one, with its real routes, in a runtime of its own whose
//! time stands still until the world moves it.
//!
//! A crash drops the runtime with everything in it, wherever it was waiting. A pause lets the world go on
//! without it; when it comes back, its clock has jumped. Its clock may run faster or slower than true time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use coordinator::admit::{ApiKeys, Keyring};
use coordinator::http::{Door, Patience, router};
use coordinator::{Coordinator, Ended, Options, SeededEntropy};
use http_body_util::BodyExt;
use store::Failure;
use store::memory::MemoryStore;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tower::ServiceExt;
use verdict::{Known, Retention};

use crate::clock::HostClock;
use crate::network::{Ask, Reply, Ticket};
use crate::options::Topology;
use crate::weather::{SimStore, Weather};

/// How long a coordinator that was asked to stop lets calls finish.
const DRAIN: Duration = Duration::from_millis(300);

/// One process of the coordinator.
struct Life {
    runtime: Runtime,
    began: Instant,
    elapsed_us: u64,
    /// Time that passed while the process stood still.
    missed_us: u64,
    site: Arc<Mutex<Site>>,
    calls: BTreeMap<u64, (Ticket, AbortHandle)>,
    calls_made: u64,
}

#[derive(Default)]
struct Site {
    serving: Option<Serving>,
    /// The process is over, and why.
    ended: Option<String>,
    /// What was answered, by number of the call.
    answered: Vec<(u64, Reply)>,
}

#[derive(Clone)]
struct Serving {
    routes: Router,
    coordinator: Coordinator<SimStore>,
}

pub(crate) struct Host {
    topology: Topology,
    drift_ppm: i64,
    pub(crate) clock: Arc<HostClock>,
    /// What its own monotonic clock has counted.
    monotonic_us: u64,
    life: Option<Life>,
    /// What its next process knows of the rules: all versions, unless it is the first.
    knows: Known,
    pub(crate) paused_until: Option<u64>,
    pub(crate) down_until: u64,
}

fn site(site: &Mutex<Site>) -> MutexGuard<'_, Site> {
    site.lock().expect("no code panics while it holds a site")
}

/// What a process needs to begin.
pub(crate) struct Boot {
    pub(crate) host: usize,
    /// One or two by chance if it is not said.
    pub(crate) committers: Option<usize>,
    pub(crate) retention: Retention,
    pub(crate) weather: Weather,
    pub(crate) entropy: u64,
    pub(crate) signing_key: [u8; 32],
    pub(crate) database_ms: u64,
}

impl Host {
    pub(crate) fn new(topology: Topology, drift_ppm: i64, knows: Known) -> Self {
        Self {
            topology,
            drift_ppm,
            clock: Arc::new(HostClock::new()),
            monotonic_us: 0,
            life: None,
            knows,
            paused_until: None,
            down_until: 0,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.life.is_some()
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.life.as_ref().is_some_and(|life| site(&life.site).serving.is_some())
    }

    /// Starts a process on the session that `open` gives, under this host's clock.
    pub(crate) fn boot(&mut self, boot: Boot, open: impl FnOnce(&Arc<HostClock>) -> MemoryStore) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime with only a timer needs nothing from the system");
        let entered = runtime.enter();
        let began = virtual_now();
        self.clock.anchor(began, self.anchor_ms(boot.database_ms));
        let knows = std::mem::replace(&mut self.knows, Known::OURS);
        let inner = open(&self.clock).knowing(knows);
        // Over a database half of the starts have two writers: both ways must be right, also side by side.
        let has_two = boot.weather.database.is_there() && boot.entropy.is_multiple_of(2);
        let committers = boot.committers.unwrap_or(1 + usize::from(has_two));
        let (weather, host, given) = (boot.weather.clone(), boot.host, Arc::default());
        let store = SimStore { inner, weather, committers, host, given };
        let site = Arc::new(Mutex::new(Site::default()));
        runtime.spawn(live(store, boot, site.clone()));
        drop(entered);
        self.life = Some(Life {
            runtime,
            began,
            elapsed_us: 0,
            missed_us: 0,
            site,
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

    /// Lets true time pass.
    pub(crate) fn advance(&mut self, millis: u64, database_ms: u64) {
        let rate = (1_000_000 + self.drift_ppm) as u64;
        let passed_us = millis * rate / 1_000;
        self.monotonic_us += passed_us;
        let is_paused = self.paused_until.is_some();
        let Some(life) = &mut self.life else { return };
        life.elapsed_us += passed_us;
        if is_paused {
            life.missed_us += passed_us;
            return;
        }
        let target = life.began + Duration::from_micros(life.elapsed_us);
        let jump = Duration::from_micros(std::mem::take(&mut life.missed_us));
        let (clock, topology) = (&self.clock, self.topology);
        life.runtime.block_on(async move {
            if !jump.is_zero() {
                tokio::time::advance(jump).await;
            }
            if topology == Topology::Shared {
                clock.anchor(virtual_now(), database_ms);
            }
            tokio::time::sleep_until(target).await;
        });
    }

    /// Hands a request to the coordinator; `false` when nobody listens.
    pub(crate) fn deliver(&mut self, ask: Ask, ticket: Ticket) -> bool {
        let Some(life) = &mut self.life else { return false };
        let serving = site(&life.site).serving.clone();
        let Some(Serving { routes, .. }) = serving else { return false };
        life.calls_made += 1;
        let number = life.calls_made;
        let answered = life.site.clone();
        let handler = life.runtime.spawn(async move {
            let reply = answer(routes, ask).await;
            site(&answered).answered.push((number, reply));
        });
        life.calls.insert(number, (ticket, handler.abort_handle()));
        true
    }

    /// The caller is gone: its handler is dropped where it stands.
    pub(crate) fn hang_up(&mut self, ticket: Ticket) {
        let Some(life) = &mut self.life else { return };
        life.calls.retain(|_, (of, handler)| {
            let is_over = *of == ticket;
            if is_over {
                handler.abort();
            }
            !is_over
        });
    }

    /// What was answered since the last look.
    pub(crate) fn answers(&mut self) -> Vec<(Ticket, Reply)> {
        let Some(life) = &mut self.life else { return Vec::new() };
        let answered = std::mem::take(&mut site(&life.site).answered);
        let tickets = answered.into_iter().filter_map(|(number, reply)| {
            let (ticket, _) = life.calls.remove(&number)?;
            Some((ticket, reply))
        });
        tickets.collect()
    }

    /// Why the process has ended by itself, if it has.
    pub(crate) fn ended(&self) -> Option<String> {
        self.life.as_ref().and_then(|life| site(&life.site).ended.clone())
    }

    /// Asks the process to stop in good order.
    pub(crate) fn stop(&self) {
        let Some(life) = &self.life else { return };
        let Some(Serving { coordinator, .. }) = site(&life.site).serving.clone() else { return };
        life.runtime.spawn(async move {
            coordinator.drain();
            tokio::time::sleep(DRAIN).await;
            coordinator.stop().await;
        });
    }

    /// The process is gone; returns the calls whose connections are reset.
    pub(crate) fn crash(&mut self) -> Vec<Ticket> {
        self.paused_until = None;
        let Some(life) = self.life.take() else { return Vec::new() };
        let tickets = life.calls.values().map(|(ticket, _)| *ticket).collect();
        drop(life);
        tickets
    }
}

/// A process from its start to its end.
async fn live(store: SimStore, boot: Boot, place: Arc<Mutex<Site>>) {
    let ended = match start(store, boot).await {
        Err(failure) => format!("did not start: {failure}"),
        Ok(serving) => {
            let coordinator = serving.coordinator.clone();
            site(&place).serving = Some(serving);
            match coordinator.ended().await {
                Ended::Drained => "drained".to_owned(),
                Ended::Fatal(why) => format!("fatal: {why}"),
                Ended::Outdated(why) => format!("outdated: {why}"),
            }
        }
    };
    let mut site = site(&place);
    site.serving = None;
    site.ended = Some(ended);
}

async fn start(store: SimStore, boot: Boot) -> Result<Serving, Failure> {
    let keys = ApiKeys::load(&store).await?;
    let entropy = Box::new(SeededEntropy::new(boot.entropy));
    let host = coordinator::Host::Task;
    let options = Options { host, entropy, retention: boot.retention, ..Options::default() };
    let coordinator = Coordinator::start(store, options).await?;
    let door = Door::new(
        coordinator.clone(),
        Keyring::from_bytes(boot.signing_key),
        keys,
        "http://sim".to_owned(),
        Patience::default(),
        SeededEntropy::new(boot.entropy ^ 1),
    );
    Ok(Serving { routes: router(door), coordinator })
}

async fn answer(routes: Router, ask: Ask) -> Reply {
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
    Reply { status, body: body.to_bytes().to_vec() }
}

/// Virtual time: every runtime here is paused.
pub(crate) fn virtual_now() -> Instant {
    Instant::now()
}
