//! One lease held by a worker, from its start to its report.

use std::rc::Rc;

use historyck::event::{Answer, Class, Credential, Invoke, Operation, Outcome, Return};
use serde_json::{Value, json};
use wire::answers::{
    CompletedAck, Envelope, HeartbeatAck, HeartbeatAnswer, HeartbeatAnswers, Problem, ReportAnswer,
    ReportAnswers, StartedAck,
};

use crate::actor_context::{ActorContext, CallOutcome, FinishedCall, OutgoingCall};
use crate::coverage::CoverageGoal;
use crate::fault::Fault;
use crate::history::{self, name, state};
use crate::network::{CallEnd, HttpRequest};
use crate::rng::{PerMille, SimRng, Stream};
use crate::worker_behaviour::WorkerBehaviour;

/// The pause before a retry.
const RETRY_MS: (u64, u64) = (30, 150);

/// How many more calls a worker makes after it has lost its lease.
const CALLS_AFTER_LOSS: u64 = 3;

/// How many worlds in a thousand have workers that are stopped, and how many attempts there that concerns.
const WORLDS_WITH_STOPS: PerMille = 200;
const STOPS: PerMille = 300;

pub(crate) struct Lease {
    ctx: Rc<ActorContext>,
    who: String,
    rng: SimRng,
    behaviour: WorkerBehaviour,
    task: String,
    attempt: u32,
    token: String,
    interval_ms: u64,
    lease_ms: u64,
    /// How many times the store had been restored when the lease was granted.
    restores: u64,
    /// The coordinator it calls, where it stays with one.
    host: usize,
    scope: usize,
    /// The task and attempt that the presented token was issued for.
    shown: (String, u32),
}

/// The state of the lease after a call under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseStatus {
    /// The lease continues.
    Held,
    /// The lease continues, and the run is to be cancelled.
    CancelRequested,
    /// The lease is over or never existed.
    Over,
}

impl Lease {
    pub(crate) fn new(
        ctx: Rc<ActorContext>,
        (who, scope): (String, usize),
        rng: SimRng,
        envelope: &Envelope,
        behaviour: WorkerBehaviour,
    ) -> Self {
        let restores = ctx.observations.borrow().restores;
        let place = (name(&envelope.task_id), envelope.attempt);
        let host = ctx.observations.borrow().granted_by.get(&place).copied().unwrap_or(0);
        Self {
            ctx,
            restores,
            host,
            scope,
            shown: (envelope.task_id.clone(), envelope.attempt),
            who,
            rng,
            behaviour,
            task: envelope.task_id.clone(),
            attempt: envelope.attempt,
            token: envelope.task_token.clone(),
            interval_ms: envelope.heartbeat_interval_ms,
            lease_ms: envelope.heartbeat_timeout_ms,
        }
    }

    pub(crate) async fn work(mut self) {
        match self.behaviour {
            WorkerBehaviour::Silent => return,
            WorkerBehaviour::UsesForeignToken => self.use_foreign_token().await,
            WorkerBehaviour::Lies => self.claim_wrong_identity().await,
            _ => {}
        }
        if self.rng.chance(self.ctx.options.behaviour.dawdle) {
            let pause = self.rng.between(0, self.interval_ms);
            self.ctx.sleep(pause).await;
        }
        // Some workers never report a start: a heartbeat or a report serves as well.
        let has_begun = self.rng.chance(self.ctx.options.behaviour.starts);
        if has_begun && self.start().await == LeaseStatus::Over {
            return self.call_after_loss().await;
        }
        match self.behaviour {
            WorkerBehaviour::Vanishes => return,
            WorkerBehaviour::Sleeps => return self.sleep_and_report().await,
            WorkerBehaviour::Wedges => return self.beat_for_ever().await,
            _ => {}
        }
        match self.execute().await {
            LeaseStatus::Over => self.call_after_loss().await,
            LeaseStatus::CancelRequested => {
                self.report(json!({ "outcome": "CANCELLED" }), Outcome::Cancelled).await;
            }
            LeaseStatus::Held if self.is_stopped() => self.release().await,
            LeaseStatus::Held => {
                let (report, outcome) = self.result();
                self.report(report, outcome).await;
                self.after_report().await;
            }
        }
    }

