//! Applies an action to a run's world: asks the rules, judges, and records what they say.

use verdict::request::{Caller, Cancel, Grant};
use verdict::run::{Message, RunRequest};
use verdict::{
    Context, LeaseId, Moment, ReadSet, Request, Span, Subject, Time, apply_verdict, closed_attempts,
};

use super::action::{Action, RunCall, signal, submission};
use super::judge::{goals, is_woken_by, judge_call, judge_state, open_wait};
use super::normalise::{normalise, stripped};
use super::property::{RunBroken, RunProperty};
use super::space::RunSpace;
use super::world::{Issued, ROOT, RunWorld, place};

const WORKER: &str = "ann";

impl RunSpace {
    /// The world at the beginning: the root is submitted.
    pub(super) fn begin(&self) -> RunWorld {
        let mut world = RunWorld::new(self.bounds.children + 1);
        let submit = submission(&self.bounds.policy);
        self.ask(&mut world, ROOT, &Request::Submit(submit));
        normalise(&mut world);
        world
    }

    /// The world after `action`; `None` if nothing changed.
    pub(super) fn step(&self, world: &RunWorld, action: Action) -> Option<RunWorld> {
        let mut next = world.clone();
        let changed = match action {
            Action::Tick => {
                next.now = next.now.plus(Span::from_millis(1));
                true
            }
            Action::Poll(task) => self.poll(&mut next, task),
            Action::Call(at, call) => self.call(&mut next, world.issued[at], call),
            Action::Signal(key) => {
                let request = RunRequest::Signal(signal(key));
                self.ask(&mut next, ROOT, &Request::Run(Box::new(request)))
            }
            Action::Cancel(mode) => {
                self.ask(&mut next, ROOT, &Request::Cancel(Cancel { reason: None, mode }))
            }
            Action::Sweep(task) => self.ask(&mut next, task, &Request::Sweep),
            Action::Deliver(at) => self.deliver(&mut next, at),
            Action::Repeat(at) => self.decide_message(&mut next, &world.decided[at]),
        };
        changed.then(|| {
            self.look_ahead(&mut next);
            normalise(&mut next);
            next
        })
    }

    fn poll(&self, world: &mut RunWorld, task: usize) -> bool {
        let attempt = world.tasks[task].subject.live().map_or(0, |task| task.attempt) + 1;
        let lease = LeaseId::from_u128(((task as u128) << 32) | u128::from(attempt));
        let grant = Grant { lease, owner: WORKER.into(), poll: None, build: None };
        let changed = self.ask(world, task, &Request::Grant(grant));
        if changed {
            world.issued.push(Issued { task, attempt, lease });
        }
        changed
    }

    fn call(&self, world: &mut RunWorld, issued: Issued, call: RunCall) -> bool {
        let Issued { task, attempt, lease } = issued;
        let caller = Caller { worker: WORKER.into(), attempt, lease, epoch: 1 };
        let call = call.made_by(caller, self.bounds.children, &self.bounds.policy);
        let request = Request::Run(Box::new(RunRequest::Checkpoint(call)));
        self.ask(world, task, &request)
    }

    /// A message that is refused stays saved.
    fn deliver(&self, world: &mut RunWorld, at: usize) -> bool {
        let message = world.saved.remove(at);
        let was_early = matches!(world.tasks[place(message.to)].subject, Subject::Absent)
            && !matches!(message.body, verdict::run::Body::Spawn { .. });
        self.decide_message(world, &message);
        match was_early {
            true => world.saved.push(message),
            false => world.decided.push(message),
        }
        !was_early
    }

    fn decide_message(&self, world: &mut RunWorld, message: &Message) -> bool {
        let request = Request::Run(Box::new(RunRequest::Message(message.clone())));
        self.ask(world, place(message.to), &request)
    }

