//! One lease in the hands of a worker, from its start to its report.

use std::rc::Rc;

use historyck::event::{Answer, Class, Invoke, Operation, Outcome, Return, Shown};
use serde_json::{Value, json};
use wire::answers::{
    CompletedAck, Envelope, HeartbeatAck, HeartbeatAnswer, HeartbeatAnswers, Problem, ReportAnswer,
    ReportAnswers, StartedAck,
};

use crate::conduct::Conduct;
use crate::dice::Dice;
use crate::fault::Fault;
use crate::history::{self, name, state};
use crate::mark::Mark;
use crate::network::{Ask, Ending};
use crate::stage::{Called, Calling, Said, Stage};

/// How long to wait before asking again.
const AGAIN_MS: (u64, u64) = (30, 150);

/// How often a worker without authority is repeated to, and heard.
const UNDEAD_CALLS: u64 = 3;

pub(crate) struct Lease {
    stage: Rc<Stage>,
    who: String,
    dice: Dice,
    conduct: Conduct,
    task: String,
    attempt: u32,
    token: String,
    interval_ms: u64,
    lease_ms: u64,
    /// How often the store had been restored when the lease was granted.
    restores: u64,
    /// Which coordinator it asks, where it stays with one.
    host: usize,
    scope: usize,
    /// The task and attempt that the token in hand was issued for.
    shown: (String, u32),
}

/// What became of a call under the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// The lease goes on.
    Yes,
    /// The same, and the run is to be cancelled.
    Cancel,
    /// The lease is over, or never was.
    Over,
}

impl Lease {
    pub(crate) fn new(
        stage: Rc<Stage>,
        (who, scope): (String, usize),
        dice: Dice,
        envelope: &Envelope,
        conduct: Conduct,
    ) -> Self {
        let restores = stage.books.borrow().restores;
        let place = (name(&envelope.task_id), envelope.attempt);
        let host = stage.books.borrow().granted_by.get(&place).copied().unwrap_or(0);
        Self {
            stage,
            restores,
            host,
            scope,
            shown: (envelope.task_id.clone(), envelope.attempt),
            who,
            dice,
            conduct,
            task: envelope.task_id.clone(),
            attempt: envelope.attempt,
            token: envelope.task_token.clone(),
            interval_ms: envelope.heartbeat_interval_ms,
            lease_ms: envelope.heartbeat_timeout_ms,
        }
    }

    pub(crate) async fn work(mut self) {
        match self.conduct {
            Conduct::Silent => return,
            Conduct::UsesForeignToken => self.use_foreign_token().await,
            Conduct::Lies => self.lie().await,
            _ => {}
        }
        if self.dice.chance(self.stage.options.conduct.dawdle) {
            let pause = self.dice.between(0, self.interval_ms);
            self.stage.sleep(pause).await;
        }
        // Some workers never say that they start: a heartbeat or a report is as good.
        let has_begun = self.dice.chance(self.stage.options.conduct.starts);
        if has_begun && self.start().await == Heard::Over {
            return self.haunt().await;
        }
        match self.conduct {
            Conduct::Vanishes => return,
            Conduct::Sleeps => return self.sleep_and_report().await,
            _ => {}
        }
        match self.labour().await {
            Heard::Over => self.haunt().await,
            Heard::Cancel => {
                self.report(json!({ "outcome": "CANCELLED" }), Outcome::Cancelled).await;
            }
            Heard::Yes => {
                let (report, outcome) = self.result();
                self.report(report, outcome).await;
                self.after_the_report().await;
            }
        }
    }

    /// Heartbeats for as long as the work takes.
    async fn labour(&mut self) -> Heard {
        let (low, high) = self.stage.options.runs.work_ms;
        let until = self.stage.now() + self.dice.between(low, high);
        let ignores = self.dice.chance(self.stage.options.conduct.ignore_cancel);
        let goes_on_for_ever = ignores && self.dice.chance(500);
        let mut is_cancelled = false;
        while self.stage.now() < until || (is_cancelled && goes_on_for_ever) {
            let left = until.saturating_sub(self.stage.now()).max(1);
            self.stage.sleep(self.interval_ms.min(left)).await;
            match self.heartbeat().await {
                Heard::Over => return Heard::Over,
                Heard::Yes => {}
                Heard::Cancel if !ignores || self.stage.is_calm.get() => return Heard::Cancel,
                Heard::Cancel if !is_cancelled => {
                    self.stage.log.fault(Fault::WorkerIgnoresCancel);
                    is_cancelled = true;
                }
                Heard::Cancel => {}
            }
        }
        Heard::Yes
    }

