//! Random plans with random failures, lost workers, cancels, and messages that are late, repeated and reordered.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use verdict::plan::{PlanStep, Stage, StepTerms};
use verdict::request::{CancelMode, Outcome};
use verdict::run::RunRequest;
use verdict::{Answer, Category, Policy, Request, State, Subject, TaskId};

use crate::family::{Family, ROOT, run};
use crate::planned::{LATER, PLAIN, planned, stage, staged, step, task_of};
use crate::world::{failed, report, secs, start, succeeded};

/// What the workers of one step do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Succeed,
    Fail,
    /// The worker is lost every time.
    Lose,
    /// A client cancels the step before it is leased, if it is not blocked.
    Cancel,
}

#[derive(Clone, Debug)]
struct Plan {
    steps: Vec<(BTreeSet<usize>, StepTerms, Fate)>,
    cancel: Option<(usize, CancelMode)>,
    slice: usize,
    picks: Vec<u16>,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Succeed),
        2 => Just(Fate::Fail),
        1 => Just(Fate::Lose),
        1 => Just(Fate::Cancel),
    ]
}

fn terms() -> impl Strategy<Value = StepTerms> {
    (0..4_u8, 0..6_u8).prop_map(|(tolerates, must)| StepTerms {
        continues_on_error: tolerates == 0,
        is_always: must == 0,
        ..PLAIN
    })
}

fn cancel() -> impl Strategy<Value = Option<(usize, CancelMode)>> {
    let mode = prop_oneof![Just(CancelMode::Graceful), Just(CancelMode::Immediate)];
    prop_oneof![2 => Just(None), 1 => (0..60_usize, mode).prop_map(Some)]
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let step = (vec(any::<prop::sample::Index>(), 0..4), terms(), fate());
    (vec(step, 1..9), cancel(), 1..4_usize, vec(any::<u16>(), 120)).prop_map(
        |(steps, cancel, slice, picks)| {
            let upstreams = |place: usize, chosen: &[prop::sample::Index]| {
                chosen.iter().filter(|_| place > 0).map(|index| index.index(place)).collect()
            };
            let steps = steps
                .iter()
                .enumerate()
                .map(|(place, (chosen, terms, fate))| {
                    (upstreams(place, chosen), terms.clone(), *fate)
                })
                .collect();
            Plan { steps, cancel, slice, picks }
        },
    )
}

impl Plan {
    /// Only workers that are to be lost have short leases: no other attempt runs out of time.
    fn declared(&self) -> Vec<PlanStep> {
        let mut declared = Vec::new();
        for (place, (upstreams, terms, fate)) in self.steps.iter().enumerate() {
            let upstreams: Vec<usize> = upstreams.iter().copied().collect();
            let mut step = step(place, &upstreams, terms.clone());
            let lease = if *fate == Fate::Lose { secs(10) } else { secs(1_000_000) };
            step.child.submit.policy.lease = lease;
            declared.push(step);
        }
        declared
    }

    /// How each step ends if nobody cancels the run: from the words of the promise, not from the rules.
    fn expected(&self) -> Vec<State> {
        let mut ends: Vec<State> = Vec::new();
        for (upstreams, terms, fate) in &self.steps {
            let is_blocked =
                upstreams.iter().any(|upstream| self.blocks(*upstream, ends[*upstream]));
            ends.push(match fate {
                _ if is_blocked && !terms.is_always => State::Skipped,
                Fate::Succeed => State::Succeeded,
                Fate::Fail | Fate::Lose => State::Failed,
                Fate::Cancel => State::Cancelled,
            });
        }
        ends
    }

    fn blocks(&self, place: usize, end: State) -> bool {
        let tolerates = self.steps[place].1.continues_on_error;
        end != State::Succeeded && (end == State::Skipped || !tolerates)
    }
}

/// A world in which one thing happens after the other, in a random order.
struct Life {
    plan: Plan,
    family: Family,
}

impl Life {
    fn new(plan: Plan) -> Self {
        let mut family = planned(plan.declared());
        family.slice = plan.slice;
        Self { plan, family }
    }

