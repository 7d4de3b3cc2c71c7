//! Roles outside of the server: turns are taken, kept while they are decided, and proposed or given back.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::roles::{
    ArtifactDecision, ArtifactTurn, EndReason, EventTurn, GateDecision, OrderTurn, RoleEvent,
    RoleProcess, SchedulerDecision,
};
use tenure::{Error, Failure};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::coordinator::{Coordinator, Reply, SERVER_TIME, problem};
use crate::log::{Log, TIMEOUT};

/// A third of it is how often a claim is renewed: often, in a test.
const LEASE_ENDS: &str = "2026-03-01T12:00:00.300Z";

fn artifact() -> Value {
    json!({
        "type": "dough", "id": "a", "status": "risen", "revision": 7, "transitionNo": 2, "emitted": 1, "cycles": 0,
        "fields": {"yeast": true}, "createdAt": 1_772_366_400_000_u64, "enteredAt": 1_772_366_400_001_u64,
        "memberOfTheFuture": 1,
    })
}

fn order_told() -> Value {
    let order = json!({
        "id": "wo/1", "event": "e", "template": "bake", "kind": "baker", "queue": "kitchen", "topology": "sha256:1",
        "artifacts": [{"type": "dough", "id": "a"}], "snapshot": {"heat": 220}, "budgetMs": 60_000, "createdAt": 1,
        "failures": 0, "lost": 0, "asked": {"taste": {"at": 2, "answer": {"score": 0.5}}, "smell": {"at": 2}},
        "output": {"executionStatus": "COMPLETED", "output": {"colour": "golden"}, "createdAt": 2},
    });
    json!({ "workOrder": order, "artifacts": [artifact()], "now": 3 })
}

fn event_told() -> Value {
    let event = json!({"id": "dough-risen/dough/a/2", "type": "dough-risen", "createdAt": 1, "transitionNo": 2,
            "subject": {"type": "dough", "id": "a"}});
    json!({ "deployment": "bakery", "event": event, "subject": artifact(), "pending": [], "lists": [[]], "isOrdered": false,
        "answers": [{"target": "mill", "artifact": "flour", "status": "OK", "results": [1]}], "now": 3 })
}

fn claim() -> Value {
    json!({ "taskId": "task_1", "attempt": 1, "leaseId": "lease_1", "fence": 9 })
}

fn claimed(told: Value) -> Value {
    json!({ "claim": claim(), "leaseExpiresAt": LEASE_ENDS, "version": "sha256:1", "told": told })
}

fn taken(turns: &[Value]) -> Reply {
    let version = json!({ "version": "sha256:1", "declaration": {"topology": "bakery"} });
    Reply::Json(200, json!({ "turns": turns, "versions": [version], "serverTime": SERVER_TIME }))
}

fn committed() -> Reply {
    Reply::Json(200, json!({ "verdict": "COMMITTED", "serverTime": SERVER_TIME }))
}

/// A process beside the test, and what it said of its turns.
struct Running {
    stop: CancellationToken,
    ended: JoinHandle<Result<(), Error>>,
    events: Arc<Log<RoleEvent>>,
}

impl Running {
    fn start(coordinator: &Coordinator, add: impl FnOnce(RoleProcess) -> RoleProcess) -> Running {
        let (events, stop) = (Arc::new(Log::new()), CancellationToken::new());
        let log = Arc::clone(&events);
        let process =
            RoleProcess::new(coordinator.client(), "bakery").name("oven").turns_at_once(3);
        let process = add(process).on_event(move |event| log.push(event.clone()));
        let ended = tokio::spawn(process.run_until(stop.clone().cancelled_owned()));
        Running { stop, ended, events }
    }

    async fn until_first_event(&self) -> RoleEvent {
        self.events.until("an event", |events| !events.is_empty()).await[0].clone()
    }

    async fn end(self) -> Result<(), Error> {
        self.stop.cancel();
        self.ended.await.unwrap()
    }
}

/// A coordinator that grants this turn once, and then nothing.
async fn granting(turn: Value) -> Arc<Coordinator> {
    let coordinator = Coordinator::start().await;
    coordinator.once("/turns", taken(&[turn]));
    coordinator.always("/turns", Reply::Silence);
    coordinator
}