    fn result(&mut self) -> (Value, Outcome) {
        if self.dice.chance(self.stage.options.runs.fail) {
            let retryable = self.dice.chance(800);
            let error = json!({
                "category": "USER_CODE", "message": "it did not work", "retryable": retryable,
            });
            return (json!({ "outcome": "FAILED", "error": error }), Outcome::Failed);
        }
        let output = json!({ "by": self.who, "attempt": self.attempt });
        (json!({ "outcome": "SUCCEEDED", "output": output }), Outcome::Succeeded)
    }

    async fn after_the_report(&mut self) {
        if self.conduct == Conduct::Contradicts {
            let output = json!({ "by": self.who, "attempt": self.attempt, "other": true });
            let other = json!({ "outcome": "SUCCEEDED", "output": output });
            self.report(other, Outcome::Succeeded).await;
        }
        if self.conduct == Conduct::Undead {
            self.haunt().await;
        }
    }

    /// A worker that was told that its lease is over, and does not care.
    async fn haunt(&mut self) {
        if self.conduct != Conduct::Undead {
            return;
        }
        for _ in 0..self.dice.between(1, UNDEAD_CALLS) {
            let pause = self.dice.between(0, self.lease_ms);
            self.stage.sleep(pause).await;
            self.heartbeat().await;
            if self.dice.chance(500) {
                self.start().await;
            }
        }
        let (report, outcome) = self.result();
        self.report(report, outcome).await;
    }

    async fn sleep_and_report(&mut self) {
        let pause = self.lease_ms + self.dice.between(0, self.lease_ms);
        self.stage.sleep(pause).await;
        let (report, outcome) = self.result();
        self.report(report, outcome).await;
    }

    async fn use_foreign_token(&mut self) {
        let other = {
            let books = self.stage.books.borrow();
            let others: Vec<&(String, u32, String)> =
                books.tokens.iter().filter(|(task, ..)| *task != self.task).collect();
            if others.is_empty() { None } else { Some((*self.dice.pick(&others)).clone()) }
        };
        if let Some((task, attempt, token)) = other {
            let own = std::mem::replace(&mut self.token, token);
            let shown = std::mem::replace(&mut self.shown, (task, attempt));
            self.heartbeat().await;
            (self.token, self.shown) = (own, shown);
        }
    }

    async fn lie(&mut self) {
        if self.dice.chance(500) {
            self.attempt += 1;
            self.heartbeat().await;
            self.attempt -= 1;
        } else {
            let own = std::mem::replace(&mut self.who, "worker-x".to_owned());
            self.heartbeat().await;
            self.who = own;
        }
    }

    async fn start(&mut self) -> Heard {
        loop {
            let body = json!({ "attempt": self.attempt, "workerId": self.who });
            let called = self.ask("started", Operation::Started, body, |_| {}).await;
            match self.stage.read::<StartedAck>(&self.who, &called) {
                Said::Ok(_) => {
                    self.give(&called, history::answer(Answer::Ok));
                    return Heard::Yes;
                }
                Said::Refused(problem) => return self.told(Operation::Started, &problem),
                Said::NotNow(_) | Said::Unknown => self.pause().await,
            }
            if self.is_hopeless() {
                return Heard::Over;
            }
        }
    }

    async fn heartbeat(&mut self) -> Heard {
        loop {
            let is_batch = self.dice.chance(200);
            let called = self.send_heartbeat(is_batch).await;
            let said =
                if is_batch { self.read_one(&called) } else { self.stage.read(&self.who, &called) };
            match said {
                Said::Ok(ack) => return self.renewed(&called, ack),
                Said::Refused(problem) => return self.told(Operation::Heartbeat, &problem),
                Said::NotNow(_) | Said::Unknown => self.pause().await,
            }
            if self.is_hopeless() {
                return Heard::Over;
            }
        }
    }

    async fn send_heartbeat(&mut self, is_batch: bool) -> Called {
        let mut body = json!({ "attempt": self.attempt, "workerId": self.who });
        if !is_batch {
            return self.ask("heartbeat", Operation::Heartbeat, body, |_| {}).await;
        }
        body["taskId"] = json!(self.task);
        body["taskToken"] = json!(self.token);
        let body = json!({ "heartbeats": [body] });
        self.ask("heartbeats", Operation::Heartbeat, body, |_| {}).await
    }

