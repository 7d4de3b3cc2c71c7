//! `tenure plan check`: what is right, what is wrong, and where.

use crate::home::{Home, Process};

const DIAMOND: &str = "\
steps:
  - { key: fetch, kind: http.get, queue: io }
  - key: left
    kind: parse
    queue: cpu
    dependsOn: [fetch]
    input: { body: { $from: fetch, path: /body } }
  - { key: right, kind: parse, queue: cpu, dependsOn: [fetch], onError: continue }
  - { key: join, kind: report, queue: cpu, dependsOn: [left, right] }
";

/// The program's answer to a plan with this text.
fn check(text: &str, flags: &[&str]) -> (i32, String, String) {
    let home = Home::new();
    let file = home.path().join("plan.yaml");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap().to_owned();
    let mut arguments = vec!["plan", "check", file.as_str()];
    arguments.extend(flags);
    let ran = home.run(&arguments);
    (ran.code, ran.stdout, ran.stderr)
}

#[test]
fn a_plan_that_is_right_is_shown_in_the_order_in_which_it_runs() {
    let (code, stdout, stderr) = check(DIAMOND, &[]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("4 tasks with 4 edges, 3 on the longest path"), "{stdout}");
    assert!(stdout.contains("report in cpu after left, right"), "{stdout}");
    let (code, stdout, _) = check(DIAMOND, &["--json"]);
    let summary: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (code, summary["form"].as_str(), &summary["references"]),
        (0, Some("steps"), &1.into())
    );
    let (code, stdout, _) = check(r#"{"steps": [{"key": "a", "kind": "k", "queue": "q"}]}"#, &[]);
    assert_eq!(code, 0);
    assert!(stdout.contains("One task with 1 stage"), "{stdout}");
}

#[test]
fn ceilings_are_right_with_and_without_edges_and_are_shown() {
    let limited = "ceiling: { tokens: 500, toolCalls: 3 }";
    let stages = format!("steps: [{{ key: a, kind: k, queue: q, {limited} }}]");
    let (code, stdout, stderr) = check(&stages, &[]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("k in q, at most 500 tokens, 3 toolCalls"), "{stdout}");
    let edges = format!(
        "steps: [{{ key: a, kind: k, queue: q }}, {{ key: b, kind: k, queue: q, dependsOn: [a], {limited} }}]"
    );
    let (code, stdout, _) = check(&edges, &[]);
    assert_eq!(code, 0);
    assert!(stdout.contains("after a, at most 500 tokens"), "{stdout}");
}

#[test]
fn every_problem_has_its_line_its_step_and_its_member() {
    let wrong =
        DIAMOND.replace("[left, right]", "[left, rihgt]").replace("$from: fetch", "$from: right");
    let (code, stdout, stderr) = check(&wrong, &[]);
    assert_eq!(code, 1, "{stdout}{stderr}");
    assert!(
        stdout.contains("plan.yaml:3: step `left`: `steps[1].input/body` refers to `right`"),
        "{stdout}"
    );
    assert!(
        stdout.contains("plan.yaml:9: step `join`: `steps[3].dependsOn[1]` names `rihgt`"),
        "{stdout}"
    );
    assert!(stderr.contains("plan_invalid") && stderr.contains("2 problems"), "{stderr}");
    let (code, stdout, _) = check(&wrong, &["--json"]);
    let found: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &found["problems"][1]["line"]), (1, &9.into()), "{found}");
}

#[test]
fn a_cycle_is_shown_as_a_path() {
    let wrong = DIAMOND.replace("queue: io }", "queue: io, dependsOn: [join] }");
    let (code, stdout, _) = check(&wrong, &[]);
    assert_eq!(code, 1);
    assert!(stdout.contains("fetch → join → left → fetch"), "{stdout}");
}

