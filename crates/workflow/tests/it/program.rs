//! Durable functions as data: a list of operations that every language can interpret, for shared vectors and for
//! generated functions. The result of a program is the list of what its operations gave.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use workflow::{
    ApprovalDecision, BranchCall, Failure, Flow, Function, Joins, Kind, Member, OnError, Retry,
    Spend, Step, StepCall, WaitCall, function,
};

/// What children execute.
const SQUARE: Kind<Value, Value> = Kind::new("square").queue("numbers");

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Op {
    Step(StepOp),
    Sleep(SleepOp),
    #[serde(rename_all = "camelCase")]
    Signal {
        name: String,
        #[serde(default)]
        within_ms: Option<u64>,
    },
    #[serde(rename_all = "camelCase")]
    Approval {
        name: String,
        about: Value,
        #[serde(default)]
        quorum: Option<u32>,
        #[serde(default)]
        within_ms: Option<u64>,
    },
    #[serde(rename_all = "camelCase")]
    Child {
        name: String,
        input: Value,
        #[serde(default)]
        detached: bool,
        #[serde(default)]
        within_ms: Option<u64>,
    },
    Children {
        name: String,
        inputs: Vec<Value>,
        #[serde(default)]
        max: Option<usize>,
    },
    Branches(BTreeMap<String, Vec<Op>>),
    /// A branch, where one operation is expected.
    Branch {
        name: String,
        ops: Vec<Op>,
    },
    All(Vec<Op>),
    Any(BTreeMap<String, Op>),
    Random(String),
    Now,
    Patched {
        id: String,
        then: Vec<Op>,
        otherwise: Vec<Op>,
    },
    /// Runs `first` and makes a savepoint, unless the function resumes from one.
    SavepointAfter {
        first: Vec<Op>,
        state: Value,
    },
}

/// How long, and under which name if it has one.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum SleepOp {
    Unnamed(u64),
    Named { name: String, ms: u64 },
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StepOp {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) input: Option<Value>,
    #[serde(default)]
    pub(crate) returns: Value,
    /// The first tries fail with these messages.
    #[serde(default)]
    pub(crate) fails: Vec<String>,
    #[serde(default)]
    pub(crate) tries: Option<u32>,
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(crate) aborts: bool,
    #[serde(default)]
    pub(crate) tokens: Option<u64>,
    /// The work waits until it is released.
    #[serde(default)]
    pub(crate) holds: bool,
}

/// Steps that may end although their work holds.
#[derive(Clone, Default)]
pub(crate) struct Releases(Arc<Mutex<(BTreeSet<String>, Vec<Waker>)>>);

