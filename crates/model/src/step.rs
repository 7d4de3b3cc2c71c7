//! Applies an action to a world: calls the rules, judges, applies the verdict, and normalises.

use verdict::bounds::{DECISIONS_MAX, ENTRIES_MAX};
use verdict::request::{Extend, Request};
use verdict::{
    Context, Event, Fence, Moment, Policy, ReadSet, Span, Subject, Time, apply_verdict,
    closed_attempts,
};

use crate::action::{Action, GrantDelivery, Submission, TaskAt, Worker};
use crate::ledger::{Decision, Ledger};
use crate::network::{self, Issued};
use crate::normalise::normalise;
use crate::property::{Broken, Property};
use crate::space::Space;
use crate::world::{Row, World};
use crate::worlds::STEP_BACK;

impl Space {
    /// The world after `action`; `None` if nothing changed.
    pub(crate) fn step(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        let changed = match action {
            Action::Tick => {
                next.now = next.now.plus(Span::from_millis(1));
                true
            }
            Action::StepBack => {
                next.now = Time::from_millis(next.now.millis() - STEP_BACK);
                next.left.steps_back -= 1;
                true
            }
            Action::Submit(task, which) => self.submit(&mut next, task, which),
            Action::Poll(task, worker, hearing) => self.poll(&mut next, task, worker, hearing),
            Action::Arrives(at, call, sender) => {
                let (task, request) = network::arriving(world, at, call, sender);
                self.ask(&mut next, task, &request)
            }
            Action::Cancel(task, mode) => self.ask(&mut next, task, &network::cancel(mode)),
            Action::Sweep(task) => self.ask(&mut next, task, &Request::Sweep),
            Action::Undelivered(at) => {
                let issued = world.issued[at];
                self.ask(&mut next, issued.task, &network::undelivered(&issued))
            }
            Action::Crash(gap) => self.crash(&mut next, gap),
            Action::Backup => {
                next.backup = Some(Box::new(next.tasks.clone()));
                true
            }
            Action::Restore => self.restore(&mut next),
        };
        changed.then(|| {
            normalise(&mut next);
            next
        })
    }

    fn submit(&self, world: &mut World, task: TaskAt, which: Submission) -> bool {
        let submit = network::submission(task, which, &self.bounds, world);
        let changed = self.ask(world, task, &Request::Submit(submit));
        if let (true, Some(room), Subject::Live(task)) =
            (changed, self.bounds.room, &mut world.tasks[task].subject)
        {
            task.entries = ENTRIES_MAX - room;
            task.revision = DECISIONS_MAX - room;
        }
        let row = &mut world.tasks[task];
        if let (true, 1.., Subject::Live(task)) = (changed, self.bounds.released, &mut row.subject)
        {
            task.attempt = self.bounds.released;
            row.ledger.grants = self.bounds.released;
        }
        changed
    }

    fn poll(
        &self,
        world: &mut World,
        task: TaskAt,
        worker: Worker,
        hearing: GrantDelivery,
    ) -> bool {
        let grant = network::grant(task, worker, world);
        let lease = grant.lease;
        let changed = self.ask(world, task, &Request::Grant(grant));
        if changed && hearing == GrantDelivery::Sent {
            let (attempt, epoch) = (world.tasks[task].ledger.grants, world.epoch);
            world.issued.push(Issued { task, worker, attempt, lease, epoch });
        }
        changed
    }

    /// An uncommitted decision was never answered, so it has not happened; leases that were alive are extended by the
    /// gap before anything else is decided. The store opens with a time no earlier than its last commit, wherever the
    /// wall clock was set meanwhile. Every engine guarantees that, by `MonotonicClock::open` (SQLite, memory) and
    /// `StoreClock::open` (PostgreSQL); the conformance suite checks it (`never_runs_backwards`).
    fn crash(&self, world: &mut World, gap: u64) -> bool {
        let last_commit = latest_decision(world).unwrap_or(world.now);
        let stalled_since = world.now.max(last_commit);
        world.left.crashes -= 1;
        world.now = world.now.plus(Span::from_millis(gap)).max(last_commit);
        let gap = world.now.since(stalled_since);
        for task in 0..world.tasks.len() {
            self.ask(world, task, &Request::Extend(Extend { stalled_since, gap }));
            if !world.broken.is_empty() {
                break;
            }
        }
        true
    }

