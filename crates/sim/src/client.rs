//! Clients: they submit, repeat what was not answered, cancel, and watch their runs to the end.

use std::rc::Rc;

use historyck::event::{Answer, Class, Invoke, Operation, Record, Return, Shown, What};
use serde_json::json;
use wire::answers::{CancelAccepted, Run, RunAccepted, SubmitResult, SubmitResults};

use crate::dice::{Dice, Stream};
use crate::fault::Fault;
use crate::history::{self, name, state};
use crate::mark::Mark;
use crate::network::Ask;
use crate::options::RunOptions;
use crate::order::Order;
use crate::scopes::Access;
use crate::stage::{Called, Calling, Said, Stage};

/// How long to wait for an answer, and before asking again.
const PATIENCE_MS: u64 = 2_000;
const AGAIN_MS: (u64, u64) = (50, 800);
/// How much longer than a worker under a lease a client waits.
const PATIENCE_FACTOR: u64 = 2;
/// How long a read may wait for the end of a run.
const WAIT_MS: u64 = 2_000;
const ORDERS_PER_BATCH: u64 = 3;

/// What became of one run of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Taken {
    As(String),
    /// Refused for good.
    Never,
    NotYet,
}

pub(crate) struct Client {
    stage: Rc<Stage>,
    who: String,
    dice: Dice,
    /// In which scope it is.
    scope: usize,
}

/// Runs of a flood that are submitted together, and when it begins.
const FLOOD_BATCH: u64 = 20;
const FLOOD_AFTER_MS: u64 = 1_000;

pub(crate) async fn client(stage: Rc<Stage>, number: u32) {
    let mut dice = Dice::new(stage.seed, Stream::Client(number));
    let (runs, span) = (stage.options.runs_per_client, stage.options.safety_ms);
    let scope = stage.scope_of(number);
    if number == 0 && stage.options.flood > 0 {
        let dice = Dice::new(dice.number(), Stream::Client(number));
        let client = Client { stage: stage.clone(), who: format!("client-{number}"), dice, scope };
        stage.spawn(client.flood());
    }
    for n in 0..runs {
        stage.sleep(dice.between(0, span * 3 / 2 / runs)).await;
        if stage.is_calm.get() {
            break;
        }
        let client = Client {
            stage: stage.clone(),
            who: format!("client-{number}"),
            dice: Dice::new(dice.number(), Stream::Client(number)),
            scope,
        };
        let is_batch = dice.chance(stage.options.runs.batch);
        stage.spawn(client.place(format!("{number}-{n}"), is_batch));
    }
}

impl Client {
    fn fork(&mut self) -> Client {
        let dice = Dice::new(self.dice.number(), Stream::Client(0));
        Client { stage: self.stage.clone(), who: self.who.clone(), dice, scope: self.scope }
    }

    /// Draws what to submit; where there are several scopes, with whose it is.
    fn draw(&mut self, options: &RunOptions, name: &str, now: u64) -> Order {
        let order = Order::draw(&mut self.dice, options, name, now);
        if self.stage.accesses.len() == 1 { order } else { order.marked(&self.access().scope) }
    }

    fn access(&self) -> &Access {
        &self.stage.accesses[self.scope]
    }

    /// Submits far more at once than its workers can do.
    async fn flood(mut self) {
        self.stage.sleep(FLOOD_AFTER_MS).await;
        self.stage.books.borrow_mut().open += 1;
        let (options, now) = (self.stage.options.runs, self.stage.now());
        for batch in 0..self.stage.options.flood / FLOOD_BATCH {
            let orders: Vec<Order> = (0..FLOOD_BATCH)
                .map(|n| {
                    let unique = format!("flood-{batch}-{n}");
                    let order = self.draw(&options, &unique, now);
                    Order { key: Some(format!("key-{unique}")), ..order }
                })
                .collect();
            self.submit_many(&orders).await;
        }
        self.stage.books.borrow_mut().open -= 1;
    }

    async fn place(mut self, unique: String, is_batch: bool) {
        self.stage.books.borrow_mut().open += 1;
        let (options, now) = (self.stage.options.runs, self.stage.now());
        if is_batch {
            let count = self.dice.between(2, ORDERS_PER_BATCH);
            let mut orders: Vec<Order> =
                (0..count).map(|i| self.draw(&options, &format!("{unique}-{i}"), now)).collect();
            orders.iter_mut().enumerate().for_each(|(i, order)| {
                order.key = Some(format!("key-{unique}-{i}"));
            });
            self.submit_many(&orders).await;
        } else {
            let order = self.draw(&options, &unique, now);
            if let Some(run) = self.submit(&order).await {
                self.see_through(run, order).await;
            }
        }
        self.stage.books.borrow_mut().open -= 1;
    }

    fn ask(&self, method: &'static str, path: String, body: Option<serde_json::Value>) -> Ask {
        Ask {
            method,
            path,
            bearer: self.access().client_key.clone(),
            idempotency_key: None,
            body: body.map(|body| body.to_string().into_bytes()),
        }
    }

