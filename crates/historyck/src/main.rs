//! `historyck FILE…`: merges the histories in these files, checks them, and prints the violations.
#![expect(clippy::print_stdout, reason = "a command-line program speaks to its user on stdout")]

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: historyck FILE...

Reads the files as one history (JSON lines, put in the order of `at`) and checks every invariant.
Ends with 0 when nothing is wrong, 1 when something is, 2 when the files are no history.";

fn main() -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if files.is_empty() || files.iter().any(|file| file.as_os_str() == "--help") {
        println!("{USAGE}");
        return ExitCode::from(if files.is_empty() { 2 } else { 0 });
    }
    match run(&files) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            println!("historyck: {why}");
            ExitCode::from(2)
        }
    }
}

fn run(files: &[PathBuf]) -> Result<usize, String> {
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        historyck::text::read(&text).map_err(|error| format!("{}: {error}", file.display()))
    };
    let writers: Result<Vec<_>, String> = files.iter().map(read).collect();
    let events = historyck::text::merge(writers?);
    let findings = historyck::check(&events).map_err(|error| error.to_string())?;
    for finding in &findings {
        println!("{}\n", historyck::describe(finding, &events));
    }
    let invariants = historyck::Invariant::ALL.len();
    println!("{} events, {invariants} invariants, {} broken", events.len(), findings.len());
    Ok(findings.len())
}
