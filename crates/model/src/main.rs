//! Explores every named world with the production rules and prints the number of states.
//!
//! `tenure-model [--long] [part of a world's name]`. Exits with 1 when a property is broken or a coverage goal is not
//! reached.
#![expect(clippy::print_stdout, reason = "a command-line program speaks to its user on stdout")]

use std::process::ExitCode;
use std::time::Instant;

use tenure_model::{Extent, debounce, escrow, explore, firing, flow, plans, runs, worlds};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let long = arguments.iter().any(|word| word == "--long");
    let wanted = arguments.iter().find(|word| !word.starts_with("--"));
    let extent = if long { Extent::Long } else { Extent::Short };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut proved = true;
    for bounds in worlds::all(extent) {
        if wanted.is_some_and(|part| !bounds.name.contains(part.as_str())) {
            continue;
        }
        let begun = now();
        let outcome = explore(bounds, threads);
        println!("{outcome}\n  in {:.1} s on {threads} threads", begun.elapsed().as_secs_f64());
        proved &= outcome.is_proof();
    }
    macro_rules! explore_all {
        ($($family:ident)*) => {$(
            for bounds in $family::all() {
                if wanted.is_some_and(|part| !bounds.name.contains(part.as_str())) {
                    continue;
                }
                let begun = now();
                let outcome = $family::explore(bounds, threads);
                let seconds = begun.elapsed().as_secs_f64();
                println!("{outcome}\n  in {seconds:.1} s on {threads} threads");
                proved &= outcome.is_proof();
            }
        )*};
    }
    explore_all![runs plans escrow flow debounce firing];
    if proved { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long it took is told to people and decides nothing"
)]
fn now() -> Instant {
    Instant::now()
}
