//! Clients: they submit, retry calls that got no answer, cancel, and watch their runs until the end.

mod continuation;
mod durable;
mod plans;

use std::rc::Rc;

use historyck::event::{Answer, Class, Credential, EventKind, Invoke, Operation, Record, Return};
use serde_json::json;
use wire::answers::{CancelAccepted, Run, RunAccepted, SubmitResult, SubmitResults};

use crate::actor_context::{ActorContext, CallOutcome, FinishedCall, OutgoingCall};
use crate::coverage::CoverageGoal;
use crate::fault::Fault;
use crate::history::{self, name, state};
use crate::network::HttpRequest;
use crate::options::RunOptions;
use crate::rng::{SimRng, Stream};
use crate::run_spec::RunSpec;
use crate::scopes::Access;

/// Timeout of a call, and the pause before a retry.
const TIMEOUT_MS: u64 = 2_000;
const RETRY_MS: (u64, u64) = (50, 800);
/// How much longer a client waits than a worker under a lease.
const TIMEOUT_FACTOR: u64 = 2;
/// How long a read may wait for a run to end.
const WAIT_MS: u64 = 2_000;
const RUNS_PER_BATCH: u64 = 3;

/// The outcome of one run of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BatchResult {
    Accepted(String),
    /// Refused permanently.
    Refused,
    Undecided,
}

pub(crate) struct Client {
    ctx: Rc<ActorContext>,
    who: String,
    rng: SimRng,
    /// The scope it submits to.
    scope: usize,
}

/// Runs of a flood that are submitted in one call, and when the flood begins.
const FLOOD_BATCH: u64 = 20;
const FLOOD_AFTER_MS: u64 = 1_000;

pub(crate) async fn client(ctx: Rc<ActorContext>, number: u32) {
    let mut rng = SimRng::new(ctx.seed, Stream::Client(number));
    let (runs, span) = (ctx.options.runs_per_client, ctx.options.safety_ms);
    let scope = ctx.scope_of(number);
    if number == 0 && ctx.options.flood > 0 {
        let rng = SimRng::new(rng.number(), Stream::Client(number));
        let client = Client { ctx: ctx.clone(), who: format!("client-{number}"), rng, scope };
        ctx.spawn(client.flood());
    }
    for n in 0..runs {
        ctx.sleep(rng.between(0, span * 3 / 2 / runs)).await;
        if ctx.faults_stopped.get() {
            break;
        }
        let client = Client {
            ctx: ctx.clone(),
            who: format!("client-{number}"),
            rng: SimRng::new(rng.number(), Stream::Client(number)),
            scope,
        };
        if ctx.options.durable.is_some_and(|durable| rng.chance(durable.share)) {
            ctx.spawn(client.submit_program(format!("{number}-{n}")));
            continue;
        }
        if ctx.options.plans > 0 && rng.chance(ctx.options.plans) {
            ctx.spawn(client.submit_plan(format!("{number}-{n}")));
            continue;
        }
        let is_batch = rng.chance(ctx.options.runs.batch);
        ctx.spawn(client.submit_runs(format!("{number}-{n}"), is_batch));
    }
}

impl Client {
    fn fork(&mut self) -> Client {
        let rng = SimRng::new(self.rng.number(), Stream::Client(0));
        Client { ctx: self.ctx.clone(), who: self.who.clone(), rng, scope: self.scope }
    }

    /// Draws a run to submit; where there are several scopes, tags it with its scope.
    fn draw(&mut self, options: &RunOptions, name: &str, now: u64) -> RunSpec {
        let spec = RunSpec::draw(&mut self.rng, options, name, now);
        if self.ctx.accesses.len() == 1 { spec } else { spec.tagged(&self.access().scope) }
    }

    fn access(&self) -> &Access {
        &self.ctx.accesses[self.scope]
    }

