//! `tenure topology role`: a process that takes the turns of one role of a deployment.
//!
//! It decides with the functions that the server's own roles use, or asks a program. Any number of such processes may run side by
//! side and die at any moment: a turn is a lease, and what its process does not decide comes to the next one.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tenure::{Client, Error, OutsideRole};
use tokio::signal::unix::{SignalKind, signal};
use topology::outside::{ArtifactTurn, Decision, EventTurn, OrderTurn};
use topology::roles::{scheduler, unclaimed};
use topology::{Topology, gate};
use wire::topologies::{Turn, Turns};
use wire::{Code, Json};

use crate::duration;
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BOLD, FAINT, Format};
use crate::server;
use crate::work::executable;
use crate::work::program::{self, Finished, Pipes, Stdout};

/// How long one call for turns waits.
const WAIT: Duration = Duration::from_secs(20);

/// Turns that are taken at once: each is decided in no time.
const TURNS_AT_ONCE: u32 = 16;

/// How often a turn is read and decided again because something had changed meanwhile.
const READS_MAX: usize = 8;

/// The pause after a call to which the server gave no answer.
const UNANSWERED_PAUSE: Duration = Duration::from_millis(500);

/// How often a turn is renewed while a program decides: a third of the shortest lease that may be declared.
const RENEW_EVERY: Duration = Duration::from_millis(600);

/// How long a program may clean up once its turn is lost or this process stops.
const PROGRAM_GRACE: Duration = Duration::from_millis(800);

/// As much of a reason as the server takes.
const REASON_CHARS_MAX: usize = 1_000;

/// Versions that are kept compiled.
const VERSIONS_MAX: usize = 32;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The name of the deployment
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,

    /// The name of the role, which the topology declares with `outside: true`
    #[arg(value_name = "ROLE")]
    role: String,

    /// Names this process; unique among those that run [default: one that is drawn]
    #[arg(long, value_name = "ID")]
    worker_id: Option<String>,

    /// A program that decides: it gets the turn as JSON on stdin, and prints a decision, or nothing to decide as the server would
    #[arg(long, value_name = "PROGRAM")]
    exec: Option<String>,

    /// How long the program may take for one decision; then it is ended, and the turn is given back
    #[arg(long, value_name = "SPAN", default_value = "5m", value_parser = duration::parse)]
    within: Duration,
}

pub(super) async fn run(client: &Client, format: Format, arguments: &Arguments) -> CommandResult {
    arguments.exec.as_deref().map_or(Ok(()), executable::check)?;
    let failed = |error| {
        CliError::new(Exit::Failed, "no_signals", format!("cannot listen for signals: {error}"))
    };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let worker = arguments.worker_id.clone().unwrap_or_else(drawn_id);
    let mut process = RoleProcess { client, format, arguments, worker, versions: BTreeMap::new() };
    tokio::select! {
        // What is under way is given up: its lease ends, and another process takes it.
        _ = interrupt.recv() => Ok(Exit::Done),
        _ = terminate.recv() => Ok(Exit::Done),
        ended = process.work() => ended,
    }
}

/// Different for each process, also on one machine.
fn drawn_id() -> String {
    let drawn = getrandom::u64().unwrap_or_default();
    format!("role-{}-{drawn:016x}", std::process::id())
}

struct RoleProcess<'a> {
    client: &'a Client,
    format: Format,
    arguments: &'a Arguments,
    worker: String,
    /// Compiled versions by digest.
    versions: BTreeMap<String, Topology>,
}

/// What one turn came to.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Said<'s> {
    about: &'s str,
    decision: &'s str,
}

