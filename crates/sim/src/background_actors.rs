//! Actors that share the coordinators with the main load: workers that poll for work that never comes, callers that
//! try to reach other scopes' tasks, and an administrator of keys.

use std::rc::Rc;

use historyck::event::{Answer, Class, Credential, Invoke, Operation, Return};
use serde_json::{Value, json};

use crate::actor_context::{ActorContext, FinishedCall, OutgoingCall};
use crate::fault::Fault;
use crate::history::{self, name};
use crate::network::{CallEnd, HttpRequest, HttpResponse};
use crate::rng::{SimRng, Stream};
use crate::run_spec::queue;

/// How long an idle worker's poll waits, how many queues it names, and how many tasks it asks for.
const IDLE_WAIT_MS: (u64, u64) = (5_000, 25_000);
const IDLE_QUEUES_MAX: u64 = 32;
const IDLE_MAX: u64 = 256;

/// Timeout beyond the poll's wait, and the pause between two calls.
const TIMEOUT_MS: u64 = 5_000;
const PAUSE_MS: (u64, u64) = (100, 1_000);

/// A run that never existed.
const MISSING: &str = "run_01HF000000000000000000000Z";

/// A worker with nothing to do: no client submits to its queues or no client submits its kinds.
pub(crate) async fn idle_worker(ctx: Rc<ActorContext>, number: u32) {
    let mut rng = SimRng::new(ctx.seed, Stream::IdleWorker(number));
    let access = &ctx.accesses[number as usize % ctx.accesses.len()];
    let who = format!("idler-{number}");
    let invents_kinds = rng.chance(300);
    while !ctx.is_over.get() {
        let count = rng.between(1, IDLE_QUEUES_MAX);
        let queues: Vec<String> = match invents_kinds {
            true => (0..ctx.options.runs.queues).map(queue).collect(),
            false => (0..count).map(|n| format!("idle-{number}-{n}")).collect(),
        };
        let kinds: Option<Vec<String>> =
            invents_kinds.then(|| (0..count).map(|n| format!("kind-{n}")).collect());
        let (max, wait_ms) =
            (rng.between(1, IDLE_MAX), rng.between(IDLE_WAIT_MS.0, IDLE_WAIT_MS.1));
        let body = json!({
            "workerId": who, "queues": queues, "kinds": kinds, "max": max, "waitMs": wait_ms,
        });
        let ask = HttpRequest {
            method: "POST",
            path: "/v1/leases".to_owned(),
            bearer: access.worker_key.clone(),
            idempotency_key: None,
            body: Some(body.to_string().into_bytes()),
        };
        let to = ctx.pick_host(&mut rng);
        let timeout_ms = TIMEOUT_MS + wait_ms;
        let calling = OutgoingCall { who: &who, to, ask, timeout_ms, invokes: Vec::new() };
        let called = ctx.call(calling).await;
        check_idle(&ctx, &who, &called);
        ctx.sleep(rng.between(PAUSE_MS.0, PAUSE_MS.1)).await;
    }
}

/// Checks that an idle worker gets nothing: no client submits what it asks for.
fn check_idle(ctx: &ActorContext, who: &str, called: &FinishedCall) {
    let CallEnd::Answered(HttpResponse { status: 200, body }) = &called.ending else { return };
    let answer: Value = serde_json::from_slice(body).expect("an answer is as documented");
    if answer["leases"].as_array().is_some_and(|leases| !leases.is_empty()) {
        ctx.log.violate("S2", format_args!("{who} got what it did not ask for"));
    }
}

/// Calls tasks that belong to another scope, and tasks that do not exist.
pub(crate) async fn intruder(ctx: Rc<ActorContext>, number: u32) {
    let mut rng = SimRng::new(ctx.seed, Stream::Intruder(number));
    let own = number as usize % ctx.accesses.len();
    let who = format!("intruder-{number}");
    while !ctx.is_over.get() {
        ctx.sleep(rng.between(PAUSE_MS.0, PAUSE_MS.1)).await;
        let run = match rng.chance(500) {
            true => ctx.pick_foreign_run(&mut rng, own),
            false => Some(MISSING.to_owned()),
        };
        let Some(run) = run else { continue };
        ctx.log.fault(Fault::ForeignTried);
        let op = if rng.chance(500) { Operation::Get } else { Operation::Cancel };
        let (method, path, body) = match op {
            Operation::Get => ("GET", format!("/v1/runs/{run}"), None),
            _ => ("POST", format!("/v1/runs/{run}/cancel"), Some(json!({ "reason": "mine" }))),
        };
        let ask = HttpRequest {
            method,
            path,
            bearer: ctx.accesses[own].client_key.clone(),
            idempotency_key: None,
            body: body.map(|body: Value| body.to_string().into_bytes()),
        };
        let invoke = Invoke {
            task: Some(name(&run)),
            scope: Some(ctx.accesses[own].scope.clone()),
            shown: Some(Credential { class: Class::Client, task: None, attempt: None }),
            ..history::invoke(op)
        };
        let to = ctx.pick_host(&mut rng);
        let calling =
            OutgoingCall { who: &who, to, ask, timeout_ms: TIMEOUT_MS, invokes: vec![invoke] };
        let called = ctx.call(calling).await;
        ctx.record_return(&who, called.calls[0], intruder_return(&called, &run));
    }
}

