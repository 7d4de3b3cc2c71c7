//! Carries out what a program asks for, with the engine of durable functions: the same keys, records, waits and divergences as a
//! function in any language.
//!
//! A program is run again from its beginning in every attempt and asks for its operations again. What is recorded is told at
//! once; behind the record, things happen. Everything is recorded before the program hears of it.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::json;
use tenure::workflow::{self, Function};
use tenure::{Approval, ApprovalOutcome, Effect, Failure, Flow, Json, Retry, Step};
use tokio::sync::{Mutex, mpsc};

use super::door::{Desk, Operation, spend};
use super::talk::{Asked, Came, Child, Declared, Done, Line, Question, Told, Used};

/// What the reason of a failure begins with that is an exit code: `EXIT_3`.
const EXIT_REASON: &str = "EXIT_";
/// Exit codes of commands whose operation failed, and that waited in vain.
const FAILED: u8 = 1;
const TIMED_OUT: u8 = 124;

type SharedLine = Arc<Mutex<Line>>;

/// A durable function that does what the program asks for. `broken` hears of a step whose command was gone before it said what
/// came of it. The stages of a plan are one task, so what the program of a stage records is in a branch of the stage's name:
/// programs that know nothing of each other use the same names.
pub(super) fn function(
    asked: mpsc::Receiver<Option<Operation>>,
    desk: Arc<Desk>,
    broken: mpsc::Sender<String>,
    stage: Option<&str>,
) -> Function<'static> {
    let asked = Arc::new(Mutex::new(asked));
    // Keys of stages may have characters that divide branches.
    let branch = stage.map(|stage| format!("stage.{}", stage.replace(['/', ':', '#'], "-")));
    workflow::function(move |flow: Flow, _: IgnoredAny| {
        let (asked, desk, broken) = (Arc::clone(&asked), Arc::clone(&desk), broken.clone());
        let branch = branch.clone();
        async move {
            let everything = |flow: Flow| perform_all(flow, asked, desk, broken);
            match branch {
                Some(branch) => flow.branch(&branch, everything).await,
                None => everything(flow).await,
            }
            Ok(())
        }
    })
}

/// Performs one operation after the other until the program asks for no more.
async fn perform_all(
    flow: Flow,
    asked: Arc<Mutex<mpsc::Receiver<Option<Operation>>>>,
    desk: Arc<Desk>,
    broken: mpsc::Sender<String>,
) {
    let next = async || asked.lock().await.recv().await.flatten();
    while let Some(operation) = flow.outside(next()).await {
        let Operation { asked, line, turn } = operation;
        let line = Arc::new(Mutex::new(line));
        let steps = Steps { desk: &desk, line: &line, broken: &broken };
        let done = perform(&flow, asked, steps).await;
        flow.now().await;
        // The next command of the program may come as soon as it has heard of this one.
        drop(turn);
        let told = Told::Done(done);
        flow.outside(async { line.lock().await.say(&told).await.ok() }).await;
    }
}

/// What the work of a step needs.
#[derive(Clone, Copy)]
struct Steps<'a> {
    desk: &'a Arc<Desk>,
    line: &'a SharedLine,
    broken: &'a mpsc::Sender<String>,
}

async fn perform(flow: &Flow, asked: Asked, steps: Steps<'_>) -> Done {
    let done = match asked {
        Asked::Step { name, tries, pause_ms } => step(flow, name, (tries, pause_ms), steps).await,
        Asked::Sleep { name, ms } => {
            let sleep = flow.sleep(Duration::from_millis(ms));
            match name {
                Some(name) => sleep.named(name).await,
                None => sleep.await,
            }
            Ok(Done::default())
        }
        Asked::WaitFor { signal, within_ms } => wait_for(flow, signal, within_ms).await,
        Asked::Ask(question) => ask(flow, *question).await,
        Asked::Child(child) => call(flow, *child).await,
        Asked::Effect(declared) => effect(flow, *declared).await,
        Asked::Spend(used) => used_outside_steps(flow, used).await,
    };
    done.unwrap_or_else(|failure| failed(&failure))
}

fn printed(value: Json) -> Done {
    Done { value: Some(value), ..Done::default() }
}

fn failed(failure: &Failure) -> Done {
    let code = failure.reason.as_deref().and_then(|reason| reason.strip_prefix(EXIT_REASON));
    let exit = code.and_then(|code| code.parse().ok()).unwrap_or(FAILED);
    Done { value: None, exit, note: Some(failure.message.clone()) }
}

