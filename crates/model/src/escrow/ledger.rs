//! Books of what tasks may use, have used and hold, kept without asking the rules.
//!
//! An account is credited with what callers were told was accepted: the totals of their calls, by the requests themselves, and
//! what was recorded. What a child used is read from the child's own account, and what it was given from the bounds of the world.
//! After every decision the balances of all tasks must agree with the accounts.

use verdict::approval::Decision;
use verdict::run::{Recorded, RunEvent, RunRequest};
use verdict::{Answer, Event, LeaseId, Phase, Request, State, Subject, Task, Verdict, Waiting};

use super::bounds::EscrowBounds;
use super::property::{EscrowBroken, EscrowProperty};
use super::world::{balance_of, place};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    accounts: Vec<Account>,
}

/// The account of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Account {
    limit: u64,
    soft: Option<u64>,
    reserve: u64,
    used: u64,
    held: u64,
    /// What the open attempt said: with its steps, and in all.
    steps: u64,
    total: u64,
    open: Option<LeaseId>,
    /// Whether the worker of the open attempt has made a call that was accepted.
    has_spoken: bool,
    /// Whether what the task was given has come back to its parent.
    is_returned: bool,
    /// The hard limit is crossed, or the task halted.
    is_stopped: bool,
    consent: Consent,
}

/// What people said about going on beyond the soft limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Consent {
    #[default]
    NotAsked,
    Asked,
    Given,
    Refused,
}

/// One decision, as its caller and its task see it.
pub(super) struct Decided<'a> {
    pub(super) task: usize,
    pub(super) request: &'a Request,
    pub(super) verdict: &'a Verdict,
    pub(super) before: &'a Subject,
    pub(super) after: &'a Subject,
}

impl Account {
    fn committed(&self) -> u64 {
        self.used + self.held
    }

    fn is_beyond(&self) -> bool {
        self.committed() > self.limit
    }

    fn counted(&self) -> u64 {
        self.steps.max(self.total)
    }

    fn count(&mut self, change: impl FnOnce(&mut Self)) {
        let before = self.counted();
        change(self);
        self.used += self.counted() - before;
    }

    /// An attempt that fell silent may have used what one step may, as far as there is so much.
    fn close(&mut self, is_silent: bool) {
        if is_silent {
            self.used += self.reserve.min(self.limit.saturating_sub(self.committed()));
        }
        (self.steps, self.total, self.open, self.has_spoken) = (0, 0, None, false);
    }
}

