//! The chapter on leases: what happens to a task when its worker dies, fails, or is asked to stop.

use crate::exit::CliError;
use crate::output::{BAD, GOOD, WARN};
use crate::{duration, runs, server};

use wire::answers::AttemptView;
use wire::{AttemptOutcome, Outcome, State, Verdict};

use super::processes::{WorkerProcess, expect, unexpected};
use super::worker::{self, WorkerMode};
use super::{GRACE_MS, LONG_LEASE_MS, SEED, SHORT_LEASE_MS, Tour};

impl Tour {
    /// The chapter in full.
    pub(super) async fn leases(&self) -> Result<(), CliError> {
        self.a_worker_dies().await?;
        self.a_task_fails().await?;
        self.a_cancel_is_honoured().await?;
        self.a_cancel_is_ignored().await
    }

    async fn a_worker_dies(&self) -> Result<(), CliError> {
        self.say.act("A worker dies. Its late report is refused; one result counts.")?;
        let id = self.submit("resize", SHORT_LEASE_MS).await?;
        let mut alice = self.server.worker("alice", WorkerMode::Hold, 1)?;
        let first = alice.granted().await?;
        self.leased(&alice, first.attempt, first.fence)?;
        alice.kill().await?;
        self.say.tell("killed", "alice, with SIGKILL, while she held the lease")?;

        self.say.tell(
            "silence",
            format_args!(
                "no other worker can lease it for {}",
                duration::format_ms(SHORT_LEASE_MS.cast_signed())
            ),
        )?;
        let mut bob = self.server.worker("bob", WorkerMode::Finish, 1)?;
        let second = bob.granted().await?;
        expect(second.attempt == first.attempt + 1, "the next attempt has the next number")?;
        expect(second.fence > first.fence, "a later lease has a larger fence")?;
        let done = bob.answered().await?;
        self.lost(&id, first.attempt).await?;
        self.leased(&bob, second.attempt, second.fence)?;
        self.reported("bob: SUCCEEDED", &done)?;
        expect(done.verdict == Some(Verdict::Committed), "the current worker's report counts")?;

        let report = worker::report(&first, "alice", Outcome::Succeeded);
        let late = worker::send(&self.server.client, &first, &report).await?;
        self.reported("alice, late: SUCCEEDED", &late)?;
        expect(late.verdict == Some(Verdict::Cancelled), "a late report is answered CANCELLED")?;
        expect(matches!(late.status, 409 | 410), "a late report is a conflict, or gone")?;

        let run = self.ended(&id).await?;
        let output = run.output.as_ref().map(|output| output.text()).unwrap_or_default();
        expect(
            run.state == State::Succeeded && output == r#"{"by":"bob"}"#,
            "bob's result stands",
        )?;
        self.say
            .tell("recorded", format_args!("{GOOD}{}{GOOD:#}, output {output}, once", run.state))
    }

    async fn lost(&self, id: &str, number: u32) -> Result<(), CliError> {
        let record = self.server.client.run(id).record().await.map_err(server::cli_error)?;
        let is_it = |attempt: &&AttemptView| attempt.attempt == number;
        let lost = record.attempts.iter().find(is_it);
        let lost = lost.ok_or_else(|| unexpected(format!("attempt {number} is not on record")))?;
        let reason = lost.reason.as_deref().unwrap_or_default();
        expect(lost.outcome == AttemptOutcome::Lost, "the dead worker's attempt is lost")?;
        expect(reason == "HEARTBEAT_TIMEOUT", "it was lost by silence")?;
        let after = duration::between(lost.granted_at, lost.ended_at);
        self.say.tell(
            "expired",
            format_args!(
                "attempt {number} is {WARN}{}{WARN:#} after {after} ({reason})",
                lost.outcome
            ),
        )
    }

