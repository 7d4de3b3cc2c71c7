//! `tenure prune` on a store whose runs ended years ago.

use std::sync::Arc;

use coordinator::admit::{NewKey, Role};
use coordinator::{OsEntropy, ServeOptions};
use store::sqlite::{Options, SqliteStore};
use storetest::ManualClock;
use tenure::Client;

use crate::home::Home;

/// Three runs that have ended, and one that waits, by a clock fixed in the year 2023.
async fn years_ago(home: &Home) {
    let clock = Arc::new(ManualClock::default());
    let store = SqliteStore::open(home.store(), Options::new(clock)).unwrap();
    let key = NewKey::generate(&mut OsEntropy, Default::default(), &Role::ALL);
    let mut options =
        ServeOptions::new("127.0.0.1:0".parse().unwrap(), home.store().with_extension("key"));
    options.new_keys = vec![key.clone()];
    let server = coordinator::serve(store, options).await.unwrap();
    let client = Client::new(&format!("http://{}", server.local_addr()), key.text()).unwrap();
    for _ in 0..3 {
        client.submit("k", &()).queue("q").await.unwrap().cancel().await.unwrap();
    }
    client.submit("k", &()).queue("q").await.unwrap();
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_long_ago_is_forgotten_and_the_rest_is_sound() {
    let home = Home::new();
    years_ago(&home).await;
    let prune = ["prune", "--json", "--older-than", "7d"];
    let dry = home.json(&[&prune[..], &["--dry-run"]].concat());
    assert_eq!((dry["forgotten"].as_u64(), dry["left"].as_u64()), (Some(3), Some(0)));
    let kept = home.json(&[&prune[..], &["--keep", "2"]].concat());
    assert_eq!((kept["forgotten"].as_u64(), kept["left"].as_u64()), (Some(1), Some(2)));
    let ran = home.run(&["prune", "--older-than", "7d"]);
    assert!(ran.stdout.starts_with("removed 2 runs that ended before"), "{ran:?}");
    let verified = home.json(&["verify", "--json"]);
    assert_eq!(verified["findings"], serde_json::json!([]));
    assert_eq!(verified["tasks"], 1, "what waits stays");
}

#[test]
fn too_young_and_in_use_are_refused() {
    let home = Home::new();
    let young = home.run(&["prune", "--older-than", "23h"]);
    young.assert_error(2, "too_young", "at least 24h", "24h");
    home.run(&["prune", "--older-than", "7d"]).assert_error(
        3,
        "store_missing",
        "no store",
        "--store",
    );
    let _server = home.serve();
    let used = home.run(&["prune", "--older-than", "7d"]);
    used.assert_error(4, "store_closed", "already open in process", "--retain-for");
}
