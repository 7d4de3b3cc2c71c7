//! Shapes of administration: approvals, effects, schedules, pauses, keys, the audit, limits.

use super::*;

pub(super) fn check_approvals(shapes: &mut Shapes) {
    let terms = json!({"roles": ["approver"], "keys": ["k"], "quorum": 1, "expiresAt": AT,
        "expiresInMs": 1, "default": "REJECTED", "subject": "s", "digest": "0".repeat(64),
        "content": {"total": 1}, "subjectFrom": {"$from": "check"}});
    shapes.check_strict::<approvals::ApprovalTerms>("ApprovalTerms", terms);
    let decide = json!({"decision": "APPROVED", "digest": "0".repeat(64), "comment": "c"});
    shapes.check_strict::<approvals::DecideApproval>("DecideApproval", decide);
    let vote = json!({"keyId": "k", "decision": "APPROVED", "comment": "c", "at": AT});
    shapes.check_open::<approvals::VoteView>("VoteView", vote.clone());
    let view = json!({"approvalId": "a", "runId": "r", "taskId": "t", "key": "k",
        "state": "closed", "outcome": "APPROVED", "subject": "s", "digest": "d",
        "roles": ["approver"], "keys": ["k"], "quorum": 1, "content": "c", "hasContent": true, "openedAt": AT,
        "expiresAt": AT, "default": "REJECTED", "votes": [vote]});
    shapes.check_open::<approvals::ApprovalView>("ApprovalView", view.clone());
    let list = json!({"approvals": [view], "cursor": "c"});
    shapes.check_open::<approvals::ApprovalList>("ApprovalList", list);
    let decided = json!({"approvalId": "a", "state": "closed", "outcome": "APPROVED",
        "serverTime": AT});
    shapes.check_open::<approvals::ApprovalDecided>("ApprovalDecided", decided);
}

pub(super) fn check_effects(shapes: &mut Shapes) {
    let settings = json!({"url": "https://example.com/in", "types": ["run.*"], "idempotent": true,
        "maxTries": 5, "retry": {"baseMs": 5000, "capMs": 6000}, "onDead": "skip",
        "concurrency": 2, "ratePerSecond": 3, "queues": ["q"]});
    let with = |member: &str, value| {
        let mut settings = settings.clone();
        settings[member] = value;
        settings
    };
    shapes.check_strict::<effects::CreateEndpoint>("CreateEndpoint", with("name", json!("n")));
    shapes.check_strict::<effects::UpdateEndpoint>("UpdateEndpoint", with("enabled", json!(true)));
    shapes.check_strict::<effects::RotateEndpoint>("RotateEndpoint", json!({"overlapMs": 1}));
    let mut view = with("name", json!("n"));
    view["state"] = json!("disabled");
    view["disabledBecause"] = json!("b");
    view["createdAt"] = json!(AT);
    view["previousSecretUntil"] = json!(AT);
    shapes.check_open::<effects::EndpointView>("EndpointView", view.clone());
    let secret = json!({"name": "n", "secret": "s", "endpoint": view.clone()});
    shapes.check_open::<effects::EndpointSecret>("EndpointSecret", secret);
    shapes.check_open::<effects::EndpointList>("EndpointList", json!({"endpoints": [view]}));
    let last = json!({"at": AT, "status": 500, "note": "n"});
    shapes.check_open::<effects::TryView>("TryView", last.clone());
    let change =
        json!({"at": AT, "state": "dead", "tries": 1, "lastTry": last.clone(), "keyId": "k"});
    shapes.check_open::<effects::EffectChange>("EffectChange", change.clone());
    let effect = json!({"effectId": "e", "runId": "r", "taskId": "t", "endpoint": "n",
        "type": "run.failed", "aggregate": "a", "sequence": 1, "state": "dead", "reason": "gone",
        "blocks": true, "tries": 1, "decidedAt": AT, "dueAt": AT, "settledAt": AT,
        "lastTry": last, "body": {"a": 1}, "log": [change]});
    shapes.check_open::<effects::EffectView>("EffectView", effect.clone());
    let list = json!({"effects": [effect], "cursor": "c"});
    shapes.check_open::<effects::EffectList>("EffectList", list);
    shapes.check_strict::<effects::ReconcileEffect>("ReconcileEffect", json!({"arrived": true}));
    let redrive = json!({"runId": "r", "endpoint": "n", "since": AT});
    shapes.check_strict::<effects::RedriveEffects>("RedriveEffects", redrive);
    shapes.check_open::<effects::Redriven>("Redriven", json!({"redriven": 1, "more": false}));
}

