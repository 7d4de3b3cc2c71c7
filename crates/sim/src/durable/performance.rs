//! The operations of a program: what is recorded is taken as it is, the rest is done and recorded.

use historyck::durable::{Command, DurableCall};
use historyck::event::Outcome;
use serde_json::{Value, json};
use wire::answers::{Checkpoint, TakenSignal};
use wire::{Time, WaitMode};

use super::{Attempt, Conduct};
use crate::coverage::CoverageGoal;
use crate::escrow;
use crate::program::{KIND, Operation, Program, payload, question, signal};

/// Limits of a child that no world reaches: every run is to end by its program.
const ATTEMPTS_MAX: u32 = 100;

/// Begins the name of the signal that tells what came of an approval.
const APPROVAL: &str = "#approval:";

/// The version of the code of every worker, and of one whose code diverges.
const CODE: &str = "1";
const OTHER_CODE: &str = "2";

/// A call in the form of the wire and in the form of the history.
pub(super) struct Recording {
    pub(super) body: Value,
    pub(super) durable: DurableCall,
}

impl Recording {
    pub(super) fn new() -> Self {
        let durable = DurableCall { code: Some(CODE.to_owned()), ..DurableCall::default() };
        Self { body: json!({}), durable }
    }

    pub(super) fn divergence() -> Self {
        let diverged = json!({ "index": 0, "recorded": "one step", "actual": "another" });
        let code = Some(OTHER_CODE.to_owned());
        let durable = DurableCall { diverged: true, code, ..DurableCall::default() };
        Self { body: json!({ "diverged": diverged }), durable }
    }

    fn step(mut self, key: &str, result: &Value, is_savepoint: bool) -> Self {
        let step = json!({
            "key": key, "outcome": "SUCCEEDED", "result": result, "savepoint": is_savepoint,
        });
        self.add("steps", step);
        let (input, result) = (Some(key.to_owned()), Some(result.to_string()));
        self.durable.steps.push(Command { key: key.to_owned(), input, result });
        self
    }

    /// What the last step used.
    fn spending(mut self, tokens: Option<u64>) -> Self {
        let last = self.body["steps"].as_array_mut().and_then(|steps| steps.last_mut());
        if let (Some(last), Some(tokens)) = (last, tokens) {
            last["spend"] = json!({ "tokens": tokens });
        }
        self
    }

    fn child(mut self, key: &str, child: Value) -> Self {
        let input = Some(child.to_string());
        self.durable.children.push(Command { key: key.to_owned(), input, result: None });
        self.add("children", child);
        self
    }

    fn wait(mut self, key: &str, mode: WaitMode, items: &[Value]) -> Self {
        self.body["wait"] = json!({ "key": key, "mode": mode, "for": items });
        self.durable.wait = Some(key.to_owned());
        self
    }

    fn add(&mut self, member: &str, value: Value) {
        match self.body[member].as_array_mut() {
            Some(values) => values.push(value),
            None => self.body[member] = json!([value]),
        }
    }
}

impl Attempt {
    pub(super) async fn perform(mut self, savepoint: Option<Checkpoint>) {
        let (mut outputs, first) = from_savepoint(savepoint);
        let operations = self.program.operations.clone();
        for (place, operation) in operations.iter().enumerate().skip(first) {
            if self.is_cancelled {
                break;
            }
            match self.operate(place, operation, &outputs).await {
                Some(output) => outputs.push(output),
                None => return,
            }
        }
        self.finish(outputs).await;
    }

    async fn finish(&mut self, outputs: Vec<Value>) {
        if self.is_cancelled {
            let recording =
                Recording { body: json!({ "outcome": "CANCELLED" }), ..Recording::new() };
            return self.report(recording, Outcome::Cancelled).await;
        }
        let fails = !self.ctx.faults_stopped.get() && self.rng.chance(self.ctx.options.runs.fail);
        if fails && self.rng.chance(300) {
            let error = json!({ "category": "USER_CODE", "message": "no", "retryable": true });
            let body = json!({ "outcome": "FAILED", "error": error });
            return self.report(Recording { body, ..Recording::new() }, Outcome::Failed).await;
        }
        let mut recording = Recording::new();
        if self.rng.chance(300) && self.find("last").is_none() {
            // The last step rides with the report.
            recording = recording.step("last", &self.result("last"), false).spending(self.spend());
        }
        if self.has_budget() && self.rng.chance(500) {
            let beside = self.rng.between(escrow::BESIDE.0, escrow::BESIDE.1);
            recording.body["spend"] = json!({ "tokens": self.spent + beside });
        }
        recording.body["outcome"] = json!("SUCCEEDED");
        recording.body["output"] = json!(outputs);
        self.report(recording, Outcome::Succeeded).await;
    }

    pub(super) fn has_budget(&self) -> bool {
        self.ctx.options.durable.is_some_and(|durable| durable.escrow)
    }

