//! The state space of a world of a plan, as the explorer sees it, and the result of an exploration.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Checker, HasDiscoveries, Model, Property as Checked};

use super::action::Action;
use super::world::{GOALS, PlanBounds, PlanProperty, PlanWorld, goal};
use crate::explore::{Outcome, Violation, outcome, violations};
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

/// Visits every state within the bounds, with the production rules.
pub fn explore(bounds: PlanBounds, threads: usize) -> Outcome {
    let never: BTreeSet<&str> = bounds.never.iter().copied().collect();
    let name = bounds.name;
    let checker = PlanSpace::new(bounds, Production)
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let goals = (&GOALS[..], &checker.model().reached[..]);
    outcome(name, &checker, goals, &never)
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