    /// The one answer of a batch of one, as a single call would have had it.
    fn read_one(&self, called: &Called) -> Said<HeartbeatAck> {
        let mut answers = match self.stage.read::<HeartbeatAnswers>(&self.who, called) {
            Said::Ok(answers) => answers,
            Said::Refused(problem) => return Said::Refused(problem),
            Said::NotNow(code) => return Said::NotNow(code),
            Said::Unknown => return Said::Unknown,
        };
        let HeartbeatAnswer { verdict, should_cancel, lease_expires_at, task_token, error, .. } =
            answers.answers.pop().expect("one heartbeat has one answer");
        match (verdict, lease_expires_at) {
            (Some(verdict), Some(lease_expires_at)) if error.is_none() => Said::Ok(HeartbeatAck {
                acknowledged: true,
                verdict,
                should_cancel: should_cancel.unwrap_or(false),
                cancel_reason: None,
                lease_expires_at,
                task_token,
                token_expires_at: None,
                server_time: answers.server_time,
            }),
            _ => self.read_problem(called, error, verdict, answers.server_time),
        }
    }

    fn read_problem<T>(
        &self,
        called: &Called,
        error: Option<String>,
        verdict: Option<wire::Verdict>,
        server_time: wire::Time,
    ) -> Said<T> {
        let error = error.expect("what is not granted has a code");
        let code: wire::Code = error.parse().expect("every code is documented");
        let is_unknown = code == wire::Code::UnknownOutcome;
        let answer = if is_unknown { Answer::Info } else { Answer::Fail };
        let given = Return {
            code: Some(error),
            verdict: verdict.map(|verdict| verdict.as_str().to_owned()),
            ..history::answer(answer)
        };
        self.give(called, given);
        match (is_unknown, code.worker_may_retry()) {
            (true, _) => Said::Unknown,
            (false, true) => Said::NotNow(code.as_str().to_owned()),
            (false, false) => {
                let mut problem = Problem::new(code, "", server_time);
                problem.verdict = verdict;
                Said::Refused(Box::new(problem))
            }
        }
    }

    fn renewed(&mut self, called: &Called, ack: HeartbeatAck) -> Heard {
        let given = Return {
            expires: Some(ack.lease_expires_at.as_ms()),
            cancel: ack.should_cancel,
            ..history::answer(Answer::Ok)
        };
        self.give(called, given);
        if let Some(token) = ack.task_token {
            self.stage.log.mark(Mark::TokenRefreshed);
            self.token = token;
        }
        if ack.should_cancel { Heard::Cancel } else { Heard::Yes }
    }

    /// Reports until it is known what became of the report.
    async fn report(&mut self, report: Value, outcome: Outcome) {
        let digest = match outcome {
            Outcome::Succeeded => report["output"].to_string(),
            _ => report.to_string(),
        };
        loop {
            let is_batch = self.dice.chance(200);
            let called = self.send_report(&report, outcome, &digest, is_batch).await;
            let said = if is_batch {
                self.read_report(&called)
            } else {
                self.stage.read(&self.who, &called)
            };
            match said {
                Said::Ok(ack) => return self.committed(&called, &ack),
                Said::Refused(problem) => {
                    self.told(Operation::Report, &problem);
                    return;
                }
                Said::NotNow(_) | Said::Unknown => self.pause().await,
            }
            if self.is_hopeless() {
                return;
            }
        }
    }