    /// Whether the worker is stopped before its work is done. In one world in five workers are.
    fn is_stopped(&self) -> bool {
        let is_deploying =
            SimRng::new(self.ctx.seed, Stream::Releases(0)).chance(WORLDS_WITH_STOPS);
        let mut own = SimRng::new(self.ctx.seed, Stream::Releases(self.attempt));
        is_deploying && !self.ctx.faults_stopped.get() && own.chance(STOPS)
    }

    /// Hands the task back.
    async fn release(&mut self) {
        self.report(json!({ "outcome": "RELEASED" }), Outcome::Released).await;
    }

    /// Sends heartbeats for as long as the work takes.
    async fn execute(&mut self) -> LeaseStatus {
        let (low, high) = self.ctx.options.runs.work_ms;
        let until = self.ctx.now() + self.rng.between(low, high);
        let ignores = self.rng.chance(self.ctx.options.behaviour.ignore_cancel);
        let goes_on_for_ever = ignores && self.rng.chance(500);
        let mut is_cancelled = false;
        while self.ctx.now() < until || (is_cancelled && goes_on_for_ever) {
            let left = until.saturating_sub(self.ctx.now()).max(1);
            self.ctx.sleep(self.interval_ms.min(left)).await;
            match self.heartbeat().await {
                LeaseStatus::Over => return LeaseStatus::Over,
                LeaseStatus::Held => {}
                LeaseStatus::CancelRequested if !ignores || self.ctx.faults_stopped.get() => {
                    return LeaseStatus::CancelRequested;
                }
                LeaseStatus::CancelRequested if !is_cancelled => {
                    self.ctx.log.fault(Fault::WorkerIgnoresCancel);
                    is_cancelled = true;
                }
                LeaseStatus::CancelRequested => {}
            }
        }
        LeaseStatus::Held
    }

    fn result(&mut self) -> (Value, Outcome) {
        if self.rng.chance(self.ctx.options.runs.fail) {
            let retryable = self.rng.chance(800);
            let error = json!({
                "category": "USER_CODE", "message": "it did not work", "retryable": retryable,
            });
            return (json!({ "outcome": "FAILED", "error": error }), Outcome::Failed);
        }
        let output = json!({ "by": self.who, "attempt": self.attempt });
        (json!({ "outcome": "SUCCEEDED", "output": output }), Outcome::Succeeded)
    }

    async fn after_report(&mut self) {
        if self.behaviour == WorkerBehaviour::Contradicts {
            let output = json!({ "by": self.who, "attempt": self.attempt, "other": true });
            let other = json!({ "outcome": "SUCCEEDED", "output": output });
            self.report(other, Outcome::Succeeded).await;
        }
        if self.behaviour == WorkerBehaviour::ContinuesAfterLoss {
            self.call_after_loss().await;
        }
    }

    /// A worker that was told its lease is over and continues anyway.
    async fn call_after_loss(&mut self) {
        if self.behaviour != WorkerBehaviour::ContinuesAfterLoss {
            return;
        }
        for _ in 0..self.rng.between(1, CALLS_AFTER_LOSS) {
            let pause = self.rng.between(0, self.lease_ms);
            self.ctx.sleep(pause).await;
            self.heartbeat().await;
            if self.rng.chance(500) {
                self.start().await;
            }
        }
        let (report, outcome) = self.result();
        self.report(report, outcome).await;
    }

    async fn sleep_and_report(&mut self) {
        let pause = self.lease_ms + self.rng.between(0, self.lease_ms);
        self.ctx.sleep(pause).await;
        let (report, outcome) = self.result();
        self.report(report, outcome).await;
    }

    /// Only the progress clock takes such a lease away.
    async fn beat_for_ever(&mut self) {
        while self.heartbeat().await != LeaseStatus::Over {
            self.ctx.sleep(self.interval_ms).await;
        }
        if !self.is_world_over() {
            self.ctx.log.reach_goal(CoverageGoal::WedgedWorkerCaught);
        }
    }

    async fn use_foreign_token(&mut self) {
        let other = {
            let observations = self.ctx.observations.borrow();
            let others: Vec<&(String, u32, String)> =
                observations.tokens.iter().filter(|(task, ..)| *task != self.task).collect();
            if others.is_empty() { None } else { Some((*self.rng.pick(&others)).clone()) }
        };
        if let Some((task, attempt, token)) = other {
            let own = std::mem::replace(&mut self.token, token);
            let shown = std::mem::replace(&mut self.shown, (task, attempt));
            self.heartbeat().await;
            (self.token, self.shown) = (own, shown);
        }
    }

