//! The `tenure` binary.
//!
//! Commands talk HTTP through the Rust client. Only those that start a server or maintain a store use
//! the coordinator and the store directly; the code map in ARCHITECTURE.md lists them. Data goes to
//! stdout, everything else to stderr, and the exit code is meaningful ([`exit::Exit`]).

mod approvals;
mod args;
mod artifacts;
mod audit;
mod backup;
mod bench;
mod budget;
mod budgets;
mod bulk;
mod completions;
mod config;
mod conform;
mod console;
mod coordinators;
mod descriptors;
mod dev;
mod doctor;
mod duration;
mod effects;
mod endpoints;
mod epoch;
mod exit;
mod explain;
mod export;
mod flow;
mod inbox;
mod inside;
mod key_names;
mod keys;
mod kinds;
mod limits;
mod lost_store;
mod mcp;
mod migrate;
mod open_store;
mod output;
mod plan;
mod profile;
mod prove;
mod queues;
mod recovery;
mod replay;
mod restore;
mod retention;
mod runs;
mod schedules;
mod serve;
mod server;
mod settings;
mod submit;
mod submit_defaults;
mod submit_from;
mod topology;
mod tour;
mod traces;
mod unknown_command;
mod verify;
mod visible;
mod work;
mod workers;

use std::process::ExitCode;

use clap::CommandFactory;

use args::{Arguments, Command, GlobalArgs};
use exit::{CliError, CommandResult, Exit};
use output::Format;
use settings::Parsed;

/// Decisions mostly allocate small values that live for one batch: the system allocator took a
/// sixth of the server's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let parsed = settings::parse();
    let format = match &parsed {
        Ok(parsed) if parsed.arguments.global_args.json => Format::Json,
        Ok(_) => Format::People,
        Err(_) => format_wanted(),
    };
    let ended = parsed.and_then(|parsed| start(parsed, format));
    ExitCode::from(match ended {
        Ok(exit) => exit.code(),
        Err(cli_error) => {
            output::print_error(format, &cli_error);
            cli_error.exit.code()
        }
    })
}

/// The output format that the command line asks for, when the parser refuses it as a whole.
fn format_wanted() -> Format {
    let is_json = std::env::args_os().any(|argument| argument == "--json");
    if is_json { Format::Json } else { Format::People }
}

fn start(parsed: Parsed, format: Format) -> CommandResult {
    if let Some(Command::Config(_)) = &parsed.arguments.command {
        return config::run(format, &parsed);
    }
    let Arguments { global_args, command } = parsed.arguments;
    match command {
        None => help(),
        Some(command) => execute(command, format, &global_args),
    }
}

fn help() -> CommandResult {
    output::line(Arguments::command().render_help().ansi())?;
    Ok(Exit::Done)
}

fn execute(command: Command, format: Format, global_args: &GlobalArgs) -> CommandResult {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| {
            CliError::new(
                Exit::Failed,
                "no_runtime",
                format!("cannot start the runtime's threads: {e}"),
            )
        })?;
    let ended = runtime.block_on(run(command, format, global_args));
    // A read of stdin that is no longer awaited must not keep the process running.
    runtime.shutdown_background();
    ended
}

async fn run(command: Command, format: Format, global_args: &GlobalArgs) -> CommandResult {
    let connect = || server::connect(global_args);
    match command {
        Command::Tour(arguments) => tour::run(format, arguments).await,
        Command::Dev(arguments) => dev::run(format, arguments).await,
        Command::Console(arguments) => console::run(format, global_args, &arguments).await,
        Command::Serve(arguments) => serve::run(format, arguments).await,
        Command::Submit(arguments) => submit::run(connect()?, format, *arguments).await,
        Command::Runs(verb) => runs::run(connect()?, format, verb).await,
        Command::Explain(arguments) => explain::run(connect()?, format, arguments).await,
        Command::Plan(verb) => plan::run(format, &verb),
        Command::Topology(verb) => topology::run(connect, format, &verb).await,
        Command::Artifacts(verb) => artifacts::run(connect()?, format, verb).await,
        Command::Inbox(arguments) => inbox::run(connect()?, format, arguments).await,
        Command::Claims(wanted) => inbox::claims(connect()?, format, wanted).await,
        Command::Export(arguments) => export::run(connect()?, format, arguments).await,
        Command::Replay(arguments) => replay::run(format, arguments).await,
        Command::Conform(arguments) => conform::run(format, &arguments).await,
        Command::Queues(arguments) => queues::run(connect()?, format, arguments).await,
        Command::Workers => workers::run(connect()?, format).await,
        Command::Kinds(arguments) => kinds::run(connect()?, format, arguments).await,
        Command::Flow(verb) => flow::run(connect()?, format, &verb).await,
        Command::Approvals(arguments) => approvals::run(connect()?, format, arguments).await,
        Command::Endpoints(arguments) => endpoints::run(connect()?, format, arguments).await,
        Command::Effects(arguments) => effects::run(connect()?, format, arguments).await,
        Command::Schedules(verb) => schedules::run(connect()?, format, verb).await,
        Command::Recovery(verb) => recovery::run(connect()?, format, verb).await,
        Command::Keys(verb) => keys::run(connect()?, format, verb).await,
        Command::Limits(verb) => limits::run(connect()?, format, verb).await,
        Command::Budgets(verb) => budgets::run(connect()?, format, verb).await,
        Command::Audit(arguments) => audit::run(connect, format, arguments).await,
        Command::Mcp(arguments) => mcp::run(format, global_args, arguments).await,
        Command::Work(arguments) => work::run(connect()?, format, arguments).await,
        Command::Step(arguments) => inside::step(arguments).await,
        Command::Sleep(arguments) => inside::sleep_for(arguments).await,
        Command::WaitFor(arguments) => inside::wait_for(arguments).await,
        Command::Ask(arguments) => inside::ask(arguments).await,
        Command::Child(arguments) => inside::child(arguments).await,
        Command::Effect(arguments) => inside::effect(arguments).await,
        Command::Spend(arguments) => inside::spend(arguments).await,
        Command::Progress(arguments) => inside::progress(&arguments),
        Command::Bench(arguments) => bench::run(format, global_args, arguments).await,
        Command::Verify(arguments) => verify::run(format, arguments).await,
        Command::Prove(arguments) => prove::run(format, arguments).await,
        Command::Coordinators(arguments) => coordinators::run(format, arguments).await,
        Command::Backup(arguments) => backup::run(format, &arguments),
        Command::Restore(arguments) => restore::run(format, &arguments),
        Command::Migrate(arguments) => migrate::run(format, arguments).await,
        Command::Epoch(verb) => epoch::run(format, verb).await,
        Command::Doctor(arguments) => doctor::run(format, global_args, arguments).await,
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => completions::man(format, &arguments),
        Command::Prune(arguments) => retention::run(format, &arguments),
        Command::Config(_) => unreachable!("shown before there is a runtime"),
        Command::TourWorker(arguments) => tour::worker::run(connect()?, arguments).await,
        Command::TourOrders(arguments) => tour::order::run(connect()?, arguments).await,
    }
}
