//! A deployment of a topology in worlds that have one: an operator puts it in force, makes artifacts, asks for events, pauses it and cancels
//! what it does, executors and a gate outside of the coordinators work and die over it; and at the end everything must be accounted
//! for ([`judge`]).
//!
//! The schedulers, readiness and deadlines are those of the real coordinators, which crash between any two of their writes. Every
//! second world leaves the gate to processes outside of them.

pub(crate) mod bugs;
pub(crate) mod judge;

use std::rc::Rc;

use serde_json::{Value, json};
use topology::Topology;
use topology::gate;
use topology::outside::OrderTurn;

use crate::actor_context::{ActorContext, CallOutcome, OutgoingCall};
use crate::coverage::CoverageGoal;
use crate::network::HttpRequest;
use crate::rng::{PerMille, SimRng, Stream};

const DEPLOYMENT: &str = "workshop";
const GATE: &str = "inspector";
/// The queues of executors and of judges.
const QUEUES: [&str; 2] = ["bench", "eyes"];

/// Processes that execute and judge, and those that take the turns of the gate.
pub(crate) const EXECUTORS: u32 = 3;
pub(crate) const INSPECTORS: u32 = 2;

/// How long a poll waits, and how long a caller waits for an answer beyond it.
const WAIT_MS: u64 = 1_000;
const TIMEOUT_MS: u64 = 3_000;

/// The pause after a call, and between two things that the owner does.
const PAUSE_MS: (u64, u64) = (20, 1_200);
const NEXT_MS: (u64, u64) = (50, 2_500);
const PAUSED_MS: (u64, u64) = (200, 4_000);
const LOOK_EVERY_MS: u64 = 200;

/// How many executions in a thousand are never reported, fail, and leave something that the checks refuse.
const DIES: PerMille = 150;
const FAILS: PerMille = 100;
const COARSE: PerMille = 300;

/// What a world's deployment is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeploymentOptions {
    pub(crate) planks: u64,
    /// Whether processes outside of the coordinators take the turns of the gate.
    pub(crate) is_gate_outside: bool,
    /// How often the owner does something else after an artifact: pause, cancel, scrap.
    pub(crate) meddle: PerMille,
}

impl DeploymentOptions {
    pub(crate) fn draw(rng: &mut SimRng) -> Self {
        Self {
            planks: rng.between(2, 7),
            is_gate_outside: rng.chance(500),
            meddle: rng.between(0, 700) as PerMille,
        }
    }

    /// The topology of such a world. One serial key, so that a slot that leaks stops everything.
    fn yaml(self) -> String {
        let outside = if self.is_gate_outside { ", outside: true, lease: 3s" } else { "" };
        format!(
            "
topology: workshop
artifacts:
  plank:
    statuses: [rough, clamped, smooth, scrap]
    initial: rough
    final: [smooth, scrap]
    transitions:
      - {{from: rough, to: clamped, by: 'role:foreman'}}
      - {{from: rough, to: scrap, by: person}}
      - {{from: clamped, to: rough, by: 'role:{GATE}'}}
      - {{from: clamped, to: smooth, by: 'role:{GATE}'}}
events:
  plank-arrived: {{on: transition, artifact: plank, status: rough}}
  evening: {{on: request}}
tracks: {{saw: {{serial: saw}}, broom: {{serial: saw, after: [saw]}}}}
workOrders:
  sand: {{kind: sander, queue: bench, budget: {{time: 15s}}, gate: feel, attempts: 2}}
  sweep: {{kind: broom, queue: bench, budget: {{time: 15s}}, gate: floor, attempts: 2}}
gates:
  feel:
    checks:
      - {{name: even, require: {{path: output.grit, op: at-least, value: 200}}}}
      - {{name: liked, judge: {{kind: eye, queue: eyes, within: 6s, pass: {{path: answer.score, op: at-least, value: 5}}}}}}
    pass: {{to: smooth, actions: [Stack it.]}}
    fail: {{to: rough, actions: [Sand it again., Scrap it.]}}
  floor:
    checks: [{{name: clean, require: {{path: output.grit, op: at-least, value: 200}}}}]
    pass: {{actions: [Go home.]}}
    fail: {{actions: [Sweep again.]}}
roles:
  porter: {{uses: readiness, emits: [plank-arrived]}}
  foreman: {{uses: scheduler, event: plank-arrived, workOrder: sand, to: clamped, track: saw}}
  caretaker: {{uses: scheduler, event: evening, workOrder: sweep, track: broom}}
  hands: {{uses: runner, workOrders: [sand, sweep]}}
  {GATE}: {{uses: gate, workOrders: [sand, sweep]{outside}}}
  clock: {{uses: deadline-monitor, artifact: plank, urgency: hurry, after: {{high: 5s}}, actions: [Hurry up.]}}
limits: {{executors: 2, cycles: 2}}
"
        )
    }

    fn topology(self) -> Topology {
        topology::read(&self.yaml()).expect("the topology of the worlds is sound")
    }
}

