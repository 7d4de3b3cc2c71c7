//! What a decision means for the budget of its task, and the halt of a task whose budget is used up.
//!
//! Every owner decides about a task as if it had no budget. This file then folds the events that were decided and reads the
//! balance: if more is used than a limit allows, whatever would have gone on does not, and the task halts in this very decision
//! (S2-62, S2-70). What the decision recorded stays: a halted run keeps its partial results (S2-39). So no path around budgets
//! exists (S2-67).
//!
//! A stage that uses more than its ceiling halts in the same way; what that means for the task is read in [`super::stages`].
//!
//! An end that was decided anyway stays if it is a failure or a cancel. A success that crosses the limit halts, with its output
//! kept: whether the last step came before the report or with it makes no difference.

use super::{report, soft_limit};
use crate::attempt::{AttemptOutcome, ClosedAttempt};
use crate::budget::{Amounts, Balance, BudgetEvent, Limits, Unit};
use crate::done::{Category, End, Fault, Reason};
use crate::event::{Event, Next, Subject};
use crate::id::{Digest, Text};
use crate::request::Request;
use crate::run::message::BUDGET_EXHAUSTED;
use crate::run::{Lineage, Metered, RunAnswer, RunEvent, RunRequest, Spend, Waiting};
use crate::task::{State, Task};
use crate::time::Moment;
use crate::transition::Closing;
use crate::verdict::{Answer, CancelSignal, ReadSet, Verdict};

/// A call that also says what its attempt has used. A refused call changes nothing: what it says stays with the refusal.
pub(super) fn metered(read_set: ReadSet<'_>, asked: &Metered, at: Moment) -> Verdict {
    let balance = read_set.subject.live().and_then(Task::balance);
    let is_news = balance.is_some_and(|balance| balance.is_news(asked.total));
    let noted = (is_news && spawns(&asked.call)).then(|| noted(read_set.subject, asked.total));
    let subject = noted.as_ref().unwrap_or(read_set.subject);
    let verdict = super::by_request(ReadSet { subject, ..read_set }, &asked.call, at);
    let is_taken = !verdict.events.is_empty() && !matches!(verdict.answer, Answer::Refused(_));
    if !is_news || !is_taken {
        return verdict;
    }
    let mut events = vec![event(BudgetEvent::Metered(asked.total))];
    events.extend(verdict.events);
    Verdict { events, ..verdict }
}

fn spawns(call: &Request) -> bool {
    call.checkpoint_call().is_some_and(|call| !call.children.is_empty())
}

/// The task with what its worker says that it used: only what is left may be promised to children of the same call.
fn noted(subject: &Subject, total: Spend) -> Subject {
    let mut subject = subject.clone();
    if let Subject::Live(task) = &mut subject
        && let Some(balance) = task.balance_mut()
    {
        balance.note(&BudgetEvent::Metered(total));
    }
    subject
}

pub(super) fn event(event: BudgetEvent) -> Event {
    Event::Run(Box::new(RunEvent::Budget(Box::new(event))))
}

/// The verdict, with a halt in place of what would go on if the budget is used up.
pub(super) fn judge(subject: &Subject, request: &Request, verdict: Verdict, at: Moment) -> Verdict {
    let Some(task) = subject.live().filter(|task| is_judged(task, request)) else { return verdict };
    if verdict.events.is_empty() {
        return verdict;
    }
    let after = subject.clone().settle(&verdict.events, at.now);
    let Some(balance) = balance_of(&after) else { return verdict };
    let refused = soft_limit::refused(task, &verdict.events);
    let end = exhausted(task, balance).or_else(|| exhausted_in_stage(task, balance)).or(refused);
    let verdict = match end {
        Some(end) => halt(task, &after, request, verdict, end, at),
        None => soft_limit::ask(task, &after, request, verdict, at),
    };
    warn(balance, verdict)
}

/// A task whose end is decided is funded apart: children that stop are not judged, and stages that always run have their own
/// ceilings alone. The next stage of a report is leased in the report's own decision, which judges before.
fn is_judged(task: &Task, request: &Request) -> bool {
    task.balance().is_some() && task.closing().is_none() && !is_advance(request)
}

fn is_advance(request: &Request) -> bool {
    use crate::plan::PlanRequest;
    let Request::Run(request) = request else { return false };
    match &**request {
        RunRequest::Plan(PlanRequest::Advance(_)) => true,
        RunRequest::Metered(metered) => is_advance(&metered.call),
        _ => false,
    }
}

