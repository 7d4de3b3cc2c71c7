//! Those who share the coordinators with everybody else and want nothing from them: workers that wait for what never
//! comes, callers that try what is another's, and somebody who administers keys.

use std::rc::Rc;

use historyck::event::{Answer, Class, Invoke, Operation, Return, Shown};
use serde_json::{Value, json};

use crate::dice::{Dice, Stream};
use crate::fault::Fault;
use crate::history::{self, name};
use crate::network::{Ask, Ending, Reply};
use crate::order::queue;
use crate::stage::{Called, Calling, Stage};

/// How long an idle worker waits for work, how many queues it asks for, and how much of it.
const IDLE_WAIT_MS: (u64, u64) = (5_000, 25_000);
const IDLE_QUEUES_MAX: u64 = 32;
const IDLE_MAX: u64 = 256;

/// How long to wait for an answer beyond that, and between two calls.
const PATIENCE_MS: u64 = 5_000;
const PAUSE_MS: (u64, u64) = (100, 1_000);

/// Something that was never there.
const MISSING: &str = "run_01HF000000000000000000000Z";

/// A worker with nothing to do: its queues are its own invention, or its kinds are.
pub(crate) async fn idler(stage: Rc<Stage>, number: u32) {
    let mut dice = Dice::new(stage.seed, Stream::Idler(number));
    let access = &stage.accesses[number as usize % stage.accesses.len()];
    let who = format!("idler-{number}");
    let invents_kinds = dice.chance(300);
    while !stage.is_over.get() {
        let count = dice.between(1, IDLE_QUEUES_MAX);
        let queues: Vec<String> = match invents_kinds {
            true => (0..stage.options.runs.queues).map(queue).collect(),
            false => (0..count).map(|n| format!("idle-{number}-{n}")).collect(),
        };
        let kinds: Option<Vec<String>> =
            invents_kinds.then(|| (0..count).map(|n| format!("kind-{n}")).collect());
        let (max, wait_ms) =
            (dice.between(1, IDLE_MAX), dice.between(IDLE_WAIT_MS.0, IDLE_WAIT_MS.1));
        let body = json!({
            "workerId": who, "queues": queues, "kinds": kinds, "max": max, "waitMs": wait_ms,
        });
        let ask = Ask {
            method: "POST",
            path: "/v1/leases".to_owned(),
            bearer: access.worker_key.clone(),
            idempotency_key: None,
            body: Some(body.to_string().into_bytes()),
        };
        let to = stage.any_host(&mut dice);
        let patience_ms = PATIENCE_MS + wait_ms;
        let calling = Calling { who: &who, to, ask, patience_ms, invokes: Vec::new() };
        let called = stage.call(calling).await;
        check_idle(&stage, &who, &called);
        stage.sleep(dice.between(PAUSE_MS.0, PAUSE_MS.1)).await;
    }
}

/// Nobody submits what an idle worker asks for.
fn check_idle(stage: &Stage, who: &str, called: &Called) {
    let Ending::Answered(Reply { status: 200, body }) = &called.ending else { return };
    let answer: Value = serde_json::from_slice(body).expect("an answer is as documented");
    if answer["leases"].as_array().is_some_and(|leases| !leases.is_empty()) {
        stage.log.violate("S2", format_args!("{who} got what it did not ask for"));
    }
}

/// Tries what belongs to another scope, and what belongs to nobody.
pub(crate) async fn intruder(stage: Rc<Stage>, number: u32) {
    let mut dice = Dice::new(stage.seed, Stream::Intruder(number));
    let own = number as usize % stage.accesses.len();
    let who = format!("intruder-{number}");
    while !stage.is_over.get() {
        stage.sleep(dice.between(PAUSE_MS.0, PAUSE_MS.1)).await;
        let run = match dice.chance(500) {
            true => stage.any_foreign(&mut dice, own),
            false => Some(MISSING.to_owned()),
        };
        let Some(run) = run else { continue };
        stage.log.fault(Fault::ForeignTried);
        let op = if dice.chance(500) { Operation::Get } else { Operation::Cancel };
        let (method, path, body) = match op {
            Operation::Get => ("GET", format!("/v1/runs/{run}"), None),
            _ => ("POST", format!("/v1/runs/{run}/cancel"), Some(json!({ "reason": "mine" }))),
        };
        let ask = Ask {
            method,
            path,
            bearer: stage.accesses[own].client_key.clone(),
            idempotency_key: None,
            body: body.map(|body: Value| body.to_string().into_bytes()),
        };
        let invoke = Invoke {
            task: Some(name(&run)),
            scope: Some(stage.accesses[own].scope.clone()),
            shown: Some(Shown { class: Class::Client, task: None, attempt: None }),
            ..history::invoke(op)
        };
        let to = stage.any_host(&mut dice);
        let calling =
            Calling { who: &who, to, ask, patience_ms: PATIENCE_MS, invokes: vec![invoke] };
        let called = stage.call(calling).await;
        stage.give(&who, called.calls[0], intruded(&called, &run));
    }
}

