//! `tenure-conform`: the same as `tenure conform`, for those who build the kit and not the server.
#![expect(clippy::print_stderr, reason = "a command-line program tells its user what went wrong")]

use std::process::ExitCode;

use clap::Parser;
use conform::{Format, Verdict};

/// Proves that an SDK does what the contract asks of it
#[derive(Debug, Parser)]
#[command(name = "tenure-conform", version)]
struct Program {
    /// Print JSON lines
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    arguments: conform::Arguments,
}

#[tokio::main]
async fn main() -> ExitCode {
    // So that a script may call it as it calls `tenure conform`.
    let mut words: Vec<_> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "conform") {
        words.remove(1);
    }
    let program = Program::parse_from(words);
    let format = if program.json { Format::Json } else { Format::People };
    match conform::run(&program.arguments, format).await {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad(why)) => {
            eprintln!("error: {why} [conformance_failed]");
            ExitCode::FAILURE
        }
        Err(failure) => {
            let cause = std::error::Error::source(&failure).map(|it| format!(": {it}"));
            eprintln!("error: {failure}{} [{}]", cause.unwrap_or_default(), failure.code());
            eprintln!("hint: {}", failure.hint());
            ExitCode::from(2)
        }
    }
}
