//! Programs as workers: their environment, the meaning of their exits, and that no process outlives
//! its authority.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Value, json};

use crate::home::{Home, Process, wait_until};

/// A worker that runs a shell script.
fn worker(home: &Home, script: &str) -> Process {
    let arguments =
        ["work", "--json", "--name", "w", "--queue", "q", "--exec", "sh", "--", "-c", script];
    Process::start(home.tenure(&arguments))
}

fn once(home: &Home, script: &str, flags: &[&str]) -> Value {
    let _server = home.serve();
    let _worker = worker(home, script);
    let id = home.submit(&[&["k", "--queue", "q", "--max-attempts", "1"], flags].concat());
    home.ended(&id)
}

#[test]
fn a_program_learns_everything_about_its_attempt() {
    // S4-5, S4-69: the members of the envelope reach the program through its environment.
    let home = Home::new();
    let script = r#"printf '{"task":"%s","run":"%s","kind":"%s","queue":"%s","attempt":%s,"fence":%s,"lease":"%s","deadline":"%s","worker":"%s","fd":%s,"key":"%s"}' \
        "$TENURE_TASK_ID" "$TENURE_RUN_ID" "$TENURE_KIND" "$TENURE_QUEUE" "$TENURE_ATTEMPT" "$TENURE_FENCE" \
        "$TENURE_LEASE_ID" "$TENURE_DEADLINE" "$TENURE_WORKER_ID" "$TENURE_PROGRESS_FD" "$TENURE_API_KEY""#;
    let run = once(&home, script, &["--deadline", "1h"]);
    let told = &run["output"];
    assert_eq!(told["task"], run["taskId"]);
    assert_eq!(told["run"], run["runId"]);
    assert_eq!(
        (&told["kind"], &told["queue"], &told["attempt"]),
        (&json!("k"), &json!("q"), &json!(1))
    );
    assert_eq!(told["deadline"], run["deadline"]);
    assert_eq!((&told["fd"], &told["key"]), (&json!(3), &json!("")));
    let record = home_record(&home, &run);
    assert_eq!(told["fence"], record["attempts"][0]["fence"]);
    assert_eq!(told["lease"], record["attempts"][0]["leaseId"]);
    assert_eq!(told["worker"], record["attempts"][0]["owner"]);
}

fn home_record(home: &Home, run: &Value) -> Value {
    let _server = home.serve();
    home.json(&["runs", "record", "--json", run["runId"].as_str().unwrap()])
}

