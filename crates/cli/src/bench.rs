//! `tenure bench`: measures Tenure on this machine, as a table for people or as JSON.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::{
    BenchError, Comparison, Extent, Goal, Measurement, Mode, Options, Ratio, Shape, Side, Target,
    Unit,
};
use comfy_table::{Cell, CellAlignment};

use crate::args::GlobalArgs;
use crate::exit::{CliError, CommandResult, Exit};
use crate::open_store::{database_error, is_postgres};
use crate::output::{self, FAINT, Format, GOOD, WARN};

/// All of them run on this machine: more would measure how it shares its cores.
const COORDINATORS_MAX: usize = 16;

/// More than anyone waits for.
const PAIRS_MAX: usize = 99;

/// Width of the longest bar, in characters.
const BAR_WIDTH: f64 = 24.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Duration of each measurement; the whole run takes about fifty times as long
    #[arg(long, value_name = "SECONDS", default_value_t = 2.5)]
    seconds: f64,
    /// Folder for temporary stores, which selects the disk to measure; or a PostgreSQL server, on which
    /// databases are created and dropped and existing ones are not touched [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER|postgres://…")]
    store: Option<String>,
    /// Number of coordinators that share a database, measured in addition to one alone
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    coordinators: usize,
    /// Also measure with 100,000 and 1,000,000 tasks queued, and with 1,000,000 done; takes several minutes
    #[arg(long)]
    long: bool,
    /// Measure only the rate with 20,000 tasks queued while a transaction stays open for this long
    #[arg(long, value_name = "SECONDS", conflicts_with = "long")]
    old_snapshot: Option<f64>,
    /// Measure only durable runs: steps:5 is runs of five steps beside plain tasks, fanout:10000 one parent that joins
    /// so many children beside as many plain tasks, sleepers:100000 what so many runs cost that only wait, and
    /// savepoints:100000 one run of so many steps and its resumption; also plan:5, plans of five stages, joined:5, plans of
    /// five steps side by side with a join, parallel:1000, one such plan, flow:1000, plain tasks that share so many flow
    /// keys, effects:1000, effects of so many aggregates and work that is pushed, and orders:1000, so many work orders of a
    /// topology beside as many plain tasks
    #[arg(long, value_name = "SHAPE:COUNT", conflicts_with_all = ["long", "old_snapshot"])]
    shape: Option<Shape>,
    /// Measure this build and another one in turns, and print the ratios within each pair: what changes on a shared
    /// machine from one minute to the next counts for both
    #[arg(long, value_name = "BINARY")]
    compare: Option<PathBuf>,
    /// How many times to measure both
    #[arg(long, value_name = "COUNT", default_value_t = 9, requires = "compare")]
    pairs: usize,
}