/// The paths of schedules with their methods.
pub(super) const SCHEDULE_PATHS: [(&str, &str); 10] = [
    ("/v1/schedules", "get post"),
    ("/v1/schedules/{schedule}", "get"),
    ("/v1/schedules/{schedule}/backfill", "post"),
    ("/v1/schedules/{schedule}/delete", "post"),
    ("/v1/schedules/{schedule}/history", "get"),
    ("/v1/schedules/{schedule}/pause", "post"),
    ("/v1/schedules/{schedule}/preview", "get"),
    ("/v1/schedules/{schedule}/resume", "post"),
    ("/v1/schedules/{schedule}/trigger", "post"),
    ("/v1/schedules/{schedule}/update", "post"),
];

pub(super) fn check_schedules(shapes: &mut Shapes) {
    let run = json!({"kind": "k", "queue": "q", "input": null});
    let terms = json!({"cron": "@daily", "everyMs": 1, "timeZone": "UTC", "overlap": "skip",
        "catchUp": "one", "catchUpWindowMs": 1, "run": run});
    shapes.check_strict::<schedules::UpdateSchedule>("UpdateSchedule", terms.clone());
    let mut create = terms;
    create["name"] = json!("n");
    create["paused"] = json!(true);
    shapes.check_strict::<schedules::CreateSchedule>("CreateSchedule", create);
    shapes.check_strict::<schedules::ScheduleCall>("ScheduleCall", json!({}));
    let range = json!({"from": AT, "to": AT});
    shapes.check_strict::<schedules::BackfillSchedule>("BackfillSchedule", range);
    let firing = json!({"instant": AT, "runId": "r", "at": AT});
    shapes.check_open::<schedules::ScheduleFiring>("ScheduleFiring", firing.clone());
    let refusal = json!({"instant": AT, "at": AT, "error": "e"});
    shapes.check_open::<schedules::ScheduleRefusal>("ScheduleRefusal", refusal.clone());
    let view = json!({"scheduleId": "s", "name": "n", "state": "active", "cron": "@daily",
        "everyMs": 1, "timeZone": "UTC", "overlap": "queue", "catchUp": "all",
        "catchUpWindowMs": 1, "createdAt": AT, "nextAt": AT, "waiting": 0, "last": firing,
        "lastRefusal": refusal, "fired": 1, "skipped": 2, "missed": 3, "refused": 4, "run": run});
    shapes.check_open::<schedules::ScheduleView>("ScheduleView", view.clone());
    let entry = json!({"revision": 1, "at": AT, "keyId": "k", "schedule": view});
    shapes.check_open::<schedules::ScheduleEntry>("ScheduleEntry", entry.clone());
    let history = json!({"entries": [entry], "nextBefore": 1});
    shapes.check_open::<schedules::ScheduleHistory>("ScheduleHistory", history);
    let list = json!({"schedules": [view], "cursor": "c"});
    shapes.check_open::<schedules::ScheduleList>("ScheduleList", list);
    let triggered = json!({"scheduleId": "s", "runId": "r"});
    shapes.check_open::<schedules::ScheduleTriggered>("ScheduleTriggered", triggered);
    shapes.check_open::<schedules::SchedulePreview>("SchedulePreview", json!({"instants": [AT]}));
}

/// The paths of recovery with their methods.
pub(super) const RECOVERY_PATHS: [(&str, &str); 7] = [
    ("/v1/recovery/candidates", "get"),
    ("/v1/recovery/candidates/{candidate}", "get"),
    ("/v1/recovery/candidates/{candidate}/decide", "post"),
    ("/v1/recovery/candidates/{candidate}/history", "get"),
    ("/v1/recovery/policies", "get"),
    ("/v1/recovery/policies/{policy}", "post"),
    ("/v1/recovery/policies/{policy}/delete", "post"),
];

