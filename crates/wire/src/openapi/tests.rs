//! Compares the document with the structs: same members, same required ones, every reference
//! resolved.

mod administration;
mod budgets;
mod deployments;
mod flow;
mod kinds;
mod records;
mod references;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::budgets::{budget, budget_left, budget_view, limits};
use self::kinds::{announced_kind, announcement, kind_view};
use self::records::{attempt_view, claims, record, recorded_run, tool_call};
use super::*;

fn generated() -> Value {
    serde_json::from_str(&openapi_json()).unwrap()
}

fn names_of(object: &Value) -> BTreeSet<String> {
    object.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
}

/// Compares one struct with its schema, using a sample in which every member is present.
struct Shapes {
    schemas: Value,
    seen: BTreeSet<String>,
}

impl Shapes {
    fn check<T: Serialize + DeserializeOwned>(&mut self, name: &str, sample: Value) {
        let read = |value: &Value| serde_json::from_str::<T>(&value.to_string());
        let value = read(&sample).unwrap_or_else(|error| panic!("{name}: {error}"));
        let written: Value = serde_json::from_str(&serde_json::to_string(&value).unwrap()).unwrap();
        assert_eq!(written, sample, "{name} does not survive a round trip");
        let schema = &self.schemas[name];
        assert_eq!(names_of(&written), names_of(&schema["properties"]), "members of {name}");
        let required: BTreeSet<String> =
            serde_json::from_value(schema.get("required").cloned().unwrap_or(json!([]))).unwrap();
        for member in names_of(&sample) {
            let mut without = sample.clone();
            without.as_object_mut().unwrap().remove(&member);
            assert_eq!(
                read(&without).is_err(),
                required.contains(&member),
                "{name}.{member} required"
            );
        }
        self.seen.insert(name.to_owned());
    }

    fn check_strict<T: Serialize + DeserializeOwned>(&mut self, name: &str, sample: Value) {
        let mut more = sample.clone();
        more["surprise"] = json!(1);
        assert!(
            serde_json::from_str::<T>(&more.to_string()).is_err(),
            "{name} takes unknown members"
        );
        assert_eq!(self.schemas[name]["additionalProperties"], json!(false), "{name}");
        self.check::<T>(name, sample);
    }

    fn check_open<T: Serialize + DeserializeOwned>(&mut self, name: &str, sample: Value) {
        let mut more = sample.clone();
        more["surprise"] = json!(1);
        assert!(serde_json::from_str::<T>(&more.to_string()).is_ok(), "{name} refuses to grow");
        self.check::<T>(name, sample);
    }
}

const AT: &str = "2026-03-01T12:00:00.000Z";

fn resources() -> Value {
    json!({"memoryBytes": 1, "cpuMillicores": 2, "timeoutMs": 3})
}

fn metrics() -> Value {
    json!({"cpuTimeMs": 1, "peakMemoryBytes": 2, "ioReadBytes": 3, "ioWriteBytes": 4})
}

fn submit_run() -> Value {
    json!({
        "kind": "k", "queue": "q", "input": {"a": 1}, "goal": "g", "taskKey": "t", "assetId": "a",
        "resources": resources(), "priority": 1, "maxAttempts": 2, "lostMax": 3, "leaseMs": 4,
        "heartbeatIntervalMs": 5, "cancelGraceMs": 6, "runAt": AT, "delayMs": 1, "deadline": AT,
        "deadlineMs": 2, "seed": 7,
        "labels": {"l": "v"}, "retry": {"baseMs": 1, "capMs": 2}, "traceparent": "p", "budget": budget(),
        "idempotencyKey": "i", "plan": plan(), "stall": {"afterMs": 1, "action": "warn"}, "ttlMs": 1,
        "flow": {"key": "f", "limit": 1, "rate": {"count": 10, "perMs": 1000}, "debounceMs": 5, "debounceMaxMs": 9, "hold": "life"},
    })
}

fn plan() -> Value {
    json!({"steps": [plan_step()]})
}

fn plan_step() -> Value {
    json!({"key": "s", "kind": "k", "queue": "q", "input": 1, "dependsOn": ["r"], "onError": "continue",
        "maxAttempts": 2, "lostMax": 3, "retry": {"baseMs": 1, "capMs": 2}, "leaseMs": 4,
        "heartbeatIntervalMs": 5, "cancelGraceMs": 6, "deadlineMs": 7, "ceiling": ceiling(),
        "always": true, "gate": true, "approval": {"quorum": 1},
        "when": {"path": "r.state", "op": "equals", "value": "succeeded"}})
}

fn ceiling() -> Value {
    json!({"costMicros": 1, "tokens": 2, "toolCalls": 3, "steps": 4})
}

fn reported_error() -> Value {
    json!({"category": "USER_CODE", "message": "m", "stackTrace": "s", "retryable": true})
}

fn completed() -> Value {
    json!({
        "attempt": 1, "workerId": "w", "outcome": "FAILED", "completedAt": AT, "output": {"o": 1},
        "error": reported_error(), "metrics": metrics(), "cancelledDuringPhase": "p",
        "partialProgress": [1], "traceparent": "p", "spend": spend(), "steps": [step()], "children": [child_run()],
        "effects": [effect()], "next": true, "log": [log_line()],
    })
}

