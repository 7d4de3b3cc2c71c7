//! New signing keys while attempts run.

use serde_json::json;

use super::site::{Site, both, seconds};

async fn rotate(site: &Site, bearer: &str, how: serde_json::Value) -> super::site::Got {
    site.post("/v1/signing-keys/rotate", bearer, how).await
}

#[tokio::test]
async fn work_in_flight_survives_a_rotation() {
    for site in both().await {
        // X07: the old token counts to the end of its life, new ones are signed with the new key.
        let held = site.leased(json!({"leaseMs": 86_400_000})).await;
        let page = site.get("/v1/runs?limit=1").await.ok();
        assert_eq!(page["runs"].as_array().unwrap().len(), 1);
        let rotated = rotate(&site, &site.admin_key, json!({})).await;
        assert!(rotated.body["previousUntil"].is_string(), "{rotated:?}");
        site.heartbeat(&held).await.has("verdict", "COMMITTED");
        site.clock.advance(seconds(3598));
        let beat = site.heartbeat(&held).await;
        let fresh = beat.has("verdict", "COMMITTED").text("taskToken");
        let renewed = super::site::Lease { token: fresh, ..held.clone() };
        site.clock.advance(seconds(10));
        site.heartbeat(&held).await.problem(401, "token_expired");
        site.succeed(&renewed).await.has("verdict", "COMMITTED");
    }
}

#[tokio::test]
async fn an_emergency_ends_every_token_at_once() {
    for site in both().await {
        // X07
        let held = site.leased(json!({})).await;
        let rotated = rotate(&site, &site.admin_key, json!({"emergency": true})).await;
        assert_eq!(rotated.status, 200, "{rotated:?}");
        site.heartbeat(&held).await.problem(401, "invalid_token").has("verdict", "REJECTED");
        let next = site.leased(json!({"queue": "q"})).await;
        site.succeed(&next).await.has("verdict", "COMMITTED");
        let log = site.get_as("/v1/audit", &site.admin_key).await.ok();
        let entries = log["entries"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["action"] == "signing.rotated").unwrap();
        assert_eq!(entry["actor"], site.admin_key.split('_').nth(1).unwrap());
    }
}

#[tokio::test]
async fn only_the_first_tenant_rotates_what_all_share() {
    for site in both().await {
        let held = site.leased(json!({})).await;
        let refused = rotate(&site, &site.foreign_key, json!({"emergency": true})).await;
        refused.problem(403, "forbidden");
        site.heartbeat(&held).await.has("verdict", "COMMITTED");
    }
}
