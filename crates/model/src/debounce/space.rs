//! The state space of a debounced key's world, as the explorer sees it, and the result of an exploration.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Checker, HasDiscoveries, Model, Property as Checked};
use verdict::flow::debounce::{Replacement, replaced};
use verdict::request::{Caller, Cancel, CancelMode, Grant, Outcome, Report, Submit};
use verdict::{
    Context, Digest, FlowKey, LeaseId, Moment, Policy, ReadSet, Request, Rules, Scope, Span,
    Subject, TaskId, Time, apply_verdict, decide,
};

use super::world::{
    COORDINATORS, DebounceBounds, DebounceProperty, DebounceWorld, GOALS, Known, Locked, Looked,
    START, Submissions,
};
use crate::explore::{self, Violation, outcome, violations};
use crate::runs::normalise_subject;

const KEY: &str = "acme";
const WORKER: &str = "ann";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// One unit of time passes.
    Tick,
    /// A coordinator locks the key, and reads who was submitted last.
    Look(usize),
    /// It decides about a new run, and commits.
    Commit(usize),
    /// It dies, and its locks are free.
    Die(usize),
    Grant(usize),
    Succeed(usize),
    /// A client cancels a run.
    Cancel(usize),
}

struct DebounceSpace {
    bounds: DebounceBounds,
    submissions: Box<dyn Submissions>,
    /// The property that is searched for a violation; all of them without one.
    wanted: Option<DebounceProperty>,
    reached: [AtomicBool; GOALS.len()],
}

fn goal(name: &str) -> usize {
    GOALS.iter().position(|goal| *goal == name).expect("every goal is listed")
}

fn id(at: usize) -> TaskId {
    TaskId::from_u128(at as u128 + 1)
}

fn lease_of(at: usize) -> LeaseId {
    LeaseId::from_u128(at as u128 + 1)
}

impl DebounceSpace {
    fn new(bounds: DebounceBounds, submissions: impl Submissions) -> Self {
        let reached = [const { AtomicBool::new(false) }; GOALS.len()];
        Self { bounds, submissions: Box::new(submissions), wanted: None, reached }
    }

    fn reach(&self, name: &str) {
        self.reached[goal(name)].store(true, Ordering::Relaxed);
    }

    fn step(&self, world: &DebounceWorld, action: Action) -> Option<DebounceWorld> {
        let mut next = world.clone();
        let changed = match action {
            Action::Tick => {
                next.now = next.now.plus(Span::from_millis(1));
                true
            }
            Action::Look(at) => {
                let last = next.runs.len().checked_sub(1);
                let last = last.and_then(|at| Some((at, next.runs[at].live()?.clone())));
                next.coordinators[at] = Some(Looked { last });
                true
            }
            Action::Commit(at) => {
                let looked = next.coordinators[at].take()?;
                self.commit(&mut next, &looked);
                true
            }
            Action::Die(at) => {
                self.reach("a coordinator dies with the key");
                next.coordinators[at].take().is_some()
            }
            Action::Grant(at) => ask(&mut next, at, &grant(at)),
            Action::Succeed(at) => ask(&mut next, at, &success(at)),
            Action::Cancel(at) => {
                let cancel = Cancel { reason: None, mode: CancelMode::Immediate };
                ask(&mut next, at, &Request::Cancel(cancel))
            }
        };
        changed.then(|| {
            self.judge(&mut next);
            next.broken.retain(|property| self.wanted.is_none_or(|wanted| wanted == *property));
            next.runs.iter_mut().for_each(normalise_subject);
            next
        })
    }

    /// Submits one more run, with what the coordinator read before.
    fn commit(&self, world: &mut DebounceWorld, looked: &Looked) {
        let (at, now) = (world.runs.len(), world.now);
        let last = looked.last.as_ref().map(|(_, run)| run);
        let Replacement { debounced, due, replaces } =
            self.submissions.decide(self.bounds.debounce, last, now);
        let older = looked.last.as_ref().map(|(at, _)| *at).filter(|_| replaces.is_some());
        self.note_left_alone(world, looked, older);
        let since = older.map(|older| &world.known[older]);
        let known = Known::of(due, now, since);
        if due < now.plus(self.bounds.debounce.span) {
            self.reach("the maximum ends a wait");
        }
        world.known.push(known);
        world.runs.push(Subject::Absent);
        let flow =
            FlowKey { debounce: Some(debounced), ..FlowKey::new(KEY, verdict::flow::UNLIMITED) };
        ask(world, at, &Request::Submit(submit(at, flow, due)));
        if let Some(older) = older {
            self.replace(world, older, at);
        }
    }

    fn replace(&self, world: &mut DebounceWorld, older: usize, newer: usize) {
        self.reach("a run is replaced");
        let is_replaced = |it: &Known| it.replaced_by == Some(older);
        if world.known.iter().any(is_replaced) {
            self.reach("three runs are one line");
        }
        let is_started = world.runs[older].live().is_none_or(|run| run.attempt > 0);
        if is_started || world.known[older].due.has_come(world.now) {
            world.broken.insert(DebounceProperty::Untouched);
        }
        world.known[older].replaced_by = Some(newer);
        if self.submissions.ends_older() {
            let cancel = Request::Cancel(replaced(id(newer), &KEY.into()));
            ask(world, older, &cancel);
        }
    }

    fn note_left_alone(&self, world: &DebounceWorld, looked: &Looked, older: Option<usize>) {
        let Some((last, _)) = looked.last.as_ref().filter(|_| older.is_none()) else { return };
        let Some(run) = world.runs[*last].live() else { return };
        self.reach(match run.attempt {
            0 => "a ready run is left alone",
            _ => "a leased run is left alone",
        });
    }

