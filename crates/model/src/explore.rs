//! Runs an exploration and reports its result.

use std::collections::BTreeSet;
use std::fmt;

use stateright::{Checker, HasDiscoveries, Model};

use crate::coverage;
use crate::property::Property;
use crate::space::{Production, Rules, Space};
use crate::worlds::Bounds;

/// The result of one exploration.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub name: &'static str,
    pub unique: usize,
    /// Number of steps, including those into known states.
    pub generated: usize,
    pub depth: usize,
    /// `None` if every reachable state was visited; otherwise the limit on steps.
    pub within: Option<usize>,
    pub violations: Vec<Violation>,
    /// Coverage goals that had to be reached and were not.
    pub missed: Vec<String>,
    /// Coverage goals that were declared impossible here and were reached.
    pub unexpected: Vec<String>,
}

/// A broken property, with the steps that show it.
#[derive(Clone, Debug)]
pub struct Violation {
    pub property: &'static str,
    pub steps: Vec<String>,
}

/// Visits every state within the bounds, with the production rules.
pub fn explore(bounds: Bounds, threads: usize) -> Outcome {
    let (name, within) = (bounds.name, bounds.depth);
    let never: BTreeSet<String> = bounds.impossible().map(str::to_owned).collect();
    let space = Space::new(bounds, Production);
    let checker = match within {
        Some(depth) => space.checker().target_max_depth(depth),
        None => space.checker(),
    };
    let checker =
        checker.threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let reached: BTreeSet<String> = checker.model().coverage.reached().into_iter().collect();
    let all: BTreeSet<String> = coverage::all().into_iter().collect();
    Outcome {
        name,
        unique: checker.unique_state_count(),
        generated: checker.state_count(),
        depth: checker.max_depth(),
        within,
        violations: violations(&checker),
        missed: all
            .iter()
            .filter(|goal| !reached.contains(*goal) && !never.contains(*goal))
            .cloned()
            .collect(),
        unexpected: never.intersection(&reached).cloned().collect(),
    }
}

/// Searches for one sequence of steps in which `rules` break `property`.
pub fn find(bounds: Bounds, rules: impl Rules, property: Property) -> Option<Violation> {
    let wanted = BTreeSet::from([property.name()]);
    let checker = Space::new(bounds, rules)
        .checker()
        .finish_when(HasDiscoveries::AnyOf(wanted))
        .spawn_bfs()
        .join();
    violations(&checker).into_iter().find(|found| found.property == property.name())
}

fn violations(checker: &impl Checker<Space>) -> Vec<Violation> {
    checker
        .discoveries()
        .into_iter()
        .map(|(property, path)| Violation {
            property,
            steps: path.into_actions().iter().map(|action| format!("{action:?}")).collect(),
        })
        .collect()
}

impl Outcome {
    /// Whether every property held and every possible goal was reached.
    pub fn is_proof(&self) -> bool {
        self.violations.is_empty() && self.missed.is_empty() && self.unexpected.is_empty()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extent =
            self.within.map_or("all of them".to_owned(), |depth| format!("within {depth} steps"));
        write!(
            f,
            "{:<26} {:>11} states ({extent}), {} steps taken, depth {}",
            self.name, self.unique, self.generated, self.depth
        )?;
        for found in &self.violations {
            write!(f, "\n  BROKEN {}", found.property)?;
            for step in &found.steps {
                write!(f, "\n    {step}")?;
            }
        }
        for goal in &self.missed {
            write!(f, "\n  never met: {goal}")?;
        }
        for goal in &self.unexpected {
            write!(f, "\n  met, though said to be impossible here: {goal}")?;
        }
        Ok(())
    }
}
