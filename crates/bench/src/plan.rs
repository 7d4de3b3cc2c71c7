//! What is measured, in which order.

use std::path::PathBuf;
use std::time::Duration;

use crate::embedded::Embedded;
use crate::load::{self, Observed};
use crate::measurement::{Measurement, Mode, median};
use crate::process::rss_mib;
use crate::remote::Remote;
use crate::server::{Scratch, Server, address};
use crate::transport::Nothing;
use crate::trouble::Trouble;
use crate::{backlog, latency, long};

const CONCURRENCIES: [usize; 4] = [1, 16, 64, 256];

/// Where the figures are promised; compared often enough for a median.
const PROMISED: usize = 256;
const ROUNDS: usize = 5;

/// The transport alone is steady: a part of the time is enough for it.
const TRANSPORT_SHARE: u32 = 3;

/// Below this a measurement is a trial, of which one is enough.
const COMPARABLE: Duration = Duration::from_millis(500);

/// Tasks for bulk submit and drain, for each second of a measurement.
const BACKLOG_PER_SECOND: f64 = 40_000.0;
const BACKLOG_MIN: usize = 4_000;

#[derive(Clone, Debug)]
pub struct Options {
    /// How long each single measurement lasts.
    pub span: Duration,
    pub target: Target,
    /// What is started as `program serve`.
    pub program: PathBuf,
    pub extent: Extent,
}