/// The answer an intruder got, without the id it asked for and without the parts that differ in every answer.
fn intruder_return(called: &FinishedCall, run: &str) -> Return {
    let CallEnd::Answered(HttpResponse { status, body }) = &called.ending else {
        return history::answer(Answer::Info);
    };
    let mut told: Value = serde_json::from_slice(body).expect("an answer is as documented");
    for own in ["serverTime", "requestId", "instance"] {
        told.as_object_mut().and_then(|members| members.remove(own));
    }
    let text = told.to_string().replace(run, "ID").replace(&name(run), "ID");
    let answer = if *status < 300 { Answer::Ok } else { Answer::Fail };
    let code = told["error"].as_str().map(str::to_owned);
    Return { code, body: Some(text), ..history::answer(answer) }
}

/// Revokes spare keys, one after the other.
pub(crate) async fn administrator(ctx: Rc<ActorContext>) {
    let Some(administrator) = ctx.administrator.clone() else { return };
    let mut rng = SimRng::new(ctx.seed, Stream::Intruder(u32::MAX));
    let who = "administrator";
    for key in administrator.spare_keys {
        ctx.sleep(rng.between(PAUSE_MS.0, PAUSE_MS.1)).await;
        let ask = HttpRequest {
            method: "POST",
            path: format!("/v1/keys/{key}/revoke"),
            bearer: administrator.key.clone(),
            idempotency_key: None,
            body: None,
        };
        let invoke = Invoke {
            change: Some(format!("key.revoked {key}")),
            shown: Some(Credential { class: Class::Admin, task: None, attempt: None }),
            ..history::invoke(Operation::Administer)
        };
        let to = ctx.pick_host(&mut rng);
        let calling = OutgoingCall { who, to, ask, timeout_ms: TIMEOUT_MS, invokes: vec![invoke] };
        let called = ctx.call(calling).await;
        let given = match &called.ending {
            CallEnd::Answered(HttpResponse { status, .. }) if *status < 300 => Answer::Ok,
            CallEnd::Answered(_) | CallEnd::Refused => Answer::Fail,
            CallEnd::Gone => Answer::Info,
        };
        ctx.record_return(who, called.calls[0], history::answer(given));
    }
}

/// Calls that must be refused in every state.
pub(crate) fn forbidden(ctx: &ActorContext) -> Vec<HttpRequest> {
    let (own, other) = (&ctx.accesses[0], &ctx.accesses[1]);
    let runs = ctx.observations.borrow().owned.clone();
    let foreign = runs.iter().find(|(scope, _)| *scope == 1).or(runs.first());
    let run = foreign.map_or(MISSING.to_owned(), |(_, run)| run.clone());
    let bearer = if foreign.is_some_and(|(scope, _)| *scope == 1) { own } else { other };
    let poll = json!({ "workerId": "w", "queues": ["q0"], "max": 1, "waitMs": 0 });
    let spec = json!({ "kind": "work", "input": {} });
    let report = json!({ "attempt": 1, "workerId": "w", "outcome": "SUCCEEDED", "output": 1 });
    let task = run.replace("run_", "task_");
    let nobody = "tk_0000_0000_0000".to_owned();
    let ask = |method, path: String, bearer: &String, body: Option<&Value>| HttpRequest {
        method,
        path,
        bearer: bearer.clone(),
        idempotency_key: None,
        body: body.map(|body| body.to_string().into_bytes()),
    };
    vec![
        ask("GET", format!("/v1/runs/{run}"), &bearer.client_key, None),
        ask("POST", format!("/v1/runs/{run}/cancel"), &bearer.client_key, Some(&json!({}))),
        ask("GET", format!("/v1/runs/{run}"), &nobody, None),
        ask("POST", "/v1/leases".to_owned(), &own.client_key, Some(&poll)),
        ask("POST", "/v1/runs".to_owned(), &own.worker_key, Some(&spec)),
        ask("POST", "/v1/keys/0000/revoke".to_owned(), &own.client_key, None),
        ask("POST", format!("/v1/tasks/{task}/completed"), &own.worker_key, Some(&report)),
    ]
}

/// Makes one forbidden call.
pub(crate) async fn try_forbidden(ctx: Rc<ActorContext>, ask: HttpRequest) {
    let (method, path) = (ask.method, ask.path.clone());
    let calling =
        OutgoingCall { who: "intruder", to: 0, ask, timeout_ms: TIMEOUT_MS, invokes: Vec::new() };
    match ctx.call(calling).await.ending {
        CallEnd::Answered(HttpResponse { status, .. }) if status >= 400 => {}
        ending => {
            ctx.log.violate("S2", format_args!("{method} {path} was not refused: {ending:?}"));
        }
    }
}