    fn live(&self) -> Vec<TaskId> {
        let is_live = |id: &TaskId| {
            self.family.members[id].subject.as_ref().is_some_and(|it| it.live().is_some())
        };
        self.family.members.keys().copied().filter(is_live).collect()
    }

    /// Decides one of the messages that are the oldest of their pair, or repeats one that was decided.
    fn deliver(&mut self, pick: usize) {
        let mut pairs = BTreeSet::new();
        let oldest: Vec<usize> = (0..self.family.messages.len())
            .filter(|place| {
                let message = &self.family.messages[*place];
                pairs.insert((message.from, message.to))
            })
            .collect();
        if oldest.is_empty() {
            return;
        }
        let message = self.family.messages.remove(oldest[pick % oldest.len()]);
        let request = run(RunRequest::Message(message.clone()));
        match self.family.ask(message.to, request) {
            // It overtook the spawning of its addressee.
            Answer::Refused(_) => self.family.messages.push(message),
            _ => self.family.decided.push(message),
        }
    }

    fn repeat(&mut self, pick: usize) {
        if self.family.decided.is_empty() {
            return;
        }
        let message = self.family.decided[pick % self.family.decided.len()].clone();
        let answer = self.family.ask_in_vain(message.to, run(RunRequest::Message(message)));
        assert_eq!(answer, Answer::Nothing);
    }

    /// A worker or a client does what the step's fate says.
    fn work(&mut self, id: TaskId) {
        let Some(place) = (0..self.plan.steps.len()).find(|place| task_of(*place) == id) else {
            self.family.sweep(id);
            return;
        };
        let task = self.family.task(id);
        if task.lease().is_some() {
            self.end_attempt(id, place);
        } else if let Some(due) = task.claimable_at() {
            self.family.now = self.family.now.max(due);
            self.check_upstreams(place);
            match self.plan.steps[place].2 {
                Fate::Cancel => drop(self.family.cancel(id, CancelMode::Graceful)),
                _ => drop(self.family.grant(id)),
            }
        }
    }

    fn end_attempt(&mut self, id: TaskId, place: usize) {
        let lease = self.family.task(id).lease().expect("it is running").clone();
        let caller = verdict::request::Caller {
            worker: lease.owner.clone(),
            attempt: self.family.task(id).attempt,
            lease: lease.id,
            epoch: 1,
        };
        match self.plan.steps[place].2 {
            Fate::Lose => {
                self.family.ask(id, start(&caller));
                self.family.now = self.family.now.max(lease.expires_at);
                self.family.sweep(id);
            }
            Fate::Fail => drop(self.family.ask(id, report(&caller, failed(Category::DataQuality)))),
            Fate::Succeed | Fate::Cancel => drop(self.family.ask(id, report(&caller, succeeded()))),
        }
    }

    /// A step may run only after all its upstreams have ended.
    fn check_upstreams(&self, place: usize) {
        for upstream in &self.plan.steps[place].0 {
            let state = self.family.state(task_of(*upstream));
            assert!(state.is_some_and(State::is_terminal), "{upstream} before {place}: {state:?}");
        }
    }

    fn happen(&mut self, pick: usize) {
        let live = self.live();
        match (pick % 8, live.is_empty()) {
            (0, _) => self.repeat(pick / 8),
            (1 | 2, false) => self.work(live[pick / 8 % live.len()]),
            (3, _) => drop(self.family.ask(ROOT, Request::Sweep)),
            _ => self.deliver(pick / 8),
        }
    }

    fn run(mut self) -> Family {
        for (moment, pick) in self.plan.picks.clone().into_iter().enumerate() {
            if let Some((_, mode)) = self.plan.cancel.filter(|(when, _)| *when == moment) {
                self.family.cancel(ROOT, mode);
            }
            self.happen(pick.into());
        }
        // Whatever is left happens in some order, within a bound.
        for round in 0..4_000 {
            if self.live().is_empty() && self.family.messages.is_empty() {
                return self.family;
            }
            self.deliver(round);
            let live = self.live();
            if !live.is_empty() {
                self.work(live[round % live.len()]);
            }
        }
        panic!("not ended: {:?}", self.live());
    }
}

