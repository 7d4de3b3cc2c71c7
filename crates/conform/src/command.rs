//! `tenure conform`: arguments, and what is printed.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::case::Case;
use crate::cases::{self, CaseError, is_like};
use crate::known_failing::KnownFailing;
use crate::live::{self, Live};
use crate::performance::{Outcome, Setup};
use crate::runner::{perform_all, width};
use crate::summary::{self, Standing};

const ABOUT: &str = "\
The command after the two dashes starts the subject: a small program of the SDK with the agreed kinds. Each case
starts it anew, with its own coordinator at TENURE_URL. docs/guide/write-an-sdk.md says what a subject does.

A fault is planted between the subject and the coordinator, to see that a case would notice it.";

#[derive(Debug, clap::Args)]
#[command(after_help = ABOUT)]
pub struct Arguments {
    /// Only cases whose name fits; `*` stands for any text. May be repeated
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// Leave out cases that need this feature, which the SDK does not offer; the summary says so. May be repeated
    #[arg(long, value_name = "FEATURE")]
    without: Vec<String>,
    /// List the cases instead of performing them
    #[arg(long)]
    list: bool,
    /// Write a JUnit report to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Cases that are known to fail, one name per line; one that passes fails the run
    #[arg(long, value_name = "FILE")]
    known_failing: Option<PathBuf>,
    /// How long a subject may take until it is ready
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    start_timeout: u64,
    /// How many cases are performed at once; four for each core when absent
    #[arg(long, value_name = "N")]
    at_once: Option<usize>,
    /// Plant a fault in the wire; `each` plants the fault of each case and demands that it fails
    #[arg(long, value_name = "NAME")]
    fault: Option<String>,
    /// Print the whole log of each case that fails
    #[arg(long)]
    log: bool,
    /// Perform no cases: work for a real server of this binary, with kills, and judge what is left behind
    #[arg(long, conflicts_with_all = ["only", "list", "junit", "known_failing", "fault"])]
    live: bool,
    /// Chooses what is killed and stopped in a live run
    #[arg(long, value_name = "N", default_value_t = 1, requires = "live")]
    seed: u64,
    /// How long processes are killed and stopped in a live run
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "live")]
    seconds: u64,
    /// How many runs a live run submits
    #[arg(long, value_name = "N", default_value_t = 600, requires = "live")]
    runs: usize,
    /// Read the cases from this folder instead of the binary
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// The command that starts the subject
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Why the kit could not judge.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Case(#[from] CaseError),
    #[error("no case is called like {0}")]
    NoCase(String),
    #[error("the command that starts the subject is missing")]
    NoCommand,
    #[error("no fault is called `{0}`")]
    NoFault(String),
    #[error("cannot start the subject `{program}`")]
    NoSubject { program: String, source: io::Error },
    #[error("cannot read {}", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("cannot write {}", file.display())]
    Unwritable { file: PathBuf, source: io::Error },
    #[error("{} names cases that do not exist: {}", file.display(), names.join(", "))]
    UnknownNames { file: PathBuf, names: Vec<String> },
    #[error("the live run could not be made: {0}")]
    Live(String),
    #[error("cannot write the output")]
    Output(#[from] io::Error),
}

impl Failure {
    /// The stable code, with a page in `docs/errors/cli`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Failure::Case(_) => "case_invalid",
            Failure::NoCase(_) => "no_such_case",
            Failure::NoCommand => "subject_missing",
            Failure::NoFault(_) => "no_such_fault",
            Failure::NoSubject { .. } => "program_not_found",
            Failure::Unreadable { .. } => "unreadable_file",
            Failure::Unwritable { .. } => "unwritable_file",
            Failure::UnknownNames { .. } => "known_failing_unknown",
            Failure::Live(_) => "failed",
            Failure::Output(_) => "output_closed",
        }
    }

    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Failure::Case(_) => "correct the case; docs/guide/write-an-sdk.md describes the format",
            Failure::NoCase(_) => "list the names with --list",
            Failure::NoCommand => "give it after two dashes: tenure conform -- python subject.py",
            Failure::NoFault(_) => "list the faults of the cases with --list --json",
            Failure::NoSubject { .. } => {
                "give the command that starts your subject after two dashes"
            }
            Failure::Unreadable { .. } | Failure::Unwritable { .. } => {
                "check the path and its permissions"
            }
            Failure::UnknownNames { .. } => {
                "take the names off the list; --list prints those that exist"
            }
            Failure::Live(_) => {
                "check that TENURE_BINARY, or this program, is a `tenure` that can serve"
            }
            Failure::Output(_) => "read the output to its end",
        }
    }
}

/// Whether every case went as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Bad(String),
}

/// How the outcome is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    People,
    Json,
}

pub async fn run(arguments: &Arguments, format: Format) -> Result<Verdict, Failure> {
    if arguments.live {
        return live(arguments).await;
    }
    let cases = chosen(arguments)?;
    if arguments.list {
        list(&cases, format)?;
        return Ok(Verdict::Good);
    }
    if arguments.command.is_empty() {
        return Err(Failure::NoCommand);
    }
    let known = known_failing(arguments)?;
    let fault = arguments.fault.as_deref();
    if let Some(name) = fault.filter(|name| *name != EACH && !crate::fault::is_known(name)) {
        return Err(Failure::NoFault(name.to_owned()));
    }
    let setup = Setup {
        command: arguments.command.clone(),
        start_timeout: Duration::from_secs(arguments.start_timeout),
        fault: arguments.fault.clone(),
    };
    let width = arguments.at_once.unwrap_or_else(width);
    let tell = |outcome: &Outcome| tell(outcome, &known, format, arguments.log, fault.is_some());
    let outcomes = perform_all(&cases, &setup, width, tell)
        .await
        .map_err(|source| Failure::NoSubject { program: arguments.command[0].clone(), source })?;
    if fault.is_some() {
        return Ok(all_red(&outcomes, &known));
    }
    if let Some(file) = &arguments.junit {
        let text = summary::junit(&outcomes, &known);
        std::fs::write(file, text)
            .map_err(|source| Failure::Unwritable { file: file.clone(), source })?;
    }
    if format == Format::People {
        write!(io::stdout(), "\n{}", summary::table(&outcomes, &known))?;
        if !arguments.without.is_empty() {
            writeln!(io::stdout(), "left out: cases that need {}", arguments.without.join(", "))?;
        }
    }
    Ok(verdict(&outcomes, &known))
}

