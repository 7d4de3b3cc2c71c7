//! No topology is special: the code knows no name of a shipped one, and one with invented names runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{FILES, compiled, simulated, status};

/// Nothing in it occurs in a shipped topology.
const BAKERY: &str = "
topology: bakery
artifacts:
  dough:
    statuses: [mixed, risen, in-oven, bread, crumbs]
    initial: mixed
    final: [bread, crumbs]
    transitions:
      - {from: mixed, to: risen, by: person}
      - {from: risen, to: in-oven, by: 'role:oven-keeper'}
      - {from: in-oven, to: bread, by: 'role:taster'}
      - {from: in-oven, to: risen, by: 'role:taster'}
      - {from: risen, to: crumbs, by: person}
  receipt: {statuses: [printed], initial: printed, final: [printed]}
events:
  dough-risen: {on: transition, artifact: dough, status: risen}
  evening: {on: schedule, every: 12h}
tracks:
  hot: {serial: oven}
  cold: {serial: oven, after: [hot]}
workOrders:
  bake: {kind: baker, queue: kitchen, budget: {time: 1h}, gate: crust}
  tidy: {kind: broom, queue: kitchen, budget: {time: 10m}, gate: floor}
gates:
  crust:
    checks: [{name: golden, require: {path: output.colour, op: in, value: [golden, brown]}}]
    pass: {to: bread, creates: {artifact: receipt, from: output}, actions: [Sell it.]}
    fail: {to: risen, actions: [Check the oven.]}
  floor:
    checks: [{name: clean, require: {path: output.crumbs, op: at-most, value: 0}}]
    pass: {actions: [Go home.]}
    fail: {actions: [Sweep again.]}
roles:
  nose: {uses: readiness, emits: [dough-risen, evening]}
  oven-keeper: {uses: scheduler, event: dough-risen, workOrder: bake, to: in-oven, track: hot}
  janitor: {uses: scheduler, event: evening, workOrder: tidy, track: cold, lists: [{artifact: dough, atMost: 5}]}
  hands: {uses: runner, workOrders: [bake, tidy]}
  taster: {uses: gate, workOrders: [bake, tidy]}
";

#[test]
fn a_topology_with_invented_names_runs() {
    // S0-1, S0-4, S0-6
    let report = simulated(
        BAKERY,
        "
do:
  - create: {artifact: dough, id: d, count: 3}
  - {at: 1h, move: {artifact: dough, id: d-1, to: risen}}
  - {at: 1h, move: {artifact: dough, id: d-2, to: risen}}
executors:
  baker: [{takes: 40m, output: {colour: pale}}, {takes: 40m, output: {colour: golden}}]
  broom: [{takes: 5m, output: {crumbs: 0}}]
until: 30h
",
    );
    assert_eq!(
        (status(&report, "dough/d-1"), status(&report, "dough/d-2"), status(&report, "dough/d-3")),
        ("bread", "bread", "mixed")
    );
    let kinds =
        |kind: &str| report.deployment.work_orders.values().filter(|it| it.kind == kind).count();
    assert_eq!((kinds("baker"), kinds("broom")), (3, 2), "two evenings in thirty hours");
    assert_eq!(
        report.deployment.artifacts.values().filter(|it| it.name.kind == "receipt").count(),
        2
    );
    assert_eq!(report.gates(), (4, 1));
}

/// Artifact types, statuses, events, tracks, kinds and reasons of the shipped topologies.
fn identifiers() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in FILES {
        let topology = compiled(text);
        let declared = topology.declaration();
        names.extend(declared.artifacts.keys().cloned());
        names.extend(declared.artifacts.values().flat_map(|it| it.statuses.clone()));
        names.extend(declared.events.keys().cloned());
        names.extend(declared.tracks.keys().cloned());
        names.extend(declared.work_orders.values().map(|it| it.kind.clone()));
        for role in declared.roles.values() {
            names.extend(
                [role.reasons.missing.clone(), role.reasons.nothing_pending.clone()]
                    .into_iter()
                    .flatten(),
            );
        }
    }
    names
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && !entry.ends_with("tests") && !entry.ends_with("target") {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|it| it == "rs")
            && !entry.ends_with("published.rs")
            && !entry.ends_with("tests.rs")
        {
            found.push(entry);
        }
    }
}

#[test]
fn no_identifier_of_a_shipped_topology_is_in_the_code() {
    let names = identifiers();
    assert!(names.len() > 20 && names.contains("PATCH_DIAZOTROPH"), "{names:?}");
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 20);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for name in &names {
            let literal = code.contains(&format!("\"{name}\""));
            let distinct = name.contains('_') && name.len() > 8 && code.contains(name.as_str());
            assert!(!literal && !distinct, "{} knows `{name}`", file.display());
        }
    }
}

#[test]
fn no_distinct_identifier_of_a_shipped_topology_is_in_any_crate() {
    // Words such as `DONE` are everybody's; these are not. Crates are searched whole, the tour of the binary too.
    let names: Vec<String> =
        identifiers().into_iter().filter(|it| it.contains(['_', '-']) && it.len() > 8).collect();
    assert!(names.len() > 10, "{names:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["crates", "sdks"] {
        sources(&root.join(folder), &mut files);
    }
    assert!(files.len() > 500, "{} files", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for name in &names {
            assert!(!code.contains(name.as_str()), "{} knows `{name}`", file.display());
        }
    }
}