fn step() -> Value {
    json!({"key": "a#1", "outcome": "FAILED", "result": 1, "error": step_error(), "inputDigest": "d",
        "spend": spend(), "savepoint": true})
}

fn step_error() -> Value {
    json!({"category": "TIMEOUT", "reason": "R", "message": "m", "stackTrace": "s", "retryable": true})
}

fn spend() -> Value {
    json!({"costMicros": 1, "tokens": 2, "toolCalls": 3})
}

fn child_run() -> Value {
    let mut child = submit_run();
    child.as_object_mut().unwrap().remove("idempotencyKey");
    child.as_object_mut().unwrap().remove("plan");
    child["key"] = json!("c");
    child["detached"] = json!(true);
    child["inputDigest"] = json!("d");
    child
}

fn wait_for() -> Value {
    json!({"key": "w", "mode": "any", "for": [awaited_item()], "maxMs": 5})
}

fn awaited_item() -> Value {
    let mut item = awaited();
    item["approval"] = json!({"quorum": 1, "digest": "0".repeat(64)});
    item["effect"] = awaited_effect();
    item
}

fn awaited_effect() -> Value {
    json!({"step": "s", "key": "k"})
}

fn awaited() -> Value {
    json!({"key": "i", "until": AT, "signal": "s", "child": "c", "approval": "i", "effect": "i"})
}

fn diverged() -> Value {
    json!({"branch": "b", "index": 1, "recorded": "r", "actual": "a"})
}

fn effect() -> Value {
    json!({"key": "k", "step": "s", "endpoint": "e", "type": "t", "aggregate": "a", "body": 1})
}

fn checkpoint_call() -> Value {
    json!({"attempt": 1, "workerId": "w", "steps": [step()], "children": [child_run()],
        "wait": wait_for(), "diverged": diverged(), "effects": [effect()], "log": [log_line()]})
}

fn checkpoint() -> Value {
    json!({
        "number": 1, "key": "k", "kind": "WAIT", "outcome": "SUCCEEDED", "result": 1,
        "error": step_error(), "inputDigest": "d", "attempt": 1, "recordedAt": AT, "savepoint": true,
        "spend": spend(), "taskId": "t", "detached": true, "wait": wait_outcome(),
    })
}

fn wait_outcome() -> Value {
    json!({"winner": "i", "signals": [{"key": "i", "name": "s", "payload": 1}]})
}

fn checkpoint_ack() -> Value {
    json!({
        "acknowledged": true, "verdict": "COMMITTED", "state": "running", "replayed": false,
        "recordedAt": AT, "results": [checkpoint()], "resultsLeftOut": true,
        "children": [{"key": "c", "taskId": "t"}], "shouldCancel": true, "cancelReason": "c",
        "leaseExpiresAt": AT, "taskToken": "k", "tokenExpiresAt": AT, "serverTime": AT, "left": budget_left(),
    })
}

fn checkpoint_answer() -> Value {
    let mut answer = checkpoint_ack();
    for gone in ["acknowledged", "serverTime"] {
        answer.as_object_mut().unwrap().remove(gone);
    }
    answer["taskId"] = json!("t");
    answer["status"] = json!(200);
    answer["error"] = json!("e");
    answer["message"] = json!("m");
    answer["field"] = json!("f");
    answer["expectedAttempt"] = json!(2);
    answer["receivedAttempt"] = json!(1);
    answer
}

fn child_view() -> Value {
    let leaf = json!({"key": "c", "taskId": "t", "kind": "k", "queue": "q", "state": "waiting",
        "detached": true, "startedAt": AT});
    let mut child = leaf.clone();
    child["children"] = json!([leaf]);
    child
}

fn open_wait() -> Value {
    json!({"key": "w", "mode": "all", "for": [awaited()], "count": 1, "missing": 1, "givesUpAt": AT})
}

fn waiting_view() -> Value {
    json!({"wait": open_wait(), "readyAt": AT, "diverged": diverged(),
        "ending": {"state": "failed", "reason": "R"}})
}

fn durable_view() -> Value {
    json!({"steps": 1, "children": 2, "liveChildren": 1, "pendingSignals": 3, "suspensions": 4,
        "savepoint": 5, "seed": 6, "spend": spend(), "waiting": waiting_view(),
        "build": {"id": "b", "pinned": true}})
}

fn parent() -> Value {
    json!({"taskId": "t", "key": "c", "detached": true})
}

fn heartbeat() -> Value {
    json!({"attempt": 1, "workerId": "w", "heartbeatAt": AT, "progressPct": 1.5, "message": "m", "spend": spend(),
        "log": [log_line()]})
}

fn log_line() -> Value {
    json!({"n": 1, "at": AT, "level": "warn", "text": "t"})
}

fn logged_line() -> Value {
    json!({"attempt": 1, "n": 2, "at": AT, "level": "info", "text": "t", "dropped": 1})
}

fn in_batch(mut call: Value) -> Value {
    call["taskId"] = json!("t");
    call["taskToken"] = json!("k");
    call
}