#[derive(Clone, Debug)]
pub enum Target {
    /// Servers of our own, on new stores in this folder: it says which disk is measured.
    Own { folder: PathBuf },
    /// A server that runs already. Nothing is known of its process, and its store is not empty.
    Running { url: String, key: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Within three minutes.
    Usual,
    /// Also with a hundred thousand and a million tasks.
    Long,
}

/// Measures, saying what is going on and how far it is (0 to 1).
pub async fn run(
    options: &Options,
    mut progress: impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, Trouble> {
    match &options.target {
        Target::Own { folder } => {
            let scratch = Scratch::new(folder)?;
            let mut rows = own(options, &scratch, &mut progress).await?;
            if options.extent == Extent::Long {
                rows.extend(long::measure(options, &scratch, |what| progress(what, 1.0)).await?);
            }
            Ok(rows)
        }
        Target::Running { url, key } => {
            let (address, key) = (address(url)?, key.clone());
            let queue = format!("bench-{}", std::process::id());
            running(options, &Remote { address, key, queue, mode: Mode::Single }, progress).await
        }
    }
}

fn round_count(concurrency: usize, span: Duration) -> usize {
    if concurrency == PROMISED && span >= COMPARABLE { ROUNDS } else { 1 }
}

fn backlog_size(span: Duration) -> usize {
    ((span.as_secs_f64() * BACKLOG_PER_SECOND) as usize).max(BACKLOG_MIN)
}

async fn own(
    options: &Options,
    scratch: &Scratch,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, Trouble> {
    let mut done = 0.0;
    let total = (2 * (CONCURRENCIES.len() - 1 + ROUNDS) + 2) as f64;
    progress("one task at a time", done / total);
    let server = Server::start(&options.program, &scratch.store()?, None).await?;
    let mut rows = latency::idle(&server.remote, options.span).await?;
    server.kill().await?;
    done += 1.0;
    for mode in [Mode::Single, Mode::Batch] {
        for concurrency in CONCURRENCIES {
            let mut rounds = Vec::new();
            for _ in 0..round_count(concurrency, options.span) {
                progress(&format!("{mode:?}, {concurrency} at once"), done / total);
                rounds.push(round(options, scratch, mode, concurrency).await?);
                done += 1.0;
            }
            rows.extend(compared(mode, concurrency, &rounds));
        }
    }
    progress("bulk submit and drain", done / total);
    let server = Server::start(&options.program, &scratch.store()?, None).await?;
    let remote = server.remote.with(Mode::Batch, "backlog");
    rows.extend(fill_and_drain(options, &remote, Some(server.pid)).await?);
    server.kill().await?;
    Ok(rows)
}

async fn fill_and_drain(
    options: &Options,
    remote: &Remote,
    server: Option<u32>,
) -> Result<[Measurement; 2], Trouble> {
    let count = backlog_size(options.span);
    let filled = backlog::fill(remote, count, server).await?;
    Ok([filled, backlog::drain(remote, count, server).await?])
}

async fn running(
    options: &Options,
    remote: &Remote,
    mut progress: impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, Trouble> {
    progress("one task at a time", 0.0);
    let mut rows = latency::idle(remote, options.span).await?;
    let queue = remote.queue.clone();
    for mode in [Mode::Single, Mode::Batch] {
        for concurrency in CONCURRENCIES {
            progress(&format!("{mode:?}, {concurrency} at once"), rows.len() as f64 / 12.0);
            let remote = remote.with(mode, &queue);
            let seen = load::observe(&remote, mode, concurrency, options.span, None).await?;
            rows.push(row_of("lifecycles", mode, concurrency, &seen, None));
        }
    }
    let backlog = remote.with(Mode::Batch, &format!("{queue}-backlog"));
    rows.extend(fill_and_drain(options, &backlog, None).await?);
    Ok(rows)
}

/// The server, the engine alone, the transport alone, one after the other, so that what else the
/// machine does meets all three.
struct Round {
    served: Observed,
    rss_mib: Option<f64>,
    engine: Observed,
    transport: Observed,
}

async fn round(
    options: &Options,
    scratch: &Scratch,
    mode: Mode,
    concurrency: usize,
) -> Result<Round, Trouble> {
    let server = Server::start(&options.program, &scratch.store()?, None).await?;
    let remote = server.remote.with(mode, "bench");
    let pid = Some(server.pid);
    let served = load::observe(&remote, mode, concurrency, options.span, pid).await?;
    let rss_mib = rss_mib(server.pid);
    server.kill().await?;
    let engine = Embedded::start(&scratch.store()?).await?;
    let alone = load::observe(&engine, mode, concurrency, options.span, None).await?;
    engine.stop().await;
    let nothing = Nothing::start(mode).await?;
    let span = options.span / TRANSPORT_SHARE;
    let transport = load::observe(&nothing.remote, mode, concurrency, span, None).await?;
    nothing.stop();
    Ok(Round { served, rss_mib, engine: alone, transport })
}

/// Three rows, each of medians: the server with its ceiling, the engine alone, the transport alone.
fn compared(mode: Mode, concurrency: usize, rounds: &[Round]) -> [Measurement; 3] {
    let row = |name: &str, seen: fn(&Round) -> &Observed| {
        let rows = rounds.iter().map(|round| row_of(name, mode, concurrency, seen(round), None));
        middle(rows.collect())
    };
    let engine = row("engine alone", |round| &round.engine);
    let served = Measurement {
        ceiling_per_second: engine.lifecycles_per_second,
        rss_mib: median(rounds.iter().filter_map(|round| round.rss_mib).collect()),
        ..row("lifecycles", |round| &round.served)
    };
    [served, engine, row("transport alone", |round| &round.transport)]
}

/// The medians of rows that measured the same.
fn middle(rows: Vec<Measurement>) -> Measurement {
    let of =
        |member: fn(&Measurement) -> Option<f64>| median(rows.iter().filter_map(member).collect());
    Measurement {
        lifecycles_per_second: of(|row| row.lifecycles_per_second),
        p50_ms: of(|row| row.p50_ms),
        p99_ms: of(|row| row.p99_ms),
        cpu_micros_per_lifecycle: of(|row| row.cpu_micros_per_lifecycle),
        bytes_per_lifecycle: of(|row| row.bytes_per_lifecycle),
        client_micros_per_lifecycle: of(|row| row.client_micros_per_lifecycle),
        ..rows[0].clone()
    }
}

/// The engine alone has no process of its own: what the measurement used is what it used.
pub(crate) fn row_of(
    name: &str,
    mode: Mode,
    concurrency: usize,
    seen: &Observed,
    rss_mib: Option<f64>,
) -> Measurement {
    let each = seen.lifecycles.max(1) as f64;
    let is_alone = name == "engine alone";
    let used = seen.server.or(is_alone.then_some(seen.own));
    Measurement {
        concurrency: Some(concurrency),
        mode: Some(mode),
        lifecycles_per_second: Some(seen.per_second()),
        cpu_micros_per_lifecycle: used.map(|used| used.cpu_micros / each),
        bytes_per_lifecycle: used.map(|used| used.written_bytes / each),
        rss_mib,
        client_micros_per_lifecycle: (!is_alone).then_some(seen.own.cpu_micros / each),
        ..Measurement::named(name).with_latencies(seen.latencies.clone())
    }
}
