//! Budgets in worlds that have them: after every commit no task has promised more than it may use, and at the end nothing is
//! held and every use is accounted for.
//!
//! Workers say what their steps used, within their reservation and now and then beyond it. They are lost in the middle of steps, and
//! children end, halt and are called off while their parents wait, crash or halt themselves. What a task must have used is
//! counted here anew from its history and its children, independently of the rules.
//!
//! Runs that halted are continued with another budget ([`crate::client`]). A continuation must pay for what it does itself and for nothing
//! that it took over, must not repeat what was recorded, and leaves the run that it continues as it was.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use store::{Browse, Entry, ScanDepth, Store, StoredTask};
use storetest::MemoryStore;
use verdict::run::{Lineage, Recorded, RunEvent};
use verdict::{
    AttemptOutcome, Balance, BudgetEvent, ClosedAttempt, Done, Event, Reason, State, Subject,
    TaskId,
};

use wire::names::FORK_OF_LABEL;

use crate::actor_context::ActorContext;
use crate::coverage::CoverageGoal;
use crate::log::Log;
use crate::program::{Operation, Program};

/// What one step may use, and what the most wasteful ones do use.
pub(crate) const RESERVE: u64 = 10;
pub(crate) const SPEND: (u64, u64) = (0, 12);

/// What a worker says with its report that it used beside its steps.
pub(crate) const BESIDE: (u64, u64) = (0, 6);

/// What a program may use for its own steps, and how much of what it needs a run gets, in thousandths.
const OWN: u64 = 40;
pub(crate) const FUNDED: (u64, u64) = (500, 1_400);

/// More tasks than a world has.
const ALL: usize = 100_000;

/// What a program needs, for itself and for its children.
pub(crate) fn share(program: &Program) -> u64 {
    let children = program.operations.iter().flat_map(|operation| match operation {
        Operation::Fan { children, .. } => children.iter().collect(),
        Operation::Abandon { program } => vec![&**program],
        _ => Vec::new(),
    });
    OWN + children.map(share).sum::<u64>()
}

pub(crate) fn budget(tokens: u64) -> Value {
    json!({ "tokens": tokens, "reserve": { "tokens": RESERVE } })
}

/// Looks at the committed state.
pub(crate) async fn check(log: &Log, store: &MemoryStore) {
    let found = store.browse().scan(None, ALL, ScanDepth::Task).await.expect("memory can be read");
    for found in &found {
        match &found.task.subject {
            Subject::Live(task) => {
                // A task whose end is decided does nothing more: what it used beyond its limit is why it halts.
                let is_ending = task.closing().is_some();
                task.balance().into_iter().for_each(|it| check_live(log, task.id, it, is_ending));
            }
            Subject::Done(done) => balance_of(done).into_iter().for_each(|it| {
                if it.held.tokens > 0 {
                    let held = it.held.tokens;
                    log.violate("escrow", format_args!("{} ended with {held} held", done.id));
                }
            }),
            Subject::Absent => {}
        }
    }
}

fn check_live(log: &Log, task: TaskId, balance: &Balance, is_ending: bool) {
    let Some(limit) = balance.budget.limits.tokens else { return };
    let counted = if is_ending { balance.held } else { balance.committed() };
    if counted.tokens > limit {
        let (used, held) = (balance.used.tokens, balance.held.tokens);
        let told = format_args!("{task} goes on with {used} used and {held} held of {limit}");
        log.violate("escrow", told);
    }
}

fn balance_of(done: &Done) -> Option<&Balance> {
    done.run.as_ref()?.balance.as_deref()
}

/// What a task used by itself, as its history says.
#[derive(Default)]
struct OwnUse {
    /// Of closed attempts.
    used: u64,
    /// Attempts that ended without a word about their last step.
    silent: u64,
    steps: u64,
    total: u64,
}

impl OwnUse {
    fn of(history: &[Entry]) -> Self {
        let mut own = Self::default();
        for event in history.iter().flat_map(|entry| &entry.events) {
            match event {
                Event::Run(event) => own.note(event),
                Event::AttemptClosed { closed, .. } => own.close(closed),
                _ => {}
            }
        }
        own
    }

