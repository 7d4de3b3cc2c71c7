//! The state space of a run's world, as the explorer sees it, and the result of an exploration.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Checker, HasDiscoveries, Model, Property as Checked};

use super::action::Action;
use super::bounds::RunBounds;
use super::property::{GOALS, RunProperty, goal};
use super::world::{ROOT, RunWorld, START};
use crate::explore::{Outcome, Violation, outcome, violations};
use crate::space::{Production, Rules};

pub(super) struct RunSpace {
    pub(super) bounds: RunBounds,
    pub(super) rules: Box<dyn Rules>,
    reached: [AtomicBool; GOALS.len()],
}

impl RunSpace {
    fn new(bounds: RunBounds, rules: impl Rules) -> Self {
        let reached = [const { AtomicBool::new(false) }; GOALS.len()];
        Self { bounds, rules: Box::new(rules), reached }
    }

    pub(super) fn reach(&self, name: &str) {
        self.reached[goal(name)].store(true, Ordering::Relaxed);
    }

    fn calls(&self, world: &RunWorld, actions: &mut Vec<Action>) {
        for (at, issued) in world.issued.iter().enumerate() {
            let calls = if issued.task == ROOT { self.bounds.calls } else { self.bounds.reports };
            actions.extend(calls.iter().map(|call| Action::Call(at, *call)));
        }
    }
}

impl Model for RunSpace {
    type State = RunWorld;
    type Action = Action;

    fn init_states(&self) -> Vec<RunWorld> {
        vec![self.begin()]
    }

    fn actions(&self, world: &RunWorld, actions: &mut Vec<Action>) {
        if !world.broken.is_empty() {
            return;
        }
        if world.now.millis() < START.millis() + self.bounds.ticks {
            actions.push(Action::Tick);
        }
        for task in 0..world.tasks.len() {
            if self.may_poll(world, task) {
                actions.push(Action::Poll(task));
            }
            actions.push(Action::Sweep(task));
        }
        self.calls(world, actions);
        actions.extend((0..self.bounds.signals).map(Action::Signal));
        actions.extend(self.bounds.cancels.iter().copied().map(Action::Cancel));
        actions.extend((0..world.saved.len()).map(Action::Deliver));
        actions.extend((0..world.decided.len()).map(Action::Repeat));
    }

    fn next_state(&self, world: &RunWorld, action: Action) -> Option<RunWorld> {
        self.step(world, action)
    }

    fn properties(&self) -> Vec<Checked<Self>> {
        macro_rules! always {
            ($($property:ident)*) => {
                vec![$(Checked::always(RunProperty::$property.name(), |_, world: &RunWorld| {
                    !world.broken.contains(RunProperty::$property)
                })),*]
            };
        }
        always![Authority OneResult OneChild EachMessageOnce NoLostWakeUp ChildrenFirst ClosingEnds]
    }
}

/// Visits every state within the bounds, with the production rules.
pub fn explore(bounds: RunBounds, threads: usize) -> Outcome {
    let never: BTreeSet<&str> = bounds.never.iter().copied().collect();
    let name = bounds.name;
    let checker = RunSpace::new(bounds, Production)
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let goals = (&GOALS[..], &checker.model().reached[..]);
    outcome(name, &checker, goals, &never)
}

/// Searches for one sequence of steps in which `rules` break `property`.
pub fn find(bounds: RunBounds, rules: impl Rules, property: RunProperty) -> Option<Violation> {
    let wanted = BTreeSet::from([property.name()]);
    let checker = RunSpace::new(bounds, rules)
        .checker()
        .finish_when(HasDiscoveries::AnyOf(wanted))
        .spawn_bfs()
        .join();
    violations(&checker).into_iter().find(|found| found.property == property.name())
}
