//! Whole runs in virtual time.

use serde_json::json;
use topology::deployment::{GateResult, PauseReason};

use crate::{AGENT_REVIEW, EXECUTION, TASK_MANAGEMENT, reasons, simulated, status};

const TICKET: &str =
    "{title: t, acceptance_criteria: [c], objective_type: TICKET, importance: 1, urgency: 1}";
const PATCH: &str = "{title: p, content: diff, metadata: {applies_cleanly: true, branch_name: b, commit_sha: s, pr_description_draft: d}}";
const CAPTURE: &str = "{raw_content: x, source_label: y}";

fn ticket_script(executor: &str) -> String {
    format!(
        "
do:
  - create: {{artifact: objective, id: T, fields: {TICKET}}}
  - {{at: 1m, move: {{artifact: objective, id: T, to: TODO}}}}
  - {{at: 1h, once: {{artifact: objective, id: T, passed: true}}, move: {{artifact: objective, id: T, to: DONE}}}}
executors: {{PATCH_DIAZOTROPH: [{executor}]}}
"
    )
}

#[test]
fn a_ticket_becomes_a_confirmed_patch() {
    // S0-11, S0-20, S0-23: one event, one work order, one output, one record, and links between them.
    let report = simulated(EXECUTION, &ticket_script(&format!("{{takes: 40s, output: {PATCH}}}")));
    assert_eq!(status(&report, "objective/T"), "DONE");
    assert_eq!(
        reasons(&report),
        [("TICKET_READY/objective/T/2".to_owned(), "SCHEDULED".to_owned())]
    );
    let order = &report.deployment.work_orders["wo/TICKET_READY/objective/T/2"];
    let record = &report.deployment.run_records[&order.id];
    assert_eq!((&record.event, record.gate_result), (&order.event, GateResult::Pass));
    assert_eq!(order.output.as_ref().unwrap().output["content"], "diff");
    let pause = report.deployment.pauses.values().next().unwrap();
    assert_eq!((report.deployment.pauses.len(), pause.reason), (1, PauseReason::RunComplete));
    assert!(report.refused.is_empty(), "{:?}", report.refused);
}

#[test]
fn nothing_happens_without_the_approval_of_a_person() {
    // S0-57
    let script = format!("do: [{{create: {{artifact: objective, id: T, fields: {TICKET}}}}}]");
    let report = simulated(EXECUTION, &script);
    assert_eq!(status(&report, "objective/T"), "NEW");
    assert!(report.deployment.events.is_empty());
    assert!(report.inbox.iter().any(|item| item.why == "waits for approval of NEW → TODO"));
    // S0-58: one line of the topology, and no other role changes.
    let automatic = EXECUTION.replace("by: approval", "by: \"role:review\"");
    let script = format!("{script}\nexecutors: {{PATCH_DIAZOTROPH: [{{output: {PATCH}}}]}}");
    let report = simulated(&automatic, &script);
    assert_eq!(report.gates(), (1, 0));
}

#[test]
fn an_executor_that_raises_is_tried_again_and_then_judged() {
    // W-26
    let good = format!("{{raises: boom}}, {{raises: boom}}, {{output: {PATCH}}}");
    let report = simulated(EXECUTION, &ticket_script(&good));
    assert_eq!((report.gates(), status(&report, "objective/T")), ((1, 0), "DONE"));
    let report = simulated(EXECUTION, &ticket_script("{raises: boom}"));
    // Three cycles of three attempts each, then a person is asked.
    assert_eq!(report.gates(), (0, 3));
    assert!(report.deployment.pauses.values().any(|it| it.reason == PauseReason::Halted));
}

#[test]
fn an_executor_that_never_returns_ends_with_its_budget() {
    // the claim is renewed for 15 minutes, then the gate judges a bundle of notes.
    let report = simulated(EXECUTION, &ticket_script("{}"));
    let first = &report.deployment.work_orders["wo/TICKET_READY/objective/T/2"];
    let bundle = first.output.as_ref().unwrap();
    assert_eq!(serde_json::to_value(bundle.execution_status).unwrap(), "BUDGET_EXHAUSTED");
    assert_eq!(first.lost, 0, "the claim never expired");
    assert!(bundle.notes.as_ref().unwrap().contains("900000 ms"));
    assert_eq!(report.gates(), (0, 3));
    assert!(report.deployment.pauses.values().any(|it| it.reason == PauseReason::BudgetExhausted));
}