    /// Submits far more at once than its workers can execute.
    async fn flood(mut self) {
        self.ctx.sleep(FLOOD_AFTER_MS).await;
        self.ctx.observations.borrow_mut().open += 1;
        let (options, now) = (self.ctx.options.runs, self.ctx.now());
        for batch in 0..self.ctx.options.flood / FLOOD_BATCH {
            let specs: Vec<RunSpec> = (0..FLOOD_BATCH)
                .map(|n| {
                    let unique = format!("flood-{batch}-{n}");
                    let spec = self.draw(&options, &unique, now);
                    RunSpec { key: Some(format!("key-{unique}")), ..spec }
                })
                .collect();
            self.submit_many(&specs).await;
        }
        self.ctx.observations.borrow_mut().open -= 1;
    }

    async fn submit_runs(mut self, unique: String, is_batch: bool) {
        self.ctx.observations.borrow_mut().open += 1;
        let (options, now) = (self.ctx.options.runs, self.ctx.now());
        if is_batch {
            let count = self.rng.between(2, RUNS_PER_BATCH);
            let mut specs: Vec<RunSpec> =
                (0..count).map(|i| self.draw(&options, &format!("{unique}-{i}"), now)).collect();
            specs.iter_mut().enumerate().for_each(|(i, spec)| {
                spec.key = Some(format!("key-{unique}-{i}"));
            });
            self.submit_many(&specs).await;
        } else {
            let spec = self.draw(&options, &unique, now);
            if let Some(run) = self.submit(&spec).await {
                self.follow_run(run, spec).await;
            }
        }
        self.ctx.observations.borrow_mut().open -= 1;
    }

    fn ask(
        &self,
        method: &'static str,
        path: String,
        body: Option<serde_json::Value>,
    ) -> HttpRequest {
        HttpRequest {
            method,
            path,
            bearer: self.access().client_key.clone(),
            idempotency_key: None,
            body: body.map(|body| body.to_string().into_bytes()),
        }
    }

    async fn call(
        &mut self,
        ask: HttpRequest,
        invokes: Vec<Invoke>,
        timeout_ms: u64,
    ) -> FinishedCall {
        let to = self.ctx.pick_host(&mut self.rng);
        let timeout_ms = timeout_ms.max(TIMEOUT_FACTOR * self.ctx.options.behaviour.timeout_ms);
        let who = self.who.clone();
        self.ctx.call(OutgoingCall { who: &who, to, ask, timeout_ms, invokes }).await
    }

    async fn pause(&mut self) {
        let millis = self.rng.between(RETRY_MS.0, RETRY_MS.1);
        self.ctx.sleep(millis).await;
    }

    /// Submits until the outcome is known. A run without a key is abandoned when the outcome is unknown: a retry
    /// would create a second one.
    async fn submit(&mut self, spec: &RunSpec) -> Option<String> {
        let mut has_retried = false;
        loop {
            let mut ask = self.ask("POST", "/v1/runs".to_owned(), Some(spec.body.clone()));
            ask.idempotency_key = spec.key.clone();
            let called = self.call(ask, vec![self.invoke_submit(spec)], TIMEOUT_MS).await;
            match self.ctx.read::<RunAccepted>(&self.who, &called) {
                CallOutcome::Ok(accepted) => {
                    self.accepted(called.calls[0], &accepted, has_retried);
                    return Some(accepted.run_id);
                }
                CallOutcome::Refused(problem) => {
                    self.ctx.say(format_args!("{} is refused: {}", self.who, problem.error));
                    return None;
                }
                CallOutcome::NotNow(_) => {}
                CallOutcome::Unknown if spec.key.is_none() => return None,
                CallOutcome::Unknown => has_retried = true,
            }
            self.pause().await;
        }
    }

    fn accepted(&self, call: u64, accepted: &RunAccepted, has_retried: bool) {
        let replayed = accepted.replayed == Some(true);
        self.ctx.say(format_args!(
            "{} has {} {}{}",
            self.who,
            accepted.run_id,
            accepted.state,
            if replayed { ", as before" } else { "" }
        ));
        match (has_retried, replayed) {
            (true, true) => self.ctx.log.reach_goal(CoverageGoal::KeyedRetryFoundTheFirst),
            (true, false) => self.ctx.log.reach_goal(CoverageGoal::LostCommitSubmittedAgain),
            (false, _) => {}
        }
        let mut observations = self.ctx.observations.borrow_mut();
        observations.accepted.insert(name(&accepted.run_id));
        observations.owned.push((self.scope, accepted.run_id.clone()));
        drop(observations);
        let given = Return {
            task: Some(name(&accepted.run_id)),
            state: Some(state(accepted.state)),
            replayed,
            ..history::answer(Answer::Ok)
        };
        self.ctx.record_return(&self.who, call, given);
    }

