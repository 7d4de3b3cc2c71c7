//! Submitting runs and sending signals, each under an idempotency key that the answer names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tenure::Client;
use wire::answers::{Run, RunAccepted};
use wire::requests::{Budget, SubmitRun};
use wire::{Json, State, Time};

use super::super::refusal::Refusal;
use super::{Answer, idempotency_key, wait, written};
use crate::runs::run_id;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SubmitArguments {
    kind: String,
    queue: String,
    #[serde(default)]
    input: Json,
    goal: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    priority: Option<i32>,
    max_attempts: Option<u32>,
    delay_ms: Option<u64>,
    deadline_ms: Option<u64>,
    ttl_ms: Option<u64>,
    budget: Option<Budget>,
    idempotency_key: Option<String>,
    wait_ms: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Submitted {
    run_id: String,
    task_id: String,
    state: State,
    created_at: Time,
    /// The run was there before, submitted with this key.
    replayed: bool,
    idempotency_key: String,
    /// If the call waited and the run has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Box<Run>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
}

impl Submitted {
    fn of(accepted: RunAccepted, idempotency_key: String) -> Submitted {
        let RunAccepted { run_id, task_id, created_at, replayed, run, .. } = accepted;
        let state = run.as_ref().map_or(accepted.state, |run| run.state);
        let next = (!state.is_terminal()).then_some(
            "get_run with waitMs waits for its end; explain_run says why it does not run",
        );
        let replayed = replayed == Some(true);
        Submitted { run_id, task_id, state, created_at, replayed, idempotency_key, run, next }
    }
}

pub(super) async fn submit_run(client: &Client, asked: SubmitArguments) -> Answer {
    let wait = wait(asked.wait_ms)?;
    let key = idempotency_key(asked.idempotency_key.clone())?;
    let submission = client.submit_run(request(asked, key.clone()));
    let accepted = match wait {
        Some(wait) => submission.accept_within(wait).await,
        None => submission.accept().await,
    };
    let accepted = accepted.map_err(|error| Refusal::from(error).with_key(&key))?;
    written(&Submitted::of(accepted, key))
}

fn request(asked: SubmitArguments, key: String) -> SubmitRun {
    SubmitRun {
        kind: asked.kind,
        queue: asked.queue,
        input: asked.input,
        goal: asked.goal,
        labels: asked.labels,
        priority: asked.priority,
        max_attempts: asked.max_attempts,
        delay_ms: asked.delay_ms,
        deadline_ms: asked.deadline_ms,
        ttl_ms: asked.ttl_ms,
        budget: asked.budget,
        idempotency_key: Some(key),
        ..SubmitRun::default()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SignalArguments {
    run_id: String,
    name: String,
    #[serde(default)]
    data: Json,
    idempotency_key: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Signalled {
    run_id: String,
    state: State,
    replayed: bool,
    idempotency_key: String,
}

pub(super) async fn signal_run(client: &Client, asked: SignalArguments) -> Answer {
    let SignalArguments { run_id: id, name, data, idempotency_key: key } = asked;
    let key = idempotency_key(key)?;
    let signal = client.run(run_id(&id)).signal(name, &data).idempotency_key(key.as_str());
    let accepted = signal.await.map_err(|error| Refusal::from(error).with_key(&key))?;
    written(&Signalled {
        run_id: accepted.run_id,
        state: accepted.state,
        replayed: accepted.replayed == Some(true),
        idempotency_key: key,
    })
}
