//! Budgets in any order of events: children in parallel, lost attempts, repeated calls and messages, refunds, cancels.
//!
//! What holds: what is used and promised is never more than the limit, as long as no worker uses more than its reservation; and when
//! all have ended, nothing is held and every use is accounted for.

use std::collections::BTreeMap;

use proptest::prelude::*;
use verdict::request::{Caller, CancelMode, Outcome, Report, Request};
use verdict::run::RunRequest;
use verdict::{Amounts, Budget, Digest, Message, State, Subject, Task, TaskId, Unit};

use crate::budgets::{balance, beat, funded, metered, spending, tokens};
use crate::family::{Call, Family, ROOT, run};
use crate::world::secs;

const LIMIT: u64 = 1_000;
const RESERVE: u64 = 20;
const KIDS: u128 = 8;

#[derive(Clone, Debug)]
enum Action {
    Spawn { kid: u128, ceiling: u64 },
    Step { of: u128, spend: u64, again: bool },
    Total { of: u128, total: u64 },
    Lose { of: u128 },
    Report { of: u128 },
    Cancel { of: u128, force: bool },
    Grant { of: u128 },
    Deliver { again: bool },
    Sweep { of: u128 },
}

fn action() -> impl Strategy<Value = Action> {
    let of = || 0..=KIDS;
    prop_oneof![
        (1..=KIDS, 0..400u64).prop_map(|(kid, ceiling)| Action::Spawn { kid, ceiling }),
        (of(), 0..=RESERVE, any::<bool>()).prop_map(|(of, spend, again)| Action::Step {
            of,
            spend,
            again
        }),
        (of(), 0..=RESERVE).prop_map(|(of, total)| Action::Total { of, total }),
        of().prop_map(|of| Action::Lose { of }),
        of().prop_map(|of| Action::Report { of }),
        (of(), any::<bool>()).prop_map(|(of, force)| Action::Cancel { of, force }),
        of().prop_map(|of| Action::Grant { of }),
        any::<bool>().prop_map(|again| Action::Deliver { again }),
        of().prop_map(|of| Action::Sweep { of }),
    ]
}

struct Play {
    family: Family,
    callers: BTreeMap<TaskId, Caller>,
    steps: u32,
}

fn id(of: u128) -> TaskId {
    if of == 0 { ROOT } else { TaskId::from_u128(100 + of) }
}

fn reserving(limit: u64) -> Budget {
    let reserve = Amounts { tokens: RESERVE, ..Amounts::default() };
    Budget { reserve, ..tokens(limit) }
}

impl Play {
    fn new() -> Self {
        let (family, caller) = funded(reserving(LIMIT));
        Self { family, callers: BTreeMap::from([(ROOT, caller)]), steps: 0 }
    }

    fn task(&self, id: TaskId) -> Option<&Task> {
        self.family.members.get(&id)?.subject.as_ref()?.live()
    }

