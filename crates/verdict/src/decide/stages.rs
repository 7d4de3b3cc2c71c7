//! What follows the end of a stage.
//!
//! Every owner decides about a task as if it had no stages: a report succeeds, retries are exhausted, a deadline passes, a cancel
//! takes effect. This file then reads the end that was decided. It records it as the checkpoint of the stage and replaces it:
//! by the next stage, by the next `always` stage with the end set aside, or by the end of the whole task. So
//! no rule about ends is written twice, and no path around stages exists.
//!
//! An end with live children still waits for them, but only if it ends the whole task: children belong to the task, and
//! a later stage may wait for them.

use super::waiting::{self, Recording};
use super::{budget, cancel, engine, grant};
use crate::budget::Balance;
use crate::done::{Category, End, Fault, Reason};
use crate::event::{Event, Next, Subject};
use crate::id::{Digest, LeaseId, Name, Text};
use crate::plan::{
    Advance, Ending, NextLease, PlanAnswer, PlanEvent, Stage, StagesState, Turn, fold,
};
use crate::request::{Caller, CancelMode, Grant, Request};
use crate::run::{Recorded, RunAnswer, RunEvent, Spend, Step, StepOutcome, Waiting};
use crate::task::{State, Task};
use crate::time::{Moment, Time};
use crate::transition::plan_event;
use crate::verdict::{Answer, ReadSet, Verdict};

/// What an end of a stage comes to.
enum After {
    Stage { place: u32, ending: Option<End> },
    End(End),
}

/// The verdict with the end of the task's stage in place of its own. Every other verdict is returned as it is.
pub(super) fn turn(subject: &Subject, request: &Request, verdict: Verdict, at: Moment) -> Verdict {
    let Some((task, stages)) = subject.live().and_then(|task| Some((task, task.stages()?))) else {
        return verdict;
    };
    // The end of a closing task was read when it was decided.
    let is_decided = task.closing().is_some() || is_turned(&verdict.events, stages);
    let place = verdict.events.iter().position(|event| end_in(event).is_some());
    match place {
        Some(place) if !is_decided => {
            replace_end(task, stages, verdict, place, (request.done_by(), at.now))
        }
        Some(_) | None => verdict,
    }
}

/// Whether the stage's checkpoint is already among the events.
fn is_turned(events: &[Event], stages: &StagesState) -> bool {
    let key = &stages.stage().key;
    events.iter().any(|event| match event {
        Event::Run(event) => matches!(&**event, RunEvent::Checkpointed(it) if it.key == *key),
        _ => false,
    })
}

/// The end that an event decides, now or after the task's children.
fn end_in(event: &Event) -> Option<&End> {
    match event {
        Event::Ended(end) => Some(end),
        Event::AttemptClosed { next: Next::End(end), .. } => Some(end),
        Event::AttemptClosed { next: Next::Wait(waiting), .. } => match &**waiting {
            Waiting::Closing(closing) => Some(&closing.end),
            _ => None,
        },
        Event::Run(event) => match &**event {
            RunEvent::Closing(end, _) => Some(end),
            _ => None,
        },
        _ => None,
    }
}

fn replace_end(
    task: &Task,
    stages: &StagesState,
    verdict: Verdict,
    place: usize,
    (by, now): (Option<&Name>, Time),
) -> Verdict {
    let Verdict { answer, mut events } = verdict;
    let end = end_in(&events[place]).expect("the event decides an end").clone();
    let is_cancelled = task.cancel.is_some()
        || events.iter().any(|event| matches!(event, Event::CancelRequested { .. }));
    let is_own = is_halt_of_stage(task, &end, &events, now);
    let (replaced, state) = match after(task, &end, is_own, is_cancelled, now) {
        After::Stage { place: stage, ending } => {
            let waits = stages.stages[stage as usize].begins_waiting();
            let state = if waits { State::Waiting } else { State::Queued };
            let turn = Turn { ending, ..remembered(stages, &end, by, Turn::new(stage, now)) };
            let turn = engine::next_stage(task, turn, state);
            (with_turn(events[place].clone(), turn), state)
        }
        After::End(end) => {
            let event = with_end(events[place].clone(), end);
            let state = state_after(&event);
            (event, state)
        }
    };
    let checkpoint = checkpoint(task, stages.stage(), &events[..place], &end, now);
    events[place] = replaced;
    events.insert(place, checkpoint);
    Verdict::new(with_state(answer, state), events)
}

/// The turn with what is to be known when people are asked: who did the work, and what they decide about.
fn remembered(stages: &StagesState, end: &End, by: Option<&Name>, turn: Turn) -> Turn {
    let by = by.filter(|by| stages.is_decided_by_people() && !stages.done_by.contains(by)).cloned();
    let key = &stages.stage().key;
    let is_shown = stages.asked_later().any(|terms| terms.shows.as_ref() == Some(key));
    let output = end.output.as_ref().filter(|_| is_shown && end.state == State::Succeeded);
    let output = output.map(|json| Digest::of_bytes(json.as_str().as_bytes()));
    Turn { by, output, ..turn }
}