pub(crate) async fn run(
    format: Format,
    global_args: &GlobalArgs,
    arguments: Arguments,
) -> CommandResult {
    let options = options(global_args, &arguments)?;
    let is_watched = std::io::stderr().is_terminal();
    let progress = |what: &str, share: f64| {
        if is_watched {
            show_progress(what, share);
        }
    };
    if let Some(other) = &arguments.compare {
        let rows = bench::compare(
            &options,
            other_build(global_args, other, &arguments)?,
            arguments.pairs,
            progress,
        )
        .await;
        if is_watched {
            clear_progress();
        }
        let rows = rows.map_err(not_measured)?;
        return match format {
            Format::Json => output::json(&rows).map(|()| Exit::Done),
            Format::People => print_comparison(&rows, arguments.pairs).map(|()| Exit::Done),
        };
    }
    let rows = bench::run(&options, progress).await;
    if is_watched {
        clear_progress();
    }
    let rows = rows.map_err(not_measured)?;
    match format {
        Format::Json => output::json(&rows)?,
        Format::People => {
            print(&rows)?;
            if let Target::Databases { .. } | Target::Own { .. } = options.target {
                print_goals(&bench::goals(&rows))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn other_build(
    global_args: &GlobalArgs,
    path: &Path,
    arguments: &Arguments,
) -> Result<PathBuf, CliError> {
    let refuse = |message: String| CliError::usage("bad_comparison", message);
    if global_args.url.is_some() {
        let message = "--compare measures servers that it starts, not a running one".to_owned();
        return Err(refuse(message).hint("leave out --url"));
    }
    if !(1..=PAIRS_MAX).contains(&arguments.pairs) {
        let message = format!("--pairs must be between 1 and {PAIRS_MAX}");
        return Err(refuse(message).hint("leave out --pairs for nine of them"));
    }
    path.canonicalize().map_err(|error| {
        refuse(format!("{} cannot be run: {error}", path.display()))
            .hint("give --compare the path of another `tenure` binary")
    })
}

/// Ratios of this build over the other one, with how far the pairs are apart.
fn print_comparison(rows: &[Comparison], pairs: usize) -> Result<(), CliError> {
    let heads = ["MEASUREMENT", "MODE", "AT ONCE", "RATE ×", "P50 ×", "CPU ×", "DATABASE ×"];
    let mut table = output::table(&heads);
    for row in rows {
        let ratio = |ratio: Option<Ratio>| {
            let spell = |it: Ratio| format!("{:.2} ({:.2} to {:.2})", it.median, it.least, it.most);
            Cell::new(ratio.map(spell).unwrap_or_default())
        };
        table.add_row(vec![
            Cell::new(&row.name),
            Cell::new(row.mode.map(spelled_mode).unwrap_or_default()),
            Cell::new(row.concurrency.map(|count| count.to_string()).unwrap_or_default()),
            ratio(row.rate),
            ratio(row.p50),
            ratio(row.cpu),
            ratio(row.database),
        ]);
    }
    output::print_table(&table)?;
    output::line(format_args!(
        "{FAINT}This build over the other one: the median of {pairs} pairs, and the least and the greatest. Measurements of \
         the engine and the transport alone run the same code on both sides and show how far chance goes.{FAINT:#}"
    ))
}

fn spelled_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Single => "single",
        Mode::Batch => "batch",
        Mode::Sdk => "sdk",
    }
}

fn not_measured(error: BenchError) -> CliError {
    if let BenchError::Unreachable(failure) = &error {
        return database_error(failure);
    }
    if let BenchError::MayNotCreate = &error {
        return CliError::new(Exit::Denied, "not_measured", error.to_string())
            .hint("as an administrator run ALTER ROLE … CREATEDB CREATEROLE, or name another user in --store");
    }
    let cause = std::error::Error::source(&error);
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    CliError::new(Exit::Failed, "not_measured", format!("{error}{cause}"))
        .hint("check that stores can be created at --store, and try again")
}

fn options(global_args: &GlobalArgs, arguments: &Arguments) -> Result<Options, CliError> {
    if !(0.01..=600.0).contains(&arguments.seconds) {
        let message = "--seconds must be between 0.01 and 600";
        return Err(CliError::usage("bad_seconds", message));
    }
    let program = std::env::current_exe().map_err(|error| {
        let message = format!("cannot determine the path of this program: {error}");
        CliError::new(Exit::Failed, "no_program", message)
    })?;
    let target = match (&global_args.url, &global_args.key) {
        (Some(url), Some(key)) => Target::Running { url: url.clone(), key: key.clone() },
        (Some(_), None) => {
            let message = "measuring a running server needs its key";
            return Err(CliError::usage("no_key", message).hint("give it with --key"));
        }
        (None, _) => own_target(arguments)?,
    };
    let extent = extent(arguments, &target)?;
    Ok(Options { span: Duration::from_secs_f64(arguments.seconds), target, program, extent })
}

fn own_target(arguments: &Arguments) -> Result<Target, CliError> {
    match &arguments.store {
        Some(url) if is_postgres(url) => {
            if !(1..=COORDINATORS_MAX).contains(&arguments.coordinators) {
                let message = format!("--coordinators must be between 1 and {COORDINATORS_MAX}");
                return Err(CliError::usage("bad_coordinators", message));
            }
            Ok(Target::Databases { url: url.clone(), coordinators: arguments.coordinators })
        }
        Some(folder) => Ok(Target::Own { folder: PathBuf::from(folder) }),
        None => Ok(Target::Own { folder: std::env::temp_dir() }),
    }
}

fn extent(arguments: &Arguments, target: &Target) -> Result<Extent, CliError> {
    if let Some(shape) = arguments.shape {
        return match target {
            Target::Running { .. } => {
                let message = "--shape measures servers that it starts, not a running one";
                Err(CliError::usage("bad_shape", message).hint("leave out --url"))
            }
            _ => Ok(Extent::Shape(shape)),
        };
    }
    match (arguments.old_snapshot, target) {
        (None, _) if arguments.long => Ok(Extent::Long),
        (None, _) => Ok(Extent::Usual),
        (Some(seconds), Target::Databases { .. }) if (0.1..=3600.0).contains(&seconds) => {
            Ok(Extent::OldSnapshot(Duration::from_secs_f64(seconds)))
        }
        (Some(_), Target::Databases { .. }) => {
            let message = "--old-snapshot must be between 0.1 and 3600 seconds";
            Err(CliError::usage("bad_seconds", message))
        }
        (Some(_), _) => {
            let message = "--old-snapshot needs a PostgreSQL database";
            Err(CliError::usage("postgres_only", message)
                .hint("give one with --store postgres://…"))
        }
    }
}

fn show_progress(what: &str, share: f64) {
    let filled = (share.clamp(0.0, 1.0) * BAR_WIDTH) as usize;
    let rest = BAR_WIDTH as usize - filled;
    let (bar, rest) = ("█".repeat(filled), "░".repeat(rest));
    // The progress bar is cosmetic, so a failed write is ignored.
    let _ = write!(anstream::stderr().lock(), "\r\x1b[K{FAINT}{bar}{rest}{FAINT:#} {what}");
}

fn clear_progress() {
    let _ = write!(anstream::stderr().lock(), "\r\x1b[K");
}

fn print(rows: &[Measurement]) -> Result<(), CliError> {
    let most = rows.iter().filter_map(|row| row.lifecycles_per_second).fold(1.0, f64::max);
    let heads = [
        "MEASUREMENT",
        "MODE",
        "AT ONCE",
        "PER SECOND",
        "OF CEILING",
        "P50 ms",
        "P99 ms",
        "CPU µs",
        "DATABASE µs",
        "CLIENT µs",
        "BYTES",
        "MiB",
        "",
    ];
    let mut table = output::table(&heads);
    for row in rows {
        table.add_row(cells(row, most));
    }
    for column in table.column_iter_mut().skip(2).take(10) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    output::print_table(&table)?;
    output::line(format_args!(
        "{FAINT}CPU and bytes are the server's, per lifecycle; for a database, bytes are those of its write-ahead log. Client and server share the cores of this machine.{FAINT:#}"
    ))
}

/// Prints each goal, its measured value and whether it was reached; a trial of a few moments says
/// little about that.
fn print_goals(goals: &[Goal]) -> Result<(), CliError> {
    output::line(format_args!("\nGoals on two cores with everything on one machine:"))?;
    for goal in goals {
        let (style, word) = if goal.is_met() { (GOOD, "met") } else { (WARN, "missed") };
        let side = match goal.side {
            Side::AtLeast => "at least",
            Side::AtMost => "at most",
        };
        let (measured, limit) = (spelled(goal.measured, goal.unit), spelled(goal.limit, goal.unit));
        output::line(format_args!(
            "{style}{word:<6}{style:#}  {measured:>10}, {side} {limit}: {}",
            goal.figure
        ))?;
    }
    Ok(())
}

fn spelled(figure: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond => format!("{figure:.0}/s"),
        Unit::Percent => format!("{figure:.0} %"),
        Unit::Milliseconds => format!("{figure:.1} ms"),
    }
}

fn cells(row: &Measurement, most: f64) -> Vec<Cell> {
    let number = |value: Option<f64>, digits: usize| {
        value.map(|value| format!("{value:.digits$}")).unwrap_or_default()
    };
    let share = row.lifecycles_per_second.zip(row.ceiling_per_second);
    let share = share.map(|(served, ceiling)| format!("{:.0} %", served / ceiling * 100.0));
    let mode = row.mode.map(spelled_mode).unwrap_or_default();
    let bar = row.lifecycles_per_second.map_or(0.0, |rate| rate / most * BAR_WIDTH);
    vec![
        Cell::new(&row.name),
        Cell::new(mode),
        Cell::new(row.concurrency.map(|count| count.to_string()).unwrap_or_default()),
        Cell::new(number(row.lifecycles_per_second, 0)),
        Cell::new(share.unwrap_or_default()),
        Cell::new(number(row.p50_ms, 2)),
        Cell::new(number(row.p99_ms, 2)),
        Cell::new(number(row.cpu_micros_per_lifecycle, 1)),
        Cell::new(number(row.database_micros_per_lifecycle, 1)),
        Cell::new(number(row.client_micros_per_lifecycle, 1)),
        Cell::new(number(row.bytes_per_lifecycle, 0)),
        Cell::new(number(row.rss_mib, 0)),
        Cell::new("▇".repeat(bar.ceil() as usize)),
    ]
}