#[test]
fn what_is_not_a_plan_says_so() {
    for (text, expected) in [
        ("steps: 3", "steps"),
        ("steps:\n  - { key: a, kind: k, queue: q, dependOn: [b] }", "dependOn"),
        ("steps: [", ""),
        (r#"{"steps": [{"key": "a", "kind": "k", "queue": "q", "onError": "ignore"}]}"#, "ignore"),
    ] {
        let (code, stdout, stderr) = check(text, &[]);
        assert_eq!((code, stdout.as_str()), (2, ""), "{text}");
        assert!(
            stderr.contains("plan_unreadable") && stderr.contains(expected),
            "{text}: {stderr}"
        );
    }
    let ran = Home::new().run(&["plan", "check", "no-such-file"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("input_unreadable"), "{}", ran.stderr);
}

#[test]
fn the_plans_of_the_guide_are_right() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/plans.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let plans: Vec<&str> =
        guide.split("```yaml\n").skip(1).filter_map(|part| part.split("```").next()).collect();
    assert_eq!(plans.len(), 5);
    for plan in plans {
        let (code, stdout, _) = check(plan, &[]);
        assert_eq!(code, 0, "{plan}: {stdout}");
    }
}

/// A worker that echoes inputs, except for that of one step, which fails.
fn worker(home: &Home) -> Process {
    let script = "input=$(cat); case \"$input\" in *break*) exit 1;; *) echo \"$input\";; esac";
    Process::start(
        home.tenure(&["work", "--json", "--queue", "q", "--exec", "sh", "--", "-c", script]),
    )
}

/// A plan with everything that its run and its schedule have.
const NIGHTLY: &str = "
goal: close the books
labels: { team: finance }
budget: { tokens: 500 }
deadlineMs: 600000
schedule: { cron: '0 2 * * *', timeZone: Europe/Berlin, overlap: queue }
steps:
  - { key: collect, kind: k, queue: q }
";

#[test]
fn a_file_says_what_its_run_has_and_a_flag_says_otherwise() {
    let home = Home::new();
    let _server = home.serve();
    std::fs::write(home.path().join("plan.yaml"), NIGHTLY).unwrap();
    let ran = home.run(&["submit", "--plan", "plan.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("schedules create NAME --plan plan.yaml"), "{}", ran.stderr);
    let show = |id: &str| home.json(&["runs", "show", id, "--json"]);
    let run = show(ran.stdout.trim());
    assert_eq!(
        (&run["goal"], &run["labels"]["team"]),
        (&"close the books".into(), &"finance".into())
    );
    assert_eq!(run["budget"]["limits"]["tokens"], 500, "{run}");
    assert!(run["deadline"].is_string(), "{run}");
    let flags =
        ["--budget", "tokens=9", "--goal", "try", "--label", "team=ops", "--label", "dry=1"];
    let ran = home.run(&[&["submit", "--plan", "plan.yaml"][..], &flags].concat());
    let run = show(ran.stdout.trim());
    assert_eq!((&run["goal"], &run["budget"]["limits"]["tokens"]), (&"try".into(), &9.into()));
    assert_eq!(run["labels"], serde_json::json!({"team": "ops", "dry": "1"}));
}

#[test]
fn a_file_says_when_its_plan_is_submitted_and_a_flag_says_otherwise() {
    let home = Home::new();
    let _server = home.serve();
    std::fs::write(home.path().join("plan.yaml"), NIGHTLY).unwrap();
    let create = |name: &str, flags: &[&str]| {
        let create = ["schedules", "create", name, "--plan", "plan.yaml", "--json"];
        home.json(&[&create[..], flags].concat())
    };
    let schedule = create("nightly", &[]);
    assert_eq!(
        (&schedule["cron"], &schedule["timeZone"], &schedule["overlap"]),
        (&"0 2 * * *".into(), &"Europe/Berlin".into(), &"queue".into())
    );
    assert_eq!(schedule["run"]["budget"]["tokens"], 500, "{schedule}");
    let schedule = create("often", &["--every", "1h", "--overlap", "skip"]);
    assert_eq!((&schedule["everyMs"], &schedule["overlap"]), (&3_600_000.into(), &"skip".into()));
    assert!(schedule.get("cron").is_none(), "{schedule}");
}

#[test]
fn what_a_file_says_beside_its_steps_is_shown() {
    let (code, stdout, stderr) = check(NIGHTLY, &[]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    for said in
        ["close the books", "team=finance", r#"{"tokens":500}"#, "0 2 * * * (Europe/Berlin)"]
    {
        assert!(stdout.contains(said), "{said}: {stdout}");
    }
    let (code, _, stderr) = check("bugdet: { tokens: 1 }\nsteps: []", &[]);
    assert_eq!(code, 2);
    assert!(stderr.contains("plan_unreadable") && stderr.contains("bugdet"), "{stderr}");
}

#[test]
fn a_graph_runs_and_is_drawn_with_what_became_of_each_step() {
    let home = Home::new();
    let _server = home.serve();
    let plan = "
steps:
  - { key: fetch, kind: k, queue: q, input: 1 }
  - { key: left, kind: k, queue: q, dependsOn: [fetch], input: { of: { $from: fetch } } }
  - { key: right, kind: k, queue: q, dependsOn: [fetch], onError: abort, input: break }
  - { key: join, kind: k, queue: q, dependsOn: [left, right] }
";
    std::fs::write(home.path().join("plan.yaml"), plan).unwrap();
    let accepted = home.json(&["submit", "--json", "--plan", "plan.yaml"]);
    let run = accepted["runId"].as_str().unwrap().to_owned();
    let shown = home.run(&["runs", "show", &run]).stdout;
    assert!(shown.contains("plan of 4 steps, 4 not ended"), "{shown}");
    assert!(shown.contains("after left, right; waits for 2"), "{shown}");
    let steps = home.json(&["runs", "show", "--json", &run]);
    let join = steps["plan"][3]["taskId"].as_str().unwrap().to_owned();
    let explained = home.run(&["explain", &join]).stdout;
    assert!(explained.contains("`left`, `right`"), "{explained}");
    let _worker = worker(&home);
    assert_eq!(home.run(&["runs", "watch", &run]).code, 10);
    let shown = home.run(&["runs", "show", &run]).stdout;
    assert!(shown.contains("upstream step `right` failed, so this step did not run"), "{shown}");
    assert!(shown.contains("STEP_FAILED"), "{shown}");
    assert_eq!(home.run_view(&run)["output"]["left"], serde_json::json!({"of": 1}));
}

#[test]
fn a_plan_of_thousands_of_steps_is_drawn_on_one_screen() {
    let home = Home::new();
    let _server = home.serve();
    let keys: Vec<String> = (0..1_900).map(|n| format!("s{n:04}")).collect();
    let step = |key: &String| serde_json::json!({"key": key, "kind": "k", "queue": "q"});
    let mut steps: Vec<serde_json::Value> = keys.iter().map(step).collect();
    steps.push(serde_json::json!({"key": "join", "kind": "k", "queue": "q", "dependsOn": keys}));
    let plan = serde_json::json!({ "steps": steps }).to_string();
    std::fs::write(home.path().join("plan.json"), plan).unwrap();
    let accepted = home.json(&["submit", "--json", "--plan", "plan.json"]);
    let shown = home.run(&["runs", "show", accepted["runId"].as_str().unwrap()]).stdout;
    assert!(shown.contains("s0000 … s0099 (100)"), "{shown}");
    assert!(shown.contains("… and 1801 more"), "{shown}");
    assert!(shown.lines().count() < 40, "{shown}");
}
