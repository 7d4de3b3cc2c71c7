//! What can be typed. Each command's own flags stand beside the command.

use clap::{Parser, Subcommand};

use crate::{
    audit, backup, bench, completions, config, coordinators, dev, doctor, epoch, explain, keys,
    limits, migrate, restore, retention, runs, serve, submit, tour, verify, work,
};

/// What it is, how to begin, what there is, how it ends.
const TEMPLATE: &str = "{about}\n\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

const FIRST_STEPS: &str = "\
The first five minutes, in three terminals:
  tenure dev                                          start a server and remember its key
  tenure work --queue demo --exec cat                 any program is a worker
  tenure submit hi --queue demo --input 1 --wait      submit, wait, read the output

Or lean back: `tenure tour` kills a worker and shows its late report being refused.";

const EXIT_CODES: &str = "\
Exit codes:
  0 done               4 conflict, precondition        7 stopped before the work was done
  1 failed             5 not authenticated, allowed  130 interrupted
  2 usage              6 server unreachable
  3 not found
  When waiting for a run:
  0 succeeded  10 failed  11 halted  12 cancelled  124 timed out

Server and key: --url and --key, else TENURE_URL and TENURE_API_KEY, else what `tenure dev`
remembered. Server's settings: flags, else TENURE_..., else the config file (`tenure config`). Data goes to stdout,
everything else to stderr. NO_COLOR is honoured.";

/// Work that must be done and recorded exactly once, by workers that need not be trusted.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, before_help = FIRST_STEPS, after_help = EXIT_CODES)]
#[command(help_template = TEMPLATE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global_args: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Flags that every command takes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct GlobalArgs {
    /// The server's address [default: what `tenure dev` remembered]
    #[arg(long, global = true, env = "TENURE_URL", value_name = "URL", hide_env = true)]
    pub(crate) url: Option<String>,
    /// The API key [default: the one `tenure dev` remembered]
    #[arg(
        long,
        global = true,
        env = "TENURE_API_KEY",
        value_name = "KEY",
        hide_env = true,
        hide_env_values = true
    )]
    pub(crate) key: Option<String>,
    /// Believe a server only if an authority in this PEM file vouches for it [default: the system's]
    #[arg(long, global = true, env = "TENURE_CA_FILE", value_name = "FILE", hide_env = true)]
    pub(crate) ca_file: Option<std::path::PathBuf>,
    /// Print data as JSON, with the names of the HTTP interface
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch Tenure keep its promise: a killed worker, retries, cancels, all within a minute
    Tour(tour::Arguments),
    /// Start a server for development and remember its address and key
    Dev(dev::Arguments),
    /// Start a server
    Serve(serve::Arguments),
    /// Submit a run
    Submit(Box<submit::Arguments>),
    /// Look at runs and cancel them
    #[command(subcommand)]
    Runs(runs::Verb),
    /// Say why a run is not running, or not ended
    Explain(explain::Arguments),
    /// Show what waits and runs, queue by queue
    Queues,
    /// Make, list, rotate and revoke API keys
    #[command(subcommand)]
    Keys(keys::Verb),
    /// Limit what tenants may use
    #[command(subcommand)]
    Limits(limits::Verb),
    /// Show who administered what, and who was refused
    Audit(audit::Arguments),
    /// Work off a queue with any program
    Work(work::Arguments),
    /// Check a store: fold its history and compare with its tables
    Verify(verify::Arguments),
    /// Show which coordinators share a PostgreSQL database
    Coordinators(coordinators::Arguments),
    /// Copy a store to a file while its server goes on
    Backup(backup::Arguments),
    /// Make a backup the store; leases and tokens from before are void
    Restore(restore::Arguments),
    /// Move a store between SQLite and PostgreSQL; leases and tokens from before are void
    Migrate(migrate::Arguments),
    /// Begin a new epoch in a store that other tools restored
    #[command(subcommand)]
    Epoch(epoch::Verb),
    /// Forget runs that ended long ago, while no server runs
    Prune(retention::Arguments),
    /// Check profile, server, key, clock, files and room, with remedies
    Doctor(doctor::Arguments),
    /// Show the settings that count here, and where each comes from
    Config(config::Arguments),
    /// Print completions for a shell
    Completions(completions::Arguments),
    /// Write manual pages
    Man(completions::ManArguments),
    /// Measure how fast Tenure is on this machine
    Bench(bench::Arguments),
    /// A worker for the tour that says what it was granted and answered
    #[command(hide = true)]
    TourWorker(tour::worker::Arguments),
}
