//! Tests of topologies as a user meets them: files in, problems and reports out.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report, in its helpers too")]

mod checks;
mod generic;
mod hostile;
mod properties;
mod roles;
mod shipped;
mod simulation;
mod versions;

use topology::Topology;
use topology::simulate::{self, Report, Script};

const EXECUTION: &str = include_str!("../../../../topologies/execution.yaml");
const TASK_MANAGEMENT: &str = include_str!("../../../../topologies/task-management.yaml");
const AGENT_REVIEW: &str = include_str!("../../../../topologies/agent-review.yaml");

const FILES: [(&str, &str); 3] = [
    ("execution", EXECUTION),
    ("task-management", TASK_MANAGEMENT),
    ("agent-review", AGENT_REVIEW),
];

fn compiled(text: &str) -> Topology {
    topology::read(text).unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(|it| format!("\n  {it}")).collect::<String>())
    })
}

fn simulated(text: &str, script: &str) -> Report {
    let topology = compiled(text);
    let script = Script::read(script, &topology).unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(|it| format!("\n  {it}")).collect::<String>())
    });
    simulate::run(&topology, &script)
}

/// The status of an artifact, by `TYPE/ID`.
fn status<'r>(report: &'r Report, name: &str) -> &'r str {
    let found = report.deployment.artifacts.values().find(|it| it.name.to_string() == name);
    &found.unwrap_or_else(|| panic!("no artifact {name}")).status
}

/// How every event ended, by id.
fn reasons(report: &Report) -> Vec<(String, String)> {
    let ends = report.deployment.events.values().map(|event| {
        let end = event.processed.as_ref().map(|it| it.terminal_reason.clone());
        (event.id.clone(), end.unwrap_or_else(|| "unprocessed".to_owned()))
    });
    ends.collect()
}
