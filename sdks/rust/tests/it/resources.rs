//! Resources and their verbs: what is chosen on a call is what it says, and what may not happen twice is asked once.

use std::time::Duration;

use tenure::{
    ApprovalDecision, ApprovalState, BudgetPeriod, EffectState, RecoveryAction, Role, Time,
    WorkOrderState,
};

use crate::coordinator::{Coordinator, problem, quick};

#[tokio::test]
async fn what_is_chosen_on_a_call_is_what_it_says() {
    // S4-74: every resource has its verbs.
    let coordinator = Coordinator::start().await;
    coordinator.always("", problem(404, "not_found"));
    let client = coordinator.client();

    let worker = client.keys().create([Role::Worker]).name("mail").queues(["a", "b"]);
    worker.await.unwrap_err();
    client.keys().rotate("k1").overlap(Duration::from_secs(60)).await.unwrap_err();
    client.limits().set("acme").burst(9).unfinished_runs(7).await.unwrap_err();
    let monthly = client.budgets().set().workspace("w").period(BudgetPeriod::Month);
    monthly.tokens(10).soft_tokens(8).await.unwrap_err();
    client.audit().list().before(5_u64).limit(2).await.unwrap_err();
    client.queues().pause("a/b").reason("why").await.unwrap_err();
    client.queues().flow_keys().key("c-7").await.unwrap_err();
    client.approvals().list().state(ApprovalState::Pending).cursor("c").await.unwrap_err();
    let vote = client.approvals().decide("a1", ApprovalDecision::Approved).comment("yes");
    vote.await.unwrap_err();
    client.effects().list().endpoint("crm").state(EffectState::Dead).await.unwrap_err();
    client.effects().redrive_all().run("run_1").await.unwrap_err();
    client.effects().reconcile("e1", true).await.unwrap_err();
    client.endpoints().update("crm").types(["run.*"]).max_tries(3).await.unwrap_err();
    client.endpoints().pause("crm").await.unwrap_err();
    client.recovery().decide("c1", RecoveryAction::Retry).comment("again").await.unwrap_err();
    client.schedules().history("nightly").limit(3).await.unwrap_err();
    client.schedules().backfill("nightly", Time::MIN, Time::MIN).await.unwrap_err();
    client.deployments().work_orders("d").state(WorkOrderState::Active).await.unwrap_err();
    client.deployments().event("d", "NIGHTLY", "k").await.unwrap_err();

    let said: Vec<String> = coordinator
        .calls
        .all()
        .iter()
        .map(|call| format!("{} {}{}", call.path, call.query, String::from_utf8_lossy(&call.bytes)))
        .collect();
    let day_one = Time::MIN;
    assert_eq!(
        said,
        [
            r#"/v1/keys {"name":"mail","roles":["worker"],"queues":["a","b"]}"#.to_owned(),
            r#"/v1/keys/k1/rotate {"overlapMs":60000}"#.to_owned(),
            r#"/v1/limits {"tenantId":"acme","burst":9,"unfinishedRuns":7}"#.to_owned(),
            r#"/v1/budgets {"workspaceId":"w","period":"month","tokens":10,"soft":{"tokens":8}}"#
                .to_owned(),
            "/v1/audit before=5&limit=2".to_owned(),
            r#"/v1/queues/a~b/pause {"reason":"why"}"#.to_owned(),
            "/v1/flow-keys key=c-7".to_owned(),
            "/v1/approvals cursor=c&state=pending".to_owned(),
            r#"/v1/approvals/a1/decide {"decision":"APPROVED","comment":"yes"}"#.to_owned(),
            "/v1/effects endpoint=crm&state=dead".to_owned(),
            r#"/v1/effects/redrive {"runId":"run_1"}"#.to_owned(),
            r#"/v1/effects/e1/reconcile {"arrived":true}"#.to_owned(),
            r#"/v1/endpoints/crm {"types":["run.*"],"maxTries":3}"#.to_owned(),
            r#"/v1/endpoints/crm {"enabled":false}"#.to_owned(),
            r#"/v1/recovery/candidates/c1/decide {"action":"retry","comment":"again"}"#.to_owned(),
            "/v1/schedules/nightly/history limit=3".to_owned(),
            format!(r#"/v1/schedules/nightly/backfill {{"from":"{day_one}","to":"{day_one}"}}"#),
            "/v1/deployments/d/workorders state=active".to_owned(),
            r#"/v1/deployments/d/events {"type":"NIGHTLY","key":"k"}"#.to_owned(),
        ]
    );
}

#[tokio::test]
async fn what_may_not_happen_twice_is_asked_once_and_a_read_is_repeated() {
    let coordinator = Coordinator::start().await;
    coordinator.always("", problem(503, "overloaded"));
    let client = coordinator.client().with_retries(quick(2));

    client.keys().create([Role::Reader]).await.unwrap_err();
    client.keys().rotate("k1").await.unwrap_err();
    client.approvals().decide("a1", ApprovalDecision::Rejected).await.unwrap_err();
    client.effects().reconcile("e1", false).await.unwrap_err();
    assert_eq!(coordinator.calls.all().len(), 4);

    client.approvals().list().await.unwrap_err();
    client.limits().set("acme").await.unwrap_err();
    assert_eq!(coordinator.calls.all().len(), 4 + 2 * 3);
}