#[test]
fn a_runner_that_dies_is_replaced_after_its_lease() {
    // The next owner is another process, with a larger version of the same claim.
    let script = ticket_script(&format!("{{takes: 10s, dies: true}}, {{output: {PATCH}}}"));
    let report = simulated(EXECUTION, &script);
    assert_eq!((report.gates(), status(&report, "objective/T")), ((1, 0), "DONE"));
    let order = report.deployment.work_orders.values().next().unwrap();
    assert_eq!(order.lost, 1);
    let claim = report.claims.iter().find(|it| it.resource_id == order.id).unwrap();
    assert!(claim.claim_version >= 4, "taken, expired, taken, released, judged: {claim:?}");
    let died = report.log.iter().find(|entry| entry.what.starts_with("died")).unwrap();
    let counted = report.log.iter().find(|entry| entry.what.ends_with("vanished")).unwrap();
    assert!(counted.at >= died.at + 60_000 - 20_000, "not before the lease has expired");
    assert_ne!(counted.who, died.who);
}

#[test]
fn a_triage_that_always_fails_ends_at_a_person() {
    // W-23: bounded by limits.cycles, with one pause state that says so.
    let script = format!(
        "
do: [{{create: {{artifact: capture_buffer, id: c, count: 25, fields: {CAPTURE}}}}}]
executors: {{TRIAGE_DIAZOTROPH: [{{takes: 1s, output: {{content: {{}}, metadata: {{capture_ids: [none]}}}}}}]}}
"
    );
    let report = simulated(TASK_MANAGEMENT, &script);
    assert!(
        report.deployment.artifacts.values().all(|it| it.status == "PENDING" && it.cycles <= 3)
    );
    let halted = report.deployment.pauses.values().filter(|it| it.reason == PauseReason::Halted);
    assert_eq!(halted.count(), 25, "each capture once");
    let (passed, failed) = report.gates();
    assert_eq!(passed, 0);
    assert!((3..=3 * 25).contains(&failed), "{failed}");
    assert!(reasons(&report).iter().all(|(_, reason)| reason != "unprocessed"));
}

#[test]
fn tracks_are_serialised_and_triage_goes_first() {
    // S1-30, S1-31, S1-32, R-33, R-19: at most one work order of both tracks is active, and while triage has work it comes first.
    let triage = |n: usize| {
        format!(
            "{{takes: 30s, output: {{content: {{title: t, acceptance_criteria: [c]}}, metadata: {{capture_ids: [c-{n}]}}}}}}"
        )
    };
    let script = format!(
        "
do:
  - {{request: {{event: MANIFEST_REQUESTED, key: first}}}}
  - create: {{artifact: capture_buffer, id: c, count: 3, fields: {CAPTURE}}}
  - {{at: 10s, request: {{event: MANIFEST_REQUESTED, key: second}}}}
roles: {{manifest-scheduler: {{poll: 1s}}, capture-readiness: {{poll: 1s}}, runner: {{processes: 3}}, scheduler: {{poll: 7s}}}}
deployments:
  here: {{stores: {{pause_state: [{{reason: BLOCKED}}]}}}}
  away: {{unavailable: true}}
  shut: {{stores: {{}}}}
executors:
  TRIAGE_DIAZOTROPH: [{}, {}, {}]
  MANIFEST_BUILDER_DIAZOTROPH: [{{takes: 20s, output: {{manifest: {{queried_azolla_ids: [here], pause_state_summary: [], prioritized_orientation: [one, two, three, four]}}}}}}]
",
        triage(1), triage(2), triage(3)
    );
    // One capture for each work order, so that triage has work three times.
    let report = simulated(&TASK_MANAGEMENT.replace("atMost: 10}", "atMost: 1}"), &script);
    let orders: Vec<_> = report.deployment.work_orders.values().collect();
    assert_eq!(orders.len(), 5);
    for one in &orders {
        for other in orders.iter().filter(|other| other.id != one.id) {
            let end = report.deployment.run_records[&one.id].created_at;
            assert!(
                other.created_at < one.created_at || other.created_at >= end,
                "{} and {}",
                one.id,
                other.id
            );
        }
    }
    let waiting = |order: &topology::deployment::WorkOrder| {
        report.deployment.events.values().any(|event| {
            event.kind == "CAPTURE_READY"
                && event.created_at < order.created_at
                && event.processed.as_ref().unwrap().processed_at > order.created_at
        })
    };
    assert!(
        !orders
            .iter()
            .filter(|order| order.kind == "MANIFEST_BUILDER_DIAZOTROPH")
            .any(|order| waiting(order))
    );
    // S1-6, S1-19, S1-20, S1-21, S1-22, S1-23
    assert!((1..=3).all(|n| status(&report, &format!("capture_buffer/c-{n}")) == "PROCESSED"));
    // S1-11, S1-13, S1-14, S1-15, S1-16, W-29
    manifests(&report);
}