    /// A worker that keeps to its reservation: it uses no more than there is for one step.
    fn affordable(&self, id: TaskId, spend: u64) -> u64 {
        let left = self.task(id).and_then(|task| task.balance()?.left(Unit::Tokens));
        spend.min(left.unwrap_or(0))
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Spawn { kid, ceiling } => {
                let Some(caller) = self.callers.get(&ROOT).cloned() else { return };
                let call = Call::default().funded_child(
                    &format!("k{kid}"),
                    id(kid).as_u128(),
                    Some(reserving(ceiling)),
                );
                self.family.ask(ROOT, call.request(&caller));
            }
            Action::Step { of, spend, again } => {
                let Some(caller) = self.callers.get(&id(of)).cloned() else { return };
                self.steps += 1;
                let spend = self.affordable(id(of), spend);
                let call = Call::default().step_of(&format!("s{}", self.steps), spending(spend));
                self.family.ask(id(of), call.clone().request(&caller));
                if again {
                    self.family.ask(id(of), call.request(&caller));
                }
            }
            Action::Total { of, total } => {
                let Some(caller) = self.callers.get(&id(of)).cloned() else { return };
                let Some(before) = self.task(id(of)).and_then(|task| task.balance().cloned())
                else {
                    return;
                };
                let counted = before.attempt_total.max(before.attempt_steps).tokens;
                let total = counted + self.affordable(id(of), total);
                self.family.ask(id(of), metered(total, beat(&caller)));
            }
            Action::Lose { of } => {
                let end =
                    self.task(id(of)).and_then(|task| task.lease()).map(|lease| lease.expires_at);
                if let Some(end) = end {
                    self.family.now = self.family.now.max(end);
                    self.family.sweep(id(of));
                }
            }
            Action::Report { of } => {
                let Some(caller) = self.callers.get(&id(of)).cloned() else { return };
                let outcome = Outcome::Succeeded { output: None };
                let digest = Digest::of(&[b"report"]);
                let report = Report { caller, outcome, digest, claims: None, by: None };
                self.family.ask(id(of), Request::Report(report.clone()));
                self.family.ask(id(of), Request::Report(report));
            }
            Action::Cancel { of, force } => {
                let mode = if force { CancelMode::Immediate } else { CancelMode::Graceful };
                if of != 0 && self.task(id(of)).is_some() {
                    self.family.cancel(id(of), mode);
                }
            }
            Action::Grant { of } => self.grant(id(of)),
            Action::Deliver { again } => self.deliver(again),
            Action::Sweep { of } => {
                if self.task(id(of)).is_some() {
                    self.family.sweep(id(of));
                }
            }
        }
    }

    fn grant(&mut self, id: TaskId) {
        let Some(task) = self.task(id) else { return };
        let Some(due) = task.claimable_at().filter(|_| task.cancel.is_none()) else { return };
        self.family.now = self.family.now.max(due);
        let caller = self.family.grant(id);
        self.callers.insert(id, caller);
    }

    /// Messages come once or twice.
    fn deliver(&mut self, again: bool) {
        if self.family.messages.is_empty() {
            return;
        }
        let message: Message = self.family.messages[0].clone();
        self.family.deliver();
        if again {
            self.family.ask(message.to, run(RunRequest::Message(message)));
        }
    }

    fn check(&self) {
        for (id, member) in &self.family.members {
            let Some(Subject::Live(task)) = &member.subject else { continue };
            let Some(balance) = task.balance() else { continue };
            let limit = balance.budget.limits.tokens.expect("every task here has one");
            assert!(balance.committed().tokens <= limit, "{id}: {balance:?}");
            assert_ne!(task.state(), State::Halted);
        }
    }

    /// Lets everything end: workers stop, messages arrive.
    fn end(&mut self) {
        for _ in 0..200 {
            self.family.settle();
            let live: Vec<TaskId> =
                self.family.members.keys().copied().filter(|id| self.task(*id).is_some()).collect();
            if live.is_empty() {
                return;
            }
            for id in live {
                if self.task(id).is_some_and(|task| task.closing().is_none()) {
                    self.family.cancel(id, CancelMode::Immediate);
                }
                if self.task(id).is_some() {
                    self.family.sweep(id);
                }
            }
            self.family.wait(secs(1));
        }
        panic!("the run does not end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// W-10, S2-67.
    #[test]
    fn commitments_never_exceed_the_limit_and_everything_comes_back(
        actions in prop::collection::vec(action(), 1..120),
    ) {
        let mut play = Play::new();
        for action in &actions {
            play.act(action);
            play.check();
        }
        play.end();
        let root = balance(&play.family, ROOT);
        prop_assert_eq!(root.held, Amounts::default());
        let kids: u64 = (1..=KIDS)
            .filter(|kid| play.family.members.contains_key(&id(*kid)))
            .map(|kid| balance(&play.family, id(kid)).used.tokens)
            .sum();
        prop_assert!(root.used.tokens >= kids);
        prop_assert!(root.used.tokens <= LIMIT);
    }
}
