//! `tenure tour`: demonstrates the guarantees in less than a minute, without questions.
//!
//! A chapter is one subject in full; without one, the tour shows the best of each.
//!
//! Starts a server and workers as separate processes that talk HTTP. Every printed verdict was
//! parsed from an answer, and an expectation that does not hold ends the tour with exit code 1.

mod approval;
mod budget;
mod closing;
mod durable;
mod functions;
mod leases;
mod narrator;
pub(crate) mod order;
mod plan;
mod processes;
mod prove;
mod topology;
mod webhooks;
pub(crate) mod worker;

use std::path::PathBuf;
use std::time::Duration;

use wire::Verdict;
use wire::answers::Run;

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BAD, BOLD, FAINT, Format, GOOD, WARN};
use crate::server;
use narrator::Narrator;
use processes::{OrderWorker, Printed, TourServer, WorkerProcess, expect, unexpected};
use worker::Answer;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// One subject in full [default: the best of each]
    chapter: Option<Chapter>,
    /// Folder for the tour's store [default: a new temporary folder]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Chapter {
    /// A killed worker, retries, cancels
    Leases,
    /// An order that outlives its workers, sleeps, takes a signal and is replayed
    Durable,
    /// Steps that are declared and not coded, and a worker that dies in one of them
    Plan,
    /// An agent that halts at its limit and keeps what it has done
    Budget,
    /// A payout that asks two people
    Approval,
    /// A run that is proved from its store, and a forgery that is found
    Prove,
    /// A receiver that is away, a server that is killed, and calls that arrive in order
    Webhooks,
    /// Declared roles: tickets, notes and an agent that a schema, a judge and a person judge
    Topology,
}

/// The shortest lease: a dead worker is detected after two seconds.
const SHORT_LEASE_MS: u64 = *wire::limits::LEASE_MS.start();
/// Long enough that a slow disk does not let a lease expire where none should.
const LONG_LEASE_MS: u64 = 20_000;
/// Where no worker dies on purpose: long enough for a slow disk, and short enough to wait for where a worker of the chapter before
/// got the work in the moment in which it was stopped.
const CHAPTER_LEASE: Duration = Duration::from_secs(5);
const HEARTBEAT_MS: u64 = *wire::limits::HEARTBEAT_INTERVAL_MS.start();
const HEARTBEAT: Duration = Duration::from_millis(HEARTBEAT_MS);
const GRACE_MS: u64 = 1_000;
const RETRY_INITIAL: Duration = Duration::from_millis(200);
/// The coordinator's default: no run here fails often enough to reach it.
const RETRY_MAX: Duration = Duration::from_millis(wire::limits::RETRY_CAP_MS_DEFAULT);
const SEED: u64 = 7;
/// Longer than anything here takes, the longest lease too, so that only a defect reaches it.
const END_WITHIN: Duration = Duration::from_millis(2 * LONG_LEASE_MS);

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
    match arguments.chapter {
        Some(Chapter::Leases) => tour.leases().await?,
        Some(Chapter::Durable) => tour.durable().await?,
        Some(Chapter::Plan) => tour.plan().await?,
        Some(Chapter::Budget) => tour.budget().await?,
        Some(Chapter::Approval) => tour.approval().await?,
        Some(Chapter::Prove) => tour.prove().await?,
        Some(Chapter::Webhooks) => tour.webhooks().await?,
        Some(Chapter::Topology) => tour.topology().await?,
        None => tour.in_short().await?,
    }
    tour.verify_store().await?;
    tour.print_closing(arguments.chapter)?;
    Ok(Exit::Done)
}

struct Tour {
    say: Narrator,
    server: TourServer,
}

impl Tour {
    /// The best of each chapter.
    async fn in_short(&mut self) -> Result<(), CliError> {
        self.leases().await?;
        self.durable_in_short().await?;
        self.approval_in_short().await?;
        self.budget_in_short().await?;
        self.plan_in_short().await?;
        self.topology_in_short().await?;
        self.webhooks().await
    }

    fn welcome(&self) -> Result<(), CliError> {
        self.say.aside(format_args!(
            "{BOLD}The tour of Tenure.{BOLD:#} Workers execute; only the coordinator decides what is true."
        ))?;
        self.say.tell("server", &self.server.connection.url)?;
        self.say.tell("store", self.server.store().display())
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
        let tasks = output::count(found["tasks"].as_u64().unwrap_or(0), "task");
        let entries = output::count(found["entries"].as_u64().unwrap_or(0), "decision");
        self.say.tell(
            "verified",
            format_args!(
                "{GOOD}no findings{GOOD:#}: {entries} about {tasks}, replayed from their history"
            ),
        )
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

    /// The next piece of work that a worker does, which must be this one.
    async fn work_done(&self, worker: &mut OrderWorker, what: &str) -> Result<(), CliError> {
        let (step, fence) = worker.executed().await?;
        expect(step == what, format_args!("{what} is done next, and not {step}"))?;
        let (name, pid) = (&worker.name, worker.pid);
        self.say.tell("executed", format_args!("{step} by {name} (process {pid}), fence {fence}"))
    }

    /// What `tenure runs show` prints of a run.
    async fn shown(&self, id: &str) -> Result<Printed, CliError> {
        let shown = self.server.run_command(&["runs", "show", id]).await?;
        expect(shown.is_success, "a run can be shown")?;
        self.indented(&shown.stdout)?;
        Ok(shown)
    }

    fn indented(&self, text: &str) -> Result<(), CliError> {
        let indented = |line: &str| format!("{}\n", format!("   {line}").trim_end());
        self.say.aside(text.lines().map(indented).collect::<String>().trim_end())
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