/// What the manifest's snapshot knows of other deployments, and what comes of it.
fn manifests(report: &topology::simulate::Report) {
    let order = &report.deployment.work_orders["wo/MANIFEST_REQUESTED/first"];
    let answers = order.snapshot["answers"].as_array().unwrap();
    let statuses: Vec<_> = answers
        .iter()
        .map(|it| {
            (
                it["target"].as_str().unwrap(),
                it["status"].as_str().unwrap(),
                it["results"].as_array().unwrap().len(),
            )
        })
        .collect();
    assert_eq!(
        statuses,
        [("away", "TARGET_UNAVAILABLE", 0), ("here", "OK", 1), ("shut", "DENIED", 0)]
    );
    assert_eq!(order.artifacts, []);
    let written =
        report.deployment.artifacts.values().filter(|it| it.name.kind == "session_manifest");
    assert_eq!(written.count(), 2, "one for each request");
    let pause = &report.deployment.pauses["RUN_COMPLETE/wo/MANIFEST_REQUESTED/first/0"];
    assert_eq!(pause.actions, ["one", "two", "three"]);
}

#[test]
fn the_same_request_twice_is_one_event() {
    // S1-34, S1-35
    let script = "
do:
  - {request: {event: MANIFEST_REQUESTED, key: k}}
  - {at: 1h, request: {event: MANIFEST_REQUESTED, key: k}}
";
    let report = simulated(TASK_MANAGEMENT, script);
    assert_eq!((report.deployment.events.len(), report.deployment.work_orders.len()), (1, 1));
}

#[test]
fn deadlines_are_watched_while_work_orders_wait() {
    // S1-27, S1-33: a month passes in a few polls, and a track that is taken does not hide a deadline.
    let script = format!(
        "
do:
  - create: {{artifact: objective, id: o, fields: {{title: t, objective_type: STANDING, urgency: 3}}}}
  - create: {{artifact: capture_buffer, id: c, fields: {CAPTURE}}}
"
    );
    let report = simulated(TASK_MANAGEMENT, &script);
    let overdue: Vec<_> = report
        .deployment
        .pauses
        .values()
        .filter(|it| it.reason == PauseReason::DeadlineOverdue)
        .collect();
    assert_eq!(overdue.len(), 1);
    assert!(overdue[0].created_at < 30 * 86_400_000 + 60_000, "{}", overdue[0].created_at);
    assert!(report.log.len() < 200, "{}", report.log.len());
}

fn agent_script(judge: &str, people: &str) -> String {
    format!(
        "
do: [{{create: {{artifact: assignment, id: a, fields: {{goal: g}}}}}}]
executors:
  plan-assignment: [{{takes: 1m, output: {{steps: [one]}}}}]
  build-assignment: [{{takes: 10m, output: {{summary: s, files: [f]}}}}]
  judge-assignment: [{judge}]
people: {{approved-by-a-person: [{people}]}}
"
    )
}

