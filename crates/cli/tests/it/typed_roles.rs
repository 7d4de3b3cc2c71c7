//! Roles in processes of the Rust SDK, against the built server: typed functions carry artifacts through a topology, and what they
//! are told and decide has the shape that the server's own roles have.

use std::time::Duration;

use crashlab::waits;
use serde_json::{Value, json};
use tenure::roles::{
    AnswerStatus, ArtifactDecision, ArtifactTurn, EndReason, EventTurn, ExecutionStatus,
    GateDecision, OrderTurn, RoleProcess, SchedulerDecision,
};
use tenure::wire::Json;
use tenure::{ArtifactMove, Ctx, Failure, NewArtifact, Worker};
use tokio_util::sync::CancellationToken;
use topology::deployment::{Artifact, ArtifactRef, Asked, Event, OutputBundle, WorkOrder};
use topology::outside::{self, Decision, Taken};
use topology::query;

use crate::durable::World;
use crate::guides;

#[expect(unreachable_pub, reason = "the example stands for a module of a program")]
#[expect(dead_code, reason = "it is a program, and its `main` is not called here")]
#[path = "../../../../sdks/rust/examples/gate.rs"]
pub(crate) mod gate;

const EXAMPLE: &str = include_str!("../../../../sdks/rust/examples/gate.rs");
const GUIDE: &str = include_str!("../../../../docs/guide/topologies.md");
const EXECUTION: &str = include_str!("../../../../topologies/execution.yaml");

/// Every role but the runner is outside.
const BAKERY: &str = "
topology: bakery
artifacts:
  dough:
    statuses: [mixed, risen, in-oven, bread]
    initial: mixed
    final: [bread]
    transitions:
      - {from: mixed, to: risen, by: 'role:eye'}
      - {from: risen, to: in-oven, by: 'role:oven-keeper'}
      - {from: in-oven, to: bread, by: 'role:taster'}
      - {from: in-oven, to: risen, by: 'role:taster'}
events:
  dough-risen: {on: transition, artifact: dough, status: risen}
workOrders:
  bake: {kind: baker, queue: kitchen, budget: {time: 1h}, gate: crust}
gates:
  crust:
    checks: [{name: golden, require: {path: output.colour, op: equals, value: golden}}]
    pass: {to: bread, actions: [Sell it.]}
    fail: {to: risen, actions: [Check the oven.]}
roles:
  eye: {uses: review, artifact: dough, when: {path: artifact.yeast, op: equals, value: true}, outside: true}
  nose: {uses: readiness, emits: [dough-risen], outside: true}
  oven-keeper: {uses: scheduler, event: dough-risen, workOrder: bake, to: in-oven, outside: true}
  hands: {uses: runner, workOrders: [bake]}
  taster: {uses: gate, workOrders: [bake], outside: true}
limits: {executors: 3, cycles: 5}
";

async fn go(_: ArtifactTurn) -> Result<ArtifactDecision, Failure> {
    Ok(ArtifactDecision::Go)
}

/// Tells the baker how often the dough was in the oven.
async fn order(turn: EventTurn) -> Result<SchedulerDecision, Failure> {
    let Some(dough) = &turn.subject else {
        return Ok(SchedulerDecision::end(EndReason::MissingArtifact));
    };
    let snapshot = json!({"id": dough.id, "before": dough.cycles});
    Ok(SchedulerDecision::order(&snapshot)?.take(dough))
}

/// Passes whatever the declared checks let pass.
async fn taste(turn: OrderTurn) -> Result<GateDecision, Failure> {
    let fail = turn.refusal.map(|why| GateDecision::fail("declared", why));
    Ok(fail.unwrap_or_else(GateDecision::pass))
}

async fn apply(world: &World, name: &str, declared: &Value) {
    let declared = Json::from_value(declared).unwrap();
    world.client.deployments().apply(name, declared).await.unwrap();
}

fn declared(yaml: &str) -> Value {
    serde_json::to_value(topology::read(yaml).unwrap().declaration()).unwrap()
}

