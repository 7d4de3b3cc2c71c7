//! Applies an action to a flow key's world: asks the rules, keeps the slots true, and judges.

use std::collections::BTreeSet;

use verdict::flow::{Move, Place, Position, Slots, Terms};
use verdict::request::{Caller, Cancel, CancelMode, Grant, Outcome, Report, Submit, Undelivered};
use verdict::{
    Category, Context, Digest, End, Fault, FlowKey, FlowUses, LeaseId, Moment, Name, ReadSet,
    Request, Rules, Scope, Span, State, Subject, TaskId, Time, apply_verdict,
};

use super::space::{Action, FlowSpace, ReportKind};
use super::world::{CAME_BACK, FlowProperty, FlowWorld, Indexed, Issued, KEPT, Line, OPENED, id};
use crate::runs::normalise_subject;

const KEY: &str = "acme";
const WORKER: &str = "ann";

/// A task in its line.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    pub line: Line,
    pub position: Position,
    pub terms: Terms,
}

/// The seam through which the slots follow the rows. Tests supply broken ones.
pub trait SlotIndex: Send + Sync + 'static {
    fn follow(
        &self,
        slots: &mut Slots<Line>,
        at: Placed,
        before: Indexed,
        after: Indexed,
    ) -> Vec<Move<Line>>;

    /// Time has passed.
    fn advance(&self, slots: &mut Slots<Line>, now: Time) -> Vec<Move<Line>> {
        slots.advance(now)
    }

    /// A task of a key with a rate was granted.
    fn start(&self, slots: &mut Slots<Line>, at: Time) -> Vec<Move<Line>> {
        slots.start(at)
    }
}

/// What an engine does: it takes the task out as it was, and puts it in as it is.
pub struct Following;

impl SlotIndex for Following {
    fn follow(
        &self,
        slots: &mut Slots<Line>,
        at: Placed,
        before: Indexed,
        after: Indexed,
    ) -> Vec<Move<Line>> {
        let Placed { line, position, terms } = at;
        let mut moves = match before {
            Indexed::Claimable => slots.leave(line, position).1,
            Indexed::Leased | Indexed::Kept | Indexed::Returning => slots.release(position.task()),
            Indexed::Away | Indexed::Gone => Vec::new(),
        };
        if before != Indexed::Gone {
            moves.extend(slots.exit(terms));
        }
        if after != Indexed::Gone {
            moves.extend(slots.enter(terms));
        }
        moves.extend(match after {
            Indexed::Claimable => slots.join(line, position),
            Indexed::Leased | Indexed::Kept => slots.hold(position.task()),
            // It is in no line: the next poll gets it.
            Indexed::Returning => {
                let mut moves = slots.hold(position.task());
                moves.push(Move { line, position, to: Place::Offered });
                moves
            }
            Indexed::Away | Indexed::Gone => Vec::new(),
        });
        moves
    }
}

impl FlowSpace {
    /// The world after `action`; `None` if nothing changed.
    pub(super) fn step(&self, world: &FlowWorld, action: Action) -> Option<FlowWorld> {
        let mut next = world.clone();
        let changed = match action {
            Action::Tick => {
                next.now = next.now.plus(Span::from_millis(1));
                let moves = self.index.advance(&mut next.slots, next.now);
                apply(&mut next.ready, moves);
                true
            }
            Action::Submit(task) => self.ask(&mut next, task, &Request::Submit(self.submit(task))),
            Action::Poll(line) => match first(&next.ready, line) {
                Some(task) => {
                    if !self.grant(&mut next, task) {
                        next.broken.insert(FlowProperty::Granted);
                    }
                    true
                }
                None => false,
            },
            Action::Try(task) => self.grant(&mut next, task),
            Action::Report(at, kind) => {
                let request = report(world.issued[at], kind);
                self.ask(&mut next, world.issued[at].task, &request)
            }
            Action::Undelivered(at) => {
                let Issued { task, lease, .. } = world.issued[at];
                self.ask(&mut next, task, &Request::Undelivered(Undelivered { lease }))
            }
            Action::Cancel(task) => {
                let cancel = Cancel { reason: None, mode: CancelMode::Immediate };
                self.ask(&mut next, task, &Request::Cancel(cancel))
            }
            Action::Sweep(task) => self.ask(&mut next, task, &Request::Sweep),
        };
        changed.then(|| {
            self.follow_all(&mut next);
            self.note_goals(world, &next, action);
            self.forget_old_starts(&mut next);
            self.judge(&mut next);
            // A bug breaks several; the search goes on until it breaks the one that is looked for.
            next.broken.retain(|property| self.wanted.is_none_or(|wanted| wanted == *property));
            forget_old_leases(&mut next);
            next.tasks.iter_mut().for_each(merge);
            next
        })
    }