impl Releases {
    pub(crate) fn release(&self, key: &str) {
        let mut state = self.0.lock().unwrap();
        state.0.insert(key.to_owned());
        let wakers = std::mem::take(&mut state.1);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    async fn wait(&self, step: &Step) {
        std::future::poll_fn(|cx| {
            let mut state = self.0.lock().unwrap();
            if state.0.iter().any(|key| step.idempotency_key().ends_with(key.as_str())) {
                return Poll::Ready(());
            }
            state.1.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

pub(crate) fn ops(program: Value) -> Vec<Op> {
    serde_json::from_value(program).expect("the program of a test is well formed")
}

/// The function that a program describes; its input is ignored.
pub(crate) fn program(ops: Vec<Op>) -> Function<'static> {
    held_program(ops, Releases::default())
}

pub(crate) fn held_program(ops: Vec<Op>, releases: Releases) -> Function<'static> {
    let ops: Arc<[Op]> = ops.into();
    function(move |ctx: Flow, _: Value| {
        let (ops, releases) = (ops.clone(), releases.clone());
        async move { execute(&ctx, &ops, &releases).await.map(Value::from) }
    })
}

type Outputs<'p> = Pin<Box<dyn Future<Output = Result<Vec<Value>, Failure>> + Send + 'p>>;

fn execute<'p>(ctx: &'p Flow, ops: &'p [Op], releases: &'p Releases) -> Outputs<'p> {
    Box::pin(async move {
        let mut outputs = Vec::new();
        for op in ops {
            outputs.push(one(ctx, op, releases).await?);
        }
        Ok(outputs)
    })
}

async fn one(ctx: &Flow, op: &Op, releases: &Releases) -> Result<Value, Failure> {
    match op {
        Op::Step(op) => run_step(ctx, op, releases).await,
        Op::Sleep(SleepOp::Unnamed(ms)) => {
            ctx.sleep(Duration::from_millis(*ms)).await;
            Ok(Value::Null)
        }
        Op::Child { name, input, detached: true, .. } => {
            ctx.call(SQUARE, input).named(name).detach().await.map(|()| Value::Null)
        }
        Op::Child { .. } => Ok(value_of(waiting(ctx, op).await)),
        Op::Sleep(_) | Op::Signal { .. } | Op::Approval { .. } => waiting(ctx, op).await,
        Op::Children { name, inputs, max } => {
            let children = ctx.map(SQUARE, inputs).named(name).max(max.unwrap_or(usize::MAX));
            Ok(children.await.into_iter().map(value_of).collect())
        }
        Op::Branch { name, ops } => branch(ctx, name, ops, releases).await,
        Op::Branches(branches) => {
            let branches = branches.iter().map(|(name, ops)| branch(ctx, name, ops, releases));
            Ok(json!(ctx.all(branches.collect::<Vec<_>>()).await?))
        }
        Op::All(members) => {
            let members = members.iter().map(|op| member(ctx, op, releases));
            let all = ctx.all(members.collect::<Vec<_>>()).await;
            Ok(value_of(all.map(Value::from)))
        }
        Op::Any(members) => {
            let members = members.iter().map(|(name, op)| (name, waiting(ctx, op)));
            Ok(value_of(ctx.any(members).await.map(|(name, value)| json!([name, value]))))
        }
        // As text: not every language has integers of 64 bits.
        Op::Random(label) => Ok(json!(ctx.random_u64(label).to_string())),
        Op::Now => Ok(json!(ctx.now().await)),
        Op::Patched { id, then, otherwise } => {
            let path = if ctx.patched(id) { then } else { otherwise };
            execute(ctx, path, releases).await.map(Value::from)
        }
        Op::SavepointAfter { first, state } => match ctx.resumed::<Value>()? {
            Some(state) => Ok(state),
            None => {
                execute(ctx, first, releases).await?;
                ctx.savepoint(state).await
            }
        },
    }
}

/// An operation that waits without a worker.
fn waiting(ctx: &Flow, op: &Op) -> WaitCall<'static, Value> {
    match op {
        Op::Sleep(SleepOp::Unnamed(ms)) => {
            ctx.sleep(Duration::from_millis(*ms)).map(|()| Value::Null)
        }
        Op::Sleep(SleepOp::Named { name, ms }) => {
            ctx.sleep(Duration::from_millis(*ms)).named(name).map(|()| Value::Null)
        }
        Op::Signal { name, within_ms: None } => ctx.signal(name).map(|value: Value| value),
        Op::Signal { name, within_ms: Some(ms) } => {
            let signal = ctx.signal::<Value>(name).within(Duration::from_millis(*ms));
            signal.map(|value| json!(value))
        }
        Op::Approval { name, about, quorum, within_ms } => {
            let mut call = ctx.approval(name).about(about);
            if let Some(quorum) = quorum {
                call = call.quorum(*quorum);
            }
            if let Some(ms) = within_ms {
                call = call.within_or(Duration::from_millis(*ms), ApprovalDecision::Rejected);
            }
            call.map(|approval| json!([approval.outcome, approval.reason()]))
        }
        Op::Child { name, input, detached: false, within_ms: None } => {
            ctx.call(SQUARE, input).named(name).map(|value| value)
        }
        Op::Child { name, input, detached: false, within_ms: Some(ms) } => {
            let call = ctx.call(SQUARE, input).named(name).within(Duration::from_millis(*ms));
            call.map(|value| json!(value))
        }
        other => panic!("{other:?} does not wait"),
    }
}

/// A member of `all`.
fn member<'p>(ctx: &Flow, op: &'p Op, releases: &'p Releases) -> Member<'p, Value> {
    match op {
        Op::Step(op) => step(ctx, op, releases).into_member(),
        Op::Branch { name, ops } => branch(ctx, name, ops, releases).into_member(),
        op => waiting(ctx, op).into_member(),
    }
}

fn branch<'p>(
    ctx: &Flow,
    name: &str,
    ops: &'p [Op],
    releases: &'p Releases,
) -> BranchCall<'p, Result<Value, Failure>> {
    ctx.branch(name, async move |ctx: Flow| execute(&ctx, ops, releases).await.map(Value::from))
}

type Work<'p> = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send + 'p>>;

async fn run_step(ctx: &Flow, op: &StepOp, releases: &Releases) -> Result<Value, Failure> {
    Ok(value_of(step(ctx, op, releases).await))
}

fn step<'p>(
    ctx: &Flow,
    op: &'p StepOp,
    releases: &'p Releases,
) -> StepCall<'p, impl FnMut(Step) -> Work<'p> + Send + 'p + use<'p>> {
    let mut call = ctx.step(op.name.as_str(), move |step: Step| -> Work<'p> {
        Box::pin(async move {
            if let Some(tokens) = op.tokens {
                step.spend(Spend { tokens, ..Spend::default() });
            }
            if op.holds {
                releases.wait(&step).await;
            }
            match op.fails.get(step.number() as usize - 1) {
                Some(message) => Err(Failure::user_code(message)),
                None => Ok(op.returns.clone()),
            }
        })
    });
    if let Some(input) = &op.input {
        call = call.input(input);
    }
    if let Some(tries) = op.tries {
        call = call.retry(Retry::tries(tries).base(Duration::from_millis(100)));
    }
    if let Some(ms) = op.timeout_ms {
        call = call.timeout(Duration::from_millis(ms));
    }
    if op.aborts {
        call = call.on_error(OnError::Abort);
    }
    call
}

/// A failure is a value of the program.
fn value_of(result: Result<Value, Failure>) -> Value {
    result.unwrap_or_else(|failure| json!({"failed": failure.message}))
}
