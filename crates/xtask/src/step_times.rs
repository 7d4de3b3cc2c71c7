//! How long each step of a test run took, printed as one table.
//!
//! The table makes a growing step visible. No step fails because of its duration.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The steps so far, in order.
#[derive(Debug)]
pub(crate) struct StepTimes {
    began: Instant,
    steps: Vec<(&'static str, Duration)>,
}

impl StepTimes {
    pub(crate) fn begin() -> Self {
        Self { began: now(), steps: Vec::new() }
    }

    /// Runs one step under its heading and keeps its duration.
    pub(crate) fn step<R>(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        println!("\n== {name}");
        let began = now();
        let result = work().with_context(|| format!("failed at {name}"))?;
        self.steps.push((name, began.elapsed()));
        Ok(result)
    }

    /// Adds a step that ran beside others.
    pub(crate) fn note(&mut self, name: &'static str, took: Duration) {
        self.steps.push((name, took));
    }
}

impl fmt::Display for StepTimes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, took) in &self.steps {
            writeln!(out, "{}  {name}", Minutes(*took))?;
        }
        write!(out, "{}  together", Minutes(self.began.elapsed()))
    }
}

/// Minutes and seconds, aligned.
struct Minutes(Duration);

impl fmt::Display for Minutes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        write!(out, "{:>4} min {:>2} s", seconds / 60, seconds % 60)
    }
}

/// The real clock, for durations that are only printed or limit a wait.
#[expect(clippy::disallowed_methods, reason = "commands measure real steps; no rule depends on it")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_listed_in_order_with_the_time_they_took_together() {
        let mut times = StepTimes::begin();
        times.note("lints", Duration::from_secs(61));
        times.note("tidy", Duration::from_secs(4));
        let told = times.to_string();
        assert!(told.starts_with("   1 min  1 s  lints\n   0 min  4 s  tidy\n"), "{told}");
        assert!(told.ends_with("  together"), "{told}");
    }

    #[test]
    fn a_step_that_fails_is_named_and_not_listed() {
        let mut times = StepTimes::begin();
        let failed = times.step("tidy", || -> Result<()> { anyhow::bail!("a file is long") });
        assert_eq!(format!("{:#}", failed.unwrap_err()), "failed at tidy: a file is long");
        assert!(times.steps.is_empty());
    }
}
