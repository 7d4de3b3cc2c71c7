//! The fold of a plan's events into its task. See [`crate::event`] for the fold of all others.

use crate::attempt::AttemptOutcome;
use crate::bounds::next;
use crate::done::End;
use crate::id::Name;
use crate::record;
use crate::run::{RunState, Waiting};
use crate::task::{CancelRequest, Phase, State, Task};
use crate::time::Time;

use super::event::{PlanEvent, SpawnedStep, Turn};
use super::request::PlanForm;
use super::state::{Backlog, EndedStep, Ending, PlanState, RootState, StagesState};
use super::step::StepTerms;
use super::{asking, preparing};

/// Applies an event to a task that exists.
pub(crate) fn change(task: &mut Task, event: &PlanEvent, now: Time) {
    match event {
        PlanEvent::StepSpawned { .. } => unreachable!("a live task is not spawned again"),
        PlanEvent::Planned(form) => plan(task, form),
        PlanEvent::StageEntered(turn) => enter(task, turn),
        PlanEvent::StepsSpawned(steps) => spawn(task, steps, now),
        PlanEvent::StepBlamed(blame) => root_of(task).blame = Some(blame.clone()),
        PlanEvent::DownstreamsTold { ended, told, has_more } => {
            let after = told.last().map(|told| told.key.clone());
            tell(root_of(task), ended, after.filter(|_| *has_more), now);
        }
        PlanEvent::DoneBy(keys) => note_keys(task, keys),
        PlanEvent::Released { deadline, done_by } => {
            note_keys(task, done_by);
            task.policy.deadline = *deadline;
            task.phase = waits(task, now).unwrap_or_else(|| blocked(Some(now)));
        }
        PlanEvent::Prepared { .. } => {
            let ready = match task.stages() {
                Some(_) => Phase::Queued { due: now },
                // What it waited for is there. It keeps its state until a worker leases it, as after every wait.
                None => Phase::Waiting(Box::new(Waiting::Ready { due: now })),
            };
            task.phase = asking(task, now).unwrap_or(ready);
        }
    }
}

fn note_keys(task: &mut Task, keys: &[Name]) {
    let known = match run_of(task).plan.as_deref_mut() {
        Some(PlanState::Root(root)) => &mut root.done_by,
        Some(PlanState::Step(terms)) => &mut terms.done_by,
        Some(PlanState::Stages(_)) | None => unreachable!("only plans with steps have such events"),
    };
    for key in keys {
        if !known.contains(key) {
            known.push(key.clone());
        }
    }
}

/// Where a step begins.
pub(crate) fn begin_step(task: Task, terms: StepTerms, is_blocked: bool) -> Task {
    let phase = if is_blocked { blocked(None) } else { task.phase };
    let mut run = task.run.unwrap_or_default();
    run.plan = Some(Box::new(PlanState::Step(terms)));
    let mut task = Task { phase, run: Some(run), ..task };
    if let Some(phase) = task.claimable_at().and_then(|due| waits(&task, due)) {
        task.phase = phase;
    }
    task
}

/// The phase of a task whose step begins without a worker: it is prepared first, or asks people.
fn waits(task: &Task, from: Time) -> Option<Phase> {
    if task.prepares() { Some(preparing::phase(from)) } else { asking(task, from) }
}

/// The phase of a task whose step asks people.
fn asking(task: &Task, from: Time) -> Option<Phase> {
    task.asking().map(|(key, terms)| asking::phase(key, terms, from))
}

fn blocked(due: Option<Time>) -> Phase {
    Phase::Waiting(Box::new(Waiting::Blocked { due }))
}

fn run_of(task: &mut Task) -> &mut RunState {
    task.run.get_or_insert_default()
}

fn plan(task: &mut Task, form: &PlanForm) {
    match form {
        PlanForm::Stages { digest, stages } => {
            task.chain = record::extend_with_plan(task.chain, *digest);
            let (stages, run_deadline) = (stages.clone(), task.policy.deadline);
            let due = task.claimable_at().expect("a task that was just submitted is queued");
            let state = StagesState {
                stages,
                current: 0,
                since: 0,
                run_deadline,
                ending: None,
                done_by: Vec::new(),
                outputs: Vec::new(),
            };
            let run = run_of(task);
            if run.balance.is_none() && state.has_ceilings() {
                run.balance = Some(Box::default());
            }
            run.plan = Some(Box::new(PlanState::Stages(state)));
            enter(task, &Turn::new(0, due));
        }
        PlanForm::Steps { digest, count } => {
            task.chain = record::extend_with_plan(task.chain, *digest);
            let start = task.claimable_at().expect("a task that was just submitted is queued");
            let root = RootState::new(*count, start);
            run_of(task).plan = Some(Box::new(PlanState::Root(root)));
            task.phase = Phase::Waiting(Box::new(Waiting::Steps));
        }
    }
}

