//! The same load on stores that are no longer small.

use tokio::time::Instant;

use crate::backlog;
use crate::load;
use crate::measurement::{Measurement, Mode};
use crate::plan::{Options, row_of};
use crate::process::rss_mib;
use crate::server::{Scratch, Server};
use crate::trouble::Trouble;

/// Callers in the closed loop, as in the figures for an empty store.
const CONCURRENCY: usize = 256;

/// A queue of its own, so that what waits there stays.
const HEAP: &str = "heap";

pub(crate) async fn measure(
    options: &Options,
    scratch: &Scratch,
    mut say: impl FnMut(&str),
) -> Result<Vec<Measurement>, Trouble> {
    say("nothing queued, nothing done");
    let server = Server::start(&options.program, &scratch.store()?, None).await?;
    let mut rows = vec![loop_on(options, &server, "with nothing queued").await?];
    server.kill().await?;
    for queued in [100_000, 1_000_000] {
        say(&format!("{queued} queued"));
        rows.extend(queue(options, scratch, queued).await?);
    }
    say("1000000 done");
    rows.extend(done(options, scratch, 1_000_000).await?);
    Ok(rows)
}

async fn queue(
    options: &Options,
    scratch: &Scratch,
    count: usize,
) -> Result<Vec<Measurement>, Trouble> {
    let store = scratch.store()?;
    let server = Server::start(&options.program, &store, None).await?;
    let heap = server.remote.with(Mode::Batch, HEAP);
    let mut filled = backlog::fill(&heap, count, Some(server.pid)).await?;
    filled.name = format!("bulk submit of {count}");
    let loaded = loop_on(options, &server, &format!("with {count} queued")).await?;
    let key = server.remote.key.clone();
    server.kill().await?;
    let began = Instant::now();
    let again = Server::start(&options.program, &store, Some(&key)).await?;
    let ready = Measurement {
        p50_ms: Some(began.elapsed().as_secs_f64() * 1000.0),
        rss_mib: rss_mib(again.pid),
        ..Measurement::named(&format!("ready after kill -9 with {count} queued"))
    };
    again.kill().await?;
    Ok(vec![filled, loaded, ready])
}

async fn done(
    options: &Options,
    scratch: &Scratch,
    count: usize,
) -> Result<Vec<Measurement>, Trouble> {
    let server = Server::start(&options.program, &scratch.store()?, None).await?;
    let heap = server.remote.with(Mode::Batch, HEAP);
    backlog::fill(&heap, count, Some(server.pid)).await?;
    let mut drained = backlog::drain(&heap, count, Some(server.pid)).await?;
    drained.name = format!("drain of {count}");
    let loaded = loop_on(options, &server, &format!("with {count} done")).await?;
    server.kill().await?;
    Ok(vec![drained, loaded])
}

async fn loop_on(options: &Options, server: &Server, name: &str) -> Result<Measurement, Trouble> {
    let remote = server.remote.with(Mode::Batch, "bench");
    let pid = Some(server.pid);
    let seen = load::observe(&remote, Mode::Batch, CONCURRENCY, options.span, pid).await?;
    Ok(row_of(name, Mode::Batch, CONCURRENCY, &seen, rss_mib(server.pid)))
}
