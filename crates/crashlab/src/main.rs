//! `crashlab`: kills, pauses and starves a real server under load, and judges the result.
//!
//! The given binary must be a test build (feature `lab` of `tenure-faultpoint`), so that it can be made to die at
//! named fault points. Every experiment ends with `historyck` on its whole history, and every death with `tenure
//! verify` on the stored data. `cargo xtask crash` builds and starts all of it.
#![expect(clippy::print_stdout, reason = "a command-line program speaks to its user on stdout")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use crashlab::scenarios::{SCENARIOS, failover};
use crashlab::{LabOptions, Tally};

#[derive(Debug, Parser)]
#[command(about = "Kills, stops and starves a real server under load, and judges what it leaves")]
struct Arguments {
    /// The test build of `tenure`
    #[arg(long)]
    binary: PathBuf,
    /// How often the server is killed, over all experiments
    #[arg(long, default_value_t = 100)]
    kills: usize,
    /// Only the experiments whose names begin with one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Instead: how often the database of several coordinators fails over, with a synchronous standby
    #[arg(long)]
    failovers: Option<usize>,
    /// Repeats a run's choices, though not the machine's timing
    #[arg(long)]
    seed: Option<u64>,
    /// Play a bug of the museum in every server
    #[arg(long)]
    mutant: Option<u8>,
    /// Where histories go that something is wrong with
    #[arg(long, default_value = "target/lab/histories")]
    keep: PathBuf,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\ncrashlab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => getrandom::u64().context("draw a seed")?,
    };
    println!("crashlab --seed {seed}");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let options = LabOptions {
        binary: arguments.binary,
        kills: arguments.kills,
        mutant: arguments.mutant,
        keep: arguments.keep,
        seed,
    };
    if let Some(times) = arguments.failovers {
        let only = arguments.only.first().map(String::as_str);
        return runtime.block_on(failover::all(&options, times, only));
    }
    let mut total = Tally::default();
    for (name, scenario) in SCENARIOS {
        let is_wanted = |only: &String| name.starts_with(only.as_str());
        if !arguments.only.is_empty() && !arguments.only.iter().any(is_wanted) {
            continue;
        }
        let tally =
            runtime.block_on(scenario(&options)).with_context(|| format!("{name} failed"))?;
        println!("{name:12} {tally}");
        total.add(&tally);
    }
    println!("{:12} {total}; nothing acknowledged was lost", "together");
    Ok(())
}
