//! What is measured, and in which order.

use std::path::PathBuf;
use std::time::Duration;

use crate::embedded::Embedded;
use crate::error::BenchError;
use crate::idle_polls::{self, IdlePolls};
use crate::load::{self, Observed};
use crate::measurement::{Measurement, Mode, median};
use crate::remote::Remote;
use crate::resource_usage::Monitored;
use crate::server::{Servers, address};
use crate::shape::{self, Shape};
use crate::store_factory::{StoreFactory, StoreLocation};
use crate::transport::NullServer;
use crate::{backlog, large_store, latency, old_snapshot, sdk, tails};

const CONCURRENCIES: [usize; 4] = [1, 16, 64, 256];

/// The concurrency for which figures are promised; measured often enough for a median.
pub(crate) const PROMISED: usize = 256;
const ROUNDS: usize = 5;

/// The transport alone is steady: a fraction of the time suffices.
const TRANSPORT_SHARE: u32 = 3;

/// So are sequential commits.
const COMMITS_SHARE: u32 = 3;

/// Below this a measurement is only a trial, and one is enough.
pub(crate) const COMPARABLE: Duration = Duration::from_millis(500);

/// Tasks for bulk submit and drain, per second of a measurement.
const BACKLOG_PER_SECOND: f64 = 40_000.0;
/// For a trial: one call of each submitter.
const BACKLOG_TRIAL: usize = 2_000;

#[derive(Clone, Debug)]
pub struct Options {
    /// Duration of each single measurement.
    pub span: Duration,
    pub target: Target,
    /// The binary to start as `program serve`.
    pub program: PathBuf,
    pub extent: Extent,
}

#[derive(Clone, Debug)]
pub enum Target {
    /// Servers that we start, on new stores in this folder, which selects the disk.
    Own { folder: PathBuf },
    /// Servers that we start, on new databases of the server at this address; at the end,
    /// `coordinators` of them on one database.
    Databases { url: String, coordinators: usize },
    /// A running server. Its process is unknown, and its store is not empty.
    Running { url: String, key: String },
}

