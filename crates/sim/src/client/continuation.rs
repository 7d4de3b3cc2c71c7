//! Clients that continue a run which halted: with another budget, in a new run that takes over what was recorded.
//!
//! The call is repeated until its outcome is known, under one key. Afterwards both runs must name each other, whichever
//! coordinator is asked.

use serde_json::json;
use wire::answers::{Run, RunAccepted};

use super::{Client, TIMEOUT_MS};
use crate::actor_context::CallOutcome;
use crate::escrow;
use crate::program::Program;
use crate::run_spec::RunSpec;

/// How many halted runs in a thousand are continued.
const CONTINUED: u32 = 800;

/// What a client offers that was refused because its first offer was too small: more than the program needs.
const ENOUGH: u64 = 1_500;

impl Client {
    /// Continues a run of a world with budgets, if it halted. Returns the new run.
    pub(super) async fn continue_halted(&mut self, run: &str, program: &Program) -> Option<String> {
        let has_budgets = self.ctx.options.durable.is_some_and(|durable| durable.escrow);
        if !has_budgets || !self.rng.chance(CONTINUED) {
            return None;
        }
        if self.view(run).await?.state != wire::State::Halted {
            return None;
        }
        let funded = self.rng.between(escrow::FUNDED.0, escrow::FUNDED.1);
        let new = match self.fork_until_known(run, program, funded).await {
            Some(new) => new,
            None => self.fork_until_known(run, program, ENOUGH).await?,
        };
        self.check_links(run, &new).await;
        Some(new)
    }

    /// Asks for the continuation until the outcome is known; `None` if it is refused.
    async fn fork_until_known(
        &mut self,
        run: &str,
        program: &Program,
        funded: u64,
    ) -> Option<String> {
        let tokens = escrow::share(program) * funded / 1_000;
        let key = format!("key-{}-{tokens}", program.name);
        let budget = json!({ "budget": escrow::budget(tokens) });
        let spec = RunSpec { key: Some(key), body: json!({ "forkOf": run, "with": budget }) };
        let mut has_retried = false;
        loop {
            let mut ask = self.ask("POST", format!("/v1/runs/{run}/fork"), Some(budget.clone()));
            ask.idempotency_key = spec.key.clone();
            let called = self.call(ask, vec![self.invoke_submit(&spec)], TIMEOUT_MS).await;
            match self.ctx.read::<RunAccepted>(&self.who, &called) {
                CallOutcome::Ok(accepted) => {
                    self.accepted(called.calls[0], &accepted, has_retried);
                    return Some(accepted.run_id);
                }
                CallOutcome::Refused(problem) if problem.error == "budget_insufficient" => {
                    return None;
                }
                CallOutcome::Refused(problem) => {
                    let told = format_args!("{run} was not continued: {}", problem.error);
                    self.ctx.log.violate("continuation", told);
                    return None;
                }
                CallOutcome::NotNow(_) => {}
                CallOutcome::Unknown => has_retried = true,
            }
            self.pause().await;
        }
    }

    /// Both runs name each other.
    async fn check_links(&mut self, old: &str, new: &str) {
        let (Some(before), Some(after)) = (self.view(old).await, self.view(new).await) else {
            return;
        };
        let is_linked = before.forks == [new] && after.fork_of.as_deref() == Some(old);
        if !is_linked {
            let (forks, of) = (before.forks, after.fork_of);
            let told = format_args!("{old} names {forks:?}, and {new} names {of:?}");
            self.ctx.log.violate("continuation", told);
        }
    }

    /// A run as a coordinator shows it; `None` if it is not there.
    async fn view(&mut self, run: &str) -> Option<Run> {
        loop {
            let ask = self.ask("GET", format!("/v1/runs/{run}"), None);
            let called = self.call(ask, Vec::new(), TIMEOUT_MS).await;
            match self.ctx.read::<Run>(&self.who, &called) {
                CallOutcome::Ok(seen) => return Some(seen),
                CallOutcome::Refused(_) => return None,
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.pause().await,
            }
        }
    }
}
