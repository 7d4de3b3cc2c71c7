//! Performs many cases: beside each other where they only wait, alone where they judge milliseconds. None is performed
//! twice.

use std::io;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;

use crate::case::Case;
use crate::performance::{Outcome, Setup, perform};

/// Most cases wait nearly all the time.
const CASES_PER_CORE: usize = 4;

/// How many cases are performed at once on this machine.
#[must_use]
pub fn width() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) * CASES_PER_CORE
}

/// Performs cases and tells of each when it is over. Outcomes come in the order of the cases.
pub async fn perform_all(
    cases: &[Arc<Case>],
    setup: &Setup,
    width: usize,
    tell: impl Fn(&Outcome),
) -> io::Result<Vec<Outcome>> {
    let (alone, beside): (Vec<_>, Vec<_>) =
        cases.iter().enumerate().partition(|(_, case)| case.alone);
    let mut outcomes: Vec<(usize, Outcome)> = Vec::new();
    let together =
        stream::iter(beside).map(|(n, case)| async move { (n, perform(case, setup).await) });
    let mut together = together.buffer_unordered(width.max(1));
    while let Some((n, outcome)) = together.next().await {
        let outcome = outcome?;
        tell(&outcome);
        outcomes.push((n, outcome));
    }
    for (n, case) in alone {
        let outcome = perform(case, setup).await?;
        tell(&outcome);
        outcomes.push((n, outcome));
    }
    outcomes.sort_by_key(|(n, _)| *n);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}