pub(super) fn balance_of(subject: &Subject) -> Option<&Balance> {
    match subject {
        Subject::Absent => None,
        Subject::Live(task) => task.balance(),
        Subject::Done(done) => done.run.as_ref()?.balance.as_deref(),
    }
}

/// One event, whatever follows.
fn warn(balance: &Balance, verdict: Verdict) -> Verdict {
    let Some(unit) = balance.to_warn() else { return verdict };
    let mut events = vec![event(BudgetEvent::Warned(unit))];
    events.extend(verdict.events);
    Verdict { events, ..verdict }
}

fn halt(
    task: &Task,
    after: &Subject,
    request: &Request,
    verdict: Verdict,
    end: End,
    at: Moment,
) -> Verdict {
    let Verdict { answer, mut events } = verdict;
    let place = events.iter().position(|event| matches!(event, Event::AttemptClosed { .. }));
    match (place, after) {
        (Some(place), _) => {
            let Event::AttemptClosed { closed, next } = events[place].clone() else {
                unreachable!("the place was found by its kind")
            };
            let Some(end) = in_place_of(&next, end) else { return Verdict { answer, events } };
            // Children that the same call spawned are waited for as well.
            let before = settled(task, &events[..place], at);
            let next = report::halt_after(&before, end, at.now);
            let state = next.state();
            events[place] = Event::AttemptClosed { closed: Box::new(stopped(*closed)), next };
            Verdict::new(halted(answer, state, at), events)
        }
        (None, Subject::Live(after)) => {
            let event = match after.lease() {
                Some(_) => report::halt(after, closing(request), end, at.now),
                None => report::halt_waiting(after, end),
            };
            let state = event.next_state().unwrap_or(State::Halted);
            events.push(event);
            Verdict::new(halted(answer, state, at), events)
        }
        (None, Subject::Absent | Subject::Done(_)) => Verdict { answer, events },
    }
}

fn settled(task: &Task, events: &[Event], at: Moment) -> Task {
    match Subject::Live(task.clone()).settle(events, at.now) {
        Subject::Live(task) => task,
        Subject::Absent | Subject::Done(_) => {
            unreachable!("nothing before the close ends the task")
        }
    }
}

/// The end in place of what was to follow; `None` if that stays.
fn in_place_of(next: &Next, halt: End) -> Option<End> {
    let decided = match next {
        Next::End(end) => Some(end),
        Next::Wait(waiting) => match &**waiting {
            Waiting::Closing(closing) => Some(&closing.end),
            _ => None,
        },
        Next::Retry { .. } | Next::Stage(_) => None,
    };
    match decided {
        Some(end) if end.state != State::Succeeded => None,
        Some(end) => Some(End { output: end.output.clone(), ..halt }),
        None => Some(halt),
    }
}

/// An attempt that would have been suspended was stopped instead. What a worker reported stays what it reported.
fn stopped(closed: ClosedAttempt) -> ClosedAttempt {
    match closed.outcome.is_suspension() {
        true => ClosedAttempt {
            outcome: AttemptOutcome::Revoked,
            reason: Some(Reason::BudgetExhausted),
            ..closed
        },
        false => closed,
    }
}

/// How the attempt of a call that crosses the limit closes. The digest of a checkpoint call is kept, so that a repetition gets
/// its answer again.
fn closing(request: &Request) -> Closing {
    let report = request.checkpoint_call().map(|call| call.digest);
    Closing { report, ..Closing::unreported(AttemptOutcome::Revoked, Reason::BudgetExhausted) }
}

/// The caller learns that its task halted. A worker that is told so stops, whether or not children are still to end.
fn halted(answer: Answer, state: State, at: Moment) -> Answer {
    match answer {
        Answer::Alive { .. } => {
            let reason = Some(Text::from(BUDGET_EXHAUSTED));
            Answer::Alive { expires_at: at.now, cancel: Some(CancelSignal { reason }) }
        }
        Answer::Committed { outcome, replayed, .. } => {
            Answer::Committed { outcome, state, replayed }
        }
        Answer::Run(answer) => match *answer {
            RunAnswer::Checkpointed(mut answer) => {
                (answer.state, answer.expires_at, answer.cancel) = (State::Halted, None, None);
                (answer.replayed, answer.wait) = (false, None);
                Answer::Run(Box::new(RunAnswer::Checkpointed(answer)))
            }
            other => Answer::Run(Box::new(other)),
        },
        other => other,
    }
}

