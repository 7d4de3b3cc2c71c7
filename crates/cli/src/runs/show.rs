//! `tenure runs show`: one run, with its settings, a timeline of its attempts and the trace of its error.

use tenure::Client;
use wire::answers::{BudgetView, HistoryEntry, Run, WaitingView};

use super::records::{self, RecordLine};
use super::timeline::Timeline;
use super::{decode, logs, plan_view};
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BOLD, FAINT, Format};
use crate::{duration, server};

/// What still fits a few screens.
const RECORDS_MAX: u32 = 500;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The id of a run, or of its task
    #[arg(value_name = "RUN")]
    id: String,
    /// A command that decodes payloads of a codec: it gets their bytes on stdin and prints the plain JSON
    #[arg(long, value_name = "COMMAND")]
    decode_with: Option<String>,
    /// Also print what its workers logged
    #[arg(long)]
    logs: bool,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    let id = &super::run_id(&arguments.id);
    let run = client.run(id).status().await.map_err(server::cli_error)?;
    let run = match &arguments.decode_with {
        Some(command) => decode::decoded(run, command).await?,
        None => run,
    };
    let lines = match arguments.logs {
        true => Some(client.run(id).logs().await.map_err(server::cli_error)?),
        false => None,
    };
    if format == Format::Json {
        match &lines {
            Some(logs) => output::json(&serde_json::json!({"run": run, "logs": logs}))?,
            None => output::json(&run)?,
        }
        return Ok(Exit::Done);
    }
    // No worker gets the root of a plan, so its history has no attempts, and its steps are drawn from the plan.
    let history = match run.plan_steps {
        Some(_) => Vec::new(),
        None => super::whole_history(&client, id).await?,
    };
    print(&run, &Timeline::of(&history, &run.refused))?;
    print_plan(&run)?;
    if run.plan_steps.is_none() {
        print_records(&client, &run, &history).await?;
    }
    print_stack_trace(&run)?;
    lines.map_or(Ok(Exit::Done), |lines| logs::print(&lines).map(|()| Exit::Done))
}

/// The steps of a plan and what became of them.
fn print_plan(run: &Run) -> Result<(), CliError> {
    let lines = plan_view::lines(run);
    if lines.is_empty() {
        return Ok(());
    }
    output::line("")?;
    lines.iter().try_for_each(output::line)
}

/// Steps, waits and children, on the scale of the attempts above.
async fn print_records(
    client: &Client,
    run: &Run,
    history: &[HistoryEntry],
) -> Result<(), CliError> {
    let Some(durable) = &run.durable else { return Ok(()) };
    let count = durable.steps.saturating_add(durable.children);
    if count > RECORDS_MAX {
        return output::line(format_args!(
            "\n{FAINT}{count} steps and children are too many to draw{FAINT:#}"
        ));
    }
    let records = client.run(&run.run_id).steps().await.map_err(server::cli_error)?;
    let lines = records::lines_of(&records, history, run);
    if lines.is_empty() {
        return Ok(());
    }
    output::line("")?;
    let (width, to) = (RecordLine::key_width(&lines), run.completed_at.unwrap_or(run.server_time));
    lines.iter().try_for_each(|line| output::line(line.draw(width, run.created_at, to)))
}

/// The trace as the worker sent it, below everything else: it may be long.
fn print_stack_trace(run: &Run) -> Result<(), CliError> {
    let trace = run.error.as_ref().and_then(|error| error.stack_trace.as_deref());
    let Some(trace) = trace.filter(|trace| !trace.trim().is_empty()) else { return Ok(()) };
    output::line(format_args!("\n{FAINT}stack trace{FAINT:#}"))?;
    trace.lines().try_for_each(|line| output::line(format_args!("  {line}")))
}

