//! Every state change that exists, and the one owner that may make it (S2-19, R-22).
//!
//! | from             | to        | because                              | owner     |
//! |------------------|-----------|--------------------------------------|-----------|
//! | (nothing)        | queued    | submitted                            | Submitter |
//! | queued, retry    | running   | granted                              | Pool      |
//! | running          | retry     | the grant could not be handed over   | Pool      |
//! | retry            | failed    | no grant in a row could be           | Sweeper   |
//! | retry            | failed    | no attempt fits into the history     | Sweeper   |
//! | running          | succeeded | reported                             | Runner    |
//! | running          | failed    | reported, no retry left or allowed   | Runner    |
//! | running          | retry     | reported, retry allowed; or released | Runner    |
//! | running          | cancelled | reported                             | Runner    |
//! | running          | retry     | lease or attempt limit ran out       | Sweeper   |
//! | running          | failed    | lease, attempt limit or deadline     | Sweeper   |
//! | running          | cancelled | lease ran out with a cancel pending  | Sweeper   |
//! | queued, retry    | failed    | deadline, or time to live            | Sweeper   |
//! | queued, retry    | cancelled | cancel requested                     | Canceller |
//! | running          | cancelled | forced, or before the worker began   | Canceller |
//! | running          | failed    | cancel grace ran out                 | Canceller |
//! | running          | waiting   | suspended, or diverged               | Engine    |
//! | waiting          | running   | granted, once what it waits for came | Pool      |
//! | waiting          | failed    | deadline, or the wait was too long   | Sweeper   |
//! | waiting          | failed    | no attempt fits into the history     | Sweeper   |
//! | waiting          | cancelled | cancel requested                     | Canceller |
//! | running, retry   | waiting   | ended, but has live children         | see below |
//! | waiting          | succeeded | the last child ended                 | Engine    |
//! | waiting          | failed    | the last child ended                 | Engine    |
//! | waiting          | cancelled | the last child ended                 | Engine    |
//!
//! A task with live children does not end: the owner of its end moves it to `waiting` instead, with the end that is
//! decided, and the Engine carries that end out when the last child has ended. It has no choice then.
//!
//! The pool acquires and releases leases, and ends nothing (S2-10, S2-54).
//!
//! Plans add the changes of [`PLAN_TABLE`]: steps that are blocked and skipped, and stages that follow each other. An end of a
//! task with stages is the end of its stage: its owner decides that the stage has ended, and the Engine what follows.
//!
//! There are no other transitions. An owner is a type that only its own module can construct, and
//! the functions below take it as an argument, so a rule in the wrong place does not compile.
//! Budgets add the changes of [`HALT_TABLE`]: the Runner halts a task whose budget is used up (S2-38, S2-70), the Sweeper one whose
//! time is.

use crate::attempt::{AttemptOutcome, ClosedAttempt};
use crate::bounds;
use crate::decide::cancel::Canceller;
use crate::decide::engine::Engine;
use crate::decide::grant::Pool;
use crate::decide::report::Runner;
use crate::decide::submit::Submitter;
use crate::decide::sweep::Sweeper;
use crate::done::{End, Fault, Reason};
use crate::event::{Event, Next, Submitted};
use crate::id::{Digest, Fence, Json};
use crate::plan::{PlanEvent, StepTerms, Turn};
use crate::request::{self, CancelMode};
use crate::run::{self, Lineage, RunEvent, Waiting};
use crate::task::{State, Task};
use crate::time::{Moment, Time};

/// The owner of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    Submitter,
    Pool,
    Runner,
    Sweeper,
    Canceller,
    Engine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// `None` for a submission.
    pub from: Option<State>,
    pub to: State,
    pub because: &'static str,
    pub owner: Authority,
}

const fn row(
    from: Option<State>,
    to: State,
    because: &'static str,
    owner: Authority,
) -> Transition {
    Transition { from, to, because, owner }
}

/// How many rows of the table a plain task can take. They come first.
pub const PLAIN_ROWS: usize = 19;

