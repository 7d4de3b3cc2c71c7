//! What can happen next in a world of budgets, and the calls that workers and people make.

use verdict::approval::{DEFAULT_ROLE, DecideCall, Decision};
use verdict::request::{Caller, CancelMode, Heartbeat, Outcome, Report, Submit};
use verdict::run::{
    Awaited, AwaitedEvent, CheckpointCall, ChildCall, Metered, RunRequest, Spend, Step, StepCall,
    StepOutcome, Then, WaitCall, WaitMode,
};
use verdict::{
    Amounts, Budget, Category, Digest, Fault, Limits, OnSoft, Policy, Request, Scope, TaskId,
};

use super::bounds::EscrowBounds;
use super::world::CHILD_KEYS;

/// What the cheap step uses, and what the dear one does: more than is reserved for a step.
const CHEAP: u64 = 1;
const DEAR: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// One unit of time passes.
    Tick,
    /// A worker's poll is granted the task.
    Poll(usize),
    /// A call under the lease with this index arrives: for the first time, again, or too late.
    Call(usize, EscrowCall),
    Cancel(CancelMode),
    Vote(Decision),
    Sweep(usize),
    /// A saved message is decided.
    Deliver(usize),
    /// A message that was decided is decided again.
    Repeat(usize),
    /// Somebody continues the run, with another budget.
    Continue,
}

/// A call of a worker. Numbers are what it says that its attempt used in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscrowCall {
    Step,
    DearStep,
    Spawn,
    /// Children, and what the attempt used.
    MeteredSpawn(u64),
    /// The dear step, and children.
    DearSpawn,
    SpawnAndWait,
    Beat(u64),
    Succeed(u64),
    Fail(u64),
}

impl EscrowCall {
    /// The request as the worker sends it.
    pub(super) fn made_by(self, caller: Caller, children: Vec<ChildCall>) -> Request {
        let keys = children.len();
        let with = |steps, children, then| {
            let (digest, caller) = (self.digest(), caller.clone());
            run(RunRequest::Checkpoint(CheckpointCall {
                caller,
                digest,
                steps,
                children,
                then,
                asked_by: None,
            }))
        };
        let report = |outcome| {
            let (digest, caller) = (self.digest(), caller.clone());
            Request::Report(Report { caller, outcome, digest, claims: None, by: None })
        };
        match self {
            EscrowCall::Step => with(vec![step("s1", CHEAP)], vec![], Then::Continue),
            EscrowCall::DearStep => with(vec![step("s2", DEAR)], vec![], Then::Continue),
            EscrowCall::Spawn => with(vec![], children, Then::Continue),
            EscrowCall::MeteredSpawn(total) => {
                metered(total, with(vec![], children, Then::Continue))
            }
            EscrowCall::DearSpawn => with(vec![step("s2", DEAR)], children, Then::Continue),
            EscrowCall::SpawnAndWait => with(vec![], children, Then::Wait(wait_for_all(keys))),
            EscrowCall::Beat(total) => {
                let caller = caller.clone();
                metered(total, Request::Heartbeat(Heartbeat { caller, progress: None }))
            }
            EscrowCall::Succeed(total) => {
                metered(total, report(Outcome::Succeeded { output: None }))
            }
            EscrowCall::Fail(total) => metered(total, report(Outcome::Failed(fault()))),
        }
    }

    /// Cheap stand-ins for digests: they only need to differ.
    fn digest(self) -> Digest {
        let (kind, number) = match self {
            EscrowCall::Step => (1, 0),
            EscrowCall::DearStep => (2, 0),
            EscrowCall::Spawn => (3, 0),
            EscrowCall::MeteredSpawn(total) => (4, total),
            EscrowCall::DearSpawn => (5, 0),
            EscrowCall::SpawnAndWait => (6, 0),
            EscrowCall::Beat(total) => (7, total),
            EscrowCall::Succeed(total) => (8, total),
            EscrowCall::Fail(total) => (9, total),
        };
        digest(kind * 16 + number as u8)
    }
}

fn run(request: RunRequest) -> Request {
    Request::Run(Box::new(request))
}

fn metered(total: u64, call: Request) -> Request {
    run(RunRequest::Metered(Metered { total: tokens(total), call: Box::new(call) }))
}

fn digest(number: u8) -> Digest {
    Digest::from_bytes([number; 32])
}

fn tokens(tokens: u64) -> Spend {
    Spend { tokens, ..Spend::default() }
}

/// Worth another attempt.
fn fault() -> Fault {
    let (category, message) = (Category::UserCode, "x".into());
    Fault { category, message, stack_trace: None, retryable: None }
}

fn step(key: &str, spend: u64) -> StepCall {
    let step = Step {
        outcome: StepOutcome::Succeeded { result: None },
        input: None,
        spend: tokens(spend),
        is_savepoint: false,
    };
    StepCall { key: key.into(), digest: digest(spend as u8), step }
}

fn wait_for_all(children: usize) -> WaitCall {
    let item = |at: usize| Awaited {
        key: CHILD_KEYS[at].into(),
        event: AwaitedEvent::Child(CHILD_KEYS[at].into()),
    };
    WaitCall {
        key: "w1".into(),
        digest: digest(250),
        mode: WaitMode::All,
        items: (0..children).map(item).collect::<Vec<_>>().into(),
        approvals: Vec::new(),
        max: None,
    }
}

/// What a task may use.
pub(super) fn limited(tokens: u64) -> Budget {
    let limits = Limits { tokens: Some(tokens), ..Limits::default() };
    Budget { limits, ..Budget::default() }
}

impl EscrowBounds {
    /// The budget of a run that may use so much.
    pub(super) fn budget(&self, limit: u64) -> Budget {
        let soft = Limits { tokens: self.soft, ..Limits::default() };
        let reserve = Amounts { tokens: self.reserve, ..Amounts::default() };
        Budget { reserve, soft, on_soft: OnSoft::Ask, ..limited(limit) }
    }

    pub(super) fn child(&self, at: usize, id: TaskId) -> ChildCall {
        let reserve = Amounts { tokens: self.reserve, ..Amounts::default() };
        let budget = Budget { reserve, ..limited(self.children[at]) };
        let submit = submission(id, budget, &self.policy);
        ChildCall { key: CHILD_KEYS[at].into(), is_detached: false, submit }
    }
}

pub(super) fn submission(id: TaskId, budget: Budget, policy: &Policy) -> Submit {
    Submit {
        budget: Some(Box::new(budget)),
        flow: None,
        id,
        scope: Scope::default(),
        kind: "k".into(),
        queue: "q".into(),
        priority: 0,
        policy: policy.clone(),
        run_at: None,
        input: digest(0),
        fingerprint: digest(3),
    }
}

/// The word of somebody who may decide, about the approval with this number.
pub(super) fn vote(number: u32, decision: Decision) -> Request {
    run(RunRequest::Decide(DecideCall {
        number,
        key: "ben".into(),
        roles: vec![DEFAULT_ROLE.into()],
        decision,
        digest: None,
        comment: None,
    }))
}