#[test]
fn a_schema_a_judge_and_a_person_decide_in_turn() {
    let report = simulated(
        AGENT_REVIEW,
        &agent_script("{takes: 1m, output: {score: 0.9}}", "{takes: 2h, approved: true}"),
    );
    assert_eq!((status(&report, "assignment/a"), report.gates()), ("accepted", (2, 0)));
    let asked: Vec<&str> = report
        .log
        .iter()
        .filter(|it| it.what.starts_with("asked"))
        .map(|it| it.what.split(' ').nth(1).unwrap())
        .collect();
    assert_eq!(asked, ["judged-good", "approved-by-a-person"]);

    // A bad score is not shown to a person; a person is asked again after a rejection; nobody waits for ever.
    let report =
        simulated(AGENT_REVIEW, &agent_script("{output: {score: 0.1}}", "{approved: true}"));
    assert!(!report.log.iter().any(|it| it.what.starts_with("asked approved")));
    assert_eq!(status(&report, "assignment/a"), "ready-to-build");
    let report = simulated(
        AGENT_REVIEW,
        &agent_script("{output: {score: 1}}", "{approved: false, reason: ugly}, {approved: true}"),
    );
    assert_eq!((status(&report, "assignment/a"), report.gates()), ("accepted", (2, 1)));
    let report = simulated(AGENT_REVIEW, &agent_script("{}", "{approved: true}"));
    let reasons: Vec<_> =
        report.deployment.run_records.values().flat_map(|it| &it.gate_reasons).collect();
    assert!(
        reasons.iter().all(|it| it.message == "no answer within 15m") && !reasons.is_empty(),
        "{reasons:?}"
    );
}

#[test]
fn two_thousand_tickets_end() {
    let script = format!(
        "
do: [{{create: {{artifact: objective, id: T, count: 2000, fields: {TICKET}}}}}]
roles: {{runner: {{processes: 3}}, scheduler: {{processes: 2}}}}
poll: 1s
executors: {{PATCH_DIAZOTROPH: [{{takes: 1s, output: {PATCH}}}]}}
"
    );
    let report = simulated(&EXECUTION.replace("by: approval", "by: \"role:review\""), &script);
    assert_eq!(report.gates(), (2000, 0));
    assert_eq!(report.deployment.events.len(), 2000);
}

#[test]
fn a_script_that_does_not_fit_is_refused_with_its_place() {
    let topology = crate::compiled(EXECUTION);
    let wrong = [
        ("do: [{create: {artifact: tickt, id: T}}]", "no artifact type `tickt`"),
        (
            "do: [{create: {artifact: objective, id: T, fields: {title: 1}}}]",
            "is a required property",
        ),
        ("do:\n  - {request: {event: TICKET_READY, key: k}}", "`on: request`"),
        ("do: [{at: 1s}]", "exactly one of"),
        ("roles: {planner: {}}", "no role `planner`"),
        ("poll: 0s", "above zero"),
        ("pol: 1s", "pol"),
        ("roles: {runner: {processes: 1000}}", "1 to 100"),
    ];
    for (text, message) in wrong {
        let found = topology::simulate::Script::read(text, &topology).unwrap_err();
        assert!(found[0].message.contains(message), "{text}: {}", found[0]);
        assert!(found[0].place.is_some(), "{text}: {}", found[0]);
    }
}

#[test]
fn what_a_script_expects_is_compared() {
    let script = format!(
        "{}expect: {{objective/T: DONE, objective/U: DONE}}\n",
        ticket_script("{raises: no}")
    );
    let report = simulated(EXECUTION, &script);
    let unmet = serde_json::to_value(&report.unmet).unwrap();
    assert_eq!(
        unmet,
        json!([
            {"artifact": "objective/T", "expected": "DONE", "found": "TODO"},
            {"artifact": "objective/U", "expected": "DONE", "found": null},
        ])
    );
}

#[test]
fn a_cycle_without_an_end_is_stopped_by_the_turns_of_the_script() {
    let ticking = "
topology: ticking
artifacts: {note: {statuses: [written], initial: written, final: [written]}}
events: {tick: {on: schedule, every: 1s}}
workOrders: {look: {kind: looker, queue: q, budget: {time: 1m}, gate: seen}}
gates: {seen: {checks: [{name: any, require: {path: output, op: exists}}], pass: {actions: [Go on.]}, fail: {actions: [Look.]}}}
roles:
  clock: {uses: readiness, emits: [tick]}
  scheduler: {uses: scheduler, event: tick, workOrder: look}
  runner: {uses: runner, workOrders: [look]}
  gate: {uses: gate, workOrders: [look]}
";
    let report = simulated(ticking, "turns: 2000\nexecutors: {looker: [{output: {}}]}");
    assert_eq!(report.cut_after, Some(2_000));
    assert!(!report.log.is_empty(), "what happened until then is told");
    let short = "until: 1m\nexecutors: {looker: [{output: {}}]}";
    assert_eq!(simulated(ticking, short).cut_after, None);
}