fn run_accepted() -> Value {
    json!({"runId": "r", "taskId": "t", "state": "queued", "createdAt": AT, "replayed": true, "run": run()})
}

fn submit_result() -> Value {
    let mut result = run_accepted();
    result.as_object_mut().unwrap().remove("run");
    result["error"] = json!("e");
    result["message"] = json!("m");
    result["field"] = json!("f");
    result
}

fn run_error() -> Value {
    json!({"category": "TIMEOUT", "reason": "DEADLINE", "message": "m", "stackTrace": "s"})
}

fn lease() -> Value {
    json!({
        "leaseId": "l", "owner": "w", "attempt": 1, "fence": 2, "claimVersion": 3, "acquiredAt": AT,
        "heartbeatAt": AT, "expiresAt": AT, "progressPct": 0.5, "message": "m", "progressedAt": AT,
        "stalledAt": AT,
    })
}

fn refused_call() -> Value {
    json!({"attempt": 1, "workerId": "w", "call": "report", "error": "task_expired",
        "verdict": "CANCELLED", "at": AT})
}

fn run() -> Value {
    let mut run = json!({
        "runId": "r", "taskId": "t", "tenantId": "default", "workspaceId": "default", "kind": "k",
        "queue": "q", "state": "running", "attempt": 1, "failures": 0, "lost": 0, "maxAttempts": 3,
        "priority": 0, "lostMax": 3, "leaseMs": 4, "heartbeatIntervalMs": 5, "cancelGraceMs": 6,
        "retry": {"baseMs": 1, "capMs": 2}, "resources": resources(), "seed": 7,
        "idempotencyKey": "i", "retryOf": "r", "workerId": "w", "output": [], "error": run_error(), "labels": {}, "goal": "g", "taskKey": "t",
        "assetId": "a", "createdAt": AT, "startedAt": AT, "completedAt": AT, "runAt": AT,
        "nextAttemptAt": AT, "deadline": AT, "cancelRequestedAt": AT, "cancelReason": "c",
        "lease": lease(), "input": {}, "refused": [refused_call()], "serverTime": AT,
    });
    (run["forkOf"], run["forks"], run["retries"]) = (json!("r"), json!(["r"]), json!(["r"]));
    run["parent"] = parent();
    run["durable"] = durable_view();
    run["budget"] = budget_view();
    run["plan"] = json!([plan_stage()]);
    run["planSteps"] = json!(1);
    run["stall"] = json!({"afterMs": 1, "action": "warn"});
    run["ttlMs"] = json!(1);
    run["flow"] = json!({"key": "f", "limit": 1, "rate": {"count": 10, "perMs": 1000}, "debounceMs": 5, "debounceMaxMs": 9, "hold": "life"});
    run["children"] = json!([child_view()]);
    run
}

fn plan_stage() -> Value {
    json!({"key": "s", "kind": "k", "queue": "q", "state": "blocked", "reason": "R", "message": "m",
        "dependsOn": ["a"], "waitsFor": 1, "taskId": "t", "approvalId": "a", "startedAt": AT, "completedAt": AT})
}

fn envelope() -> Value {
    json!({
        "taskId": "t", "runId": "r", "tenantId": "default", "workspaceId": "default", "taskKey": "k",
        "assetId": "a", "resources": resources(), "kind": "k", "queue": "q", "attempt": 1,
        "leaseId": "l", "fence": 1, "input": {"a": 1}, "enqueuedAt": AT, "deadline": AT,
        "leaseExpiresAt": AT, "callbackBaseUrl": "http://127.0.0.1:7400", "taskToken": "k",
        "tokenExpiresAt": AT, "heartbeatIntervalMs": 30000, "heartbeatTimeoutMs": 90000,
        "cancelGracePeriodMs": 30000, "labels": {}, "traceparent": "p", "seed": 1, "origin": "t", "parentTaskId": "t",
        "checkpoints": [checkpoint()], "checkpointsAfter": 1, "budgetLeft": budget_left(), "stage": "s",
    })
}

fn report_answer() -> Value {
    json!({
        "taskId": "t", "status": 200, "verdict": "COMMITTED", "state": "retry", "finalState": "FAILED",
        "replayed": false, "error": "e", "message": "m", "field": "f", "expectedAttempt": 2,
        "receivedAttempt": 1, "next": envelope(),
    })
}

fn heartbeat_answer() -> Value {
    json!({
        "taskId": "t", "status": 200, "verdict": "COMMITTED", "shouldCancel": true, "cancelReason": "c",
        "leaseExpiresAt": AT, "taskToken": "k", "tokenExpiresAt": AT, "left": budget_left(), "state": "running", "error": "e",
        "message": "m", "field": "f", "expectedAttempt": 2, "receivedAttempt": 1,
    })
}

fn start_answer() -> Value {
    json!({
        "taskId": "t", "status": 200, "verdict": "COMMITTED", "state": "running", "error": "e",
        "message": "m", "field": "f", "expectedAttempt": 2, "receivedAttempt": 1,
    })
}

fn history_entry() -> Value {
    json!({"n": 1, "at": AT, "kind": "granted", "attempt": 1, "detail": {"owner": "w"}})
}

