//! `tenure bench` terminates and prints what it should. No test depends on the speed of this
//! machine.

use pgserver::Server;

use crate::home::{Home, Process};

/// As short as possible: the measured values do not matter here.
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
    for name in ["submit to started", "submit to started, 200 idle polls", "submit to result"] {
        assert!(named(name)[0]["p50Ms"].is_number(), "{name}");
    }
    for name in ["transport alone", "engine alone", "bulk submit", "drain"] {
        assert!(named(name)[0]["lifecyclesPerSecond"].is_number(), "{name}");
    }
    let by_sdk = |name: &str| {
        let by_sdk = named(name).into_iter().filter(|row| row["mode"] == "sdk");
        by_sdk.map(|row| row["concurrency"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((by_sdk("drain"), by_sdk("submit to result")), (vec![256], vec![1, 64]));
    let left = std::fs::read_dir(home.path()).unwrap().count();
    assert_eq!(left, 0, "its stores are thrown away");
}

#[test]
fn durable_runs_are_measured_beside_plain_tasks() {
    let home = Home::new();
    let folder = home.path().to_str().unwrap().to_owned();
    let measure = |shape: &str| {
        let arguments = ["bench", "--json", "--seconds", BRIEF, "--store", &folder];
        home.json(&[&arguments[..], &["--shape", shape]].concat())
    };
    let steps = measure("steps:3");
    let rows = steps.as_array().unwrap().iter();
    let modes = rows.filter(|row| row["name"] == "runs of 3 steps").map(|row| &row["mode"]);
    assert_eq!(modes.collect::<Vec<_>>(), ["batch", "single", "sdk"]);
    assert!(steps[0]["p50Ms"].is_number(), "one more step in {steps}");
    let fanout = measure("fanout:600");
    let names = fanout.as_array().unwrap().iter().map(|row| &row["name"]).collect::<Vec<_>>();
    assert_eq!(names, ["600 plain tasks", "600 children, joined"]);
    let savepoints = measure("savepoints:400");
    let rows = savepoints.as_array().unwrap();
    assert_eq!(rows.last().unwrap()["name"], "400 steps with savepoints, resumed");
    let sleepers = measure("sleepers:2000");
    let rows = sleepers.as_array().unwrap();
    assert_eq!(rows[0]["name"], "nothing asleep, per second");
    let asleep = rows.last().unwrap();
    assert!(asleep["name"].as_str().unwrap().ends_with("runs asleep, per second"), "{asleep}");
    assert!(asleep["cpuMicrosPerLifecycle"].is_number(), "{asleep}");
}

#[test]
fn work_orders_are_measured_beside_plain_tasks() {
    let home = Home::new();
    let folder = home.path().to_str().unwrap().to_owned();
    let arguments = ["bench", "--json", "--seconds", BRIEF, "--store", &folder];
    let orders = home.json(&[&arguments[..], &["--shape", "orders:20"]].concat());
    let names = orders.as_array().unwrap().iter().map(|row| &row["name"]).collect::<Vec<_>>();
    assert_eq!(
        names,
        [
            "20 plain tasks",
            "20 work orders",
            "2 idle deployments, per second",
            "2000 artifacts, a page of all",
            "2000 artifacts, a page of a rare status",
        ]
    );
    assert!(orders[1]["cpuMicrosPerLifecycle"].is_number(), "{orders}");
}

#[test]
fn a_shape_that_cannot_be_measured_is_refused() {
    let home = Home::new();
    let running = ["bench", "--url", "http://127.0.0.1:1", "--key", "k", "--shape", "steps:5"];
    home.run(&running).assert_error(2, "bad_shape", "not a running one", "--url");
    let ran = home.run(&["bench", "--shape", "fanout:10001"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("between 1 and 10000"), "{}", ran.stderr);
}

#[test]
fn a_comparison_that_cannot_be_made_is_refused_before_anything_is_measured() {
    let home = Home::new();
    let running = ["bench", "--compare", "tenure", "--url", "http://127.0.0.1:1", "--key", "k"];
    home.run(&running).assert_error(2, "bad_comparison", "not a running one", "--url");
    let missing = ["bench", "--compare", "no-such-binary"];
    home.run(&missing).assert_error(
        2,
        "bad_comparison",
        "no-such-binary",
        "another `tenure` binary",
    );
    let none = ["bench", "--compare", "no-such-binary", "--pairs", "0"];
    home.run(&none).assert_error(2, "bad_comparison", "between 1 and 99", "--pairs");
}

#[test]
fn a_running_server_needs_its_key() {
    let ran = Home::new().run(&["bench", "--url", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("--key"), "{}", ran.stderr);
}

/// Everything that a measurement could leave on the server.
const LEFT: &str = "SELECT string_agg(datname, ',' ORDER BY datname) || ' ' || \
    (SELECT string_agg(rolname, ',' ORDER BY rolname) FROM pg_roles WHERE rolname NOT LIKE 'pg\\_%') \
    FROM pg_database";

#[test]
fn over_a_database_it_says_its_goals_and_leaves_nothing_behind() {
    let (home, server) = (Home::new(), Server::builder().without_fsync().start().unwrap());
    let before = server.sql("postgres", LEFT).unwrap();
    let store = server.url("postgres");
    let ran = home.run(&["bench", "--seconds", BRIEF, "--coordinators", "2", "--store", &store]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for (figure, limit) in [
        ("one coordinator, in batches, 256 at once", "at least 6000/s"),
        ("of what the engine does alone", "at least 50 %"),
        ("lost by 2 coordinators", "at most 15 %"),
        ("submit to started, above one commit", "at most 2.0 ms"),
        ("submit to started, two coordinators, above one commit", "at most 2.0 ms"),
        ("of submit to started without them, 200 idle polls, p99", "at most 200 %"),
    ] {
        let line = ran.stdout.lines().find(|line| line.contains(&format!(": {figure}")));
        let line = line.unwrap_or_else(|| panic!("{figure} in {}", ran.stdout));
        assert!(line.contains(limit), "{line}");
        assert!(["met ", "missed "].iter().any(|word| line.starts_with(word)), "{line}");
    }
    assert_eq!(server.sql("postgres", LEFT).unwrap(), before);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "nor in a file");
}

#[test]
fn a_store_that_is_served_is_not_touched_by_a_measurement_beside_it() {
    let (home, server) = (Home::new(), Server::builder().without_fsync().start().unwrap());
    let store = server.url("postgres");
    let arguments =
        ["serve", "--json", "--write-profile", "--listen", "127.0.0.1:0", "--store", &store];
    let mut serving = Process::start(home.tenure(&arguments));
    serving.line();
    let run = home.submit(&["k", "--queue", "q"]);
    let (left, verified) =
        (server.sql("postgres", LEFT).unwrap(), home.run(&["verify", "--store", &store]));
    let ran = home.run(&["bench", "--seconds", "0.05", "--old-snapshot", "0.2", "--store", &store]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("at least 80 %: of the undisturbed rate"), "{ran:?}");
    assert_eq!(server.sql("postgres", LEFT).unwrap(), left);
    assert_eq!(home.run(&["verify", "--store", &store]).stdout, verified.stdout);
    assert_eq!(home.run_view(&run)["state"], "queued");
}

#[test]
fn a_user_who_may_make_no_databases_cannot_measure() {
    let (home, server) = (Home::new(), Server::builder().without_fsync().start().unwrap());
    server.sql("postgres", "CREATE ROLE person LOGIN").unwrap();
    let ours = server.url("postgres");
    let store = ours.replace("postgres@", "person@").replace("user=postgres", "user=person");
    assert_ne!(store, ours);
    let ran = home.run(&["bench", "--seconds", BRIEF, "--store", &store]);
    ran.assert_error(5, "not_measured", "may not create databases", "CREATEDB");
}
