//! A worker of the tour: a separate process that leases tasks over HTTP and prints, one JSON line
//! each, its grants and the answers to its calls.
//!
//! Unlike a normal worker it prints its task token, because the tour uses it to send a dead
//! worker's late report. For that reason the command is hidden.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tenure::{Client, Error};
use wire::answers::Envelope;
use wire::requests::{Completed, Heartbeat, LeaseRequest, ReportedError, Started};
use wire::{ErrorCategory, Json, Outcome, State, Verdict};

use crate::exit::{CliError, CommandResult, Exit};
use crate::{output, server};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The queue to take from
    #[arg(long)]
    queue: String,
    /// The worker's name
    #[arg(long)]
    name: String,
    /// What it does with a task
    #[arg(long = "manner")]
    mode: WorkerMode,
    /// How many tasks to take
    #[arg(long, default_value_t = 1)]
    tasks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkerMode {
    /// Heartbeat for ever, deaf to every cancel
    Hold,
    /// Succeed at once
    Finish,
    /// Fail at once
    Fail,
    /// Heartbeat until asked to stop, then say so
    Obey,
}

/// The messages of the worker to the tour. Externally tagged: opaque JSON does not survive other
/// representations.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TourMessage {
    Granted { envelope: Box<Envelope> },
    AskedToStop { reason: Option<String> },
    Answered { answer: Answer },
}

/// A parsed answer to a call about a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) state: Option<State>,
    pub(crate) error: Option<String>,
}

/// How long a poll waits; the next one follows at once.
const POLL_MS: u64 = 10_000;

pub(crate) async fn run(client: Client, arguments: Arguments) -> CommandResult {
    for _ in 0..arguments.tasks {
        let envelope = lease(&client, &arguments).await?;
        start(&client, &arguments, &envelope).await?;
        // Printed only now: a worker that dies before its first call leaves an undelivered grant,
        // and the tour needs a lost worker.
        print_message(&TourMessage::Granted { envelope: Box::new(envelope.clone()) })?;
        let answer = attempt(&client, &arguments, &envelope).await?;
        print_message(&TourMessage::Answered { answer })?;
    }
    Ok(Exit::Done)
}

fn print_message(message: &TourMessage) -> Result<(), CliError> {
    output::json_line(message)
}

async fn lease(client: &Client, arguments: &Arguments) -> Result<Envelope, CliError> {
    let request = LeaseRequest {
        worker_id: arguments.name.clone(),
        queues: vec![arguments.queue.clone()],
        max: 1,
        wait_ms: Some(POLL_MS),
        ..LeaseRequest::default()
    };
    loop {
        let granted = client.lease(&request).await.map_err(server::cli_error)?;
        if let Some(envelope) = granted.leases.into_iter().next() {
            return Ok(envelope);
        }
    }
}

async fn start(
    client: &Client,
    arguments: &Arguments,
    envelope: &Envelope,
) -> Result<(), CliError> {
    let started =
        Started { attempt: envelope.attempt, worker_id: arguments.name.clone(), started_at: None };
    let call = client.started(&envelope.task_id, &envelope.task_token, &started);
    call.await.map(drop).map_err(server::cli_error)
}

async fn attempt(
    client: &Client,
    arguments: &Arguments,
    envelope: &Envelope,
) -> Result<Answer, CliError> {
    let report = match arguments.mode {
        WorkerMode::Finish => report(envelope, &arguments.name, Outcome::Succeeded),
        WorkerMode::Fail => report(envelope, &arguments.name, Outcome::Failed),
        WorkerMode::Hold | WorkerMode::Obey => match heartbeats(client, arguments, envelope).await?
        {
            Some(refusal) => return Ok(refusal),
            None => report(envelope, &arguments.name, Outcome::Cancelled),
        },
    };
    send(client, envelope, &report).await
}

/// Sends heartbeats until the worker is asked to stop and obeys, or a heartbeat is refused.
async fn heartbeats(
    client: &Client,
    arguments: &Arguments,
    envelope: &Envelope,
) -> Result<Option<Answer>, CliError> {
    let mut is_told = false;
    let mut beat = tokio::time::interval(Duration::from_millis(envelope.heartbeat_interval_ms));
    loop {
        beat.tick().await;
        let heartbeat = Heartbeat {
            attempt: envelope.attempt,
            worker_id: arguments.name.clone(),
            ..Heartbeat::default()
        };
        let ack = client.heartbeat(&envelope.task_id, &envelope.task_token, &heartbeat).await;
        match ack {
            Ok(ack) if ack.should_cancel => {
                if !is_told {
                    print_message(&TourMessage::AskedToStop { reason: ack.cancel_reason })?;
                    is_told = true;
                }
                if arguments.mode == WorkerMode::Obey {
                    return Ok(None);
                }
            }
            Ok(_) => {}
            Err(error) => return refusal(error).map(Some),
        }
    }
}

pub(crate) fn report(envelope: &Envelope, worker: &str, outcome: Outcome) -> Completed {
    Completed {
        spend: None,
        attempt: envelope.attempt,
        worker_id: worker.to_owned(),
        outcome,
        completed_at: None,
        output: (outcome == Outcome::Succeeded)
            .then(|| Json::from_value(&serde_json::json!({ "by": worker })))
            .and_then(Result::ok),
        error: (outcome == Outcome::Failed).then(|| ReportedError {
            category: ErrorCategory::UserCode,
            message: "this one fails on purpose".to_owned(),
            stack_trace: None,
            retryable: None,
        }),
        metrics: None,
        cancelled_during_phase: None,
        partial_progress: None,
        traceparent: None,
        steps: Vec::new(),
        children: Vec::new(),
        effects: Vec::new(),
        next: false,
        log: Vec::new(),
    }
}

/// Sends a report and returns the answer: a refusal is an answer too.
pub(crate) async fn send(
    client: &Client,
    envelope: &Envelope,
    report: &Completed,
) -> Result<Answer, CliError> {
    match client.completed(&envelope.task_id, &envelope.task_token, report).await {
        Ok(ack) => Ok(Answer {
            status: 200,
            verdict: Some(ack.verdict),
            state: Some(ack.state),
            error: None,
        }),
        Err(error) => refusal(error),
    }
}

fn refusal(error: Error) -> Result<Answer, CliError> {
    match error {
        Error::Refused(problem) => Ok(Answer {
            status: problem.status,
            verdict: problem.verdict,
            state: None,
            error: Some(problem.error),
        }),
        other => Err(server::cli_error(other)),
    }
}