pub const TABLE: [Transition; PLAIN_ROWS + 15] = [
    row(None, State::Queued, "submitted", Authority::Submitter),
    row(Some(State::Queued), State::Running, "granted", Authority::Pool),
    row(Some(State::Retry), State::Running, "granted", Authority::Pool),
    row(Some(State::Running), State::Retry, "handed back", Authority::Pool),
    row(Some(State::Retry), State::Failed, "undelivered", Authority::Sweeper),
    row(Some(State::Retry), State::Failed, "history full", Authority::Sweeper),
    row(Some(State::Running), State::Succeeded, "reported", Authority::Runner),
    row(Some(State::Running), State::Failed, "reported", Authority::Runner),
    row(Some(State::Running), State::Retry, "reported", Authority::Runner),
    row(Some(State::Running), State::Cancelled, "reported", Authority::Runner),
    row(Some(State::Running), State::Retry, "time ran out", Authority::Sweeper),
    row(Some(State::Running), State::Failed, "time ran out", Authority::Sweeper),
    row(Some(State::Running), State::Cancelled, "time ran out", Authority::Sweeper),
    row(Some(State::Queued), State::Failed, "deadline", Authority::Sweeper),
    row(Some(State::Retry), State::Failed, "deadline", Authority::Sweeper),
    row(Some(State::Queued), State::Cancelled, "cancel requested", Authority::Canceller),
    row(Some(State::Retry), State::Cancelled, "cancel requested", Authority::Canceller),
    row(Some(State::Running), State::Cancelled, "cancel enforced", Authority::Canceller),
    row(Some(State::Running), State::Failed, "cancel grace over", Authority::Canceller),
    row(Some(State::Running), State::Waiting, "suspended", Authority::Engine),
    row(Some(State::Waiting), State::Running, "granted", Authority::Pool),
    row(Some(State::Waiting), State::Failed, "time ran out", Authority::Sweeper),
    row(Some(State::Waiting), State::Failed, "history full", Authority::Sweeper),
    row(Some(State::Waiting), State::Cancelled, "cancel requested", Authority::Canceller),
    row(Some(State::Running), State::Waiting, "reported, has children", Authority::Runner),
    row(Some(State::Running), State::Waiting, "time ran out, has children", Authority::Sweeper),
    row(Some(State::Running), State::Waiting, "cancelled, has children", Authority::Canceller),
    row(Some(State::Retry), State::Waiting, "undelivered, has children", Authority::Sweeper),
    row(Some(State::Retry), State::Waiting, "deadline, has children", Authority::Sweeper),
    row(Some(State::Retry), State::Waiting, "cancelled, has children", Authority::Canceller),
    row(Some(State::Retry), State::Waiting, "history full, has children", Authority::Sweeper),
    row(Some(State::Waiting), State::Succeeded, "children ended", Authority::Engine),
    row(Some(State::Waiting), State::Failed, "children ended", Authority::Engine),
    row(Some(State::Waiting), State::Cancelled, "children ended", Authority::Engine),
];

/// The changes that only plans make.
pub const PLAN_TABLE: [Transition; 25] = [
    row(None, State::Blocked, "planned", Authority::Submitter),
    row(None, State::Waiting, "planned", Authority::Submitter),
    row(Some(State::Blocked), State::Running, "granted", Authority::Pool),
    row(Some(State::Blocked), State::Failed, "deadline", Authority::Sweeper),
    row(Some(State::Blocked), State::Cancelled, "cancel requested", Authority::Canceller),
    row(Some(State::Blocked), State::Skipped, "upstream failed", Authority::Engine),
    row(Some(State::Blocked), State::Failed, "input unresolved", Authority::Engine),
    row(Some(State::Queued), State::Failed, "input unresolved", Authority::Engine),
    row(Some(State::Retry), State::Failed, "input unresolved", Authority::Engine),
    row(Some(State::Waiting), State::Failed, "input unresolved", Authority::Engine),
    row(Some(State::Running), State::Queued, "stage ended", Authority::Engine),
    row(Some(State::Retry), State::Queued, "stage ended", Authority::Engine),
    row(Some(State::Waiting), State::Queued, "stage ended", Authority::Engine),
    row(Some(State::Queued), State::Waiting, "deadline, has children", Authority::Sweeper),
    row(Some(State::Queued), State::Waiting, "cancelled, has children", Authority::Canceller),
    row(Some(State::Queued), State::Waiting, "history full, has children", Authority::Sweeper),
    row(Some(State::Queued), State::Failed, "history full", Authority::Sweeper),
    row(Some(State::Retry), State::Waiting, "input unresolved, has children", Authority::Engine),
    row(Some(State::Waiting), State::Halted, "children ended", Authority::Engine),
    row(Some(State::Queued), State::Waiting, "asks people", Authority::Engine),
    row(Some(State::Retry), State::Waiting, "asks people", Authority::Engine),
    row(Some(State::Blocked), State::Waiting, "asks people", Authority::Engine),
    row(Some(State::Waiting), State::Succeeded, "people approved", Authority::Engine),
    row(Some(State::Waiting), State::Failed, "people did not approve", Authority::Engine),
    row(Some(State::Waiting), State::Skipped, "condition did not hold", Authority::Engine),
];

