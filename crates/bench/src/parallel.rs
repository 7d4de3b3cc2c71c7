//! A plan of many steps that run side by side and are joined, beside as many plain tasks.
//!
//! The plan is one submission. Workers execute its steps from the first moment on, as they execute the plain tasks, and the
//! measurement ends when the step that joins them is acknowledged.

use crate::error::BenchError;
use crate::fanout::{CHILDREN, Executed, PARENTS, measure_once, next};
use crate::load_client::{LoadClient, LoadTarget};
use crate::measurement::{Measurement, Mode};
use crate::plan::Options;
use crate::remote::Remote;
use crate::store_factory::StoreFactory;

/// What a row measures.
pub(crate) const STEPS: &str = "parallel steps, joined";

/// Plain tasks and steps in turn, each on a new store.
pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    count: usize,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    let mut rows = Vec::new();
    for executed in [Executed::Plain, Executed::Steps] {
        progress(executed.name(), 0.5);
        rows.push(measure_once(options, stores, 1, (executed, count)).await?);
    }
    Ok(rows)
}

/// From the submission until the end of the step that joins all others is acknowledged.
pub(crate) async fn run_plan(remote: &Remote, count: usize) -> Result<(), BenchError> {
    let mut client = remote.with(Mode::Single, PARENTS).open().await?;
    client.connection.post("/v1/runs", &remote.key, &submission(count)).await?;
    let join = next(&mut client).await?;
    client.complete(&[join]).await
}

fn submission(count: usize) -> String {
    let step = |number: usize| {
        format!(r#"{{"key":"s{number}","kind":"bench","queue":"{CHILDREN}","input":{{"at":0}}}}"#)
    };
    let steps: Vec<String> = (0..count).map(step).collect();
    let names: Vec<String> = (0..count).map(|number| format!(r#""s{number}""#)).collect();
    format!(
        r#"{{"plan":{{"steps":[{},{{"key":"join","kind":"bench","queue":"{PARENTS}","input":{{"at":0}},"dependsOn":[{}]}}]}}}}"#,
        steps.join(","),
        names.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_plan_is_one_that_a_coordinator_takes() {
        let run: serde_json::Value = serde_json::from_str(&submission(1_999)).unwrap();
        let steps = run["plan"]["steps"].as_array().unwrap();
        let joined = steps.last().and_then(|join| join["dependsOn"].as_array()).unwrap();
        assert_eq!((steps.len(), joined.len()), (2_000, 1_999));
        assert!(submission(1_999).len() < 1024 * 1024, "what one call may have");
    }
}
