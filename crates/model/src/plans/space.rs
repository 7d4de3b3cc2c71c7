//! The state space of a world of a plan, as the explorer sees it, and the result of an exploration.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Checker, HasDiscoveries, Model, Property as Checked};

use super::action::Action;
use super::world::{GOALS, PlanBounds, PlanProperty, PlanWorld, goal};
use crate::explore::Violation;
use crate::space::{Production, Rules};

pub(super) struct PlanSpace {
    pub(super) bounds: PlanBounds,
    pub(super) rules: Box<dyn Rules>,
    reached: [AtomicBool; GOALS.len()],
}

impl PlanSpace {
    fn new(bounds: PlanBounds, rules: impl Rules) -> Self {
        let reached = [const { AtomicBool::new(false) }; GOALS.len()];
        Self { bounds, rules: Box::new(rules), reached }
    }

    pub(super) fn reach(&self, name: &str) {
        self.reached[goal(name)].store(true, Ordering::Relaxed);
    }
}

impl Model for PlanSpace {
    type State = PlanWorld;
    type Action = Action;

    fn init_states(&self) -> Vec<PlanWorld> {
        vec![self.begin()]
    }

    fn actions(&self, world: &PlanWorld, actions: &mut Vec<Action>) {
        if !world.broken.is_empty() {
            return;
        }
        for task in 0..world.tasks.len() {
            if self.may_poll(world, task) {
                actions.push(Action::Poll(task));
            }
            actions.push(Action::Sweep(task));
        }
        for at in 0..world.issued.len() {
            actions.extend([true, false].map(|succeeds| Action::Report(at, succeeds)));
        }
        actions.extend(self.bounds.cancels.iter().copied().map(Action::Cancel));
        actions.extend((0..world.saved.len()).map(Action::Deliver));
        actions.extend((0..world.decided.len()).map(Action::Repeat));
    }

    fn next_state(&self, world: &PlanWorld, action: Action) -> Option<PlanWorld> {
        self.step(world, action)
    }

    fn properties(&self) -> Vec<Checked<Self>> {
        macro_rules! always {
            ($($property:ident)*) => {
                vec![$(Checked::always(PlanProperty::$property.name(), |_, world: &PlanWorld| {
                    !world.broken.contains(PlanProperty::$property)
                })),*]
            };
        }
        always![RunsInTurn SkippedForCause EachStepOnce EndsAsStepsSay EverythingEnds]
    }
}

/// The result of one exploration.
#[derive(Clone, Debug)]
pub struct PlanOutcome {
    pub name: &'static str,
    pub unique: usize,
    pub generated: usize,
    pub depth: usize,
    pub violations: Vec<Violation>,
    /// Goals that had to be reached and were not.
    pub missed: Vec<&'static str>,
    /// Goals that were declared impossible here and were reached.
    pub unexpected: Vec<&'static str>,
}

/// Visits every state within the bounds, with the production rules.
pub fn explore(bounds: PlanBounds, threads: usize) -> PlanOutcome {
    let never: BTreeSet<&str> = bounds.never.iter().copied().collect();
    let name = bounds.name;
    let checker = PlanSpace::new(bounds, Production)
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let reached = &checker.model().reached;
    let is_reached = |goal: &&str| reached[self::goal(goal)].load(Ordering::Relaxed);
    let goals = || GOALS.into_iter();
    PlanOutcome {
        name,
        unique: checker.unique_state_count(),
        generated: checker.state_count(),
        depth: checker.max_depth(),
        violations: violations(&checker),
        missed: goals().filter(|goal| !is_reached(goal) && !never.contains(goal)).collect(),
        unexpected: goals().filter(|goal| is_reached(goal) && never.contains(goal)).collect(),
    }
}

/// Searches for one sequence of steps in which `rules` break `property`.
pub fn find(bounds: PlanBounds, rules: impl Rules, property: PlanProperty) -> Option<Violation> {
    let wanted = BTreeSet::from([property.name()]);
    let checker = PlanSpace::new(bounds, rules)
        .checker()
        .finish_when(HasDiscoveries::AnyOf(wanted))
        .spawn_bfs()
        .join();
    violations(&checker).into_iter().find(|found| found.property == property.name())
}

fn violations(checker: &impl Checker<PlanSpace>) -> Vec<Violation> {
    let describe = |path: stateright::Path<PlanWorld, Action>| {
        path.into_actions().iter().map(|action| format!("{action:?}")).collect()
    };
    let found = checker.discoveries().into_iter();
    found.map(|(property, path)| Violation { property, steps: describe(path) }).collect()
}

impl PlanOutcome {
    /// Whether every property held and every possible goal was reached.
    pub fn is_proof(&self) -> bool {
        self.violations.is_empty() && self.missed.is_empty() && self.unexpected.is_empty()
    }
}

impl fmt::Display for PlanOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlanOutcome { name, unique, generated, depth, .. } = self;
        write!(f, "{name:<40} {unique:>9} states (all), {generated} steps, depth {depth}")?;
        for found in &self.violations {
            write!(f, "\n  BROKEN {}", found.property)?;
            found.steps.iter().try_for_each(|step| write!(f, "\n    {step}"))?;
        }
        self.missed.iter().try_for_each(|goal| write!(f, "\n  never met: {goal}"))?;
        let unexpected = &mut self.unexpected.iter();
        unexpected.try_for_each(|goal| write!(f, "\n  met, though said to be impossible: {goal}"))
    }
}
