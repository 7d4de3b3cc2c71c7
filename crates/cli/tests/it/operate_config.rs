//! `tenure config`: flags, then the environment, then the profile, then the default.

use serde_json::Value;

use crate::home::{Home, Process};

fn setting<'a>(settings: &'a Value, name: &str) -> (&'a str, &'a str) {
    let found = settings.as_array().unwrap().iter().find(|found| found["setting"] == name);
    let found = found.unwrap_or_else(|| panic!("{name} in {settings}"));
    (found["value"].as_str().unwrap_or("none"), found["origin"].as_str().unwrap())
}

fn config(home: &Home, environment: &[(&str, &str)], flags: &[&str]) -> Value {
    let arguments: Vec<&str> = ["config", "--json"].iter().chain(flags).copied().collect();
    let output = home.tenure(&arguments).envs(environment.iter().copied()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

#[test]
fn each_setting_names_where_it_comes_from() {
    let home = Home::new();
    let bare = config(&home, &[], &[]);
    assert_eq!(setting(&bare, "url"), ("http://127.0.0.1:7400", "the default"));
    assert_eq!(setting(&bare, "key").0, "none");
    assert_eq!(setting(&bare, "store").1, "the default");

    let _server = home.serve();
    let remembered = config(&home, &[], &[]);
    assert!(setting(&remembered, "url").1.starts_with("the profile "), "{remembered}");
    assert!(setting(&remembered, "key").1.starts_with("the profile "), "{remembered}");

    let environment = [
        ("TENURE_URL", "http://127.0.0.1:9"),
        ("TENURE_API_KEY", "tnr_abc_secret_check"),
        ("TENURE_STORE", "sqlite:from-environment.db"),
    ];
    let told = config(&home, &environment, &[]);
    assert_eq!(setting(&told, "url"), ("http://127.0.0.1:9", "the variable TENURE_URL"));
    assert_eq!(setting(&told, "key"), ("tnr_abc_…", "the variable TENURE_API_KEY"));
    let store = ("sqlite:from-environment.db", "the variable TENURE_STORE");
    assert_eq!(setting(&told, "store"), store);
    assert_eq!(setting(&told, "signing key").0, "from-environment.key");

    let flags = ["--url", "http://127.0.0.1:8", "--key", "tnr_x_y_z", "--store", "mine.db"];
    let typed = config(&home, &environment, &flags);
    assert_eq!(setting(&typed, "url"), ("http://127.0.0.1:8", "the flag --url"));
    assert_eq!(setting(&typed, "key"), ("tnr_x_…", "the flag --key"));
    assert_eq!(setting(&typed, "store"), ("sqlite:mine.db", "the flag --store"));
}

#[test]
fn a_key_for_one_server_is_none_for_another_and_no_secret_is_shown() {
    let home = Home::new();
    let _server = home.serve();
    let elsewhere = config(&home, &[], &["--url", "http://127.0.0.1:9"]);
    assert_eq!(setting(&elsewhere, "key").0, "none", "the profile's key is not for it");
    let profile: Value = serde_json::from_slice(&std::fs::read(home.profile()).unwrap()).unwrap();
    let secret = profile["apiKey"].as_str().unwrap();
    let shown = home.run(&["config"]).stdout;
    assert!(shown.contains("tnr_") && !shown.contains(secret), "{shown}");
}

#[test]
fn the_variable_says_where_the_store_lies_for_every_command() {
    let home = Home::new();
    let mut command = home.tenure(&["verify"]);
    let output = command.env("TENURE_STORE", "sqlite:from-environment.db").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("from-environment.db"), "{output:?}");
}

#[test]
fn a_flag_wins_over_the_variable_and_that_over_the_file() {
    let home = Home::new();
    let file = home.path().join("mine.toml");
    let text =
        "listen = \"127.0.0.1:7\"\nretain-for = \"30d\"\nretain-runs = 5\nstore = \"of-file.db\"";
    std::fs::write(&file, text).unwrap();
    let from_file = format!("the file {}", file.display());
    let path = file.to_str().unwrap();
    let environment = [("TENURE_CONFIG", path), ("TENURE_RETAIN_FOR", "60d")];
    let shown = config(&home, &environment, &["--listen", "127.0.0.1:8"]);
    assert_eq!(setting(&shown, "listen"), ("127.0.0.1:8", "the flag --listen"));
    assert_eq!(setting(&shown, "retain-for"), ("60d", "the variable TENURE_RETAIN_FOR"));
    assert_eq!(setting(&shown, "retain-runs"), ("5", from_file.as_str()));
    assert_eq!(setting(&shown, "store"), ("sqlite:of-file.db", from_file.as_str()));
    assert_eq!(setting(&shown, "public-url"), ("none", "the default"));
    let by_flag = config(&home, &[("TENURE_CONFIG", "nowhere.toml")], &["--config", path]);
    assert_eq!(setting(&by_flag, "retain-for"), ("30d", from_file.as_str()));
}

#[test]
fn a_server_follows_its_file_and_so_do_the_commands_that_work_on_its_store() {
    let home = Home::new();
    let text = "listen = \"127.0.0.1:0\"\nstore = \"sqlite:of-file.db\"\nretain-for = \"30d\"\n";
    std::fs::write(home.path().join("mine.toml"), text).unwrap();
    let mut server =
        crate::home::Process::start(home.tenure(&["serve", "--json", "--config", "mine.toml"]));
    let ready = server.line();
    assert!(ready["store"].as_str().unwrap().ends_with("/of-file.db"), "{ready}");
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    let verified = home.tenure(&["verify"]).env("TENURE_CONFIG", "mine.toml").output().unwrap();
    assert!(String::from_utf8_lossy(&verified.stdout).contains("of-file.db"), "{verified:?}");
}

#[test]
fn a_file_with_a_mistake_is_refused_with_the_remedy() {
    let home = Home::new();
    std::fs::write(home.path().join("typo.toml"), "lisen = \"127.0.0.1:0\"\n").unwrap();
    let refused = home.run(&["serve", "--config", "typo.toml"]);
    refused.assert_error(2, "unknown_setting", "`lisen`", "did you mean `listen`?");
    home.run(&["serve", "--config", "nowhere.toml"]).assert_error(
        3,
        "config_unreadable",
        "nowhere.toml",
        "TENURE_CONFIG",
    );
}

#[test]
fn a_run_that_says_nothing_gets_the_defaults_of_its_queue_and_of_the_server() {
    let home = Home::new();
    let file = home.path().join("tenure.toml");
    let text = "default-lease = \"60s\"\n[queues.images]\nlease = \"12s\"\nheartbeat = \"3s\"\nlost-max = 9\n";
    std::fs::write(&file, text).unwrap();
    let arguments = [
        "serve",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--write-profile",
        "--config",
        "tenure.toml",
        "--default-max-attempts",
        "5",
    ];
    let mut server = Process::start(home.tenure(&arguments));
    server.line();
    let script = "while [ ! -e go ]; do sleep 0.05; done";
    let arguments = [
        "work",
        "--queue",
        "images",
        "--queue",
        "other",
        "--concurrency",
        "2",
        "--exec",
        "sh",
        "--",
        "-c",
        script,
    ];
    let _worker = Process::start(home.tenure(&arguments));
    for (queue, lease_ms) in [("images", 12_000), ("other", 60_000)] {
        let id = home.submit(&["k", "--queue", queue]);
        let run = home.until(&id, "a lease", |run| run["state"] == "running");
        let time = |member: &serde_json::Value| {
            member.as_str().unwrap().parse::<tenure::Time>().unwrap().as_ms()
        };
        let lease = time(&run["lease"]["expiresAt"]) - time(&run["lease"]["heartbeatAt"]);
        assert_eq!(lease, lease_ms, "{run}");
        assert_eq!(run["maxAttempts"], 5, "{run}");
    }
    std::fs::write(home.path().join("go"), "").unwrap();
    let shown = home.run(&["config", "--config", "tenure.toml"]).stdout;
    assert!(shown.contains("queues.images.lost-max"), "{shown}");
    std::fs::write(&file, "[queues.images]\nlease = \"1s\"\n").unwrap();
    let ran = home.run(&["serve", "--config", "tenure.toml", "--listen", "127.0.0.1:0"]);
    ran.assert_error(2, "unusable_default", "queue images", "tenure config");
}