    fn submit(&self, at: usize) -> Submit {
        let (line, priority, _) = self.bounds.tasks[at];
        let flow = FlowKey { hold: self.bounds.hold, ..FlowKey::new(KEY, self.bounds.terms(at)) };
        Submit {
            id: id(at),
            scope: Scope::default(),
            kind: Name::from(format!("kind-{line}")),
            queue: "q".into(),
            priority,
            policy: self.bounds.policy.clone(),
            run_at: None,
            input: Digest::of(&[]),
            budget: None,
            flow: Some(Box::new(flow)),
            fingerprint: Digest::of(&[]),
        }
    }

    fn grant(&self, world: &mut FlowWorld, task: usize) -> bool {
        let attempt = world.tasks[task].live().map_or(0, |task| task.attempt) + 1;
        let lease = LeaseId::from_u128(((task as u128) << 32) | u128::from(attempt));
        let grant = Grant { lease, owner: WORKER.into(), poll: None, build: None };
        let was_leased = world.leased().len();
        let changed = self.ask(world, task, &Request::Grant(grant));
        let leased = world.leased().len();
        if changed && leased > was_leased {
            world.issued.push(Issued { task, attempt, lease });
            let limits = world.tasks.iter().filter_map(Subject::live);
            let limit = limits.filter_map(|task| task.flow()).map(|flow| flow.limit).min();
            if limit.is_some_and(|limit| world.holders().len() > limit as usize) {
                world.broken.insert(FlowProperty::Held);
            }
            self.note_start(world);
        }
        changed
    }

    /// Whether one more may start was decided before; the judge counts for himself.
    fn note_start(&self, world: &mut FlowWorld) {
        let Some(rate) = self.bounds.rate else { return };
        if world.starts_left(rate) == 0 {
            world.broken.insert(FlowProperty::Rate);
        }
        world.granted.push(world.now);
        let moves = self.index.start(&mut world.slots, world.now);
        apply(&mut world.ready, moves);
    }

    /// Asks the rules about one task and applies their verdict; returns whether anything changed.
    fn ask(&self, world: &mut FlowWorld, task: usize, request: &Request) -> bool {
        let mut flows = FlowUses::default();
        let is_used = world.tasks.iter().any(|subject| subject.live().is_some());
        flows.put(KEY.into(), is_used.then(|| world.slots.in_use()));
        // A submission may come through a coordinator that does not see the other tasks yet.
        let flows = (!matches!(request, Request::Submit(_))).then_some(&flows);
        let context = Context { flows, ..Context::default() };
        let read_set = ReadSet { subject: &world.tasks[task], context };
        let at = Moment { now: world.now, epoch: 1, rules: Rules::NEWEST };
        let verdict = self.rules.decide(read_set, request, at);
        apply_verdict(&mut world.tasks[task], verdict, at).settled.is_some()
    }

