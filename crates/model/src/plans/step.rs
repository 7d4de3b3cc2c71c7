//! Applies an action to a world of a plan: asks the rules, judges, and records what they say.

use verdict::plan::{PlanEvent, PlanMessage};
use verdict::request::{Caller, Cancel, Grant};
use verdict::run::{Body, Message, Recorded, RunEvent, RunRequest};
use verdict::{
    Answer, Context, Event, LeaseId, Moment, ReadSet, Request, State, Subject, Verdict,
    apply_verdict, closed_attempts,
};

use super::action::{Action, planned, report, submission};
use super::space::PlanSpace;
use super::world::{NOW, PlanBroken, PlanProperty, PlanWorld, ROOT, blocks, place};
use crate::runs::{Issued, stripped};

const WORKER: &str = "ann";

/// How many steps one decision tells or cancels.
const SLICE: usize = 1;

impl PlanSpace {
    /// The world at the beginning: the plan is submitted.
    pub(super) fn begin(&self) -> PlanWorld {
        let mut world = PlanWorld::new(self.bounds.steps.len());
        let plan = submission(&self.bounds);
        world.tasks[ROOT].records.put_steps(&plan.steps);
        self.ask(&mut world, ROOT, &planned(plan));
        world.normalise();
        world
    }

    /// The world after `action`; `None` if nothing changed.
    pub(super) fn step(&self, world: &PlanWorld, action: Action) -> Option<PlanWorld> {
        let mut next = world.clone();
        let changed = match action {
            Action::Poll(task) => self.poll(&mut next, task),
            Action::Report(at, succeeds) => self.report(&mut next, world.issued[at], succeeds),
            Action::Cancel(mode) => {
                next.is_cancelled = true;
                self.ask(&mut next, ROOT, &Request::Cancel(Cancel { reason: None, mode }))
            }
            Action::Sweep(task) => self.ask(&mut next, task, &Request::Sweep),
            Action::Deliver(at) => self.deliver(&mut next, at),
            Action::Repeat(at) => self.decide_message(&mut next, &world.decided[at]),
        };
        changed.then(|| {
            if next.broken.is_empty() {
                next.broken.require(PlanProperty::EverythingEnds, self.ends(&next));
            }
            next.normalise();
            next
        })
    }

    fn poll(&self, world: &mut PlanWorld, task: usize) -> bool {
        let lease = LeaseId::from_u128(task as u128);
        let grant = Grant { lease, owner: WORKER.into(), poll: None, build: None };
        let changed = self.ask(world, task, &Request::Grant(grant));
        if changed {
            world.issued.push(Issued { task, attempt: 1, lease });
        }
        changed
    }

    fn report(&self, world: &mut PlanWorld, issued: Issued, succeeds: bool) -> bool {
        let Issued { task, attempt, lease } = issued;
        let caller = Caller { worker: WORKER.into(), attempt, lease, epoch: 1 };
        self.ask(world, task, &report(caller, succeeds))
    }

    /// A message to a step that does not exist yet stays saved.
    fn deliver(&self, world: &mut PlanWorld, at: usize) -> bool {
        if !is_due(world, at) {
            return false;
        }
        let message = world.saved.remove(at);
        self.decide_message(world, &message);
        world.decided.push(message);
        true
    }

    fn decide_message(&self, world: &mut PlanWorld, message: &Message) -> bool {
        let request = Request::Run(Box::new(RunRequest::Message(message.clone())));
        self.ask(world, place(message.to), &request)
    }

    /// Asks the rules about one task and applies their verdict; returns whether anything changed.
    fn ask(&self, world: &mut PlanWorld, task: usize, request: &Request) -> bool {
        let row = &world.tasks[task];
        let at = Moment { now: NOW, epoch: 1, rules: verdict::Rules::NEWEST };
        let loaded = row.records.load_slices(&row.subject, request, SLICE);
        let lease = request.caller().map(|caller| caller.lease);
        let closed = lease.and_then(|lease| row.closed.iter().find(|one| one.lease == lease));
        let context = Context { closed, run: Some(&loaded), ..Context::default() };
        let verdict = self.rules.decide(ReadSet { subject: &row.subject, context }, request, at);
        let mut broken = self.judge_grant(world, task, &verdict);
        self.note_answer(request, &verdict);
        self.count(world, task, &verdict.events);
        let is_once = world.births.iter().chain(&world.ends).all(|count| *count <= 1);
        broken.require(PlanProperty::EachStepOnce, is_once);
        if !is_once {
            world.broken = broken;
            return true;
        }
        let row = &mut world.tasks[task];
        let applied = apply_verdict(&mut row.subject, verdict, at);
        let Some(settled) = applied.settled else { return false };
        row.closed.extend(closed_attempts(&settled.events).cloned());
        row.records.note(&stripped(&settled.events));
        world.saved.extend(settled.messages);
        self.judge_state(world, task, &mut broken);
        world.broken = broken;
        true
    }

