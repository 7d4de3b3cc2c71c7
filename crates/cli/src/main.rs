//! The `tenure` binary: what people type.
//!
//! Every command talks HTTP through the Rust client; only `serve`, `dev`, `verify`, `backup` and `restore`
//! touch the coordinator and the store themselves. Data goes to stdout, everything else to stderr, and the exit code means something
//! ([`exit::Exit`]).

mod args;
mod audit;
mod backup;
mod bench;
mod bulk;
mod completions;
mod config;
mod dev;
mod doctor;
mod exit;
mod explain;
mod keys;
mod output;
mod profile;
mod queues;
mod restore;
mod retention;
mod runs;
mod serve;
mod server;
mod span;
mod submit;
mod tour;
mod verify;
mod work;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Arguments, Command, Everywhere};
use exit::{Complaint, Ended, Exit};
use output::Format;

/// Deciding is mostly small values that live for one batch: a sixth of the server's time went into the
/// system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let format = if arguments.everywhere.json { Format::Json } else { Format::People };
    let ended = match arguments.command {
        None => help(),
        Some(command) => execute(command, format, &arguments.everywhere),
    };
    ExitCode::from(match ended {
        Ok(exit) => exit.code(),
        Err(complaint) => {
            output::complain(format, &complaint);
            complaint.exit.code()
        }
    })
}

fn help() -> Ended {
    output::line(Arguments::command().render_help().ansi())?;
    Ok(Exit::Done)
}

fn execute(command: Command, format: Format, everywhere: &Everywhere) -> Ended {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| {
            Complaint::new(Exit::Failed, "no_runtime", format!("the system gives no threads: {e}"))
        })?;
    let ended = runtime.block_on(run(command, format, everywhere));
    // A read of stdin that nobody waits for any more must not keep the program.
    runtime.shutdown_background();
    ended
}

async fn run(command: Command, format: Format, everywhere: &Everywhere) -> Ended {
    let connect = || server::connect(everywhere);
    match command {
        Command::Tour(arguments) => tour::run(format, arguments).await,
        Command::Dev(arguments) => dev::run(format, arguments).await,
        Command::Serve(arguments) => serve::run(format, arguments).await,
        Command::Submit(arguments) => submit::run(connect()?, format, *arguments).await,
        Command::Runs(verb) => runs::run(connect()?, format, verb).await,
        Command::Explain(arguments) => explain::run(connect()?, format, arguments).await,
        Command::Queues => queues::run(connect()?, format).await,
        Command::Keys(verb) => keys::run(connect()?, format, verb).await,
        Command::Audit(arguments) => audit::run(connect()?, format, arguments).await,
        Command::Work(arguments) => work::run(connect()?, format, arguments).await,
        Command::Bench(arguments) => bench::run(format, everywhere, arguments).await,
        Command::Verify(arguments) => verify::run(format, arguments).await,
        Command::Backup(arguments) => backup::run(format, &arguments),
        Command::Restore(arguments) => restore::run(format, &arguments),
        Command::Doctor(arguments) => doctor::run(format, everywhere, arguments).await,
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => completions::man(format, &arguments),
        Command::Prune(arguments) => retention::run(format, &arguments),
        Command::Config(arguments) => config::run(format, everywhere, &arguments),
        Command::TourWorker(arguments) => tour::worker::run(connect()?, arguments).await,
    }
}
