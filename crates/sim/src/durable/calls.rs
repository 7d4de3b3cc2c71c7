//! The calls of an attempt: each is sent until its outcome is known, unless the worker crashes or oversleeps.

use std::rc::Rc;

use historyck::event::{Answer, Class, Credential, Invoke, Operation, Outcome, Return};
use serde_json::{Value, json};
use wire::answers::{
    Checkpoint, CheckpointAck, CheckpointAnswer, CheckpointAnswers, Checkpoints, CompletedAck,
    Envelope, Problem, RunResumed,
};

use super::performance::Recording;
use super::{Attempt, Conduct};
use crate::actor_context::{ActorContext, CallOutcome, FinishedCall, OutgoingCall};
use crate::coverage::CoverageGoal;
use crate::history::{self, name, state};
use crate::network::HttpRequest;
use crate::rng::{SimRng, Stream};

/// The pause before a retry.
const RETRY_MS: (u64, u64) = (30, 150);

/// A worker that crashes in the middle of a call is gone before the answer can be there.
const AMID_MS: u64 = 1;

/// How often an operator asks, and how long for an answer.
const RESUME_MS: (u64, u64) = (500, 4_000);
const RESUME_TIMEOUT_MS: u64 = 2_000;

/// How many calls in a thousand are sent as a batch of one.
const BATCHES: u32 = 200;

impl Attempt {
    /// What the envelope had no room for; `None` if the attempt is over.
    pub(super) async fn read_rest(&mut self, envelope: Envelope) -> Option<Vec<Checkpoint>> {
        let mut recorded = envelope.checkpoints;
        if let Some(after) = envelope.checkpoints_after {
            recorded.extend(self.read_after(after).await?);
        }
        Some(recorded)
    }

    async fn read_after(&mut self, after: u32) -> Option<Vec<Checkpoint>> {
        let (mut recorded, mut after) = (Vec::new(), Some(after));
        while let Some(cursor) = after {
            let path = format!("/v1/tasks/{}/checkpoints?after={cursor}", self.task);
            let ask = self.request("GET", path, None);
            let called = self.send(ask, Vec::new(), self.ctx.options.behaviour.timeout_ms).await;
            match self.ctx.read::<Checkpoints>(&self.who, &called) {
                CallOutcome::Ok(page) => {
                    recorded.extend(page.checkpoints);
                    after = page.next_after;
                }
                CallOutcome::Refused(_) => return None,
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.pause().await?,
            }
        }
        Some(recorded)
    }

    /// Records; `None` if the attempt is over.
    pub(super) async fn record(&mut self, recording: Recording) -> Option<()> {
        let recording = self.misbehave(recording).await?;
        self.calls += 1;
        let ack = self.record_until_known(&recording).await?;
        if self.conduct == Conduct::Repeats {
            self.record_until_known(&recording).await?;
        }
        self.take(ack).await
    }

    /// Does what the worker's conduct has in store before this call.
    async fn misbehave(&mut self, recording: Recording) -> Option<Recording> {
        match self.conduct {
            Conduct::Crashes { is_amid, .. } if self.is_last_call() => {
                if is_amid {
                    self.ask(&recording, false, AMID_MS).await;
                }
                None
            }
            Conduct::Diverges { at } if self.calls == at => {
                self.ctx.spawn(resume(self.ctx.clone(), self.scope, self.task.clone()));
                Some(Recording::divergence())
            }
            _ => {
                self.oversleep().await;
                Some(recording)
            }
        }
    }

    async fn oversleep(&mut self) {
        if (Conduct::Oversleeps { before: self.calls }) == self.conduct {
            let pause = self.lease_ms + self.rng.between(0, self.lease_ms);
            self.ctx.sleep(pause).await;
        }
    }

