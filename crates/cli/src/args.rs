//! The command line. Each command's own flags are in that command's file.

use clap::{Parser, Subcommand};

use crate::{
    approvals, artifacts, audit, backup, bench, budgets, completions, config, console,
    coordinators, dev, doctor, effects, endpoints, epoch, explain, export, flow, inbox, inside,
    keys, limits, mcp, migrate, plan, prove, queues, recovery, replay, restore, retention, runs,
    schedules, serve, submit, topology, tour, verify, work,
};

/// Order: description, first steps, commands and options, exit codes.
const TEMPLATE: &str = "{about}\n\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

const FIRST_STEPS: &str = "\
Get started in three terminals:
  tenure dev                                          start a server and save its key
  tenure work --queue demo --exec cat                 any program can be a worker
  tenure submit hi --queue demo --input 1 --wait      submit, wait, read the output

Or watch a demo: `tenure tour` kills a worker and shows that its late report is refused.";

const EXIT_CODES: &str = "\
Exit codes:
  0 done               4 conflict, precondition        7 stopped before the work was done
  1 failed             5 no valid key or permission  130 interrupted
  2 usage              6 server unreachable or busy
  3 not found
  When waiting for a run:
  0 succeeded  10 failed  11 halted  12 cancelled  124 timed out

Server and key: --url and --key, else TENURE_URL and TENURE_API_KEY, else the profile of
`tenure dev`. Server settings: flags, else TENURE_..., else the config file (`tenure config`).
Data goes to stdout, everything else to stderr. NO_COLOR is honoured.";

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
    /// Address of the server [default: from the profile of `tenure dev`]
    #[arg(long, global = true, env = "TENURE_URL", value_name = "URL", hide_env = true)]
    pub(crate) url: Option<String>,
    /// API key [default: from the profile of `tenure dev`]
    #[arg(
        long,
        global = true,
        env = "TENURE_API_KEY",
        value_name = "KEY",
        hide_env = true,
        hide_env_values = true
    )]
    pub(crate) key: Option<String>,
    /// PEM file with the certificate authorities to trust [default: those of the system]
    #[arg(long, global = true, env = "TENURE_CA_FILE", value_name = "FILE", hide_env = true)]
    pub(crate) ca_file: Option<std::path::PathBuf>,
    /// Print data as JSON, with the member names of the HTTP interface
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl GlobalArgs {
    /// An empty variable counts as unset: in scripts and unit files it often means that there is no value.
    pub(crate) fn drop_empty(&mut self) {
        self.url.take_if(|url| url.is_empty());
        self.key.take_if(|key| key.is_empty());
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a demo of less than a minute: a killed worker, a durable order, approvals, budgets, plans
    Tour(tour::Arguments),
    /// Start a development server and save its address and key in the profile
    Dev(dev::Arguments),
    /// Print a link that logs a browser in to the console, once
    Console(console::Arguments),
    /// Start a server
    Serve(serve::Arguments),
    /// Submit a run, or many from a file
    Submit(Box<submit::Arguments>),
    /// List, show, watch, cancel and retry runs
    #[command(subcommand)]
    Runs(runs::Verb),
    /// Explain why a run is not running or has not ended
    Explain(explain::Arguments),
    /// Check plans
    #[command(subcommand)]
    Plan(plan::Verb),
    /// Check, compare and simulate topologies; put them in force
    #[command(subcommand)]
    Topology(topology::Verb),
    /// Create, list, show and move the artifacts of a deployment
    #[command(subcommand)]
    Artifacts(artifacts::Verb),
    /// Show what waits for a person, with what to do next
    Inbox(inbox::Arguments),
    /// Show who works on which event or work order
    Claims(inbox::Wanted),
    /// Write a durable run to a golden file, for `tenure replay`
    Export(export::Arguments),
    /// Replay golden files with a worker, and show where its code differs from what they recorded
    Replay(replay::Arguments),
    /// Prove that an SDK does what the contract asks of clients and workers
    Conform(Box<::conform::Arguments>),
    /// Show waiting and running tasks per queue; pause and resume queues
    Queues(queues::Arguments),
    /// Show which workers poll for what, and which hold leases
    Workers,
    /// Show what workers announced that they can do
    Kinds(crate::kinds::Arguments),
    /// List flow keys, of which only so many runs are active at once
    #[command(subcommand)]
    Flow(flow::Verb),
    /// List, show and decide what runs wait for people to approve
    Approvals(approvals::Arguments),
    /// Register, list and change endpoints that effects are delivered to
    Endpoints(endpoints::Arguments),
    /// List, show and repair what is delivered to endpoints
    Effects(effects::Arguments),
    /// Submit runs again and again, by a cron expression or at an interval
    #[command(subcommand)]
    Schedules(schedules::Verb),
    /// Say what may be done about runs that failed alike, look at it, and decide
    #[command(subcommand)]
    Recovery(recovery::Verb),
    /// Create, list, rotate and revoke API keys
    #[command(subcommand)]
    Keys(keys::Verb),
    /// Set request rates and quotas of tenants
    #[command(subcommand)]
    Limits(limits::Verb),
    /// Set what the runs of workspaces and tenants may use together
    #[command(subcommand)]
    Budgets(budgets::Verb),
    /// Show administrative changes and refused calls
    Audit(audit::Arguments),
    /// Let an agent submit and look at runs, and ask people, over the Model Context Protocol
    Mcp(mcp::Arguments),
    /// Run a program for each task of a queue
    Work(work::Arguments),
    /// In a program that `work` runs: run a command once and record its output
    Step(inside::StepArguments),
    /// In a program that `work` runs: wait without a process
    Sleep(inside::SleepArguments),
    /// In a program that `work` runs: wait for a signal and print its data
    WaitFor(inside::WaitForArguments),
    /// In a program that `work` runs: ask people and wait for their decision
    Ask(inside::AskArguments),
    /// In a program that `work` runs: start a run, wait for its end and print its output
    Child(inside::ChildArguments),
    /// In a program that `work` runs: have something delivered to an endpoint
    Effect(inside::EffectArguments),
    /// In a program that `work` runs: count against the budget of the run
    Spend(inside::SpendArguments),
    /// In a program that `work` runs: say how far it is
    Progress(inside::ProgressArguments),
    /// Check a store: replay its history and compare the result with its tables
    Verify(verify::Arguments),
    /// Prove what happened in a run: check its history, record and seals; export it as evidence
    Prove(prove::Arguments),
    /// List the coordinators that share a PostgreSQL database
    Coordinators(coordinators::Arguments),
    /// Copy a store to a file while its server runs
    Backup(backup::Arguments),
    /// Replace a store with a backup; older leases and tokens become void
    Restore(restore::Arguments),
    /// Move a store between SQLite and PostgreSQL; older leases and tokens become void
    Migrate(migrate::Arguments),
    /// Begin a new epoch in a store that was restored by other tools
    #[command(subcommand)]
    Epoch(epoch::Verb),
    /// Remove runs that ended long ago, while no server runs
    Prune(retention::Arguments),
    /// Check profile, server, key, clock, files and disk space, with remedies
    Doctor(doctor::Arguments),
    /// Show the effective settings and the origin of each
    Config(config::Arguments),
    /// Print shell completions
    Completions(completions::Arguments),
    /// Write manual pages
    Man(completions::ManArguments),
    /// Measure the performance of Tenure on this machine
    Bench(bench::Arguments),
    /// A worker for the tour that says what it was granted and answered
    #[command(hide = true)]
    TourWorker(tour::worker::Arguments),
    /// A worker for the durable orders of the tour
    #[command(hide = true)]
    TourOrders(tour::order::Arguments),
}
