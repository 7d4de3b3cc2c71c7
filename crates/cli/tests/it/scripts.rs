//! Shell scripts as durable programs: `tenure step`, `sleep`, `wait-for`, `ask`, `child`, `effect` and `spend` inside a program
//! that `tenure work --exec` runs.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::home::{Home, Process, wait_until};

/// A home with a server, and a script that a worker runs for each task of the queue `q`.
struct Workshop {
    home: Home,
    script: String,
    _server: Process,
}

impl Workshop {
    fn new(script: &str) -> Workshop {
        let home = Home::new();
        let server = home.serve();
        let path = home.path().join("script.sh");
        // What the steps do is written to the file `log`.
        let log = home.path().join("log");
        let text = format!("#!/bin/sh\nset -eu\nlog={}\n{script}\n", log.display());
        std::fs::write(&path, text).unwrap();
        std::fs::write(&log, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        let script = path.to_str().unwrap().to_owned();
        Workshop { home, script, _server: server }
    }

    fn worker(&self) -> Process {
        Process::start(self.home.tenure(&["work", "--queue", "q", "--exec", &self.script]))
    }

    fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.home.path().join("log")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn waiting(&self, id: &str) {
        self.home.until(id, "the wait", |run| run["state"] == "waiting");
    }
}

/// Whether it runs: one that ended may wait to be reaped.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

#[test]
fn a_script_goes_on_where_it_was_after_a_wait() {
    let workshop = Workshop::new(
        r#"id=$(cat)
        receipt=$(tenure step charge -- sh -c "echo charge >> $log; echo receipt-$id")
        echo run >> $log
        go=$(tenure wait-for go)
        tenure sleep 10ms --name breath
        shipped=$(tenure step ship -- sh -c "echo ship >> $log; echo '{\"parcel\": 1}'")
        echo "$receipt $go $shipped""#,
    );
    let home = &workshop.home;
    let _worker = workshop.worker();
    let id = home.submit(&["order", "--queue", "q", "--input", "7"]);
    workshop.waiting(&id);
    assert_eq!(workshop.log(), ["charge", "run"]);
    assert_eq!(home.run(&["runs", "signal", &id, "go", "--data", "[1]"]).code, 0);
    let ended = home.ended(&id);
    assert_eq!(ended["output"], json!({"text": "receipt-7 [1] {\"parcel\": 1}"}), "{ended}");
    let log = workshop.log();
    let count = |what: &str| log.iter().filter(|line| *line == what).count();
    assert_eq!((count("charge"), count("ship")), (1, 1), "each step happened once: {log:?}");
    assert!(count("run") >= 2, "the script ran again from its beginning: {log:?}");
}

#[test]
fn a_worker_that_is_killed_repeats_no_recorded_step() {
    // S3-28: what was not recorded is done again by the next worker, and only that.
    let workshop = Workshop::new(
        r#"tenure step charge -- sh -c "echo charge >> $log"
        tenure step ship -- sh -c "echo \$\$ > $log.pid; echo ship >> $log; test -e $log.go || sleep 600"
        echo done"#,
    );
    let mut first = workshop.worker();
    let id = workshop.home.submit(&["order", "--queue", "q", "--lease-ms", "2000"]);
    wait_until("the second step", || workshop.log().contains(&"ship".to_owned()));
    first.signal("KILL");
    first.exit_code();
    let pid = std::fs::read_to_string(workshop.home.path().join("log.pid")).unwrap();
    wait_until("the end of the command", || !is_alive(pid.trim()));
    std::fs::write(workshop.home.path().join("log.go"), "").unwrap();
    let _second = workshop.worker();
    let ended = workshop.home.ended(&id);
    assert_eq!(ended["output"], json!({"text": "done"}), "{ended}");
    assert_eq!(workshop.log(), ["charge", "ship", "ship"]);
}

#[test]
fn programs_of_two_stages_use_the_same_names_and_are_told_apart() {
    // S2-97: the stages of a plan are one task, and its budget is of all of them.
    let workshop = Workshop::new(
        r#"tenure step charge -- sh -c "echo \"\$TENURE_IDEMPOTENCY_KEY\" >> $log; cat /proc/sys/kernel/random/uuid"
        tenure spend tokens=100"#,
    );
    let home = &workshop.home;
    let plan = home.path().join("plan.json");
    let stage = |key: &str| json!({"key": key, "kind": "pay", "queue": "q"});
    std::fs::write(&plan, json!({"steps": [stage("one"), stage("two")]}).to_string()).unwrap();
    let _worker = workshop.worker();
    let plan = plan.to_str().unwrap();
    let id = home.submit(&["--plan", plan, "--budget", "tokens=1000"]);
    let ended = home.ended(&id);
    assert_eq!(ended["state"], "succeeded", "{ended}");
    assert_eq!(ended["budget"]["used"]["tokens"], 200, "{ended}");
    let keys = workshop.log();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert_ne!(keys[0], keys[1], "a service that is paid twice takes the second for a repetition");
}

#[test]
fn a_step_that_fails_is_tried_and_its_exit_code_is_kept() {
    let workshop = Workshop::new(
        r#"code=0
        tenure step pay --tries 2 --pause 1ms -- sh -c "echo try >> $log; echo no money >&2; exit 3" || code=$?
        tenure step none -- $log.missing || code="$code $?"
        tenure step outer -- sh -c "tenure step inner -- true || echo inner \$?"
        tenure wait-for go
        echo "$code""#,
    );
    let _worker = workshop.worker();
    let id = workshop.home.submit(&["order", "--queue", "q"]);
    workshop.waiting(&id);
    workshop.home.run(&["runs", "signal", &id, "go"]);
    let ended = workshop.home.ended(&id);
    assert_eq!(ended["output"], json!({"text": "inner 2\n3 127"}), "{ended}");
    assert_eq!(workshop.log(), ["try", "try"], "failures are recorded too");
}

#[test]
fn a_script_asks_people_calls_children_and_counts_what_it_spends() {
    let workshop = Workshop::new(
        r#"input=$(cat)
        test "$input" != '"child"' || { echo '"from the child"'; exit 0; }
        tenure step think -- tenure spend tokens=5
        tenure spend tokens=7 tool-calls=1
        tenure ask pay --subject 'Pay 7 EUR?' --content '{"eur": 7}' && code=0 || code=$?
        tenure child part --queue q --input '"child"'
        echo "code $code""#,
    );
    let home = &workshop.home;
    let _worker = workshop.worker();
    let id = home.submit(&["order", "--queue", "q"]);
    workshop.waiting(&id);
    let create = ["keys", "create", "--json", "--name", "ada", "--role", "approver"];
    let key = home.json(&create)["secret"].as_str().unwrap().to_owned();
    let asked = home.json(&["--key", &key, "approvals", "--json"]);
    let approval = &asked[0];
    assert_eq!(approval["subject"], "Pay 7 EUR?", "{asked}");
    assert_eq!(approval["content"], r#"{"eur":7}"#, "{asked}");
    let (name, digest) =
        (approval["approvalId"].as_str().unwrap(), approval["digest"].as_str().unwrap());
    let rejected = home.run(&["--key", &key, "approvals", "reject", name, "--digest", digest]);
    assert_eq!(rejected.code, 0, "{rejected:?}");
    let ended = home.ended(&id);
    let text = ended["output"]["text"].as_str().unwrap_or_else(|| panic!("{ended}"));
    let lines: Vec<&str> = text.lines().collect();
    let decided: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!(decided["outcome"], "REJECTED");
    assert_eq!(lines[1..], ["\"from the child\"", "code 1"]);
    let record = home.json(&["runs", "record", "--json", &id]);
    let spent = record.to_string();
    assert!(spent.contains("\"tokens\":12"), "{spent}");
}

#[test]
fn the_script_of_the_guide_runs() {
    let page = include_str!("../../../../docs/guide/scripts.md");
    let script = page.split("```sh\n#!/bin/sh\nset -eu\n").nth(1).expect("a script");
    let script = script.split("```").next().unwrap().replace("sleep 5m", "sleep 10ms");
    let workshop = Workshop::new(&format!("cd {}\n{script}", "$(dirname \"$log\")"));
    let home = &workshop.home;
    for (name, says) in [("charge", "receipt-$1"), ("ship", "sent"), ("refund", "back")] {
        let path = home.path().join(format!("{name}.sh"));
        let text =
            format!("#!/bin/sh\necho {name} >> {}/log; echo {says}\n", home.path().display());
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let _worker = workshop.worker();
    let id = home.submit(&["order", "--queue", "q", "--input", "7"]);
    let create = ["keys", "create", "--json", "--name", "ada", "--role", "approver"];
    let key = home.json(&create)["secret"].as_str().unwrap().to_owned();
    let mut asked = Value::Null;
    wait_until("the question", || {
        asked = home.json(&["--key", &key, "approvals", "--json"]);
        asked[0].is_object()
    });
    assert_eq!(asked[0]["subject"], "Ship order 7?");
    let name = asked[0]["approvalId"].as_str().unwrap();
    assert_eq!(home.run(&["--key", &key, "approvals", "approve", name]).code, 0);
    let ended = home.ended(&id);
    let text = ended["output"]["text"].as_str().unwrap_or_else(|| panic!("{ended}"));
    assert!(text.ends_with("sent\nreceipt-7"), "{text}");
    assert_eq!(workshop.log(), ["charge", "ship"]);
}

#[test]
fn outside_of_a_program_the_commands_say_what_they_are_for() {
    let home = Home::new();
    for command in [&["step", "a", "--", "true"][..], &["sleep", "1s"], &["progress", "4"]] {
        let said = home.run(command);
        said.assert_error(2, "not_inside_a_program", "tenure work --exec", "--exec ./script.sh");
    }
    let wrong = home.run(&["step", "a/b", "--", "true"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("a name has letters"), "{}", wrong.stderr);
}