fn after(task: &Task, end: &End, is_halt_of_stage: bool, is_cancelled: bool, now: Time) -> After {
    let stages = task.stages().expect("only a task with stages has ends of stages");
    let goes_on = end.state == State::Succeeded
        || end.reason == Some(Reason::ConditionFalse)
        || is_tolerated(stages, end, now)
        || (is_halt_of_stage && stages.stage().continues_on_error);
    let is_final = matches!(end.reason, Some(Reason::HistoryFull));
    match (&stages.ending, stages.next()) {
        (Some(ending), _) => last_stages(stages, ending.end.clone(), is_final || is_forced(end)),
        (None, Some(_)) if goes_on && is_cancelled => {
            last_stages(stages, cancel::pending_end(task), false)
        }
        (None, Some(place)) if goes_on => After::Stage { place, ending: None },
        (None, None) if goes_on => After::End(fold::success()),
        (None, _) => last_stages(stages, end.clone(), is_final),
    }
}

/// The task ends, after the `always` stages that are left. With a full history none of them could run.
fn last_stages(stages: &StagesState, end: End, is_final: bool) -> After {
    match stages.next_always().filter(|_| !is_final) {
        Some(place) => After::Stage { place, ending: Some(end) },
        None => After::End(end),
    }
}

/// Whether the task goes on after this failure of its stage. The end of the whole run (its deadline, a cancel, a limit of its
/// history) is no failure of the stage.
fn is_tolerated(stages: &StagesState, end: &End, now: Time) -> bool {
    let is_run_over = stages.run_deadline.is_some_and(|deadline| deadline.has_come(now));
    let is_own = match end.reason {
        Some(Reason::DeadlineExceeded) => !is_run_over,
        Some(Reason::CancelTimeout | Reason::HistoryFull) => false,
        _ => true,
    };
    stages.stage().continues_on_error && end.state == State::Failed && is_own
}

/// Whether the stage halted at its own ceiling, and not the task at its budget.
fn is_halt_of_stage(task: &Task, end: &End, events: &[Event], now: Time) -> bool {
    if end.reason != Some(Reason::BudgetExhausted) {
        return false;
    }
    let after = Subject::Live(task.clone()).settle(events, now);
    let is_own = |balance: &Balance| balance.crossed().is_none() && balance.is_crossed();
    budget::balance_of(&after).is_some_and(is_own)
}

fn is_forced(end: &End) -> bool {
    end.reason == Some(Reason::CancelForced)
}

fn cancelled() -> End {
    let reason = Some(Reason::CancelRequested);
    End { state: State::Cancelled, reason, output: None, fault: None }
}

fn with_turn(event: Event, turn: Turn) -> Event {
    match event {
        Event::AttemptClosed { closed, .. } => {
            Event::AttemptClosed { closed, next: Next::Stage(Box::new(turn)) }
        }
        _ => plan_event(PlanEvent::StageEntered(turn)),
    }
}

fn with_end(event: Event, end: End) -> Event {
    match event {
        Event::AttemptClosed { closed, next: Next::Wait(waiting) } => {
            let waiting = match *waiting {
                Waiting::Closing(closing) => {
                    Waiting::Closing(crate::run::Closing { end, ..closing })
                }
                other => other,
            };
            Event::AttemptClosed { closed, next: Next::Wait(Box::new(waiting)) }
        }
        Event::AttemptClosed { closed, .. } => {
            Event::AttemptClosed { closed, next: Next::End(end) }
        }
        Event::Run(event) => match *event {
            RunEvent::Closing(_, mode) => Event::Run(Box::new(RunEvent::Closing(end, mode))),
            other => Event::Run(Box::new(other)),
        },
        _ => Event::Ended(end),
    }
}

fn state_after(event: &Event) -> State {
    match event {
        Event::Ended(end) => end.state,
        Event::AttemptClosed { next, .. } => next.state(),
        Event::Run(event) if matches!(**event, RunEvent::Closing(..)) => State::Waiting,
        _ => State::Queued,
    }
}

/// The caller learns what became of the task, not of its stage.
fn with_state(answer: Answer, state: State) -> Answer {
    match answer {
        Answer::Committed { outcome, replayed, .. } => {
            Answer::Committed { outcome, state, replayed }
        }
        Answer::CancelAccepted { requested_at, .. } => {
            Answer::CancelAccepted { state, requested_at }
        }
        other => other,
    }
}