/// The task is in another stage. A cancel that ended the stages before is set aside: the workers of the remaining stages
/// are not to stop.
pub(crate) fn enter(task: &mut Task, turn: &Turn) {
    let cancel = turn.ending.as_ref().and_then(|_| task.cancel.take());
    let since = run_of(task).checkpoints;
    let stages = stages_of(task);
    stages.done_by.extend(turn.by.clone());
    let left = stages.stage().key.clone();
    stages.outputs.extend(turn.output.map(|digest| (left, digest)));
    (stages.current, stages.since) = (turn.stage, since);
    if let (Some(end), None) = (&turn.ending, &stages.ending) {
        stages.ending = Some(Ending { end: end.clone(), cancel });
    }
    let (stage, run_deadline) = (stages.stage().clone(), stages.run_deadline);
    let is_apart = stages.ending.is_some();
    if let Some(balance) = task.balance_mut() {
        balance.enter_stage(turn.stage, stage.ceiling, is_apart);
    }
    task.policy = stage.policy_from(turn.due, run_deadline);
    (task.kind, task.queue) = (stage.kind, stage.queue);
    task.phase = waits(task, turn.due).unwrap_or(Phase::Queued { due: turn.due });
    // What the stage before asked people is of no use any more.
    run_of(task).approvals.open.clear();
}

fn stages_of(task: &mut Task) -> &mut StagesState {
    match run_of(task).plan.as_deref_mut() {
        Some(PlanState::Stages(stages)) => stages,
        _ => unreachable!("the event needs stages and the task has none"),
    }
}

fn root_of(task: &mut Task) -> &mut RootState {
    match run_of(task).plan.as_deref_mut() {
        Some(PlanState::Root(root)) => root,
        _ => unreachable!("the event needs a plan with steps and the task has none"),
    }
}

fn spawn(task: &mut Task, steps: &[SpawnedStep], now: Time) {
    let chain = task.chain;
    let extend =
        |chain, spawned: &SpawnedStep| record::extend_with_child(chain, &spawned.step.child);
    task.chain = steps.iter().fold(chain, extend);
    let run = run_of(task);
    for spawned in steps {
        run.checkpoints = next(run.checkpoints);
        run.children = next(run.children);
        run.live_children = next(run.live_children);
        let ceiling = spawned.step.child.submit.budget.as_ref();
        if let (Some(balance), Some(ceiling)) = (&mut run.balance, ceiling) {
            balance.hold(&ceiling.limits);
        }
    }
    let root = root_of(task);
    root.spawned = root.spawned.saturating_add(steps.len() as u32);
    root.due = root.next_due(now);
}

/// `after` is where the next slice begins; `None` if all were told.
fn tell(root: &mut RootState, ended: &EndedStep, after: Option<Name>, now: Time) {
    let place = root.backlog.iter().position(|entry| entry.ended == *ended);
    match (place, after) {
        (Some(place), None) => drop(root.backlog.remove(place)),
        (Some(place), after) => root.backlog[place].after = after,
        (None, None) => {}
        (None, after) => root.backlog.push(Backlog { ended: ended.clone(), after }),
    }
    root.due = root.next_due(now);
}

impl RootState {
    /// When the next slice is due: at once, as long as there is one.
    fn next_due(&self, now: Time) -> Option<Time> {
        (!self.is_all_spawned() || !self.backlog.is_empty()).then_some(now)
    }
}

/// The task leaves its stage with an attempt that was just counted. The stage's checkpoint was recorded before the attempt closed, so
/// the last attempt is forgiven here. One that neither failed nor was lost counts towards no limit.
pub(crate) fn leave(task: &mut Task, outcome: AttemptOutcome) {
    let counted = task.failures.saturating_add(task.lost);
    (task.failures, task.lost, task.undelivered) = (0, 0, 0);
    let is_uncounted = matches!(outcome, AttemptOutcome::Released | AttemptOutcome::Undelivered);
    let run = run_of(task);
    run.forgiven = run.forgiven.saturating_add(counted);
    if counted == 0 && !is_uncounted {
        run.suspensions = next(run.suspensions);
    }
}

/// Takes the cancel that ended the task's earlier stages, for its record.
pub(crate) fn take_cancel(task: &mut Task) -> Option<CancelRequest> {
    match run_of_plan(task)? {
        PlanState::Stages(stages) => stages.ending.as_mut()?.cancel.take(),
        PlanState::Root(_) | PlanState::Step(_) => None,
    }
}

/// An ended task is known by the kind and queue that it was submitted with: those of its first stage.
pub(crate) fn restore_names(task: &mut Task) {
    let first = task.stages().and_then(|stages| stages.stages.first());
    if let Some((kind, queue)) = first.map(|it| (it.kind.clone(), it.queue.clone())) {
        (task.kind, task.queue) = (kind, queue);
    }
}

fn run_of_plan(task: &mut Task) -> Option<&mut PlanState> {
    task.run.as_mut()?.plan.as_deref_mut()
}

/// How a plan ends that nothing stopped: its output is composed when it is read.
pub(crate) fn success() -> End {
    End { state: State::Succeeded, reason: None, output: None, fault: None }
}