fn print(run: &Run, timeline: &Timeline) -> Result<(), CliError> {
    let style = output::style_of(run.state);
    output::line(format_args!(
        "{BOLD}{}{BOLD:#}  {} on {}  {style}{}{style:#}",
        run.run_id, run.kind, run.queue, run.state
    ))?;
    for (name, value) in facts(run) {
        output::line(format_args!("{FAINT}{name:>9}{FAINT:#}  {value}"))?;
    }
    if timeline.intervals.is_empty() {
        return Ok(());
    }
    output::line("")?;
    for line in timeline.lines(run.created_at, run.completed_at.unwrap_or(run.server_time)) {
        output::line(line)?;
    }
    Ok(())
}

fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let labels: Vec<String> = run.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let lost_max = run.lost_max.map(|most| format!(" of at most {most}")).unwrap_or_default();
    let limits = format!(
        "{} ({} failed of at most {}, {} lost{lost_max})",
        run.attempt, run.failures, run.max_attempts, run.lost
    );
    // The client generates a key for every submission without one: nobody will look for it.
    let key = run.idempotency_key.clone().filter(|key| !key.starts_with("auto-"));
    let worker = run.worker_id.clone().filter(|_| run.lease.is_none());
    let holder = run.lease.as_ref().map(|lease| {
        let progress = lease.progress_pct.map(|pct| format!(", {pct:.0} %")).unwrap_or_default();
        let message = lease.message.as_ref().map(|m| format!(", {m}")).unwrap_or_default();
        let left = duration::between(run.server_time, lease.expires_at);
        format!("{} with fence {}, {left} left{progress}{message}", lease.owner, lease.fence)
    });
    let cancel = run.cancel_requested_at.map(|at| match &run.cancel_reason {
        Some(reason) => format!("requested at {at}: {reason}"),
        None => format!("requested at {at}"),
    });
    let again =
        run.next_attempt_at.map(|at| format!("{} ({at})", super::list::until_next(run, at)));
    [
        ("created", Some(run.created_at.to_string())),
        (
            "ended",
            run.completed_at
                .map(|at| format!("{at}, after {}", duration::between(run.created_at, at))),
        ),
        ("attempts", Some(limits)),
        ("held by", holder),
        ("worker", worker),
        ("next try", again),
        ("not before", run.run_at.map(|at| at.to_string())),
        ("deadline", run.deadline.map(|at| at.to_string())),
        ("priority", Some(run.priority.to_string())),
        ("settings", settings(run)),
        ("cancel", cancel),
        ("waits for", waiting(run)),
        ("build", build(run)),
        ("signals", pending_signals(run)),
        ("children", children(run)),
        (
            "part of",
            run.parent.as_ref().map(|parent| format!("{}, as {}", parent.task_id, parent.key)),
        ),
        ("stalled", stalled(run)),
        ("retry of", run.retry_of.clone()),
        ("retried", (!run.retries.is_empty()).then(|| format!("by {}", run.retries.join(", ")))),
        ("continues", run.fork_of.clone()),
        ("continued", (!run.forks.is_empty()).then(|| format!("by {}", run.forks.join(", ")))),
        ("budget", run.budget.as_ref().map(budget_line).filter(|line| !line.is_empty())),
        ("flow", run.flow.as_ref().map(crate::flow::line)),
        ("key", key),
        ("labels", (!labels.is_empty()).then(|| labels.join(" "))),
        ("goal", run.goal.clone()),
        ("input", run.input.as_ref().filter(|i| !i.is_null()).map(|i| i.text().to_owned())),
        ("output", run.output.as_ref().map(|o| o.text().to_owned())),
        ("error", run.error.as_ref().map(super::reason)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}

/// What is used of each limit, and what is held for children.
fn budget_line(budget: &BudgetView) -> String {
    let (limits, used, held) = (&budget.limits, &budget.used, &budget.held);
    let units = [
        ("costMicros", limits.cost_micros, used.cost_micros, held.cost_micros),
        ("tokens", limits.tokens, used.tokens, held.tokens),
        ("steps", limits.steps, used.steps, held.steps),
        ("toolCalls", limits.tool_calls, used.tool_calls, held.tool_calls),
    ];
    let counted = units.into_iter().filter_map(|(name, limit, used, held)| {
        let held = if held > 0 { format!(", {held} held for children") } else { String::new() };
        match limit {
            Some(limit) => Some(format!("{name} {used} of {limit}{held}")),
            None => (used > 0).then(|| format!("{name} {used}")),
        }
    });
    let active = budget.left.active_ms.zip(budget.active_ms).map(|(left, most)| {
        let span = duration::format_exact;
        format!("active {} of {}", span(most.saturating_sub(left)), span(most))
    });
    let wall = budget.left.wall_ends_at.map(|at| format!("until {at}"));
    let warned = budget.warned.then(|| "soft limit crossed".to_owned());
    let parts: Vec<String> = counted.chain(active).chain(wall).chain(warned).collect();
    parts.join("; ")
}

/// What the run was submitted with. `None` from a server that does not say.
fn settings(run: &Run) -> Option<String> {
    let span = duration::format_exact;
    let retry = run.retry?;
    let mut settings = vec![
        format!("lease {}", span(run.lease_ms?)),
        format!("heartbeat every {}", span(run.heartbeat_interval_ms?)),
        format!("cancel grace {}", span(run.cancel_grace_ms?)),
        format!("retry after {} up to {}", span(retry.base_ms), span(retry.cap_ms)),
    ];
    let limit = run.resources.as_ref().and_then(|resources| resources.timeout_ms);
    let stall = run
        .stall
        .map(|it| format!("{} after {} without progress", it.action.name(), span(it.after_ms)));
    settings.extend(stall);
    settings.extend(run.ttl_ms.map(|ttl| format!("dropped if not taken within {}", span(ttl))));
    settings.extend(limit.map(|ms| format!("attempt limit {}", span(ms))));
    settings.extend(run.seed.map(|seed| format!("seed {seed}")));
    Some(settings.join(", "))
}

/// The worker lives and gets nowhere.
fn stalled(run: &Run) -> Option<String> {
    let lease = run.lease.as_ref()?;
    let (since, at) = (lease.progressed_at?, lease.stalled_at?);
    Some(format!("no progress since {since}, noticed at {at}"))
}

/// Why a durable run has no worker, and what to do about a divergence.
fn waiting(run: &Run) -> Option<String> {
    let waiting = run.durable.as_ref()?.waiting.as_ref()?;
    let WaitingView { wait, ready_at, diverged, ending } = waiting;
    if let Some(wait) = wait {
        let expires_at = wait.items.iter().filter_map(|item| item.expires_at).min();
        let limit = match (wait.count, expires_at) {
            // The expiry of the only thing that is awaited ends the wait, and is named with it.
            (1, Some(_)) => String::new(),
            _ => format!(" (at most until {})", wait.gives_up_at),
        };
        return Some(format!("{}{limit}", records::awaited(wait)));
    }
    if let Some(it) = diverged {
        let branch = if it.branch.is_empty() { "its own branch" } else { &it.branch };
        return Some(format!(
            "an operator: its code does not match what it recorded; in {branch}, operation {}, recorded {}, now {}. \
             Deploy code that matches, then `tenure runs resume {}`",
            it.index, it.recorded, it.actual, run.run_id
        ));
    }
    if let Some(ending) = ending {
        return Some(format!("the end of its children; then it is {}", ending.state));
    }
    ready_at.map(|at| format!("a worker, since {at}"))
}

fn build(run: &Run) -> Option<String> {
    let build = run.durable.as_ref()?.build.as_ref()?;
    let pinned = if build.pinned { ", which alone may continue it" } else { "" };
    Some(format!("{}{pinned}", build.id))
}

fn pending_signals(run: &Run) -> Option<String> {
    let pending = run.durable.as_ref()?.pending_signals;
    (pending > 0).then(|| format!("{pending} not taken yet"))
}

fn children(run: &Run) -> Option<String> {
    let durable = run.durable.as_ref()?;
    let (all, live) = (durable.children, durable.live_children);
    (all > 0).then(|| format!("{all} started, {live} not ended"))
}