pub(super) fn check_recovery(shapes: &mut Shapes) {
    let terms = json!({"queue": "q", "kind": "k", "actions": ["retry"], "attempts": 1,
        "runsMax": 1, "costMicros": 1, "expiresMs": 10000, "evaluator": "workers",
        "approval": {"roles": ["admin"], "keys": ["k"], "quorum": 1, "expiresMs": 1000, "default": "REJECTED"}});
    shapes.check_strict::<recovery::EscalationTerms>("EscalationTerms", terms["approval"].clone());
    shapes.check_strict::<recovery::SetRecoveryPolicy>("SetRecoveryPolicy", terms.clone());
    shapes.check_strict::<recovery::DeleteRecoveryPolicy>("DeleteRecoveryPolicy", json!({}));
    let mut policy = terms;
    policy["name"] = json!("n");
    shapes.check_open::<recovery::RecoveryPolicyView>("RecoveryPolicyView", policy.clone());
    let list = json!({"policies": [policy]});
    shapes.check_open::<recovery::RecoveryPolicyList>("RecoveryPolicyList", list);
    let decide = json!({"action": "skip", "comment": "c"});
    shapes.check_strict::<recovery::DecideCandidate>("DecideCandidate", decide);
    let suggestion = json!({"action": "retry", "confidence": 0.9, "because": "transient"});
    shapes.check_open::<recovery::SuggestionView>("SuggestionView", suggestion.clone());
    let chosen = json!({"action": "retry", "at": AT, "keyId": "k", "comment": "c"});
    shapes.check_open::<recovery::ChosenView>("ChosenView", chosen.clone());
    let question = json!({"approvalId": "a", "action": "retry", "asked": "t", "digest": "d"});
    shapes.check_open::<recovery::QuestionView>("QuestionView", question.clone());
    let sample = json!({"runId": "r", "at": AT, "message": "m"});
    shapes.check_open::<recovery::SampleView>("SampleView", sample.clone());
    let view = json!({"candidateId": "c", "state": "pending", "policy": "p", "kind": "k",
        "queue": "q", "reason": "r", "category": "c", "pattern": "p", "firstAt": AT, "lastAt": AT,
        "count": 1, "forked": 1, "attempts": 1, "taskId": "t", "openedAt": AT, "expiresAt": AT,
        "runs": 1, "suggestion": suggestion, "chosen": chosen, "refused": 1, "lastRefusal": "e",
        "samples": [sample], "question": question});
    shapes.check_open::<recovery::CandidateView>("CandidateView", view.clone());
    let entry = json!({"revision": 1, "at": AT, "keyId": "k", "candidate": view});
    shapes.check_open::<recovery::CandidateEntry>("CandidateEntry", entry.clone());
    let history = json!({"entries": [entry], "nextBefore": 1});
    shapes.check_open::<recovery::CandidateHistory>("CandidateHistory", history);
    let list = json!({"candidates": [view], "cursor": "c"});
    shapes.check_open::<recovery::CandidateList>("CandidateList", list);
}

fn check_pauses(shapes: &mut Shapes) {
    let wanted = json!({"reason": "r", "tenantId": "t", "workspaceId": "w"});
    shapes.check_strict::<pausing::PauseQueue>("PauseQueue", wanted);
    let wanted = json!({"tenantId": "t", "workspaceId": "w"});
    shapes.check_strict::<pausing::ResumeQueue>("ResumeQueue", wanted);
    shapes.check_open::<pausing::Pause>("Pause", pause());
    let status = json!({"queue": "q", "tenantId": "t", "workspaceId": "w", "pause": pause()});
    shapes.check_open::<pausing::QueueStatus>("QueueStatus", status);
}

fn check_budgets(shapes: &mut Shapes) {
    let amounts = json!({"costMicros": 1, "tokens": 2, "steps": 3, "toolCalls": 4});
    let mut wanted = amounts.clone();
    (wanted["tenantId"], wanted["workspaceId"]) = (json!("acme"), json!("w"));
    (wanted["period"], wanted["soft"]) = (json!("month"), amounts.clone());
    shapes.check_strict::<scope_budgets::SetBudget>("SetBudget", wanted);
    let budget = json!({"tenantId": "acme", "workspaceId": "w", "period": "month", "state": "soft",
        "limits": budget_left(), "soft": budget_left(), "used": amounts, "left": budget_left(),
        "since": AT, "resetsAt": AT, "alerted": "soft"});
    shapes.check_open::<scope_budgets::ScopeBudget>("ScopeBudget", budget.clone());
    let all = json!({"budgets": [budget]});
    shapes.check_open::<scope_budgets::ScopeBudgets>("ScopeBudgets", all);
}