    fn note_answer(&self, request: &Request, verdict: &Verdict) {
        let is_message = matches!(request, Request::Run(request)
            if matches!(**request, RunRequest::Message(_)));
        if is_message && matches!(verdict.answer, Answer::Nothing) {
            self.reach("a message changes nothing");
        }
    }

    fn count(&self, world: &mut PlanWorld, task: usize, events: &[Event]) {
        for event in events {
            let Event::Run(event) = event else { continue };
            match &**event {
                RunEvent::Plan(event) => match &**event {
                    PlanEvent::StepSpawned { .. } => world.births[task] += 1,
                    PlanEvent::DownstreamsTold { has_more: true, .. } => {
                        self.reach("a slice is left to a sweep");
                    }
                    _ => {}
                },
                RunEvent::Checkpointed(checkpoint) => {
                    if let Recorded::Child(end) = &checkpoint.recorded {
                        world.ends[place(end.child)] += 1;
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether a step that is granted may run by what it depends on.
    fn judge_grant(&self, world: &PlanWorld, task: usize, verdict: &Verdict) -> PlanBroken {
        let mut broken = PlanBroken::default();
        let is_granted = verdict.events.iter().any(|it| matches!(it, Event::Granted { .. }));
        if task == ROOT || !is_granted {
            broken.require(PlanProperty::RunsInTurn, !is_granted);
            return broken;
        }
        let before = self.bounds.before(world, task);
        let is_always = self.bounds.steps[task - 1].always;
        let may_run =
            |end: &Option<(State, bool)>| end.is_some_and(|end| is_always || !blocks(end));
        broken.require(PlanProperty::RunsInTurn, before.iter().all(may_run));
        for (state, is_tolerated) in before.into_iter().flatten() {
            match (state, is_tolerated) {
                (State::Failed, true) => self.reach("a tolerated failure lets the next step run"),
                (State::Failed | State::Skipped, false) => {
                    self.reach("a step runs although one before it failed");
                }
                _ => {}
            }
        }
        broken
    }

    fn judge_state(&self, world: &PlanWorld, task: usize, broken: &mut PlanBroken) {
        match world.end(task) {
            Some(end) if task == ROOT => self.judge_run(world, end, broken),
            Some(State::Skipped) => self.judge_skip(world, task, broken),
            _ => {}
        }
    }

    fn judge_skip(&self, world: &PlanWorld, task: usize, broken: &mut PlanBroken) {
        let before = self.bounds.before(world, task);
        let has_cause = before.iter().flatten().any(|end| blocks(*end));
        let is_in_turn = before.iter().all(Option::is_some);
        let is_always = self.bounds.steps[task - 1].always;
        let is_right = has_cause && is_in_turn && !is_always;
        broken.require(PlanProperty::SkippedForCause, is_right);
        self.reach("a step is skipped");
        if before.iter().flatten().any(|(state, _)| *state == State::Skipped) {
            self.reach("a skip is passed on");
        }
    }

    fn judge_run(&self, world: &PlanWorld, end: State, broken: &mut PlanBroken) {
        let ends: Vec<Option<(State, bool)>> = (1..world.tasks.len())
            .map(|at| world.end(at).map(|state| (state, self.bounds.steps[at - 1].continues)))
            .collect();
        let is_over = ends.iter().all(Option::is_some);
        let is_blamed = ends.iter().flatten().any(|end| blocks(*end));
        let is_right = match end {
            State::Succeeded => !is_blamed,
            State::Failed => is_blamed,
            State::Cancelled => world.is_cancelled,
            _ => false,
        };
        broken.require(PlanProperty::EndsAsStepsSay, is_over && is_right);
        self.reach(match end {
            State::Succeeded => "the run succeeds",
            State::Failed => "the run fails",
            _ => "the run is cancelled in the middle",
        });
    }

    /// Decides every message and lets workers succeed, in a copy of the world: the run must end.
    fn ends(&self, world: &PlanWorld) -> bool {
        let mut copy = world.clone();
        // Each round ends at least one step or tells at least one.
        for _ in 0..4 * copy.tasks.len() {
            while let Some(at) = (0..copy.saved.len()).find(|at| is_due(&copy, *at)) {
                self.deliver(&mut copy, at);
            }
            for task in 0..copy.tasks.len() {
                self.ask(&mut copy, task, &Request::Sweep);
                self.poll(&mut copy, task);
            }
            for issued in copy.issued.clone() {
                self.report(&mut copy, issued, true);
            }
            if copy.tasks.iter().all(|row| matches!(row.subject, Subject::Done(_))) {
                return true;
            }
        }
        false
    }

    /// Whether a worker may be granted the step.
    pub(super) fn may_poll(&self, world: &PlanWorld, task: usize) -> bool {
        world.tasks[task].subject.live().is_some_and(|task| task.claimable_at().is_some())
    }
}

/// Whether the message's addressee exists, or the message creates it.
fn is_due(world: &PlanWorld, at: usize) -> bool {
    let message = &world.saved[at];
    let is_spawn = matches!(message.body, Body::Plan(PlanMessage::Spawn { .. }));
    is_spawn || !matches!(world.tasks[place(message.to)].subject, Subject::Absent)
}