impl Target {
    pub(crate) fn coordinators(&self) -> usize {
        match self {
            Target::Databases { coordinators, .. } => *coordinators,
            Target::Own { .. } | Target::Running { .. } => 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Takes up to three minutes.
    Usual,
    /// Also with a hundred thousand and a million tasks.
    Long,
    /// Only the cost of a transaction that is left open for this long. Needs a database.
    OldSnapshot(Duration),
    /// Only durable runs of this shape.
    Shape(Shape),
}

/// Measures, and reports the current step and the progress (0 to 1).
pub async fn run(
    options: &Options,
    mut progress: impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    let stores = match &options.target {
        Target::Own { folder } => StoreFactory::files(folder)?,
        Target::Databases { url, .. } => StoreFactory::databases(url).await?,
        Target::Running { url, key } => {
            let queue = format!("bench-{}", std::process::id());
            let remote = Remote::new(vec![address(url)?], key.clone(), Mode::Single);
            return running(options, &remote.with(Mode::Single, &queue), progress).await;
        }
    };
    let measured = match options.extent {
        Extent::OldSnapshot(span) => {
            old_snapshot::measure(options, &stores, span, &mut progress).await
        }
        Extent::Shape(it) => shape::measure(options, &stores, it, &mut progress).await,
        Extent::Usual | Extent::Long => own(options, &stores, &mut progress).await,
    };
    let left = stores.clean_up().await;
    let measured = measured?;
    left.map(|()| measured)
}

/// A trial on a database, where each store must be created and prepared, uses only the promised
/// load.
fn concurrencies(options: &Options) -> &'static [usize] {
    match options.target {
        Target::Databases { .. } if options.span < COMPARABLE => &[PROMISED],
        _ => &CONCURRENCIES,
    }
}

fn round_count(concurrency: usize, span: Duration) -> usize {
    if concurrency == PROMISED && span >= COMPARABLE { ROUNDS } else { 1 }
}

fn backlog_size(span: Duration) -> usize {
    match span < COMPARABLE {
        true => BACKLOG_TRIAL,
        false => (span.as_secs_f64() * BACKLOG_PER_SECOND) as usize,
    }
}

async fn own(
    options: &Options,
    stores: &StoreFactory,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    let mut done = 0.0;
    let concurrencies = concurrencies(options);
    let total = (2 * (concurrencies.len() - 1 + ROUNDS) + 2) as f64;
    progress("one task at a time", done / total);
    let mut rows = one_at_a_time(options, stores).await?;
    done += 1.0;
    for mode in [Mode::Single, Mode::Batch] {
        for &concurrency in concurrencies {
            let mut rounds = Vec::new();
            for _ in 0..round_count(concurrency, options.span) {
                progress(&format!("{mode:?}, {concurrency} at once"), done / total);
                rounds.push(round(options, stores, mode, concurrency).await?);
                done += 1.0;
            }
            rows.extend(compared(options, mode, concurrency, &rounds));
        }
    }
    progress("bulk submit and drain", done / total);
    let (server, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let remote = server.remote.with(Mode::Batch, "backlog");
    rows.extend(fill_and_drain(options, &remote, &server.monitored).await?);
    server.kill().await?;
    progress("through the SDK", done / total);
    rows.extend(sdk::measure(options, stores, backlog_size(options.span)).await?);
    if options.extent == Extent::Long {
        rows.extend(large_store::measure(options, stores, |what| progress(what, 1.0)).await?);
    }
    Ok(rows)
}

/// An idle server; with several of them, also from one to another. For a database, also the time of
/// one commit.
async fn one_at_a_time(
    options: &Options,
    stores: &StoreFactory,
) -> Result<Vec<Measurement>, BenchError> {
    let coordinators = options.target.coordinators().min(2);
    let (servers, store) = Servers::on_new_store(&options.program, stores, coordinators).await?;
    let one = servers.remote_of(0);
    let mut rows = Vec::from(latency::idle(one, one, "idle", options.span).await?);
    if coordinators > 1 {
        let across = latency::idle(one, servers.remote_of(1), "across", options.span).await?;
        rows.extend(
            across
                .map(|row| Measurement { name: format!("{}, two coordinators", row.name), ..row }),
        );
    }
    rows.push(beside_idle_polls(one, options.span).await?);
    servers.kill().await?;
    if let (Some(databases), StoreLocation::Database(url)) = (&stores.databases, &store) {
        let micros = databases.commits(url, options.span / COMMITS_SHARE).await?;
        rows.push(Measurement::named("a commit of the database").with_latencies(micros));
    }
    if let StoreLocation::File(_) = &store {
        rows.push(tails::syncs(stores.state_dir(), options.span / COMMITS_SHARE).await?);
    }
    Ok(rows)
}

/// The same while thousands of workers poll queues that stay empty.
async fn beside_idle_polls(remote: &Remote, span: Duration) -> Result<Measurement, BenchError> {
    let count = if span < COMPARABLE { idle_polls::FEW } else { idle_polls::MANY };
    let polls = IdlePolls::begin(remote, count).await?;
    let [started, _] = latency::idle(remote, remote, "beside-idle", span).await?;
    drop(polls);
    Ok(Measurement { name: format!("{}, {count} idle polls", started.name), ..started })
}

async fn fill_and_drain(
    options: &Options,
    remote: &Remote,
    monitored: &Monitored,
) -> Result<[Measurement; 2], BenchError> {
    let count = backlog_size(options.span);
    let filled = backlog::fill(remote, count, monitored).await?;
    Ok([filled, backlog::drain(remote, count, monitored).await?])
}

async fn running(
    options: &Options,
    remote: &Remote,
    mut progress: impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    progress("one task at a time", 0.0);
    let mut rows = Vec::from(latency::idle(remote, remote, "idle", options.span).await?);
    let (unmonitored, queue) = (Monitored::default(), remote.queue.clone());
    for mode in [Mode::Single, Mode::Batch] {
        for concurrency in CONCURRENCIES {
            progress(&format!("{mode:?}, {concurrency} at once"), rows.len() as f64 / 12.0);
            let remote = remote.with(mode, &queue);
            let seen =
                load::observe(&remote, mode, concurrency, options.span, &unmonitored).await?;
            rows.push(row_of("lifecycles", mode, concurrency, &seen));
        }
    }
    let backlog = remote.with(Mode::Batch, &format!("{queue}-backlog"));
    rows.extend(fill_and_drain(options, &backlog, &unmonitored).await?);
    Ok(rows)
}

/// The server, several of them, the engine alone and the transport alone, one after the other, so
/// that other activity of the machine affects all of them.
struct Round {
    served: Observed,
    rss_mib: Option<f64>,
    /// If several are requested, and only with the load for which figures are promised.
    by_several: Option<Observed>,
    engine: Observed,
    transport: Observed,
}

async fn round(
    options: &Options,
    stores: &StoreFactory,
    mode: Mode,
    concurrency: usize,
) -> Result<Round, BenchError> {
    let (served, rss_mib) = serve(options, stores, 1, 0, (mode, concurrency)).await?;
    let coordinators = options.target.coordinators();
    let is_promised = concurrency == PROMISED && mode == Mode::Batch;
    let by_several = if coordinators > 1 && is_promised {
        Some(serve(options, stores, coordinators, 0, (mode, concurrency)).await?.0)
    } else {
        None
    };
    let engine = engine_alone(options, stores, mode, concurrency).await?;
    let null_server = NullServer::start(mode).await?;
    let span = options.span / TRANSPORT_SHARE;
    let unmonitored = Monitored::default();
    let transport =
        load::observe(&null_server.remote, mode, concurrency, span, &unmonitored).await?;
    null_server.stop();
    Ok(Round { served, rss_mib, by_several, engine, transport })
}

/// A load on servers that are started for it. `steps` is 0 for plain tasks.
pub(crate) async fn serve(
    options: &Options,
    stores: &StoreFactory,
    coordinators: usize,
    steps: usize,
    (mode, concurrency): (Mode, usize),
) -> Result<(Observed, Option<f64>), BenchError> {
    let (servers, _) = Servers::on_new_store(&options.program, stores, coordinators).await?;
    let remote = servers.remote.with(mode, "bench").with_steps(steps);
    let seen = load::observe(&remote, mode, concurrency, options.span, &servers.monitored).await?;
    let rss_mib = servers.monitored.rss_mib();
    servers.kill().await?;
    Ok((seen, rss_mib))
}

async fn engine_alone(
    options: &Options,
    stores: &StoreFactory,
    mode: Mode,
    concurrency: usize,
) -> Result<Observed, BenchError> {
    let database = stores.databases.as_ref().map(|databases| databases.server());
    let monitored = Monitored { servers: Vec::new(), database };
    let load = EngineLoad { mode, concurrency, span: options.span, monitored };
    match stores.create_store().await? {
        StoreLocation::File(path) => load.observe(Embedded::on_file(&path).await?).await,
        StoreLocation::Database(url) => load.observe(Embedded::on_database(&url).await?).await,
    }
}

/// A load on the engine alone, for either kind of store.
struct EngineLoad {
    mode: Mode,
    concurrency: usize,
    span: Duration,
    monitored: Monitored,
}

impl EngineLoad {
    async fn observe(&self, engine: Embedded) -> Result<Observed, BenchError> {
        let Self { mode, concurrency, span, monitored } = self;
        let seen = load::observe(&engine, *mode, *concurrency, *span, monitored).await?;
        engine.stop().await?;
        Ok(Observed { used: seen.used.as_engine(), ..seen })
    }
}

/// Rows of medians: the server with its ceiling, several servers with the same, the engine alone,
/// the transport alone.
fn compared(
    options: &Options,
    mode: Mode,
    concurrency: usize,
    rounds: &[Round],
) -> Vec<Measurement> {
    let row = |name: &str, seen: fn(&Round) -> Option<&Observed>| {
        let seen = rounds.iter().filter_map(seen);
        median_row(seen.map(|seen| row_of(name, mode, concurrency, seen)).collect())
    };
    let mut engine = row("engine alone", |round| Some(&round.engine)).expect("a round has one");
    engine.client_micros_per_lifecycle = None;
    let ceiling_per_second = engine.lifecycles_per_second;
    let served = row("lifecycles", |round| Some(&round.served)).map(|row| Measurement {
        ceiling_per_second,
        rss_mib: median(rounds.iter().filter_map(|round| round.rss_mib).collect()),
        ..row
    });
    let name = format!("lifecycles, {} coordinators", options.target.coordinators());
    let several = row(&name, |round| round.by_several.as_ref());
    let several = several.map(|row| Measurement { ceiling_per_second, ..row });
    let transport = row("transport alone", |round| Some(&round.transport));
    [served, several, Some(engine), transport].into_iter().flatten().collect()
}

/// The medians of rows that measured the same.
pub(crate) fn median_row(rows: Vec<Measurement>) -> Option<Measurement> {
    let of =
        |member: fn(&Measurement) -> Option<f64>| median(rows.iter().filter_map(member).collect());
    Some(Measurement {
        lifecycles_per_second: of(|row| row.lifecycles_per_second),
        p50_ms: of(|row| row.p50_ms),
        p99_ms: of(|row| row.p99_ms),
        cpu_micros_per_lifecycle: of(|row| row.cpu_micros_per_lifecycle),
        database_micros_per_lifecycle: of(|row| row.database_micros_per_lifecycle),
        bytes_per_lifecycle: of(|row| row.bytes_per_lifecycle),
        client_micros_per_lifecycle: of(|row| row.client_micros_per_lifecycle),
        ..rows.first()?.clone()
    })
}

pub(crate) fn row_of(name: &str, mode: Mode, concurrency: usize, seen: &Observed) -> Measurement {
    let row = Measurement {
        concurrency: Some(concurrency),
        mode: Some(mode),
        lifecycles_per_second: Some(seen.per_second()),
        ..Measurement::named(name).with_latencies(seen.latencies.clone())
    };
    seen.used.put(row, seen.lifecycles)
}