impl RoleProcess<'_> {
    fn calls(&self) -> OutsideRole<'_> {
        let Arguments { deployment, role, .. } = self.arguments;
        self.client.deployments().role(deployment, role, &self.worker)
    }

    async fn work(&mut self) -> CommandResult {
        let Arguments { deployment, role, .. } = self.arguments;
        // The first call does not wait: it shows whether these turns may be taken at all.
        let mut is_told = false;
        loop {
            let max = if self.arguments.exec.is_some() { 1 } else { TURNS_AT_ONCE };
            let wait = if is_told { WAIT } else { Duration::ZERO };
            let taken = self.calls().take().max(max).wait(wait).known(self.versions.keys()).await;
            match taken {
                Ok(Turns { turns, versions, .. }) => {
                    if !std::mem::replace(&mut is_told, true) {
                        let worker = &self.worker;
                        output::note(format!("{worker} takes the turns of {role} in {deployment}"));
                    }
                    for version in versions {
                        self.keep(version.version, &version.declaration)?;
                    }
                    for turn in turns {
                        self.turn(turn).await?;
                    }
                }
                Err(error) if is_passing(&error) => {
                    output::note(format!("no turn now: {error}"));
                    tokio::time::sleep(UNANSWERED_PAUSE).await;
                }
                Err(error) => return Err(server::cli_error(error)),
            }
        }
    }

    fn keep(&mut self, digest: String, declaration: &Json) -> Result<(), CliError> {
        let compiled = topology::read(declaration.text()).map_err(|problems| {
            let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let message =
                format!("this program cannot read the version {digest}: {}", said.join("; "));
            CliError::new(Exit::Failed, "topology_invalid", message)
                .hint("use the version of tenure that the server has")
        })?;
        if self.versions.len() >= VERSIONS_MAX {
            self.versions.clear();
        }
        self.versions.insert(digest, compiled);
        Ok(())
    }

    /// Decides one turn, as often as what it is about changes meanwhile.
    async fn turn(&self, mut turn: Turn) -> Result<(), CliError> {
        let mut why = "what it is about changed whenever it was read".to_owned();
        for _ in 0..READS_MAX {
            let decision = match self.decide(&turn).await? {
                Decided::This(decision) => decision,
                Decided::Nothing => {
                    why = "there is nothing to decide".to_owned();
                    break;
                }
                Decided::Not(reason) => {
                    why = reason;
                    break;
                }
            };
            match self.calls().propose(&turn, &decision).await {
                Ok(_) => return self.say(&turn, &decision),
                Err(error) if error.code() == Some(Code::ArtifactChanged) => {}
                Err(error) if error.code() == Some(Code::TransitionNotAllowed) => {
                    why = error.to_string();
                    break;
                }
                Err(error) => return self.lost(&error),
            }
            let Some(claim) = &turn.claim else { return Ok(()) };
            match self.calls().renew(claim).await {
                Ok(renewed) => turn = renewed,
                Err(error) => return self.lost(&error),
            }
        }
        self.give_back(turn, &why).await
    }

    /// A turn that is lost is somebody else's; a server that does not answer may come back.
    fn lost(&self, error: &Error) -> Result<(), CliError> {
        output::note(format!("a turn is lost: {error}"));
        Ok(())
    }

    async fn give_back(&self, turn: Turn, why: &str) -> Result<(), CliError> {
        output::note(format!("a turn is given back: {why}"));
        let Some(claim) = turn.claim else {
            // It is still there, and the next call would get it at once.
            tokio::time::sleep(UNANSWERED_PAUSE).await;
            return Ok(());
        };
        let reason: String = why.chars().take(REASON_CHARS_MAX).collect();
        match self.calls().give_back(&claim, reason).await {
            Ok(_) => Ok(()),
            Err(error) => self.lost(&error),
        }
    }

    fn say(&self, turn: &Turn, decision: &Decision) -> Result<(), CliError> {
        let told: Value = serde_json::from_str(turn.told.text()).unwrap_or_default();
        let about = told["event"]["id"].as_str().or_else(|| told["workOrder"]["id"].as_str());
        let about = about.or_else(|| told["artifact"]["id"].as_str()).unwrap_or_default();
        let decision = decision.words();
        match self.format {
            Format::Json => output::json_line(&Said { about, decision: &decision }),
            Format::People => {
                output::line(format_args!("{BOLD}{about}{BOLD:#}  {FAINT}{decision}{FAINT:#}"))
            }
        }
    }

    async fn decide(&self, turn: &Turn) -> Result<Decided, CliError> {
        let standard = self.standard(turn)?;
        match &self.arguments.exec {
            Some(program) => self.ask(program, turn, standard).await,
            None => Ok(standard.map_or(Decided::Nothing, Decided::This)),
        }
    }

    /// What a role of the server would decide.
    fn standard(&self, turn: &Turn) -> Result<Option<Decision>, CliError> {
        let role = self.arguments.role.as_str();
        let Some(version) = self.versions.get(&turn.version) else { return Ok(None) };
        let uses = version.role(role).map(|declared| declared.uses);
        use topology::declaration::Logic;
        Ok(match uses {
            Some(Logic::Scheduler) => {
                scheduler::decide(version, role, &told::<EventTurn>(turn)?.read())
            }
            Some(Logic::Gate) => gate::decide(version, &told::<OrderTurn>(turn)?.read()),
            _ => {
                let ArtifactTurn { artifact, now } = told(turn)?;
                let proposed = unclaimed::of_role(version, role, &artifact, now);
                let (revision, artifact) = (artifact.revision, artifact.name);
                (!proposed.is_empty()).then_some(Decision::Go { artifact, revision })
            }
        })
    }

    /// Asks a program, and keeps the turn while it runs.
    async fn ask(
        &self,
        program: &str,
        turn: &Turn,
        standard: Option<Decision>,
    ) -> Result<Decided, CliError> {
        let mut command = Command::new(program);
        command.env("TENURE_DEPLOYMENT", &self.arguments.deployment);
        command.env("TENURE_ROLE", &self.arguments.role);
        let pipes = Pipes {
            input: turn.told.text().to_owned(),
            listener: Box::new(|_| {}),
            stderr_prefix: None,
            stderr_lines: Box::new(|_| {}),
        };
        let (within, is_late) = (self.arguments.within, Cell::new(false));
        let kept = async {
            tokio::select! {
                () = self.keep_turn(turn) => {}
                () = tokio::time::sleep(within) => is_late.set(true),
            }
            PROGRAM_GRACE
        };
        let finished = program::execute(command, pipes, kept).await.map_err(|error| {
            let message = format!("cannot run {program}: {error}");
            CliError::usage("program_not_executable", message)
                .hint("give a program that may be run, with its path")
        })?;
        if is_late.get() {
            let why = format!(
                "the program did not decide within {}",
                duration::format_exact(within.as_millis() as u64)
            );
            return Ok(Decided::Not(why));
        }
        Ok(read_decision(finished, standard))
    }

    /// Renews a turn until it is lost.
    async fn keep_turn(&self, turn: &Turn) {
        let Some(claim) = &turn.claim else { return std::future::pending().await };
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            match self.calls().renew(claim).await {
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                Err(_) => return,
            }
        }
    }
}

