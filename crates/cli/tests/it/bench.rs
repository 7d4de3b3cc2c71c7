//! `tenure bench` ends, and says what it should. How fast this machine is, is no test's business.

use crate::home::Home;

/// As short as it can be: what is measured does not matter here.
const BRIEF: &str = "0.1";

#[test]
fn the_bench_says_every_member_of_every_measurement() {
    let home = Home::new();
    let folder = home.path().to_str().unwrap().to_owned();
    let rows = home.json(&["bench", "--json", "--seconds", BRIEF, "--store", &folder]);
    let rows = rows.as_array().unwrap();
    let named = |name: &str| rows.iter().filter(|row| row["name"] == name).collect::<Vec<_>>();
    assert_eq!(named("lifecycles").len(), 8, "two modes, each with four concurrencies");
    for row in named("lifecycles") {
        for member in [
            "concurrency",
            "lifecyclesPerSecond",
            "ceilingPerSecond",
            "cpuMicrosPerLifecycle",
            "bytesPerLifecycle",
            "rssMiB",
        ] {
            assert!(row[member].is_number(), "{member} in {row}");
        }
        // On a slow machine nothing may have ended in so short a time.
        for member in ["p50Ms", "p99Ms"] {
            assert!(row[member].is_number() || row[member].is_null(), "{member} in {row}");
        }
        assert!(["single", "batch"].contains(&row["mode"].as_str().unwrap()));
    }
    for name in ["submit to started", "submit to result"] {
        assert!(named(name)[0]["p50Ms"].is_number(), "{name}");
    }
    for name in ["transport alone", "engine alone", "bulk submit", "drain"] {
        assert!(named(name)[0]["lifecyclesPerSecond"].is_number(), "{name}");
    }
    let left = std::fs::read_dir(home.path()).unwrap().count();
    assert_eq!(left, 0, "its stores are thrown away");
}

#[test]
fn a_running_server_needs_its_key() {
    let ran = Home::new().run(&["bench", "--url", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("--key"), "{}", ran.stderr);
}
