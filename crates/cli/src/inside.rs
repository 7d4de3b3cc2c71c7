//! Commands inside a program that `tenure work --exec` runs: steps, sleeps, signals, questions, children, effects, spending and
//! progress. They make any program durable, a shell script for example.
//!
//! Each asks the worker of the program ([`crate::work::talk`]), prints what came of it and exits accordingly. Waits end the
//! program: the worker stops it, and runs it again from its beginning when the wait is over.

mod step;

use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::sleep;
use wire::Json;

use crate::duration;
use crate::exit::{CliError, CommandResult, Exit};
use crate::output;
use crate::work::talk::{
    Asked, Child, Declared, Done, Line, Question, SOCKET_VARIABLE, Told, Used,
};

pub(crate) use step::{StepArguments, step};

/// How long a command that could not end its program waits for the worker to do it.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
/// Names are part of the keys of records.
const NAME_RULE: &str = "a name has letters, digits, `.`, `_` and `-`";

#[derive(Debug, clap::Args)]
pub(crate) struct SleepArguments {
    /// How long: 30s, 5m, 2h, 1d
    #[arg(value_name = "SPAN", value_parser = duration::parse)]
    span: Duration,
    /// A name in the record
    #[arg(long, value_parser = name)]
    name: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WaitForArguments {
    /// The name of the signal; its data is printed
    #[arg(value_parser = name)]
    signal: String,
    /// Exit with 124 if it has not come by then
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    within: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AskArguments {
    /// A name in the record
    #[arg(value_parser = name)]
    name: String,
    /// What people are asked, in a sentence
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// What exactly they decide about, as JSON; `@FILE` reads a file
    #[arg(long, value_name = "JSON", value_parser = payload)]
    content: Option<Json>,
    /// How many must approve; one rejection rejects
    #[arg(long, value_name = "N", default_value_t = 1)]
    quorum: u32,
    /// Keys with this role may decide; may be repeated [default: approver]
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Exit with 124 if they have not decided by then
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    within: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ChildArguments {
    /// The kind of the run
    kind: String,
    /// The queue where it waits for a worker
    #[arg(long, short)]
    queue: String,
    /// Its input, as JSON; `@FILE` reads a file
    #[arg(long, value_name = "JSON", default_value = "null", value_parser = payload)]
    input: Json,
    /// A name in the record [default: the kind]
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// Do not wait for it: it outlives this run
    #[arg(long)]
    detach: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EffectArguments {
    /// A registered endpoint
    endpoint: String,
    /// What happened, in a word: order.paid
    r#type: String,
    /// What the receiver gets, as JSON; `@FILE` reads a file
    #[arg(long, value_name = "JSON", default_value = "null", value_parser = payload)]
    body: Json,
    /// A name in the record [default: the type]
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// Effects with the same name arrive in order
    #[arg(long, value_name = "NAME")]
    aggregate: Option<String>,
    /// Wait until it is delivered or given up
    #[arg(long)]
    delivered: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SpendArguments {
    /// tokens=N, tool-calls=N, cost-micros=N
    #[arg(required = true, value_name = "WHAT=N", value_parser = used)]
    used: Vec<Used>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProgressArguments {
    /// From 0 to 100
    percent: f64,
    /// What is going on
    message: Vec<String>,
}

pub(crate) async fn sleep_for(arguments: SleepArguments) -> CommandResult {
    let ms = millis(arguments.span);
    operation(&Asked::Sleep { name: arguments.name, ms }).await
}

pub(crate) async fn wait_for(arguments: WaitForArguments) -> CommandResult {
    let WaitForArguments { signal, within } = arguments;
    operation(&Asked::WaitFor { signal, within_ms: within.map(millis) }).await
}

pub(crate) async fn ask(arguments: AskArguments) -> CommandResult {
    let AskArguments { name, subject, content, quorum, roles, within } = arguments;
    let within_ms = within.map(millis);
    let question = Question { name, subject, content, quorum, roles, within_ms };
    operation(&Asked::Ask(Box::new(question))).await
}

pub(crate) async fn child(arguments: ChildArguments) -> CommandResult {
    let ChildArguments { kind, queue, input, name, detach: is_detached } = arguments;
    operation(&Asked::Child(Box::new(Child { kind, queue, name, input, is_detached }))).await
}

pub(crate) async fn effect(arguments: EffectArguments) -> CommandResult {
    let EffectArguments { endpoint, r#type, body, name, aggregate, delivered } = arguments;
    let is_awaited = delivered;
    let declared = Declared { endpoint, r#type, name, body, aggregate, is_awaited };
    operation(&Asked::Effect(Box::new(declared))).await
}

pub(crate) async fn spend(arguments: SpendArguments) -> CommandResult {
    let sum = |sum: Used, more: &Used| Used {
        tokens: sum.tokens.saturating_add(more.tokens),
        tool_calls: sum.tool_calls.saturating_add(more.tool_calls),
        cost_micros: sum.cost_micros.saturating_add(more.cost_micros),
    };
    operation(&Asked::Spend(arguments.used.iter().fold(Used::default(), sum))).await
}

/// Progress goes the way of programs without this binary.
pub(crate) fn progress(arguments: &ProgressArguments) -> CommandResult {
    let descriptor = std::env::var("TENURE_PROGRESS_FD").ok().and_then(|text| text.parse().ok());
    let descriptor: i32 = descriptor.ok_or_else(outside)?;
    let mut pipe = progress_pipe(descriptor);
    let text = format!("progress {} {}\n", arguments.percent, arguments.message.join(" "));
    pipe.write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

#[expect(unsafe_code, reason = "a descriptor that was inherited has no owner yet")]
fn progress_pipe(descriptor: i32) -> std::fs::File {
    // SAFETY: the worker opened it for this program, and nothing else in this process uses it.
    std::fs::File::from(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

async fn operation(asked: &Asked) -> CommandResult {
    let mut line = connect().await?;
    let told = match line.say(asked).await {
        Ok(()) => line.hear().await,
        Err(error) => Err(error),
    };
    match told {
        Ok(Told::Done(done)) => finish(done),
        Ok(Told::Execute { .. }) => unreachable!("only a step is executed"),
        Err(_) => Err(stopped().await),
    }
}

async fn connect() -> Result<Line, CliError> {
    let path = std::env::var_os(SOCKET_VARIABLE).ok_or_else(outside)?;
    match UnixStream::connect(&path).await {
        Ok(stream) => Ok(Line::new(stream)),
        Err(_) => Err(stopped().await),
    }
}

fn outside() -> CliError {
    CliError::new(
        Exit::Usage,
        "not_inside_a_program",
        "this command is for programs that `tenure work --exec` runs, and this is none",
    )
    .hint("start a worker with `tenure work --queue QUEUE --exec ./script.sh` and use the command in the script")
}

/// The attempt is over, or its worker is dead. What the program would do next must not happen, so this ends all of it: the worker
/// gave the program a process group of its own.
async fn stopped() -> CliError {
    let _ = rustix::process::kill_process_group(rustix::process::getpgrp(), Signal::KILL);
    sleep(STOPPED_WITHIN).await;
    CliError::new(Exit::Interrupted, "worker_gone", "the worker of this program no longer answers")
        .hint("end the program; its task is executed again when its lease is over")
}

/// Prints what came of it, and exits accordingly.
fn finish(done: Done) -> CommandResult {
    if let Some(value) = done.value.filter(|value| value.text() != "null") {
        output::line(plain(&value))?;
    }
    if let Some(note) = done.note {
        output::note(note);
    }
    Ok(if done.exit == 0 { Exit::Done } else { Exit::OfCommand(done.exit) })
}

/// What a program printed: text as it was, JSON as JSON.
fn plain(value: &Json) -> String {
    match value.read::<Value>() {
        Ok(Value::Object(members)) if members.len() == 1 => match members.get("text") {
            Some(Value::String(text)) => text.clone(),
            _ => value.text().to_owned(),
        },
        _ => value.text().to_owned(),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_name = !text.is_empty() && text.len() <= 64 && text.bytes().all(is_plain);
    if is_name { Ok(text.to_owned()) } else { Err(NAME_RULE.to_owned()) }
}

fn payload(text: &str) -> Result<Json, String> {
    let text = match text.strip_prefix('@') {
        Some(file) => {
            std::fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?
        }
        None => text.to_owned(),
    };
    Json::from_text(text).map_err(|error| format!("not JSON: {error}"))
}

fn used(text: &str) -> Result<Used, String> {
    const RULE: &str = "tokens=N, tool-calls=N or cost-micros=N";
    let (what, number) = text.split_once('=').ok_or(RULE)?;
    let number: u64 = number.parse().map_err(|_| RULE.to_owned())?;
    match what {
        "tokens" => Ok(Used { tokens: number, ..Used::default() }),
        "tool-calls" => Ok(Used { tool_calls: number, ..Used::default() }),
        "cost-micros" => Ok(Used { cost_micros: number, ..Used::default() }),
        _ => Err(RULE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_printed_is_printed_again() {
        let read = |text: &str| plain(&Json::from_text(text.to_owned()).unwrap());
        assert_eq!(read(r#"{"text":"two\nlines"}"#), "two\nlines");
        assert_eq!(read(r#"{"text":"a","more":1}"#), r#"{"text":"a","more":1}"#);
        assert_eq!(read("[1, 2]"), "[1, 2]");
    }

    #[test]
    fn names_and_amounts_are_checked_before_anything_is_asked() {
        assert!(name("charge-card.v2").is_ok());
        for wrong in ["", "a/b", "a:b", "a#1", "ä"] {
            assert_eq!(name(wrong), Err(NAME_RULE.to_owned()), "{wrong}");
        }
        assert_eq!(used("tokens=812"), Ok(Used { tokens: 812, ..Used::default() }));
        assert!(used("token=1").is_err() && used("tokens").is_err() && used("tokens=-1").is_err());
    }
}