    async fn a_task_fails(&self) -> Result<(), CliError> {
        self.say.act("A task fails until its attempts are used up. Equal seeds, equal pauses.")?;
        let first = self.three_failures().await?;
        let second = self.three_failures().await?;
        expect(first == second, "equal seeds make equal pauses")?;
        self.say.tell("recorded", format_args!("{BAD}failed{BAD:#} twice, on the same schedule"))
    }

    /// Returns the pauses that the coordinator decided.
    async fn three_failures(&self) -> Result<Vec<i64>, CliError> {
        let id = self.submit(&format!("flaky, seed {SEED}"), LONG_LEASE_MS).await?;
        let mut carol = self.server.worker("carol", WorkerMode::Fail, 3)?;
        let mut states = Vec::new();
        let mut pauses = Vec::new();
        for _ in 0..3 {
            let attempt = carol.granted().await?.attempt;
            let answer = carol.answered().await?;
            pauses = runs::retry_pauses(&self.server.client, &id).await?;
            let next = match (answer.state, pauses.last()) {
                (Some(State::Retry), Some(pause)) => {
                    format!(", again in {}", duration::format_ms(*pause))
                }
                _ => String::new(),
            };
            self.reported_with(&format!("carol, attempt {attempt}: FAILED"), &answer, &next)?;
            states.push(answer.state);
        }
        let expected = [State::Retry, State::Retry, State::Failed].map(Some);
        expect(states == expected, "three failures end the run, not two")?;
        expect(pauses.len() == 2, "there are two pauses between three attempts")?;
        Ok(pauses)
    }

    async fn a_cancel_is_honoured(&self) -> Result<(), CliError> {
        self.say.act("A cancel that is honoured.")?;
        let id = self.submit("long", LONG_LEASE_MS).await?;
        let mut dave = self.server.worker("dave", WorkerMode::Obey, 1)?;
        self.cancel_held(&id, &mut dave).await?;
        let answer = dave.answered().await?;
        self.reported("dave: CANCELLED", &answer)?;
        expect(answer.verdict == Some(Verdict::Committed), "an honoured cancel is committed")?;
        let run = self.ended(&id).await?;
        expect(run.state == State::Cancelled, "the run is cancelled")?;
        self.say.tell("recorded", format_args!("{WARN}{}{WARN:#}", run.state))
    }

    async fn a_cancel_is_ignored(&self) -> Result<(), CliError> {
        self.say.act("A cancel that is ignored until the grace period ends.")?;
        let id = self.submit("deaf", LONG_LEASE_MS).await?;
        let mut erin = self.server.worker("erin", WorkerMode::Hold, 1)?;
        self.cancel_held(&id, &mut erin).await?;
        let run = self.ended(&id).await?;
        let reason = run.error.as_ref().map(|error| error.reason.as_str()).unwrap_or_default();
        let timed_out = run.state == State::Failed && reason == "CANCEL_TIMEOUT";
        expect(timed_out, "an ignored cancel ends CANCEL_TIMEOUT")?;
        let grace = duration::format_ms(GRACE_MS.cast_signed());
        self.say.tell(
            "recorded",
            format_args!("{BAD}{}{BAD:#} ({reason}) after a grace of {grace}", run.state),
        )?;
        let answer = erin.answered().await?;
        self.print_step("heartbeat", "erin, still at it", &answer, "")?;
        expect(answer.verdict == Some(Verdict::Cancelled), "the deaf worker has lost its authority")
    }

    async fn cancel_held(&self, id: &str, worker: &mut WorkerProcess) -> Result<(), CliError> {
        let lease = worker.granted().await?;
        self.leased(worker, lease.attempt, lease.fence)?;
        let why = "changed my mind";
        self.server.client.run(id).cancel().reason(why).await.map_err(server::cli_error)?;
        let reason = worker.asked_to_stop().await?.unwrap_or_default();
        expect(reason == why, "the worker is told why")?;
        self.say.tell("cancelled", format_args!("a heartbeat told {}: {reason}", worker.name))
    }
}
