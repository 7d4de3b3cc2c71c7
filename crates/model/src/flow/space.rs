//! The state space of a flow key's world, as the explorer sees it, and the result of an exploration.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Checker, HasDiscoveries, Model, Property as Checked};

use super::step::{Following, SlotIndex, first};
use super::world::{FlowBounds, FlowProperty, FlowWorld, GOALS, Indexed, Line, START, TOO_EARLY};
use crate::explore::{Outcome, Violation, outcome, violations};
use crate::space::{Production, Rules};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// One unit of time passes.
    Tick,
    Submit(usize),
    /// A worker polls this line, and is granted the first task that it offers.
    Poll(Line),
    /// A coordinator tries a task, offered or not.
    Try(usize),
    /// A report under the lease with this index.
    Report(usize, ReportKind),
    /// The grant with this index is handed back.
    Undelivered(usize),
    Cancel(usize),
    Sweep(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportKind {
    Succeeded,
    Failed,
    Released,
}

pub(super) struct FlowSpace {
    pub(super) bounds: FlowBounds,
    pub(super) rules: Box<dyn Rules>,
    pub(super) index: Box<dyn SlotIndex>,
    /// The property that is searched for a violation; all of them without one.
    pub(super) wanted: Option<FlowProperty>,
    reached: [AtomicBool; GOALS.len()],
}

fn goal(name: &str) -> usize {
    GOALS.iter().position(|goal| *goal == name).expect("every goal is listed")
}

impl FlowSpace {
    fn new(bounds: FlowBounds, rules: impl Rules, index: impl SlotIndex) -> Self {
        let reached = [const { AtomicBool::new(false) }; GOALS.len()];
        Self { bounds, rules: Box::new(rules), index: Box::new(index), wanted: None, reached }
    }

    pub(super) fn reach(&self, name: &str) {
        self.reached[goal(name)].store(true, Ordering::Relaxed);
    }

    fn polls(&self, world: &FlowWorld, actions: &mut Vec<Action>) {
        let lines: BTreeSet<Line> = world.ready.iter().map(|(line, _)| *line).collect();
        actions.extend(lines.into_iter().map(Action::Poll));
        let is_full = world.holders().len() >= world.slots.in_use().limit as usize;
        let is_early = self.bounds.rate.is_some_and(|rate| world.starts_left(rate) == 0);
        for at in 0..world.tasks.len() {
            if matches!(world.indexed[at], Indexed::Claimable | Indexed::Returning) {
                actions.push(Action::Try(at));
                if is_full && world.indexed[at] == Indexed::Claimable {
                    self.reach("a full key refuses a grant");
                }
                if is_early {
                    self.reach(TOO_EARLY);
                }
            }
        }
    }

    /// Whether the task that the action is about may be granted once more within the bounds.
    fn may_grant(&self, world: &FlowWorld, action: Action) -> bool {
        let task = match action {
            Action::Poll(line) => first(&world.ready, line),
            Action::Try(at) => Some(at),
            _ => None,
        };
        let live = task.and_then(|at| world.tasks[at].live());
        live.is_none_or(|task| task.attempt < self.bounds.attempts)
    }
}

impl Model for FlowSpace {
    type State = FlowWorld;
    type Action = Action;

    fn init_states(&self) -> Vec<FlowWorld> {
        vec![FlowWorld::new(self.bounds.tasks.len())]
    }

    fn actions(&self, world: &FlowWorld, actions: &mut Vec<Action>) {
        if !world.broken.is_empty() {
            return;
        }
        if world.now.millis() < START.millis() + self.bounds.ticks {
            actions.push(Action::Tick);
        }
        self.polls(world, actions);
        actions.retain(|action| self.may_grant(world, *action));
        for at in 0..world.tasks.len() {
            match world.tasks[at] {
                verdict::Subject::Absent => actions.push(Action::Submit(at)),
                verdict::Subject::Live(_) => {
                    actions.extend([Action::Cancel(at), Action::Sweep(at)]);
                }
                verdict::Subject::Done(_) => {}
            }
        }
        for at in 0..world.issued.len() {
            let kinds = [ReportKind::Succeeded, ReportKind::Failed, ReportKind::Released];
            actions.extend(kinds.into_iter().map(|kind| Action::Report(at, kind)));
            actions.push(Action::Undelivered(at));
        }
    }

    fn next_state(&self, world: &FlowWorld, action: Action) -> Option<FlowWorld> {
        self.step(world, action)
    }

    fn properties(&self) -> Vec<Checked<Self>> {
        macro_rules! always {
            ($($property:ident)*) => {
                vec![$(Checked::always(FlowProperty::$property.name(), |_, world: &FlowWorld| {
                    !world.broken.contains(&FlowProperty::$property)
                })),*]
            };
        }
        always![Held NoLeak NoneForgotten Rebuilt Granted Rate]
    }
}

/// Visits every state within the bounds, with the production rules.
pub fn explore(bounds: FlowBounds, threads: usize) -> Outcome {
    let never: BTreeSet<&str> = bounds.never.iter().copied().collect();
    let name = bounds.name;
    let checker = FlowSpace::new(bounds, Production, Following)
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let goals = (&GOALS[..], &checker.model().reached[..]);
    outcome(name, &checker, goals, &never)
}

/// Searches for one sequence of steps in which these rules, or this index, break `property`.
pub fn find(
    bounds: FlowBounds,
    rules: impl Rules,
    index: impl SlotIndex,
    property: FlowProperty,
) -> Option<Violation> {
    let wanted = BTreeSet::from([property.name()]);
    let space = FlowSpace { wanted: Some(property), ..FlowSpace::new(bounds, rules, index) };
    let checker = space.checker().finish_when(HasDiscoveries::AnyOf(wanted)).spawn_bfs().join();
    violations(&checker).into_iter().find(|found| found.property == property.name())
}
