//! Applies an action to a world of budgets: asks the rules, enters the decision into the ledger, and compares.

use verdict::approval::Decision;
use verdict::event::Submitted;
use verdict::redrive::Repeat;
use verdict::request::{Caller, Cancel, Grant, Submit};
use verdict::run::{
    Body, Checkpoint, Child, Inherit, Inherited, Message, Recorded, RunRequest, Spend, Step,
};
use verdict::{
    Context, Done, LeaseId, Moment, ReadSet, Request, Span, State, Subject, Time, apply_verdict,
    closed_attempts, fork, redrive,
};

use super::action::{Action, EscrowCall, submission, vote};
use super::goals::goals;
use super::ledger::{Decided, Ledger};
use super::property::{EscrowBroken, EscrowProperty};
use super::space::EscrowSpace;
use super::world::{EscrowWorld, ROOT, id, place};
use crate::runs::{Issued, stripped};

const WORKER: &str = "ann";

/// How many children a sweep of a closing task cancels.
const SLICE: usize = 1;

impl EscrowSpace {
    /// The world at the beginning: the run is submitted.
    pub(super) fn begin(&self) -> EscrowWorld {
        let mut world = EscrowWorld::new(Ledger::new(&self.bounds));
        self.ask(&mut world, ROOT, &Request::Submit(self.submit(ROOT, self.bounds.limit)));
        world.normalise();
        world
    }

    fn submit(&self, task: usize, limit: u64) -> Submit {
        submission(id(task), self.bounds.budget(limit), &self.bounds.policy)
    }

    /// The world after `action`; `None` if nothing changed.
    pub(super) fn step(&self, world: &EscrowWorld, action: Action) -> Option<EscrowWorld> {
        let mut next = world.clone();
        let changed = match action {
            Action::Tick => {
                next.now = next.now.plus(Span::from_millis(1));
                true
            }
            Action::Poll(task) => self.poll(&mut next, task),
            Action::Call(at, call) => self.call(&mut next, world.issued[at], call),
            Action::Cancel(mode) => {
                self.ask(&mut next, ROOT, &Request::Cancel(Cancel { reason: None, mode }))
            }
            Action::Vote(decision) => self.vote(&mut next, decision),
            Action::Sweep(task) => self.ask(&mut next, task, &Request::Sweep),
            Action::Deliver(at) => self.deliver(&mut next, at),
            Action::Repeat(at) => self.decide_message(&mut next, &world.decided[at]),
            Action::Continue => self.continue_run(&mut next),
        };
        changed.then(|| {
            self.look_ahead(&mut next);
            next.normalise();
            next
        })
    }

    fn poll(&self, world: &mut EscrowWorld, task: usize) -> bool {
        let attempt = world.tasks[task].subject.live().map_or(0, |task| task.attempt) + 1;
        let lease = LeaseId::from_u128(((task as u128) << 32) | u128::from(attempt));
        let grant = Grant { lease, owner: WORKER.into(), poll: None, build: None };
        let changed = self.ask(world, task, &Request::Grant(grant));
        if changed {
            world.issued.push(Issued { task, attempt, lease });
        }
        changed
    }

    fn call(&self, world: &mut EscrowWorld, issued: Issued, call: EscrowCall) -> bool {
        let Issued { task, attempt, lease } = issued;
        let caller = Caller { worker: WORKER.into(), attempt, lease, epoch: 1 };
        let child = |at: usize| self.bounds.child(at, id(task + 1 + at));
        let children = (0..self.bounds.children.len()).map(child).collect();
        self.ask(world, task, &call.made_by(caller, children))
    }

    fn vote(&self, world: &mut EscrowWorld, decision: Decision) -> bool {
        let run = world.tasks[ROOT].subject.live().and_then(|task| task.run.as_ref());
        let open = run.and_then(|run| run.approvals.open.first());
        let Some(number) = open.map(|approval| approval.number) else { return false };
        self.ask(world, ROOT, &vote(number, decision))
    }