    /// What the next step uses, in worlds with budgets.
    fn spend(&mut self) -> Option<u64> {
        if !self.has_budget() {
            return None;
        }
        let tokens = self.rng.between(escrow::SPEND.0, escrow::SPEND.1);
        self.spent += tokens;
        Some(tokens)
    }

    /// A result that no other attempt would have.
    fn result(&mut self, key: &str) -> Value {
        json!(format!("{key} by {} in {} {}", self.who, self.attempt, self.rng.between(0, 999)))
    }

    /// Performs one operation, unless it is recorded; `None` if the attempt is over.
    async fn operate(
        &mut self,
        place: usize,
        operation: &Operation,
        outputs: &[Value],
    ) -> Option<Value> {
        match operation {
            Operation::Steps { count, millis } => self.steps(place, *count, *millis).await,
            Operation::Savepoint => self.save(place, outputs).await,
            Operation::Sleep { millis } => {
                let until = Time::from_ms(self.server_ms + *millis as i64);
                let items = [json!({ "key": "time", "until": until })];
                self.wait(place, WaitMode::All, &items, Recording::new()).await
            }
            Operation::Signal => {
                let items = [json!({ "key": "signal", "signal": signal(place) })];
                self.wait(place, WaitMode::All, &items, Recording::new()).await
            }
            Operation::SignalOrSleep { millis } => {
                let until = Time::from_ms(self.server_ms + *millis as i64);
                let items = [
                    json!({ "key": "signal", "signal": signal(place) }),
                    json!({ "key": "time", "until": until }),
                ];
                self.wait(place, WaitMode::Any, &items, Recording::new()).await
            }
            Operation::Approval { quorum, expires_ms, or_sleep_ms } => {
                let about = question(&self.program.name, place);
                let mut terms = json!({ "quorum": quorum, "digest": about });
                if let Some(expires_ms) = expires_ms {
                    terms["expiresInMs"] = json!(expires_ms);
                    terms["default"] = json!("REJECTED");
                }
                let mut items = vec![json!({ "key": format!("ask-{place}"), "approval": terms })];
                items.extend(or_sleep_ms.map(|millis| {
                    let until = Time::from_ms(self.server_ms + millis as i64);
                    json!({ "key": "time", "until": until })
                }));
                self.wait(place, WaitMode::Any, &items, Recording::new()).await
            }
            Operation::Fan { children, is_one_call } => {
                self.fan(place, children, *is_one_call).await
            }
            Operation::Detach { program } => self.start(place, program, true).await,
            Operation::Abandon { program } => self.start(place, program, false).await,
        }
    }

    async fn steps(&mut self, place: usize, count: u64, millis: u64) -> Option<Value> {
        let keys: Vec<String> = (0..count).map(|n| format!("step-{place}-{n}")).collect();
        let known: Vec<String> = keys.iter().filter_map(|key| self.text_of(key)).collect();
        if known.len() == keys.len() {
            return Some(json!(known));
        }
        if !known.is_empty() {
            let task = &self.task;
            self.ctx.log.violate("E2", format_args!("a call of {task} was recorded in part"));
        }
        self.ctx.sleep(millis).await;
        let mut recording = Recording::new();
        let mut results = Vec::new();
        for key in &keys {
            let result = self.result(key);
            recording = recording.step(key, &result, false).spending(self.spend());
            results.push(result);
        }
        self.record(recording).await?;
        Some(json!(results.iter().map(Value::to_string).collect::<Vec<String>>()))
    }

    /// What is recorded under a key, as text.
    fn text_of(&self, key: &str) -> Option<String> {
        let checkpoint = self.find(key)?;
        Some(checkpoint.result.as_ref().map_or("null", wire::Json::text).to_owned())
    }

    async fn save(&mut self, place: usize, outputs: &[Value]) -> Option<Value> {
        let key = format!("save-{place}");
        if self.find(&key).is_none() {
            let saved = json!({ "place": place, "outputs": outputs });
            self.record(Recording::new().step(&key, &saved, true)).await?;
        }
        Some(json!("saved"))
    }

    async fn wait(
        &mut self,
        place: usize,
        mode: WaitMode,
        items: &[Value],
        recording: Recording,
    ) -> Option<Value> {
        let key = format!("wait-{place}");
        if self.find(&key).is_none() {
            self.record(recording.wait(&key, mode, items)).await?;
        }
        if self.is_cancelled && self.find(&key).is_none() {
            // With a cancel pending a wait does not suspend: the worker is to honour the cancel.
            return Some(json!("cancelled"));
        }
        let Some(wait) = self.find(&key).and_then(|checkpoint| checkpoint.wait.clone()) else {
            let task = &self.task;
            self.ctx.log.violate("E2", format_args!("{task} goes on, and {key} is not recorded"));
            return None;
        };
        for taken in &wait.signals {
            if taken.name.starts_with(APPROVAL) {
                self.check_decision(place, taken);
                continue;
            }
            self.ctx.log.reach_goal(CoverageGoal::SignalTaken);
            let sent = payload(&self.program.name, place).to_string();
            let got = taken.payload.as_ref().map(|payload| payload.text().to_owned());
            if got.as_deref() != Some(sent.as_str()) {
                let task = &self.task;
                self.ctx.log.violate("E3", format_args!("{task} took {got:?} for {sent}"));
            }
        }
        Some(json!(wait.winner))
    }