/// The changes that only budgets make.
pub const HALT_TABLE: [Transition; 12] = [
    row(Some(State::Running), State::Halted, "budget", Authority::Runner),
    row(Some(State::Queued), State::Halted, "budget", Authority::Runner),
    row(Some(State::Retry), State::Halted, "budget", Authority::Runner),
    row(Some(State::Waiting), State::Halted, "budget", Authority::Runner),
    row(Some(State::Queued), State::Waiting, "budget, has children", Authority::Runner),
    row(Some(State::Retry), State::Waiting, "budget, has children", Authority::Runner),
    row(Some(State::Running), State::Halted, "time of the budget", Authority::Sweeper),
    row(Some(State::Queued), State::Halted, "time of the budget", Authority::Sweeper),
    row(Some(State::Retry), State::Halted, "time of the budget", Authority::Sweeper),
    row(Some(State::Waiting), State::Halted, "time of the budget", Authority::Sweeper),
    row(Some(State::Blocked), State::Halted, "time of the budget", Authority::Sweeper),
    row(Some(State::Running), State::Waiting, "budget, has children", Authority::Runner),
];

/// Whether the tables have a row for this change.
pub fn is_listed(from: Option<State>, to: State, owner: Authority) -> bool {
    let is_it = |row: &Transition| row.from == from && row.to == to && row.owner == owner;
    TABLE.iter().chain(&PLAN_TABLE).chain(&HALT_TABLE).any(is_it)
}

/// How an attempt ended, without its lease and owner.
#[derive(Clone, Debug)]
pub(crate) struct Closing {
    pub(crate) outcome: AttemptOutcome,
    pub(crate) reason: Option<Reason>,
    pub(crate) fault: Option<Fault>,
    pub(crate) report: Option<Digest>,
    pub(crate) claims: Option<Json>,
}

impl Closing {
    /// An attempt that ended without a report.
    pub(crate) fn unreported(outcome: AttemptOutcome, reason: Reason) -> Self {
        Self { outcome, reason: Some(reason), fault: None, report: None, claims: None }
    }
}

pub(crate) fn submit(_: &Submitter, submit: &request::Submit, now: Time) -> Event {
    Event::Submitted(Box::new(submitted(submit, now)))
}

/// A task that another task's call made is submitted like any other, and knows where it comes from.
pub(crate) fn spawn(
    _: &Submitter,
    submit: &request::Submit,
    lineage: &Lineage,
    now: Time,
) -> Event {
    let submitted = Box::new(submitted(submit, now));
    Event::Run(Box::new(RunEvent::Spawned { submitted, lineage: lineage.clone() }))
}

fn submitted(submit: &request::Submit, now: Time) -> Submitted {
    Submitted {
        id: submit.id,
        scope: submit.scope.clone(),
        kind: submit.kind.clone(),
        queue: submit.queue.clone(),
        priority: submit.priority,
        policy: submit.policy.clone(),
        due: submit.run_at.unwrap_or(now).max(now),
        input: submit.input,
        budget: submit.budget.clone(),
        flow: submit.flow.clone(),
    }
}

/// A step of a plan waits for its upstreams, unless they have ended.
pub(crate) fn spawn_step(
    _: &Submitter,
    submit: &request::Submit,
    lineage: &Lineage,
    terms: StepTerms,
    is_blocked: bool,
    now: Time,
) -> Event {
    let submitted = Box::new(submitted(submit, now));
    plan_event(PlanEvent::StepSpawned { submitted, lineage: lineage.clone(), terms, is_blocked })
}

/// A step that never ran, or that cannot run.
pub(crate) fn end_step(_: &Engine, task: &Task, end: End) -> Event {
    end_waiting(task, end, CancelMode::Graceful, Authority::Engine)
}

/// All steps have ended, and nothing stopped the plan before.
pub(crate) fn end_plan(_: &Engine, task: &Task, end: End) -> Event {
    let (from, to) = (task.state(), end.state);
    assert!(is_listed(Some(from), to, Authority::Engine), "no plan ends {to:?}");
    Event::Ended(end)
}

/// A task that has not ended enters another stage.
pub(crate) fn next_stage(_: &Engine, task: &Task, turn: Turn, to: State) -> Turn {
    let from = task.state();
    let stays = from == to;
    let is_listed = stays || is_listed(Some(from), to, Authority::Engine);
    assert!(is_listed, "no stage follows {from:?}");
    turn
}

pub(crate) fn plan_event(event: PlanEvent) -> Event {
    Event::Run(Box::new(RunEvent::Plan(Box::new(event))))
}

pub(crate) fn grant(_: &Pool, task: &Task, grant: &request::Grant, at: Moment) -> Event {
    Event::Granted {
        lease: grant.lease,
        owner: grant.owner.clone(),
        poll: grant.poll.clone(),
        fence: Fence::new(at.epoch, bounds::next(task.claim_version)),
        expires_at: task.lease_end(at.now, at.now),
    }
}