    /// Tells the index of every task that is not what it was.
    fn follow_all(&self, world: &mut FlowWorld) {
        for at in 0..world.tasks.len() {
            let (before, after) = (world.indexed[at], world.standing(at));
            if before != after {
                let moves = self.index.follow(&mut world.slots, self.placed(at), before, after);
                world.indexed[at] = after;
                if matches!(before, Indexed::Claimable | Indexed::Returning) {
                    let Placed { line, position, .. } = self.placed(at);
                    world.ready.remove(&(line, position));
                }
                apply(&mut world.ready, moves);
            }
        }
    }

    /// Starts that count for nothing any more are forgotten when time passes while a task lives, and else now.
    fn forget_old_starts(&self, world: &mut FlowWorld) {
        let FlowWorld { granted, slots, now, .. } = world;
        if let Some(rate) = self.bounds.rate {
            granted.retain(|at| at.plus(rate.per) > *now);
            slots.forget_starts(rate.per);
        }
    }

    fn placed(&self, at: usize) -> Placed {
        let (line, priority, _) = self.bounds.tasks[at];
        Placed { line, position: Position::new(priority, id(at)), terms: self.bounds.terms(at) }
    }

    fn judge(&self, world: &mut FlowWorld) {
        let holders: BTreeSet<TaskId> = world.slots.holders().collect();
        let has_leaked = holders != world.holders();
        let is_forgetful = world.ready != self.expected(world);
        let is_untrue = {
            let fresh = self.rebuilt(world);
            (&fresh.slots, &fresh.ready) != (&world.slots, &world.ready)
        };
        let broken = [
            (FlowProperty::NoLeak, has_leaked),
            (FlowProperty::NoneForgotten, is_forgetful),
            (FlowProperty::Rebuilt, is_untrue),
        ];
        world.broken.extend(broken.into_iter().filter(|(_, is)| *is).map(|(it, _)| it));
    }

    /// What an engine builds when it opens: from the rows of tasks and of starts.
    fn rebuilt(&self, world: &FlowWorld) -> FlowWorld {
        let mut fresh = FlowWorld::new(world.tasks.len());
        (fresh.now, fresh.tasks) = (world.now, world.tasks.clone());
        fresh.slots.advance(world.now);
        self.follow_all(&mut fresh);
        for at in &world.granted {
            let moves = fresh.slots.start(*at);
            apply(&mut fresh.ready, moves);
        }
        fresh
    }

    /// The ready order as it should be, from the rows alone.
    fn expected(&self, world: &FlowWorld) -> BTreeSet<(Line, Position)> {
        let live = |at: &usize| world.tasks[*at].live().is_some();
        let all: Vec<usize> = (0..world.tasks.len()).filter(live).collect();
        let limit = all.iter().map(|at| self.bounds.tasks[*at].2).min().unwrap_or(0);
        let slots = (limit as usize).saturating_sub(world.holders().len());
        let starts = self.bounds.rate.map_or(usize::MAX, |rate| world.starts_left(rate));
        let free = slots.min(starts);
        let claimable = all.iter().filter(|at| world.standing(**at) == Indexed::Claimable);
        let mut places: Vec<(Line, i32, usize)> = claimable
            .map(|at| (self.bounds.tasks[*at].0, -self.bounds.tasks[*at].1, *at))
            .collect();
        places.sort_unstable();
        let rank = |line: Line, n: usize| places[..n].iter().filter(|it| it.0 == line).count();
        let fits = |(n, (line, ..)): &(usize, &(Line, i32, usize))| rank(*line, *n) < free;
        let place =
            |(_, (line, _, at)): (usize, &(Line, i32, usize))| (*line, self.placed(*at).position);
        let returning = all.iter().filter(|at| world.standing(**at) == Indexed::Returning);
        let returning = returning.map(|at| (self.placed(*at).line, self.placed(*at).position));
        places.iter().enumerate().filter(fits).map(place).chain(returning).collect()
    }