    async fn send_report(
        &mut self,
        report: &Value,
        outcome: Outcome,
        digest: &str,
        is_batch: bool,
    ) -> Called {
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

    fn read_report(&self, called: &Called) -> Said<CompletedAck> {
        let mut answers = match self.stage.read::<ReportAnswers>(&self.who, called) {
            Said::Ok(answers) => answers,
            Said::Refused(problem) => return Said::Refused(problem),
            Said::NotNow(code) => return Said::NotNow(code),
            Said::Unknown => return Said::Unknown,
        };
        let ReportAnswer { verdict, state, final_state, replayed, error, .. } =
            answers.answers.pop().expect("one report has one answer");
        match (verdict, state, final_state) {
            (Some(verdict), Some(state), Some(final_state)) if error.is_none() => {
                Said::Ok(CompletedAck {
                    acknowledged: true,
                    verdict,
                    final_state,
                    state,
                    replayed: replayed.unwrap_or(false),
                    server_time: answers.server_time,
                })
            }
            _ => self.read_problem(called, error, verdict, answers.server_time),
        }
    }

    fn committed(&self, called: &Called, ack: &CompletedAck) {
        if ack.replayed {
            self.stage.log.mark(Mark::ReportReplayed);
        }
        self.stage.say(format_args!(
            "{} is told COMMITTED {} for {} attempt {}, which is {}",
            self.who, ack.final_state, self.task, self.attempt, ack.state
        ));
        let given = Return {
            verdict: Some(ack.verdict.as_str().to_owned()),
            state: Some(state(ack.state)),
            replayed: ack.replayed,
            ..history::answer(Answer::Ok)
        };
        self.give(called, given);
    }

    /// Notes a refusal.
    fn told(&self, op: Operation, problem: &Problem) -> Heard {
        let log = &self.stage.log;
        let is_restored = self.stage.books.borrow().restores > self.restores;
        if is_restored && problem.error == "task_expired" {
            log.mark(Mark::LeaseOfOldEpochRefused);
        }
        match (op, problem.error.as_str()) {
            (Operation::Report, "task_expired" | "task_already_terminal") => {
                log.mark(Mark::LateReportRefused);
            }
            (Operation::Report, "attempt_mismatch") => log.mark(Mark::SupersededReportRefused),
            (Operation::Report, "conflicting_report") => log.mark(Mark::ContradictionRefused),
            (Operation::Heartbeat, "task_expired") => log.mark(Mark::LateHeartbeatRefused),
            (Operation::Started, "task_expired" | "task_already_terminal") => {
                log.mark(Mark::LateStartRefused);
            }
            (_, "invalid_token") if self.conduct == Conduct::UsesForeignToken => {
                log.mark(Mark::ForeignTokenRefused);
            }
            (_, "invalid_token") if self.conduct == Conduct::Lies => {
                log.mark(Mark::WrongAttemptRefused);
            }
            (_, "worker_mismatch") => log.mark(Mark::WrongWorkerRefused),
            _ => {}
        }
        Heard::Over
    }

    /// Nobody answered, or not now: the next one may.
    async fn pause(&mut self) {
        self.host = (self.host + 1) % self.stage.options.hosts();
        let millis = self.dice.between(AGAIN_MS.0, AGAIN_MS.1);
        self.stage.sleep(millis).await;
    }

    /// The world is over: nobody will answer any more.
    fn is_hopeless(&self) -> bool {
        self.stage.is_over.get()
    }

    fn give(&self, called: &Called, given: Return) {
        called.calls.iter().for_each(|call| self.stage.give(&self.who, *call, given.clone()));
    }

    async fn ask(
        &mut self,
        route: &str,
        op: Operation,
        body: Value,
        says: impl FnOnce(&mut Invoke),
    ) -> Called {
        let stays = self.stage.options.conduct.goes_on_to_the_next;
        let to = if stays { self.host } else { self.stage.any_host(&mut self.dice) };
        self.note_other_host(to);
        let is_batch = matches!(route, "heartbeats" | "reports");
        let path = match is_batch {
            true => format!("/v1/{route}"),
            false => format!("/v1/tasks/{}/{route}", self.task),
        };
        let access = &self.stage.accesses[self.scope];
        let bearer = if is_batch { &access.worker_key } else { &self.token };
        let ask = Ask {
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
            shown: Some(Shown {
                class: Class::Task,
                task: Some(name(&self.shown.0)),
                attempt: Some(self.shown.1),
            }),
            ..history::invoke(op)
        };
        says(&mut invoke);
        let who = self.who.clone();
        let patience_ms = self.stage.options.conduct.patience_ms;
        let calling = Calling { who: &who, to, ask, patience_ms, invokes: vec![invoke] };
        let called = self.stage.call(calling).await;
        self.check_heard(&called);
        called
    }

    /// Where only the committer for new work fails, a call under a lease is answered (F44).
    fn check_heard(&self, called: &Called) {
        let is_spared = self.stage.options.nemesis.seats.spares_hearing;
        if is_spared && called.ending == Ending::Gone && !self.is_hopeless() {
            let (who, task) = (&self.who, &self.task);
            self.stage.log.violate("F44", format_args!("{who} is not answered about {task}"));
        }
    }

    fn note_other_host(&self, to: usize) {
        let books = self.stage.books.borrow();
        let place = (name(&self.task), self.attempt);
        if books.granted_by.get(&place).is_some_and(|host| *host != to) {
            self.stage.log.mark(Mark::StartedInAnotherHost);
        }
    }
}