fn queue_view() -> Value {
    json!({"queue": "q", "ready": 1, "parked": 4, "delayed": 2, "running": 3, "oldestReadyAt": AT,
        "pause": pause()})
}

fn pause() -> Value {
    json!({"pausedAt": AT, "pausedBy": "k", "reason": "r"})
}

fn problem_sample() -> Value {
    json!({
        "type": "u", "title": "t", "status": 409, "detail": "d", "instance": "i", "error": "e",
        "message": "m", "requestId": "r", "verdict": "CANCELLED", "state": "CANCELLED",
        "expectedAttempt": 2, "receivedAttempt": 1, "retryAfterMs": 5, "field": "f", "serverTime": AT,
    })
}

#[test]
fn every_schema_has_exactly_the_members_of_its_struct() {
    // S4-14, S4-15, S4-19, S4-26, S4-29, S4-30, S4-34, S4-35: requests spell the contract's members.
    let mut shapes =
        Shapes { schemas: generated()["components"]["schemas"].clone(), seen: BTreeSet::new() };
    shapes.check_strict::<requests::SubmitRun>("SubmitRun", submit_run());
    shapes.check_strict::<requests::SubmitMany>("SubmitMany", json!({"runs": [submit_run()]}));
    shapes.check_strict::<requests::Resources>("Resources", resources());
    shapes.check_strict::<crate::plan::Plan>("Plan", plan());
    shapes.check_strict::<crate::plan::PlanStep>("PlanStep", plan_step());
    shapes.check_strict::<crate::plan::Ceiling>("Ceiling", ceiling());
    shapes.check_strict::<requests::Stall>("Stall", json!({"afterMs": 1, "action": "warn"}));
    shapes.check_open::<answers::PlanStage>("PlanStage", plan_stage());
    shapes.check_strict::<requests::Retry>("Retry", json!({"baseMs": 1, "capMs": 2}));
    shapes.check_strict::<requests::WaitForRuns>(
        "WaitForRuns",
        json!({"runIds": ["run_1"], "waitMs": 1}),
    );
    shapes.check_strict::<requests::CancelRun>("CancelRun", json!({"reason": "r", "force": true}));
    shapes.check_strict::<requests::RetryRun>("RetryRun", json!({"fromScratch": true}));
    let fork = json!({"budget": budget(), "fromStep": "s"});
    shapes.check_strict::<requests::ForkRun>("ForkRun", fork);
    let poll = json!({"workerId": "w", "queues": ["q"], "kinds": ["k"], "max": 1, "waitMs": 2,
        "pollId": "p", "announce": announcement(), "announced": "a"});
    shapes.check_strict::<requests::LeaseRequest>("LeaseRequest", poll);
    shapes.check_strict::<requests::Announcement>("Announcement", announcement());
    shapes.check_strict::<requests::AnnouncedKind>("AnnouncedKind", announced_kind());
    let started = json!({"attempt": 1, "workerId": "w", "startedAt": AT});
    shapes.check_strict::<requests::StartItem>("StartItem", in_batch(started.clone()));
    let starts = json!({"starts": [in_batch(started.clone())]});
    shapes.check_strict::<requests::Starts>("Starts", starts);
    shapes.check_strict::<requests::Started>("Started", started);
    shapes.check_strict::<requests::Heartbeat>("Heartbeat", heartbeat());
    shapes.check_strict::<requests::Completed>("Completed", completed());
    shapes.check_strict::<requests::ReportedError>("ReportedError", reported_error());
    shapes.check_strict::<requests::Metrics>("Metrics", metrics());
    let reports = json!({"reports": [in_batch(completed())]});
    shapes.check_strict::<requests::Reports>("Reports", reports);
    shapes.check_strict::<requests::Report>("Report", in_batch(completed()));
    let heartbeats = json!({"heartbeats": [in_batch(heartbeat())]});
    shapes.check_strict::<requests::Heartbeats>("Heartbeats", heartbeats);
    shapes.check_strict::<requests::HeartbeatItem>("HeartbeatItem", in_batch(heartbeat()));
    check_durable(&mut shapes);
    check_answers(&mut shapes);
    let vocabularies = [
        "Verdict",
        "Outcome",
        "AttemptOutcome",
        "ErrorCategory",
        "State",
        "Role",
        "LogLevel",
        "StepOutcome",
        "CheckpointOutcome",
        "CheckpointKind",
        "WaitMode",
        "Builds",
        "ApprovalDecision",
        "ApprovalOutcome",
        "ApprovalState",
        "EffectState",
        "EndpointState",
        "OnDead",
        "OnError",
        "StallAction",
        "FlowHold",
        "PageStop",
        "OnSoft",
        "CatchUp",
        "Overlap",
        "ScheduleState",
        "BudgetPeriod",
        "BudgetState",
        "RecoveryAction",
        "RecoveryEvaluator",
        "CandidateState",
        "DeploymentState",
        "WorkOrderState",
        "PauseStateState",
    ];
    let plain = ["Time", "Json"];
    let named: BTreeSet<String> = names_of(&shapes.schemas)
        .into_iter()
        .filter(|name| !vocabularies.contains(&name.as_str()) && !plain.contains(&name.as_str()))
        .collect();
    assert_eq!(shapes.seen, named, "every shape has a sample and every sample a shape");
}