fn end(family: &Family, id: TaskId) -> State {
    match family.subject(id) {
        Subject::Done(done) => done.end.state,
        other => panic!("{id} has not ended but is {:?}", other.state()),
    }
}

fn check_ends(plan: &Plan, family: &mut Family) {
    let ends: Vec<State> = (0..plan.steps.len()).map(|place| end(family, task_of(place))).collect();
    let is_stopped = family.count(ROOT, "cancel_requested") > 0;
    if !is_stopped {
        assert_eq!(ends, plan.expected());
        let blocking = (0..ends.len()).any(|place| plan.blocks(place, ends[place]));
        let expected = if blocking { State::Failed } else { State::Succeeded };
        assert_eq!(end(family, ROOT), expected);
    }
    for (place, state) in ends.iter().enumerate() {
        let has_blocking =
            plan.steps[place].0.iter().any(|upstream| plan.blocks(*upstream, ends[*upstream]));
        assert!(*state != State::Skipped || has_blocking, "{place} was skipped for nothing");
        let ran = family.count(task_of(place), "granted") > 0;
        assert!(!ran || !has_blocking || plan.steps[place].1.is_always, "{place} ran");
    }
    family.repeat_messages();
}

/// The stages of a plan, by their fates: how the task must end, and which of them are recorded.
fn expected_stages(stages: &[(StepTerms, Fate)]) -> (State, Vec<usize>) {
    let (mut end, mut recorded) = (State::Succeeded, Vec::new());
    for (place, (terms, fate)) in stages.iter().enumerate() {
        if end != State::Succeeded && !terms.is_always {
            continue;
        }
        recorded.push(place);
        end = match fate {
            _ if end != State::Succeeded => end,
            Fate::Succeed => State::Succeeded,
            Fate::Cancel => State::Cancelled,
            Fate::Fail | Fate::Lose if terms.continues_on_error => State::Succeeded,
            Fate::Fail | Fate::Lose => State::Failed,
        };
    }
    (end, recorded)
}

fn run_stage(family: &mut Family, fate: Fate) {
    family.now = family.now.plus(LATER);
    if fate == Fate::Cancel && family.task(ROOT).stages().is_some_and(|it| it.ending.is_none()) {
        family.cancel(ROOT, CancelMode::Graceful);
        return;
    }
    let caller = family.grant(ROOT);
    let outcome = match fate {
        Fate::Succeed | Fate::Cancel => Outcome::Succeeded { output: None },
        Fate::Fail => failed(Category::DataQuality),
        Fate::Lose => {
            family.ask(ROOT, start(&caller));
            family.now = family.task(ROOT).lease().expect("it is running").expires_at;
            family.sweep(ROOT);
            return;
        }
    };
    family.ask(ROOT, report(&caller, outcome));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_step_ends_once_and_is_skipped_only_if_an_upstream_blocks(plan in any_plan()) {
        let mut family = Life::new(plan.clone()).run();
        check_ends(&plan, &mut family);
    }

    #[test]
    fn every_sequence_of_stages_ends_as_its_stages_say(stages in vec((terms(), fate()), 1..7)) {
        let declared = stages.iter().enumerate().map(|(place, (terms, _))| Stage {
            continues_on_error: terms.continues_on_error,
            is_always: terms.is_always,
            ..stage(&format!("s{place}"))
        });
        let mut family = staged(declared.collect(), Policy::default());
        let mut versions = Vec::new();
        for _ in 0..200 {
            let Some(task) = family.subject(ROOT).live() else { break };
            versions.push(task.claim_version);
            let place = task.stages().expect("it has stages").current as usize;
            run_stage(&mut family, stages[place].1);
        }
        let (state, recorded) = expected_stages(&stages);
        prop_assert_eq!(end(&family, ROOT), state);
        let is_recorded = |place: &usize| {
            family.members[&ROOT].records.checkpoint(&format!("s{place}").as_str().into()).is_some()
        };
        prop_assert_eq!((0..stages.len()).filter(is_recorded).collect::<Vec<_>>(), recorded);
        prop_assert!(versions.is_sorted(), "a claim version never goes back");
    }
}
