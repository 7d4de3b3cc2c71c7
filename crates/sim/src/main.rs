//! `tenure-sim`: runs one seed and prints its trace, or runs many seeds.
#![expect(clippy::print_stdout, reason = "a command-line program speaks to its user on stdout")]
#![expect(clippy::print_stderr, reason = "progress is for people, and not part of the result")]

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use sim::PlantedBug;
use sim::campaign::{Totals, campaign};
use sim::coverage::CoverageGoal;
use sim::fault::Fault;
use sim::log::Keep;

const USAGE: &str = "\
usage: cargo xtask sim --seed S              one world, with its trace; stdout depends on S alone
       cargo xtask sim --seeds N [--from S]  N worlds from S on (0 when absent), on all cores";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    let parsed = match words.as_slice() {
        ["--seed", seed] => number(seed).map(|seed| (seed, None)),
        ["--seeds", count] => number(count).map(|count| (0, Some(count))),
        ["--seeds", count, "--from", from] | ["--from", from, "--seeds", count] => {
            number(count).zip(number(from)).map(|(count, from)| (from, Some(count)))
        }
        _ => None,
    };
    match parsed {
        Some((seed, None)) => one(seed),
        Some((from, Some(count))) => many(from, count),
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn one(seed: u64) -> ExitCode {
    let outcome = sim::run(seed, Keep::Lines, PlantedBug::Nothing);
    let mut out = std::io::stdout().lock();
    for line in &outcome.lines {
        // The reader may close the pipe early.
        if writeln!(out, "{line}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    println!("seed {seed}: {} runs, trace {}", outcome.runs, outcome.digest);
    match outcome.violation {
        None => ExitCode::SUCCESS,
        Some(what) => {
            println!("FAILED {what}\nreproduce with: cargo xtask sim --seed {seed}");
            ExitCode::FAILURE
        }
    }
}

fn many(from: u64, count: u64) -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let shows = std::io::stderr().is_terminal();
    let totals = campaign(from..from.saturating_add(count), threads, |totals| {
        if shows {
            bar(totals, count);
        }
    });
    if shows {
        eprintln!();
    }
    print(&totals);
    if totals.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn bar(totals: &Totals, count: u64) {
    const WIDTH: u64 = 40;
    let filled = (totals.seeds * WIDTH / count.max(1)) as usize;
    let bar = format!("{:<1$}", "#".repeat(filled), WIDTH as usize);
    let failed = totals.failures.len();
    eprint!(
        "\r[{bar}] {}/{count} worlds, {} faults, {failed} failed",
        totals.seeds,
        totals.faults()
    );
}

fn print(totals: &Totals) {
    println!(
        "{} worlds, {} of them twice; {} runs, {} faults, {} h simulated, slowest drain {} s",
        totals.seeds,
        totals.repeated,
        totals.runs,
        totals.faults(),
        totals.simulated_ms / 3_600_000,
        totals.slowest_drain_ms / 1_000
    );
    println!("\nfaults");
    for fault in Fault::ALL {
        let count = totals.tally.faults.get(fault).copied().unwrap_or(0);
        println!("{count:>9} {}", fault.name());
    }
    println!("\nsometimes");
    for goal in CoverageGoal::ALL {
        let count = totals.tally.goals.get(goal).copied().unwrap_or(0);
        println!("{count:>9} {}", goal.name());
    }
    for (seed, what) in &totals.failures {
        println!("\nFAILED {what}\nreproduce with: cargo xtask sim --seed {seed}");
    }
}
