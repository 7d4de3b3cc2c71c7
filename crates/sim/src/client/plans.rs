//! Clients of plans: they submit graphs of steps, sometimes cancel them in the middle, and read what became of each step.
//!
//! Workers execute the steps like any other task. What a client was shown goes into the history, where each step is judged by
//! those that it depends on (E8).

use historyck::event::{EndedPlan, EndedStep, EventKind};
use serde_json::{Value, json};
use wire::Time;
use wire::answers::{PlanStage, PlanSteps, Run};

use super::{Client, TIMEOUT_MS};
use crate::actor_context::CallOutcome;
use crate::coverage::CoverageGoal;
use crate::history::{name, state};
use crate::run_spec::{RunSpec, queue};

/// Steps of most plans, and of those that are spawned and told in several slices.
const STEPS: (u64, u64) = (1, 9);
const WIDE_STEPS: (u64, u64) = (510, 560);

/// How many steps in a thousand depend on an earlier one, tolerate a failure, and fail at once.
const DEPENDS: u32 = 500;
const TOLERATES: u32 = 250;
const FAILS_AT_ONCE: u32 = 300;

impl Client {
    pub(super) async fn submit_plan(mut self, unique: String) {
        self.ctx.observations.borrow_mut().open += 1;
        let is_wide = self.rng.chance(self.ctx.options.wide_plans);
        let steps = if is_wide { self.wide_steps() } else { self.steps() };
        let body = json!({ "plan": { "steps": steps } });
        let spec = RunSpec { key: Some(format!("key-{unique}")), body };
        if let Some(run) = self.submit(&spec).await {
            // So many steps would keep the workers of a world busy for long.
            self.follow_plan(&run, &steps, is_wide).await;
        }
        self.ctx.observations.borrow_mut().open -= 1;
    }

    fn step(&mut self, key: &str, after: &[String]) -> Value {
        let options = self.ctx.options.runs;
        let on_error = match self.rng.between(0, 999) as u32 {
            at if at < TOLERATES => "continue",
            at if at < TOLERATES + FAILS_AT_ONCE => "abort",
            _ => "retry",
        };
        let mut step = json!({
            "key": key, "kind": "work", "queue": queue(self.rng.between(0, options.queues - 1)),
            "input": { "name": key }, "dependsOn": after, "onError": on_error,
            "leaseMs": self.rng.between(options.lease_ms.0, options.lease_ms.1),
            "lostMax": self.rng.between(1, 5),
            "cancelGraceMs": self.rng.between(options.grace_ms.0, options.grace_ms.1),
        });
        if on_error != "abort" {
            step["maxAttempts"] = json!(self.rng.between(1, 3));
            step["retry"] = json!({ "baseMs": 0, "capMs": 500 });
        }
        step
    }

    /// Each step may depend on any earlier one.
    fn steps(&mut self) -> Vec<Value> {
        let count = self.rng.between(STEPS.0, STEPS.1);
        let mut steps = Vec::new();
        for n in 0..count {
            let earlier = (0..n).filter(|_| self.rng.chance(DEPENDS)).map(key);
            let after: Vec<String> = earlier.collect();
            steps.push(self.step(&key(n), &after));
        }
        steps
    }

    /// One step, many that depend on it, and one that depends on all of them.
    fn wide_steps(&mut self) -> Vec<Value> {
        let count = self.rng.between(WIDE_STEPS.0, WIDE_STEPS.1);
        let middle: Vec<String> = (1..count).map(key).collect();
        let mut steps = vec![self.step(&key(0), &[])];
        for name in &middle {
            let step = self.step(name, &[key(0)]);
            steps.push(step);
        }
        steps.push(self.step("join", &middle));
        steps
    }

    async fn follow_plan(&mut self, run: &str, steps: &[Value], is_cancelled: bool) {
        let is_cancelled = is_cancelled || self.rng.chance(self.ctx.options.runs.cancel);
        if is_cancelled {
            self.ctx.observations.borrow_mut().open += 1;
            let (other, run) = (self.fork(), run.to_owned());
            self.ctx.spawn(other.cancel(run));
        }
        self.watch(run).await;
        let ended = self.read_plan(run).await;
        let state = self.state_of(run).await;
        let steps: Vec<EndedStep> = ended.iter().map(|step| ended_step(step, steps)).collect();
        self.note_goals(&steps, is_cancelled);
        let plan = EndedPlan { run: name(run), state, cancelled: is_cancelled, steps };
        let now = self.ctx.now();
        self.ctx.history.borrow_mut().record(now, &self.who, EventKind::Plan(plan));
    }

    fn note_goals(&self, steps: &[EndedStep], is_cancelled: bool) {
        use historyck::event::State::{Cancelled, Skipped, Succeeded};
        let has = |state| steps.iter().any(|step| step.state == state);
        if has(Skipped) {
            self.ctx.log.reach_goal(CoverageGoal::StepSkipped);
        }
        let is_partly = is_cancelled && has(Cancelled) && has(Succeeded);
        if is_partly {
            self.ctx.log.reach_goal(CoverageGoal::PlanCancelledInTheMiddle);
        }
        if steps.len() as u64 > WIDE_STEPS.0 {
            self.ctx.log.reach_goal(CoverageGoal::LargePlanClosed);
        }
    }

    /// Every step of the plan, read until it is known.
    async fn read_plan(&mut self, run: &str) -> Vec<PlanStage> {
        let (mut steps, mut after) = (Vec::new(), 0);
        while !self.ctx.is_over.get() {
            let path = format!("/v1/runs/{run}/plan?after={after}&limit=200");
            let called = self.call(self.ask("GET", path, None), Vec::new(), TIMEOUT_MS).await;
            match self.ctx.read::<PlanSteps>(&self.who, &called) {
                CallOutcome::Ok(page) => {
                    steps.extend(page.steps);
                    match page.next_after {
                        Some(next) => after = next,
                        None => break,
                    }
                }
                CallOutcome::Refused(problem) => {
                    let told = format_args!("{} reads no plan: {}", self.who, problem.error);
                    self.ctx.log.violate("E8", told);
                    break;
                }
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.pause().await,
            }
        }
        steps
    }

    async fn state_of(&mut self, run: &str) -> historyck::event::State {
        loop {
            let ask = self.ask("GET", format!("/v1/runs/{run}"), None);
            let called = self.call(ask, Vec::new(), TIMEOUT_MS).await;
            if let CallOutcome::Ok(seen) = self.ctx.read::<Run>(&self.who, &called) {
                return state(seen.state);
            }
            self.pause().await;
        }
    }
}

fn key(n: u64) -> String {
    format!("s{n:03}")
}

/// A step as it was shown, with what its plan says of it.
fn ended_step(shown: &PlanStage, steps: &[Value]) -> EndedStep {
    let declared = steps.iter().find(|step| step["key"] == shown.key.as_str());
    EndedStep {
        key: shown.key.clone(),
        after: shown.depends_on.clone(),
        state: state(shown.state),
        tolerated: declared.is_some_and(|step| step["onError"] == "continue"),
        started: shown.started_at.map(Time::as_ms),
        completed: shown.completed_at.map(Time::as_ms),
    }
}