/// The checkpoint of a stage. Replay begins after it: what the stage recorded is of no use to the next one.
fn checkpoint(task: &Task, stage: &Stage, before: &[Event], end: &End, now: Time) -> Event {
    let recorded = before.iter().filter(|event| event.name() == "checkpointed").count()
        + before.iter().filter(|event| event.name() == "child_spawned").count();
    let number = waiting::next_number(task) + recorded as u32;
    let outcome = match end.state {
        State::Succeeded => StepOutcome::Succeeded { result: end.output.clone() },
        _ => StepOutcome::Failed { fault: fault(end), reason: end.reason.map(word) },
    };
    let digest = digest(&stage.key, &outcome);
    let step =
        Step { outcome, input: Some(stage.input), spend: Spend::default(), is_savepoint: true };
    let attempt = if task.lease().is_some() { task.attempt } else { 0 };
    Recording { number, attempt, now }.event(&stage.key, digest, Recorded::Step(step))
}

fn word(reason: Reason) -> Text {
    Text::from(reason.name())
}

fn fault(end: &End) -> Fault {
    end.fault.clone().unwrap_or_else(|| Fault {
        category: Category::UserCode,
        message: Text::from(format!("the stage ended {}", end.state.name()).as_str()),
        stack_trace: None,
        retryable: Some(false),
    })
}

fn digest(key: &Name, outcome: &StepOutcome) -> Digest {
    let (word, content) = match outcome {
        StepOutcome::Succeeded { result } => {
            ("succeeded", result.as_ref().map_or("", |json| json.as_str()))
        }
        StepOutcome::Failed { fault, .. } => ("failed", fault.message.as_str()),
    };
    Digest::of(&[b"stage", key.as_str().as_bytes(), word.as_bytes(), content.as_bytes()])
}

/// The end that waits for `always` stages.
pub(super) fn ending(task: &Task) -> Option<&Ending> {
    task.stages()?.ending.as_ref()
}

/// A forced cancel ends a task whose end is decided, whatever stages are left.
pub(super) fn forced_end(task: &Task, mode: CancelMode) -> Option<End> {
    let is_forced = mode == CancelMode::Immediate && ending(task).is_some();
    is_forced.then(|| End { reason: Some(Reason::CancelForced), ..cancelled() })
}

/// A report, and the lease of the next stage if the rules allow it.
pub(super) fn advance(read_set: ReadSet<'_>, call: &Advance, at: Moment) -> Verdict {
    let verdict = super::by_request(read_set, &call.report, at);
    let verdict = budget::judge(read_set.subject, &call.report, verdict, at);
    let Verdict { answer, mut events } = turn(read_set.subject, &call.report, verdict, at);
    let (Answer::Committed { outcome, state, replayed }, Some(caller)) =
        (answer.clone(), call.report.caller())
    else {
        return Verdict::new(answer, events);
    };
    let mark = NextLease::mark(caller.lease);
    let lease = if replayed {
        current_lease(read_set.subject, &mark)
    } else {
        lease_next(read_set, &call.next, (caller, &mark), &mut events, at)
    };
    let state = if lease.is_some() { State::Running } else { state };
    let answer = RunAnswer::Plan(PlanAnswer::Advanced { outcome, state, replayed, lease });
    Verdict::new(super::run::answered(answer), events)
}

/// The next stage is leased like any other ready task: the same checks, a new attempt and a new fence.
fn lease_next(
    read_set: ReadSet<'_>,
    next: &NextLease,
    (caller, mark): (&Caller, &Name),
    events: &mut Vec<Event>,
    at: Moment,
) -> Option<LeaseId> {
    if !events.iter().any(is_turn) {
        return None;
    }
    let after = read_set.subject.clone().settle(events, at.now);
    let stages = after.live().and_then(Task::stages);
    if !stages.is_some_and(|stages| next.allows(stages)) {
        return None;
    }
    let (lease, owner) = (next.lease, caller.worker.clone());
    let grant = Grant { lease, owner, poll: Some(mark.clone()), build: None };
    let read_set = ReadSet { subject: &after, ..read_set };
    let granted = grant::decide(read_set, &grant, at);
    let is_granted = granted.answer == Answer::Granted;
    events.extend(granted.events.into_iter().filter(|_| is_granted));
    is_granted.then_some(lease)
}

fn is_turn(event: &Event) -> bool {
    matches!(event, Event::AttemptClosed { next: Next::Stage(_), .. })
}

impl NextLease {
    /// Whether the worker may have the stage that the task has entered. A gate goes through the queue: nobody judges their
    /// own work.
    fn allows(&self, stages: &StagesState) -> bool {
        let stage = stages.stage();
        let is_open = !self.closed_queues.contains(&stage.queue);
        stages.current <= self.until && is_open && !stage.is_gate
    }
}

fn current_lease(subject: &Subject, mark: &Name) -> Option<LeaseId> {
    let lease = subject.live()?.lease()?;
    (lease.poll.as_ref() == Some(mark)).then_some(lease.id)
}