/// Whether this attempt was closed by a call that crossed the limit.
pub(super) fn stopped_call(closed: &ClosedAttempt, call: Digest) -> bool {
    closed.reason == Some(Reason::BudgetExhausted)
        && closed.outcome == AttemptOutcome::Revoked
        && closed.report == Some(call)
}

/// How a task ends whose budget is used up. The message names the limit (S2-99).
fn exhausted(task: &Task, balance: &Balance) -> Option<End> {
    let unit = balance.crossed()?;
    let use_of = Use { used: balance.used, held: balance.held };
    Some(beyond(&whose(task), &balance.budget.limits, use_of, unit))
}

/// The budget of a plan's step is the ceiling that the plan gives it.
fn whose(task: &Task) -> String {
    let lineage = task.run.as_ref().and_then(|run| run.lineage.as_ref());
    match lineage.and_then(Lineage::parent) {
        Some((_, key)) if task.step_terms().is_some() => format!("the ceiling of the step `{key}`"),
        _ => "the budget".to_owned(),
    }
}

/// How a stage ends that has used more than its ceiling.
fn exhausted_in_stage(task: &Task, balance: &Balance) -> Option<End> {
    let (stage, unit) = (balance.stage.as_ref()?, balance.crossed_in_stage()?);
    let key = task.stages().map_or("", |stages| stages.stage().key.as_str());
    let whose = format!("the ceiling of the step `{key}`");
    let use_of = Use { used: stage.used, held: stage.held };
    Some(beyond(&whose, &stage.ceiling, use_of, unit))
}

/// What is used, and what is held beside it: both count against a limit, and only one of them was used.
struct Use {
    used: Amounts,
    held: Amounts,
}

impl Use {
    fn of(&self, unit: Unit) -> String {
        match (self.used.get(unit), self.held.get(unit)) {
            (used, 0) => format!("{used} are used"),
            (used, held) => format!("{used} are used, {held} more are held for what has not ended"),
        }
    }
}

fn beyond(whose: &str, limits: &Limits, use_of: Use, unit: Unit) -> End {
    let (name, use_of) = (unit.name(), use_of.of(unit));
    let limit = limits.get(unit).unwrap_or_default();
    let message = format!("{whose} allows {limit} {name}, and {use_of}");
    end(Reason::BudgetExhausted, Category::Configuration, &message)
}

/// How far a soft limit was crossed, for the people who are asked and for the record.
pub(super) fn soft_use(balance: &Balance, unit: Unit) -> String {
    let use_of = Use { used: balance.used, held: balance.held }.of(unit);
    let limit = balance.budget.soft.get(unit).unwrap_or_default();
    format!("the soft limit is {limit} {}, and {use_of}", unit.name())
}

/// How a task ends that was not allowed to go on beyond its soft limit.
pub(super) fn not_approved(task: &Task) -> End {
    let crossed = task.balance().and_then(|it| Some((it, it.budget.soft.crossed(it.committed())?)));
    let message = match crossed {
        Some((balance, unit)) => {
            format!("{}, and going on was not approved", soft_use(balance, unit))
        }
        None => "a soft limit was crossed, and going on was not approved".to_owned(),
    };
    end(Reason::BudgetExhausted, Category::Configuration, &message)
}

/// How a task ends whose time is over.
pub(super) fn out_of_time(task: &Task, is_wall: bool) -> End {
    let budget = task.balance().map(|balance| &balance.budget);
    let (name, limit) = match is_wall {
        true => ("wallMs", budget.and_then(|budget| budget.wall)),
        false => ("activeMs", budget.and_then(|budget| budget.active)),
    };
    let message = match limit {
        Some(limit) => {
            format!("the budget allows {} ms ({name}), and they are over", limit.millis())
        }
        None => format!("the time of the parent's budget ({name}) is over"),
    };
    end(Reason::BudgetTimeExhausted, Category::Timeout, &message)
}

fn end(reason: Reason, category: Category, message: &str) -> End {
    let fault =
        Fault { category, message: Text::from(message), stack_trace: None, retryable: Some(false) };
    End { state: State::Halted, reason: Some(reason), output: None, fault: Some(fault) }
}

/// The wall clock of the budget is over.
pub(super) fn is_wall_over(task: &Task, at: Moment) -> bool {
    task.wall_end().is_some_and(|end| end.has_come(at.now))
}