    async fn record_until_known(&mut self, recording: &Recording) -> Option<CheckpointAck> {
        loop {
            let is_batch = self.rng.chance(BATCHES);
            let called = self.ask(recording, is_batch, self.ctx.options.behaviour.timeout_ms).await;
            let said = match is_batch {
                true => self.read_item(&called),
                false => self.ctx.read(&self.who, &called),
            };
            match said {
                CallOutcome::Ok(ack) => {
                    self.acknowledged(&called, &ack);
                    return Some(ack);
                }
                CallOutcome::Refused(problem) => {
                    self.check_refusal(&problem);
                    if problem.error == "budget_insufficient" {
                        self.give_up().await;
                    }
                    return None;
                }
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.pause().await?,
            }
        }
    }

    /// There is too little left for the children of the program, and no later attempt would have more.
    async fn give_up(&mut self) {
        self.ctx.log.reach_goal(CoverageGoal::ChildNotFunded);
        let error = json!({ "category": "CONFIGURATION", "message": "too little is left" });
        let body = json!({ "outcome": "FAILED", "error": error });
        self.report(Recording { body, ..Recording::new() }, Outcome::Failed).await;
    }

    fn acknowledged(&mut self, called: &FinishedCall, ack: &CheckpointAck) {
        if ack.replayed {
            self.ctx.log.reach_goal(CoverageGoal::CheckpointReplayed);
        }
        if ack.state == wire::State::Waiting {
            self.ctx.log.reach_goal(CoverageGoal::RunSuspended);
        }
        let given = Return {
            verdict: Some(ack.verdict.as_str().to_owned()),
            state: Some(state(ack.state)),
            replayed: ack.replayed,
            expires: ack.lease_expires_at.map(wire::Time::as_ms),
            cancel: ack.should_cancel,
            ..history::answer(Answer::Ok)
        };
        self.record_return(called, &given);
    }

    /// Takes what the answer brings; `None` if the attempt has ended with it.
    async fn take(&mut self, ack: CheckpointAck) -> Option<()> {
        self.server_ms = self.server_ms.max(ack.server_time.as_ms());
        self.is_cancelled |= ack.should_cancel;
        self.token = ack.task_token.unwrap_or_else(|| std::mem::take(&mut self.token));
        if ack.state != wire::State::Running {
            return None;
        }
        let results = match ack.results_left_out {
            true => self.read_after(0).await?,
            false => ack.results,
        };
        results.into_iter().for_each(|checkpoint| self.note(checkpoint));
        Some(())
    }

    /// An attempt that knows what is recorded contradicts nothing of it, and awaits only its own children.
    fn check_refusal(&self, problem: &Problem) {
        let (who, task, error) = (&self.who, &self.task, &problem.error);
        self.ctx.say(format_args!("{who} is refused {error} about {task}"));
        match error.as_str() {
            "conflicting_step" | "unknown_child" | "invalid_argument" => {
                self.ctx.log.violate("E3", format_args!("{who} is refused {error} about {task}"));
            }
            "task_expired" if self.calls > 0 => {
                self.ctx.log.reach_goal(CoverageGoal::StaleCheckpointRefused);
            }
            "attempt_mismatch" if self.calls > 0 => {
                self.ctx.log.reach_goal(CoverageGoal::SupersededCheckpointRefused);
            }
            _ => {}
        }
    }

    fn read_item(&self, called: &FinishedCall) -> CallOutcome<CheckpointAck> {
        let mut answers = match self.ctx.read::<CheckpointAnswers>(&self.who, called) {
            CallOutcome::Ok(answers) => answers,
            CallOutcome::Refused(problem) => return CallOutcome::Refused(problem),
            CallOutcome::NotNow(code) => return CallOutcome::NotNow(code),
            CallOutcome::Unknown => return CallOutcome::Unknown,
        };
        let item = answers.answers.pop().expect("one call has one answer");
        match item.error.clone() {
            Some(error) => self.read_refusal(called, &error, &item, answers.server_time),
            None => CallOutcome::Ok(ack_of(item, answers.server_time)),
        }
    }

