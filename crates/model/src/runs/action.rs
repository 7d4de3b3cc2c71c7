//! What can happen next in a world of a run, and the calls that its workers make.

use verdict::request::{Caller, CancelMode, Outcome, Submit};
use verdict::run::{
    Awaited, AwaitedEvent, CheckpointCall, ChildCall, SignalCall, Spend, Step, StepCall,
    StepOutcome, Then, WaitCall, WaitMode,
};
use verdict::{Category, Digest, Fault, Name, Policy, Scope, TaskId, Time};

use super::world::{CHILD_KEYS, START, id};

/// The index of a task: 0 is the root.
pub(super) type TaskAt = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// One unit of time passes.
    Tick,
    /// A worker's poll is granted the task.
    Poll(TaskAt),
    /// A call under the lease with this index arrives: for the first time, again, or too late.
    Call(usize, RunCall),
    /// The signal with this idempotency key arrives, for the first time or again.
    Signal(u8),
    Cancel(CancelMode),
    Sweep(TaskAt),
    /// A saved message is decided.
    Deliver(usize),
    /// A message that was decided is decided again.
    Repeat(usize),
}

/// A call of a worker: of the root's function, or of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunCall {
    Step,
    /// Another result under the same key.
    OtherStep,
    Spawn,
    SpawnAndWaitForAll,
    /// A signal, a time or the first child, whichever comes first.
    WaitForAny,
    /// A last step and the report.
    Finish,
    /// A plain report of a child.
    Succeed,
    Fail,
}

impl RunCall {
    /// The call as the worker sends it.
    pub(super) fn made_by(
        self,
        caller: Caller,
        children: usize,
        policy: &Policy,
    ) -> CheckpointCall {
        let spawn = || (0..children).map(|at| child(at, policy)).collect();
        let (steps, children, then) = match self {
            RunCall::Step => (vec![step("s1", 1)], vec![], Then::Continue),
            RunCall::OtherStep => (vec![step("s1", 2)], vec![], Then::Continue),
            RunCall::Spawn => (vec![], spawn(), Then::Continue),
            RunCall::SpawnAndWaitForAll => (vec![], spawn(), Then::Wait(wait_for_all(children))),
            RunCall::WaitForAny => (vec![], spawn(), Then::Wait(wait_for_any())),
            RunCall::Finish => (vec![step("s2", 1)], vec![], report(succeeded())),
            RunCall::Succeed => (vec![], vec![], report(succeeded())),
            RunCall::Fail => (vec![], vec![], report(failed())),
        };
        CheckpointCall {
            caller,
            digest: digest(self as u8 + 10),
            steps,
            children,
            then,
            asked_by: None,
        }
    }
}

fn report(outcome: Outcome) -> Then {
    Then::Report { outcome, claims: None }
}

fn succeeded() -> Outcome {
    Outcome::Succeeded { output: None }
}

fn failed() -> Outcome {
    let (category, message) = (Category::DataQuality, "x".into());
    Outcome::Failed(Fault { category, message, stack_trace: None, retryable: None })
}

/// Cheap stand-ins for digests: they only need to differ.
pub(super) fn digest(number: u8) -> Digest {
    Digest::from_bytes([number; 32])
}

fn step(key: &str, content: u8) -> StepCall {
    let step = Step {
        outcome: StepOutcome::Succeeded { result: None },
        input: None,
        spend: Spend::default(),
        is_savepoint: false,
    };
    StepCall { key: key.into(), digest: digest(content), step }
}

fn child(at: usize, policy: &Policy) -> ChildCall {
    let submit = Submit {
        budget: None,
        flow: None,
        id: id(at + 1),
        scope: Scope::default(),
        kind: "k".into(),
        queue: "q".into(),
        priority: 0,
        policy: policy.clone(),
        run_at: None,
        input: digest(0),
        fingerprint: digest(3),
    };
    ChildCall { key: CHILD_KEYS[at].into(), is_detached: false, submit }
}

fn wait_for_all(children: usize) -> WaitCall {
    let item = |at: usize| on(CHILD_KEYS[at], AwaitedEvent::Child(CHILD_KEYS[at].into()));
    wait("w1", WaitMode::All, (0..children).map(item).collect())
}

/// When the timer of the wait for any of several comes.
pub(super) const TIMER: Time = Time::from_millis(START.millis() + 2);

fn wait_for_any() -> WaitCall {
    let first = CHILD_KEYS[0];
    let items = vec![
        on("go", AwaitedEvent::Signal("go".into())),
        on("cool", AwaitedEvent::Time(TIMER)),
        on(first, AwaitedEvent::Child(first.into())),
    ];
    wait("w2", WaitMode::Any, items)
}

fn on(key: &str, event: AwaitedEvent) -> Awaited {
    Awaited { key: key.into(), event }
}

fn wait(key: &str, mode: WaitMode, items: Vec<Awaited>) -> WaitCall {
    WaitCall {
        key: key.into(),
        digest: digest(4),
        mode,
        items: items.into(),
        approvals: Vec::new(),
        max: None,
    }
}

/// The signal with this idempotency key.
pub(super) fn signal(key: u8) -> SignalCall {
    let key = Some(Name::from(format!("k{key}")));
    SignalCall { name: "go".into(), key, payload: None, digest: digest(5) }
}

/// The id of a root's submission is the run's.
pub(super) fn submission(policy: &Policy) -> Submit {
    Submit { id: TaskId::from_u128(1), ..child(0, policy).submit }
}
