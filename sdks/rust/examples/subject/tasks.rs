//! The kinds that are plain tasks.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use tenure::{Ctx, Failure, LogLevel, Spend, Worker};
use tokio::time::{sleep, timeout};

use crate::marks::{mark, send};

#[derive(Deserialize)]
struct Fail {
    category: String,
    message: String,
    retryable: Option<bool>,
    #[serde(default)]
    crash: bool,
}

#[derive(Deserialize)]
struct Span {
    ms: u64,
    #[serde(default)]
    crash: bool,
}

#[derive(Deserialize)]
struct Block {
    ms: u64,
    how: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Often {
    n: u64,
    every_ms: u64,
}

#[derive(Deserialize)]
struct Big {
    bytes: Option<usize>,
}

pub(crate) fn add(worker: Worker) -> Worker {
    worker
        .handle("echo", |ctx, input: Value| async move {
            mark(&ctx, "began").await;
            Ok(input)
        })
        .handle("fail", |ctx, input: Fail| async move { fail(&ctx, input).await })
        .handle("slow", |ctx, input: Span| async move { slow(&ctx, input.ms).await })
        .handle("ignore-cancel", |ctx, input: Span| async move {
            mark(&ctx, "began").await;
            sleep(Duration::from_millis(input.ms)).await;
            mark(&ctx, "done").await;
            Ok(input.ms)
        })
        .handle("block", |ctx, input: Block| async move { block(&ctx, input).await })
        .handle("progress", |ctx, input: Often| async move {
            mark(&ctx, "began").await;
            for n in 0..input.n {
                ctx.progress(100.0 * n as f64 / input.n as f64, format!("{n} of {}", input.n));
                sleep(Duration::from_millis(input.every_ms)).await;
            }
            Ok(input.n)
        })
        .handle("spend", |ctx, input: Often| async move {
            for _ in 0..input.n {
                ctx.spend(Spend { tokens: 100, ..Spend::default() });
                sleep(Duration::from_millis(input.every_ms)).await;
            }
            Ok(input.n)
        })
        .handle("logger", |ctx, input: Often| async move {
            for n in 1..=input.n {
                ctx.log(LogLevel::Info, format!("line {n}"));
                sleep(Duration::from_millis(input.every_ms)).await;
            }
            Ok(input.n)
        })
        .handle(
            "stage",
            |ctx, input: Value| async move { Ok(json!([ctx.envelope().stage, input])) },
        )
        .handle("isolated", |ctx, input: Span| async move { isolated(&ctx, input).await })
        .handle("big", |_, input: Big| async move {
            Ok(match input.bytes {
                Some(bytes) => Output::Text("x".repeat(bytes)),
                None => Output::Number(f64::NAN),
            })
        })
        .handle("submitter", |ctx, _: Value| async move {
            let run = ctx
                .client()
                .submit("echo", &json!({}))
                .queue("conform")
                .idempotency_key(ctx.run_id())
                .await?;
            Ok(run.id().to_owned())
        })
}

#[derive(serde::Serialize)]
#[serde(untagged)]
enum Output {
    Text(String),
    Number(f64),
}

async fn fail(ctx: &Ctx, input: Fail) -> Result<(), Failure> {
    mark(ctx, "began").await;
    if input.crash {
        std::process::abort();
    }
    let message = input.message;
    let failure = match input.category.as_str() {
        // The language's own error, as any library would give it.
        "USER_CODE" if input.retryable.is_none() => Err(std::io::Error::other(message))?,
        "USER_CODE" => Failure::user_code(message),
        "DATA_QUALITY" => Failure::data(message),
        "CONFIGURATION" => Failure::config(message),
        "TIMEOUT" => Failure::timeout(message),
        "PERMANENT" => Failure::permanent(message),
        "HAND_BACK" => Failure::hand_back(message),
        _ => Failure::infra(message),
    };
    Err(match input.retryable {
        Some(true) => failure.retryable(),
        Some(false) => failure.non_retryable(),
        None => failure,
    })
}

async fn slow(ctx: &Ctx, ms: u64) -> Result<u64, Failure> {
    mark(ctx, "began").await;
    if timeout(Duration::from_millis(ms), ctx.cancelled()).await.is_ok() {
        mark(ctx, "stopped").await;
        return Err(Failure::cancelled().during_phase("waiting"));
    }
    mark(ctx, "done").await;
    Ok(ms)
}

/// Keeps what the runtime or the machine has busy.
async fn block(ctx: &Ctx, input: Block) -> Result<u64, Failure> {
    mark(ctx, "began").await;
    let end = Instant::now() + Duration::from_millis(input.ms);
    match input.how.as_str() {
        "loop" => std::thread::sleep(Duration::from_millis(input.ms)),
        "spin" => {
            let spin = move || while Instant::now() < end {};
            let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(spin)).collect();
            threads.into_iter().for_each(|thread| thread.join().expect("spinning does not panic"));
        }
        _ => while Instant::now() < end {},
    }
    mark(ctx, "done").await;
    Ok(input.ms)
}

/// This SDK has no tasks in processes of their own (`--without isolate`).
async fn isolated(ctx: &Ctx, input: Span) -> Result<u64, Failure> {
    let pid = std::process::id();
    send(json!({"task": ctx.task_id(), "mark": "pid", "attempt": ctx.attempt(), "pid": pid})).await;
    if input.crash {
        std::process::abort();
    }
    slow(ctx, input.ms).await
}
