//! Who is alive: by heartbeats alone, never by the age of a run.

use serde_json::json;

use super::test_server::{both, seconds};

#[tokio::test]
async fn a_run_that_waits_for_long_is_no_dead_worker_and_heartbeats_are_what_counts() {
    for api in both().await {
        // Proves: W-7: a heartbeat writes when it was seen; age condemns neither a run that waits nor one that runs.
        let waits = api.submit(json!({"queue": "unattended"})).await;
        let lease = api.leased(json!({})).await;
        api.started(&lease).await.ok();
        let mut seen = String::new();
        // Ten times the length of a lease.
        for _ in 0..20 {
            api.pass(seconds(1)).await;
            api.heartbeat(&lease).await.has("verdict", "COMMITTED");
            let run = api.run(&lease.run).await;
            let now = run["lease"]["heartbeatAt"].as_str().unwrap().to_owned();
            assert!(now > seen, "{now} is later than {seen}");
            assert_eq!((&run["state"], &run["lost"]), (&json!("running"), &json!(0)));
            seen = now;
        }
        let run = api.run(&waits).await;
        assert_eq!(
            (&run["state"], &run["attempt"], &run["lost"]),
            (&json!("queued"), &json!(0), &json!(0))
        );
        // Silence ends the lease, without a restart and without a look at anything else.
        api.pass(seconds(3)).await;
        let run = api.run(&lease.run).await;
        assert_eq!((&run["state"], &run["lost"]), (&json!("retry"), &json!(1)));
        assert_eq!(api.run(&waits).await["state"], "queued");
    }
}