    /// Asks the rules about one task and applies their verdict; returns whether anything changed.
    fn ask(&self, world: &mut RunWorld, task: usize, request: &Request) -> bool {
        let row = &world.tasks[task];
        let at = moment(world.now);
        let loaded = row.records.load_slices(&row.subject, request, self.bounds.slice);
        let lease = request.caller().map(|caller| caller.lease);
        let closed = lease.and_then(|lease| row.closed.iter().find(|one| one.lease == lease));
        let context = Context { closed, run: Some(&loaded), ..Context::default() };
        let read_set = ReadSet { subject: &row.subject, context };
        let verdict = self.rules.decide(read_set, request, at);
        world.broken = judge_call(&world.seen, task, request, &verdict, world.now);
        if !world.broken.is_empty() {
            return true;
        }
        let before = row.subject.clone();
        let row = &mut world.tasks[task];
        let applied = apply_verdict(&mut row.subject, verdict.clone(), at);
        for goal in goals(&before, request, &verdict, &row.subject) {
            self.reach(goal);
        }
        let Some(settled) = applied.settled else { return false };
        row.closed.extend(closed_attempts(&settled.events).cloned());
        row.records.note(&stripped(&settled.events));
        world.seen.note(task, &settled.events, world.now);
        world.saved.extend(settled.messages);
        world.broken = judge_state(world);
        true
    }

    /// What must come to pass is tried: a timer wakes its task, and a closing task ends.
    fn look_ahead(&self, world: &mut RunWorld) {
        if !world.broken.is_empty() {
            return;
        }
        let mut broken = RunBroken::default();
        broken.require(RunProperty::NoLostWakeUp, self.timer_wakes(world));
        broken.require(RunProperty::ClosingEnds, self.closing_ends(world));
        world.broken = broken;
    }

    fn timer_wakes(&self, world: &RunWorld) -> bool {
        let row = &world.tasks[ROOT];
        let timer = row.subject.live().and_then(open_wait).and_then(|wait| wait.timer());
        let Some(timer) = timer else { return true };
        let loaded = row.records.load(&row.subject, &Request::Sweep);
        let context = Context { run: Some(&loaded), ..Context::default() };
        let read_set = ReadSet { subject: &row.subject, context };
        let swept = self.rules.decide(read_set, &Request::Sweep, moment(timer.max(world.now)));
        is_woken_by(&swept.events)
    }

    /// Decides every message and leaves the rest to time, in a copy of the world: the root must end.
    fn closing_ends(&self, world: &RunWorld) -> bool {
        let is_closing = |world: &RunWorld| {
            world.tasks[ROOT].subject.live().is_some_and(|task| task.closing().is_some())
        };
        if !is_closing(world) {
            return true;
        }
        let mut copy = world.clone();
        // A slice per child, a lease and a grace for each, and the messages in between.
        for _ in 0..4 * (self.bounds.children + 1) {
            while let Some(at) = (0..copy.saved.len()).find(|at| is_due(&copy, *at)) {
                self.deliver(&mut copy, at);
            }
            for task in 0..copy.tasks.len() {
                self.ask(&mut copy, task, &Request::Sweep);
            }
            if !is_closing(&copy) {
                return true;
            }
            copy.now = copy.now.plus(self.bounds.policy.lease);
        }
        false
    }

    /// Whether a poll may be granted the task within the bounds.
    pub(super) fn may_poll(&self, world: &RunWorld, task: usize) -> bool {
        let max = if task == ROOT { self.bounds.attempts } else { self.bounds.child_attempts };
        let live = world.tasks[task].subject.live();
        live.is_some_and(|task| task.attempt < max && task.claimable_at().is_some())
    }
}

/// Whether the message's addressee exists, or the message creates it.
fn is_due(world: &RunWorld, at: usize) -> bool {
    let message = &world.saved[at];
    let is_spawn = matches!(message.body, verdict::run::Body::Spawn { .. });
    is_spawn || !matches!(world.tasks[place(message.to)].subject, Subject::Absent)
}

fn moment(now: Time) -> Moment {
    Moment { now, epoch: 1, rules: verdict::Rules::NEWEST }
}
