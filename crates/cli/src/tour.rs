//! `tenure tour`: demonstrates the guarantees in less than a minute, without questions.
//!
//! Starts a server and workers as separate processes that talk HTTP. Every printed verdict was
//! parsed from an answer, and an expectation that does not hold ends the tour with exit code 1.

mod narrator;
mod processes;
pub(crate) mod worker;

use std::path::PathBuf;
use std::time::Duration;

use wire::answers::{AttemptView, Run};
use wire::{AttemptOutcome, Outcome, State, Verdict};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BAD, BOLD, FAINT, Format, GOOD, WARN};
use crate::{duration, runs, server};
use narrator::Narrator;
use processes::{TourServer, WorkerProcess, expect, unexpected};
use worker::{Answer, WorkerMode};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder for the tour's store [default: a new temporary folder]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// The shortest lease: a dead worker is detected after two seconds.
const SHORT_LEASE_MS: u64 = *wire::limits::LEASE_MS.start();
/// Long enough that a slow disk does not let a lease expire where none should.
const LONG_LEASE_MS: u64 = 20_000;
const HEARTBEAT_MS: u64 = *wire::limits::HEARTBEAT_INTERVAL_MS.start();
const GRACE_MS: u64 = 1_000;
const RETRY_INITIAL: Duration = Duration::from_millis(200);
/// The coordinator's default: no run here fails often enough to reach it.
const RETRY_MAX: Duration = Duration::from_millis(wire::limits::RETRY_CAP_MS_DEFAULT);
const SEED: u64 = 7;
/// Longer than anything here takes, so that only a defect reaches it.
const END_WITHIN: Duration = Duration::from_secs(15);

pub(crate) async fn run(format: Format, arguments: Arguments) -> CommandResult {
    tokio::select! {
        ended = run_tour(format, arguments) => ended,
        // Returning drops the server, and every process of the tour ends with it.
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
    }
}

async fn run_tour(format: Format, arguments: Arguments) -> CommandResult {
    let folder = match arguments.folder {
        Some(folder) => std::path::absolute(folder)?,
        None => std::env::temp_dir().join(format!("tenure-tour-{}", std::process::id())),
    };
    let mut tour = Tour { say: Narrator::new(format), server: TourServer::start(folder).await? };
    tour.welcome()?;
    tour.a_worker_dies().await?;
    tour.a_task_fails().await?;
    tour.a_cancel_is_honoured().await?;
    tour.a_cancel_is_ignored().await?;
    tour.verify_store().await?;
    tour.print_closing()?;
    Ok(Exit::Done)
}

struct Tour {
    say: Narrator,
    server: TourServer,
}

impl Tour {
    fn welcome(&self) -> Result<(), CliError> {
        self.say.aside(format_args!(
            "{BOLD}The tour of Tenure.{BOLD:#} Workers execute; only the coordinator decides what is true."
        ))?;
        self.say.tell("server", &self.server.connection.url)?;
        self.say.tell("store", self.server.store().display())
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

    async fn verify_store(&mut self) -> Result<(), CliError> {
        self.say.act("The store is verified.")?;
        self.server.stop().await?;
        self.say.tell("stopped", "the server, so that the store can be read")?;
        let store = format!("sqlite:{}", self.server.store().display());
        let mut verify = processes::this_program()?;
        let output = verify.args(["verify", "--json", "--store", &store]).output().await?;
        let found: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| unexpected(format!("verify did not answer: {error}")))?;
        let nothing = found["findings"].as_array().is_some_and(Vec::is_empty);
        expect(output.status.success() && nothing, "verify finds nothing wrong")?;
        let (tasks, entries) = (&found["tasks"], &found["entries"]);
        self.say.tell("verified", format_args!(
            "{GOOD}no findings{GOOD:#}: {entries} decisions about {tasks} tasks, replayed from their history"
        ))
    }