#[test]
fn what_a_program_writes_to_stderr_is_kept_with_its_attempt() {
    let home = Home::new();
    let server = home.serve();
    let script = r#"printf '\033[31mred\033[0m\n10 %%\r100 %%\n\377 odd\n' >&2; printf 'not ended' >&2; echo '"done"'"#;
    let _worker = worker(&home, script);
    let id = home.submit(&["k", "--queue", "q", "--max-attempts", "1"]);
    home.ended(&id);
    let texts = || {
        let shown = home.json(&["runs", "show", "--json", "--logs", &id]);
        assert_eq!(shown["run"]["state"], "succeeded");
        let lines = shown["logs"].as_array().unwrap().clone();
        lines.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let expected = ["red", "100 %", "\u{fffd} odd", "not ended"];
    assert_eq!(texts(), expected);
    let people = home.run(&["runs", "show", "--logs", &id]);
    assert!(people.stdout.contains("log of attempt 1"), "{}", people.stdout);
    // They are there after a restart, too.
    drop(server);
    let _server = home.serve();
    assert_eq!(texts(), expected);
}

#[test]
fn text_becomes_output_too() {
    let home = Home::new();
    assert_eq!(once(&home, "echo all good", &[])["output"], json!({"text": "all good"}));
}

#[test]
fn exit_codes_and_signals_become_categories() {
    // S4-58, S3-56: a failed execution is reported with its category.
    let home = Home::new();
    let _server = home.serve();
    let _worker = worker(
        &home,
        r#"code=$(cat); echo "said $code" >&2; [ "$code" = 9 ] && kill -9 $$; exit "$code""#,
    );
    let table = [
        ("1", "USER_CODE"),
        ("65", "DATA_QUALITY"),
        ("78", "CONFIGURATION"),
        ("75", "INFRASTRUCTURE"),
        ("124", "TIMEOUT"),
        ("9", "INFRASTRUCTURE"),
    ];
    for (code, category) in table {
        let id = home.submit(&["k", "--queue", "q", "--max-attempts", "1", "--input", code]);
        let error = home.ended(&id)["error"].clone();
        assert_eq!(error["category"], category, "exit code {code}: {error}");
        assert!(error["message"].as_str().unwrap().starts_with(&format!("said {code}")), "{error}");
        assert_eq!(error["stackTrace"], format!("said {code}\n"));
    }
}

#[test]
fn a_worker_without_its_program_does_not_start() {
    let home = Home::new();
    let _server = home.serve();
    let id = home.submit(&["k", "--queue", "q"]);
    let ran = home.run(&["work", "--queue", "q", "--exec", "./missing"]);
    ran.assert_error(2, "program_not_found", "there is no program `./missing`", "spelling");
    std::fs::write(home.path().join("job.sh"), "#!/bin/sh\n").unwrap();
    let ran = home.run(&["work", "--queue", "q", "--exec", "./job.sh"]);
    ran.assert_error(2, "program_not_executable", "./job.sh is not executable", "chmod +x");
    let ran = home.run(&["work", "--queue", "q", "--exec", "cat -n"]);
    ran.assert_error(2, "program_not_found", "`cat -n`", "--exec cat -- -n");
    let run = home.run_view(&id);
    assert_eq!((&run["state"], &run["attempt"]), (&json!("queued"), &json!(0)), "{run}");
}

#[test]
fn a_program_that_disappears_stops_its_worker_and_fails_no_run() {
    const RUNS: usize = 12;
    let home = Home::new();
    let _server = home.serve();
    let script = home.path().join("job.sh");
    std::fs::write(&script, "#!/bin/sh\necho done\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    let arguments = ["work", "--json", "--queue", "q", "--concurrency", "4", "--exec", "./job.sh"];
    let mut worker = Process::start(home.tenure(&arguments));
    let first = home.submit(&["k", "--queue", "q"]);
    assert_eq!(home.ended(&first)["state"], "succeeded");
    std::fs::remove_file(&script).unwrap();
    let ids: Vec<String> =
        (0..RUNS).map(|_| home.submit(&["k", "--queue", "q", "--max-attempts", "1"])).collect();
    assert_eq!(worker.exit_code(), 1);
    for id in ids {
        let run = home.run_view(&id);
        // One may be leased to a poll whose answer was on its way when the worker stopped.
        assert!(run["state"] != "failed" && run["failures"] == 0, "{run}");
    }
}

#[test]
fn output_that_is_no_text_is_a_clear_failure_or_kept_on_request() {
    let home = Home::new();
    let run = once(&home, r"printf 'ok \377'", &[]);
    assert_eq!(run["state"], "failed", "{run}");
    let message = run["error"]["message"].as_str().unwrap();
    assert!(message.contains("not UTF-8, first at byte 3"), "{message}");
    let home = Home::new();
    let _server = home.serve();
    let arguments =
        ["work", "--queue", "q", "--output-base64", "--exec", "printf", "--", r"ok \377"];
    let _worker = Process::start(home.tenure(&arguments));
    let id = home.submit(&["k", "--queue", "q"]);
    assert_eq!(home.ended(&id)["output"], json!({"base64": "b2sg/w=="}));
}

#[test]
fn output_that_is_too_large_is_a_clear_failure() {
    let home = Home::new();
    let run = once(&home, "yes", &[]);
    assert_eq!(run["state"], "failed");
    assert!(run["error"]["message"].as_str().unwrap().contains("262144 bytes"), "{run}");
}

#[test]
fn progress_does_not_wait_for_the_next_heartbeat() {
    // S4-19: the heartbeat brings it, and new progress is a reason to send one. The next one that is
    // due would come after this test has given up.
    let home = Home::new();
    let _server = home.serve();
    let _worker = worker(&home, "echo progress 40 >&3; while :; do sleep 0.1; done");
    let flags = ["--lease-ms", "1200000", "--heartbeat-ms", "600000"];
    let id = home.submit(&[&["k", "--queue", "q"], &flags[..]].concat());
    home.until(&id, "progress", |run| run["lease"]["progressPct"] == json!(40.0));
}

#[test]
fn progress_is_visible_while_the_program_runs() {
    // S4-19: progress of the program is sent with the heartbeats.
    let home = Home::new();
    let _server = home.serve();
    let _worker = worker(
        &home,
        "echo progress 40 halfway >&3; while [ ! -e go ]; do sleep 0.05; done; echo done",
    );
    let id = home.submit(&["k", "--queue", "q", "--lease-ms", "20000", "--heartbeat-ms", "500"]);
    let run = home.until(&id, "progress", |run| run["lease"]["progressPct"] == json!(40.0));
    assert_eq!(run["lease"]["message"], "halfway");
    let table = home.run(&["runs", "list"]).stdout;
    assert!(table.contains("40 %"), "{table}");
    std::fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(home.ended(&id)["state"], "succeeded");
}

/// Ignores SIGTERM together with its grandchild, whose process id it writes to a file.
const IGNORES_SIGTERM: &str = "trap '' TERM; sh -c \"trap '' TERM; while :; do sleep 0.1; done\" & echo $! > grandchild; \
                    echo $$ > child; echo message ready >&3; while :; do sleep 0.1; done";

fn pid_in(home: &Home, file: &str) -> String {
    let path = home.path().join(file);
    let read = || std::fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
    wait_until(file, || !read().is_empty());
    read()
}

/// Reaped, or a zombie that waits for init to reap it.
fn is_gone(pid: &str) -> bool {
    match std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")),
        Err(_) => true,
    }
}

#[test]
fn a_cancel_ends_the_whole_group_even_if_it_ignores_sigterm() {
    // S4-51, S4-52, S4-53, S4-54: asked to stop, the worker kills everything it started and reports
    // CANCELLED in time.
    let home = Home::new();
    let _server = home.serve();
    let mut worker = worker(&home, IGNORES_SIGTERM);
    let id = home.submit(&[
        "k",
        "--queue",
        "q",
        "--lease-ms",
        "20000",
        "--heartbeat-ms",
        "500",
        "--cancel-grace-ms",
        "3000",
    ]);
    let (child, grandchild) = (pid_in(&home, "child"), pid_in(&home, "grandchild"));
    assert!(!is_gone(&child) && !is_gone(&grandchild));
    assert_eq!(home.run(&["runs", "cancel", &id, "--reason", "enough"]).code, 0);
    let run = home.ended(&id);
    assert_eq!(run["state"], "cancelled", "{run}");
    let event = worker.line();
    assert_eq!((&event["verdict"], &event["outcome"]), (&json!("COMMITTED"), &json!("CANCELLED")));
    wait_until("the child's end", || is_gone(&child));
    wait_until("the grandchild's end", || is_gone(&grandchild));
}

#[test]
fn a_program_that_tidies_up_and_exits_with_0_after_a_cancel_was_cancelled() {
    // S4-23, S4-43, S4-54: a graceful stop is reported CANCELLED, whatever the program prints
    // before it exits.
    let home = Home::new();
    let _server = home.serve();
    let script =
        "trap 'echo half done; exit 0' TERM; echo $$ > child; while :; do sleep 0.05; done";
    let _worker = worker(&home, script);
    let id = home.submit(&["k", "--queue", "q", "--lease-ms", "20000", "--heartbeat-ms", "500"]);
    pid_in(&home, "child");
    assert_eq!(home.run(&["runs", "cancel", &id]).code, 0);
    let run = home.ended(&id);
    assert_eq!((&run["state"], &run["output"]), (&json!("cancelled"), &Value::Null), "{run}");
}

#[test]
fn a_lost_lease_ends_the_whole_group_and_reports_nothing() {
    // S3-28, S3-29, S3-30, S4-25: authority is lost; the work is stopped, its result discarded, nothing reported.
    let home = Home::new();
    let _server = home.serve();
    let mut worker = worker(&home, IGNORES_SIGTERM);
    let id = home.submit(&["k", "--queue", "q", "--lease-ms", "20000", "--heartbeat-ms", "500"]);
    let (child, grandchild) = (pid_in(&home, "child"), pid_in(&home, "grandchild"));
    assert_eq!(home.run(&["runs", "cancel", &id, "--force"]).code, 0);
    let event = worker.line();
    assert_eq!((&event["verdict"], &event["runId"]), (&json!("CANCELLED"), &json!(id)), "{event}");
    wait_until("the child's end", || is_gone(&child));
    wait_until("the grandchild's end", || is_gone(&grandchild));
    assert_eq!(home.run_view(&id)["state"], "cancelled");
}

#[test]
fn a_killed_worker_takes_its_program_with_it_and_another_takes_over() {
    // S3-5, S3-48: a worker that dies loses its lease, and the next attempt succeeds on another
    // worker.
    let home = Home::new();
    let _server = home.serve();
    let first = worker(&home, "echo $$ > child; exec sleep 1000");
    let id = home.submit(&["k", "--queue", "q", "--lease-ms", "6000"]);
    let child = pid_in(&home, "child");
    first.signal("KILL");
    wait_until("the program's end", || is_gone(&child));
    let _second = worker(&home, "echo rescued");
    let run = home.ended(&id);
    assert_eq!(
        (&run["state"], &run["attempt"], &run["lost"]),
        (&json!("succeeded"), &json!(2), &json!(1)),
        "{run}"
    );
}

#[test]
fn a_worker_asked_to_end_finishes_what_it_holds() {
    let home = Home::new();
    let _server = home.serve();
    let mut worker =
        worker(&home, "echo $$ > child; while [ ! -e go ]; do sleep 0.05; done; echo finished");
    let id = home.submit(&["k", "--queue", "q"]);
    pid_in(&home, "child");
    worker.signal("TERM");
    std::fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(worker.exit_code(), 0);
    assert_eq!(home.run_view(&id)["output"], json!({"text": "finished"}));
}

/// What a worker with this script says on stderr when it is asked to end, once `is_ready`.
fn said_when_asked_to_end(home: &Home, script: &str, is_ready: impl Fn() -> bool) -> String {
    let arguments = ["work", "--drain", "7m", "-q", "q", "--exec", "sh", "--", "-c", script];
    let mut command = home.tenure(&arguments);
    let mut worker = Process::start({
        command.stderr(std::process::Stdio::piped());
        command
    });
    wait_until("a worker that is ready", is_ready);
    worker.signal("TERM");
    let mut said = BufReader::new(worker.child.stderr.take().unwrap());
    let mut lines = String::new();
    while !lines.contains("stopping") {
        assert_ne!(said.read_line(&mut lines).unwrap(), 0, "{lines}");
    }
    std::fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(worker.exit_code(), 0);
    lines
}

#[test]
fn a_worker_asked_to_end_says_what_it_waits_for() {
    let home = Home::new();
    let _server = home.serve();
    let polls = || {
        let seen = home.json(&["workers", "--json"]);
        seen.as_array().is_some_and(|workers| !workers.is_empty())
    };
    let said = said_when_asked_to_end(&home, "exit 0", polls);
    assert!(said.contains("stopping; no program is running"), "{said}");
    std::fs::remove_file(home.path().join("go")).unwrap();
    home.submit(&["k", "--queue", "q"]);
    let script = "echo $$ > child; while [ ! -e go ]; do sleep 0.05; done";
    let child = home.path().join("child");
    let said = said_when_asked_to_end(&home, script, || child.exists());
    assert!(said.contains("running programs: 1, which have 7 min to finish"), "{said}");
}

#[test]
fn only_the_kinds_asked_for_are_taken() {
    let home = Home::new();
    let _server = home.serve();
    let arguments =
        ["work", "--json", "--queue", "q", "--kind", "b", "--kind", "c", "--exec", "cat"];
    let _worker = Process::start(home.tenure(&arguments));
    let other = home.submit(&["a", "--queue", "q"]);
    let ids = ["b", "c"].map(|kind| home.submit(&[kind, "--queue", "q"]));
    for id in &ids {
        assert_eq!(home.ended(id)["state"], "succeeded");
    }
    assert_eq!(home.run_view(&other)["state"], "queued");
}

/// Runs until the worker is asked to stop, and returns its exit code and output.
fn ended_under_way(home: &Home, script: &str) -> (i32, String) {
    let arguments =
        ["work", "--json", "--queue", "q", "--drain", "0s", "--exec", "sh", "--", "-c", script];
    let mut worker = Process::start(home.tenure(&arguments));
    let id = home.submit(&["k", "--queue", "q", "--max-attempts", "1"]);
    pid_in(home, "child");
    worker.signal("TERM");
    (worker.exit_code(), id)
}

#[test]
fn work_that_stops_with_its_worker_is_handed_back_and_costs_no_attempt() {
    let home = Home::new();
    let _server = home.serve();
    let obedient = "trap 'exit 1' TERM; echo $$ > child; while :; do sleep 0.1; done";
    let (code, id) = ended_under_way(&home, obedient);
    let run = home.run_view(&id);
    assert_eq!((code, &run["state"]), (0, &json!("retry")), "{run}");
    assert_eq!((&run["failures"], &run["lost"]), (&json!(0), &json!(0)), "{run}");
    let shown = home.run(&["runs", "show", &id]).stdout;
    assert!(shown.contains("RELEASED"), "{shown}");
    let history = home.run(&["runs", "history", &id]).stdout;
    assert!(history.contains("RELEASED, again"), "{history}");
    // One failure would have ended it.
    let _next = worker(&home, "echo rescued");
    let run = home.ended(&id);
    assert_eq!((&run["state"], &run["attempt"]), (&json!("succeeded"), &json!(2)), "{run}");
}

#[test]
fn work_that_does_not_stop_in_time_is_handed_back_too() {
    // A process that left the program's session keeps stdout open for longer than the stopping
    // worker waits.
    let home = Home::new();
    let _server = home.serve();
    let deaf = "setsid sh -c 'echo $$ > stray; exec sleep 600' & trap '' TERM; \
                while [ ! -s stray ]; do sleep 0.1; done; echo $$ > child; while :; do sleep 0.1; done";
    let (code, id) = ended_under_way(&home, deaf);
    let (child, stray) = (pid_in(&home, "child"), pid_in(&home, "stray"));
    let killed = std::process::Command::new("kill").arg(&stray).status().unwrap();
    wait_until("the child's end", || is_gone(&child));
    let run = home.run_view(&id);
    assert_eq!((code, &run["state"], &run["lost"]), (0, &json!("retry"), &json!(0)), "{run}");
    assert!(killed.success(), "nobody but the test ends what left the session");
}

#[test]
fn a_cancel_does_not_wait_for_the_next_heartbeat() {
    // S4-49: the heartbeat brings the signal, and a poll tells the worker to send it now. The next
    // one that is due would come after this test has given up.
    let home = Home::new();
    let _server = home.serve();
    let _worker =
        worker(&home, "trap 'exit 0' TERM; echo $$ > child; while :; do sleep 0.05; done");
    let long = ["--lease-ms", "86400000", "--heartbeat-ms", "600000"];
    let id = home.submit(&[&["k", "--queue", "q"], &long[..]].concat());
    pid_in(&home, "child");
    assert_eq!(home.run(&["runs", "cancel", &id]).code, 0);
    assert_eq!(home.ended(&id)["state"], "cancelled");
}

#[test]
fn nothing_of_a_program_that_ignores_sigterm_outlives_its_worker() {
    let home = Home::new();
    let _server = home.serve();
    ended_under_way(&home, IGNORES_SIGTERM);
    let (child, grandchild) = (pid_in(&home, "child"), pid_in(&home, "grandchild"));
    wait_until("the child's end", || is_gone(&child));
    wait_until("the grandchild's end", || is_gone(&grandchild));
}

#[test]
fn a_program_may_print_any_integer_and_what_cannot_be_stored_names_the_limit() {
    let home = Home::new();
    let _server = home.serve();
    let deep = format!("{}1{}", "[".repeat(33), "]".repeat(33));
    let _workers = [
        ("big", "{\"id\": 12345678901234567890}".to_owned()),
        ("deep", deep),
        ("fits", format!("{}1{}", "[".repeat(32), "]".repeat(32))),
    ]
    .map(|(queue, prints)| {
        Process::start(home.tenure(&["work", "--queue", queue, "--exec", "echo", "--", &prints]))
    });
    let ran = home.run(&["submit", "k", "--queue", "big", "--wait"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"id\": 12345678901234567890}\n"), "{ran:?}");
    let ran = home.run(&["submit", "k", "--queue", "fits", "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = home.run(&["submit", "k", "--queue", "deep", "--wait"]);
    assert_eq!(ran.code, 10, "one attempt, failed for good: {ran:?}");
    assert!(
        ran.stderr.contains("at most 32 levels") && ran.stderr.contains("1 attempt"),
        "{ran:?}"
    );
}
