//! What it costs when somebody leaves a transaction open.
//!
//! A database keeps every version of a row that an open snapshot may still see. A queue that is scanned from
//! its head walks over all of them, and gets slower with every task that is taken. So: many tasks queued,
//! the usual load on the same queue, once alone and once beside an idle transaction, each on a new
//! database. The last part of each run is told apart, because the cost grows with time.

use std::time::Duration;

use crate::backlog;
use crate::database::OldSnapshot;
use crate::ground::{Ground, StoreAt};
use crate::load;
use crate::measurement::{Measurement, Mode};
use crate::plan::{Options, row_of};
use crate::server::Servers;
use crate::trouble::Trouble;

const QUEUED: usize = 20_000;
const CONCURRENCY: usize = 64;

/// The share of the time that is told apart as the end.
const END_SHARE: u32 = 6;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nobody,
    IdleTransaction,
}

pub(crate) async fn measure(
    options: &Options,
    ground: &Ground,
    span: Duration,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, Trouble> {
    progress("undisturbed", 0.0);
    let alone = under_load(options, ground, span, Beside::Nobody).await?;
    progress("beside an idle transaction", 0.5);
    let beside = under_load(options, ground, span, Beside::IdleTransaction).await?;
    let with_ceiling = |(row, whole): (Measurement, &Measurement)| Measurement {
        ceiling_per_second: whole.lifecycles_per_second,
        ..row
    };
    let beside: Vec<Measurement> = beside.into_iter().zip(&alone).map(with_ceiling).collect();
    Ok(alone.into_iter().chain(beside).collect())
}

/// The rate of the whole time but its end, and of its end.
async fn under_load(
    options: &Options,
    ground: &Ground,
    span: Duration,
    beside: Beside,
) -> Result<[Measurement; 2], Trouble> {
    let (server, store) = Servers::on_new_store(&options.program, ground, 1).await?;
    let StoreAt::Database(url) = &store else { return Err(Trouble::NoDatabase) };
    let remote = server.remote.with(Mode::Batch, "bench");
    backlog::fill(&remote, QUEUED, &server.watched).await?;
    let held = match beside {
        Beside::Nobody => None,
        Beside::IdleTransaction => Some(OldSnapshot::take(url).await?),
    };
    let end = span / END_SHARE;
    let load = |span| load::observe(&remote, Mode::Batch, CONCURRENCY, span, &server.watched);
    let (most, last) = (load(span - end).await?, load(end).await?);
    drop(held);
    server.kill().await?;
    let name = match beside {
        Beside::Nobody => format!("{QUEUED} queued, undisturbed"),
        Beside::IdleTransaction => format!("{QUEUED} queued, a transaction left open"),
    };
    let at_the_end = format!("{name}, last {} s", end.as_secs());
    Ok([
        row_of(&name, Mode::Batch, CONCURRENCY, &most),
        row_of(&at_the_end, Mode::Batch, CONCURRENCY, &last),
    ])
}