    async fn call(&mut self, ask: Ask, invokes: Vec<Invoke>, patience_ms: u64) -> Called {
        let to = self.stage.any_host(&mut self.dice);
        let patience_ms = patience_ms.max(PATIENCE_FACTOR * self.stage.options.conduct.patience_ms);
        let who = self.who.clone();
        self.stage.call(Calling { who: &who, to, ask, patience_ms, invokes }).await
    }

    async fn pause(&mut self) {
        let millis = self.dice.between(AGAIN_MS.0, AGAIN_MS.1);
        self.stage.sleep(millis).await;
    }

    /// Submits until it is known what became of it. A run without a key is given up when nobody knows:
    /// asking again would make a second one.
    async fn submit(&mut self, order: &Order) -> Option<String> {
        let mut has_asked_in_vain = false;
        loop {
            let mut ask = self.ask("POST", "/v1/runs".to_owned(), Some(order.body.clone()));
            ask.idempotency_key = order.key.clone();
            let called = self.call(ask, vec![self.invoke_submit(order)], PATIENCE_MS).await;
            match self.stage.read::<RunAccepted>(&self.who, &called) {
                Said::Ok(accepted) => {
                    self.accepted(called.calls[0], &accepted, has_asked_in_vain);
                    return Some(accepted.run_id);
                }
                Said::Refused(problem) => {
                    self.stage.say(format_args!("{} is refused: {}", self.who, problem.error));
                    return None;
                }
                Said::NotNow(_) => {}
                Said::Unknown if order.key.is_none() => return None,
                Said::Unknown => has_asked_in_vain = true,
            }
            self.pause().await;
        }
    }

    fn accepted(&self, call: u64, accepted: &RunAccepted, has_asked_in_vain: bool) {
        let replayed = accepted.replayed == Some(true);
        self.stage.say(format_args!(
            "{} has {} {}{}",
            self.who,
            accepted.run_id,
            accepted.state,
            if replayed { ", as before" } else { "" }
        ));
        match (has_asked_in_vain, replayed) {
            (true, true) => self.stage.log.mark(Mark::KeyedRetryFoundTheFirst),
            (true, false) => self.stage.log.mark(Mark::LostCommitSubmittedAgain),
            (false, _) => {}
        }
        let mut books = self.stage.books.borrow_mut();
        books.accepted.insert(name(&accepted.run_id));
        books.owned.push((self.scope, accepted.run_id.clone()));
        drop(books);
        let given = Return {
            task: Some(name(&accepted.run_id)),
            state: Some(state(accepted.state)),
            replayed,
            ..history::answer(Answer::Ok)
        };
        self.stage.give(&self.who, call, given);
    }

    /// Every run of the batch has a key, so that the whole batch may be repeated.
    async fn submit_many(&mut self, orders: &[Order]) {
        let runs: Vec<serde_json::Value> = orders
            .iter()
            .map(|order| {
                let mut run = order.body.clone();
                run["idempotencyKey"] = json!(order.key);
                run
            })
            .collect();
        loop {
            let ask = self.ask("POST", "/v1/runs".to_owned(), Some(json!({ "runs": runs })));
            let invokes = orders.iter().map(|order| self.invoke_submit(order)).collect();
            let called = self.call(ask, invokes, PATIENCE_MS).await;
            if let Said::Ok(answers) = self.stage.read::<SubmitResults>(&self.who, &called) {
                self.stage.log.mark(Mark::BatchSubmitted);
                let results = called.calls.iter().zip(&answers.results);
                let taken: Vec<Taken> =
                    results.map(|(call, result)| self.taken(*call, result)).collect();
                if !taken.contains(&Taken::NotYet) {
                    self.see_all_through(taken, orders);
                    return;
                }
            }
            self.pause().await;
        }
    }

    fn see_all_through(&mut self, taken: Vec<Taken>, orders: &[Order]) {
        for (taken, order) in taken.into_iter().zip(orders) {
            let Taken::As(run) = taken else { continue };
            self.stage.books.borrow_mut().open += 1;
            let (mut other, order) = (self.fork(), order.clone());
            self.stage.spawn(async move {
                other.see_through(run, order).await;
                other.stage.books.borrow_mut().open -= 1;
            });
        }
    }

    fn taken(&self, call: u64, result: &SubmitResult) -> Taken {
        let SubmitResult { run_id, task_id, state, created_at, replayed, error, .. } =
            result.clone();
        if let (Some(run_id), Some(task_id), Some(state), Some(created_at)) =
            (run_id, task_id, state, created_at)
        {
            let accepted = RunAccepted { run_id, task_id, state, created_at, replayed };
            self.accepted(call, &accepted, false);
            return Taken::As(accepted.run_id);
        }
        let code: wire::Code =
            error.as_deref().and_then(|error| error.parse().ok()).expect("a refusal has a code");
        let answer = if code == wire::Code::UnknownOutcome { Answer::Info } else { Answer::Fail };
        let given = Return { code: error, ..history::answer(answer) };
        self.stage.give(&self.who, call, given);
        if code.worker_may_retry() { Taken::NotYet } else { Taken::Never }
    }