    fn note(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Checkpointed(checkpoint) if checkpoint.attempt > 0 => {
                if let Recorded::Step(step) = &checkpoint.recorded {
                    self.steps += step.spend.tokens;
                }
            }
            RunEvent::Budget(event) => {
                if let BudgetEvent::Metered(total) = **event {
                    self.total = self.total.max(total.tokens);
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, closed: &ClosedAttempt) {
        let is_stopped = closed.reason == Some(Reason::BudgetExhausted);
        let is_silent = match closed.outcome {
            AttemptOutcome::Lost => true,
            AttemptOutcome::Revoked => closed.report.is_none() && !is_stopped,
            _ => false,
        };
        self.silent += u64::from(is_silent);
        self.used += self.steps.max(self.total);
        (self.steps, self.total) = (0, 0);
    }
}

/// What children used and could have used, by parent.
#[derive(Default)]
struct Children {
    used: u64,
    most: u64,
}

/// Accounts for everything once the world is idle.
pub(crate) fn account(ctx: &ActorContext, all: &[(&StoredTask, &[Entry])]) {
    let mut families: BTreeMap<TaskId, Children> = BTreeMap::new();
    for (done, balance) in all.iter().filter_map(|(found, _)| ended(found)) {
        let lineage = done.run.as_ref().and_then(|run| run.lineage.as_ref());
        let Some((parent, _)) = lineage.and_then(Lineage::parent) else { continue };
        let (used, limit) = (balance.used.tokens, balance.budget.limits.tokens.unwrap_or(0));
        let children = families.entry(parent).or_default();
        children.used += used;
        children.most += used.max(limit);
        if used < limit {
            ctx.log.reach_goal(CoverageGoal::ShareGivenBack);
        }
    }
    for (found, history) in all {
        if let Some((done, balance)) = ended(found) {
            let children = families.remove(&done.id).unwrap_or_default();
            check_used(ctx, done, balance, &OwnUse::of(history), &children);
        }
    }
}

/// Looks at every continuation beside the run that it continues.
pub(crate) fn check_continuations(ctx: &ActorContext, all: &[(&StoredTask, &[Entry])]) {
    let by_id: BTreeMap<TaskId, (&StoredTask, &[Entry])> = all
        .iter()
        .filter_map(|(found, history)| Some((ended(found)?.0.id, (*found, *history))))
        .collect();
    let mut continued: BTreeSet<TaskId> = BTreeSet::new();
    for (found, history) in all {
        let Some((new, _)) = ended(found) else { continue };
        let Some(from) = new.run.as_ref().and_then(|run| run.forked_from) else { continue };
        let Some((old, before)) = by_id.get(&from).and_then(|(it, log)| Some((ended(it)?.0, log)))
        else {
            ctx.log.violate("continuation", format_args!("{} continues nothing", new.id));
            continue;
        };
        ctx.log.reach_goal(CoverageGoal::RunContinued);
        if !continued.insert(from) {
            ctx.log.violate("continuation", format_args!("{from} is continued twice"));
        }
        let is_named = found.spec.labels.get(FORK_OF_LABEL) == Some(&from.run_name());
        if old.end.state != State::Halted || new.created_at < old.completed_at || !is_named {
            let told = format_args!("{} continues {from}, which ended {:?}", new.id, old.end);
            ctx.log.violate("continuation", told);
        }
        check_taken_over(ctx, new.id, before, history);
    }
}

/// What was recorded before is taken over, and recorded by nobody again.
fn check_taken_over(ctx: &ActorContext, new: TaskId, before: &[Entry], history: &[Entry]) {
    let (own, _) = steps_of(before);
    let (again, taken) = steps_of(history);
    let lost: Vec<&str> = own.iter().copied().filter(|key| !taken.contains(key)).collect();
    let repeated: Vec<&str> = own.iter().copied().filter(|key| again.contains(key)).collect();
    if !lost.is_empty() || !repeated.is_empty() {
        let told = format_args!("{new} lost {lost:?} and repeated {repeated:?}");
        ctx.log.violate("continuation", told);
    }
    // A fork spawns in the entry that takes over, before any worker asks for anything.
    let is_inherit = |entry: &&Entry| entry.events.iter().any(|event| event.name() == "forked");
    let mut spawned = history.iter().filter(is_inherit).flat_map(|entry| &entry.events);
    if spawned.any(|event| event.name() == "child_spawned") {
        ctx.log.reach_goal(CoverageGoal::ChildStartedAgain);
    }
}

/// The keys of steps that workers of the task recorded, and of those that it took over.
fn steps_of(history: &[Entry]) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let (mut own, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for event in history.iter().flat_map(|entry| &entry.events) {
        let Event::Run(event) = event else { continue };
        if let RunEvent::Checkpointed(checkpoint) = &**event
            && matches!(checkpoint.recorded, Recorded::Step(_))
        {
            let keys = if checkpoint.attempt > 0 { &mut own } else { &mut taken };
            keys.insert(checkpoint.key.as_str());
        }
    }
    (own, taken)
}

fn ended(found: &StoredTask) -> Option<(&Done, &Balance)> {
    match &found.subject {
        Subject::Done(done) => Some((done, balance_of(done)?)),
        Subject::Live(_) | Subject::Absent => None,
    }
}

/// A silent attempt settles its reservation, or what was left of the budget if that was less.
fn check_used(ctx: &ActorContext, done: &Done, balance: &Balance, own: &OwnUse, kids: &Children) {
    let (used, least) = (balance.used.tokens, own.used + kids.used);
    let most = least + own.silent * RESERVE;
    let limit = balance.budget.limits.tokens.unwrap_or(u64::MAX);
    let is_roomy = own.used + kids.most + own.silent * RESERVE <= limit;
    let is_accounted = (least..=most).contains(&used) && (!is_roomy || used == most);
    if !is_accounted {
        let (id, silent) = (done.id, own.silent);
        let told = format_args!(
            "{id} used {used} of {limit}: {} itself, {} by children, and {silent} attempts were lost",
            own.used, kids.used
        );
        ctx.log.violate("escrow", told);
    }
    if used > least {
        ctx.log.reach_goal(CoverageGoal::ReservationSettled);
    }
    if done.end.state == State::Halted {
        ctx.log.reach_goal(CoverageGoal::BudgetHalted);
    }
}