    fn judge(&self, world: &mut DebounceWorld) {
        let waiting = (0..world.runs.len()).filter(|at| world.waits(*at)).count();
        let all = 0..world.runs.len();
        let broken = [
            (DebounceProperty::OneWaits, waiting > 1),
            (DebounceProperty::NewestRuns, all.clone().any(|at| !is_newest_or_ended(world, at))),
            (DebounceProperty::Bounded, all.clone().any(|at| !self.is_bounded(&world.known[at]))),
            (DebounceProperty::Ready, all.clone().any(|at| !is_ready_in_time(world, at))),
        ];
        world.broken.extend(broken.into_iter().filter(|(_, is)| *is).map(|(it, _)| it));
    }

    fn is_bounded(&self, known: &Known) -> bool {
        let (span, max) = (self.bounds.debounce.span, self.bounds.debounce.max);
        known.due == known.submitted_at.plus(span).min(known.since.plus(max))
    }
}

/// Every replaced run has ended, for a later one; the newest was not replaced.
fn is_newest_or_ended(world: &DebounceWorld, at: usize) -> bool {
    match world.known[at].replaced_by {
        None => true,
        Some(newer) => newer > at && newer < world.runs.len() && world.runs[at].live().is_none(),
    }
}

/// Who was never leased can be from the end of its wait on, and not before.
fn is_ready_in_time(world: &DebounceWorld, at: usize) -> bool {
    let Some(run) = world.runs[at].live().filter(|run| run.attempt == 0) else { return true };
    run.claimable_at() == Some(world.known[at].due)
}

fn ask(world: &mut DebounceWorld, at: usize, request: &Request) -> bool {
    let moment = Moment { now: world.now, epoch: 1, rules: Rules::NEWEST };
    let read_set = ReadSet { subject: &world.runs[at], context: Context::default() };
    let verdict = decide(read_set, request, moment);
    apply_verdict(&mut world.runs[at], verdict, moment).settled.is_some()
}

fn submit(at: usize, flow: FlowKey, due: Time) -> Submit {
    Submit {
        id: id(at),
        scope: Scope::default(),
        kind: "k".into(),
        queue: "q".into(),
        priority: 0,
        policy: Policy { seed: Some(0), ..Policy::default() },
        run_at: Some(due),
        input: Digest::of(&[]),
        budget: None,
        flow: Some(Box::new(flow)),
        fingerprint: Digest::of(&[]),
    }
}

fn grant(at: usize) -> Request {
    Request::Grant(Grant { lease: lease_of(at), owner: WORKER.into(), poll: None, build: None })
}

fn success(at: usize) -> Request {
    let caller = Caller { worker: WORKER.into(), attempt: 1, lease: lease_of(at), epoch: 1 };
    let (outcome, digest) = (Outcome::Succeeded { output: None }, Digest::of(&[]));
    Request::Report(Report { caller, outcome, digest, claims: None, by: None })
}

impl Model for DebounceSpace {
    type State = DebounceWorld;
    type Action = Action;

    fn init_states(&self) -> Vec<DebounceWorld> {
        vec![DebounceWorld::new()]
    }

    fn actions(&self, world: &DebounceWorld, actions: &mut Vec<Action>) {
        if !world.broken.is_empty() {
            return;
        }
        if world.now.millis() < START.millis() + self.bounds.ticks {
            actions.push(Action::Tick);
        }
        let is_taken =
            world.coordinators.iter().any(Option::is_some) && self.submissions.locks_key();
        for at in 0..COORDINATORS {
            match &world.coordinators[at] {
                Some(_) => actions.extend([Action::Commit(at), Action::Die(at)]),
                None if is_taken || world.runs.len() >= self.bounds.submissions => {}
                None => actions.push(Action::Look(at)),
            }
        }
        actions.retain(|action| match action {
            Action::Commit(_) => world.runs.len() < self.bounds.submissions,
            _ => true,
        });
        for at in 0..world.runs.len() {
            let Some(run) = world.runs[at].live() else { continue };
            if self.submissions.locks_run() && world.is_locked(at) {
                continue;
            }
            match run.attempt {
                0 => actions.extend([Action::Grant(at), Action::Cancel(at)]),
                _ => actions.push(Action::Succeed(at)),
            }
        }
    }

    fn next_state(&self, world: &DebounceWorld, action: Action) -> Option<DebounceWorld> {
        self.step(world, action)
    }

    fn properties(&self) -> Vec<Checked<Self>> {
        macro_rules! always {
            ($($property:ident)*) => {
                vec![$(Checked::always(DebounceProperty::$property.name(), |_, world: &DebounceWorld| {
                    !world.broken.contains(&DebounceProperty::$property)
                })),*]
            };
        }
        always![OneWaits Untouched NewestRuns Bounded Ready]
    }
}

/// Visits every state within the bounds, with the production rules.
pub fn explore(bounds: DebounceBounds, threads: usize) -> explore::Outcome {
    let name = bounds.name;
    let checker = DebounceSpace::new(bounds, Locked)
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let goals = (&GOALS[..], &checker.model().reached[..]);
    outcome(name, &checker, goals, &BTreeSet::new())
}

/// Searches for one sequence of steps in which these submissions break `property`.
pub fn find(
    bounds: DebounceBounds,
    submissions: impl Submissions,
    property: DebounceProperty,
) -> Option<Violation> {
    let space = DebounceSpace { wanted: Some(property), ..DebounceSpace::new(bounds, submissions) };
    let checker = space
        .checker()
        .finish_when(HasDiscoveries::AnyOf(BTreeSet::from([property.name()])))
        .spawn_bfs()
        .join();
    violations(&checker).into_iter().find(|found| found.property == property.name())
}
