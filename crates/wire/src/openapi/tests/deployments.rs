//! Shapes and paths of deployments.

use super::*;

/// The paths with their methods.
pub(super) const PATHS: [(&str, &str); 19] = [
    ("/v1/deployments", "get"),
    ("/v1/deployments/{deployment}", "get post"),
    ("/v1/deployments/{deployment}/plan", "post"),
    ("/v1/deployments/{deployment}/pause", "post"),
    ("/v1/deployments/{deployment}/resume", "post"),
    ("/v1/deployments/{deployment}/delete", "post"),
    ("/v1/deployments/{deployment}/artifacts/{type}", "get post"),
    ("/v1/deployments/{deployment}/artifacts/{type}/{artifact}", "get"),
    ("/v1/deployments/{deployment}/artifacts/{type}/{artifact}/transition", "post"),
    ("/v1/deployments/{deployment}/artifacts/{type}/{artifact}/approve", "post"),
    ("/v1/deployments/{deployment}/events", "post"),
    ("/v1/deployments/{deployment}/workorders", "get"),
    ("/v1/deployments/{deployment}/claims", "get"),
    ("/v1/deployments/{deployment}/pause-states", "get"),
    ("/v1/deployments/{deployment}/pause-states/close", "post"),
    ("/v1/deployments/{deployment}/roles/{role}/turns", "post"),
    ("/v1/deployments/{deployment}/roles/{role}/turns/renew", "post"),
    ("/v1/deployments/{deployment}/roles/{role}/turns/return", "post"),
    ("/v1/deployments/{deployment}/roles/{role}/proposals", "post"),
];

pub(super) fn check(shapes: &mut Shapes) {
    shapes.check_strict::<topologies::ApplyTopology>("ApplyTopology", json!({"topology": {}}));
    shapes.check_strict::<topologies::DeploymentCall>("DeploymentCall", json!({}));
    let view = json!({"name": "n", "state": "active", "topology": "t", "version": "v",
        "generation": 1, "createdAt": AT, "appliedAt": AT, "declaration": {}});
    shapes.check_open::<topologies::DeploymentView>("DeploymentView", view.clone());
    let list = json!({"deployments": [view], "cursor": "c"});
    shapes.check_open::<topologies::DeploymentList>("DeploymentList", list);
    let plan = json!({"from": "a", "to": "b", "differences": ["d"], "obstacles": ["o"],
        "inFlight": 1});
    shapes.check_open::<topologies::TopologyPlan>("TopologyPlan", plan);
    let create = json!({"id": "i", "fields": {"a": 1}});
    shapes.check_strict::<topologies::CreateArtifact>("CreateArtifact", create);
    let moved = json!({"to": "s", "revision": 1, "fields": {"a": 1}});
    shapes.check_strict::<topologies::MoveArtifact>("MoveArtifact", moved);
    let artifact = json!({"type": "t", "id": "i", "status": "s", "revision": 1, "transitionNo": 1,
        "cycles": 0, "reservedBy": "w", "passed": "w", "fields": {}, "createdAt": AT,
        "enteredAt": AT});
    shapes.check_open::<topologies::ArtifactView>("ArtifactView", artifact.clone());
    let list = json!({"artifacts": [artifact], "cursor": "c"});
    shapes.check_open::<topologies::ArtifactList>("ArtifactList", list);
    shapes
        .check_strict::<topologies::RequestEvent>("RequestEvent", json!({"type": "e", "key": "k"}));
    let requested = json!({"eventId": "e", "runId": "r"});
    shapes.check_open::<topologies::EventRequested>("EventRequested", requested);
    check_orders(shapes);
    let claim = json!({"resource_type": "EVENT", "resource_id": "r", "owner_id": "o",
        "lease_expires_at": AT, "heartbeat_at": AT, "claim_version": 1});
    shapes.check_open::<topologies::ClaimView>("ClaimView", claim.clone());
    shapes.check_open::<topologies::ClaimList>("ClaimList", json!({"claims": [claim]}));
    let pause = json!({"id": "p", "state": "open", "reason": "BLOCKED", "subject": "t/i",
        "actions": ["a"], "createdAt": AT});
    shapes.check_open::<topologies::PauseStateView>("PauseStateView", pause.clone());
    let list = json!({"pauseStates": [pause], "cursor": "c"});
    shapes.check_open::<topologies::PauseStateList>("PauseStateList", list);
    shapes.check_strict::<topologies::ClosePauseState>("ClosePauseState", json!({"id": "p"}));
    check_turns(shapes);
}

fn check_turns(shapes: &mut Shapes) {
    let take = json!({"workerId": "w", "max": 1, "waitMs": 1, "known": ["v"]});
    shapes.check_strict::<topologies::TakeTurns>("TakeTurns", take);
    let claim = json!({"taskId": "t", "attempt": 1, "leaseId": "l", "fence": 1});
    shapes.check_strict::<topologies::TurnClaim>("TurnClaim", claim.clone());
    let turn = json!({"claim": claim, "leaseExpiresAt": AT, "version": "v", "told": {}});
    shapes.check_open::<topologies::Turn>("Turn", turn.clone());
    let version = json!({"version": "v", "declaration": {}});
    shapes.check_open::<topologies::TurnVersion>("TurnVersion", version.clone());
    let turns = json!({"turns": [turn], "versions": [version], "serverTime": AT});
    shapes.check_open::<topologies::Turns>("Turns", turns);
    let renew = json!({"workerId": "w", "claim": claim});
    shapes.check_strict::<topologies::RenewTurn>("RenewTurn", renew);
    let back = json!({"workerId": "w", "claim": claim, "reason": "r"});
    shapes.check_strict::<topologies::ReturnTurn>("ReturnTurn", back);
    let propose = json!({"workerId": "w", "claim": claim, "decision": {"decision": "PASS"}});
    shapes.check_strict::<topologies::Propose>("Propose", propose);
    let proposed = json!({"verdict": "COMMITTED", "serverTime": AT});
    shapes.check_open::<topologies::Proposed>("Proposed", proposed);
}

fn check_orders(shapes: &mut Shapes) {
    let reason = json!({"check": "c", "message": "m"});
    shapes.check_open::<topologies::GateReasonView>("GateReasonView", reason.clone());
    let record = json!({"executionStatus": "COMPLETED", "gateResult": "FAIL",
        "gateReasons": [reason], "createdAt": AT});
    shapes.check_open::<topologies::RunRecordView>("RunRecordView", record.clone());
    let order = json!({"id": "w", "state": "failed", "event": "e", "template": "t", "kind": "k",
        "queue": "q", "track": "a", "version": "v", "artifacts": ["t/i"], "runId": "r",
        "createdAt": AT, "record": record});
    shapes.check_open::<topologies::WorkOrderView>("WorkOrderView", order.clone());
    let list = json!({"workOrders": [order], "cursor": "c"});
    shapes.check_open::<topologies::WorkOrderList>("WorkOrderList", list);
}
