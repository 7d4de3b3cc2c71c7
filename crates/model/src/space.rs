//! The state space of all worlds within bounds, as the explorer sees it.

use stateright::{Model, Property as Checked};
use verdict::request::{CancelMode, Request};
use verdict::{Moment, ReadSet, Subject, Verdict};

use crate::action::{
    Action, Call, GrantDelivery, IssuedAt, ReportKind, Sender, Submission, TaskAt,
};
use crate::coverage::CoverageGoals;
use crate::property::Property;
use crate::world::World;
use crate::worlds::Bounds;

/// The seam through which the rules are supplied. Tests supply broken ones.
pub trait Rules: Send + Sync + 'static {
    fn decide(&self, read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict;
}

/// The rules that run in production.
pub struct Production;

impl Rules for Production {
    fn decide(&self, read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        verdict::decide(read_set, request, at)
    }
}

pub struct Space {
    pub(crate) bounds: Bounds,
    pub(crate) rules: Box<dyn Rules>,
    pub(crate) coverage: CoverageGoals,
}

impl Space {
    pub fn new(bounds: Bounds, rules: impl Rules) -> Self {
        Self { bounds, rules: Box::new(rules), coverage: CoverageGoals::default() }
    }

    fn clock(&self, world: &World, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        if world.left.steps_back > 0 {
            actions.push(Action::StepBack);
        }
    }

    fn coordinator(&self, world: &World, actions: &mut Vec<Action>) {
        if world.left.crashes > 0 {
            actions.extend(self.bounds.gaps.iter().copied().map(Action::Crash));
        }
        if world.left.restores > 0 {
            match world.backup {
                None => actions.push(Action::Backup),
                Some(_) => actions.push(Action::Restore),
            }
        }
    }

    fn clients(&self, world: &World, task: TaskAt, actions: &mut Vec<Action>) {
        actions.push(Action::Submit(task, Submission::Same));
        if world.tasks[task].subject == Subject::Absent {
            return;
        }
        actions.push(Action::Submit(task, Submission::Other));
        actions.push(Action::Cancel(task, CancelMode::Graceful));
        actions.push(Action::Cancel(task, CancelMode::Immediate));
        actions.push(Action::Sweep(task));
    }

    /// Workers are interchangeable until they have held a lease, so only one of those that have not polls.
    fn polls(&self, world: &World, task: TaskAt, actions: &mut Vec<Action>) {
        if world.tasks[task].ledger.grants >= self.bounds.attempts {
            return;
        }
        let known = world.issued.iter().map(|issued| issued.worker + 1).max().unwrap_or(0);
        for worker in 0..=known.min(self.bounds.workers - 1) {
            actions.push(Action::Poll(task, worker, GrantDelivery::Sent));
        }
        actions.push(Action::Poll(task, 0, GrantDelivery::Unsent));
    }

    fn arrivals(&self, world: &World, at: IssuedAt, actions: &mut Vec<Action>) {
        let issued = &world.issued[at];
        let reports = self.bounds.says.iter().copied().map(Call::Report);
        for call in [Call::Started, Call::Heartbeat].into_iter().chain(reports) {
            actions.push(Action::Arrives(at, call, Sender::Owner));
        }
        let mut liars = vec![Sender::AheadOfItself, Sender::Inventing];
        let other = (issued.worker + 1) % self.bounds.workers;
        if other != issued.worker {
            liars.push(Sender::Thief(other));
        }
        let others = (0..world.tasks.len()).filter(|task| *task != issued.task);
        liars.extend(others.map(Sender::Astray));
        for liar in liars {
            for call in [Call::Started, Call::Heartbeat, Call::Report(ReportKind::Succeeded)] {
                actions.push(Action::Arrives(at, call, liar));
            }
        }
    }
}

impl Model for Space {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.bounds)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if !world.broken.is_empty() {
            return;
        }
        self.clock(world, actions);
        self.coordinator(world, actions);
        for task in 0..world.tasks.len() {
            self.clients(world, task, actions);
            self.polls(world, task, actions);
        }
        for at in 0..world.issued.len() {
            if !self.bounds.says.is_empty() {
                self.arrivals(world, at, actions);
            }
            if self.bounds.hands_back {
                actions.push(Action::Undelivered(at));
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        self.step(world, action)
    }

    fn properties(&self) -> Vec<Checked<Self>> {
        macro_rules! always {
            ($($property:ident)*) => {
                vec![$(Checked::always(Property::$property.name(), |_, world: &World| {
                    !world.broken.contains(Property::$property)
                })),*]
            };
        }
        always![A1 A2 A3 A4 A6 A7 A8 B1 B2 B3 B4 B6 B7 B8 C6]
    }
}
