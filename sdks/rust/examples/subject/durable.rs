//! The kinds that are durable functions.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tenure::{ApprovalDecision, Effect, Failure, Flow, Kind, Retry, Spend, Worker};

use crate::marks::mark_step;

/// What the kit answers itself.
const PACK: Kind<String, String> = Kind::new("pack").queue("conform");
const SQUARE: Kind<i64, i64> = Kind::new("square").queue("conform");
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Deserialize)]
struct Order {
    cents: u64,
    #[serde(default)]
    items: Vec<String>,
    /// How often the charge fails before it succeeds.
    #[serde(default)]
    fails: u32,
    /// How long the charge takes, and its timeout.
    #[serde(default, rename = "chargeMs")]
    charge_ms: u64,
    #[serde(default, rename = "timeoutMs")]
    timeout_ms: Option<u64>,
}

pub(crate) fn add(worker: Worker) -> Worker {
    worker
        .durable("order", order)
        .durable("sleeper", |flow: Flow, _: Value| async move {
            flow.sleep(Duration::from_secs(3600)).await;
            Ok(flow.now().await)
        })
        .durable("signaller", |flow: Flow, _: Value| async move {
            let first: Value = flow.signal("go").await?;
            let second: Value = flow.signal("go").await?;
            let third: Option<Value> = flow.signal("go").within(Duration::from_secs(1)).await?;
            Ok(json!([first, second, third]))
        })
        .durable("children", children)
        .durable("parallel", parallel)
        .durable("budgeted", budgeted)
        .durable("approval", |flow: Flow, input: Value| async move {
            let asked = flow.approval("pay").about(&input).quorum(2);
            let approval = asked.within_or(DAY, ApprovalDecision::Rejected).await?;
            Ok(json!({"outcome": approval.outcome, "reason": approval.reason()}))
        })
        .durable("effects", effects)
        .durable("looper", looper)
        .durable("versions", versions)
}

async fn order(flow: Flow, order: Order) -> Result<Value, Failure> {
    let charge = flow.step("charge", async |step| {
        mark_step(&step, "charge").await;
        tokio::time::sleep(Duration::from_millis(order.charge_ms)).await;
        if step.number() <= order.fails {
            return Err(Failure::infra("the bank is closed"));
        }
        Ok(format!("receipt-{}", order.cents))
    });
    let charge = charge.input(&order.cents).retry(Retry::tries(3).base(Duration::from_millis(100)));
    let receipt: String = match order.timeout_ms {
        Some(ms) => charge.timeout(Duration::from_millis(ms)).await?,
        None => charge.await?,
    };
    flow.sleep(Duration::from_millis(300)).named("cool-off").await;
    let approved: Option<bool> = flow.signal("approve").within(7 * DAY).await?;
    let packed = match approved {
        Some(true) => flow.map(PACK, &order.items).all().await?.join(", "),
        _ => flow.step("refund", async |_| Ok("refunded".to_owned())).await?,
    };
    flow.step("mail", async |step| {
        mark_step(&step, "mail").await;
        Ok(())
    })
    .await?;
    Ok(json!({"receipt": receipt, "packed": packed}))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    Many(Vec<i64>),
    Detached { detached: i64 },
}

async fn children(flow: Flow, input: Numbers) -> Result<Value, Failure> {
    let numbers = match input {
        Numbers::Many(numbers) => numbers,
        Numbers::Detached { detached } => {
            flow.call(SQUARE, &detached).detach().await?;
            return Ok(json!("detached"));
        }
    };
    let ends = flow.map(SQUARE, numbers).max(2).await;
    let value = |end: Result<i64, Failure>| match end {
        Ok(value) => json!(value),
        Err(failure) => json!({"failed": failure.message}),
    };
    Ok(ends.into_iter().map(value).collect())
}

#[derive(Deserialize)]
struct Parallel {
    #[serde(default, rename = "slowMs")]
    slow_ms: u64,
    /// A third branch does what `right` does.
    #[serde(default)]
    wide: bool,
}

