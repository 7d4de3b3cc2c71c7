//! The cost of a transaction that is left open.
//!
//! A database keeps every row version that an open snapshot may still see. A queue that is scanned
//! from its head walks over all of them, and gets slower with every task that is taken. So this
//! measures with many tasks queued and the usual load on the same queue, once alone and once beside
//! an idle transaction, each on a new database. The last part of each run is reported separately,
//! because the cost grows with time.

use std::time::Duration;

use crate::backlog;
use crate::database::OldSnapshot;
use crate::error::BenchError;
use crate::load;
use crate::measurement::{Measurement, Mode};
use crate::plan::{COMPARABLE, Options, row_of};
use crate::server::Servers;
use crate::store_factory::{StoreFactory, StoreLocation};

const QUEUED: usize = 20_000;
/// For a trial, whose figures are not compared.
const QUEUED_TRIAL: usize = 2_000;
const CONCURRENCY: usize = 64;

/// The fraction of the time that is reported separately as the end.
const END_SHARE: u32 = 6;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Background {
    Empty,
    IdleTransaction,
}

pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    span: Duration,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    progress("undisturbed", 0.0);
    let alone = under_load(options, stores, span, Background::Empty).await?;
    progress("beside an idle transaction", 0.5);
    let background = under_load(options, stores, span, Background::IdleTransaction).await?;
    let with_ceiling = |(row, whole): (Measurement, &Measurement)| Measurement {
        ceiling_per_second: whole.lifecycles_per_second,
        ..row
    };
    let background: Vec<Measurement> =
        background.into_iter().zip(&alone).map(with_ceiling).collect();
    Ok(alone.into_iter().chain(background).collect())
}

/// The rate before the last part, and the rate of the last part.
async fn under_load(
    options: &Options,
    stores: &StoreFactory,
    span: Duration,
    background: Background,
) -> Result<[Measurement; 2], BenchError> {
    let (server, store) = Servers::on_new_store(&options.program, stores, 1).await?;
    let StoreLocation::Database(url) = &store else { return Err(BenchError::NoDatabase) };
    let remote = server.remote.with(Mode::Batch, "bench");
    let queued = if span < COMPARABLE { QUEUED_TRIAL } else { QUEUED };
    backlog::fill(&remote, queued, &server.monitored).await?;
    let held = match background {
        Background::Empty => None,
        Background::IdleTransaction => Some(OldSnapshot::take(url).await?),
    };
    let end = span / END_SHARE;
    let load = |span| load::observe(&remote, Mode::Batch, CONCURRENCY, span, &server.monitored);
    let (most, last) = (load(span - end).await?, load(end).await?);
    drop(held);
    server.kill().await?;
    let name = match background {
        Background::Empty => format!("{queued} queued, undisturbed"),
        Background::IdleTransaction => format!("{queued} queued, a transaction left open"),
    };
    let at_the_end = format!("{name}, last {} s", end.as_secs());
    Ok([
        row_of(&name, Mode::Batch, CONCURRENCY, &most),
        row_of(&at_the_end, Mode::Batch, CONCURRENCY, &last),
    ])
}