    fn read_refusal(
        &self,
        called: &FinishedCall,
        error: &str,
        item: &CheckpointAnswer,
        server_time: wire::Time,
    ) -> CallOutcome<CheckpointAck> {
        let code: wire::Code = error.parse().expect("every code is documented");
        let is_unknown = code == wire::Code::UnknownOutcome;
        let answer = if is_unknown { Answer::Info } else { Answer::Fail };
        let verdict = item.verdict.map(|verdict| verdict.as_str().to_owned());
        let code_told = Some(error.to_owned());
        self.record_return(called, &Return { code: code_told, verdict, ..history::answer(answer) });
        match (is_unknown, code.worker_may_retry()) {
            (true, _) => CallOutcome::Unknown,
            (false, true) => CallOutcome::NotNow(error.to_owned()),
            (false, false) => CallOutcome::Refused(Box::new(Problem::new(code, "", server_time))),
        }
    }

    /// Reports until the outcome is known.
    pub(super) async fn report(&mut self, recording: Recording, outcome: Outcome) {
        if self.is_last_call() {
            return;
        }
        self.oversleep().await;
        let digest = match outcome {
            Outcome::Succeeded => recording.body["output"].to_string(),
            _ => recording.body.to_string(),
        };
        let durable = Some(recording.durable).filter(|durable| !durable.steps.is_empty());
        let invoke = Invoke {
            outcome: Some(outcome),
            digest: Some(digest),
            durable,
            ..self.invoke(Operation::Report)
        };
        let body = self.signed(recording.body);
        loop {
            let path = format!("/v1/tasks/{}/completed", self.task);
            let ask = self.request("POST", path, Some(&body));
            let timeout_ms = self.ctx.options.behaviour.timeout_ms;
            let called = self.send(ask, vec![invoke.clone()], timeout_ms).await;
            match self.ctx.read::<CompletedAck>(&self.who, &called) {
                CallOutcome::Ok(ack) => return self.reported(&called, &ack),
                CallOutcome::Refused(problem) => return self.check_refusal(&problem),
                CallOutcome::NotNow(_) | CallOutcome::Unknown => {}
            }
            if self.pause().await.is_none() {
                return;
            }
        }
    }

    fn reported(&self, called: &FinishedCall, ack: &CompletedAck) {
        if ack.state == wire::State::Waiting {
            self.ctx.log.reach_goal(CoverageGoal::EndWaitedForChildren);
        }
        let given = Return {
            verdict: Some(ack.verdict.as_str().to_owned()),
            // A repeated report gets the first answer, which may be older than what others saw since.
            state: Some(state(ack.state)).filter(|_| !ack.replayed),
            replayed: ack.replayed,
            ..history::answer(Answer::Ok)
        };
        self.record_return(called, &given);
    }

    fn record_return(&self, called: &FinishedCall, given: &Return) {
        called
            .calls
            .iter()
            .for_each(|call| self.ctx.record_return(&self.who, *call, given.clone()));
    }

    /// `None` if the world has ended: no call will be answered any more.
    async fn pause(&mut self) -> Option<()> {
        let millis = self.rng.between(RETRY_MS.0, RETRY_MS.1);
        self.ctx.sleep(millis).await;
        (!self.ctx.is_over.get()).then_some(())
    }

    fn signed(&self, mut body: Value) -> Value {
        body["attempt"] = json!(self.attempt);
        body["workerId"] = json!(self.who);
        body
    }

    async fn ask(
        &mut self,
        recording: &Recording,
        is_batch: bool,
        timeout_ms: u64,
    ) -> FinishedCall {
        let mut body = self.signed(recording.body.clone());
        let invoke = Invoke {
            durable: Some(recording.durable.clone()),
            ..self.invoke(Operation::Checkpoint)
        };
        let ask = if is_batch {
            body["taskId"] = json!(self.task);
            body["taskToken"] = json!(self.token);
            let body = json!({ "checkpoints": [body] });
            let bearer = self.ctx.accesses[self.scope].worker_key.clone();
            let path = "/v1/checkpoints".to_owned();
            HttpRequest { bearer, ..self.request("POST", path, Some(&body)) }
        } else {
            let path = format!("/v1/tasks/{}/checkpoints", self.task);
            self.request("POST", path, Some(&body))
        };
        self.send(ask, vec![invoke], timeout_ms).await
    }