/// A caller, with a name and the key of the owner.
struct Caller {
    ctx: Rc<ActorContext>,
    rng: SimRng,
    who: String,
}

impl Caller {
    fn new(ctx: &Rc<ActorContext>, stream: Stream, who: String) -> Self {
        Self { ctx: ctx.clone(), rng: SimRng::new(ctx.seed, stream), who }
    }

    async fn rest(&mut self, (low, high): (u64, u64)) {
        let millis = self.rng.between(low, high);
        self.ctx.sleep(millis).await;
    }

    async fn call(
        &mut self,
        method: &'static str,
        path: &str,
        bearer: String,
        body: Option<&Value>,
    ) -> CallOutcome<Value> {
        let ask = HttpRequest {
            method,
            path: path.to_owned(),
            bearer,
            idempotency_key: None,
            body: body.map(|body| body.to_string().into_bytes()),
        };
        let to = self.ctx.pick_host(&mut self.rng);
        let timeout_ms = WAIT_MS + TIMEOUT_MS;
        let call = OutgoingCall { who: &self.who, to, ask, timeout_ms, invokes: Vec::new() };
        let called = self.ctx.call(call).await;
        self.ctx.read::<Value>(&self.who, &called)
    }

    /// Makes a call once, with the key of the owner. What it answers is nothing if it is not known or refused.
    async fn ask(&mut self, method: &'static str, path: &str, body: Option<&Value>) -> Value {
        let key = self.ctx.accesses[0].owner_key.clone();
        match self.call(method, path, key, body).await {
            CallOutcome::Ok(answer) => answer,
            _ => Value::Null,
        }
    }

    /// Makes a call until its outcome is known. A refusal is an outcome: what was lost on the way is in force.
    async fn until_known(&mut self, path: &str, body: &Value) {
        loop {
            let key = self.ctx.accesses[0].owner_key.clone();
            match self.call("POST", path, key, Some(body)).await {
                CallOutcome::Ok(_) => return self.ctx.say(format_args!("{path} is done")),
                CallOutcome::Refused(problem) => {
                    return self.ctx.say(format_args!("{path} is refused: {}", problem.error));
                }
                CallOutcome::NotNow(_) | CallOutcome::Unknown => {}
            }
            self.rest(PAUSE_MS).await;
        }
    }
}

fn of_deployment(rest: &str) -> String {
    format!("/v1/deployments/{DEPLOYMENT}{rest}")
}

/// Puts the topology in force, makes artifacts, and meddles.
pub(crate) async fn owner(ctx: Rc<ActorContext>, options: DeploymentOptions) {
    ctx.observations.borrow_mut().open += 1;
    let mut owner = Caller::new(&ctx, Stream::Owner, "owner".to_owned());
    let topology = options.topology();
    let body = json!({"topology": topology.declaration()});
    owner.until_known(&of_deployment(""), &body).await;
    for number in 0..options.planks {
        let hurry = if owner.rng.chance(500) { "high" } else { "none" };
        let plank = json!({"id": format!("p{number}"), "fields": {"hurry": hurry}});
        owner.until_known(&of_deployment("/artifacts/plank"), &plank).await;
        owner.rest(NEXT_MS).await;
        if owner.rng.chance(options.meddle) {
            owner.meddle(number).await;
        }
    }
    while !ctx.faults_stopped.get() {
        ctx.sleep(LOOK_EVERY_MS).await;
        if owner.rng.chance(options.meddle / 10) {
            owner.meddle(options.planks - 1).await;
        }
    }
    // A pause whose answer was lost may be in force.
    owner.until_known(&of_deployment("/resume"), &json!({})).await;
    ctx.observations.borrow_mut().open -= 1;
}

impl Caller {
    async fn meddle(&mut self, planks: u64) {
        match self.rng.between(0, 4) {
            0 => {
                self.until_known(&of_deployment("/pause"), &json!({})).await;
                self.rest(PAUSED_MS).await;
                self.until_known(&of_deployment("/resume"), &json!({})).await;
            }
            1 => {
                let request = json!({"type": "evening", "key": format!("day-{planks}")});
                self.until_known(&of_deployment("/events"), &request).await;
            }
            2 => {
                let id = self.rng.between(0, planks);
                let path = of_deployment(&format!("/artifacts/plank/p{id}/transition"));
                self.ask("POST", &path, Some(&json!({"to": "scrap"}))).await;
            }
            3 => self.cancel_event().await,
            _ => self.cancel_order().await,
        }
    }

    async fn cancel_event(&mut self) {
        let kind = *self.rng.pick(&["plank-arrived", "evening"]);
        let found = self.ask("GET", &format!("/v1/runs?kind={kind}&limit=50"), None).await;
        let runs = found["runs"].as_array().cloned().unwrap_or_default();
        let is_live = |run: &&Value| !matches!(run["state"].as_str(), Some("succeeded") | None);
        let live: Vec<&Value> = runs.iter().filter(is_live).collect();
        if !live.is_empty() {
            let run = self.rng.pick(&live)["runId"].as_str().unwrap_or_default().to_owned();
            self.cancel(&run).await;
        }
    }