    async fn see_through(&mut self, run: String, order: Order) {
        let options = self.stage.options.runs;
        if self.dice.chance(options.cancel) {
            self.stage.books.borrow_mut().open += 1;
            let (other, run) = (self.fork(), run.clone());
            self.stage.spawn(other.cancel(run));
        }
        if order.key.is_some() && self.dice.chance(options.reuse_key) {
            self.stage.log.fault(Fault::KeyReused);
            if self.submit(&order.contradicted()).await.is_none() {
                self.stage.log.mark(Mark::KeyReuseRefused);
            }
        }
        self.watch(&run).await;
        if self.dice.chance(300) {
            self.read_record(&run).await;
        }
        if self.dice.chance(300) {
            self.pause().await;
            self.read(&run, None).await;
        }
        if order.key.is_some() && self.dice.chance(200) && self.submit(&order).await.is_some() {
            self.stage.log.mark(Mark::ResubmittedAfterEnd);
        }
    }

    /// Reads the run until it has ended.
    async fn watch(&mut self, run: &str) {
        loop {
            let wait_ms = self.dice.chance(700).then_some(WAIT_MS);
            let is_over = self.read(run, wait_ms).await;
            if is_over {
                self.stage.books.borrow_mut().ended.insert(name(run));
                if wait_ms.is_some() {
                    self.stage.log.mark(Mark::WaitedForChange);
                }
                return;
            }
            self.pause().await;
        }
    }

    /// Whether the run was seen to have ended.
    async fn read(&mut self, run: &str, wait_ms: Option<u64>) -> bool {
        let query = wait_ms.map(|millis| format!("?waitMs={millis}")).unwrap_or_default();
        let ask = self.ask("GET", format!("/v1/runs/{run}{query}"), None);
        let invoke = Invoke { task: Some(name(run)), ..self.invoke(Operation::Get) };
        let patience_ms = PATIENCE_MS + wait_ms.unwrap_or(0);
        let called = self.call(ask, vec![invoke], patience_ms).await;
        let Said::Ok(seen) = self.stage.read::<Run>(&self.who, &called) else { return false };
        let given = Return {
            state: Some(state(seen.state)),
            attempt: Some(seen.attempt),
            digest: seen.output.as_ref().map(|output| output.text().to_owned()),
            ..history::answer(Answer::Ok)
        };
        self.stage.give(&self.who, called.calls[0], given);
        let is_over = state(seen.state).is_terminal();
        if is_over {
            self.stage.say(format_args!("{} sees {run} {}", self.who, seen.state));
        }
        is_over
    }

    async fn read_record(&mut self, run: &str) {
        let ask = self.ask("GET", format!("/v1/runs/{run}/record"), None);
        let called = self.call(ask, Vec::new(), PATIENCE_MS).await;
        let Said::Ok(record) = self.stage.read::<wire::answers::Record>(&self.who, &called) else {
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
        let now = self.stage.now();
        self.stage.history.borrow_mut().record(now, &self.who, What::Record(seen));
    }

    async fn cancel(mut self, run: String) {
        let delay = self.dice.between(0, 8_000);
        self.stage.sleep(delay).await;
        let force = self.dice.chance(self.stage.options.runs.force);
        loop {
            let body = json!({ "reason": "no longer needed", "force": force });
            let ask = self.ask("POST", format!("/v1/runs/{run}/cancel"), Some(body));
            let invoke = Invoke { task: Some(name(&run)), force, ..self.invoke(Operation::Cancel) };
            let called = self.call(ask, vec![invoke], PATIENCE_MS).await;
            match self.stage.read::<CancelAccepted>(&self.who, &called) {
                Said::Ok(accepted) => {
                    let given = Return {
                        state: Some(state(accepted.state)),
                        ..history::answer(Answer::Ok)
                    };
                    self.stage.give(&self.who, called.calls[0], given);
                    self.stage.say(format_args!("{} cancels {run}", self.who));
                    break;
                }
                Said::Refused(_) => break,
                Said::NotNow(_) | Said::Unknown => self.pause().await,
            }
        }
        self.stage.books.borrow_mut().open -= 1;
    }
}

impl Client {
    /// A call as the history has it: whose it is, and with what.
    fn invoke(&self, op: Operation) -> Invoke {
        Invoke {
            scope: Some(self.access().scope.clone()),
            shown: Some(Shown { class: Class::Client, task: None, attempt: None }),
            ..history::invoke(op)
        }
    }

    fn invoke_submit(&self, order: &Order) -> Invoke {
        Invoke {
            key: order.key.clone(),
            digest: Some(order.digest()),
            ..self.invoke(Operation::Submit)
        }
    }
}