fn check_durable(shapes: &mut Shapes) {
    shapes.check_strict::<requests::CheckpointCall>("CheckpointCall", checkpoint_call());
    let calls = json!({"checkpoints": [in_batch(checkpoint_call())]});
    shapes.check_strict::<requests::CheckpointCalls>("CheckpointCalls", calls);
    shapes.check_strict::<requests::CheckpointItem>("CheckpointItem", in_batch(checkpoint_call()));
    shapes.check_strict::<requests::DeclaredEffect>("DeclaredEffect", effect());
    shapes.check_strict::<requests::StepRecord>("StepRecord", step());
    shapes.check_strict::<requests::StepError>("StepError", step_error());
    shapes.check_strict::<requests::Spend>("Spend", spend());
    shapes.check_strict::<requests::Budget>("Budget", budget());
    shapes.check_strict::<requests::SoftLimits>("SoftLimits", limits());
    shapes.check_strict::<requests::ChildRun>("ChildRun", child_run());
    shapes.check_strict::<requests::WaitFor>("WaitFor", wait_for());
    shapes.check_strict::<requests::AwaitedItem>("AwaitedItem", awaited_item());
    shapes.check_strict::<requests::AwaitedEffect>("AwaitedEffect", awaited_effect());
    shapes.check_strict::<requests::Diverged>("Diverged", diverged());
    let signal = json!({"name": "n", "payload": 1});
    shapes.check_strict::<requests::SendSignal>("SendSignal", signal);
    shapes.check_strict::<requests::ResumeRun>("ResumeRun", json!({}));
    shapes.check_strict::<requests::UnpinRun>("UnpinRun", json!({}));
    shapes.check_open::<answers::Checkpoint>("Checkpoint", checkpoint());
    shapes.check_open::<answers::CheckpointError>("CheckpointError", step_error());
    shapes.check_open::<answers::WaitOutcome>("WaitOutcome", wait_outcome());
    let taken = json!({"key": "i", "name": "s", "payload": 1});
    shapes.check_open::<answers::TakenSignal>("TakenSignal", taken);
    let page = json!({"checkpoints": [checkpoint()], "nextAfter": 1});
    shapes.check_open::<answers::Checkpoints>("Checkpoints", page);
    let steps = json!({"steps": [checkpoint()], "nextAfter": 1});
    shapes.check_open::<answers::Steps>("Steps", steps);
    shapes.check_open::<answers::CheckpointAck>("CheckpointAck", checkpoint_ack());
    let answers = json!({"answers": [checkpoint_answer()], "serverTime": AT});
    shapes.check_open::<answers::CheckpointAnswers>("CheckpointAnswers", answers);
    shapes.check_open::<answers::CheckpointAnswer>("CheckpointAnswer", checkpoint_answer());
    let started = json!({"key": "c", "taskId": "t"});
    shapes.check_open::<answers::StartedChild>("StartedChild", started);
    check_durable_views(shapes);
}

fn check_durable_views(shapes: &mut Shapes) {
    let accepted = json!({"runId": "r", "state": "waiting", "replayed": true});
    shapes.check_open::<answers::SignalAccepted>("SignalAccepted", accepted);
    let resumed = json!({"runId": "r", "state": "waiting"});
    shapes.check_open::<answers::RunResumed>("RunResumed", resumed.clone());
    shapes.check_open::<answers::RunUnpinned>("RunUnpinned", resumed);
    let build = json!({"id": "b", "pinned": true});
    shapes.check_open::<answers::RunBuild>("RunBuild", build);
    let children = json!({"children": [child_view()], "nextAfter": 1});
    shapes.check_open::<answers::Children>("Children", children);
    let steps = json!({"steps": [plan_stage()], "nextAfter": 1});
    shapes.check_open::<answers::PlanSteps>("PlanSteps", steps);
    shapes.check_open::<answers::ChildView>("ChildView", child_view());
    shapes.check_open::<answers::DurableView>("DurableView", durable_view());
    shapes.check_open::<answers::BudgetLeft>("BudgetLeft", budget_left());
    shapes.check_open::<answers::BudgetAmounts>("BudgetAmounts", limits());
    shapes.check_open::<answers::BudgetView>("BudgetView", budget_view());
    shapes.check_open::<answers::WaitingView>("WaitingView", waiting_view());
    shapes.check_open::<answers::OpenWait>("OpenWait", open_wait());
    let mut view = awaited();
    view["expiresAt"] = json!(AT);
    shapes.check_open::<answers::AwaitedView>("AwaitedView", view);
    shapes.check_open::<answers::Divergence>("Divergence", diverged());
    shapes.check_open::<answers::Spent>("Spent", spend());
    let ending = json!({"state": "failed", "reason": "R"});
    shapes.check_open::<answers::Ending>("Ending", ending);
    shapes.check_open::<answers::Parent>("Parent", parent());
}

