//! The same load on stores that are no longer small.

use tokio::time::Instant;

use crate::backlog;
use crate::ground::Ground;
use crate::load;
use crate::measurement::{Measurement, Mode};
use crate::plan::{Options, row_of};
use crate::server::Servers;
use crate::trouble::Trouble;

/// Callers in the closed loop, as in the figures for an empty store.
const CONCURRENCY: usize = 256;

/// A queue of its own, so that what waits there stays.
const HEAP: &str = "heap";

pub(crate) async fn measure(
    options: &Options,
    ground: &Ground,
    mut say: impl FnMut(&str),
) -> Result<Vec<Measurement>, Trouble> {
    say("nothing queued, nothing done");
    let (server, _) = Servers::on_new_store(&options.program, ground, 1).await?;
    let mut rows = vec![loop_on(options, &server, "with nothing queued").await?];
    server.kill().await?;
    for queued in [100_000, 1_000_000] {
        say(&format!("{queued} queued"));
        rows.extend(queue(options, ground, queued).await?);
    }
    say("1000000 done");
    rows.extend(done(options, ground, 1_000_000).await?);
    Ok(rows)
}

async fn queue(
    options: &Options,
    ground: &Ground,
    count: usize,
) -> Result<Vec<Measurement>, Trouble> {
    let (server, store) = Servers::on_new_store(&options.program, ground, 1).await?;
    let heap = server.remote.with(Mode::Batch, HEAP);
    let mut filled = backlog::fill(&heap, count, &server.watched).await?;
    filled.name = format!("bulk submit of {count}");
    let loaded = loop_on(options, &server, &format!("with {count} queued")).await?;
    let key = server.remote.key.clone();
    server.kill().await?;
    let began = Instant::now();
    let again = Servers::start(&options.program, ground, &store, 1, Some(&key)).await?;
    let ready = Measurement {
        p50_ms: Some(began.elapsed().as_secs_f64() * 1000.0),
        rss_mib: again.watched.rss_mib(),
        ..Measurement::named(&format!("ready after kill -9 with {count} queued"))
    };
    again.kill().await?;
    Ok(vec![filled, loaded, ready])
}

async fn done(
    options: &Options,
    ground: &Ground,
    count: usize,
) -> Result<Vec<Measurement>, Trouble> {
    let (server, _) = Servers::on_new_store(&options.program, ground, 1).await?;
    let heap = server.remote.with(Mode::Batch, HEAP);
    backlog::fill(&heap, count, &server.watched).await?;
    let mut drained = backlog::drain(&heap, count, &server.watched).await?;
    drained.name = format!("drain of {count}");
    let loaded = loop_on(options, &server, &format!("with {count} done")).await?;
    server.kill().await?;
    Ok(vec![drained, loaded])
}

pub(crate) async fn loop_on(
    options: &Options,
    server: &Servers,
    name: &str,
) -> Result<Measurement, Trouble> {
    let remote = server.remote.with(Mode::Batch, "bench");
    let watched = &server.watched;
    let seen = load::observe(&remote, Mode::Batch, CONCURRENCY, options.span, watched).await?;
    let row = row_of(name, Mode::Batch, CONCURRENCY, &seen);
    Ok(Measurement { rss_mib: watched.rss_mib(), ..row })
}