    /// What people decided must be about what was asked, and follow from their votes.
    fn check_decision(&self, place: usize, taken: &TakenSignal) {
        self.ctx.log.reach_goal(CoverageGoal::ApprovalDecided);
        let told = taken.payload.as_ref().and_then(|it| it.read::<Value>().ok());
        let told = told.unwrap_or_default();
        let Some(Operation::Approval { quorum, expires_ms, .. }) =
            self.program.operations.get(place)
        else {
            return self.ctx.log.violate("E3", format_args!("{} asked nobody", self.task));
        };
        let votes = told["votes"].as_array().cloned().unwrap_or_default();
        let said = |word: &str| votes.iter().filter(|vote| vote["decision"] == word).count();
        let (approved, rejected) = (said("APPROVED"), said("REJECTED"));
        let quorum = *quorum as usize;
        let mut keys: Vec<String> = votes.iter().map(|vote| vote["key"].to_string()).collect();
        keys.sort();
        keys.dedup();
        let follows = match told["outcome"].as_str() {
            Some("APPROVED") => approved == quorum && rejected == 0,
            Some("REJECTED") if rejected == 0 => expires_ms.is_some() && approved < quorum,
            Some("REJECTED") => rejected == 1 && approved < quorum,
            _ => false,
        };
        let is_asked = told["digest"] == question(&self.program.name, place);
        if !follows || !is_asked || keys.len() != votes.len() {
            let task = &self.task;
            self.ctx.log.violate("E7", format_args!("{task} at {place} of {quorum} got {told}"));
        }
    }

    async fn fan(
        &mut self,
        place: usize,
        children: &[Program],
        is_one_call: bool,
    ) -> Option<Value> {
        let keys: Vec<String> = (0..children.len()).map(|n| format!("child-{place}-{n}")).collect();
        let mut recording = Recording::new();
        if !keys.iter().all(|key| self.is_started(key)) {
            for (key, child) in keys.iter().zip(children) {
                recording = recording.child(key, self.child(key, child, false));
            }
            if !is_one_call {
                self.record(std::mem::replace(&mut recording, Recording::new())).await?;
            }
        }
        let item = |key: &String| json!({ "key": key, "child": key });
        let items: Vec<Value> = keys.iter().map(item).collect();
        self.wait(place, WaitMode::All, &items, recording).await?;
        if self.is_cancelled {
            return Some(json!("cancelled"));
        }
        if let Some(key) = keys.iter().find(|key| self.find(key).is_none()) {
            let task = &self.task;
            self.ctx.log.violate("E2", format_args!("{task} joined {key}, which has no end"));
        }
        self.ctx.log.reach_goal(CoverageGoal::ChildrenJoined);
        let ends = keys.iter().filter_map(|key| Some(self.find(key)?.outcome.as_str()));
        Some(json!(ends.collect::<Vec<&str>>()))
    }

    async fn start(&mut self, place: usize, program: &Program, detached: bool) -> Option<Value> {
        let key = format!("child-{place}");
        if !self.is_started(&key) {
            let child = self.child(&key, program, detached);
            self.record(Recording::new().child(&key, child)).await?;
        }
        Some(json!("started"))
    }

    fn child(&self, key: &str, program: &Program, detached: bool) -> Value {
        let mut child = json!({
            "key": key, "detached": detached, "kind": KIND, "queue": self.queue,
            "input": program.input(), "leaseMs": self.lease_ms, "cancelGraceMs": 1_000,
            "maxAttempts": ATTEMPTS_MAX, "lostMax": ATTEMPTS_MAX,
            "retry": { "baseMs": 0, "capMs": 500 },
        });
        if self.has_budget() {
            child["budget"] = escrow::budget(escrow::share(program));
        }
        child
    }

    /// Whether the call that follows is the one at which the worker does something else.
    pub(super) fn is_last_call(&self) -> bool {
        matches!(self.conduct, Conduct::Crashes { after, .. } if self.calls >= after)
    }
}

/// What the program has so far, and where it goes on.
fn from_savepoint(savepoint: Option<Checkpoint>) -> (Vec<Value>, usize) {
    let saved = savepoint.and_then(|checkpoint| checkpoint.result);
    let Some(saved) = saved else { return (Vec::new(), 0) };
    let saved: Value = saved.read().expect("a savepoint is as it was recorded");
    let outputs = saved["outputs"].as_array().cloned().unwrap_or_default();
    (outputs, saved["place"].as_u64().unwrap_or(0) as usize)
}
