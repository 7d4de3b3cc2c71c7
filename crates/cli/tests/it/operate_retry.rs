//! Retrying runs, one or many, and never twice by accident.

use serde_json::{Value, json};

use crate::home::{Home, Process};

/// A worker whose program fails with a trace until the file `fixed` exists, then echoes its input.
fn fragile(home: &Home) -> Process {
    let script = "test -e fixed || { echo boom >&2; exit 3; }; cat";
    let exec =
        ["work", "--json", "--name", "w", "--queue", "q", "--exec", "sh", "--", "-c", script];
    Process::start(home.tenure(&exec))
}

fn failed(home: &Home, more: &[&str]) -> String {
    let once = ["k", "--queue", "q", "--max-attempts", "1", "--input", "[1]"];
    let id = home.submit(&[&once[..], more].concat());
    assert_eq!(home.ended(&id)["state"], "failed");
    id
}

fn listed(home: &Home, filters: &[&str]) -> Vec<Value> {
    let all = home.json(&[&["runs", "list", "--json", "--limit", "1000"], filters].concat());
    all.as_array().unwrap().clone()
}

#[test]
fn a_failed_run_is_retried_with_its_settings() {
    let home = Home::new();
    let _server = home.serve();
    let _worker = fragile(&home);
    let id = failed(&home, &["--priority", "5", "--label", "team=a", "--idempotency-key", "once"]);
    std::fs::write(home.path().join("fixed"), "").unwrap();
    let ran = home.run(&["runs", "retry", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let new = ran.stdout.trim().to_owned();
    assert!(ran.stderr.contains(&id) && ran.stderr.contains("runs watch"), "{ran:?}");
    let run = home.ended(&new);
    assert_eq!((run["state"].as_str(), &run["output"]), (Some("succeeded"), &json!([1])));
    assert_eq!((run["priority"].as_i64(), run["retryOf"].as_str()), (Some(5), Some(id.as_str())));
    // The id of the task names the run as well, and a key makes the retry repeatable.
    let task = id.replace("run_", "task_");
    let keyed = ["runs", "retry", "--json", &task, "--idempotency-key", "k1"];
    let (first, second) = (home.json(&keyed), home.json(&keyed));
    assert_eq!((&first["runId"], &second["replayed"]), (&second["runId"], &json!(true)));
    let succeeded = home.run(&["runs", "retry", &new]);
    succeeded.assert_error(4, "run_not_retryable", "succeeded", "runs show");
}

#[test]
fn many_are_retried_once_however_often_the_command_is_repeated() {
    let home = Home::new();
    let _server = home.serve();
    let worker = fragile(&home);
    let ids: Vec<String> = (0..12).map(|_| failed(&home, &["--label", "batch=1"])).collect();
    let other = failed(&home, &["--label", "batch=2"]);
    drop(worker);
    let filter = ["runs", "retry", "--queue", "q", "--label", "batch=1", "--since", "1h"];
    let dry = home.run(&[&filter[..], &["--state", "FAILED", "--dry-run"]].concat());
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(ids.iter().all(|id| dry.stdout.contains(id)), "every run is named: {dry:?}");
    assert!(dry.stdout.contains("USER_CODE"), "and why it failed: {dry:?}");
    assert!(dry.stdout.contains("would retry 12 runs; nothing was done"), "{dry:?}");
    assert_eq!(listed(&home, &[]).len(), 13, "nothing was done");
    let unsure = home.run(&filter);
    assert_eq!(unsure.code, 2, "{unsure:?}");
    assert!(unsure.stderr.contains("the retry was not confirmed [not_confirmed]"), "{unsure:?}");
    let one = home.run(&["runs", "retry", "--queue", "q", "--label", "batch=2"]);
    assert!(one.stderr.contains("1 run matches, but the retry was not confirmed"), "{one:?}");
    // Part of them, as if the command had been interrupted; then the same command again.
    let limited = [&filter[..], &["--json", "--yes", "--limit", "7"]].concat();
    let some = home.json(&limited);
    assert_eq!((some["retried"].as_array().unwrap().len(), &some["more"]), (7, &json!(true)));
    let rest = home.json(&limited);
    assert_eq!(rest["retried"].as_array().unwrap().len(), 5, "{rest}");
    assert_eq!((&rest["alreadyRetried"], &rest["more"]), (&json!(7), &json!(false)), "{rest}");
    let again = home.run(&[&filter[..], &["--yes"]].concat());
    assert!(again.stderr.contains("left out 12 runs that were retried before"), "{again:?}");
    let mut repeated: Vec<String> = listed(&home, &["--label", "tenure.retry-of"])
        .iter()
        .map(|run| run["retryOf"].as_str().unwrap().to_owned())
        .collect();
    repeated.sort();
    assert_eq!(repeated, ids, "each once, and not {other}");
}

#[test]
fn a_run_that_is_refused_stops_no_other() {
    let home = Home::new();
    let _server = home.serve();
    let worker = fragile(&home);
    let ids: Vec<String> = (0..3).map(|_| failed(&home, &[])).collect();
    drop(worker);
    // Somebody used the key that the command gives to the retry of this run.
    let taken = format!("retry-of-{}", ids[1]);
    home.submit(&["k", "--queue", "other", "--idempotency-key", &taken]);
    let filter = ["runs", "retry", "--queue", "q", "--yes"];
    let keyed = home.run(&[&filter[..], &["--idempotency-key", "mine"]].concat());
    assert_eq!(keyed.code, 2, "one key cannot serve many retries: {keyed:?}");
    let ran = home.run(&filter);
    assert_eq!((ran.code, ran.stdout.contains("2 retried, 1 refused")), (4, true), "{ran:?}");
    assert!(ran.stderr.contains(&ids[1]) && ran.stderr.contains("[idempotency_key_reused]"));
    assert_eq!(listed(&home, &["--label", "tenure.retry-of"]).len(), 2);
}

#[test]
fn a_dry_run_of_one_retry_says_what_would_happen() {
    let home = Home::new();
    let _server = home.serve();
    let _worker = fragile(&home);
    let id = failed(&home, &[]);
    let dry = home.run(&["runs", "retry", &id, "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(dry.stdout.contains(&id) && dry.stdout.contains("would retry 1 run;"), "{dry:?}");
    let waiting = home.submit(&["k", "--queue", "none"]);
    let refused = home.run(&["runs", "retry", &waiting, "--dry-run"]);
    refused.assert_error(2, "state_not_ended", "has not ended", "runs watch");
    assert_eq!(listed(&home, &[]).len(), 2, "nothing was done");
}

#[test]
fn without_a_filter_or_with_the_wrong_state_nothing_is_retried() {
    let home = Home::new();
    let _server = home.serve();
    home.submit(&["k", "--queue", "q"]);
    assert_eq!(home.run(&["runs", "retry"]).code, 2, "not everything by accident");
    assert_eq!(home.run(&["runs", "retry", "--yes"]).code, 2, "not everything by accident");
    let waiting = home.run(&["runs", "retry", "--state", "queued", "--yes"]);
    waiting.assert_error(2, "state_not_ended", "have not ended", "--state failed");
    let done = home.run(&["runs", "retry", "--state", "succeeded", "--yes"]);
    done.assert_error(2, "state_succeeded", "are not retried", "submit it again");
    let none = home.run(&["runs", "retry", "--queue", "q", "--yes"]);
    assert!(none.code == 0 && none.stderr.contains("no run matches"), "{none:?}");
    let hints = |filter: &[&str]| home.run(&[&["runs", "list"], filter].concat()).stderr;
    assert!(hints(&["--kind", "other"]).contains("no runs match the filters"));
    assert!(!hints(&["--kind", "other"]).contains("submit"));
    assert_eq!(listed(&home, &[]).len(), 1);
}

#[test]
fn lists_are_filtered_by_labels_time_worker_and_category() {
    let home = Home::new();
    let _server = home.serve();
    let _worker = fragile(&home);
    let both = failed(&home, &["--label", "team=a", "--label", "env=x"]);
    failed(&home, &["--label", "team=a"]);
    let waiting = home.submit(&["k", "--queue", "none", "--label", "team=b"]);
    let ids = |filters: &[&str]| -> Vec<String> {
        let runs = listed(&home, filters);
        runs.iter().map(|run| run["runId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["--label", "team=a", "--label", "env=x"]), [both.as_str()]);
    assert_eq!(ids(&["--label", "env"]), [both.as_str()]);
    assert_eq!(ids(&["--label", "team"]).len(), 3);
    assert_eq!(ids(&["--since", "1h"]).len(), 3);
    assert_eq!(ids(&["--until", "1h"]), [] as [&str; 0]);
    assert_eq!(ids(&["--category", "user-code", "--label", "env"]), [both.as_str()]);
    let worker = home.run_view(&both)["workerId"].as_str().unwrap().to_owned();
    assert_eq!(ids(&["--worker", &worker]).len(), 2);
    assert_eq!(ids(&["--state", "QUEUED"]), [waiting]);
    let table = home.run(&["runs", "list"]).stdout;
    assert_eq!(table.matches(&worker).count(), 2, "ended runs show their worker: {table}");
    let odd = home.run(&["runs", "list", "--since", "yesterday"]);
    assert!(odd.code == 2 && odd.stderr.contains("such as 2h"), "{odd:?}");
}

#[test]
fn show_has_settings_limits_and_the_stack_trace() {
    let home = Home::new();
    let _server = home.serve();
    let _worker = fragile(&home);
    let id =
        failed(&home, &["--priority", "-3", "--lease-ms", "20000", "--idempotency-key", "mine"]);
    let shown = home.run(&["runs", "show", &id.replace("run_", "task_")]).stdout;
    for expected in [
        "1 failed of at most 1, 0 lost of at most 3",
        " priority  -3",
        "lease 20 s",
        "retry after 5 s up to 5 min",
        "      key  mine",
        "   worker  w-",
        "stack trace\n",
        "boom",
    ] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    let new = home.json(&["runs", "retry", "--json", &id])["runId"].as_str().unwrap().to_owned();
    let shown = home.run(&["runs", "show", &new]).stdout;
    assert!(shown.contains(&format!(" retry of  {id}")), "{shown}");
}

#[test]
fn what_a_run_recorded_is_done_again_only_if_that_is_said() {
    let home = Home::new();
    let _server = home.serve();
    let script = r#"echo "$TENURE_KIND" >>done; test "$TENURE_KIND" = pay || test -e fixed"#;
    let exec = ["work", "--json", "--name", "w", "--queue", "q", "--exec", "sh", "--", "-c"];
    let _worker = Process::start(home.tenure(&[&exec[..], &[script]].concat()));
    let stage = |kind: &str| json!({"key": kind, "kind": kind, "queue": "q", "maxAttempts": 1});
    let plan = json!({"steps": [stage("pay"), stage("send")]});
    std::fs::write(home.path().join("plan.json"), plan.to_string()).unwrap();
    let id = home.submit(&["--plan", "plan.json"]);
    assert_eq!(home.ended(&id)["state"], "failed");
    std::fs::write(home.path().join("fixed"), "").unwrap();
    let refused = home.run(&["runs", "retry", &id]);
    refused.assert_error(4, "run_has_records", "have succeeded", "--from-scratch");
    let again = home.run(&["runs", "retry", &id, "--from-scratch"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(home.ended(again.stdout.trim())["state"], "succeeded");
    let done = std::fs::read_to_string(home.path().join("done")).unwrap();
    assert_eq!(done.lines().collect::<Vec<_>>(), ["pay", "send", "pay", "send"]);
}
