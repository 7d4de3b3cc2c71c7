//! Roles may poll at any interval, in any order, repeatedly, in many processes, and die: the end is the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;
use topology::claim::ResourceType;
use topology::simulate::{self, Report, Script};

use crate::{AGENT_REVIEW, EXECUTION, TASK_MANAGEMENT, compiled};

/// How one role polls: interval, first poll, processes, repetitions.
type Polling = (u64, u64, u32, u32);

fn polling() -> impl Strategy<Value = Polling> {
    (1_u64..200, 0_u64..200, 1_u32..4, 1_u32..4)
}

/// Claims whose holders die, early and late.
fn crashes() -> impl Strategy<Value = (Vec<u64>, Vec<u64>)> {
    (prop::collection::vec(1_u64..30, 0..6), prop::collection::vec(1_u64..30, 0..6))
}

fn run(text: &str, play: &str, polls: &[Polling], (early, late): &(Vec<u64>, Vec<u64>)) -> Report {
    let topology = compiled(text);
    let mut script =
        format!("{play}\ncrashAfterClaim: {early:?}\ncrashBeforeRelease: {late:?}\nroles:\n");
    for (role, (poll, first, processes, repeat)) in topology.declaration().roles.keys().zip(polls) {
        writeln!(
            script,
            "  {role}: {{poll: {poll}s, first: {first}s, processes: {processes}, repeat: {repeat}}}"
        )
        .unwrap();
    }
    let script = Script::read(&script, &topology).unwrap();
    simulate::run(&topology, &script)
}

/// Everything that must not depend on when roles polled: no times, no claims.
fn end(report: &Report) -> BTreeMap<String, String> {
    let mut end = BTreeMap::new();
    let deployment = &report.deployment;
    for artifact in deployment.artifacts.values() {
        end.insert(artifact.name.to_string(), format!("{} {:?}", artifact.status, artifact.passed));
    }
    for event in deployment.events.values() {
        end.insert(
            event.id.clone(),
            format!("{:?}", event.processed.as_ref().map(|it| &it.terminal_reason)),
        );
    }
    for record in deployment.run_records.values() {
        end.insert(
            record.work_order.clone(),
            format!("{:?} {:?}", record.gate_result, record.gate_reasons),
        );
    }
    for pause in deployment.pauses.values() {
        end.insert(format!("pause {}", pause.id), pause.actions.join("; "));
    }
    end
}

/// What holds at the end of every run.
fn sound(report: &Report) {
    let deployment = &report.deployment;
    assert!(deployment.events.values().all(|event| event.processed.is_some()), "every event ends");
    for order in deployment.work_orders.values() {
        assert!(order.output.is_some(), "{} has its output", order.id);
        assert!(deployment.run_records.contains_key(&order.id), "{} has its record", order.id);
        assert!(deployment.events.contains_key(&order.event));
    }
    assert_eq!(deployment.work_orders.len(), deployment.run_records.len());
    assert!(
        deployment.artifacts.values().all(|it| it.reserved_by.is_none()),
        "everything is let go"
    );
    assert!(deployment.pauses.values().all(|it| (1..=3).contains(&it.actions.len())));
    // Nothing was processed without a claim.
    let claimed = |kind, id: &str| {
        report.claims.iter().any(|it| it.resource_type == kind && it.resource_id == id)
    };
    assert!(deployment.events.keys().all(|id| claimed(ResourceType::Event, id)));
    assert!(deployment.work_orders.keys().all(|id| claimed(ResourceType::WorkOrder, id)));
}

const TICKETS: &str = "
do:
  - create: {artifact: objective, id: T, count: 4, fields: {title: t, acceptance_criteria: [c], objective_type: TICKET, importance: 1, urgency: 1}}
  - {at: 1s, move: {artifact: objective, id: T-1, to: TODO}}
  - {at: 50s, move: {artifact: objective, id: T-2, to: TODO}}
  - {at: 2h, move: {artifact: objective, id: T-3, to: TODO}}
  - {once: {artifact: objective, id: T-1, passed: true}, move: {artifact: objective, id: T-1, to: DONE}}
executors:
  PATCH_DIAZOTROPH: [{takes: 30s, output: {title: p, content: diff, metadata: {applies_cleanly: true, branch_name: b, commit_sha: s, pr_description_draft: d}}}]
";

const FAILING: &str = "
do:
  - create: {artifact: objective, id: T, fields: {title: t, acceptance_criteria: [c], objective_type: TICKET, importance: 1, urgency: 1}}
  - {at: 1s, move: {artifact: objective, id: T, to: TODO}}
executors: {PATCH_DIAZOTROPH: [{takes: 3s, output: {}}]}
";

const CAPTURES: &str = "
do:
  - create: {artifact: capture_buffer, id: c, count: 12, fields: {raw_content: x, source_label: y}}
  - {at: 90s, create: {artifact: capture_buffer, id: late, fields: {raw_content: x, source_label: y}}}
  - {at: 10s, request: {event: MANIFEST_REQUESTED, key: k}}
executors:
  TRIAGE_DIAZOTROPH: [{takes: 5s, output: {content: {}, metadata: {capture_ids: [none]}}}]
  MANIFEST_BUILDER_DIAZOTROPH: [{takes: 20s, output: {manifest: {queried_azolla_ids: [here], pause_state_summary: [], prioritized_orientation: [one]}}}]
";

const ASSIGNMENTS: &str = "
do: [{create: {artifact: assignment, id: a, count: 3, fields: {goal: g}}}]
executors:
  plan-assignment: [{takes: 1m, output: {steps: [one]}}]
  build-assignment: [{takes: 10m, output: {summary: s, files: [f]}}]
  judge-assignment: [{takes: 30s, output: {score: 0.8}}]
people: {approved-by-a-person: [{takes: 1h, approved: true}]}
";

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// S0-2, S0-49, S0-50, S0-51, S0-52, S0-54, S0-55, S0-56
    #[test]
    fn the_end_does_not_depend_on_who_polls_when(
        polls in prop::collection::vec(polling(), 6),
        crashes in crashes(),
    ) {
        for (text, play) in [(EXECUTION, TICKETS), (EXECUTION, FAILING), (AGENT_REVIEW, ASSIGNMENTS)] {
            let calm = run(text, play, &[], &(Vec::new(), Vec::new()));
            sound(&calm);
            let wild = run(text, play, &polls, &crashes);
            sound(&wild);
            prop_assert_eq!(end(&wild), end(&calm));
        }
    }

    /// S1-31, S1-34, S1-35, S1-36, S1-37, S1-39, S1-40, W-23, W-25: which captures are taken together depends on when they are seen, but not how
    /// each of them ends.
    #[test]
    fn captures_end_the_same_however_they_are_grouped(
        polls in prop::collection::vec(polling(), 6),
        crashes in crashes(),
    ) {
        let wild = run(TASK_MANAGEMENT, CAPTURES, &polls, &crashes);
        sound(&wild);
        for artifact in wild.deployment.artifacts.values().filter(|it| it.name.kind == "capture_buffer") {
            prop_assert_eq!((artifact.status.as_str(), artifact.cycles), ("PENDING", 3));
        }
        let manifest = &wild.deployment.run_records["wo/MANIFEST_REQUESTED/k"];
        prop_assert!(manifest.gate_reasons.is_empty());
        let orders: Vec<_> = wild.deployment.work_orders.values().collect();
        for one in &orders {
            for other in orders.iter().filter(|other| other.id != one.id) {
                let end = wild.deployment.run_records[&one.id].created_at;
                prop_assert!(other.created_at < one.created_at || other.created_at >= end);
            }
        }
    }
}
