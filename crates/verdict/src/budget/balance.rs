//! The balance of a task: its budget, what is used, and what is held for live children.
//!
//! A task in a stage with a ceiling has two limits, and may use what both of them allow.

use crate::attempt::{AttemptOutcome, ClosedAttempt};
use crate::done::Reason;
use crate::run::Spend;
use crate::time::{Span, Time};

use super::{Amounts, Budget, BudgetEvent, Limits, OnSoft, StageShare, Unit};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Balance {
    pub budget: Budget,
    /// When the wall clock of the budget stops the task.
    pub until: Option<Time>,
    /// By the task itself and by its ended children.
    pub used: Amounts,
    /// What live children may use.
    pub held: Amounts,
    /// What the steps of the open attempt used.
    pub attempt_steps: Spend,
    /// What the worker of the open attempt said that the attempt used in all.
    pub attempt_total: Spend,
    /// How long closed attempts lasted together.
    pub active: Span,
    /// How much of the open attempt was a gap of ours.
    pub gap: Span,
    pub is_warned: bool,
    /// Whether people were asked about the soft limit. They are asked once.
    pub is_asked: bool,
    /// What binds the stage that the task is in, besides the budget.
    pub stage: Option<Box<StageShare>>,
}

/// What the end of a child means for its parent's balance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Charge {
    /// What the child was given.
    pub ceiling: Limits,
    pub used: Amounts,
    /// The stage of the parent that paid for it.
    pub paid_by: Option<u32>,
}

impl Balance {
    /// The balance of a task that is created now.
    pub fn open(budget: Budget, now: Time) -> Self {
        let own = budget.wall.map(|wall| now.plus(wall));
        let until = [own, budget.until].into_iter().flatten().min();
        Self { budget, until, ..Self::default() }
    }

    /// What is used or promised.
    pub fn committed(&self) -> Amounts {
        self.used.plus(self.held)
    }

    /// How much of a unit may still be used or promised, by the budget and in the stage; `None` without a limit.
    pub fn left(&self, unit: Unit) -> Option<u64> {
        let own = self.left_in_budget(unit).filter(|_| !self.is_apart());
        let in_stage = self.stage.as_ref().and_then(|stage| stage.left(unit));
        [own, in_stage].into_iter().flatten().min()
    }

    /// How much of a unit the budget leaves, whatever stage the task is in.
    pub fn left_in_budget(&self, unit: Unit) -> Option<u64> {
        let limit = self.budget.limits.get(unit)?;
        Some(limit.saturating_sub(self.committed().get(unit)))
    }

    /// Whether the task only does what it does whatever happened, funded apart.
    fn is_apart(&self) -> bool {
        self.stage.as_ref().is_some_and(|stage| stage.is_apart)
    }

    /// Whether anything limits what is used, and is not only counted.
    pub fn is_limited(&self) -> bool {
        !self.budget.is_empty() || self.stage.as_ref().is_some_and(|it| !it.ceiling.is_empty())
    }

    /// The first unit of which more is used or promised than the budget allows.
    pub fn crossed(&self) -> Option<Unit> {
        self.budget.limits.crossed(self.committed()).filter(|_| !self.is_apart())
    }

    /// The first unit of which more is used or promised than the stage may use.
    pub fn crossed_in_stage(&self) -> Option<Unit> {
        self.stage.as_ref()?.crossed()
    }

    /// Whether the task, or the stage that it is in, may use nothing more.
    pub fn is_crossed(&self) -> bool {
        self.crossed().is_some() || self.crossed_in_stage().is_some()
    }

    /// The soft limit that is crossed and was not noted.
    pub fn to_warn(&self) -> Option<Unit> {
        let warns = !self.is_warned && !self.is_apart();
        self.budget.soft.crossed(self.committed()).filter(|_| warns)
    }

    /// The soft limit that is crossed, if people are to be asked and were not.
    pub fn to_ask(&self) -> Option<Unit> {
        let asks = self.budget.on_soft == OnSoft::Ask && !self.is_asked && !self.is_apart();
        self.budget.soft.crossed(self.committed()).filter(|_| asks)
    }

    /// What is set aside for the step under way: never more than there is.
    pub fn reservation(&self) -> Amounts {
        self.budget
            .reserve
            .map(|unit, amount| self.left(unit).map_or(amount, |left| left.min(amount)))
    }

    /// When the budget stops a lease that was acquired then; `gap` more of it was not the worker's time.
    pub fn halts_at(&self, acquired_at: Time, gap: Span) -> Option<Time> {
        let active = self.budget.active.map(|active| {
            let left = active.minus(self.active);
            acquired_at.plus(left).plus(self.gap).plus(gap)
        });
        [active, self.until].into_iter().flatten().min()
    }

    /// Whether the leases of the task have lasted as long as they may together.
    pub fn is_active_over(&self) -> bool {
        self.budget.active.is_some_and(|active| self.active >= active)
    }