    fn request(&self, method: &'static str, path: String, body: Option<&Value>) -> HttpRequest {
        HttpRequest {
            method,
            path,
            bearer: self.token.clone(),
            idempotency_key: None,
            body: body.map(|body| body.to_string().into_bytes()),
        }
    }

    /// The store's current time, where every clock is right all the time.
    fn store_time(&self) -> Option<i64> {
        let nemesis = &self.ctx.options.nemesis;
        self.ctx.store_time().filter(|_| (nemesis.clock_jumps, nemesis.pauses) == (0, 0))
    }

    fn invoke(&self, op: Operation) -> Invoke {
        Invoke {
            task: Some(name(&self.task)),
            attempt: Some(self.attempt),
            worker: Some(self.who.clone()),
            scope: Some(self.ctx.accesses[self.scope].scope.clone()),
            now: self.store_time(),
            shown: Some(Credential {
                class: Class::Task,
                task: Some(name(&self.task)),
                attempt: Some(self.attempt),
            }),
            ..history::invoke(op)
        }
    }

    async fn send(
        &mut self,
        ask: HttpRequest,
        invokes: Vec<Invoke>,
        timeout_ms: u64,
    ) -> FinishedCall {
        let to = self.ctx.pick_host(&mut self.rng);
        let who = self.who.clone();
        self.ctx.call(OutgoingCall { who: &who, to, ask, timeout_ms, invokes }).await
    }
}

/// An operator who lets a diverged run go on. The call that diverged may arrive late, so the operator asks until the end.
async fn resume(ctx: Rc<ActorContext>, scope: usize, task: String) {
    let (mut rng, who) = (SimRng::new(ctx.seed, Stream::Operator), "operator");
    while !ctx.is_over.get() {
        ctx.sleep(rng.between(RESUME_MS.0, RESUME_MS.1)).await;
        let ask = HttpRequest {
            method: "POST",
            path: format!("/v1/runs/run_{}/resume", name(&task)),
            bearer: ctx.accesses[scope].client_key.clone(),
            idempotency_key: None,
            body: Some(b"{}".to_vec()),
        };
        let invoke = Invoke {
            task: Some(name(&task)),
            scope: Some(ctx.accesses[scope].scope.clone()),
            shown: Some(Credential { class: Class::Client, task: None, attempt: None }),
            ..history::invoke(Operation::Resume)
        };
        let to = ctx.pick_host(&mut rng);
        let calling =
            OutgoingCall { who, to, ask, timeout_ms: RESUME_TIMEOUT_MS, invokes: vec![invoke] };
        let called = ctx.call(calling).await;
        match ctx.read::<RunResumed>(who, &called) {
            CallOutcome::Ok(resumed) => {
                ctx.log.reach_goal(CoverageGoal::DivergedRunResumed);
                let state = Some(state(resumed.state));
                let given = Return { state, ..history::answer(Answer::Ok) };
                called.calls.iter().for_each(|call| ctx.record_return(who, *call, given.clone()));
            }
            CallOutcome::Refused(problem) if problem.error != "not_diverged" => return,
            _ => {}
        }
    }
}

/// An answer of a batch, read like the answer to a single call.
fn ack_of(item: CheckpointAnswer, server_time: wire::Time) -> CheckpointAck {
    let told = "what is granted has a verdict, a state and a time";
    CheckpointAck {
        left: None,
        acknowledged: true,
        verdict: item.verdict.expect(told),
        state: item.state.expect(told),
        replayed: item.replayed.unwrap_or(false),
        recorded_at: item.recorded_at.expect(told),
        results: item.results,
        results_left_out: item.results_left_out,
        children: item.children,
        should_cancel: item.should_cancel.unwrap_or(false),
        cancel_reason: item.cancel_reason,
        lease_expires_at: item.lease_expires_at,
        task_token: item.task_token,
        token_expires_at: item.token_expires_at,
        server_time,
    }
}
