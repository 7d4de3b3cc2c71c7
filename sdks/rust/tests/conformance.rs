//! The conformance kit against this SDK's subject: every case is a test of its own.
//!
//! The tests are found in the kit when they are listed, so that a new case is a test without a line here. That takes a
//! program that answers a test runner as libtest does. A case that judges milliseconds or keeps the processor busy is named
//! `alone::…`, and `.config/nextest.toml` runs nothing beside it. `cargo xtask conform-faults` shows for every case that it
//! can fail.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a test runner reads what it says")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use conform::{Case, KnownFailing, Outcome, Setup, all_cases, perform_all, width};

/// A busy machine may need so long to start a program.
const START: Duration = Duration::from_secs(60);

/// Features that this SDK does not offer: docs/adr/0057-no-isolated-tasks-in-rust.md.
const WITHOUT: [&str; 1] = ["isolate"];

/// What the subject is known to fail, and no more: a case that passes must leave it.
const KNOWN_FAILING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conform-known-failing.txt");

/// What libtest would be asked for, as far as test runners ask.
struct Wanted {
    lists: bool,
    only_ignored: bool,
    is_exact: bool,
    names: Vec<String>,
}

impl Wanted {
    fn of(arguments: impl Iterator<Item = String>) -> Wanted {
        let (flags, names): (Vec<String>, Vec<String>) =
            arguments.partition(|word| word.starts_with('-'));
        let has = |flag: &str| flags.iter().any(|it| it == flag);
        Wanted {
            lists: has("--list"),
            only_ignored: has("--ignored"),
            is_exact: has("--exact"),
            // The value of `--format`.
            names: names.into_iter().filter(|name| name != "terse").collect(),
        }
    }

    fn takes(&self, name: &str) -> bool {
        let is_meant = |wanted: &String| match self.is_exact {
            true => wanted == name,
            false => name.contains(wanted.as_str()),
        };
        // No case is ignored.
        !self.only_ignored && (self.names.is_empty() || self.names.iter().any(is_meant))
    }
}

fn test_name(case: &Case) -> String {
    let place = if case.alone { "alone" } else { "beside" };
    format!("{place}::{}", case.case)
}

fn wanted_cases(wanted: &Wanted) -> Result<Vec<Arc<Case>>, String> {
    let mut cases = all_cases(None).map_err(|error| error.to_string())?;
    cases.retain(|case| !case.needs.iter().any(|feature| WITHOUT.contains(&feature.as_str())));
    cases.retain(|case| wanted.takes(&test_name(case)));
    Ok(cases)
}

/// Cargo builds examples with the tests, next to them.
fn subject() -> Result<String, String> {
    let own: PathBuf = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = own.ancestors().nth(2).ok_or("this program has no target folder")?;
    Ok(target.join("examples/subject").display().to_string())
}

fn judge(outcome: &Outcome, known: &KnownFailing) -> Result<(), String> {
    match (outcome.passed(), known.has(&outcome.case)) {
        (true, false) | (false, true) => Ok(()),
        (true, true) => Err(format!("it passes: take it out of {KNOWN_FAILING}")),
        (false, false) => Err([&outcome.findings[..], &outcome.log[..]].concat().join("\n")),
    }
}

/// Performs the cases. Whether all ended as they should.
async fn perform(cases: &[Arc<Case>]) -> Result<bool, String> {
    // S3-53, S3-62, S4-25, S2-90: a repeated call is the same call, a report is made once, a lost lease ends the work, and
    // what is recorded is not executed again. Break one, and its case fails.
    let known = KnownFailing::read(KNOWN_FAILING.as_ref()).map_err(|error| error.to_string())?;
    let setup = Setup { command: vec![subject()?], start_timeout: START, fault: None };
    let tell = |outcome: &Outcome| match judge(outcome, &known) {
        Ok(()) => println!("test {} ... ok", outcome.case),
        Err(why) => eprintln!("test {} ... FAILED\n{why}", outcome.case),
    };
    let outcomes = perform_all(cases, &setup, width(), tell).await;
    let outcomes = outcomes.map_err(|error| error.to_string())?;
    Ok(outcomes.iter().all(|outcome| judge(outcome, &known).is_ok()))
}

#[tokio::main]
async fn main() -> ExitCode {
    let wanted = Wanted::of(std::env::args().skip(1));
    let ended = match wanted_cases(&wanted) {
        Ok(cases) if wanted.lists => {
            cases.iter().for_each(|case| println!("{}: test", test_name(case)));
            Ok(true)
        }
        Ok(cases) => perform(&cases).await,
        Err(why) => Err(why),
    };
    if let Err(why) = &ended {
        eprintln!("the conformance kit cannot be used: {why}");
    }
    if ended == Ok(true) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
