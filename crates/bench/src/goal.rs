//! Goals for the figures over a database, next to what was measured; those over a file are in [`tails`].
//!
//! The goals apply to two cores with everything on one machine. They decide nothing: a smaller or
//! busier machine misses some, and the output says by how much.

use crate::measurement::{Measurement, Mode};
use crate::{shape, tails};

/// The concurrency for which rates are promised.
const AT_ONCE: usize = 256;

/// On which side of its limit a figure should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    AtLeast,
    AtMost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    PerSecond,
    Percent,
    Milliseconds,
}

/// A figure, its goal, and its measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    pub figure: String,
    pub side: Side,
    pub limit: f64,
    pub unit: Unit,
    pub measured: f64,
}

impl Goal {
    pub fn is_met(&self) -> bool {
        match self.side {
            Side::AtLeast => self.measured >= self.limit,
            Side::AtMost => self.measured <= self.limit,
        }
    }
}

/// Every goal to which these measurements apply.
pub fn goals(rows: &[Measurement]) -> Vec<Goal> {
    let of_durable_runs = shape::goals(rows);
    if !of_durable_runs.is_empty() {
        return of_durable_runs;
    }
    let of_files = tails::goals(rows);
    if !of_files.is_empty() {
        return of_files;
    }
    let rows = Rows(rows);
    [rows.rates(), rows.starts(), rows.idle_polls(), rows.full_stores(), rows.old_snapshot()]
        .concat()
}

struct Rows<'a>(&'a [Measurement]);

impl Rows<'_> {
    fn find(&self, is_it: impl Fn(&Measurement) -> bool) -> Option<&Measurement> {
        self.0.iter().find(|row| is_it(row))
    }

    fn named(&self, name: &str) -> Option<&Measurement> {
        self.find(|row| row.name == name)
    }

    fn rates(&self) -> Vec<Goal> {
        let is_promised =
            |row: &Measurement| row.mode == Some(Mode::Batch) && row.concurrency == Some(AT_ONCE);
        let one = self.find(|row| row.name == "lifecycles" && is_promised(row));
        let Some(rate) = one.and_then(|row| row.lifecycles_per_second) else { return Vec::new() };
        let mut goals = vec![Goal {
            figure: format!("one coordinator, in batches, {AT_ONCE} at once"),
            side: Side::AtLeast,
            limit: 6_000.0,
            unit: Unit::PerSecond,
            measured: rate,
        }];
        if let Some(ceiling) = one.and_then(|row| row.ceiling_per_second) {
            goals.push(Goal {
                figure: "of what the engine does alone".to_owned(),
                limit: 50.0,
                unit: Unit::Percent,
                measured: share(rate, ceiling),
                ..goals[0].clone()
            });
        }
        let several = self.find(|row| row.name.starts_with("lifecycles, ") && is_promised(row));
        if let Some((row, theirs)) = several.and_then(|row| Some((row, row.lifecycles_per_second?)))
        {
            let who = row.name.trim_start_matches("lifecycles, ");
            goals.push(Goal {
                figure: format!("lost by {who}"),
                side: Side::AtMost,
                limit: 15.0,
                unit: Unit::Percent,
                measured: (100.0 - share(theirs, rate)).max(0.0),
            });
        }
        goals
    }

    fn starts(&self) -> Vec<Goal> {
        let Some(commit) = self.named("a commit of the database").and_then(|row| row.p50_ms) else {
            return Vec::new();
        };
        let names = ["submit to started", "submit to started, two coordinators"];
        let goal = |name: &str| {
            Some(Goal {
                figure: format!("{name}, above one commit of {commit:.1} ms, p50"),
                side: Side::AtMost,
                limit: 2.0,
                unit: Unit::Milliseconds,
                measured: (self.named(name)?.p50_ms? - commit).max(0.0),
            })
        };
        names.into_iter().filter_map(goal).collect()
    }

    /// Idle workers must not slow down those that have work.
    fn idle_polls(&self) -> Vec<Goal> {
        let none = self.named("submit to started").and_then(|row| row.p99_ms);
        let background = |row: &&Measurement| {
            row.name.starts_with("submit to started, ") && row.name.ends_with(" idle polls")
        };
        let goal = |row: &Measurement| {
            let count = row.name.trim_start_matches("submit to started, ");
            Some(Goal {
                figure: format!("of submit to started without them, {count}, p99"),
                side: Side::AtMost,
                limit: 200.0,
                unit: Unit::Percent,
                measured: share(row.p99_ms?, none?),
            })
        };
        self.0.iter().filter(background).filter_map(goal).collect()
    }

    /// CPU time of server and database per lifecycle, compared with an empty store.
    fn full_stores(&self) -> Vec<Goal> {
        let Some(empty) = self.named("with nothing queued").and_then(processor) else {
            return Vec::new();
        };
        let goal = |state: &str| {
            Some(Goal {
                figure: format!("more processor time with 1,000,000 {state}"),
                side: Side::AtMost,
                limit: 20.0,
                unit: Unit::Percent,
                measured: (share(processor(self.named(&format!("with 1000000 {state}"))?)?, empty)
                    - 100.0)
                    .max(0.0),
            })
        };
        ["queued", "done"].into_iter().filter_map(goal).collect()
    }

    fn old_snapshot(&self) -> Vec<Goal> {
        let background = |row: &&Measurement| row.name.contains("a transaction left open");
        let goal = |row: &Measurement| {
            let share = share(row.lifecycles_per_second?, row.ceiling_per_second?);
            Some(Goal {
                figure: format!("of the undisturbed rate, {}", row.name),
                side: Side::AtLeast,
                limit: 80.0,
                unit: Unit::Percent,
                measured: share,
            })
        };
        self.0.iter().filter(background).filter_map(goal).collect()
    }
}