impl Ledger {
    pub(super) fn new(bounds: &EscrowBounds) -> Self {
        let account = |at: usize| {
            let root = bounds.root_of(at);
            let reserve = bounds.reserve;
            let (limit, soft) = match at - root {
                0 if root == 0 => (bounds.limit, bounds.soft),
                0 => (bounds.continued.unwrap_or_default(), bounds.soft),
                child => (bounds.children[child - 1], None),
            };
            Account { limit, soft, reserve, ..Account::default() }
        };
        Self { accounts: (0..bounds.tasks()).map(account).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.accounts.len()
    }

    /// Whether a repeated or smaller total was said.
    pub(super) fn is_no_news(&self, task: usize, total: u64) -> bool {
        self.accounts[task].total >= total && self.accounts[task].total > 0
    }

    /// Enters one decision, and says what it breaks by itself.
    pub(super) fn enter(&mut self, decided: &Decided<'_>) -> EscrowBroken {
        let mut broken = EscrowBroken::default();
        let Decided { task, request, verdict, .. } = *decided;
        let is_refused = matches!(verdict.answer, Answer::Refused(_));
        let caller = request.caller().map(|caller| caller.lease);
        let is_own = caller.is_some() && caller == self.accounts[task].open;
        if is_own && !is_refused {
            let account = &mut self.accounts[task];
            account.has_spoken = true;
            account.count(|it| it.total = it.total.max(total_of(request)));
        }
        for event in &verdict.events {
            self.enter_event(decided, is_own, event, &mut broken);
        }
        self.judge_consent(decided, is_own && !is_refused, &mut broken);
        self.judge_end(decided, &mut broken);
        broken
    }

    fn enter_event(
        &mut self,
        decided: &Decided<'_>,
        is_own: bool,
        event: &Event,
        broken: &mut EscrowBroken,
    ) {
        let account = &mut self.accounts[decided.task];
        match event {
            Event::Granted { lease, .. } => {
                account.open = Some(*lease);
                broken.require(EscrowProperty::NothingAfterLimit, !account.is_stopped);
                let is_free = !matches!(account.consent, Consent::Asked | Consent::Refused);
                broken.require(EscrowProperty::AskedFirst, is_free);
            }
            Event::AttemptClosed { .. } => {
                // A grant of which nobody ever heard was used by nobody. One that is revoked by force may have been.
                let is_unheard = !account.has_spoken && matches!(decided.request, Request::Sweep);
                let is_cancelled = decided.before.live().is_some_and(|it| it.cancel.is_some());
                account.close(!is_own && (!is_unheard || is_cancelled));
            }
            Event::Run(event) => self.enter_run(decided.task, event, broken),
            _ => {}
        }
    }

    fn enter_run(&mut self, task: usize, event: &RunEvent, broken: &mut EscrowBroken) {
        let account = &mut self.accounts[task];
        match event {
            RunEvent::ChildSpawned(child) => {
                let starts = !account.is_stopped && !account.is_beyond();
                broken.require(EscrowProperty::NothingAfterLimit, starts);
                let given = self.accounts[place(child.submit.id)].limit;
                let account = &mut self.accounts[task];
                account.held += given;
                broken.require(EscrowProperty::WithinLimit, !starts || !account.is_beyond());
            }
            RunEvent::Checkpointed(checkpoint) => match &checkpoint.recorded {
                Recorded::Step(step) => {
                    broken.require(EscrowProperty::NothingAfterLimit, !account.is_stopped);
                    // Nobody's attempt: it was used by the run that is continued.
                    if checkpoint.attempt > 0 {
                        account.count(|it| it.steps += step.spend.tokens);
                    }
                }
                Recorded::Child(end) => self.give_back(task, place(end.child), broken),
                Recorded::Wait(_) => {}
            },
            _ => {}
        }
    }

    fn give_back(&mut self, parent: usize, child: usize, broken: &mut EscrowBroken) {
        let Account { limit, used, is_returned, .. } = self.accounts[child];
        broken.require(EscrowProperty::EscrowOnce, !is_returned);
        self.accounts[child].is_returned = true;
        let account = &mut self.accounts[parent];
        account.held = account.held.saturating_sub(limit);
        account.used += used;
    }

    /// People are asked by a call that would go on, and what they say holds.
    fn judge_consent(&mut self, decided: &Decided<'_>, is_call: bool, broken: &mut EscrowBroken) {
        let account = &mut self.accounts[decided.task];
        let live = decided.after.live();
        let holds_lease = live.is_some_and(|task| task.lease().is_some());
        let is_over = account.soft.is_some_and(|soft| account.committed() > soft);
        let is_unasked = is_over && account.consent == Consent::NotAsked;
        let is_cancelled = decided.before.live().is_some_and(|task| task.cancel.is_some());
        let is_checkpoint = is_call && decided.request.checkpoint_call().is_some();
        let goes_on = is_checkpoint && is_unasked && !is_cancelled && holds_lease;
        broken.require(EscrowProperty::AskedFirst, !goes_on);
        if live.is_some_and(waits_for_people) && account.consent == Consent::NotAsked {
            account.consent = Consent::Asked;
        }
        if let Some(decision) = vote_of(decided) {
            account.consent = match decision {
                Decision::Approved => Consent::Given,
                Decision::Rejected => Consent::Refused,
            };
            let is_over = decided.after.live().is_none_or(|task| task.closing().is_some());
            let is_kept = decision == Decision::Approved || is_over;
            broken.require(EscrowProperty::AskedFirst, is_kept);
        }
    }

    /// A task beyond its limit ends. Only one whose end was decided before is left alone.
    fn judge_end(&mut self, decided: &Decided<'_>, broken: &mut EscrowBroken) {
        let account = &mut self.accounts[decided.task];
        let was_ending = end_of(decided.before);
        let end = end_of(decided.after);
        if was_ending.is_none() && account.is_beyond() {
            let is_over = end.is_some_and(|state| state != State::Succeeded);
            broken.require(EscrowProperty::HaltIsFinal, is_over);
        }
        if was_ending == Some(State::Halted) {
            broken.require(EscrowProperty::HaltIsFinal, end == Some(State::Halted));
        }
        account.is_stopped |= end == Some(State::Halted) || (end.is_none() && account.is_beyond());
    }

    /// What the state of one task breaks, compared with its account.
    pub(super) fn compare(&self, task: usize, subject: &Subject, broken: &mut EscrowBroken) {
        let Some(balance) = balance_of(subject) else { return };
        let account = &self.accounts[task];
        let (used, held) = (balance.used.tokens, balance.held.tokens);
        broken.require(EscrowProperty::SpendKept, used == account.used);
        let is_over = matches!(subject, Subject::Done(_)) && held > 0;
        broken.require(EscrowProperty::EscrowOnce, held == account.held && !is_over);
        let goes_on = end_of(subject).is_none();
        let counted = if goes_on { used + held } else { held };
        broken.require(EscrowProperty::WithinLimit, counted <= account.limit);
    }

    /// Whether this run has used nothing, and holds what its children were given.
    pub(super) fn is_fresh(&self, root: usize, subject: &Subject) -> bool {
        let held = self.accounts[root].held;
        balance_of(subject).is_some_and(|it| it.used.tokens == 0 && it.held.tokens == held)
    }

    pub(super) fn used_more_than_given(&self, task: usize) -> bool {
        self.accounts[task].used > self.accounts[task].limit
    }
}

/// What the caller says that its attempt used in all.
pub(super) fn total_of(request: &Request) -> u64 {
    match request {
        Request::Run(request) => match &**request {
            RunRequest::Metered(metered) => metered.total.tokens,
            _ => 0,
        },
        _ => 0,
    }
}

/// How a task ends or has ended, as far as that is decided.
pub(super) fn end_of(subject: &Subject) -> Option<State> {
    match subject {
        Subject::Absent => None,
        Subject::Live(task) => task.closing().map(|closing| closing.end.state),
        Subject::Done(done) => Some(done.end.state),
    }
}

fn waits_for_people(task: &Task) -> bool {
    let is_open = task.run.as_ref().is_some_and(|run| !run.approvals.open.is_empty());
    let waits = matches!(&task.phase, Phase::Waiting(it) if matches!(**it, Waiting::For(_)));
    is_open && waits
}

/// The word that a decision accepted.
fn vote_of(decided: &Decided<'_>) -> Option<Decision> {
    let Request::Run(request) = decided.request else { return None };
    match &**request {
        RunRequest::Decide(call) if !decided.verdict.events.is_empty() => Some(call.decision),
        _ => None,
    }
}