/// The work orders of a deployment, once so many have their run record.
async fn records(world: &World, name: &str, count: usize) -> Vec<Value> {
    let recorded = async {
        loop {
            let page = world.client.deployments().work_orders(name).await.unwrap();
            let orders: Vec<Value> =
                page.work_orders.iter().map(|it| serde_json::to_value(it).unwrap()).collect();
            if orders.iter().filter(|it| it["record"].is_object()).count() == count {
                return orders;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    waits::within("the run records", recorded).await.unwrap()
}

async fn typed_roles_carry_a_dough_to_bread(world: World) {
    // S0-3, S0-5, S0-6, S0-58: what a program decides goes through the server's own functions.
    apply(&world, "bakery", &declared(BAKERY)).await;
    let stop = CancellationToken::new();
    let process = RoleProcess::new(world.client.clone(), "bakery")
        .review("eye", go)
        .readiness("nose", go)
        .scheduler("oven-keeper", order)
        .gate("taster", taste);
    let deciding = tokio::spawn(process.run_until(stop.clone().cancelled_owned()));
    let bake = async |_: Ctx, told: Value| -> Result<Value, Failure> {
        let colour = if told["before"] == 0 { "pale" } else { "golden" };
        Ok(json!({"colour": colour, "of": told["id"]}))
    };
    let baker = Worker::new(world.client.clone()).queue("kitchen").handle("baker", bake);
    let baking = tokio::spawn(baker.run_until(stop.clone().cancelled_owned()));
    let dough = NewArtifact::new("a", &json!({"yeast": true})).unwrap();
    world.client.deployments().create_artifact("bakery", "dough", dough).await.unwrap();

    let orders = records(&world, "bakery", 2).await;
    let reasons = |order: &Value| order["record"]["gateReasons"].as_array().unwrap().clone();
    let mut failed: Vec<Value> = orders.iter().flat_map(reasons).collect();
    let [reason] = &mut failed[..] else { panic!("one passed, and one failed once: {orders:?}") };
    assert_eq!(reason["check"], "declared");
    assert!(reason["message"].as_str().unwrap().contains("golden"), "the server's words: {reason}");
    let bread = world.client.deployments().artifact("bakery", "dough", "a").await.unwrap();
    assert_eq!((bread.status.as_str(), bread.reserved_by), ("bread", None));
    stop.cancel();
    deciding.await.unwrap().unwrap();
    baking.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typed_roles_carry_a_dough_to_bread_on_sqlite() {
    typed_roles_carry_a_dough_to_bread(World::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typed_roles_carry_a_dough_to_bread_over_postgresql() {
    typed_roles_carry_a_dough_to_bread(World::on_postgres()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_of_the_guide_refuses_what_touches_the_licence() {
    let shown = guides::fenced(GUIDE, "rust,no_run");
    assert!(EXAMPLE.trim_end().ends_with(shown[0].trim_end()), "the guide shows another program");
    assert!(guides::terminals(GUIDE).contains(&"cargo run -p tenure-sdk --example gate"));
    let world = World::on_sqlite();
    let mut topology = declared(EXECUTION);
    topology["roles"]["gate"]["outside"] = json!(true);
    apply(&world, "execution", &topology).await;
    let patch = async |_: Ctx, told: Value| -> Result<Value, Failure> {
        let title = told["artifacts"][0]["fields"]["title"].as_str().unwrap_or_default().to_owned();
        let metadata = json!({"applies_cleanly": true, "branch_name": "b", "commit_sha": "c",
            "pr_description_draft": "d"});
        Ok(json!({"title": title, "content": format!("+++ {title}"), "metadata": metadata}))
    };
    let stop = CancellationToken::new();
    let patcher =
        Worker::new(world.client.clone()).queue("patch").handle("PATCH_DIAZOTROPH", patch);
    let patching = tokio::spawn(patcher.run_until(stop.clone().cancelled_owned()));
    let gate = gate::process(world.client.clone());
    let judging = tokio::spawn(gate.run_until(stop.clone().cancelled_owned()));
    let deployments = world.client.deployments();
    for (id, title) in [("T-1", "LICENSE"), ("T-2", "README")] {
        let fields = json!({"title": title, "acceptance_criteria": ["c"], "objective_type": "TICKET",
            "importance": 1, "urgency": 1});
        let ticket = NewArtifact::new(id, &fields).unwrap();
        deployments.create_artifact("execution", "objective", ticket).await.unwrap();
        let to = ArtifactMove::to("TODO");
        deployments.approve_artifact("execution", "objective", id, to).await.unwrap();
    }
    // The one that is refused is tried as often as the limit of cycles says.
    let orders = records(&world, "execution", 4).await;
    for order in &orders {
        let is_refused = order["artifacts"][0] == "objective/T-1";
        let expected = match is_refused {
            true => json!([{"check": "licence", "message": "a lawyer has to see this"}]),
            false => json!([]),
        };
        assert_eq!(order["record"]["gateReasons"], expected, "{order}");
    }
    stop.cancel();
    judging.await.unwrap().unwrap();
    patching.await.unwrap().unwrap();
}

fn dough() -> Artifact {
    Artifact {
        name: ArtifactRef { kind: "dough".into(), id: "a".into() },
        status: "risen".into(),
        revision: 7,
        transition_no: 2,
        emitted: 1,
        cycles: 3,
        reserved_by: Some("wo/1".into()),
        passed: Some("wo/0".into()),
        fields: json!({"yeast": true}),
        created_at: 11,
        entered_at: 12,
    }
}

/// What the server tells, read by the SDK.
fn read<T: serde::de::DeserializeOwned>(told: &impl serde::Serialize) -> T {
    serde_json::from_str(&serde_json::to_string(told).unwrap()).unwrap()
}

#[test]
fn the_sdk_reads_every_member_of_an_event_that_is_told() {
    let event = Event {
        id: "e".into(),
        kind: "dough-risen".into(),
        subject: Some(dough().name),
        transition_no: Some(2),
        created_at: 13,
        processed: None,
    };
    let answer = |status| query::Answer {
        target: "mill".into(),
        artifact: "flour".into(),
        status,
        results: vec![json!({"kg": 25})],
    };
    let statuses = [
        query::AnswerStatus::Ok,
        query::AnswerStatus::Denied,
        query::AnswerStatus::TargetUnavailable,
    ];
    let told = outside::EventTurn {
        deployment: "bakery".into(),
        event,
        subject: Some(dough()),
        pending: vec![dough()],
        lists: vec![vec![], vec![dough()]],
        answers: statuses.map(answer).into(),
        is_ordered: true,
        now: 14,
    };
    let turn: EventTurn = read(&told);
    assert_eq!((turn.deployment.as_str(), turn.is_ordered, turn.now.as_ms()), ("bakery", true, 14));
    assert_eq!((turn.event.id.as_str(), turn.event.event_type.as_str()), ("e", "dough-risen"));
    assert_eq!(turn.event.subject.unwrap().to_string(), "dough/a");
    assert_eq!((turn.event.transition_no, turn.event.created_at.as_ms()), (Some(2), 13));
    let it = turn.subject.unwrap();
    assert_eq!((it.artifact_type.as_str(), it.id.as_str()), ("dough", "a"));
    assert_eq!((it.status.as_str(), it.revision, it.transition_no, it.cycles), ("risen", 7, 2, 3));
    assert_eq!((it.reserved_by.as_deref(), it.passed.as_deref()), (Some("wo/1"), Some("wo/0")));
    assert_eq!((it.created_at.as_ms(), it.entered_at.as_ms()), (11, 12));
    assert_eq!(it.fields::<Value>().unwrap(), json!({"yeast": true}));
    assert_eq!((turn.pending.len(), turn.lists[0].len(), turn.lists[1].len()), (1, 0, 1));
    let answered: Vec<AnswerStatus> = turn.answers.iter().map(|it| it.status).collect();
    let expected = [AnswerStatus::Ok, AnswerStatus::Denied, AnswerStatus::TargetUnavailable];
    assert_eq!(answered, expected);
    assert_eq!(turn.answers[0].results[0].text(), r#"{"kg":25}"#);
}

#[test]
fn the_sdk_reads_every_member_of_a_work_order_that_is_told() {
    use topology::deployment::ExecutionStatus as Status;
    let statuses = [
        (Status::Completed, ExecutionStatus::Completed),
        (Status::BudgetExhausted, ExecutionStatus::BudgetExhausted),
        (Status::Failed, ExecutionStatus::Failed),
        (Status::Lost, ExecutionStatus::Lost),
    ];
    for (execution_status, expected) in statuses {
        let notes = Some("n".to_owned());
        let output = OutputBundle { execution_status, output: json!([1]), notes, created_at: 15 };
        let asked = [("taste", Some(json!(0.5))), ("smell", None)];
        let work_order = WorkOrder {
            id: "wo/1".into(),
            event: "e".into(),
            template: "bake".into(),
            kind: "baker".into(),
            queue: "kitchen".into(),
            track: Some("hot".into()),
            topology: "sha256:1".into(),
            artifacts: vec![dough().name],
            snapshot: json!({"heat": 220}),
            budget_ms: 60_000,
            created_at: 16,
            failures: 1,
            lost: 2,
            output: Some(output),
            asked: asked.map(|(check, answer)| (check.to_owned(), Asked { at: 17, answer })).into(),
        };
        let turn: OrderTurn =
            read(&outside::OrderTurn { work_order, artifacts: vec![dough()], now: 18 });
        assert_eq!((turn.now.as_ms(), turn.artifacts.len()), (18, 1));
        assert_eq!(turn.output::<Vec<u8>>().unwrap(), [1]);
        assert_eq!(turn.answer("taste").unwrap().text(), "0.5");
        assert_eq!(turn.answer("smell"), None);
        let it = turn.work_order;
        assert_eq!(
            (it.id.as_str(), it.event.as_str(), it.template.as_str()),
            ("wo/1", "e", "bake")
        );
        assert_eq!((it.kind.as_str(), it.queue.as_str()), ("baker", "kitchen"));
        assert_eq!((it.track.as_deref(), it.topology.as_str()), (Some("hot"), "sha256:1"));
        assert_eq!(it.artifacts[0].to_string(), "dough/a");
        assert_eq!((it.snapshot.text(), it.budget.as_secs()), (r#"{"heat":220}"#, 60));
        assert_eq!((it.created_at.as_ms(), it.failures, it.lost), (16, 1, 2));
        let bundle = it.output.unwrap();
        assert_eq!((bundle.execution_status, bundle.notes.as_deref()), (expected, Some("n")));
        assert_eq!((bundle.created_at.as_ms(), it.asked["taste"].at.as_ms()), (15, 17));
    }
    let turn: ArtifactTurn = read(&outside::ArtifactTurn { artifact: dough(), now: 19 });
    assert_eq!((turn.artifact.revision, turn.now.as_ms()), (7, 19));
}

#[test]
fn the_server_reads_every_decision_of_the_sdk() {
    use topology::deployment::{GateReason, TerminalReason};
    let turn: EventTurn = read(&outside::EventTurn {
        deployment: "d".into(),
        event: Event::about_deployment("e", "k", 1),
        subject: Some(dough()),
        pending: Vec::new(),
        lists: Vec::new(),
        answers: Vec::new(),
        is_ordered: false,
        now: 1,
    });
    let take = vec![Taken { artifact: dough().name, revision: 7 }];
    let order = SchedulerDecision::order(&json!({"a": 1})).unwrap();
    let decided = [
        (order.take(&turn.subject.unwrap()), Decision::Order { take, snapshot: json!({"a": 1}) }),
        (SchedulerDecision::block(), Decision::Block),
        (
            SchedulerDecision::end(EndReason::MissingArtifact),
            Decision::End { reason: TerminalReason::MissingArtifact },
        ),
        (
            SchedulerDecision::end(EndReason::NonExecutableStatus),
            Decision::End { reason: TerminalReason::NonExecutableStatus },
        ),
        (
            SchedulerDecision::end(EndReason::NothingPending),
            Decision::End { reason: TerminalReason::NothingPending },
        ),
    ];
    for (said, expected) in decided {
        assert_eq!(read::<Decision>(&said), expected);
    }
    let reason =
        |check: &str, message: &str| GateReason { check: check.into(), message: message.into() };
    let reasons = vec![reason("a", "b"), reason("c", "d")];
    let judged = [
        (GateDecision::pass(), Decision::Pass),
        (GateDecision::fail("a", "b").and("c", "d"), Decision::Fail { reasons }),
        (
            GateDecision::ask(["judge", "person"]),
            Decision::Ask { checks: vec!["judge".into(), "person".into()] },
        ),
    ];
    for (said, expected) in judged {
        assert_eq!(read::<Decision>(&said), expected);
    }
}