pub(crate) fn hand_back(_: &Pool, task: &Task, closing: Closing, next: Next, now: Time) -> Event {
    close(task, closing, next, now, Authority::Pool)
}

pub(crate) fn report(_: &Runner, task: &Task, closing: Closing, next: Next, now: Time) -> Event {
    close(task, closing, next, now, Authority::Runner)
}

/// The budget is used up while a worker holds the task.
pub(crate) fn halt(_: &Runner, task: &Task, closing: Closing, end: End, now: Time) -> Event {
    close(task, closing, Next::End(end), now, Authority::Runner)
}

/// The budget is used up while no worker holds the task.
pub(crate) fn halt_waiting(_: &Runner, task: &Task, end: End) -> Event {
    end_waiting(task, end, CancelMode::Graceful, Authority::Runner)
}

/// What follows an attempt that closed otherwise, once the budget is used up.
pub(crate) fn halt_after(_: &Runner, task: &Task, end: End, now: Time) -> Next {
    await_children(task, Next::End(end), None, now)
}

pub(crate) fn time_out(_: &Sweeper, task: &Task, closing: Closing, next: Next, now: Time) -> Event {
    close(task, closing, next, now, Authority::Sweeper)
}

pub(crate) fn miss_deadline(_: &Sweeper, task: &Task, end: End) -> Event {
    end_waiting(task, end, CancelMode::Graceful, Authority::Sweeper)
}

/// No attempt is left.
pub(crate) fn spend(_: &Sweeper, task: &Task, end: End) -> Event {
    end_waiting(task, end, CancelMode::Graceful, Authority::Sweeper)
}

pub(crate) fn cancel_waiting(_: &Canceller, task: &Task, end: End, mode: CancelMode) -> Event {
    end_waiting(task, end, mode, Authority::Canceller)
}

pub(crate) fn revoke(_: &Canceller, task: &Task, closing: Closing, end: End, now: Time) -> Event {
    close(task, closing, Next::End(end), now, Authority::Canceller)
}

/// The attempt's call asked for what is not there, or its code diverged.
pub(crate) fn suspend(
    _: &Engine,
    task: &Task,
    closing: Closing,
    waiting: Waiting,
    now: Time,
) -> Event {
    close(task, closing, Next::Wait(Box::new(waiting)), now, Authority::Engine)
}

/// The last child has ended: the task ends as it was decided.
pub(crate) fn end_closing(_: &Engine, task: &Task) -> Event {
    let closing = task.closing().expect("only a closing task waits for its children to end");
    let to = closing.end.state;
    assert!(is_listed(Some(State::Waiting), to, Authority::Engine), "no end {to:?} waits");
    Event::Ended(closing.end.clone())
}

fn close(task: &Task, closing: Closing, next: Next, now: Time, owner: Authority) -> Event {
    let lease = task.lease().expect("only a running task has an attempt to close");
    let next = await_children(task, next, closing.reason, now);
    let to = next.state();
    assert!(is_listed(Some(State::Running), to, owner), "{owner:?} may not move to {to:?}");
    // A report without an earlier start implies the start. A release does not: a worker also
    // hands back what it has not begun.
    let is_released = closing.outcome == AttemptOutcome::Released;
    let implied = closing.report.filter(|_| !is_released).map(|_| now);
    let closed = ClosedAttempt {
        task: task.id,
        attempt: task.attempt,
        lease: lease.id,
        fence: lease.fence,
        owner: lease.owner.clone(),
        granted_at: lease.acquired_at,
        started_at: lease.started_at.or(implied),
        closed_at: now,
        outcome: closing.outcome,
        reason: closing.reason,
        fault: closing.fault,
        report: closing.report,
        claims: closing.claims,
    };
    Event::AttemptClosed { closed: Box::new(closed), next }
}

fn end_waiting(task: &Task, end: End, mode: CancelMode, owner: Authority) -> Event {
    let (from, to) = (task.state(), end.state);
    if !task.has_open_children() {
        assert!(is_listed(Some(from), to, owner), "{owner:?} may not move {from:?} to {to:?}");
        return Event::Ended(end);
    }
    let stays = from == State::Waiting;
    assert!(stays || is_listed(Some(from), State::Waiting, owner), "{owner:?} closes {from:?}");
    Event::Run(Box::new(RunEvent::Closing(end, mode)))
}

/// A task does not end before its children: its end waits for theirs. A forced end forces theirs too.
fn await_children(task: &Task, next: Next, reason: Option<Reason>, now: Time) -> Next {
    match next {
        Next::End(end) if task.has_open_children() => {
            let mode = match reason {
                Some(Reason::CancelForced) => CancelMode::Immediate,
                _ => CancelMode::Graceful,
            };
            Next::Wait(Box::new(Waiting::Closing(run::Closing::begin(end, mode, now))))
        }
        next => next,
    }
}
