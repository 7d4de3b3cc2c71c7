//! Runs an exploration and reports its result.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// A space whose steps can be told.
pub(crate) trait Explored:
    Model<State: Clone + PartialEq, Action: Clone + PartialEq + fmt::Debug>
{
}

impl<M: Model<State: Clone + PartialEq, Action: Clone + PartialEq + fmt::Debug>> Explored for M {}

/// The result of an exploration that visited every state, by the goals of its world and those that are impossible in it.
pub(crate) fn outcome<M: Explored>(
    name: &'static str,
    checker: &impl Checker<M>,
    (goals, reached): (&[&str], &[AtomicBool]),
    never: &BTreeSet<&str>,
) -> Outcome {
    let goals = || goals.iter().zip(reached).map(|(goal, it)| (*goal, it.load(Ordering::Relaxed)));
    let named = |(goal, _): (&str, bool)| goal.to_owned();
    Outcome {
        name,
        unique: checker.unique_state_count(),
        generated: checker.state_count(),
        depth: checker.max_depth(),
        within: None,
        violations: violations(checker),
        missed: goals().filter(|(goal, it)| !it && !never.contains(goal)).map(named).collect(),
        unexpected: goals().filter(|(goal, it)| *it && never.contains(goal)).map(named).collect(),
    }
}

/// The properties that an exploration found broken, each with the steps that show it.
pub(crate) fn violations<M: Explored>(checker: &impl Checker<M>) -> Vec<Violation> {
    let describe = |path: stateright::Path<M::State, M::Action>| {
        path.into_actions().iter().map(|action| format!("{action:?}")).collect()
    };
    let found = checker.discoveries().into_iter();
    found.map(|(property, path)| Violation { property, steps: describe(path) }).collect()
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
            "{:<40} {:>11} states ({extent}), {} steps taken, depth {}",
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