    fn restore(&self, world: &mut World) -> bool {
        let Some(rows) = world.backup.take() else { return false };
        world.tasks = *rows;
        world.epoch += 1;
        world.left.restores -= 1;
        true
    }

    /// Asks the rules about one task and applies their verdict; returns whether anything changed.
    fn ask(&self, world: &mut World, task: TaskAt, request: &Request) -> bool {
        let row = &world.tasks[task];
        let moment = Moment { now: world.now, epoch: world.epoch, rules: verdict::Rules::NEWEST };
        let verdict = self.rules.decide(read_set(row, request), request, moment);
        let at = row.subject.dated(moment);
        let decision = Decision {
            before: &row.subject,
            request,
            verdict: &verdict,
            at,
            fence: world.fences[task],
        };
        world.broken = row.ledger.judge(&decision);
        if !world.broken.is_empty() {
            return true;
        }
        self.coverage.decided(&decision);
        let is_gap = matches!(request, Request::Extend(_));
        if verdict.events.is_empty() && !is_gap {
            return false;
        }
        let (after, ledger) = settle(row, &decision, &self.bounds.policy_at(world.now));
        world.broken = ledger.compare(&decision, &after);
        self.coverage.changed(&decision, &after);
        let row = &mut world.tasks[task];
        row.closed.extend(closed_attempts(&verdict.events).cloned());
        (row.subject, row.ledger) = (after, ledger);
        if let Some(fence) = new_fence(&verdict.events) {
            world.fences[task] = fence.as_u64();
        }
        if world.broken.is_empty() {
            world.broken = self.foresee(&world.tasks[task], world.epoch);
        }
        true
    }

    /// Runs the next sweep ahead of time: if chance decided whether one comes in time, this would prove only that it
    /// can.
    fn foresee(&self, row: &Row, epoch: u32) -> Broken {
        let mut broken = Broken::default();
        let Some(task) = row.subject.live() else { return broken };
        let cancelled = row.ledger.cancel.is_some();
        broken.require(Property::B7, !cancelled || row.ledger.open.is_some());
        let Some((now, ending)) = row.ledger.must_close(&task.policy) else { return broken };
        let swept = self.rules.decide(
            ReadSet::of(&row.subject),
            &Request::Sweep,
            Moment { now, epoch, rules: verdict::Rules::NEWEST },
        );
        let property = if cancelled { Property::B7 } else { Property::B6 };
        broken.require(property, ending.is_done_by(&swept.events));
        broken
    }
}

fn read_set<'a>(row: &'a Row, request: &Request) -> ReadSet<'a> {
    let closed = request
        .caller()
        .and_then(|caller| row.closed.iter().find(|closed| closed.lease == caller.lease));
    let holder = match (request, &row.subject) {
        (Request::Submit(_), Subject::Live(_) | Subject::Done(_)) => {
            let fingerprint = network::fingerprint(Submission::Same);
            Some(verdict::KeyHolder { subject: &row.subject, fingerprint })
        }
        _ => None,
    };
    ReadSet { subject: &row.subject, context: Context { closed, holder, ..Context::default() } }
}

fn settle(row: &Row, decision: &Decision<'_>, submitted: &Policy) -> (Subject, Ledger) {
    let mut ledger = row.ledger.clone();
    let policy = row.subject.live().map_or(submitted, |task| &task.policy);
    ledger.note(decision, policy);
    let mut after = row.subject.clone();
    apply_verdict(&mut after, decision.verdict.clone(), decision.at);
    (after, ledger)
}

fn new_fence(events: &[Event]) -> Option<Fence> {
    events.iter().find_map(|event| match event {
        Event::Granted { fence, .. } => Some(*fence),
        _ => None,
    })
}

fn latest_decision(world: &World) -> Option<Time> {
    let live = world.tasks.iter().filter_map(|row| row.subject.live());
    live.map(|task| task.decided_at).max()
}