    /// What a child may have that asks for this budget. A unit that the parent limits and the child does not name is none: what
    /// was promised to nobody is not used (W-10).
    pub fn ceiling(&self, asked: Option<&Budget>) -> Budget {
        let mut ceiling = asked.cloned().unwrap_or_default();
        for unit in Unit::ALL {
            if self.left(unit).is_some() && ceiling.limits.get(unit).is_none() {
                ceiling.limits.set(unit, Some(0));
            }
        }
        ceiling.paid_by = self.stage.as_ref().map(|stage| stage.place);
        ceiling.active = [ceiling.active, self.budget.active].into_iter().flatten().min();
        ceiling.until = [ceiling.until, self.until].into_iter().flatten().min();
        ceiling
    }

    /// The unit of which a child asks for more than there is.
    pub fn lacks(&self, ceiling: &Limits) -> Option<(Unit, u64, u64)> {
        Unit::ALL.into_iter().find_map(|unit| {
            let (asked, left) = (ceiling.get(unit)?, self.left(unit)?);
            (asked > left).then_some((unit, asked, left))
        })
    }

    /// What of a child's ceiling is held here: only what this balance limits.
    fn share(&self, ceiling: &Limits) -> Amounts {
        ceiling.shared_with(&self.budget.limits)
    }

    pub(crate) fn hold(&mut self, ceiling: &Limits) {
        self.held = self.held.plus(self.share(ceiling));
        if let Some(stage) = &mut self.stage {
            stage.hold(ceiling);
        }
    }

    /// The task itself uses so much more.
    fn take(&mut self, amounts: Amounts) {
        self.used = self.used.plus(amounts);
        if let Some(stage) = &mut self.stage {
            stage.used = stage.used.plus(amounts);
        }
    }

    /// The task is in another stage. What it may use there is counted anew.
    pub(crate) fn enter_stage(&mut self, place: u32, ceiling: Limits, is_apart: bool) {
        self.stage = StageShare::enter(place, ceiling, is_apart);
    }

    /// A step is recorded.
    pub(crate) fn step(&mut self, spend: Spend) {
        let before = self.counted();
        self.attempt_steps = self.attempt_steps.plus(spend);
        let step = Amounts { steps: 1, ..Amounts::default() };
        self.take(step.plus(self.counted().minus(before)));
    }

    /// What counts of the open attempt: its steps, or what its worker said in all if that is more.
    fn counted(&self) -> Amounts {
        let (steps, total) =
            (Amounts::of_spend(self.attempt_steps), Amounts::of_spend(self.attempt_total));
        steps.map(|unit, amount| amount.max(total.get(unit)))
    }

    pub(crate) fn note(&mut self, event: &BudgetEvent) {
        match event {
            BudgetEvent::Metered(total) => self.meter(*total),
            BudgetEvent::Refunded(charge) => {
                self.held = self.held.minus(self.share(&charge.ceiling));
                self.used = self.used.plus(charge.used);
                if let Some(stage) = &mut self.stage {
                    stage.refund(charge);
                }
            }
            BudgetEvent::Warned(_) => self.is_warned = true,
            BudgetEvent::Asked(_) => self.is_asked = true,
        }
    }

    /// A total never shrinks: a late one that is smaller says nothing new.
    fn meter(&mut self, total: Spend) {
        let before = self.counted();
        self.attempt_total = self.attempt_total.max(total);
        self.take(self.counted().minus(before));
    }

    /// Whether this total says more than is counted.
    pub(crate) fn is_news(&self, total: Spend) -> bool {
        self.attempt_total.max(total) != self.attempt_total
    }

    /// The attempt is over. One whose worker could not say what it used last settles the reservation; one that no worker
    /// heard of, or that ended with a call, settles none.
    pub(crate) fn close(&mut self, closed: &ClosedAttempt) {
        let is_silent = match closed.outcome {
            AttemptOutcome::Lost => true,
            AttemptOutcome::Revoked => {
                closed.report.is_none() && closed.reason != Some(Reason::BudgetExhausted)
            }
            _ => false,
        };
        if is_silent {
            self.take(self.reservation());
        }
        if closed.outcome != AttemptOutcome::Undelivered {
            let lasted = closed.closed_at.since(closed.granted_at).minus(self.gap);
            self.active = Span::from_millis(self.active.millis().saturating_add(lasted.millis()));
        }
        (self.attempt_steps, self.attempt_total) = (Spend::default(), Spend::default());
        self.gap = Span::ZERO;
    }

    pub(crate) fn miss(&mut self, gap: Span) {
        self.gap = Span::from_millis(self.gap.millis().saturating_add(gap.millis()));
    }

    /// What the end of this task means for its parent.
    pub fn charge(&self) -> Charge {
        let Budget { limits: ceiling, paid_by, .. } = self.budget;
        Charge { ceiling, used: self.used, paid_by }
    }
}