    /// A message that is refused stays saved.
    fn deliver(&self, world: &mut EscrowWorld, at: usize) -> bool {
        if !is_due(world, at) {
            return false;
        }
        let message = world.saved.remove(at);
        self.decide_message(world, &message);
        world.decided.push(message);
        true
    }

    fn decide_message(&self, world: &mut EscrowWorld, message: &Message) -> bool {
        let request = Request::Run(Box::new(RunRequest::Message(message.clone())));
        self.ask(world, place(message.to), &request)
    }

    /// Submits the run that continues the first one, with its records, as one commit does.
    fn continue_run(&self, world: &mut EscrowWorld) -> bool {
        let (to, limit) = (self.bounds.family(), self.bounds.continued.unwrap_or_default());
        let Subject::Done(done) = world.tasks[ROOT].subject.clone() else { return false };
        let inherit = Inherit { from: done.id, record: done.record, items: self.items(world, to) };
        self.ask(world, to, &Request::Submit(self.submit(to, limit)));
        self.ask(world, to, &Request::Run(Box::new(RunRequest::Inherit(inherit))));
        let is_fresh = world.ledger.is_fresh(to, &world.tasks[to].subject);
        let is_same = world.tasks[ROOT].subject == Subject::Done(done);
        world.broken.require(EscrowProperty::OwnEscrow, is_fresh && is_same);
        true
    }

    /// Whether the run may be continued, once.
    pub(super) fn may_continue(&self, world: &EscrowWorld) -> bool {
        let Subject::Done(done) = &world.tasks[ROOT].subject else { return false };
        let is_new = world
            .tasks
            .get(self.bounds.family())
            .is_some_and(|row| row.records == Default::default() && row.subject == Subject::Absent);
        let submitted = submitted(self.submit(ROOT, self.bounds.limit), world.now);
        is_new && fork::may_fork(&submitted, done.end.state, done.run.as_deref()).is_ok()
    }

    /// What the continuation takes over.
    fn items(&self, world: &EscrowWorld, to: usize) -> Vec<Inherited> {
        let records = &world.tasks[ROOT].records;
        let mut items = Vec::new();
        for child in records.children() {
            let Subject::Done(done) = &world.tasks[place(child.id)].subject else { continue };
            if fork::is_cut_short(done) {
                let at = place(child.id) - 1;
                items.push(Inherited::Again(self.bounds.child(at, id(to + 1 + at))));
            } else {
                let taken = Child { is_detached: true, end: None, ..child.clone() };
                items.push(Inherited::Child(taken));
            }
        }
        items.extend(records.checkpoints().filter_map(|it| inherited(world, it)));
        items
    }

    /// Asks the rules about one task and applies their verdict; returns whether anything changed.
    fn ask(&self, world: &mut EscrowWorld, task: usize, request: &Request) -> bool {
        let row = &world.tasks[task];
        let at = moment(world.now);
        let loaded = row.records.load_slices(&row.subject, request, SLICE);
        let lease = request.caller().map(|caller| caller.lease);
        let closed = lease.and_then(|lease| row.closed.iter().find(|one| one.lease == lease));
        let context = Context { closed, run: Some(&loaded), ..Context::default() };
        let before = row.subject.clone();
        let verdict = self.rules.decide(ReadSet { subject: &before, context }, request, at);
        let row = &mut world.tasks[task];
        let applied = apply_verdict(&mut row.subject, verdict.clone(), at);
        let after = row.subject.clone();
        let decided = Decided { task, request, verdict: &verdict, before: &before, after: &after };
        goals(&world.ledger, &decided).into_iter().for_each(|goal| self.reach(goal));
        let mut broken = world.ledger.enter(&decided);
        world.ledger.compare(task, &after, &mut broken);
        broken.require(EscrowProperty::HaltIsFinal, !may_be_retried(&after, at.now, self));
        world.broken = broken;
        let Some(settled) = applied.settled else { return !broken.is_empty() };
        let row = &mut world.tasks[task];
        row.closed.extend(closed_attempts(&settled.events).cloned());
        row.records.note(&stripped(&settled.events));
        let family = |task: usize| self.bounds.root_of(task);
        let stays = |message: &Message| family(place(message.to)) == family(place(message.from));
        world.broken.require(EscrowProperty::OwnEscrow, settled.messages.iter().all(stays));
        world.saved.extend(settled.messages);
        true
    }