    async fn cancel_order(&mut self) {
        let found = self.ask("GET", &of_deployment("/workorders?state=active"), None).await;
        let orders = found["workOrders"].as_array().cloned().unwrap_or_default();
        if !orders.is_empty() {
            let run = self.rng.pick(&orders)["runId"].as_str().unwrap_or_default().to_owned();
            self.cancel(&run).await;
        }
    }

    async fn cancel(&mut self, run: &str) {
        let body = if self.rng.chance(500) { json!({"force": true}) } else { json!({}) };
        self.ask("POST", &format!("/v1/runs/{run}/cancel"), Some(&body)).await;
    }
}

/// A worker that executes work orders and judges, and is not to be relied on.
pub(crate) async fn executor(ctx: Rc<ActorContext>, number: u32) {
    let mut executor = Caller::new(&ctx, Stream::Executor(number), format!("executor-{number}"));
    let who = executor.who.clone();
    while !ctx.is_over.get() {
        let poll = json!({"workerId": who, "queues": QUEUES, "max": 2, "waitMs": WAIT_MS});
        let key = ctx.accesses[0].worker_key.clone();
        let found = match executor.call("POST", "/v1/leases", key, Some(&poll)).await {
            CallOutcome::Ok(found) => found,
            _ => Value::Null,
        };
        for lease in found["leases"].as_array().cloned().unwrap_or_default() {
            executor.execute(&lease).await;
        }
        executor.rest(PAUSE_MS).await;
    }
}

impl Caller {
    async fn execute(&mut self, lease: &Value) {
        if !self.ctx.faults_stopped.get() && self.rng.chance(DIES) {
            self.ctx.log.reach_goal(CoverageGoal::ExecutorDied);
            return;
        }
        self.rest(PAUSE_MS).await;
        let is_coarse = self.rng.chance(COARSE);
        let output = match lease["kind"].as_str() {
            Some("eye") => json!({"score": if is_coarse { 2 } else { 9 }}),
            _ => json!({"grit": if is_coarse { 80 } else { 400 }}),
        };
        let mut body = match self.rng.chance(FAILS) {
            true => json!({"outcome": "FAILED",
                "error": {"category": "USER_CODE", "message": "the belt broke"}}),
            false => json!({"outcome": "SUCCEEDED", "output": output}),
        };
        let text = |member: &str| lease[member].as_str().unwrap_or_default().to_owned();
        let path = format!("/v1/tasks/{}/completed", text("taskId"));
        body["attempt"] = lease["attempt"].clone();
        body["workerId"] = json!(self.who);
        while !self.ctx.is_over.get() {
            match self.call("POST", &path, text("taskToken"), Some(&body)).await {
                CallOutcome::Ok(_) | CallOutcome::Refused(_) => return,
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.rest(PAUSE_MS).await,
            }
        }
    }
}

/// A process that takes the turns of the gate.
pub(crate) async fn inspector(ctx: Rc<ActorContext>, options: DeploymentOptions, number: u32) {
    let mut inspector = Caller::new(&ctx, Stream::Inspector(number), format!("inspector-{number}"));
    let topology = options.topology();
    let take = json!({"workerId": inspector.who, "max": 2, "waitMs": WAIT_MS});
    let path = of_deployment(&format!("/roles/{GATE}/turns"));
    while !ctx.is_over.get() {
        let found = inspector.ask("POST", &path, Some(&take)).await;
        for turn in found["turns"].as_array().cloned().unwrap_or_default() {
            inspector.inspect(&topology, &turn).await;
        }
        inspector.rest(PAUSE_MS).await;
    }
}

impl Caller {
    async fn inspect(&mut self, topology: &Topology, turn: &Value) {
        if !self.ctx.faults_stopped.get() && self.rng.chance(DIES) {
            self.ctx.log.reach_goal(CoverageGoal::RoleProcessDied);
            return;
        }
        // Some think for longer than they have the turn.
        let thinks_long = self.rng.chance(DIES);
        self.rest(if thinks_long { PAUSED_MS } else { PAUSE_MS }).await;
        let told = serde_json::from_value::<OrderTurn>(turn["told"].clone());
        let told = told.expect("a turn is told as documented");
        let Some(decision) = gate::decide(topology, &told.read()) else { return };
        let body = json!({"workerId": self.who, "claim": turn["claim"], "decision": decision});
        let path = of_deployment(&format!("/roles/{GATE}/proposals"));
        let key = self.ctx.accesses[0].owner_key.clone();
        // An answer that is lost is asked for again: the same decision gets the same one.
        for _ in 0..3 {
            match self.call("POST", &path, key.clone(), Some(&body)).await {
                CallOutcome::Ok(_) | CallOutcome::Refused(_) => return,
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.rest(PAUSE_MS).await,
            }
        }
    }
}
