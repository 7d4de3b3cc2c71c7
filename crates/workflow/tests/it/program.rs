//! Durable functions as data: a list of operations that every language can interpret, for shared vectors and for
//! generated functions. The result of a program is the list of what its operations gave.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use workflow::{
    ApprovalDecision, ChildRun, Failure, Flow, Function, OnError, Retry, Spend, Step, function,
};

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Op {
    Step(StepOp),
    Sleep(u64),
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
    Child {
        name: String,
        input: Value,
        #[serde(default)]
        detached: bool,
    },
    Children {
        name: String,
        inputs: Vec<Value>,
        #[serde(default)]
        max: Option<usize>,
    },
    Branches(BTreeMap<String, Vec<Op>>),
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
        Op::Step(step) => run_step(ctx, step, releases).await,
        Op::Sleep(ms) => {
            ctx.sleep(Duration::from_millis(*ms)).await;
            Ok(Value::Null)
        }
        Op::Signal { name, within_ms: None } => ctx.signal(name.as_str()).await,
        Op::Signal { name, within_ms: Some(ms) } => {
            let signal = ctx.signal::<Value>(name.as_str()).within(Duration::from_millis(*ms));
            Ok(json!(signal.await?))
        }
        Op::Approval { name, about, quorum, within_ms } => {
            let mut call = ctx.approval(name.as_str()).about(about).quorum(quorum.unwrap_or(1));
            if let Some(ms) = within_ms {
                call = call.within_or(Duration::from_millis(*ms), ApprovalDecision::Rejected);
            }
            let approval = call.await?;
            Ok(json!([approval.outcome, approval.reason()]))
        }
        Op::Child { name, input, detached: true } => {
            ctx.child::<Value>(name.as_str(), child_run(input)).detach().await.map(|()| Value::Null)
        }
        Op::Child { name, input, detached: false } => {
            Ok(value_of(ctx.child(name.as_str(), child_run(input)).await))
        }
        Op::Children { name, inputs, max } => {
            let runs: Vec<ChildRun> = inputs.iter().map(child_run).collect();
            let children = ctx.children(name.as_str(), runs).max(max.unwrap_or(usize::MAX));
            Ok(children.await.into_iter().map(value_of).collect())
        }
        Op::Branches(branches) => parallel(ctx, branches, releases).await,
        // As text: not every language has integers of 64 bits.
        Op::Random(label) => Ok(json!(ctx.random(label).to_string())),
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

async fn run_step(ctx: &Flow, op: &StepOp, releases: &Releases) -> Result<Value, Failure> {
    let mut call = ctx.step(op.name.as_str(), |step: Step| async move {
        if let Some(tokens) = op.tokens {
            step.spend(Spend { tokens, ..Spend::default() });
        }
        if op.holds {
            releases.wait(&step).await;
        }
        match op.fails.get(step.number() as usize - 1) {
            Some(message) => Err(Failure::new(wire::ErrorCategory::UserCode, message)),
            None => Ok(op.returns.clone()),
        }
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
    Ok(value_of(call.await))
}

async fn parallel(
    ctx: &Flow,
    branches: &BTreeMap<String, Vec<Op>>,
    releases: &Releases,
) -> Result<Value, Failure> {
    let open = branches.iter().map(|(name, ops)| {
        ctx.branch(name, async move |ctx: Flow| execute(&ctx, ops, releases).await)
    });
    let ended: Result<Vec<_>, Failure> = join_all(open).await.into_iter().collect();
    ended.map(|outputs| json!(outputs))
}

fn child_run(input: &Value) -> ChildRun {
    ChildRun::new("square", "numbers", input)
}

/// A failure is a value of the program.
fn value_of(result: Result<Value, Failure>) -> Value {
    result.unwrap_or_else(|failure| json!({"failed": failure.message}))
}
