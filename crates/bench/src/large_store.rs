//! The same load on stores with many tasks.

use tokio::time::Instant;

use crate::backlog;
use crate::error::BenchError;
use crate::load;
use crate::measurement::{Measurement, Mode};
use crate::plan::{Options, row_of};
use crate::server::Servers;
use crate::store_factory::StoreFactory;

/// Callers in the closed loop, as in the figures for an empty store.
const CONCURRENCY: usize = 256;

/// A separate queue, so that its tasks stay queued.
const HEAP: &str = "heap";

pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    mut say: impl FnMut(&str),
) -> Result<Vec<Measurement>, BenchError> {
    say("nothing queued, nothing done");
    let (server, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let mut rows = vec![measure_load(options, &server, "with nothing queued").await?];
    server.kill().await?;
    for queued in [100_000, 1_000_000] {
        say(&format!("{queued} queued"));
        rows.extend(queue(options, stores, queued).await?);
    }
    say("1000000 done");
    rows.extend(done(options, stores, 1_000_000).await?);
    Ok(rows)
}

async fn queue(
    options: &Options,
    stores: &StoreFactory,
    count: usize,
) -> Result<Vec<Measurement>, BenchError> {
    let (server, store) = Servers::on_new_store(&options.program, stores, 1).await?;
    let heap = server.remote.with(Mode::Batch, HEAP);
    let mut filled = backlog::fill(&heap, count, &server.monitored).await?;
    filled.name = format!("bulk submit of {count}");
    let loaded = measure_load(options, &server, &format!("with {count} queued")).await?;
    let key = server.remote.key.clone();
    server.kill().await?;
    let began = Instant::now();
    let again = Servers::start(&options.program, stores, &store, 1, Some(&key)).await?;
    let ready = Measurement {
        p50_ms: Some(began.elapsed().as_secs_f64() * 1000.0),
        rss_mib: again.monitored.rss_mib(),
        ..Measurement::named(&format!("ready after kill -9 with {count} queued"))
    };
    again.kill().await?;
    Ok(vec![filled, loaded, ready])
}

async fn done(
    options: &Options,
    stores: &StoreFactory,
    count: usize,
) -> Result<Vec<Measurement>, BenchError> {
    let (server, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let heap = server.remote.with(Mode::Batch, HEAP);
    backlog::fill(&heap, count, &server.monitored).await?;
    let mut drained = backlog::drain(&heap, count, &server.monitored).await?;
    drained.name = format!("drain of {count}");
    let loaded = measure_load(options, &server, &format!("with {count} done")).await?;
    server.kill().await?;
    Ok(vec![drained, loaded])
}

pub(crate) async fn measure_load(
    options: &Options,
    server: &Servers,
    name: &str,
) -> Result<Measurement, BenchError> {
    let remote = server.remote.with(Mode::Batch, "bench");
    let monitored = &server.monitored;
    let seen = load::observe(&remote, Mode::Batch, CONCURRENCY, options.span, monitored).await?;
    let row = row_of(name, Mode::Batch, CONCURRENCY, &seen);
    Ok(Measurement { rss_mib: monitored.rss_mib(), ..row })
}