fn processor(row: &Measurement) -> Option<f64> {
    Some(row.cpu_micros_per_lifecycle? + row.database_micros_per_lifecycle.unwrap_or(0.0))
}

/// In percent; zero of zero is 100.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole * 100.0 } else { 100.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(name: &str, rate: f64, ceiling: f64) -> Measurement {
        Measurement {
            concurrency: Some(AT_ONCE),
            mode: Some(Mode::Batch),
            lifecycles_per_second: Some(rate),
            ceiling_per_second: Some(ceiling),
            ..Measurement::named(name)
        }
    }

    fn took(name: &str, p50_ms: f64) -> Measurement {
        Measurement { p50_ms: Some(p50_ms), ..Measurement::named(name) }
    }

    fn cost(name: &str, micros: f64) -> Measurement {
        let (server, database) = (Some(micros / 4.0), Some(micros * 3.0 / 4.0));
        Measurement {
            cpu_micros_per_lifecycle: server,
            database_micros_per_lifecycle: database,
            ..Measurement::named(name)
        }
    }

    #[test]
    fn every_figure_is_held_against_its_goal() {
        let rows = [
            batch("lifecycles", 8_000.0, 16_001.0),
            batch("lifecycles, 3 coordinators", 7_000.0, 16_001.0),
            took("a commit of the database", 1.5),
            Measurement { p99_ms: Some(4.0), ..took("submit to started", 3.0) },
            took("submit to started, two coordinators", 4.0),
            Measurement { p99_ms: Some(10.0), ..took("submit to started, 10000 idle polls", 3.0) },
            cost("with nothing queued", 100.0),
            cost("with 1000000 queued", 119.0),
            cost("with 1000000 done", 130.0),
            batch("20000 queued, a transaction left open", 700.0, 1_000.0),
        ];
        let judged: Vec<(f64, bool)> =
            goals(&rows).iter().map(|goal| (goal.measured.round(), goal.is_met())).collect();
        let expected = [
            (8_000.0, true),
            (50.0, false),
            (13.0, true),
            (2.0, true),
            (3.0, false),
            (250.0, false),
            (19.0, true),
            (30.0, false),
            (70.0, false),
        ];
        assert_eq!(judged, expected);
    }

    #[test]
    fn what_was_not_measured_is_held_against_nothing() {
        assert_eq!(goals(&[took("submit to started", 3.0)]), []);
        // On a starved machine nothing may have ended.
        let none =
            goals(&[batch("lifecycles", 0.0, 0.0), batch("lifecycles, 3 coordinators", 0.0, 0.0)]);
        assert!(none.iter().all(|goal| goal.measured.is_finite()), "{none:?}");
    }
}
