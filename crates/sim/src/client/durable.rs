//! Clients of durable runs: they submit a program, send it its signals, sometimes cancel it, and read what it recorded.

use historyck::event::{Answer, Invoke, Operation, Return};
use serde_json::{Value, json};
use wire::answers::{SignalAccepted, Steps};

use super::{Client, TIMEOUT_MS};
use crate::actor_context::CallOutcome;
use crate::durable::show;
use crate::escrow;
use crate::fault::Fault;
use crate::history::{self, name, state};
use crate::program::{KIND, Program, payload, signal};
use crate::run_spec::{RunSpec, queue};

/// When a client sends a signal: before its run has begun, or at any time while it may wait.
const SIGNAL_AFTER_MS: (u64, u64) = (0, 12_000);

/// No program ends because of its limits.
const ATTEMPTS_MAX: u32 = 100;

impl Client {
    pub(super) async fn submit_program(mut self, unique: String) {
        self.ctx.observations.borrow_mut().open += 1;
        let options = self.ctx.options.durable.expect("only durable worlds have programs");
        let program = Program::draw(&mut self.rng, &options, &unique);
        let spec = self.program_spec(&program);
        if let Some(run) = self.submit(&spec).await {
            self.follow_program(&run, &program).await;
            if let Some(next) = self.continue_halted(&run, &program).await {
                self.follow_program(&next, &program).await;
            }
        }
        self.ctx.observations.borrow_mut().open -= 1;
    }

    fn program_spec(&mut self, program: &Program) -> RunSpec {
        let options = self.ctx.options.runs;
        let body = json!({
            "kind": KIND, "queue": queue(self.rng.between(0, options.queues - 1)),
            "input": program.input(),
            "leaseMs": self.rng.between(options.lease_ms.0, options.lease_ms.1),
            "maxAttempts": ATTEMPTS_MAX, "lostMax": ATTEMPTS_MAX,
            "cancelGraceMs": self.rng.between(options.grace_ms.0, options.grace_ms.1),
            "retry": { "baseMs": 0, "capMs": 500 },
        });
        let body = self.funded(body, program);
        RunSpec { key: Some(format!("key-{}", program.name)), body }
    }

    /// With a budget, in worlds that have them: sometimes more than the program needs, sometimes less.
    fn funded(&mut self, mut body: Value, program: &Program) -> Value {
        if self.ctx.options.durable.is_some_and(|durable| durable.escrow) {
            let funded = self.rng.between(escrow::FUNDED.0, escrow::FUNDED.1);
            body["budget"] = escrow::budget(escrow::share(program) * funded / 1_000);
        }
        body
    }

    async fn follow_program(&mut self, run: &str, program: &Program) {
        for place in program.signals() {
            self.ctx.observations.borrow_mut().open += 1;
            let (other, run, name) = (self.fork(), run.to_owned(), program.name.clone());
            self.ctx.spawn(other.send_signal(run, name, place));
        }
        if self.rng.chance(self.ctx.options.runs.cancel / 2) {
            self.ctx.observations.borrow_mut().open += 1;
            let (other, run) = (self.fork(), run.to_owned());
            self.ctx.spawn(other.cancel(run));
        }
        self.watch(run).await;
        self.read_steps(run).await;
    }

    /// Sends a signal until it is accepted, and some of them once more.
    async fn send_signal(mut self, run: String, program: String, place: usize) {
        let delay = self.rng.between(SIGNAL_AFTER_MS.0, SIGNAL_AFTER_MS.1);
        self.ctx.sleep(delay).await;
        if self.signal_until_known(&run, &program, place).await && self.rng.chance(200) {
            self.ctx.log.fault(Fault::SignalRepeated);
            self.pause().await;
            self.signal_until_known(&run, &program, place).await;
        }
        self.ctx.observations.borrow_mut().open -= 1;
    }

    async fn signal_until_known(&mut self, run: &str, program: &str, place: usize) -> bool {
        loop {
            let body = json!({ "name": signal(place), "payload": payload(program, place) });
            let mut ask = self.ask("POST", format!("/v1/runs/{run}/signals"), Some(body));
            ask.idempotency_key = Some(format!("signal-{program}-{place}"));
            let invoke = Invoke { task: Some(name(run)), ..self.invoke(Operation::Signal) };
            let called = self.call(ask, vec![invoke], TIMEOUT_MS).await;
            match self.ctx.read::<SignalAccepted>(&self.who, &called) {
                CallOutcome::Ok(accepted) => {
                    let replayed = accepted.replayed == Some(true);
                    let state = Some(state(accepted.state)).filter(|_| !replayed);
                    let given = Return { state, replayed, ..history::answer(Answer::Ok) };
                    self.ctx.record_return(&self.who, called.calls[0], given);
                    return true;
                }
                CallOutcome::Refused(_) => return false,
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.pause().await,
            }
        }
    }

    /// Everything that the run recorded, after its end.
    async fn read_steps(&mut self, run: &str) {
        let (mut recorded, mut after) = (Vec::new(), Some(0));
        while let Some(cursor) = after {
            let ask = self.ask("GET", format!("/v1/runs/{run}/steps?after={cursor}&limit=7"), None);
            let called = self.call(ask, Vec::new(), TIMEOUT_MS).await;
            match self.ctx.read::<Steps>(&self.who, &called) {
                CallOutcome::Ok(page) => {
                    recorded.extend(page.steps);
                    after = page.next_after;
                }
                CallOutcome::Refused(_) => return,
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.pause().await,
            }
        }
        show(&self.ctx, &self.who, run, None, &recorded);
    }
}