/// Names the `tenure` that serves a live run; this program when absent.
const BINARY: &str = "TENURE_BINARY";

async fn live(arguments: &Arguments) -> Result<Verdict, Failure> {
    if arguments.command.is_empty() {
        return Err(Failure::NoCommand);
    }
    let binary = match std::env::var_os(BINARY) {
        Some(binary) => PathBuf::from(binary),
        None => std::env::current_exe()?,
    };
    let live = Live {
        command: arguments.command.clone(),
        binary,
        seed: arguments.seed,
        chaos: Duration::from_secs(arguments.seconds),
        runs: arguments.runs,
    };
    let findings = live::perform(&live).await.map_err(|error| Failure::Live(error.to_string()))?;
    for finding in &findings {
        writeln!(io::stdout(), "{finding}")?;
    }
    Ok(match findings.len() {
        0 => Verdict::Good,
        n => Verdict::Bad(format!("the live run with seed {} left {n} findings", live.seed)),
    })
}

/// Plants the fault that each case names.
pub(crate) const EACH: &str = "each";

fn chosen(arguments: &Arguments) -> Result<Vec<Arc<Case>>, Failure> {
    let cases = cases::all(arguments.cases.as_deref())?;
    let is_wanted = |case: &Arc<Case>| {
        let is_named =
            arguments.only.is_empty() || arguments.only.iter().any(|it| is_like(it, &case.case));
        is_named && !case.needs.iter().any(|feature| arguments.without.contains(feature))
    };
    let chosen: Vec<Arc<Case>> = cases.into_iter().filter(is_wanted).collect();
    if chosen.is_empty() {
        return Err(Failure::NoCase(arguments.only.join(", ")));
    }
    Ok(chosen)
}

fn known_failing(arguments: &Arguments) -> Result<KnownFailing, Failure> {
    let Some(file) = &arguments.known_failing else { return Ok(KnownFailing::default()) };
    let known = KnownFailing::read(file)
        .map_err(|source| Failure::Unreadable { file: file.clone(), source })?;
    let all = cases::all(arguments.cases.as_deref())?;
    let names: Vec<&str> = all.iter().map(|case| case.case.as_str()).collect();
    let unknown: Vec<String> = known.unknown(&names).into_iter().map(str::to_owned).collect();
    match unknown.is_empty() {
        true => Ok(known),
        false => Err(Failure::UnknownNames { file: file.clone(), names: unknown }),
    }
}

fn list(cases: &[Arc<Case>], format: Format) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for case in cases {
        match format {
            Format::People => writeln!(out, "{:<32} {}", case.case, case.about)?,
            Format::Json => {
                let told = json!({"case": case.case, "about": case.about, "proves": case.proves,
                    "needs": case.needs, "fault": case.fault, "timeoutMs": case.timeout_ms, "alone": case.alone});
                writeln!(out, "{told}")?;
            }
        }
    }
    Ok(())
}

/// A reader that left is not a reason to stop judging.
fn tell(outcome: &Outcome, known: &KnownFailing, format: Format, with_log: bool, is_fault: bool) {
    let mut out = io::stdout().lock();
    let _ = match format {
        Format::Json => writeln!(out, "{}", summary::line(outcome, known)),
        Format::People => told(&mut out, outcome, known, with_log, is_fault),
    };
}

fn told(
    out: &mut impl Write,
    outcome: &Outcome,
    known: &KnownFailing,
    with_log: bool,
    is_fault: bool,
) -> io::Result<()> {
    let took = outcome.took.as_secs_f64();
    let word = match is_fault {
        true if outcome.passed() => "NOT NOTICED",
        true => "noticed",
        false => Standing::of(outcome, known).word(),
    };
    writeln!(out, "{word:<14} {:<32} {took:>6.2} s", outcome.case)?;
    for finding in &outcome.findings {
        writeln!(out, "    {finding}")?;
    }
    if with_log {
        for line in &outcome.log {
            writeln!(out, "      {line}")?;
        }
    }
    Ok(())
}

fn verdict(outcomes: &[Outcome], known: &KnownFailing) -> Verdict {
    let bad = outcomes.iter().filter(|it| !Standing::of(it, known).is_good());
    let names: Vec<&str> = bad.map(|it| it.case.as_str()).collect();
    match names.is_empty() {
        true => Verdict::Good,
        false => Verdict::Bad(format!(
            "{} of {} cases did not go as they should: {}",
            names.len(),
            outcomes.len(),
            names.join(", ")
        )),
    }
}

/// With a fault, a case that passes is the kit's own failure. Cases that fail anyway show nothing.
fn all_red(outcomes: &[Outcome], known: &KnownFailing) -> Verdict {
    let green = outcomes.iter().filter(|it| it.passed() && !known.has(&it.case));
    let names: Vec<&str> = green.map(|it| it.case.as_str()).collect();
    match names.is_empty() {
        true => Verdict::Good,
        false => Verdict::Bad(format!("the fault was not noticed by {}", names.join(", "))),
    }
}
