//! New signing keys while attempts run.

use serde_json::json;

use super::test_server::{TestServer, both, seconds};

async fn rotate(
    api: &TestServer,
    bearer: &str,
    how: serde_json::Value,
) -> super::test_server::Response {
    api.post("/v1/signing-keys/rotate", bearer, how).await
}

#[tokio::test]
async fn work_in_flight_survives_a_rotation() {
    for api in both().await {
        // X07: the old token is valid until its expiry, new ones are signed with the new key.
        let held = api.leased(json!({"leaseMs": 86_400_000})).await;
        let page = api.get("/v1/runs?limit=1").await.ok();
        assert_eq!(page["runs"].as_array().unwrap().len(), 1);
        let rotated = rotate(&api, &api.admin_key, json!({})).await;
        assert!(rotated.body["previousUntil"].is_string(), "{rotated:?}");
        api.heartbeat(&held).await.has("verdict", "COMMITTED");
        api.clock.advance(seconds(3598));
        let beat = api.heartbeat(&held).await;
        let fresh = beat.has("verdict", "COMMITTED").text("taskToken");
        let renewed = super::test_server::Lease { token: fresh, ..held.clone() };
        api.clock.advance(seconds(10));
        api.heartbeat(&held).await.problem(401, "token_expired");
        api.succeed(&renewed).await.has("verdict", "COMMITTED");
    }
}

#[tokio::test]
async fn an_emergency_ends_every_token_at_once() {
    for api in both().await {
        // X07
        let held = api.leased(json!({})).await;
        let rotated = rotate(&api, &api.admin_key, json!({"emergency": true})).await;
        assert_eq!(rotated.status, 200, "{rotated:?}");
        api.heartbeat(&held).await.problem(401, "invalid_token").has("verdict", "REJECTED");
        let next = api.leased(json!({"queue": "q"})).await;
        api.succeed(&next).await.has("verdict", "COMMITTED");
        let log = api.get_as("/v1/audit", &api.admin_key).await.ok();
        let entries = log["entries"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["action"] == "signing.rotated").unwrap();
        assert_eq!(entry["actor"], api.admin_key.split('_').nth(1).unwrap());
    }
}

#[tokio::test]
async fn only_the_first_tenant_rotates_what_all_share() {
    for api in both().await {
        let held = api.leased(json!({})).await;
        let refused = rotate(&api, &api.foreign_key, json!({"emergency": true})).await;
        refused.problem(403, "forbidden");
        api.heartbeat(&held).await.has("verdict", "COMMITTED");
    }
}
