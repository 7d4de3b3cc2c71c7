//! What happened to a task, and the fold that turns events into its state.
//!
//! `decide` never changes anything: it returns events, and this fold is the only code that turns an
//! event into a new state. So the events suffice to rebuild every task, which is what `tenure
//! verify` does.

use crate::approval::Approval;
use crate::attempt::{AttemptOutcome, ClosedAttempt};
use crate::bounds::next;
use crate::budget::{Balance, Budget};
use crate::done::{Done, End, Reason};
use crate::flow::FlowKey;
use crate::id::{Digest, Fence, LeaseId, Name, Scope, TaskId, Text};
use crate::plan::{self, PlanEvent, Turn};
use crate::policy::Policy;
use crate::progress_clock::{self, ProgressMark};
use crate::record;
use crate::run::{Lineage, RunEvent, RunState, Waiting, fold};
use crate::task::{CancelRequest, Lease, Phase, Progress, State, Task};
use crate::time::{Moment, Time};

/// What is known of a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    Absent,
    Live(Task),
    Done(Done),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    Submitted(Box<Submitted>),
    Granted {
        lease: LeaseId,
        owner: Name,
        poll: Option<Name>,
        fence: Fence,
        expires_at: Time,
    },
    Started,
    /// Kept in the row and never in the history: one history row per heartbeat would record nothing
    /// useful.
    Renewed {
        expires_at: Time,
        progress: Option<Progress>,
    },
    Extended {
        expires_at: Time,
        signalled_at: Option<Time>,
        /// Where the progress clock counts from now, if one is running.
        progressed_at: Option<Time>,
    },
    /// The attempt has made no progress since then for as long as its progress clock allows.
    Stalled {
        since: Time,
    },
    CancelRequested {
        reason: Option<Text>,
    },
    CancelSignalled,
    /// The lease is over. What becomes of the task is part of the same event, so that there is no
    /// state in which an attempt is closed and its task undecided.
    AttemptClosed {
        closed: Box<ClosedAttempt>,
        next: Next,
    },
    /// The task ends while no attempt is open.
    Ended(End),
    /// About a durable run.
    Run(Box<RunEvent>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Submitted {
    pub id: TaskId,
    pub scope: Scope,
    pub kind: Name,
    pub queue: Name,
    pub priority: i32,
    pub policy: Policy,
    pub due: Time,
    pub input: Digest,
    pub budget: Option<Box<Budget>>,
    pub flow: Option<Box<FlowKey>>,
}

/// What becomes of a task whose attempt closed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    Retry {
        due: Time,
    },
    End(End),
    /// It waits: for what its call named, for an operator, or for the end of its children. Boxed: plain tasks never do.
    Wait(Box<Waiting>),
    /// It enters another stage. Boxed: only tasks with stages do.
    Stage(Box<Turn>),
}

impl Next {
    /// The task's state after the attempt.
    pub fn state(&self) -> State {
        match self {
            Next::Retry { .. } => State::Retry,
            Next::End(end) => end.state,
            Next::Wait(_) => State::Waiting,
            Next::Stage(_) => State::Queued,
        }
    }
}