#[tokio::test]
async fn what_a_gate_decides_is_proposed_with_its_claim() {
    // S0-58: a role in a process outside.
    let coordinator = granting(claimed(order_told())).await;
    coordinator.always("/proposals", committed());
    let running = Running::start(&coordinator, |process| {
        process.gate("taster", async |turn: OrderTurn| {
            let colour = turn.output::<Value>()?["colour"].clone();
            let score: Value = turn.answer("taste").expect("it was answered").read()?;
            assert!(turn.answer("smell").is_none());
            assert_eq!(turn.artifacts[0].fields::<Value>()?["yeast"], true);
            assert_eq!(turn.work_order.budget, Duration::from_secs(60));
            assert_eq!(turn.version.digest(), "sha256:1");
            assert_eq!(turn.version.declaration().text(), r#"{"topology":"bakery"}"#);
            let why = format!("{colour} and {}", score["score"]);
            Ok(GateDecision::fail("taste", why).and("smell", "nobody said"))
        })
    });
    let decided = RoleEvent::Decided { role: "taster".into(), about: "wo/1".into() };
    assert_eq!(running.until_first_event().await, decided);
    coordinator.until("/turns", 2).await;
    running.end().await.unwrap();
    let polls = coordinator.to("/v1/deployments/bakery/roles/taster/turns");
    let (first, second) = (polls[0].json(), polls[1].json());
    assert_eq!(
        (&first["max"], &first["waitMs"], &first["known"]),
        (&json!(3), &json!(0), &json!(null))
    );
    assert_eq!((&second["waitMs"], &second["known"]), (&json!(20_000), &json!(["sha256:1"])));
    assert_eq!(first["workerId"], second["workerId"]);
    assert!(first["workerId"].as_str().unwrap().starts_with("oven-"), "{first}");
    let proposed = coordinator.to("/v1/deployments/bakery/roles/taster/proposals")[0].json();
    let reasons = json!([
        {"check": "taste", "message": "\"golden\" and 0.5"}, {"check": "smell", "message": "nobody said"}
    ]);
    assert_eq!(proposed["decision"], json!({"decision": "FAIL", "reasons": reasons}));
    assert_eq!((&proposed["claim"], &proposed["workerId"]), (&claim(), &first["workerId"]));
}

#[tokio::test]
async fn a_scheduler_orders_what_it_was_told_at_its_revision() {
    let coordinator = granting(claimed(event_told())).await;
    coordinator.always("/proposals", committed());
    let running = Running::start(&coordinator, |process| {
        process.scheduler("oven-keeper", async |turn: EventTurn| {
            let Some(dough) = &turn.subject else {
                return Ok(SchedulerDecision::end(EndReason::MissingArtifact));
            };
            let flour = &turn.answers[0].results;
            Ok(SchedulerDecision::order(&json!({"event": turn.event.id, "flour": flour}))?
                .take(dough))
        })
    });
    running.until_first_event().await;
    running.end().await.unwrap();
    let proposed = coordinator.to("/proposals")[0].json();
    let take = json!([{"artifact": {"type": "dough", "id": "a"}, "revision": 7}]);
    let snapshot = json!({"event": "dough-risen/dough/a/2", "flour": [1]});
    let order = json!({"decision": "ORDER", "take": take, "snapshot": snapshot});
    assert_eq!(proposed["decision"], order);
}

#[tokio::test]
async fn a_review_goes_on_with_its_artifact_and_holds_no_claim() {
    let turn = json!({ "version": "sha256:1", "told": {"artifact": artifact(), "now": 3} });
    let coordinator = granting(turn).await;
    coordinator.always("/proposals", committed());
    let running = Running::start(&coordinator, |process| {
        process.review("eye", async |_: ArtifactTurn| Ok(ArtifactDecision::Go))
    });
    let decided = RoleEvent::Decided { role: "eye".into(), about: "a".into() };
    assert_eq!(running.until_first_event().await, decided);
    running.end().await.unwrap();
    let proposed = coordinator.to("/proposals")[0].json();
    let go = json!({"decision": "GO", "artifact": {"type": "dough", "id": "a"}, "revision": 7});
    assert_eq!((&proposed["decision"], proposed.get("claim")), (&go, None));
}

#[tokio::test]
async fn a_claim_is_renewed_while_its_function_runs_and_a_lost_one_drops_it() {
    let coordinator = granting(claimed(order_told())).await;
    let kept = claimed(order_told());
    coordinator.once("/renew", Reply::Json(200, kept.clone()));
    coordinator.once("/renew", Reply::Json(200, kept));
    coordinator.once("/renew", problem(410, "attempt_already_completed"));
    let dropped = Arc::new(Notify::new());
    let guard = Arc::clone(&dropped);
    let running = Running::start(&coordinator, move |process| {
        process.gate("taster", move |_| {
            let on_drop = OnDrop(Arc::clone(&guard));
            async move {
                let _on_drop = on_drop;
                std::future::pending::<()>().await;
                Ok(GateDecision::pass())
            }
        })
    });
    let event = running.until_first_event().await;
    assert!(matches!(&event, RoleEvent::Lost { about, .. } if about == "wo/1"), "{event:?}");
    timeout(TIMEOUT, dropped.notified()).await.expect("the function is dropped");
    running.end().await.unwrap();
    assert_eq!(coordinator.to("/renew").len(), 3);
    assert_eq!(coordinator.to("/renew")[0].json()["claim"], claim());
    assert!(coordinator.to("/proposals").is_empty() && coordinator.to("/return").is_empty());
}

struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn what_has_changed_is_decided_again_and_what_is_refused_with_the_reason() {
    let coordinator = granting(claimed(order_told())).await;
    let mut renewed = order_told();
    renewed["workOrder"]["failures"] = json!(1);
    coordinator.always("/renew", Reply::Json(200, claimed(renewed)));
    coordinator.once("/proposals", problem(409, "artifact_changed"));
    coordinator.once("/proposals", problem(409, "transition_not_allowed"));
    coordinator.once("/proposals", committed());
    let told = Arc::new(Log::new());
    let log = Arc::clone(&told);
    let running = Running::start(&coordinator, move |process| {
        process.gate("taster", move |turn: OrderTurn| {
            log.push((turn.work_order.failures, turn.refusal.clone()));
            async move {
                let fail = turn.refusal.map(|why| GateDecision::fail("declared", why));
                Ok(fail.unwrap_or_else(GateDecision::pass))
            }
        })
    });
    let event = running.until_first_event().await;
    assert!(matches!(event, RoleEvent::Decided { .. }), "{event:?}");
    running.end().await.unwrap();
    let refusal = "because of transition_not_allowed".to_owned();
    assert_eq!(told.all(), [(0, None), (1, None), (1, Some(refusal.clone()))]);
    let proposed = coordinator.to("/proposals");
    let said: Vec<Value> = proposed.iter().map(|call| call.json()["decision"].clone()).collect();
    let fail = json!({"decision": "FAIL", "reasons": [{"check": "declared", "message": refusal}]});
    assert_eq!(said, [json!({"decision": "PASS"}), json!({"decision": "PASS"}), fail]);
}

#[tokio::test]
async fn a_decision_that_is_refused_again_is_given_back_with_the_reason() {
    let coordinator = granting(claimed(order_told())).await;
    coordinator.always("/renew", Reply::Json(200, claimed(order_told())));
    coordinator.always("/proposals", problem(409, "transition_not_allowed"));
    coordinator.always("/return", committed());
    let running = Running::start(&coordinator, |process| {
        process.gate("taster", async |_: OrderTurn| Ok(GateDecision::pass()))
    });
    let event = running.until_first_event().await;
    assert!(matches!(event, RoleEvent::GivenBack { .. }), "{event:?}");
    running.end().await.unwrap();
    assert_eq!(coordinator.to("/proposals").len(), 2);
    let back = coordinator.to("/return")[0].json();
    assert_eq!(back["reason"], "because of transition_not_allowed");
}

#[tokio::test]
async fn an_error_and_a_panic_give_the_turn_back() {
    let coordinator = Coordinator::start().await;
    coordinator.once("/turns", taken(&[claimed(order_told()), claimed(order_told())]));
    coordinator.always("/turns", Reply::Silence);
    coordinator.always("/return", committed());
    let calls = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let running = Running::start(&coordinator, move |process| {
        process.gate("taster", move |_: OrderTurn| {
            let call = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async move {
                assert!(call == 0, "the second one panics");
                Err::<GateDecision, _>(Failure::hand_back("not on a Friday"))
            }
        })
    });
    running.events.until("two events", |events| events.len() == 2).await;
    running.end().await.unwrap();
    let back = coordinator.to("/return");
    let mut reasons: Vec<String> =
        back.iter().map(|call| call.json()["reason"].as_str().unwrap().to_owned()).collect();
    reasons.sort();
    assert_eq!(reasons, ["not on a Friday", "panicked: the second one panics"]);
    assert!(coordinator.to("/proposals").is_empty());
}

#[tokio::test]
async fn a_process_that_ends_gives_back_what_it_has_not_decided() {
    let coordinator = granting(claimed(order_told())).await;
    coordinator.always("/renew", Reply::Json(200, claimed(order_told())));
    coordinator.always("/return", committed());
    let begun = Arc::new(Notify::new());
    let begin = Arc::clone(&begun);
    let running = Running::start(&coordinator, move |process| {
        process.gate("taster", move |_: OrderTurn| {
            begin.notify_one();
            std::future::pending::<Result<GateDecision, Failure>>()
        })
    });
    timeout(TIMEOUT, begun.notified()).await.expect("the turn is told");
    running.end().await.unwrap();
    assert_eq!(coordinator.to("/return")[0].json()["reason"], "its process ends");
}

#[tokio::test]
async fn a_role_that_may_not_be_taken_ends_the_process_and_a_silent_server_does_not() {
    let coordinator = Coordinator::start().await;
    coordinator.once("/turns", problem(503, "unavailable"));
    coordinator.always("/turns", problem(403, "forbidden"));
    let running = Running::start(&coordinator, |process| {
        process.gate("taster", async |_: OrderTurn| Ok(GateDecision::pass()))
    });
    let event = running.until_first_event().await;
    assert!(matches!(event, RoleEvent::Unreachable { .. }), "{event:?}");
    let error = running.ended.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(tenure::Code::Forbidden));
    assert_eq!(coordinator.to("/turns").len(), 2);
}

