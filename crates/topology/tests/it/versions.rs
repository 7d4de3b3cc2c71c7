//! Versions: what changes the digest, what two versions differ in, and what a new one would do.

use topology::diff;
use topology::plan::{self, Obstacle};

use crate::{EXECUTION, TASK_MANAGEMENT, compiled, simulated};

#[test]
fn the_digest_depends_on_what_is_meant_and_not_on_how_it_is_written() {
    let version = compiled(EXECUTION);
    assert!(version.digest().starts_with("sha256:") && version.digest().len() == 71);
    let comments: String = EXECUTION
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    let same = [
        comments,
        EXECUTION.replace("{time: 15m}", "{time: 900s}"),
        EXECUTION.replace("limits: {executors: 3, cycles: 3}", ""),
        EXECUTION.replace("    gate: patch\n", "    gate: patch\n    attempts: 3\n"),
    ];
    for text in same {
        assert_eq!(compiled(&text).digest(), version.digest());
    }
    let other = compiled(&EXECUTION.replace("cycles: 3", "cycles: 4"));
    assert_ne!(other.digest(), version.digest());
}

#[test]
fn a_difference_names_the_member_and_both_values() {
    let before = compiled(EXECUTION);
    assert!(diff::between(&before, &before).is_empty());
    let after = EXECUTION
        .replace("cycles: 3", "cycles: 4")
        .replace("by: approval", "by: \"role:review\"")
        .replace("queue: patch", "queue: fast");
    let found: Vec<String> =
        diff::between(&before, &compiled(&after)).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            r#"- artifacts.objective.transitions: {"by":"approval","from":"NEW","to":"TODO"}"#,
            r#"+ artifacts.objective.transitions: {"by":"role:review","from":"NEW","to":"TODO"}"#,
            "~ limits.cycles: 3 → 4",
            r#"~ workOrders.patch.queue: "patch" → "fast""#,
        ]
    );
}

#[test]
fn a_plan_names_rows_that_the_new_version_has_no_place_for() {
    let script = "
do:
  - create: {artifact: capture_buffer, id: c, fields: {raw_content: x, source_label: y}}
  - {at: 1s, request: {event: MANIFEST_REQUESTED, key: k}}
until: 2s
roles: {manifest-scheduler: {first: 1h}}
";
    let (before, after) = (compiled(TASK_MANAGEMENT), compiled(EXECUTION));
    let report = simulated(TASK_MANAGEMENT, script);
    let plan = plan::of(&before, &after, &report.deployment);
    let expected = [
        Obstacle::ArtifactType { artifact: "capture_buffer".to_owned() },
        Obstacle::Event { event: "CAPTURE_READY".to_owned() },
        Obstacle::Event { event: "MANIFEST_REQUESTED".to_owned() },
    ];
    for obstacle in &plan.obstacles {
        assert!(expected.contains(obstacle), "{obstacle}");
    }
    assert!(plan.obstacles.contains(&expected[0]) && plan.obstacles.contains(&expected[2]));
    let none = plan::of(&before, &before, &report.deployment);
    assert!(none.obstacles.is_empty() && none.differences.is_empty());
}