impl Event {
    /// The submission that an event records: that of a run, of a child or of a step of a plan.
    pub fn submitted(&self) -> Option<&Submitted> {
        match self {
            Event::Submitted(submitted) => Some(submitted),
            Event::Run(event) => match &**event {
                RunEvent::Spawned { submitted, .. } => Some(submitted),
                RunEvent::Plan(event) => match &**event {
                    PlanEvent::StepSpawned { submitted, .. } => Some(submitted),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the event is a decision that the history keeps; a renewal is kept only in the row.
    pub fn is_history(&self) -> bool {
        !matches!(self, Event::Renewed { .. })
    }

    /// The task's state after an event that closes an attempt.
    pub fn next_state(&self) -> Option<State> {
        match self {
            Event::AttemptClosed { next, .. } => Some(next.state()),
            _ => None,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Event::Submitted(_) => "submitted",
            Event::Granted { .. } => "granted",
            Event::Started => "started",
            Event::Renewed { .. } => "renewed",
            Event::Extended { .. } => "extended",
            Event::Stalled { .. } => "stalled",
            Event::CancelRequested { .. } => "cancel_requested",
            Event::CancelSignalled => "cancel_signalled",
            Event::AttemptClosed { .. } => "attempt_closed",
            Event::Ended(_) => "ended",
            Event::Run(event) => event.name(),
        }
    }
}

impl Subject {
    pub fn state(&self) -> Option<State> {
        match self {
            Subject::Absent => None,
            Subject::Live(task) => Some(task.state()),
            Subject::Done(done) => Some(done.end.state),
        }
    }

    pub fn live(&self) -> Option<&Task> {
        match self {
            Subject::Live(task) => Some(task),
            Subject::Absent | Subject::Done(_) => None,
        }
    }

    /// The run that the task belongs to: its own, unless it is a child.
    pub fn run_id(&self) -> Option<TaskId> {
        let (id, run) = match self {
            Subject::Absent => return None,
            Subject::Live(task) => (task.id, &task.run),
            Subject::Done(done) => (done.id, &done.run),
        };
        let lineage = run.as_ref().and_then(|run| run.lineage.as_ref());
        Some(lineage.and_then(Lineage::run).unwrap_or(id))
    }

    /// Whether the task belongs to the run of another one.
    pub fn is_child(&self) -> bool {
        let run = match self {
            Subject::Absent => return false,
            Subject::Live(task) => &task.run,
            Subject::Done(done) => &done.run,
        };
        let lineage = run.as_ref().and_then(|run| run.lineage.as_ref());
        lineage.is_some_and(|lineage| lineage.run().is_some())
    }

    pub fn scope(&self) -> Option<&Scope> {
        match self {
            Subject::Absent => None,
            Subject::Live(task) => Some(&task.scope),
            Subject::Done(done) => Some(&done.scope),
        }
    }

    pub fn queue(&self) -> Option<&Name> {
        match self {
            Subject::Absent => None,
            Subject::Live(task) => Some(&task.queue),
            Subject::Done(done) => Some(&done.queue),
        }
    }

    /// How many entries the task's history has.
    pub fn entries(&self) -> u32 {
        match self {
            Subject::Absent => 0,
            Subject::Live(task) => task.entries,
            Subject::Done(done) => done.entries,
        }
    }

    /// The moment at which a decision about this task is dated: time never runs backwards for a
    /// task.
    pub fn dated(&self, at: Moment) -> Moment {
        match self {
            Subject::Live(task) => Moment { now: at.now.max(task.decided_at), ..at },
            Subject::Absent | Subject::Done(_) => at,
        }
    }

    /// The task after one decision: applies its events, in order, as made at `now`.
    ///
    /// Events that do not fit the state are a defect of the rules, never of a caller.
    #[must_use]
    pub fn settle(self, events: &[Event], now: Time) -> Subject {
        let mut subject = self;
        if let Subject::Live(task) = &mut subject {
            if events.is_empty() {
                return subject;
            }
            task.revision = next(task.revision);
            task.decided_at = task.decided_at.max(now);
            if events.iter().any(Event::is_history) {
                task.entries = next(task.entries);
            }
        }
        events.iter().fold(subject, |subject, event| subject.apply(event, now)).disarmed()
    }

    /// Without approvals that the task no longer waits for.
    fn disarmed(mut self) -> Subject {
        match &mut self {
            Subject::Live(task) if has_approvals(task) => {
                let armed = |approval: &Approval| approval.is_armed(task);
                let kept: Vec<Approval> =
                    open_approvals(task).iter().filter(|it| armed(it)).cloned().collect();
                if let Some(run) = &mut task.run {
                    run.approvals.open = kept;
                }
            }
            Subject::Done(Done { run: Some(run), .. }) => run.approvals.open.clear(),
            Subject::Live(_) | Subject::Done(_) | Subject::Absent => {}
        }
        self
    }

    fn apply(self, event: &Event, now: Time) -> Subject {
        match (self, event) {
            (Subject::Absent, Event::Submitted(submitted)) => Subject::Live(create(submitted, now)),
            (Subject::Absent, Event::Run(event)) => Subject::Live(spawn(event, now)),
            (Subject::Live(task), event) => change(task, event, now),
            (subject, event) => unreachable!("{} on {:?}", event.name(), subject.state()),
        }
    }
}

fn open_approvals(task: &Task) -> &[Approval] {
    task.run.as_ref().map_or(&[], |run| &run.approvals.open)
}

fn has_approvals(task: &Task) -> bool {
    !open_approvals(task).is_empty()
}

fn create(submitted: &Submitted, now: Time) -> Task {
    Task {
        id: submitted.id,
        scope: submitted.scope.clone(),
        kind: submitted.kind.clone(),
        queue: submitted.queue.clone(),
        priority: submitted.priority,
        policy: submitted.policy.clone(),
        created_at: now,
        started_at: None,
        attempt: 0,
        failures: 0,
        lost: 0,
        undelivered: 0,
        claim_version: 0,
        cancel: None,
        phase: Phase::Queued { due: submitted.due },
        decided_at: now,
        revision: 1,
        entries: 1,
        chain: record::begin(submitted),
        run: run_state(submitted, now).map(Box::new),
    }
}

/// What a task has besides from its beginning; `None` for a plain task.
fn run_state(submitted: &Submitted, now: Time) -> Option<RunState> {
    let open = |budget: &Budget| Box::new(Balance::open(budget.clone(), now));
    let (balance, flow) = (submitted.budget.as_deref().map(open), submitted.flow.clone());
    let is_plain = balance.is_none() && flow.is_none();
    (!is_plain).then(|| RunState { balance, flow, ..RunState::default() })
}

/// A task that another task's call made.
fn spawn(event: &RunEvent, now: Time) -> Task {
    let (submitted, lineage, step) = match event {
        RunEvent::Spawned { submitted, lineage } => (submitted, lineage, None),
        RunEvent::Plan(event) => match &**event {
            PlanEvent::StepSpawned { submitted, lineage, terms, is_blocked } => {
                (submitted, lineage, Some((terms.clone(), *is_blocked)))
            }
            event => unreachable!("{} of a task that does not exist", event.name()),
        },
        event => unreachable!("{} of a task that does not exist", event.name()),
    };
    let task = create(submitted, now);
    let chain = record::extend_with_lineage(task.chain, lineage);
    let run = RunState {
        lineage: Some(lineage.clone()),
        ..task.run.map_or_else(RunState::default, |run| *run)
    };
    let task = Task { chain, run: Some(Box::new(run)), ..task };
    match step {
        None => task,
        Some((terms, is_blocked)) => plan::fold::begin_step(task, terms, is_blocked),
    }
}

fn change(mut task: Task, event: &Event, now: Time) -> Subject {
    match event {
        Event::Submitted(_) => unreachable!("a live task is not submitted again"),
        Event::Granted { lease, owner, poll, fence, expires_at } => {
            assert!(task.lease().is_none(), "at most one lease per task");
            task.claim_version = next(task.claim_version);
            task.attempt = next(task.attempt);
            task.phase = Phase::Running(Lease {
                id: *lease,
                owner: owner.clone(),
                fence: *fence,
                poll: poll.clone(),
                acquired_at: now,
                heartbeat_at: now,
                expires_at: *expires_at,
                started_at: None,
                heard: false,
                progress: None,
                progress_mark: None,
            });
        }
        Event::Started => {
            task.started_at = task.started_at.or(Some(now));
            let lease = lease_of(&mut task);
            lease.started_at = Some(now);
            lease.heard = true;
            progress_clock::start(&mut task, now);
        }
        Event::Renewed { expires_at, progress } => {
            task.claim_version = next(task.claim_version);
            let lease = lease_of(&mut task);
            let is_progress = progress_clock::is_new(lease, progress.as_ref());
            lease.heard = true;
            lease.heartbeat_at = now;
            lease.expires_at = lease.expires_at.max(*expires_at);
            lease.progress = progress.clone().or(lease.progress.take());
            match is_progress {
                true => progress_clock::advance(&mut task, now),
                false => progress_clock::begin(&mut task, now),
            }
        }
        Event::Extended { expires_at, signalled_at, progressed_at } => {
            task.claim_version = next(task.claim_version);
            let lease = lease_of(&mut task);
            let gap = expires_at.since(lease.expires_at);
            lease.expires_at = lease.expires_at.max(*expires_at);
            lease.progress_mark = progressed_at.map(ProgressMark::new).or(lease.progress_mark);
            if let Some(balance) = task.balance_mut() {
                balance.miss(gap);
            }
            if let Some(cancel) = &mut task.cancel {
                cancel.signalled_at = *signalled_at;
            }
        }
        Event::Stalled { since } => {
            let mark = ProgressMark { at: *since, stalled_at: Some(now) };
            lease_of(&mut task).progress_mark = Some(mark);
        }
        Event::CancelRequested { reason } => {
            let request =
                CancelRequest { requested_at: now, reason: reason.clone(), signalled_at: None };
            task.cancel = Some(request);
        }
        Event::CancelSignalled => {
            let cancel = task.cancel.as_mut().expect("only a requested cancel is signalled");
            cancel.signalled_at = Some(now);
        }
        Event::AttemptClosed { closed, next } => return close(task, closed, next, now),
        Event::Ended(end) => return Subject::Done(finish(task, end, now)),
        Event::Run(event) => fold::change(&mut task, event, now),
    }
    Subject::Live(task)
}

fn lease_of(task: &mut Task) -> &mut Lease {
    task.lease_mut()
        .unwrap_or_else(|| unreachable!("the event needs a lease and the task has none"))
}

fn close(mut task: Task, closed: &ClosedAttempt, then: &Next, now: Time) -> Subject {
    task.claim_version = next(task.claim_version);
    task.started_at = task.started_at.or(closed.started_at);
    task.chain = record::extend(task.chain, closed);
    count(&mut task, closed);
    if let Some(balance) = task.balance_mut() {
        balance.close(closed);
    }
    match then {
        Next::Retry { due } => {
            task.phase = Phase::Retry { due: *due };
            Subject::Live(task)
        }
        Next::End(end) => Subject::Done(finish(task, end, now)),
        Next::Wait(waiting) => {
            task.phase = Phase::Waiting(waiting.clone());
            Subject::Live(task)
        }
        Next::Stage(turn) => {
            plan::fold::leave(&mut task, closed.outcome);
            plan::fold::enter(&mut task, turn);
            Subject::Live(task)
        }
    }
}

/// Failures, losses and undelivered grants have separate limits; a call by the worker resets the
/// count of undelivered grants. A grant that was handed back counts if its event says so: the first
/// versions of the rules did not count it.
fn count(task: &mut Task, closed: &ClosedAttempt) {
    match (closed.outcome, closed.reason) {
        (AttemptOutcome::Undelivered, Some(Reason::HeartbeatTimeout | Reason::HandedBack)) => {
            task.undelivered = next(task.undelivered);
        }
        (AttemptOutcome::Undelivered, _) => {}
        (AttemptOutcome::Failed, _) | (_, Some(Reason::AttemptTimeout)) => {
            task.failures = next(task.failures);
        }
        (AttemptOutcome::Lost, _) | (AttemptOutcome::Revoked, Some(Reason::Stalled)) => {
            task.lost = next(task.lost);
        }
        (AttemptOutcome::Suspended | AttemptOutcome::Diverged, _) => {
            let run = task.run.get_or_insert_default();
            run.suspensions = next(run.suspensions);
        }
        // Released attempts need no counter: they are what the counted ones leave
        // ([`Task::uncounted`]).
        (
            AttemptOutcome::Succeeded
            | AttemptOutcome::Cancelled
            | AttemptOutcome::Revoked
            | AttemptOutcome::Released,
            _,
        ) => {}
    }
    if closed.outcome != AttemptOutcome::Undelivered {
        task.undelivered = 0;
    }
}

fn finish(mut task: Task, end: &End, now: Time) -> Done {
    assert!(end.state.is_terminal(), "a task ends in a terminal state");
    let record = record::seal(&task, end, now);
    let cancel = task.cancel.take().or_else(|| plan::fold::take_cancel(&mut task));
    plan::fold::restore_names(&mut task);
    Done {
        id: task.id,
        scope: task.scope,
        kind: task.kind,
        queue: task.queue,
        priority: task.priority,
        created_at: task.created_at,
        started_at: task.started_at,
        completed_at: now,
        attempt: task.attempt,
        failures: task.failures,
        lost: task.lost,
        claim_version: task.claim_version,
        cancel,
        end: end.clone(),
        entries: task.entries,
        record,
        run: task.run,
    }
}
