//! The chapter on budgets: an agent halts at its limit, and keeps what it has done.

use tenure::Budget;
use wire::State;
use wire::answers::Run;

use super::functions::{AGENT, THOUGHTS, TOKENS_PER_THOUGHT};
use super::processes::{OrderWorker, QUEUE, expect};
use super::{CHAPTER_LEASE, HEARTBEAT, Tour};
use crate::exit::CliError;
use crate::output::{GOOD, WARN};
use crate::server;

/// Not enough for the thoughts that the agent needs: the third one crosses it.
const TOKENS: u64 = 1_000;
const THOUGHTS_PAID: u32 = 3;

impl Tour {
    /// The chapter in full.
    pub(super) async fn budget(&self) -> Result<(), CliError> {
        self.say.act("An agent may use 1000 tokens. The call that crosses the limit halts it.")?;
        let (run, mut alice) = self.agent_halts().await?;
        self.say.act("A halt is a clean stop and no failure: everything that was done is kept.")?;
        self.steps_are_kept(&run).await?;
        self.shown(&run.run_id).await?;
        self.say.act("The run is continued with a new budget. Nothing is thought twice.")?;
        self.continued(&run, &mut alice).await
    }

    /// The chapter in one act, for the tour of everything.
    pub(super) async fn budget_in_short(&self) -> Result<(), CliError> {
        self.say.act("An agent may use 1000 tokens. The call that crosses the limit halts it.")?;
        let (run, _alice) = self.agent_halts().await?;
        self.steps_are_kept(&run).await
    }

    async fn agent_halts(&self) -> Result<(Run, OrderWorker), CliError> {
        let budget = Budget::new().tokens(TOKENS);
        let run = self
            .server
            .client
            .submit(AGENT, "leases")
            .queue(QUEUE)
            .budget(budget)
            .lease(CHAPTER_LEASE)
            .heartbeat_interval(HEARTBEAT);
        let run = run.await.map_err(server::cli_error)?;
        self.say.tell(
            "submitted",
            format_args!(
                "{} agent: {THOUGHTS} thoughts of {TOKENS_PER_THOUGHT} tokens each",
                run.id()
            ),
        )?;
        let mut alice = self.server.order_worker("alice", None)?;
        for _ in 0..THOUGHTS_PAID {
            self.work_done(&mut alice, "think").await?;
        }
        let run = self.ended(run.id()).await?;
        let used = run.budget.as_ref().map_or(0, |budget| budget.used.tokens);
        expect(run.state == State::Halted, format_args!("the agent halts: {}", run.state))?;
        expect(used == TOKENS_PER_THOUGHT * u64::from(THOUGHTS_PAID), "every token is counted")?;
        self.say.tell(
            "ended",
            format_args!("{WARN}{}{WARN:#}: {used} of {TOKENS} tokens were used", run.state),
        )?;
        Ok((run, alice))
    }

    async fn continued(&self, run: &Run, alice: &mut OrderWorker) -> Result<(), CliError> {
        let budget = format!("tokens={TOKENS}");
        let go_on = ["runs", "continue", &run.run_id, "--budget", &budget];
        let said = self.server.run_command(&go_on).await?;
        expect(said.is_success, format_args!("the run can be continued: {}", said.stderr))?;
        let id = said.stdout.trim();
        self.say.tell("continued", format_args!("as {id}, with another {TOKENS} tokens"))?;
        for _ in THOUGHTS_PAID..THOUGHTS {
            self.work_done(alice, "think").await?;
        }
        let ended = self.ended(id).await?;
        expect(ended.state == State::Succeeded, format_args!("it succeeds: {}", ended.state))?;
        let output = ended.output.as_ref().map(|output| output.text()).unwrap_or_default();
        self.say.tell("ended", format_args!("{GOOD}{}{GOOD:#}, output {output}", ended.state))?;
        let new = THOUGHTS - THOUGHTS_PAID;
        self.say.tell("counted", format_args!("{THOUGHTS_PAID} thoughts before, {new} after"))
    }

    async fn steps_are_kept(&self, run: &Run) -> Result<(), CliError> {
        let steps = self.server.client.run(&run.run_id).steps().await.map_err(server::cli_error)?;
        expect(steps.len() == THOUGHTS_PAID as usize, "the thoughts before the halt are kept")?;
        let keys: Vec<&str> = steps.iter().map(|step| step.key.as_str()).collect();
        self.say.tell("kept", format_args!("{}: no result is lost", keys.join(", ")))
    }
}
