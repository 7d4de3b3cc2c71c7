//! The state space of a schedule's world, as the explorer sees it, and the result of an exploration.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Checker, HasDiscoveries, Model, Property as Checked};
use verdict::schedule::{Fired, Instants, Overlap, Schedule};
use verdict::{Span, TaskId, Time};

use super::world::{
    COORDINATORS, Commits, FiringBounds, FiringProperty, FiringWorld, GOALS, Guarded, Loaded,
    START, TICK,
};
use crate::explore::{Outcome, Violation, outcome, violations};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// One unit of time passes.
    Tick,
    /// A coordinator loads the schedule, and forgets what it had loaded: it may have died.
    Load(usize),
    /// A coordinator decides about what it loaded, and commits.
    Commit(usize),
    /// The run of an instant ends.
    End(Time),
    Pause,
    Resume,
}

struct FiringSpace {
    bounds: FiringBounds,
    commits: Box<dyn Commits>,
    reached: [AtomicBool; GOALS.len()],
}

fn goal(name: &str) -> usize {
    GOALS.iter().position(|goal| *goal == name).expect("every goal is listed")
}

fn run_of(instant: Time) -> TaskId {
    TaskId::from_u128(u128::from(instant.millis().unsigned_abs()))
}

impl FiringSpace {
    fn new(bounds: FiringBounds, commits: impl Commits) -> Self {
        let reached = [const { AtomicBool::new(false) }; GOALS.len()];
        Self { bounds, commits: Box::new(commits), reached }
    }

    fn reach(&self, name: &str) {
        self.reached[goal(name)].store(true, Ordering::Relaxed);
    }

    fn every(&self) -> Span {
        Span::from_millis(TICK.millis() * self.bounds.every)
    }

    /// The first instant after this time.
    fn after(&self, time: Time) -> Time {
        let every = self.every().millis();
        let passed = time.since(START).millis() / every;
        START.plus(Span::from_millis((passed + 1) * every))
    }

    /// What a calendar says.
    fn instants(&self, schedule: &Schedule, now: Time) -> Instants {
        let mut due = Vec::new();
        let mut instant = schedule.next;
        while let Some(it) = instant.filter(|it| it.has_come(now)) {
            due.push(it);
            instant = Some(it.plus(self.every()));
        }
        Instants { due, next: Some(self.after(now)) }
    }

    fn step(&self, world: &FiringWorld, action: Action) -> Option<FiringWorld> {
        let mut next = world.clone();
        match action {
            Action::Tick => next.now = next.now.plus(TICK),
            Action::Load(at) => {
                let loaded = Loaded {
                    revision: next.revision,
                    schedule: next.schedule.clone(),
                    at: next.now,
                };
                next.coordinators[at] = Some(loaded);
            }
            Action::Commit(at) => {
                let loaded = next.coordinators[at].take()?;
                self.commit(&mut next, &loaded)?;
            }
            Action::End(instant) => drop(next.live.remove(&instant)),
            Action::Pause => {
                next.pauses_left -= 1;
                self.reach("the schedule is paused");
                let paused = next.schedule.clone().paused();
                self.write(&mut next, paused);
            }
            Action::Resume => {
                let first = self.after(next.now);
                let resumed = next.schedule.clone().resumed(Some(first));
                self.write(&mut next, resumed);
            }
        }
        self.judge(&mut next);
        (next != *world).then_some(next)
    }

    /// One round, decided at the time of the load and committed now. `None` if there is nothing to do.
    fn commit(&self, world: &mut FiringWorld, loaded: &Loaded) -> Option<()> {
        let Loaded { revision, schedule, at } = loaded;
        if !self.commits.is_made(*revision, world.revision) {
            self.reach("a stale commit is refused");
            return Some(());
        }
        let is_former_live = schedule.last.is_some_and(|last| world.live.contains(&last.instant));
        let instants = self.instants(schedule, *at);
        let round = schedule.begin(&instants, is_former_live, *at)?;
        if let Some(older) = round.cancel {
            self.reach("an older run is cancelled");
            world.live.retain(|instant| run_of(*instant) != older);
        }
        for waiting in &round.fire {
            let is_there = world.births.contains_key(&waiting.instant) && self.commits.finds_run();
            if !is_there {
                *world.births.entry(waiting.instant).or_default() += 1;
                world.live.insert(waiting.instant);
            }
        }
        let fired = round.fire.iter().map(|it| Fired::Started(run_of(it.instant))).collect();
        let after = round.end(fired, *at);
        self.note(schedule, &after);
        self.write(world, after);
        Some(())
    }

