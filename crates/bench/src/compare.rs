//! Two builds side by side: the same measurements with each, in turns, and their ratios.
//!
//! A shared machine swings by more than most changes are worth, so figures of two runs say little. Here both builds are
//! measured in every pair, the one that goes first changes from pair to pair, and what is reported is the ratio within a
//! pair: its median and how far the pairs are apart. What does not run the server's program (the engine and the transport
//! alone) is the same code on both sides; its ratio shows how far chance alone goes.

use std::path::PathBuf;

use serde::Serialize;

use crate::error::BenchError;
use crate::measurement::{Measurement, Mode, median};
use crate::plan::{Options, run};

/// This build over the other one, for one measurement. A ratio above one means more of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    pub name: String,
    pub mode: Option<Mode>,
    pub concurrency: Option<usize>,
    pub rate: Option<Ratio>,
    pub p50: Option<Ratio>,
    /// Processor time of the server, for one lifecycle.
    pub cpu: Option<Ratio>,
    /// Processor time of the database, for one lifecycle.
    pub database: Option<Ratio>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

/// Measures this build and the other one so many times. `progress` gets what is measured and the share that is done.
pub async fn compare(
    options: &Options,
    other: PathBuf,
    pairs: usize,
    mut progress: impl FnMut(&str, f64),
) -> Result<Vec<Comparison>, BenchError> {
    let theirs = Options { program: other, ..options.clone() };
    let mut measured: Vec<Pair> = Vec::with_capacity(pairs);
    for pair in 0..pairs {
        let mut one = async |options: &Options, half: usize| {
            run(options, |what, share| {
                progress(what, ((2 * pair + half) as f64 + share) / (2 * pairs) as f64);
            })
            .await
        };
        measured.push(if pair.is_multiple_of(2) {
            let ours = one(options, 0).await?;
            Pair { ours, theirs: one(&theirs, 1).await? }
        } else {
            let theirs = one(&theirs, 0).await?;
            Pair { ours: one(options, 1).await?, theirs }
        });
    }
    Ok(compared(&measured))
}

struct Pair {
    ours: Vec<Measurement>,
    theirs: Vec<Measurement>,
}

impl Pair {
    /// The measurements of both builds that this one is about.
    fn of(&self, row: &Measurement) -> Option<(&Measurement, &Measurement)> {
        let is_it = |it: &&Measurement| {
            (&it.name, it.mode, it.concurrency) == (&row.name, row.mode, row.concurrency)
        };
        self.ours.iter().find(is_it).zip(self.theirs.iter().find(is_it))
    }
}

fn compared(pairs: &[Pair]) -> Vec<Comparison> {
    let rows = pairs.first().map_or(&[][..], |pair| &pair.ours);
    rows.iter().map(|row| comparison(row, pairs)).collect()
}

fn comparison(row: &Measurement, pairs: &[Pair]) -> Comparison {
    let ratio = |figure: fn(&Measurement) -> Option<f64>| {
        let of_pair = |pair: &Pair| {
            let (ours, theirs) = pair.of(row)?;
            let (ours, theirs) = figure(ours).zip(figure(theirs))?;
            (theirs > 0.0).then_some(ours / theirs)
        };
        Ratio::of(pairs.iter().filter_map(of_pair).collect())
    };
    Comparison {
        name: row.name.clone(),
        mode: row.mode,
        concurrency: row.concurrency,
        rate: ratio(|it| it.lifecycles_per_second),
        p50: ratio(|it| it.p50_ms),
        cpu: ratio(|it| it.cpu_micros_per_lifecycle),
        database: ratio(|it| it.database_micros_per_lifecycle),
    }
}

impl Ratio {
    fn of(values: Vec<f64>) -> Option<Self> {
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        Some(Self { median: median(values)?, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(rate: f64, cpu: Option<f64>) -> Vec<Measurement> {
        let named = |name: &str| Measurement::named(name);
        let row = Measurement {
            mode: Some(Mode::Batch),
            concurrency: Some(64),
            lifecycles_per_second: Some(rate),
            cpu_micros_per_lifecycle: cpu,
            ..named("lifecycles")
        };
        // The same name with another number in flight is another measurement.
        let other =
            Measurement { concurrency: Some(1), lifecycles_per_second: Some(1.0), ..row.clone() };
        vec![other, row]
    }

    #[test]
    fn ratios_are_taken_within_a_pair() {
        let pairs: Vec<Pair> = [(110.0, 100.0), (60.0, 50.0), (1_050.0, 1_000.0)]
            .into_iter()
            .map(|(ours, theirs)| Pair {
                ours: measured(ours, Some(9.0)),
                theirs: measured(theirs, Some(10.0)),
            })
            .collect();
        let rows = compared(&pairs);
        assert_eq!(rows.len(), 2);
        let rate = rows[1].rate.unwrap();
        assert_eq!((rate.median, rate.least, rate.most), (1.1, 1.05, 1.2));
        assert_eq!(rows[1].cpu.unwrap().median, 0.9);
        assert_eq!((rows[1].p50, rows[1].database), (None, None));
    }

    #[test]
    fn what_one_build_did_not_measure_has_no_ratio() {
        let pairs = [Pair { ours: measured(100.0, Some(1.0)), theirs: measured(100.0, None) }];
        assert_eq!(compared(&pairs)[1].cpu, None);
        assert!(compared(&[]).is_empty());
    }
}