    /// Every run of the batch has a key, so the whole batch can be retried.
    async fn submit_many(&mut self, specs: &[RunSpec]) {
        let runs: Vec<serde_json::Value> = specs
            .iter()
            .map(|spec| {
                let mut run = spec.body.clone();
                run["idempotencyKey"] = json!(spec.key);
                run
            })
            .collect();
        loop {
            let ask = self.ask("POST", "/v1/runs".to_owned(), Some(json!({ "runs": runs })));
            let invokes = specs.iter().map(|spec| self.invoke_submit(spec)).collect();
            let called = self.call(ask, invokes, TIMEOUT_MS).await;
            if let CallOutcome::Ok(answers) = self.ctx.read::<SubmitResults>(&self.who, &called) {
                self.ctx.log.reach_goal(CoverageGoal::BatchSubmitted);
                let results = called.calls.iter().zip(&answers.results);
                let results: Vec<BatchResult> =
                    results.map(|(call, result)| self.batch_result(*call, result)).collect();
                if !results.contains(&BatchResult::Undecided) {
                    self.follow_runs(results, specs);
                    return;
                }
            }
            self.pause().await;
        }
    }

    fn follow_runs(&mut self, results: Vec<BatchResult>, specs: &[RunSpec]) {
        for (result, spec) in results.into_iter().zip(specs) {
            let BatchResult::Accepted(run) = result else { continue };
            self.ctx.observations.borrow_mut().open += 1;
            let (mut other, spec) = (self.fork(), spec.clone());
            self.ctx.spawn(async move {
                other.follow_run(run, spec).await;
                other.ctx.observations.borrow_mut().open -= 1;
            });
        }
    }

    fn batch_result(&self, call: u64, result: &SubmitResult) -> BatchResult {
        let SubmitResult { run_id, task_id, state, created_at, replayed, error, .. } =
            result.clone();
        if let (Some(run_id), Some(task_id), Some(state), Some(created_at)) =
            (run_id, task_id, state, created_at)
        {
            let accepted = RunAccepted { run_id, task_id, state, created_at, replayed, run: None };
            self.accepted(call, &accepted, false);
            return BatchResult::Accepted(accepted.run_id);
        }
        let code: wire::Code =
            error.as_deref().and_then(|error| error.parse().ok()).expect("a refusal has a code");
        let answer = if code == wire::Code::UnknownOutcome { Answer::Info } else { Answer::Fail };
        let given = Return { code: error, ..history::answer(answer) };
        self.ctx.record_return(&self.who, call, given);
        if code.worker_may_retry() { BatchResult::Undecided } else { BatchResult::Refused }
    }

    async fn follow_run(&mut self, run: String, spec: RunSpec) {
        let options = self.ctx.options.runs;
        if self.rng.chance(options.cancel) {
            self.ctx.observations.borrow_mut().open += 1;
            let (other, run) = (self.fork(), run.clone());
            self.ctx.spawn(other.cancel(run));
        }
        if spec.key.is_some() && self.rng.chance(options.reuse_key) {
            self.ctx.log.fault(Fault::KeyReused);
            if self.submit(&spec.with_other_input()).await.is_none() {
                self.ctx.log.reach_goal(CoverageGoal::KeyReuseRefused);
            }
        }
        self.watch(&run).await;
        if self.rng.chance(300) {
            self.read_record(&run).await;
        }
        if self.rng.chance(300) {
            self.pause().await;
            self.read(&run, None).await;
        }
        if spec.key.is_some() && self.rng.chance(200) && self.submit(&spec).await.is_some() {
            self.ctx.log.reach_goal(CoverageGoal::ResubmittedAfterEnd);
        }
    }

