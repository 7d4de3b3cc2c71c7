//! The chapter on plans: steps that are declared and not coded, and a worker that dies in the middle of one.

use wire::State;

use super::functions::STEPS;
use super::processes::{QUEUE, expect, unexpected};
use super::{HEARTBEAT_MS, SHORT_LEASE_MS, Tour};
use crate::exit::CliError;
use crate::output::GOOD;
use crate::{duration, output};

impl Tour {
    /// The chapter in full.
    pub(super) async fn plan(&self) -> Result<(), CliError> {
        self.say.act("A plan declares what is done, step by step. No code holds it together.")?;
        let file = self.server.folder.join("plan.yaml");
        std::fs::write(&file, plan())?;
        self.indented(&plan())?;
        let file = file.to_string_lossy().into_owned();
        let checked = self.server.run_command(&["plan", "check", &file]).await?;
        expect(checked.is_success, format_args!("the plan is right: {}", checked.stderr))?;
        let first = checked.stdout.lines().next().unwrap_or_default().trim_end_matches(':');
        self.say.tell("checked", format_args!("with `tenure plan check`: {first}"))?;
        let id = self.submit_plan(&file).await?;

        self.say.act("A worker dies in the second step. Only that step is done again.")?;
        let mut alice = self.server.order_worker("alice", Some(STEPS[1]))?;
        self.work_done(&mut alice, STEPS[0]).await?;
        expect(alice.reached().await? == STEPS[1], "the next step is review")?;
        alice.kill().await?;
        self.say.tell("killed", "alice, with SIGKILL, in the middle of review")?;
        let lease = duration::format_ms(SHORT_LEASE_MS.cast_signed());
        self.say.tell("silence", format_args!("alice's lease expires within {lease}"))?;
        let mut bob = self.server.order_worker("bob", None)?;
        self.work_done(&mut bob, STEPS[1]).await?;
        self.work_done(&mut bob, STEPS[2]).await?;
        self.plan_ended(&id).await?;
        self.shown(&id).await.map(drop)
    }

    /// The chapter in one act, for the tour of everything.
    pub(super) async fn plan_in_short(&self) -> Result<(), CliError> {
        self.say.act("A plan declares three steps; each gets what the one before it returned.")?;
        let file = self.server.folder.join("plan.yaml");
        std::fs::write(&file, plan())?;
        let id = self.submit_plan(&file.to_string_lossy()).await?;
        let mut alice = self.server.order_worker("alice", None)?;
        for kind in STEPS {
            self.work_done(&mut alice, kind).await?;
        }
        self.plan_ended(&id).await
    }

    async fn submit_plan(&self, file: &str) -> Result<String, CliError> {
        let submitted = self.server.run_command(&["submit", "--plan", file]).await?;
        expect(submitted.is_success, format_args!("it is accepted: {}", submitted.stderr))?;
        let id = submitted.stdout.trim().to_owned();
        let steps = output::count(STEPS.len() as u64, "step");
        self.say.tell("submitted", format_args!("{id} a plan of {steps}: {}", STEPS.join(", ")))?;
        Ok(id)
    }

    async fn plan_ended(&self, id: &str) -> Result<(), CliError> {
        let run = self.ended(id).await?;
        expect(run.state == State::Succeeded, "the plan succeeds")?;
        let output = run.output.as_ref().map(|output| output.text()).unwrap_or_default();
        let outputs: serde_json::Value = serde_json::from_str(output).map_err(unexpected)?;
        let last = outputs[STEPS[2]]["text"].as_str().unwrap_or_default();
        expect(last == STEPS.join(", "), format_args!("each step got the one before: {output}"))?;
        self.say.tell("ended", format_args!("{GOOD}{}{GOOD:#}, output {output}", run.state))
    }
}

/// Three steps, each with the text of the one before it.
fn plan() -> String {
    let mut text = "steps:\n".to_owned();
    let mut before: Option<&str> = None;
    for kind in STEPS {
        text.push_str(&format!("  - key: {kind}\n    kind: {kind}\n    queue: {QUEUE}\n"));
        text.push_str(&format!(
            "    leaseMs: {SHORT_LEASE_MS}\n    heartbeatIntervalMs: {HEARTBEAT_MS}\n"
        ));
        if let Some(before) = before {
            text.push_str(&format!("    input: {{ text: {{ $from: {before}, path: /text }} }}\n"));
        }
        before = Some(kind);
    }
    text
}