#[tokio::test]
async fn a_role_that_uses_another_logic_is_said_at_once() {
    let coordinator = granting(claimed(event_told())).await;
    coordinator.always("/return", committed());
    let running = Running::start(&coordinator, |process| {
        process.gate("oven-keeper", async |_: OrderTurn| Ok(GateDecision::pass()))
    });
    let error = running.ended.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("`oven-keeper`") && error.contains("workOrder"), "{error}");
    assert_eq!(coordinator.to("/return").len(), 1, "another process may have the right function");
    let nobody = RoleProcess::new(coordinator.client(), "bakery").run().await.unwrap_err();
    assert!(nobody.to_string().contains("needs a role"), "{nobody}");
}

#[tokio::test]
async fn the_calls_of_a_loop_of_ones_own_say_what_is_chosen() {
    let coordinator = Coordinator::start().await;
    coordinator.once("/turns", taken(&[claimed(order_told())]));
    coordinator.always("/return", committed());
    let client = coordinator.client();
    let role = client.deployments().role("bakery", "taster", "w-1");
    let taken = role.take().max(2).wait(Duration::from_secs(5)).known(["v"]).await.unwrap();
    role.give_back(taken.turns[0].claim.as_ref().unwrap(), "later").await.unwrap();
    let calls = coordinator.calls.all();
    let take = json!({"workerId": "w-1", "max": 2, "waitMs": 5000, "known": ["v"]});
    assert_eq!(calls[0].json(), take);
    assert_eq!(calls[1].json(), json!({"workerId": "w-1", "claim": claim(), "reason": "later"}));
}