    async fn claim_wrong_identity(&mut self) {
        if self.rng.chance(500) {
            self.attempt += 1;
            self.heartbeat().await;
            self.attempt -= 1;
        } else {
            let own = std::mem::replace(&mut self.who, "worker-x".to_owned());
            self.heartbeat().await;
            self.who = own;
        }
    }

    async fn start(&mut self) -> LeaseStatus {
        loop {
            let body = json!({ "attempt": self.attempt, "workerId": self.who });
            let called = self.ask("started", Operation::Started, body, |_| {}).await;
            match self.ctx.read::<StartedAck>(&self.who, &called) {
                CallOutcome::Ok(_) => {
                    self.record_return(&called, history::answer(Answer::Ok));
                    return LeaseStatus::Held;
                }
                CallOutcome::Refused(problem) => {
                    return self.status_of_refusal(Operation::Started, &problem);
                }
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.pause().await,
            }
            if self.is_world_over() {
                return LeaseStatus::Over;
            }
        }
    }

    async fn heartbeat(&mut self) -> LeaseStatus {
        loop {
            let is_batch = self.rng.chance(200);
            let called = self.send_heartbeat(is_batch).await;
            let said =
                if is_batch { self.read_one(&called) } else { self.ctx.read(&self.who, &called) };
            match said {
                CallOutcome::Ok(ack) => return self.renewed(&called, ack),
                CallOutcome::Refused(problem) => {
                    return self.status_of_refusal(Operation::Heartbeat, &problem);
                }
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.pause().await,
            }
            if self.is_world_over() {
                return LeaseStatus::Over;
            }
        }
    }

    async fn send_heartbeat(&mut self, is_batch: bool) -> FinishedCall {
        let mut body = json!({ "attempt": self.attempt, "workerId": self.who });
        if self.ctx.options.runs.stall && self.behaviour != WorkerBehaviour::Wedges {
            body["message"] = json!(format!("at work at {}", self.ctx.now()));
        }
        if !is_batch {
            return self.ask("heartbeat", Operation::Heartbeat, body, |_| {}).await;
        }
        body["taskId"] = json!(self.task);
        body["taskToken"] = json!(self.token);
        let body = json!({ "heartbeats": [body] });
        self.ask("heartbeats", Operation::Heartbeat, body, |_| {}).await
    }

    /// The only answer of a batch of one, read like the answer of a single call.
    fn read_one(&self, called: &FinishedCall) -> CallOutcome<HeartbeatAck> {
        let mut answers = match self.ctx.read::<HeartbeatAnswers>(&self.who, called) {
            CallOutcome::Ok(answers) => answers,
            CallOutcome::Refused(problem) => return CallOutcome::Refused(problem),
            CallOutcome::NotNow(code) => return CallOutcome::NotNow(code),
            CallOutcome::Unknown => return CallOutcome::Unknown,
        };
        let HeartbeatAnswer { verdict, should_cancel, lease_expires_at, task_token, error, .. } =
            answers.answers.pop().expect("one heartbeat has one answer");
        match (verdict, lease_expires_at) {
            (Some(verdict), Some(lease_expires_at)) if error.is_none() => {
                CallOutcome::Ok(HeartbeatAck {
                    left: None,
                    acknowledged: true,
                    verdict,
                    should_cancel: should_cancel.unwrap_or(false),
                    cancel_reason: None,
                    lease_expires_at,
                    task_token,
                    token_expires_at: None,
                    server_time: answers.server_time,
                })
            }
            _ => self.read_problem(called, error, verdict, answers.server_time),
        }
    }

    fn read_problem<T>(
        &self,
        called: &FinishedCall,
        error: Option<String>,
        verdict: Option<wire::Verdict>,
        server_time: wire::Time,
    ) -> CallOutcome<T> {
        let error = error.expect("what is not granted has a code");
        let code: wire::Code = error.parse().expect("every code is documented");
        let is_unknown = code == wire::Code::UnknownOutcome;
        let answer = if is_unknown { Answer::Info } else { Answer::Fail };
        let given = Return {
            code: Some(error),
            verdict: verdict.map(|verdict| verdict.as_str().to_owned()),
            ..history::answer(answer)
        };
        self.record_return(called, given);
        match (is_unknown, code.worker_may_retry()) {
            (true, _) => CallOutcome::Unknown,
            (false, true) => CallOutcome::NotNow(code.as_str().to_owned()),
            (false, false) => {
                let mut problem = Problem::new(code, "", server_time);
                problem.verdict = verdict;
                CallOutcome::Refused(Box::new(problem))
            }
        }
    }

