//! Flow keys: lifecycles whose runs share many keys, beside plain ones.
//!
//! The keys are used one after the other, so that they are rarely full: what is measured is what a key costs, and not
//! that its limit holds work back.

use crate::error::BenchError;
use crate::goal::{Goal, Side, Unit};
use crate::load;
use crate::measurement::{Measurement, Mode};
use crate::plan::{Options, PROMISED, median_row, row_of};
use crate::server::Servers;
use crate::shape::rounds;
use crate::store_factory::StoreFactory;

/// What lifecycles with keys must keep of the rate of those without.
const SHARE_MIN: f64 = 90.0;

pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    keys: usize,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    let loads = [(0, Mode::Batch), (keys, Mode::Batch)];
    let rounds = rounds(options.span);
    let mut seen: [Vec<Measurement>; 2] = Default::default();
    for round in 0..rounds {
        progress("flow keys", round as f64 / rounds as f64);
        for ((keys, mode), seen) in loads.iter().zip(&mut seen) {
            seen.push(served(options, stores, *keys, *mode).await?);
        }
    }
    Ok(seen.into_iter().filter_map(median_row).collect())
}

async fn served(
    options: &Options,
    stores: &StoreFactory,
    keys: usize,
    mode: Mode,
) -> Result<Measurement, BenchError> {
    let (servers, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let remote = servers.remote.with(mode, "bench").with_flow_keys(keys);
    let seen = load::observe(&remote, mode, PROMISED, options.span, &servers.monitored).await?;
    let rss_mib = servers.monitored.rss_mib();
    servers.kill().await?;
    Ok(Measurement { rss_mib, ..row_of(&name(keys), mode, PROMISED, &seen) })
}

fn name(keys: usize) -> String {
    match keys {
        0 => "lifecycles".to_owned(),
        keys => format!("lifecycles with {keys} flow keys"),
    }
}

/// The goal of a thousand keys.
pub(crate) fn goals(rows: &[Measurement]) -> Vec<Goal> {
    let rate = |keys| {
        let row = rows.iter().find(|row| row.name == name(keys) && row.mode == Some(Mode::Batch));
        row.and_then(|row| row.lifecycles_per_second)
    };
    let share = rate(1_000).zip(rate(0)).map(|(limited, plain)| Goal {
        figure: "rate with 1,000 flow keys of limit 8, of the rate without".to_owned(),
        side: Side::AtLeast,
        limit: SHARE_MIN,
        unit: Unit::Percent,
        measured: limited / plain * 100.0,
    });
    share.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifecycles_with_keys_are_compared_with_plain_ones() {
        let row = |keys, rate| Measurement {
            mode: Some(Mode::Batch),
            lifecycles_per_second: Some(rate),
            ..Measurement::named(&name(keys))
        };
        let goals = goals(&[row(0, 20_000.0), row(1_000, 17_000.0)]);
        assert_eq!((goals[0].measured, goals[0].is_met()), (85.0, false));
    }
}