fn check_answers(shapes: &mut Shapes) {
    // S4-16, S4-21, S4-22, S4-31, S4-69, S4-70, S4-71, S4-72: answers spell the contract's members.
    shapes.check_open::<answers::RunAccepted>("RunAccepted", run_accepted());
    let results = json!({"results": [submit_result()]});
    shapes.check_open::<answers::SubmitResults>("SubmitResults", results);
    shapes.check_open::<answers::SubmitResult>("SubmitResult", submit_result());
    shapes.check_open::<answers::Run>("Run", run());
    shapes.check_open::<answers::RetryPolicy>("RetryPolicy", json!({"baseMs": 1, "capMs": 2}));
    shapes.check_open::<answers::RefusedCall>("RefusedCall", refused_call());
    shapes.check_open::<answers::RunError>("RunError", run_error());
    shapes.check_open::<answers::Lease>("Lease", lease());
    shapes.check_open::<answers::WaitAnswer>(
        "WaitAnswer",
        json!({
            "ended": [run()], "pending": ["run_1"], "notFound": ["run_2"],
            "serverTime": "2026-01-02T03:04:05.006Z",
        }),
    );
    let list = json!({"runs": [run()], "nextCursor": "c", "stopped": "scan", "searched": 1, "searchedTo": AT});
    shapes.check_open::<answers::RunList>("RunList", list);
    let cancelled = json!({"runId": "r", "state": "running", "cancelRequestedAt": AT});
    shapes.check_open::<answers::CancelAccepted>("CancelAccepted", cancelled);
    let leases = json!({"leases": [envelope()], "signals": [{"taskId": "t"}],
        "announceAgain": true, "serverTime": AT});
    shapes.check_open::<answers::Leases>("Leases", leases);
    shapes.check_open::<answers::KindView>("KindView", kind_view());
    let session = json!({"keyId": "k", "name": "n", "tenantId": "t", "workspaceId": "w", "roles": ["reader"],
        "queues": ["q"], "may": ["runs.read"], "expiresAt": AT, "serverTime": AT});
    shapes.check_open::<answers::Session>("Session", session);
    let code = json!({"code": "c", "path": "/console/#code=c", "expiresAt": AT, "serverTime": AT});
    shapes.check_open::<answers::ConsoleCode>("ConsoleCode", code);
    let kinds =
        json!({"kinds": [kind_view()], "nextAfter": "k", "coordinators": 1, "serverTime": AT});
    shapes.check_open::<answers::Kinds>("Kinds", kinds);
    shapes.check_open::<answers::Signal>("Signal", json!({"taskId": "t"}));
    shapes.check_open::<answers::Envelope>("Envelope", envelope());
    let started = json!({"acknowledged": true, "verdict": "COMMITTED", "serverTime": AT});
    shapes.check_open::<answers::StartedAck>("StartedAck", started);
    let starts = json!({"answers": [start_answer()], "serverTime": AT});
    shapes.check_open::<answers::StartAnswers>("StartAnswers", starts);
    shapes.check_open::<answers::StartAnswer>("StartAnswer", start_answer());
    let beat = json!({"acknowledged": true, "verdict": "COMMITTED", "shouldCancel": true,
        "cancelReason": "c", "leaseExpiresAt": AT, "taskToken": "k", "tokenExpiresAt": AT, "left": budget_left(),
        "serverTime": AT});
    shapes.check_open::<answers::HeartbeatAck>("HeartbeatAck", beat);
    let done = json!({"acknowledged": true, "verdict": "COMMITTED", "finalState": "SUCCEEDED",
        "state": "succeeded", "replayed": false, "next": envelope(), "serverTime": AT});
    shapes.check_open::<answers::CompletedAck>("CompletedAck", done);
    let reports = json!({"answers": [report_answer()], "serverTime": AT});
    shapes.check_open::<answers::ReportAnswers>("ReportAnswers", reports);
    shapes.check_open::<answers::ReportAnswer>("ReportAnswer", report_answer());
    let beats = json!({"answers": [heartbeat_answer()], "serverTime": AT});
    shapes.check_open::<answers::HeartbeatAnswers>("HeartbeatAnswers", beats);
    shapes.check_open::<answers::HeartbeatAnswer>("HeartbeatAnswer", heartbeat_answer());
    let history = json!({"entries": [history_entry()], "nextAfter": 1});
    shapes.check_open::<answers::History>("History", history);
    shapes.check_open::<answers::HistoryEntry>("HistoryEntry", history_entry());
    shapes.check_strict::<requests::LogLine>("LogLine", log_line());
    let logs = json!({"lines": [logged_line()], "nextAfter": "1.2"});
    shapes.check_open::<answers::Logs>("Logs", logs);
    shapes.check_open::<answers::LoggedLine>("LoggedLine", logged_line());
    shapes.check_open::<answers::RecordedRun>("RecordedRun", recorded_run());
    shapes.check_open::<answers::ToolCall>("ToolCall", tool_call());
    shapes.check_open::<answers::Record>("Record", record());
    let gate = json!({"gate": "ready", "now": "n", "change": "c", "at": AT});
    shapes.check_open::<answers::Gate>("Gate", gate.clone());
    shapes.check_open::<answers::Explanation>(
        "Explanation",
        json!({"runId": "r", "taskId": "t", "state": "queued", "gates": [gate], "serverTime": AT}),
    );
    shapes.check_open::<answers::AttemptView>("AttemptView", attempt_view());
    shapes.check_open::<answers::AttemptClaims>("AttemptClaims", claims());
    administration::check_workers(shapes);
    administration::check_approvals(shapes);
    administration::check_effects(shapes);
    administration::check_schedules(shapes);
    administration::check_recovery(shapes);
    deployments::check(shapes);
    let queues = json!({"queues": [queue_view()], "stopped": "bytes"});
    shapes.check_open::<answers::Queues>("Queues", queues);
    shapes.check_open::<answers::QueueView>("QueueView", queue_view());
    let check = json!({"name": "store", "ok": true, "detail": "d"});
    shapes.check_open::<answers::ReadyCheck>("ReadyCheck", check.clone());
    shapes.check_open::<answers::Ready>("Ready", json!({"ready": true, "checks": [check]}));
    shapes.check_open::<answers::Version>("Version", json!({"version": "0.1.0", "api": "v1"}));
    shapes.check_open::<answers::Problem>("Problem", problem_sample());
    administration::check_administration(shapes);
}

