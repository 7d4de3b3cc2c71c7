//! The state space of a world of budgets, as the explorer sees it, and the result of an exploration.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Checker, HasDiscoveries, Model, Property as Checked};
use verdict::approval::Decision;

use super::action::Action;
use super::bounds::EscrowBounds;
use super::property::{EscrowProperty, GOALS, goal};
use super::world::{EscrowWorld, START};
use crate::explore::{Outcome, Violation, outcome, violations};
use crate::space::{Production, Rules};

pub(super) struct EscrowSpace {
    pub(super) bounds: EscrowBounds,
    pub(super) rules: Box<dyn Rules>,
    reached: [AtomicBool; GOALS.len()],
}

impl EscrowSpace {
    fn new(bounds: EscrowBounds, rules: impl Rules) -> Self {
        let reached = [const { AtomicBool::new(false) }; GOALS.len()];
        Self { bounds, rules: Box::new(rules), reached }
    }

    pub(super) fn reach(&self, name: &str) {
        self.reached[goal(name)].store(true, Ordering::Relaxed);
    }

    fn calls(&self, world: &EscrowWorld, actions: &mut Vec<Action>) {
        for (at, issued) in world.issued.iter().enumerate() {
            let is_root = self.bounds.root_of(issued.task) == issued.task;
            let calls = if is_root { self.bounds.calls } else { self.bounds.reports };
            actions.extend(calls.iter().map(|call| Action::Call(at, *call)));
        }
    }
}

impl Model for EscrowSpace {
    type State = EscrowWorld;
    type Action = Action;

    fn init_states(&self) -> Vec<EscrowWorld> {
        vec![self.begin()]
    }

    fn actions(&self, world: &EscrowWorld, actions: &mut Vec<Action>) {
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
        actions.extend(self.bounds.cancels.iter().copied().map(Action::Cancel));
        if self.bounds.soft.is_some() {
            actions.extend([Decision::Approved, Decision::Rejected].map(Action::Vote));
        }
        if self.bounds.continued.is_some() && self.may_continue(world) {
            actions.push(Action::Continue);
        }
        actions.extend((0..world.saved.len()).map(Action::Deliver));
        actions.extend((0..world.decided.len()).map(Action::Repeat));
    }

    fn next_state(&self, world: &EscrowWorld, action: Action) -> Option<EscrowWorld> {
        self.step(world, action)
    }

    fn properties(&self) -> Vec<Checked<Self>> {
        macro_rules! always {
            ($($property:ident)*) => {
                vec![$(Checked::always(EscrowProperty::$property.name(), |_, world: &EscrowWorld| {
                    !world.broken.contains(EscrowProperty::$property)
                })),*]
            };
        }
        always![WithinLimit EscrowOnce SpendKept NothingAfterLimit HaltIsFinal AskedFirst OwnEscrow ClosingEnds]
    }
}

/// Visits every state within the bounds, with the production rules.
pub fn explore(bounds: EscrowBounds, threads: usize) -> Outcome {
    let never: BTreeSet<&str> = bounds.impossible().collect();
    let name = bounds.name;
    let checker = EscrowSpace::new(bounds, Production)
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let goals = (&GOALS[..], &checker.model().reached[..]);
    outcome(name, &checker, goals, &never)
}

/// Searches for one sequence of steps in which `rules` break `property`.
pub fn find(
    bounds: EscrowBounds,
    rules: impl Rules,
    property: EscrowProperty,
) -> Option<Violation> {
    let wanted = BTreeSet::from([property.name()]);
    let checker = EscrowSpace::new(bounds, rules)
        .checker()
        .finish_when(HasDiscoveries::AnyOf(wanted))
        .spawn_bfs()
        .join();
    violations(&checker).into_iter().find(|found| found.property == property.name())
}