/// What an intruder was told, without the name it asked for and without what every answer has of its own.
fn intruded(called: &Called, run: &str) -> Return {
    let Ending::Answered(Reply { status, body }) = &called.ending else {
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

/// Revokes keys that nobody uses, one after the other.
pub(crate) async fn administrator(stage: Rc<Stage>) {
    let Some(administrator) = stage.administrator.clone() else { return };
    let mut dice = Dice::new(stage.seed, Stream::Intruder(u32::MAX));
    let who = "administrator";
    for key in administrator.spare_keys {
        stage.sleep(dice.between(PAUSE_MS.0, PAUSE_MS.1)).await;
        let ask = Ask {
            method: "POST",
            path: format!("/v1/keys/{key}/revoke"),
            bearer: administrator.key.clone(),
            idempotency_key: None,
            body: None,
        };
        let invoke = Invoke {
            change: Some(format!("key.revoked {key}")),
            shown: Some(Shown { class: Class::Admin, task: None, attempt: None }),
            ..history::invoke(Operation::Administer)
        };
        let to = stage.any_host(&mut dice);
        let calling = Calling { who, to, ask, patience_ms: PATIENCE_MS, invokes: vec![invoke] };
        let called = stage.call(calling).await;
        let given = match &called.ending {
            Ending::Answered(Reply { status, .. }) if *status < 300 => Answer::Ok,
            Ending::Answered(_) | Ending::Refused => Answer::Fail,
            Ending::Gone => Answer::Info,
        };
        stage.give(who, called.calls[0], history::answer(given));
    }
}

/// Calls that must be refused, whatever they are about.
pub(crate) fn forbidden(stage: &Stage) -> Vec<Ask> {
    let (own, other) = (&stage.accesses[0], &stage.accesses[1]);
    let runs = stage.books.borrow().owned.clone();
    let foreign = runs.iter().find(|(scope, _)| *scope == 1).or(runs.first());
    let run = foreign.map_or(MISSING.to_owned(), |(_, run)| run.clone());
    let bearer = if foreign.is_some_and(|(scope, _)| *scope == 1) { own } else { other };
    let poll = json!({ "workerId": "w", "queues": ["q0"], "max": 1, "waitMs": 0 });
    let order = json!({ "kind": "work", "input": {} });
    let report = json!({ "attempt": 1, "workerId": "w", "outcome": "SUCCEEDED", "output": 1 });
    let task = run.replace("run_", "task_");
    let nobody = "tk_0000_0000_0000".to_owned();
    let ask = |method, path: String, bearer: &String, body: Option<&Value>| Ask {
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
        ask("POST", "/v1/runs".to_owned(), &own.worker_key, Some(&order)),
        ask("POST", "/v1/keys/0000/revoke".to_owned(), &own.client_key, None),
        ask("POST", format!("/v1/tasks/{task}/completed"), &own.worker_key, Some(&report)),
    ]
}

/// Makes one of them.
pub(crate) async fn try_forbidden(stage: Rc<Stage>, ask: Ask) {
    let (method, path) = (ask.method, ask.path.clone());
    let calling =
        Calling { who: "intruder", to: 0, ask, patience_ms: PATIENCE_MS, invokes: Vec::new() };
    match stage.call(calling).await.ending {
        Ending::Answered(Reply { status, .. }) if status >= 400 => {}
        ending => {
            stage.log.violate("S2", format_args!("{method} {path} was not refused: {ending:?}"));
        }
    }
}