    async fn submit(&self, what: &str, lease_ms: u64) -> Result<String, CliError> {
        let kind = what.split(',').next().unwrap_or(what);
        let submission = self
            .server
            .client
            .submit(kind, &())
            .queue(processes::QUEUE)
            .lease(Duration::from_millis(lease_ms))
            .heartbeat_interval(Duration::from_millis(HEARTBEAT_MS))
            .cancel_grace(Duration::from_millis(GRACE_MS))
            .seed(SEED)
            .retry_backoff(RETRY_INITIAL, RETRY_MAX);
        let run = submission.await.map_err(server::cli_error)?;
        self.say.tell("submitted", format_args!("{} {what}", run.id()))?;
        Ok(run.id().to_owned())
    }

    async fn ended(&self, id: &str) -> Result<Run, CliError> {
        let run = self.server.client.run(id);
        let run = run.wait_timeout(END_WITHIN).await.map_err(server::cli_error)?;
        expect(run.state.is_terminal(), format_args!("{id} ends"))?;
        Ok(run)
    }

    fn leased(&self, worker: &WorkerProcess, attempt: u32, fence: u64) -> Result<(), CliError> {
        let WorkerProcess { name, pid, .. } = worker;
        self.say.tell(
            "leased",
            format_args!("attempt {attempt} to {name} (process {pid}), fence {fence}"),
        )
    }

    fn reported(&self, what: &str, answer: &Answer) -> Result<(), CliError> {
        self.reported_with(what, answer, "")
    }

    fn reported_with(&self, what: &str, answer: &Answer, more: &str) -> Result<(), CliError> {
        self.print_step("reported", what, answer, more)
    }

    fn print_step(
        &self,
        word: &str,
        what: &str,
        answer: &Answer,
        more: &str,
    ) -> Result<(), CliError> {
        /// The width of the tour's longest report, so that the answers form a column.
        const WHAT_WIDTH: usize = 25;
        self.say.tell(word, format_args!("{what:<WHAT_WIDTH$} {}{more}", format_answer(answer)))
    }

    fn print_closing(&self) -> Result<(), CliError> {
        let me = output::program_name();
        let store = self.server.store();
        let store = store.display();
        let step =
            |command: String, why: &str| format!("  {command}\n      {FAINT}{why}{FAINT:#}\n");
        let steps = [
            step(
                format!("{me} dev --store sqlite:{store}"),
                "terminal 1: a server on the data of this tour",
            ),
            step(
                format!("{me} work --queue demo --name alice --exec sleep -- 600"),
                "terminal 2: a worker that takes its time",
            ),
            step(
                format!("{me} submit nap --queue demo --lease-ms {SHORT_LEASE_MS}"),
                "terminal 3: something to do",
            ),
            step(
                "pkill -KILL -f 'work --queue demo --name alice'".to_owned(),
                "kill the worker with SIGKILL",
            ),
            step(
                format!("{me} work --queue demo --name bob --exec true"),
                "terminal 2: another one takes over",
            ),
            step(format!("{me} runs list"), "who did it; `runs show RUN` draws the timeline"),
        ];
        self.say.aside(format_args!(
            "\n{BOLD}Now by hand.{BOLD:#} The data of this tour stays in {}\n{}",
            self.server.folder.display(),
            steps.concat().trim_end()
        ))
    }
}

/// An answer as it was parsed.
fn format_answer(answer: &Answer) -> String {
    let style = match answer.verdict {
        Some(Verdict::Committed) => GOOD,
        Some(Verdict::Cancelled) => WARN,
        Some(Verdict::Rejected) | None => BAD,
    };
    let verdict = answer.verdict.map_or("no verdict", Verdict::as_str);
    let about = match (&answer.error, answer.state) {
        (Some(error), _) => format!(", {error}"),
        (None, Some(state)) => format!(", {state}"),
        (None, None) => String::new(),
    };
    format!("{FAINT}->{FAINT:#} {} {style}{verdict}{style:#}{about}", answer.status)
}