    fn write(&self, world: &mut FiringWorld, after: Schedule) {
        if let (Some(from), Some(to)) = (world.schedule.next, after.next) {
            world.passed += to.since(from).millis() / self.every().millis();
        }
        if after.next.is_some_and(|next| next < world.latest) {
            world.broken.insert(FiringProperty::Forward);
        }
        world.latest = after.next.map_or(world.latest, |next| next.max(world.latest));
        world.schedule = after;
        world.revision += 1;
    }

    fn note(&self, before: &Schedule, after: &Schedule) {
        let (then, now) = (before.counts, after.counts);
        for (name, is_reached) in [
            ("an instant fires", now.fired > then.fired),
            ("an instant is missed", now.missed > then.missed),
            ("an instant is skipped", now.skipped > then.skipped),
            ("an instant waits", !after.waiting.is_empty()),
        ] {
            if is_reached {
                self.reach(name);
            }
        }
    }

    fn judge(&self, world: &mut FiringWorld) {
        let counts = world.schedule.counts;
        let counted = counts.fired + counts.skipped + counts.missed + counts.refused;
        let counted = counted + world.schedule.waiting.len() as u64;
        let is_single = matches!(self.bounds.overlap, Overlap::Skip | Overlap::Queue);
        let born: u64 = world.births.values().map(|births| u64::from(*births)).sum();
        let is_accounted = counted == world.passed && counts.fired == born;
        for (property, holds) in [
            (FiringProperty::OneRun, world.births.values().all(|births| *births == 1)),
            (FiringProperty::Accounted, is_accounted),
            (FiringProperty::NoOverlap, !is_single || world.live.len() <= 1),
            (FiringProperty::UpToDate, self.is_brought_up(world)),
        ] {
            if !holds {
                world.broken.insert(property);
            }
        }
    }

    /// What must come to pass is tried, in a copy: somebody looks at the schedule now.
    fn is_brought_up(&self, world: &FiringWorld) -> bool {
        let mut copy = world.clone();
        let loaded =
            Loaded { revision: copy.revision, schedule: copy.schedule.clone(), at: copy.now };
        self.commit(&mut copy, &loaded);
        copy.schedule.due().is_none_or(|due| !due.has_come(copy.now))
    }
}

impl Model for FiringSpace {
    type State = FiringWorld;
    type Action = Action;

    fn init_states(&self) -> Vec<FiringWorld> {
        vec![FiringWorld::new(&self.bounds)]
    }

    fn actions(&self, world: &FiringWorld, actions: &mut Vec<Action>) {
        if !world.broken.is_empty() {
            return;
        }
        if world.now.since(START).millis() < TICK.millis() * self.bounds.ticks {
            actions.push(Action::Tick);
        }
        for at in 0..COORDINATORS {
            actions.extend([Action::Load(at), Action::Commit(at)]);
        }
        actions.extend(world.live.iter().copied().map(Action::End));
        match world.schedule.is_paused {
            true => actions.push(Action::Resume),
            false if world.pauses_left > 0 => actions.push(Action::Pause),
            false => {}
        }
    }

    fn next_state(&self, world: &FiringWorld, action: Action) -> Option<FiringWorld> {
        self.step(world, action)
    }

    fn properties(&self) -> Vec<Checked<Self>> {
        macro_rules! always {
            ($($property:ident)*) => {
                vec![$(Checked::always(FiringProperty::$property.name(), |_, world: &FiringWorld| {
                    !world.broken.contains(&FiringProperty::$property)
                })),*]
            };
        }
        always![OneRun Accounted Forward NoOverlap UpToDate]
    }
}

/// Visits every state within the bounds, with commits as every store makes them.
pub fn explore(bounds: FiringBounds, threads: usize) -> Outcome {
    let never: BTreeSet<&str> = bounds.never.iter().copied().collect();
    let name = bounds.name;
    let checker = FiringSpace::new(bounds, Guarded)
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let goals = (&GOALS[..], &checker.model().reached[..]);
    outcome(name, &checker, goals, &never)
}

/// Searches for one sequence of steps in which commits of this kind break `property`.
pub fn find(
    bounds: FiringBounds,
    commits: impl Commits,
    property: FiringProperty,
) -> Option<Violation> {
    let wanted = BTreeSet::from([property.name()]);
    let checker = FiringSpace::new(bounds, commits)
        .checker()
        .finish_when(HasDiscoveries::AnyOf(wanted))
        .spawn_bfs()
        .join();
    violations(&checker).into_iter().find(|found| found.property == property.name())
}
