//! One row of the result.

use serde::Serialize;

/// How lifecycles are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One call for each step of each task.
    Single,
    /// One call for all tasks that wait for a step.
    Batch,
    /// As a program with the Rust SDK does, through a client and a worker.
    Sdk,
}

/// Members that a measurement does not have are null.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    pub name: String,
    pub concurrency: Option<usize>,
    pub mode: Option<Mode>,
    pub lifecycles_per_second: Option<f64>,
    /// The engine alone, with the same load, in the same minute.
    pub ceiling_per_second: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    /// Of the server's process.
    pub cpu_micros_per_lifecycle: Option<f64>,
    /// Of all processes of the database, if the store is one and runs on this machine.
    pub database_micros_per_lifecycle: Option<f64>,
    /// Written by the server; for a database, the bytes of its WAL.
    pub bytes_per_lifecycle: Option<f64>,
    #[serde(rename = "rssMiB")]
    pub rss_mib: Option<f64>,
    /// The CPU time of the load itself, on the same cores as the server.
    #[serde(skip)]
    pub client_micros_per_lifecycle: Option<f64>,
}

impl Measurement {
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            concurrency: None,
            mode: None,
            lifecycles_per_second: None,
            ceiling_per_second: None,
            p50_ms: None,
            p99_ms: None,
            cpu_micros_per_lifecycle: None,
            database_micros_per_lifecycle: None,
            bytes_per_lifecycle: None,
            rss_mib: None,
            client_micros_per_lifecycle: None,
        }
    }

    pub(crate) fn with_latencies(mut self, mut micros: Vec<u64>) -> Self {
        micros.sort_unstable();
        self.p50_ms = quantile(&micros, 0.50);
        self.p99_ms = quantile(&micros, 0.99);
        self
    }
}

fn quantile(sorted_micros: &[u64], share: f64) -> Option<f64> {
    let last = sorted_micros.len().checked_sub(1)?;
    let place = (last as f64 * share).round() as usize;
    Some(sorted_micros[place] as f64 / 1000.0)
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_are_spelled_as_published() {
        let row = serde_json::to_value(Measurement::named("x")).unwrap();
        let members: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert_eq!(
            members,
            [
                "bytesPerLifecycle",
                "ceilingPerSecond",
                "concurrency",
                "cpuMicrosPerLifecycle",
                "databaseMicrosPerLifecycle",
                "lifecyclesPerSecond",
                "mode",
                "name",
                "p50Ms",
                "p99Ms",
                "rssMiB",
            ]
        );
    }

    #[test]
    fn quantiles_and_medians_take_the_middle() {
        let row = Measurement::named("x").with_latencies((1..=101).map(|n| n * 1000).collect());
        assert_eq!((row.p50_ms, row.p99_ms), (Some(51.0), Some(100.0)));
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
    }
}