    fn renewed(&mut self, called: &FinishedCall, ack: HeartbeatAck) -> LeaseStatus {
        let given = Return {
            expires: Some(ack.lease_expires_at.as_ms()),
            cancel: ack.should_cancel,
            ..history::answer(Answer::Ok)
        };
        self.record_return(called, given);
        if let Some(token) = ack.task_token {
            self.ctx.log.reach_goal(CoverageGoal::TokenRefreshed);
            self.token = token;
        }
        if ack.should_cancel { LeaseStatus::CancelRequested } else { LeaseStatus::Held }
    }

    /// Sends the report until its outcome is known. Returns the code of a refusal.
    async fn report(&mut self, report: Value, outcome: Outcome) -> Option<String> {
        let digest = match outcome {
            Outcome::Succeeded => report["output"].to_string(),
            _ => report.to_string(),
        };
        loop {
            let is_batch = self.rng.chance(200);
            let called = self.send_report(&report, outcome, &digest, is_batch).await;
            let said = if is_batch {
                self.read_report(&called)
            } else {
                self.ctx.read(&self.who, &called)
            };
            match said {
                CallOutcome::Ok(ack) => {
                    self.committed(&called, &ack);
                    return None;
                }
                CallOutcome::Refused(problem) => {
                    self.status_of_refusal(Operation::Report, &problem);
                    return Some(problem.error);
                }
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.pause().await,
            }
            if self.is_world_over() {
                return None;
            }
        }
    }

    async fn send_report(
        &mut self,
        report: &Value,
        outcome: Outcome,
        digest: &str,
        is_batch: bool,
    ) -> FinishedCall {
        let mut body = report.clone();
        body["attempt"] = json!(self.attempt);
        body["workerId"] = json!(self.who);
        let says = |invoke: &mut Invoke| {
            (invoke.outcome, invoke.digest) = (Some(outcome), Some(digest.to_owned()));
        };
        if !is_batch {
            return self.ask("completed", Operation::Report, body, says).await;
        }
        body["taskId"] = json!(self.task);
        body["taskToken"] = json!(self.token);
        self.ask("reports", Operation::Report, json!({ "reports": [body] }), says).await
    }

    fn read_report(&self, called: &FinishedCall) -> CallOutcome<CompletedAck> {
        let mut answers = match self.ctx.read::<ReportAnswers>(&self.who, called) {
            CallOutcome::Ok(answers) => answers,
            CallOutcome::Refused(problem) => return CallOutcome::Refused(problem),
            CallOutcome::NotNow(code) => return CallOutcome::NotNow(code),
            CallOutcome::Unknown => return CallOutcome::Unknown,
        };
        let ReportAnswer { verdict, state, final_state, replayed, error, .. } =
            answers.answers.pop().expect("one report has one answer");
        match (verdict, state, final_state) {
            (Some(verdict), Some(state), Some(final_state)) if error.is_none() => {
                CallOutcome::Ok(CompletedAck {
                    acknowledged: true,
                    verdict,
                    final_state,
                    state,
                    replayed: replayed.unwrap_or(false),
                    next: None,
                    server_time: answers.server_time,
                })
            }
            _ => self.read_problem(called, error, verdict, answers.server_time),
        }
    }

    fn committed(&self, called: &FinishedCall, ack: &CompletedAck) {
        if ack.replayed {
            self.ctx.log.reach_goal(CoverageGoal::ReportReplayed);
        }
        self.ctx.say(format_args!(
            "{} is told COMMITTED {} for {} attempt {}, which is {}",
            self.who, ack.final_state, self.task, self.attempt, ack.state
        ));
        let given = Return {
            verdict: Some(ack.verdict.as_str().to_owned()),
            state: Some(state(ack.state)),
            replayed: ack.replayed,
            ..history::answer(Answer::Ok)
        };
        self.record_return(called, given);
    }