    fn note_goals(&self, before: &FlowWorld, after: &FlowWorld, action: Action) {
        let is_parked = |world: &FlowWorld, at: usize| {
            let Placed { line, position, .. } = self.placed(at);
            world.indexed[at] == Indexed::Claimable && !world.ready.contains(&(line, position))
        };
        let tasks = 0..after.tasks.len();
        if tasks.clone().any(|at| is_parked(after, at)) {
            self.reach("a task is parked");
        }
        let live = tasks.filter(|at| after.indexed[*at] != Indexed::Gone);
        let limits: BTreeSet<u32> = live.map(|at| self.bounds.tasks[at].2).collect();
        if limits.len() > 1 {
            self.reach("two limits met");
        }
        if let Action::Cancel(at) = action
            && is_parked(before, at)
        {
            self.reach("a parked task is cancelled");
        }
        if after.indexed.contains(&Indexed::Kept) {
            self.reach(KEPT);
        }
        let came_back = |at: usize| {
            (before.indexed[at], after.indexed[at]) == (Indexed::Returning, Indexed::Leased)
        };
        if (0..after.tasks.len()).any(came_back) {
            self.reach(CAME_BACK);
        }
        if action == Action::Tick && before.indexed == after.indexed && after.ready != before.ready
        {
            self.reach(OPENED);
        }
        if after.holders().len() >= before.holders().len() {
            return;
        }
        match action {
            Action::Report(_, ReportKind::Released) => self.reach("a release frees a slot"),
            Action::Report(..) => self.reach("a report frees a slot"),
            Action::Sweep(_) => self.reach("a lost worker frees a slot"),
            Action::Cancel(_) => self.reach("a cancel frees a slot"),
            Action::Undelivered(_) => self.reach("an undelivered grant frees a slot"),
            Action::Tick | Action::Submit(_) | Action::Poll(_) | Action::Try(_) => {}
        }
    }
}

/// Late calls are refused whatever the key says; other worlds try them.
fn forget_old_leases(world: &mut FlowWorld) {
    let FlowWorld { tasks, issued, .. } = world;
    issued.retain(|it| {
        let lease = tasks[it.task].live().and_then(|task| task.lease());
        lease.is_some_and(|lease| lease.id == it.lease)
    });
    issued.sort_by_key(|it| it.task);
}

/// Merges states that a key cannot tell apart: how a task ended, and how often it was tried in which way.
fn merge(subject: &mut Subject) {
    normalise_subject(subject);
    match subject {
        Subject::Absent => {}
        Subject::Live(task) => {
            (task.failures, task.lost, task.undelivered) = (0, 0, 0);
            task.started_at = None;
        }
        Subject::Done(done) => {
            let state = State::Succeeded;
            done.end = End { state, reason: None, output: None, fault: None };
            (done.attempt, done.cancel) = (0, None);
        }
    }
}

fn apply(ready: &mut BTreeSet<(Line, Position)>, moves: Vec<Move<Line>>) {
    for Move { line, position, to } in moves {
        match to {
            Place::Offered => ready.insert((line, position)),
            Place::Parked => ready.remove(&(line, position)),
        };
    }
}

/// The task that a poll of the line gets first.
pub(super) fn first(ready: &BTreeSet<(Line, Position)>, line: Line) -> Option<usize> {
    let (_, position) = ready.iter().find(|(of, _)| *of == line)?;
    Some(position.task().as_u128() as usize - 1)
}

fn report(issued: Issued, kind: ReportKind) -> Request {
    let Issued { attempt, lease, .. } = issued;
    let caller = Caller { worker: WORKER.into(), attempt, lease, epoch: 1 };
    let outcome = match kind {
        ReportKind::Succeeded => Outcome::Succeeded { output: None },
        ReportKind::Released => Outcome::Released,
        ReportKind::Failed => Outcome::Failed(Fault {
            category: Category::UserCode,
            message: "it broke".into(),
            stack_trace: None,
            retryable: Some(true),
        }),
    };
    let digest = Digest::of(&[format!("{kind:?}").as_bytes()]);
    Request::Report(Report { caller, outcome, digest, claims: None, by: None })
}