#[test]
fn the_routes_are_those_of_the_interface() {
    // S4-2, S4-3, S4-4: the three callbacks are POST and scoped to one task.
    let document = generated();
    assert_eq!(document["openapi"], "3.1.0");
    let methods: BTreeMap<String, BTreeSet<String>> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, item)| (path.clone(), names_of(item)))
        .collect();
    let expected = [
        ("/livez", "get"),
        ("/metrics", "get"),
        ("/openapi.json", "get"),
        ("/errors/{page}", "get"),
        ("/readyz", "get"),
        ("/v1/approvals", "get"),
        ("/v1/approvals/{approvalId}", "get"),
        ("/v1/approvals/{approvalId}/decide", "post"),
        ("/v1/audit", "get"),
        ("/v1/audit/verify", "get"),
        ("/v1/budgets", "get post"),
        ("/v1/checkpoints", "post"),
        ("/v1/effects", "get"),
        ("/v1/effects/redrive", "post"),
        ("/v1/effects/{effectId}", "get"),
        ("/v1/effects/{effectId}/reconcile", "post"),
        ("/v1/effects/{effectId}/redrive", "post"),
        ("/v1/effects/{effectId}/release", "post"),
        ("/v1/endpoints", "get post"),
        ("/v1/endpoints/{endpoint}", "get post"),
        ("/v1/endpoints/{endpoint}/delete", "post"),
        ("/v1/endpoints/{endpoint}/rotate", "post"),
        ("/v1/heartbeats", "post"),
        ("/v1/keys", "get post"),
        ("/v1/keys/{keyId}/revoke", "post"),
        ("/v1/keys/{keyId}/rotate", "post"),
        ("/v1/leases", "post"),
        ("/v1/limits", "get post"),
        ("/v1/queues", "get"),
        ("/v1/queues/{queue}/pause", "post"),
        ("/v1/queues/{queue}/resume", "post"),
        ("/v1/reports", "post"),
        ("/v1/runs", "get post"),
        ("/v1/waits", "post"),
        ("/v1/kinds", "get"),
        ("/v1/session", "get"),
        ("/v1/console-codes", "post"),
        ("/v1/runs/{runId}", "get"),
        ("/v1/runs/{runId}/cancel", "post"),
        ("/v1/runs/{runId}/history", "get"),
        ("/v1/runs/{runId}/logs", "get"),
        ("/v1/runs/{runId}/retry", "post"),
        ("/v1/runs/{runId}/fork", "post"),
        ("/v1/runs/{runId}/record", "get"),
        ("/v1/runs/{runId}/explain", "get"),
        ("/v1/runs/{runId}/steps", "get"),
        ("/v1/runs/{runId}/children", "get"),
        ("/v1/runs/{runId}/plan", "get"),
        ("/v1/runs/{runId}/signals", "post"),
        ("/v1/runs/{runId}/unpin", "post"),
        ("/v1/runs/{runId}/resume", "post"),
        ("/v1/set-aside", "get"),
        ("/v1/signing-keys/rotate", "post"),
        ("/v1/starts", "post"),
        ("/v1/tasks/{taskId}/checkpoints", "get post"),
        ("/v1/tasks/{taskId}/completed", "post"),
        ("/v1/tasks/{taskId}/heartbeat", "post"),
        ("/v1/tasks/{taskId}/started", "post"),
        ("/v1/workers", "get"),
        ("/v1/flow-keys", "get"),
        ("/version", "get"),
    ];
    let expected: BTreeMap<String, BTreeSet<String>> = expected
        .into_iter()
        .chain(administration::SCHEDULE_PATHS)
        .chain(administration::RECOVERY_PATHS)
        .chain(deployments::PATHS)
        .map(|(path, words)| (path.to_owned(), words.split(' ').map(str::to_owned).collect()))
        .collect();
    assert_eq!(methods, expected);
}