/// What somebody decided.
enum Decided {
    This(Decision),
    /// There is nothing to decide now.
    Nothing,
    /// Nothing for this reason: the turn is given back.
    Not(String),
}

fn read_decision(finished: Finished, standard: Option<Decision>) -> Decided {
    let Finished { status, stdout, .. } = finished;
    if !status.success() {
        return Decided::Not(format!("the program ended with {status}"));
    }
    let Stdout::Whole(printed) = stdout else {
        return Decided::Not("the program printed too much".to_owned());
    };
    if printed.trim_ascii().is_empty() {
        return standard.map_or(Decided::Nothing, Decided::This);
    }
    match serde_json::from_slice(&printed) {
        Ok(decision) => Decided::This(decision),
        Err(error) => Decided::Not(format!("the program printed no decision: {error}")),
    }
}

fn told<T: DeserializeOwned>(turn: &Turn) -> Result<T, CliError> {
    serde_json::from_str(turn.told.text()).map_err(|error| {
        let message = format!("this program cannot read a turn of the server: {error}");
        CliError::new(Exit::Failed, "topology_invalid", message)
            .hint("use the version of tenure that the server has")
    })
}

/// Whether the same call may get another answer in a moment.
fn is_passing(error: &Error) -> bool {
    error.is_retryable()
}