async fn step(
    flow: &Flow,
    name: String,
    (tries, pause_ms): (u32, u64),
    steps: Steps<'_>,
) -> Result<Done, Failure> {
    let work = |step: Step| {
        let (desk, line) = (Arc::clone(steps.desk), Arc::clone(steps.line));
        let broken = steps.broken.clone();
        let name = name.clone();
        async move {
            desk.set_running(Some(step.clone()));
            let came = execute(&step, &line).await;
            desk.set_running(None);
            match came {
                Ok(came) => result(came),
                // Nothing came of it that could be recorded. The attempt ends with the program.
                Err(_) => {
                    let _ = broken.send(name).await;
                    pending().await
                }
            }
        }
    };
    let retry = Retry::tries(tries).base(Duration::from_millis(pause_ms));
    let output: Option<Json> = flow.step(name.clone(), work).retry(retry).await?;
    Ok(Done { value: output, ..Done::default() })
}

async fn execute(step: &Step, line: &SharedLine) -> std::io::Result<Came> {
    let idempotency_key = step.idempotency_key().to_owned();
    let mut line = line.lock().await;
    line.say(&Told::Execute { idempotency_key, number: step.number() }).await?;
    line.hear().await
}

fn result(came: Came) -> Result<Option<Json>, Failure> {
    match came {
        Came::Output(output) => Ok(output),
        Came::Failed { exit, category, message } => {
            let mut failure = Failure::new(category, message);
            failure.reason = Some(format!("{EXIT_REASON}{exit}"));
            Err(failure)
        }
    }
}

async fn wait_for(flow: &Flow, signal: String, within_ms: Option<u64>) -> Result<Done, Failure> {
    let waited = flow.signal::<Json>(signal.clone());
    let came: Option<Json> = match within_ms {
        Some(ms) => waited.within(Duration::from_millis(ms)).await?,
        None => Some(waited.await?),
    };
    Ok(came.map_or_else(|| timed_out(format!("no signal `{signal}` came in time")), printed))
}

fn timed_out(note: String) -> Done {
    Done { value: None, exit: TIMED_OUT, note: Some(note) }
}

async fn ask(flow: &Flow, question: Question) -> Result<Done, Failure> {
    let Question { name, subject, content, quorum, roles, within_ms } = question;
    let mut call = flow.approval(name).quorum(quorum).roles(roles);
    if let Some(subject) = subject {
        call = call.subject(subject);
    }
    if let Some(content) = &content {
        call = call.content(content);
    }
    if let Some(ms) = within_ms {
        call = call.within(Duration::from_millis(ms));
    }
    let decided: Approval = call.await?;
    let exit = match decided.outcome {
        ApprovalOutcome::Approved => 0,
        ApprovalOutcome::Expired => TIMED_OUT,
        _ => FAILED,
    };
    let told = json!({"outcome": decided.outcome, "comment": decided.reason()});
    Ok(Done { value: Json::from_value(&told).ok(), exit, note: None })
}

async fn call(flow: &Flow, child: Child) -> Result<Done, Failure> {
    let Child { kind, queue, name, input, is_detached } = child;
    let mut call = flow.call(kind, &input).queue(queue);
    if let Some(name) = name {
        call = call.named(name);
    }
    if is_detached {
        call.detach().await?;
        return Ok(Done::default());
    }
    let output = call.await?;
    Ok(Done { value: Json::from_value(&output).ok(), ..Done::default() })
}

async fn effect(flow: &Flow, declared: Declared) -> Result<Done, Failure> {
    let Declared { endpoint, r#type, name, body, aggregate, is_awaited } = declared;
    let name = name.unwrap_or_else(|| r#type.replace(['/', ':'], "-"));
    let mut effect = Effect::to(endpoint, r#type, &body)?;
    if let Some(aggregate) = aggregate {
        effect = effect.aggregate(aggregate);
    }
    let call = flow.effect(name, effect);
    if !is_awaited {
        call.await?;
        return Ok(Done::default());
    }
    let delivery = call.delivered().await?;
    let exit = if delivery.is_delivered() { 0 } else { FAILED };
    let told = json!({"outcome": delivery.outcome, "effectId": delivery.effect_id,
        "reason": delivery.reason});
    Ok(Done { value: Json::from_value(&told).ok(), exit, note: None })
}

/// A step of its own, so that it is counted once.
async fn used_outside_steps(flow: &Flow, used: Used) -> Result<Done, Failure> {
    let work = async |step: Step| {
        step.spend(spend(used));
        Ok(())
    };
    let recorded: Result<(), Failure> = flow.step("spend", work).await;
    recorded.map(|()| Done::default())
}