    /// What must come to pass is tried: a closing run ends.
    fn look_ahead(&self, world: &mut EscrowWorld) {
        if !world.broken.is_empty() {
            return;
        }
        let mut broken = EscrowBroken::default();
        broken.require(EscrowProperty::ClosingEnds, self.closing_ends(world));
        world.broken = broken;
    }

    /// Decides every message and leaves the rest to time, in a copy of the world: every closing task must end.
    fn closing_ends(&self, world: &EscrowWorld) -> bool {
        let closes = |world: &EscrowWorld| {
            let is_closing =
                |subject: &Subject| subject.live().is_some_and(|it| it.closing().is_some());
            world.tasks.iter().any(|row| is_closing(&row.subject))
        };
        if !closes(world) {
            return true;
        }
        let mut copy = world.clone();
        // A slice per child, a lease and a grace for each, and the messages in between.
        for _ in 0..4 * copy.tasks.len() {
            while let Some(at) = (0..copy.saved.len()).find(|at| is_due(&copy, *at)) {
                self.deliver(&mut copy, at);
            }
            for task in 0..copy.tasks.len() {
                self.ask(&mut copy, task, &Request::Sweep);
            }
            if !closes(&copy) {
                return true;
            }
            copy.now = copy.now.plus(self.bounds.policy.lease);
        }
        false
    }

    /// Whether a poll may be granted the task within the bounds.
    pub(super) fn may_poll(&self, world: &EscrowWorld, task: usize) -> bool {
        let is_root = self.bounds.root_of(task) == task;
        let max = if is_root { self.bounds.attempts } else { self.bounds.child_attempts };
        let live = world.tasks[task].subject.live();
        live.is_some_and(|task| task.attempt < max && task.claimable_at().is_some())
    }
}

/// A client cannot have a halted task tried again either.
fn may_be_retried(subject: &Subject, now: Time, space: &EscrowSpace) -> bool {
    let Subject::Done(Done { end, run, .. }) = subject else { return false };
    let submitted = submitted(space.submit(ROOT, space.bounds.limit), now);
    let repeat = Repeat::FromScratch;
    end.state == State::Halted
        && redrive::may_retry(&submitted, end.state, run.as_deref(), false, repeat).is_ok()
}

fn submitted(submit: Submit, due: Time) -> Submitted {
    let Submit { id, scope, kind, queue, priority, policy, input, budget, flow, .. } = submit;
    Submitted { id, scope, kind, queue, priority, policy, due, input, budget, flow }
}

/// A record as the continuation takes it over: nothing of it was used by the new run.
fn inherited(world: &EscrowWorld, checkpoint: &Checkpoint) -> Option<Inherited> {
    let step = match &checkpoint.recorded {
        Recorded::Step(step) => Step { spend: Spend::default(), ..step.clone() },
        Recorded::Child(end) => {
            let Subject::Done(done) = &world.tasks[place(end.child)].subject else { return None };
            let outcome = fork::end_of_child(&done.end);
            let step = Step { outcome, input: None, spend: Spend::default(), is_savepoint: false };
            (!fork::is_cut_short(done)).then_some(step)?
        }
        Recorded::Wait(_) => return Some(Inherited::Checkpoint(checkpoint.clone())),
    };
    Some(Inherited::Checkpoint(Checkpoint { recorded: Recorded::Step(step), ..checkpoint.clone() }))
}

/// Whether the message's addressee exists, or the message creates it.
fn is_due(world: &EscrowWorld, at: usize) -> bool {
    let message = &world.saved[at];
    let is_spawn = matches!(message.body, Body::Spawn { .. });
    is_spawn || !matches!(world.tasks[place(message.to)].subject, Subject::Absent)
}

fn moment(now: Time) -> Moment {
    Moment { now, epoch: 1, rules: verdict::Rules::NEWEST }
}
