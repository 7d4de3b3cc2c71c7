//! The steps of a plan: the root spawns them and tells them when to run, and a step obeys.
//!
//! The root counts, in the row of each step, the upstreams that have not ended. The decision that counts the last of them
//! tells the step, once. Everything that may be long goes in slices: what the decision about an ended step does not
//! finish is left to the next sweep of the root, which is due at once.

use super::call_items::fund;
use super::engine;
use super::run::loaded;
use crate::budget::Balance;
use crate::done::{Category, End, Fault, Reason};
use crate::event::{Event, Subject};
use crate::id::{Scope, Text};
use crate::plan::limits::STEPS_PER_DECISION;
use crate::plan::{
    Blame, EndedStep, PlanEvent, PlanLoaded, PlanMessage, PlanStep, PlanSubmit, RootState,
    SpawnedStep, StepRow, Told, ToldTo, fold,
};
use crate::request::{Cancel, CancelMode, Request, Submit};
use crate::run::{ChildCall, RunRefusal, Waiting};
use crate::task::{Phase, State, Task};
use crate::time::Time;
use crate::transition::plan_event;
use crate::verdict::{Answer, ReadSet, Verdict};

/// Whether the budget of the run can promise every step its ceiling. What was promised is held as steps are spawned; nothing but steps
/// uses the balance of a root, so it is still there then.
pub(super) fn check_ceilings(asked: &PlanSubmit, now: Time) -> Result<(), RunRefusal> {
    let Some(budget) = asked.submit.budget.as_deref() else { return Ok(()) };
    let mut balance = Balance::open(budget.clone(), now);
    asked.steps.iter().try_for_each(|step| {
        let mut submit = step.child.submit.clone();
        fund(&mut balance, &step.child.key, &mut submit)
    })
}

/// The first steps, in the decision that accepts the plan.
pub(super) fn first_slice(root: &Submit, steps: &[PlanStep], now: Time) -> Event {
    let (scope, deadline) = (&root.scope, root.policy.deadline);
    let balance = root.budget.as_deref().map(|budget| Balance::open(budget.clone(), now));
    let (start, balance) = (root.run_at.unwrap_or(now).max(now), balance.as_ref());
    let terms = RootTerms { scope, start, deadline, balance };
    let rows = steps.iter().take(STEPS_PER_DECISION).map(StepRow::of);
    let spawned = rows.map(|row| spawned(&row, &terms, now)).collect();
    plan_event(PlanEvent::StepsSpawned(spawned))
}

/// The next steps to spawn, or the next downstreams to tell.
pub(super) fn next_slice(read_set: ReadSet<'_>, task: &Task, now: Time) -> Option<Event> {
    let root = task.plan_root()?;
    if !root.due?.has_come(now) {
        return None;
    }
    let rows = rows(read_set);
    if !root.is_all_spawned() {
        let (scope, deadline) = (&task.scope, task.policy.deadline);
        let terms = RootTerms { scope, start: root.start, deadline, balance: task.balance() };
        let steps = rows.unspawned.iter().map(|row| spawned(row, &terms, now)).collect();
        return Some(plan_event(PlanEvent::StepsSpawned(steps)));
    }
    Some(tell(task, &root.backlog.first()?.ended, rows))
}

fn rows<'a>(read_set: ReadSet<'a>) -> &'a PlanLoaded {
    let rows = loaded(read_set).plan.as_deref();
    rows.expect("what the root of a plan needs is loaded with its request")
}

/// What a step takes from its root: the scope, the start, its ceiling and, unless it must run after it, the deadline.
struct RootTerms<'a> {
    scope: &'a Scope,
    start: Time,
    deadline: Option<Time>,
    /// What the run may use: a step takes its ceiling from it.
    balance: Option<&'a Balance>,
}

fn spawned(row: &StepRow, root: &RootTerms<'_>, now: Time) -> SpawnedStep {
    let terms = &row.step.terms;
    let to = if row.missing == 0 { to_tell(row) } else { ToldTo::Wait };
    let mut submit = row.step.child.submit.clone();
    submit.scope.clone_from(root.scope);
    submit.policy.deadline = match to {
        ToldTo::Run => terms.deadline(root.deadline, root.start.max(now)),
        ToldTo::Wait | ToldTo::Skip => root.deadline.filter(|_| !terms.is_always),
    };
    submit.run_at = submit.run_at.max(Some(root.start));
    if let Some(balance) = root.balance {
        submit.budget = Some(Box::new(balance.ceiling(submit.budget.as_deref())));
    }
    let child = ChildCall { submit, is_detached: false, ..row.step.child.clone() };
    SpawnedStep { step: PlanStep { child, ..row.step.clone() }, to, blame: row.blame.clone() }
}

/// What a step is told when all its upstreams have ended.
fn to_tell(row: &StepRow) -> ToldTo {
    match row.blame {
        Some(_) if !row.step.terms.is_always => ToldTo::Skip,
        Some(_) | None => ToldTo::Run,
    }
}

/// After the end of a step was recorded: its downstreams hear of it, and the root ends with its last step.
pub(super) fn after_step(
    read_set: ReadSet<'_>,
    task: &Task,
    root: &RootState,
    (state, is_unneeded): (State, bool),
    halt: Option<&End>,
) -> Vec<Event> {
    let rows = rows(read_set);
    let ended = rows.ended.as_ref().expect("a child of a plan's root is a step");
    let (key, blocks) =
        (ended.step.child.key.clone(), !is_unneeded && ended.step.terms.blocks(state));
    let ended = EndedStep { key, state, blocks };
    let blamed = blamed(root, &ended, halt);
    let mut events: Vec<Event> =
        blamed.iter().map(|blame| plan_event(PlanEvent::StepBlamed(blame.clone()))).collect();
    if !rows.downstreams.is_empty() {
        events.push(tell(task, &ended, rows));
    }
    if task.live_children() == 1 && root.is_all_spawned() {
        events.push(end(task, blamed.as_ref().or(root.blame.as_ref())));
    }
    events
}