pub(super) fn check_administration(shapes: &mut Shapes) {
    check_pauses(shapes);
    let create = json!({"name": "n", "roles": ["worker"], "tenantId": "t", "workspaceId": "w",
        "queues": ["q"], "expiresAt": AT});
    shapes.check_strict::<admin::CreateKey>("CreateKey", create);
    shapes.check_strict::<admin::RotateKey>("RotateKey", json!({"overlapMs": 1}));
    let key = json!({"keyId": "k", "name": "n", "roles": ["worker"], "tenantId": "t",
        "workspaceId": "w", "queues": ["q"], "createdAt": AT, "expiresAt": AT, "revokedAt": AT,
        "previousSecretUntil": AT, "lastUsedAt": AT});
    shapes.check_open::<admin::Key>("Key", key.clone());
    shapes.check_open::<admin::Keys>("Keys", json!({"keys": [key.clone()], "nextAfter": "k"}));
    let entry = json!({"n": 1, "at": AT, "tenantId": "t", "workspaceId": "w", "actor": "k",
        "action": "refused", "object": "o", "error": "e", "times": 2, "beforeDigest": "b",
        "afterDigest": "a", "requestId": "r"});
    shapes.check_open::<admin::AuditEntry>("AuditEntry", entry.clone());
    let log = json!({"entries": [entry], "nextBefore": 1});
    shapes.check_open::<admin::AuditLog>("AuditLog", log);
    let limits =
        json!({"tenantId": "acme", "requestsPerSecond": 1, "burst": 2, "unfinishedRuns": 3});
    shapes.check_strict::<admin::SetLimits>("SetLimits", limits.clone());
    let mut limits = limits;
    limits["unfinishedRunsNow"] = json!(4);
    limits["requestsLeftNow"] = json!(1);
    limits["limitedAt"] = json!(AT);
    limits["changedAt"] = json!(AT);
    shapes.check_open::<admin::TenantLimits>("TenantLimits", limits.clone());
    shapes.check_open::<admin::Limits>("Limits", json!({"limits": [limits]}));
    check_budgets(shapes);
    let task = json!({"taskId": "t", "why": "w", "since": AT, "tries": 1, "retryAfterMs": 5000});
    shapes.check_open::<admin::TaskSetAside>("TaskSetAside", task.clone());
    let parked = json!({"fromTaskId": "t", "toTaskId": "u", "why": "w"});
    shapes.check_open::<admin::ParkedMessage>("ParkedMessage", parked.clone());
    let set_aside = json!({"tasks": [task], "messages": [parked]});
    shapes.check_open::<admin::SetAside>("SetAside", set_aside);
    let finding = json!({"n": 1, "message": "m"});
    shapes.check_open::<admin::AuditFinding>("AuditFinding", finding.clone());
    let verified = json!({"entries": 2, "sealed": 1, "anchored": true, "findings": [finding]});
    shapes.check_open::<admin::AuditVerified>("AuditVerified", verified);
    shapes.check_strict::<admin::RotateSigning>("RotateSigning", json!({"emergency": true}));
    let rotated = json!({"kid": "k", "previousUntil": AT});
    shapes.check_open::<admin::SigningRotated>("SigningRotated", rotated);
    shapes.check_open::<admin::NewKey>("NewKey", json!({"key": key, "secret": "s"}));
}

pub(super) fn check_workers(shapes: &mut Shapes) {
    let polls = json!({"queues": ["q"], "kinds": ["k"], "count": 1, "max": 2});
    let leases = json!({"queue": "q", "count": 1, "oldestAcquiredAt": AT, "latestHeartbeatAt": AT,
        "nextExpiresAt": AT});
    let worker = json!({"workerId": "w", "polls": [polls], "leases": [leases]});
    shapes.check_open::<answers::WorkerPolls>("WorkerPolls", polls);
    shapes.check_open::<answers::WorkerLeases>("WorkerLeases", leases);
    shapes.check_open::<answers::WorkerView>("WorkerView", worker.clone());
    let workers =
        json!({"workers": [worker], "nextAfter": "w", "coordinators": 1, "serverTime": AT});
    shapes.check_open::<answers::Workers>("Workers", workers);
    flow::check(shapes);
}