    /// Reads the run until it has ended.
    async fn watch(&mut self, run: &str) {
        loop {
            let wait_ms = self.rng.chance(700).then_some(WAIT_MS);
            let is_over = self.read(run, wait_ms).await;
            if is_over {
                self.ctx.observations.borrow_mut().ended.insert(name(run));
                if wait_ms.is_some() {
                    self.ctx.log.reach_goal(CoverageGoal::WaitedForChange);
                }
                return;
            }
            self.pause().await;
        }
    }

    /// Returns whether this read showed the run's end.
    async fn read(&mut self, run: &str, wait_ms: Option<u64>) -> bool {
        let query = wait_ms.map(|millis| format!("?waitMs={millis}")).unwrap_or_default();
        let ask = self.ask("GET", format!("/v1/runs/{run}{query}"), None);
        let invoke = Invoke { task: Some(name(run)), ..self.invoke(Operation::Get) };
        let timeout_ms = TIMEOUT_MS + wait_ms.unwrap_or(0);
        let called = self.call(ask, vec![invoke], timeout_ms).await;
        let CallOutcome::Ok(seen) = self.ctx.read::<Run>(&self.who, &called) else { return false };
        let given = Return {
            state: Some(state(seen.state)),
            attempt: Some(seen.attempt),
            digest: seen.output.as_ref().map(|output| output.text().to_owned()),
            ..history::answer(Answer::Ok)
        };
        self.ctx.record_return(&self.who, called.calls[0], given);
        let is_over = state(seen.state).is_terminal();
        if is_over {
            self.ctx.say(format_args!("{} sees {run} {}", self.who, seen.state));
        }
        is_over
    }

    async fn read_record(&mut self, run: &str) {
        let ask = self.ask("GET", format!("/v1/runs/{run}/record"), None);
        let called = self.call(ask, Vec::new(), TIMEOUT_MS).await;
        let CallOutcome::Ok(record) = self.ctx.read::<wire::answers::Record>(&self.who, &called)
        else {
            return;
        };
        let seen = Record {
            task: name(run),
            state: state(record.state),
            digest: record.digest,
            created: Some(record.created_at.as_ms()),
            started: record.started_at.map(wire::Time::as_ms),
            completed: Some(record.completed_at.as_ms()),
        };
        let now = self.ctx.now();
        self.ctx.history.borrow_mut().record(now, &self.who, EventKind::Record(seen));
    }

    async fn cancel(mut self, run: String) {
        let delay = self.rng.between(0, 8_000);
        self.ctx.sleep(delay).await;
        let force = self.rng.chance(self.ctx.options.runs.force);
        loop {
            let body = json!({ "reason": "no longer needed", "force": force });
            let ask = self.ask("POST", format!("/v1/runs/{run}/cancel"), Some(body));
            let invoke = Invoke { task: Some(name(&run)), force, ..self.invoke(Operation::Cancel) };
            let called = self.call(ask, vec![invoke], TIMEOUT_MS).await;
            match self.ctx.read::<CancelAccepted>(&self.who, &called) {
                CallOutcome::Ok(accepted) => {
                    let given = Return {
                        state: Some(state(accepted.state)),
                        ..history::answer(Answer::Ok)
                    };
                    self.ctx.record_return(&self.who, called.calls[0], given);
                    self.ctx.say(format_args!("{} cancels {run}", self.who));
                    break;
                }
                CallOutcome::Refused(_) => break,
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.pause().await,
            }
        }
        self.ctx.observations.borrow_mut().open -= 1;
    }
}

impl Client {
    /// A call as the history records it: its scope, its credential and its operation.
    fn invoke(&self, op: Operation) -> Invoke {
        Invoke {
            scope: Some(self.access().scope.clone()),
            shown: Some(Credential { class: Class::Client, task: None, attempt: None }),
            ..history::invoke(op)
        }
    }

    fn invoke_submit(&self, spec: &RunSpec) -> Invoke {
        Invoke {
            key: spec.key.clone(),
            digest: Some(spec.digest()),
            plan: spec.body.get("plan").is_some(),
            ..self.invoke(Operation::Submit)
        }
    }
}