/// The first step that failed is blamed for the end of the run. One that was halted is blamed only while none failed: the run is
/// halted then. A skip has a cause that is blamed already.
fn blamed(root: &RootState, ended: &EndedStep, halt: Option<&End>) -> Option<Blame> {
    let is_cause = ended.blocks && ended.state != State::Skipped;
    let is_first = match &root.blame {
        None => true,
        Some(blame) => blame.state == State::Halted && ended.state != State::Halted,
    };
    let halt = halt.map(|end| Box::new(end.clone()));
    (is_cause && is_first).then(|| Blame { key: ended.key.clone(), state: ended.state, halt })
}

/// The root ends as it was decided, or as its steps did.
fn end(task: &Task, blame: Option<&Blame>) -> Event {
    match task.closing() {
        Some(_) => engine::end_closing(task),
        None => engine::end_plan(task, blame.map_or_else(fold::success, failure)),
    }
}

/// A run whose steps stopped at a limit is halted, and names the step and the limit (S2-99); any other step that did not succeed
/// fails it.
fn failure(blame: &Blame) -> End {
    let (key, how) = (&blame.key, blame.state.name());
    if let Some(halt) = &blame.halt {
        let said = |of: &Fault| Fault {
            message: Text::from(format!("step `{key}` was halted: {}", of.message.as_str())),
            ..of.clone()
        };
        return End { fault: halt.fault.as_ref().map(said), ..(**halt).clone() };
    }
    let message = format!("step `{key}` {how}, and its `onError` is not `continue`");
    let state = match blame.state {
        State::Halted => State::Halted,
        _ => State::Failed,
    };
    End { state, reason: Some(Reason::StepFailed), output: None, fault: Some(fault(&message)) }
}

fn fault(message: &str) -> Fault {
    Fault {
        category: Category::UserCode,
        message: Text::from(message),
        stack_trace: None,
        retryable: Some(false),
    }
}

fn tell(task: &Task, ended: &EndedStep, rows: &PlanLoaded) -> Event {
    let is_closing = task.closing().is_some();
    let told = rows.downstreams.iter().map(|row| count(row, ended, is_closing)).collect();
    let has_more = rows.has_more_downstreams;
    plan_event(PlanEvent::DownstreamsTold { ended: ended.clone(), told, has_more })
}

/// Counts one ended upstream of one step.
fn count(row: &StepRow, ended: &EndedStep, is_closing: bool) -> Told {
    let child = &row.step.child;
    let missing = row.missing.checked_sub(1).expect("an upstream ends once");
    let (key, state) = (ended.key.clone(), ended.state);
    let blamed = ended.blocks.then_some(Blame { key, state, halt: None });
    let row = StepRow { missing, blame: row.blame.clone().or(blamed), ..row.clone() };
    // A closing root cancels every step but those that must run.
    let is_cancelled = is_closing && !row.step.terms.is_always;
    let to = match missing {
        0 if row.is_spawned && !is_cancelled => to_tell(&row),
        _ => ToldTo::Wait,
    };
    Told { key: child.key.clone(), id: child.submit.id, missing, blame: row.blame, to }
}

/// A message of the root to a step that exists. A step that is told again has forgotten nothing: it is blocked no more.
pub(super) fn told(task: &Task, message: &PlanMessage, now: Time) -> Verdict {
    let is_blocked = matches!(&task.phase, Phase::Waiting(waiting) if matches!(**waiting, Waiting::Blocked { due: None }));
    let Some(terms) = task.step_terms().filter(|_| is_blocked) else { return Verdict::nothing() };
    let event = match message {
        PlanMessage::Spawn { .. } => return Verdict::nothing(),
        PlanMessage::Release { done_by } => {
            let deadline = terms.deadline(task.policy.deadline, now);
            let done_by = if terms.asks.is_some() { done_by.clone() } else { Vec::new() };
            plan_event(PlanEvent::Released { deadline, done_by })
        }
        PlanMessage::Skip { blame } => engine::skip(task, skipped(blame)),
    };
    Verdict::new(Answer::Done, vec![event])
}

fn skipped(blame: &Blame) -> End {
    let message =
        format!("upstream step `{}` {}, so this step did not run", blame.key, blame.state.name());
    let reason = Some(Reason::UpstreamFailed);
    End { state: State::Skipped, reason, output: None, fault: Some(fault(&message)) }
}

/// Whether a step goes on although its root has ended: it was declared to, and the end is not forced.
pub(super) fn outlives(task: &Task, cancel: &Cancel) -> bool {
    let is_always = task.step_terms().is_some_and(|terms| terms.is_always);
    is_always && cancel.mode == CancelMode::Graceful
}

/// The verdict, with the API key under which a step was done whose plan asks people.
pub(super) fn keep_key(subject: &Subject, request: &Request, verdict: Verdict) -> Verdict {
    let terms = subject.live().and_then(Task::step_terms).filter(|terms| terms.keeps_keys);
    let by = terms.zip(request.done_by()).filter(|(terms, by)| !terms.done_by.contains(by));
    let ends = |event: &Event| matches!(event, Event::AttemptClosed { .. });
    match by {
        Some((_, by)) if verdict.events.iter().any(ends) => {
            let done_by = plan_event(PlanEvent::DoneBy(vec![by.clone()]));
            let events = [done_by].into_iter().chain(verdict.events).collect();
            Verdict { events, ..verdict }
        }
        _ => verdict,
    }
}
