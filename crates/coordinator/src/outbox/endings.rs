//! What subscribers are told of the end of a task: one effect for each of them, with the same words on every try.

use serde::Serialize;
use store::effects::StoredEndpoint;
use verdict::effect::endpoint::end_kind;
use verdict::effect::{EffectId, EndpointStatus, Intent, wants};
use verdict::{Done, End, Json, Scope, TaskId, Text, Time};

use super::Endpoints;

/// Maximum bytes of an output that is part of what is sent. A larger one is left to be read with the run: receivers limit
/// bodies, and every effect is kept until its run is forgotten.
const OUTPUT_MAX: usize = 64 * 1024;

#[derive(Serialize)]
struct Message<'a> {
    r#type: &'a str,
    timestamp: wire::Time,
    data: Data<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    run_id: String,
    task_id: String,
    tenant_id: &'a str,
    workspace_id: &'a str,
    kind: &'a str,
    queue: &'a str,
    state: &'static str,
    attempt: u32,
    created_at: wire::Time,
    completed_at: wire::Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<wire::Json>,
    /// Set if the output is too large to be sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    output_omitted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error<'a>>,
}

#[derive(Serialize)]
struct Error<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'static str>,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// The effects that the end of a task asks for.
pub(crate) fn of_end(endpoints: &Endpoints, done: &Done, run: TaskId) -> Vec<Intent> {
    let Some(of_scope) = endpoints.get(&done.scope) else { return Vec::new() };
    let kind = end_kind(run == done.id, done.end.state);
    let is_told = |stored: &StoredEndpoint| {
        let endpoint = &stored.endpoint;
        endpoint.status != EndpointStatus::Deleted && wants(&endpoint.types, &kind)
    };
    let told: Vec<_> = of_scope.iter().filter(|(_, stored)| is_told(stored)).collect();
    if told.is_empty() {
        return Vec::new();
    }
    let body = Json::from(message(&kind, done, run));
    let intent = |name: &verdict::Name| Intent {
        id: EffectId::of_end(done.id, name),
        scope: done.scope.clone(),
        task: done.id,
        endpoint: name.clone(),
        aggregate: done.id.to_string().into(),
        kind: kind.as_str().into(),
        body: body.clone(),
        decided_at: done.completed_at,
    };
    told.into_iter().map(|(name, _)| intent(name)).collect()
}

fn message(kind: &str, done: &Done, run: TaskId) -> String {
    let Scope { tenant, workspace } = &done.scope;
    let output = done.end.output.as_ref();
    let sent = output.filter(|output| output.as_str().len() <= OUTPUT_MAX);
    let json = |json: &Json| {
        wire::Json::from_text(json.as_str().to_owned()).expect("only valid JSON is ever stored")
    };
    let data = Data {
        run_id: run.run_name(),
        task_id: done.id.to_string(),
        tenant_id: tenant.as_str(),
        workspace_id: workspace.as_str(),
        kind: done.kind.as_str(),
        queue: done.queue.as_str(),
        state: done.end.state.name(),
        attempt: done.attempt,
        created_at: time(done.created_at),
        completed_at: time(done.completed_at),
        output: sent.map(json),
        output_omitted: output.is_some() && sent.is_none(),
        error: error(&done.end),
    };
    let message = Message { r#type: kind, timestamp: time(done.completed_at), data };
    serde_json::to_string(&message).expect("a message has only text keys")
}

fn error(end: &End) -> Option<Error<'_>> {
    if end.reason.is_none() && end.fault.is_none() {
        return None;
    }
    Some(Error {
        category: end.fault.as_ref().map(|fault| fault.category.name()),
        reason: end.reason.map_or("FAILED", |reason| reason.name()),
        message: end.fault.as_ref().map(|fault| Text::as_str(&fault.message)),
    })
}

fn time(time: Time) -> wire::Time {
    wire::Time::from_ms(time.millis())
}