#[test]
fn callers_and_parameters_are_declared() {
    // S4-6: callbacks carry a bearer token of a separate class.
    let document = generated();
    let completed = &document["paths"]["/v1/tasks/{taskId}/completed"]["post"];
    assert_eq!(completed["security"], json!([{"taskToken": []}]));
    assert_eq!(document["paths"]["/v1/leases"]["post"]["security"], json!([{"apiKey": []}]));
    assert!(document["paths"]["/livez"]["get"].get("security").is_none());
    // X46: a key, or none if only this machine can call.
    let metrics = &document["paths"]["/metrics"]["get"];
    assert_eq!(metrics["security"], json!([{"apiKey": []}, {}]));
    assert!(metrics["responses"]["401"].is_object() && metrics["responses"]["403"].is_object());
    let schemes = names_of(&document["components"]["securitySchemes"]);
    assert_eq!(schemes, BTreeSet::from(["apiKey".to_owned(), "taskToken".to_owned()]));
    let list = document["paths"]["/v1/runs"]["get"]["parameters"].as_array().unwrap();
    let names: Vec<&str> =
        list.iter().map(|parameter| parameter["name"].as_str().unwrap()).collect();
    let expected = [
        "state", "queue", "kind", "label", "since", "until", "worker", "category", "children",
        "limit", "cursor", "include",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        (&list[3]["schema"]["type"], &list[3]["required"]),
        (&json!("array"), &json!(false))
    );
    let wait = &document["paths"]["/v1/runs/{runId}"]["get"]["parameters"];
    assert_eq!((&wait[0]["name"], &wait[0]["in"]), (&json!("runId"), &json!("path")));
    assert_eq!((&wait[1]["name"], &wait[1]["required"]), (&json!("waitMs"), &json!(false)));
    let events =
        &document["paths"]["/v1/runs/{runId}/history"]["get"]["responses"]["200"]["content"];
    assert!(events.get("text/event-stream").is_some());
}

#[test]
fn the_document_is_the_same_every_time() {
    assert_eq!(openapi_json(), openapi_json());
    assert!(openapi_json().ends_with("}\n"));
}

/// Compares each limit in the document with the constant that is enforced.
#[test]
fn the_bounds_in_the_document_are_those_that_are_enforced() {
    use crate::limits::*;
    let document = generated();
    let bounds = |shape: &str, member: &str| {
        let schema = &document["components"]["schemas"][shape]["properties"][member];
        (schema["minimum"].as_f64().unwrap(), schema["maximum"].as_f64().unwrap())
    };
    let of = |low: u64, high: u64| (low as f64, high as f64);
    assert_eq!(bounds("SubmitRun", "priority"), (*PRIORITY.start() as f64, *PRIORITY.end() as f64));
    for member in ["maxAttempts", "lostMax"] {
        assert_eq!(bounds("SubmitRun", member), of(*ATTEMPTS.start(), *ATTEMPTS.end()));
    }
    assert_eq!(bounds("SubmitRun", "leaseMs"), of(*LEASE_MS.start(), *LEASE_MS.end()));
    let interval = of(*HEARTBEAT_INTERVAL_MS.start(), *HEARTBEAT_INTERVAL_MS.end());
    assert_eq!(bounds("SubmitRun", "heartbeatIntervalMs"), interval);
    let grace = of(*CANCEL_GRACE_MS.start(), *CANCEL_GRACE_MS.end());
    assert_eq!(bounds("SubmitRun", "cancelGraceMs"), grace);
    assert_eq!(bounds("SubmitRun", "seed"), of(0, INTEGER_MAX));
    assert_eq!(bounds("Retry", "baseMs"), of(*RETRY_BASE_MS.start(), *RETRY_BASE_MS.end()));
    assert_eq!(bounds("Retry", "capMs"), of(*RETRY_CAP_MS.start(), *RETRY_CAP_MS.end()));
    let max = of(*LEASES_PER_POLL.start(), *LEASES_PER_POLL.end());
    assert_eq!(bounds("LeaseRequest", "max"), max);
    assert_eq!(bounds("LeaseRequest", "waitMs"), of(*WAIT_MS.start(), *WAIT_MS.end()));
    for shape in ["Heartbeat", "HeartbeatItem"] {
        assert_eq!(bounds(shape, "progressPct"), (*PROGRESS_PCT.start(), *PROGRESS_PCT.end()));
    }
    let items = |shape: &str, member: &str| {
        document["components"]["schemas"][shape]["properties"][member]["maxItems"].as_u64()
    };
    assert_eq!(items("LeaseRequest", "queues"), Some(QUEUES_PER_POLL_MAX as u64));
    assert_eq!(items("LeaseRequest", "kinds"), Some(KINDS_PER_POLL_MAX as u64));
    for (shape, member) in [
        ("SubmitMany", "runs"),
        ("Reports", "reports"),
        ("Heartbeats", "heartbeats"),
        ("Starts", "starts"),
    ] {
        assert_eq!(items(shape, member), Some(BATCH_ITEMS_MAX as u64));
    }
    assert_eq!(bounds("RotateKey", "overlapMs"), of(0, *KEY_OVERLAP_MS.end()));
    assert_eq!(items("CreateKey", "queues"), Some(QUEUES_PER_KEY_MAX as u64));
    let kind = &document["components"]["schemas"]["SubmitRun"]["properties"]["kind"];
    assert_eq!(kind["maxLength"].as_u64(), Some(NAME_BYTES_MAX as u64));
}