    /// Records a refusal and returns what it means for the lease.
    fn status_of_refusal(&self, op: Operation, problem: &Problem) -> LeaseStatus {
        let log = &self.ctx.log;
        let is_restored = self.ctx.observations.borrow().restores > self.restores;
        if is_restored && problem.error == "task_expired" {
            log.reach_goal(CoverageGoal::LeaseOfOldEpochRefused);
        }
        match (op, problem.error.as_str()) {
            (Operation::Report, "task_expired" | "task_already_terminal") => {
                log.reach_goal(CoverageGoal::LateReportRefused);
            }
            (Operation::Report, "attempt_mismatch") => {
                log.reach_goal(CoverageGoal::SupersededReportRefused)
            }
            (Operation::Report, "conflicting_report") => {
                log.reach_goal(CoverageGoal::ContradictionRefused)
            }
            (Operation::Heartbeat, "task_expired") => {
                log.reach_goal(CoverageGoal::LateHeartbeatRefused)
            }
            (Operation::Started, "task_expired" | "task_already_terminal") => {
                log.reach_goal(CoverageGoal::LateStartRefused);
            }
            (_, "invalid_token") if self.behaviour == WorkerBehaviour::UsesForeignToken => {
                log.reach_goal(CoverageGoal::ForeignTokenRefused);
            }
            (_, "invalid_token") if self.behaviour == WorkerBehaviour::Lies => {
                log.reach_goal(CoverageGoal::WrongAttemptRefused);
            }
            (_, "worker_mismatch") => log.reach_goal(CoverageGoal::WrongWorkerRefused),
            _ => {}
        }
        LeaseStatus::Over
    }

    /// Waits before a retry. There was no answer, or a temporary refusal: the next coordinator may answer.
    async fn pause(&mut self) {
        self.host = (self.host + 1) % self.ctx.options.hosts();
        let millis = self.rng.between(RETRY_MS.0, RETRY_MS.1);
        self.ctx.sleep(millis).await;
    }

    /// Whether the world has ended: no call will be answered any more.
    fn is_world_over(&self) -> bool {
        self.ctx.is_over.get()
    }

    fn record_return(&self, called: &FinishedCall, given: Return) {
        called
            .calls
            .iter()
            .for_each(|call| self.ctx.record_return(&self.who, *call, given.clone()));
    }

    async fn ask(
        &mut self,
        route: &str,
        op: Operation,
        body: Value,
        says: impl FnOnce(&mut Invoke),
    ) -> FinishedCall {
        let stays = self.ctx.options.behaviour.fails_over;
        let to = if stays { self.host } else { self.ctx.pick_host(&mut self.rng) };
        self.note_other_host(to);
        let is_batch = matches!(route, "heartbeats" | "reports");
        let path = match is_batch {
            true => format!("/v1/{route}"),
            false => format!("/v1/tasks/{}/{route}", self.task),
        };
        let access = &self.ctx.accesses[self.scope];
        let bearer = if is_batch { &access.worker_key } else { &self.token };
        let ask = HttpRequest {
            method: "POST",
            path,
            bearer: bearer.clone(),
            idempotency_key: None,
            body: Some(body.to_string().into_bytes()),
        };
        let mut invoke = Invoke {
            task: Some(name(&self.task)),
            attempt: Some(self.attempt),
            worker: Some(self.who.clone()),
            scope: Some(access.scope.clone()),
            shown: Some(Credential {
                class: Class::Task,
                task: Some(name(&self.shown.0)),
                attempt: Some(self.shown.1),
            }),
            ..history::invoke(op)
        };
        says(&mut invoke);
        let who = self.who.clone();
        let timeout_ms = self.ctx.options.behaviour.timeout_ms;
        let calling = OutgoingCall { who: &who, to, ask, timeout_ms, invokes: vec![invoke] };
        let called = self.ctx.call(calling).await;
        self.check_answered(&called);
        called
    }

    /// Where only the committer for new work fails, a call under a lease must be answered (F44).
    fn check_answered(&self, called: &FinishedCall) {
        let is_new_work_only = self.ctx.options.nemesis.committer_faults.new_work_only;
        if is_new_work_only && called.ending == CallEnd::Gone && !self.is_world_over() {
            let (who, task) = (&self.who, &self.task);
            self.ctx.log.violate("F44", format_args!("{who} is not answered about {task}"));
        }
    }

    fn note_other_host(&self, to: usize) {
        let observations = self.ctx.observations.borrow();
        let place = (name(&self.task), self.attempt);
        if observations.granted_by.get(&place).is_some_and(|host| *host != to) {
            self.ctx.log.reach_goal(CoverageGoal::StartedInAnotherHost);
        }
    }
}
