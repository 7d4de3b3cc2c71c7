//! `tenure topology`: files in, sentences, places and exit codes out.

use std::path::Path;

use serde_json::Value;

use crate::home::Home;

fn shipped(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    folder.join(name).to_str().unwrap().to_owned()
}

fn saved(home: &Home, name: &str, text: &str) -> String {
    let file = home.path().join(name);
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_valid_topology_is_shown_with_its_version() {
    let home = Home::new();
    for name in ["execution.yaml", "task-management.yaml", "agent-review.yaml"] {
        let ran = home.run(&["topology", "validate", &shipped(name)]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        assert!(ran.stdout.contains("is valid. sha256:"), "{}", ran.stdout);
    }
    let ran = home.run(&["topology", "validate", &shipped("execution.yaml"), "--json"]);
    let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&summary["topology"], &summary["events"][0]),
        (&"execution".into(), &"TICKET_READY".into())
    );
}

#[test]
fn every_problem_is_told_with_line_and_column() {
    let home = Home::new();
    let text = std::fs::read_to_string(shipped("execution.yaml")).unwrap();
    let file =
        saved(&home, "t.yaml", &text.replace("queue: patch\n", "queue: patch\n    atempts: 3\n"));
    let ran = home.run(&["topology", "validate", &file]);
    assert_eq!(ran.code, 1);
    let line = text.lines().position(|line| line.contains("queue: patch")).unwrap() + 2;
    assert!(
        ran.stdout.contains(&format!("t.yaml:{line}:5: ")) && ran.stdout.contains("atempts"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stderr.contains("topology_invalid") && ran.stderr.contains("1 problem"),
        "{}",
        ran.stderr
    );

    let file = saved(
        &home,
        "t.yaml",
        &text.replace("gate: patch\n", "gate: pathc\n").replace("[TICKET_READY]", "[READY]"),
    );
    let ran = home.run(&["topology", "validate", &file, "--json"]);
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    let problems = shown["problems"].as_array().unwrap();
    assert!(
        problems.iter().all(|it| it["line"].as_u64() > Some(0) && it["column"].as_u64() > Some(0)),
        "{shown}"
    );
    let messages: Vec<&str> = problems.iter().filter_map(|it| it["message"].as_str()).collect();
    assert!(messages.contains(&"no gate is named `pathc`; declared: patch"), "{messages:?}");
    assert!(
        messages.contains(&"no event is named `READY`; declared: TICKET_READY"),
        "{messages:?}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_a_mistake_in_the_command() {
    let ran = Home::new().run(&["topology", "validate", "none.yaml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("cannot read none.yaml"), "{}", ran.stderr);
}

#[test]
fn two_versions_are_compared() {
    let home = Home::new();
    let text = std::fs::read_to_string(shipped("execution.yaml")).unwrap();
    let (before, after) = (
        shipped("execution.yaml"),
        saved(&home, "b.yaml", &text.replace("cycles: 3", "cycles: 5")),
    );
    let ran = home.run(&["topology", "diff", &before, &after]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "~ limits.cycles: 3 → 5\n"));
    let ran = home.run(&["topology", "diff", &before, &before]);
    assert!(ran.stdout.starts_with("Both files are the same version."), "{}", ran.stdout);
    let ran = home.run(&["topology", "diff", &before, &after, "--json"]);
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        shown["differences"],
        serde_json::json!([{"path": "limits.cycles", "before": 3, "after": 5}])
    );
}

#[test]
fn the_schema_is_the_published_one() {
    let ran = Home::new().run(&["topology", "schema"]);
    let published =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocol/topology.schema.json");
    assert_eq!((ran.code, ran.stdout), (0, std::fs::read_to_string(published).unwrap()));
}

/// The script in the guide.
fn guide_script() -> String {
    let guide = include_str!("../../../../docs/guide/topologies.md");
    let (_, rest) = guide.split_once("```yaml\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_guide_shows_what_happens() {
    let home = Home::new();
    let script = saved(&home, "script.yaml", &guide_script());
    let file = shipped("agent-review.yaml");
    let ran = home.run(&["topology", "simulate", &file, "--script", &script]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    for expected in [
        "raised",
        "asked judged-good",
        "asked approved-by-a-person",
        "assignment/greeting  accepted",
    ] {
        assert!(ran.stdout.contains(expected), "{expected} in {}", ran.stdout);
    }
    // The same script gives the same report.
    let again = home.run(&["topology", "simulate", &file, "--script", &script]);
    assert_eq!(again.stdout, ran.stdout);

    let refused =
        saved(&home, "refused.yaml", &guide_script().replace("approved: true", "approved: false"));
    let ran = home.run(&["topology", "simulate", &file, "--script", &refused]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.contains("simulation_unmet")
            && ran.stderr.contains("ended in ready-to-build, and the script expects accepted"),
        "{}",
        ran.stderr
    );
    assert!(ran.stdout.contains("Waits for a person:"), "{}", ran.stdout);
}

#[test]
fn a_simulation_shows_claims_records_and_pauses_as_json() {
    let home = Home::new();
    let script = saved(&home, "script.yaml", &guide_script());
    let ran = home.run(&[
        "topology",
        "simulate",
        &shipped("agent-review.yaml"),
        "--script",
        &script,
        "--json",
    ]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let claim = report["claims"][0].as_object().unwrap();
    let fields: Vec<&str> = claim.keys().map(String::as_str).collect();
    assert_eq!(fields.len(), 6, "{fields:?}");
    assert_eq!(report["runRecords"].as_array().unwrap().len(), 2);
    assert!(
        report["pauseStates"].as_array().unwrap().iter().all(|it| it["actions"]
            .as_array()
            .unwrap()
            .len()
            <= 3)
    );
}

#[test]
fn a_script_that_does_not_fit_is_refused() {
    let home = Home::new();
    let script = saved(&home, "s.yaml", "do:\n  - create: {artifact: cake, id: c}\n");
    let ran = home.run(&["topology", "simulate", &shipped("execution.yaml"), "--script", &script]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stdout.contains("s.yaml:2:") && ran.stdout.contains("no artifact type `cake`"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains("script_invalid"), "{}", ran.stderr);
}