async fn parallel(flow: Flow, input: Parallel) -> Result<Value, Failure> {
    let left = flow.branch("left", async |flow: Flow| {
        let a: u32 = flow.step("a", async |_| Ok(1)).await?;
        let b: u32 = flow.step("b", async |_| Ok(2)).await?;
        Ok(a + b)
    });
    let slow = async |flow: Flow| -> Result<u32, Failure> {
        flow.step("a", async |step| {
            mark_step(&step, "slow").await;
            tokio::time::sleep(Duration::from_millis(input.slow_ms)).await;
            Ok(3)
        })
        .await
    };
    let right = flow.branch("right", slow);
    let (left, right) = match input.wide {
        false => flow.all((left, right)).await?,
        true => {
            let (left, right, _) = flow.all((left, right, flow.branch("third", slow))).await?;
            (left, right)
        }
    };
    let mut won = Vec::new();
    for _ in 0..2 {
        let go = flow.signal::<Value>("go").map(drop);
        let late = flow.sleep(Duration::from_millis(300)).map(drop);
        won.push(flow.any([("go", go), ("late", late)]).await?.0);
    }
    Ok(json!({"left": left, "right": right, "won": won}))
}

async fn budgeted(flow: Flow, _: Value) -> Result<Value, Failure> {
    let mut left = Vec::new();
    for _ in 0..5 {
        let before: Option<u64> = flow
            .step("think", async |step| {
                mark_step(&step, "think").await;
                step.spend(Spend { tokens: 400, ..Spend::default() });
                Ok(step.left().and_then(|left| left.tokens))
            })
            .await?;
        left.push(before);
    }
    Ok(json!(left))
}

async fn effects(flow: Flow, input: Value) -> Result<Value, Failure> {
    let effect = Effect::to("crm", "order.paid", &input)?.aggregate("o-7");
    let delivery = flow.effect("tell", effect).delivered().await?;
    if !delivery.is_delivered() {
        flow.step("letter", async |step| {
            mark_step(&step, "letter").await;
            Ok(())
        })
        .await?;
    }
    Ok(json!(delivery.outcome))
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Looped {
    steps: u32,
    draws: Vec<String>,
}

async fn looper(flow: Flow, _: Value) -> Result<Value, Failure> {
    let mut state: Looped = flow.resumed()?.unwrap_or_default();
    loop {
        let steps = state.steps;
        state.steps = flow.step("count", async |_| Ok(steps + 1)).await?;
        if state.steps >= 25 {
            state.draws.push(flow.random_u64("x").to_string());
            return Ok(json!({"steps": state.steps, "draws": state.draws}));
        }
        if state.steps.is_multiple_of(10) {
            state.draws.push(flow.random_u64("x").to_string());
            return flow.savepoint(&state).await;
        }
    }
}

#[derive(Deserialize)]
struct Version {
    code: String,
    #[serde(default)]
    value: Value,
}

async fn versions(flow: Flow, input: Version) -> Result<Value, Failure> {
    let value = async |flow: &Flow, name: &str, value: Value| -> Result<Value, Failure> {
        flow.step(name.to_owned(), async |_| Ok(value.clone())).input(&1).await
    };
    match input.code.as_str() {
        "v1" => {
            let a = value(&flow, "a", input.value).await?;
            Ok(json!([a, value(&flow, "b", json!(2)).await?]))
        }
        "v2" => {
            let a = value(&flow, "a", input.value).await?;
            let name = if flow.patched("c-for-b") { "c" } else { "b" };
            Ok(json!([a, value(&flow, name, json!(name)).await?]))
        }
        "renamed" => value(&flow, "z", json!(1)).await,
        "other-input" => flow.step("a", async |_| Ok(json!(1))).input(&2).await,
        "shorter" => value(&flow, "a", json!(1)).await,
        "foreign-await" => {
            let a = value(&flow, "a", json!(1)).await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(json!([a, value(&flow, "b", json!(2)).await?]))
        }
        "two-at-once" => {
            let (a, b) =
                futures_util::join!(value(&flow, "a", json!(1)), value(&flow, "b", json!(2)));
            Ok(json!([a?, b?]))
        }
        "not-awaited" => {
            drop(flow.step("a", async |_| Ok(1)));
            Ok(json!("done"))
        }
        "bug" => panic!("a bug in the function"),
        "failure" => Err(Failure::permanent("it cannot be done")),
        other => Err(Failure::permanent(format!("no code is called {other}"))),
    }
}
