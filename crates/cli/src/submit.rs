//! `tenure submit`: submits a run, and optionally waits for its end.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wire::answers::{Run, RunAccepted};
use wire::limits::PAYLOAD_BYTES_MAX;
use wire::requests::{Resources, Retry, Stall, StallAction, SubmitRun};
use wire::{Json, State};

use crate::duration::When;
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::{duration, kinds, plan, server, submit_from};

/// How long the submission itself waits for the end of the run. Short runs need no other call; of a longer one people want
/// to know the id.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// More would try for hours.
const RETRIES_MAX: i64 = 1_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Kind of the run: what a worker must be able to do
    #[arg(required_unless_present_any = ["from", "plan"])]
    kind: Option<String>,
    /// Queue where the run waits for a worker
    #[arg(long, short, required_unless_present_any = ["from", "plan"])]
    queue: Option<String>,
    /// A YAML or JSON file with the steps of the run, instead of a kind and a queue; `-` is stdin. See `tenure plan check`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "queue", "from", "input", "input_file"])]
    plan: Option<PathBuf>,
    /// Submit many runs: a file with a run per line, as JSON, such as {"kind":"k","queue":"q","input":1}; `-` is stdin.
    /// Other flags give what the lines omit
    #[arg(long, value_name = "FILE", conflicts_with_all = ["wait", "idempotency_key"])]
    from: Option<PathBuf>,
    /// Idempotency keys for the lines of --from, PREFIX-1, PREFIX-2 and so on: makes it safe to repeat the command
    #[arg(long, value_name = "PREFIX", requires = "from")]
    key_prefix: Option<String>,
    /// How often a batch of --from is sent again while no server answers [default: 10, for about 40 seconds]
    #[arg(long, value_name = "N", requires = "from", value_parser = clap::value_parser!(u16).range(..=RETRIES_MAX))]
    retries: Option<u16>,
    /// The input, as JSON; `-` reads it from stdin
    #[arg(long, value_name = "JSON", conflicts_with = "input_file", allow_hyphen_values = true)]
    input: Option<String>,
    /// A file that holds the input, as JSON; `-` is stdin
    #[arg(long, value_name = "FILE")]
    input_file: Option<PathBuf>,
    /// Priority; higher goes first
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    priority: Option<i32>,
    /// Number of failed attempts that ends the run [default: the server's, usually 3]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Number of lost workers that ends the run [default: the server's, usually 3]
    #[arg(long, value_name = "N")]
    lost_max: Option<u32>,
    /// How long a worker may go without a heartbeat before it loses the run [default: the server's, usually 90000]
    #[arg(long, value_name = "MS")]
    lease_ms: Option<u64>,
    /// Interval between heartbeats of a worker [default: a third of the lease]
    #[arg(long, value_name = "MS")]
    heartbeat_ms: Option<u64>,
    /// How long a worker may take to stop after a cancel [default: the server's, usually 30000]
    #[arg(long, value_name = "MS")]
    cancel_grace_ms: Option<u64>,
    /// Count an attempt as stalled after this time without progress, such as 30s
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    stall_after: Option<Duration>,
    /// What to do about a stalled attempt: warn, cancel or requeue [default: warn]
    #[arg(long, value_name = "ACTION", value_parser = stall_action, requires = "stall_after")]
    on_stall: Option<StallAction>,
    /// Start no earlier than after this time, such as 10m
    #[arg(long, value_name = "SPAN", value_parser = duration::parse, conflicts_with = "run_at")]
    delay: Option<Duration>,
    /// Start no earlier than at this time, such as 2026-03-01T12:00:00Z, or after this duration
    #[arg(long, value_name = "INSTANT|SPAN", value_parser = duration::parse_when)]
    run_at: Option<When>,
    /// Fail the run if it has not ended by this time, or within this duration, such as 10m
    #[arg(long, value_name = "INSTANT|SPAN", value_parser = duration::parse_when)]
    deadline: Option<When>,
    /// Drop the run if no worker has taken it within this time, such as 10m; a run that was taken is not touched
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// What the run is for, in your words; part of its record
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// What the run may use, such as cost=500000,tokens=20000,steps=50,tools=100,wall=10m,active=5m (cost in millionths)
    #[arg(long, value_name = "LIMITS", value_parser = crate::budget::limits)]
    budget: Option<wire::requests::Budget>,
    #[command(flatten)]
    flow: crate::flow::FlowArguments,
    /// A label to find the run by; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Seed that makes the pauses between retries reproducible
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The pause before the first retry; doubles from there [default: 5000]
    #[arg(long, value_name = "MS")]
    retry_base_ms: Option<u64>,
    /// The longest pause before a retry [default: 300000]
    #[arg(long, value_name = "MS")]
    retry_cap_ms: Option<u64>,
    /// How long one attempt may take
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,
    /// Key for safe repeats: the same key finds the run instead of creating another
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Submit only if the input fits a schema that a worker announced for this kind and queue
    #[arg(long, conflicts_with_all = ["from", "plan"])]
    check: bool,
    /// Wait for the end of the run; the exit code says how it ended
    #[arg(long)]
    wait: bool,
    /// Stop waiting after this time, such as 30s; the run continues
    #[arg(long, value_name = "SPAN", value_parser = duration::parse, requires = "wait")]
    timeout: Option<Duration>,
}

pub(crate) async fn run(
    client: tenure::Client,
    format: Format,
    mut arguments: Arguments,
) -> CommandResult {
    if let Some(file) = arguments.from.take() {
        let (key_prefix, retries) = (arguments.key_prefix.take(), arguments.retries.take());
        let defaults = arguments.into_request()?;
        let source = submit_from::Source { file: &file, key_prefix, defaults, retries };
        return submit_from::run(client, format, source).await;
    }
    let (wait, timeout, check) = (arguments.wait, arguments.timeout, arguments.check);
    let request = arguments.into_request()?;
    if check {
        kinds::check(&client, &request).await?;
    }
    if !wait {
        let accepted = client.submit_run(request).accept().await.map_err(server::cli_error)?;
        return announce(format, &accepted);
    }
    let begun = tokio::time::Instant::now();
    let first_wait = timeout.map_or(FIRST_WAIT, |timeout| timeout.min(FIRST_WAIT));
    let accepted = client.submit_run(request).accept_within(first_wait).await;
    let accepted = accepted.map_err(server::cli_error)?;
    if let Some(run) = &accepted.run {
        return report(format, run);
    }
    let timeout = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
    let run = server::with_long_retries(client).run(accepted.run_id.clone());
    let waiting = async {
        if format == Format::People {
            output::note(format_args!("waiting for {}", accepted.run_id));
        }
        match timeout {
            Some(timeout) => run.wait_timeout(timeout).await,
            None => run.wait().await,
        }
    };
    tokio::select! {
        // Polled first: whoever reads that the command waits can interrupt it.
        biased;
        _ = tokio::signal::ctrl_c() => Err(interrupted(&accepted.run_id)),
        ended = waiting => report(format, &ended.map_err(server::cli_error)?),
    }
}

/// Ctrl-C ends the wait, not the run, and the person who pressed it may expect either.
fn interrupted(run_id: &str) -> CliError {
    let message = format!("stopped waiting; {run_id} goes on");
    CliError::new(Exit::Interrupted, "interrupted", message).hint(format!(
        "follow it with `tenure runs watch {run_id}`, or stop it with `tenure runs cancel {run_id}`"
    ))
}

impl Arguments {
    fn into_request(self) -> Result<SubmitRun, CliError> {
        let retry = Retry { base_ms: self.retry_base_ms, cap_ms: self.retry_cap_ms };
        let resources = Resources { timeout_ms: self.timeout_ms, ..Resources::default() };
        let file = self.plan.as_deref().map(plan::of_file).transpose()?;
        if let Some(name) = self.plan.as_deref()
            && file.as_ref().is_some_and(plan::reading::PlanFile::is_scheduled)
        {
            let name = name.display();
            output::note(format_args!(
                "{name} has a schedule; this submits it once, and `tenure schedules create NAME --plan {name}` makes the schedule"
            ));
        }
        // What a flag says counts, and not what the file says.
        let of_file = file.map(plan::reading::PlanFile::into_run).unwrap_or_default();
        let mut labels = of_file.labels;
        labels.extend(unique(self.labels)?);
        let deadline_ms = self.deadline.is_none().then_some(of_file.deadline_ms).flatten();
        Ok(SubmitRun {
            plan: of_file.plan,
            input: input(self.input, self.input_file.as_deref())?,
            kind: self.kind.unwrap_or_default(),
            queue: self.queue.unwrap_or_default(),
            priority: self.priority,
            max_attempts: self.max_attempts,
            lost_max: self.lost_max,
            lease_ms: self.lease_ms,
            heartbeat_interval_ms: self.heartbeat_ms,
            cancel_grace_ms: self.cancel_grace_ms,
            stall: self.stall_after.map(|after| Stall {
                after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
                action: self.on_stall.unwrap_or_default(),
            }),
            run_at: self.run_at.and_then(When::instant),
            delay_ms: self.delay.map(When::In).or(self.run_at).and_then(When::span_ms),
            deadline: self.deadline.and_then(When::instant),
            deadline_ms: self.deadline.and_then(When::span_ms).or(deadline_ms),
            ttl_ms: self.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
            seed: self.seed,
            goal: self.goal.or(of_file.goal),
            labels,
            budget: self.budget.or(of_file.budget),
            flow: self.flow.flow()?,
            retry: (retry != Retry::default()).then_some(retry),
            idempotency_key: self.idempotency_key,
            resources: (resources != Resources::default()).then_some(resources),
            ..SubmitRun::default()
        })
    }
}

fn stall_action(text: &str) -> Result<StallAction, String> {
    StallAction::parse(text).ok_or_else(|| "write warn, cancel or requeue".to_owned())
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write a label as name=value")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Of two values for one label, neither is more likely to be meant.
fn unique(labels: Vec<(String, String)>) -> Result<BTreeMap<String, String>, CliError> {
    let mut values = BTreeMap::new();
    for (name, value) in labels {
        if let Some(first) = values.insert(name.clone(), value.clone()) {
            let message = format!("--label {name} is given twice, as `{first}` and as `{value}`");
            return Err(CliError::usage("label_repeated", message).hint("give each label once"));
        }
    }
    Ok(values)
}

pub(crate) fn input(text: Option<String>, file: Option<&Path>) -> Result<Json, CliError> {
    let (text, origin) = match (text, file) {
        (Some(text), _) if text == "-" => (read(Path::new("-"))?, "stdin".to_owned()),
        (Some(text), _) => (text, "--input".to_owned()),
        (None, Some(file)) => (read(file)?, file.display().to_string()),
        (None, None) => return Ok(Json::null()),
    };
    Json::from_text(text).map_err(|error| {
        let message = format!("the input from {origin} is not valid JSON: {error}");
        CliError::usage("invalid_input", message)
            .hint("quote it for the shell, as in --input '{\"name\":\"Ada\"}'")
    })
}

pub(crate) fn read(file: &Path) -> Result<String, CliError> {
    let mut text = String::new();
    // One byte more than allowed distinguishes "too large" from "just fits" without reading
    // everything.
    let limit = PAYLOAD_BYTES_MAX as u64 + 1;
    let outcome = if file == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(limit).read_to_string(&mut text))
    };
    outcome.map_err(|error| {
        let message = format!("cannot read the input from {}: {error}", file.display());
        CliError::usage("input_unreadable", message)
    })?;
    if text.len() > PAYLOAD_BYTES_MAX {
        let message = format!("the input is larger than {PAYLOAD_BYTES_MAX} bytes");
        return Err(CliError::usage("input_too_large", message)
            .hint("store the data elsewhere and submit a reference to it"));
    }
    Ok(text)
}

fn announce(format: Format, accepted: &RunAccepted) -> CommandResult {
    match format {
        Format::Json => output::json(accepted)?,
        Format::People => {
            output::line(&accepted.run_id)?;
            if accepted.replayed == Some(true) {
                output::note("this idempotency key was used before; this is the existing run");
            }
            output::note(format_args!("follow it with `tenure runs watch {}`", accepted.run_id));
        }
    }
    Ok(Exit::Done)
}

/// Prints the run's output on stdout and its result on stderr.
fn report(format: Format, run: &Run) -> CommandResult {
    if format == Format::Json {
        output::json(run)?;
    } else {
        if let Some(result) = &run.output {
            output::line(result.text())?;
        }
        output::note(ending(run));
    }
    Ok(Exit::of_run(run.state))
}

pub(crate) fn ending(run: &Run) -> String {
    let style = output::style_of(run.state);
    if !run.state.is_terminal() {
        let Run { run_id, state, .. } = run;
        return format!(
            "stopped waiting; {run_id} is still {state}; `tenure explain {run_id}` says why"
        );
    }
    let took = run.completed_at.map(|at| duration::between(run.created_at, at)).unwrap_or_default();
    let attempts = match run.attempt {
        0 => "no attempt".to_owned(),
        n => output::count(n.into(), "attempt"),
    };
    let why = match (&run.error, run.state) {
        (Some(error), State::Failed | State::Halted | State::Cancelled) => {
            format!(": {}", crate::runs::reason(error))
        }
        _ => String::new(),
    };
    format!("{style}{}{style:#} after {took} and {attempts}{why}", run.state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_keeps_its_bytes() {
        let json = input(Some("{\"b\": 1.0,  \"a\":2}".to_owned()), None).unwrap();
        assert_eq!(json.text(), "{\"b\": 1.0,  \"a\":2}");
        assert!(input(None, None).unwrap().is_null());
    }

    #[test]
    fn input_that_is_not_json_is_refused_with_a_hint() {
        let cli_error = input(Some("{name: Ada}".to_owned()), None).unwrap_err();
        assert_eq!((cli_error.exit, cli_error.code.as_str()), (Exit::Usage, "invalid_input"));
        assert!(cli_error.hint.unwrap().contains("quote"));
    }

    #[test]
    fn an_input_file_is_read_up_to_the_limit_of_the_wire() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("input.json");
        std::fs::write(&file, format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 2))).unwrap();
        assert_eq!(input(None, Some(&file)).unwrap().text().len(), PAYLOAD_BYTES_MAX);
        std::fs::write(&file, format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 1))).unwrap();
        assert_eq!(input(None, Some(&file)).unwrap_err().code, "input_too_large");
    }

    #[test]
    fn a_label_has_one_value() {
        let labels = |names: [&str; 2]| unique(names.map(|name| (name.into(), "v".into())).into());
        assert_eq!(labels(["a", "b"]).unwrap().len(), 2);
        let cli_error = labels(["a", "a"]).unwrap_err();
        assert_eq!((cli_error.exit, cli_error.code.as_str()), (Exit::Usage, "label_repeated"));
    }

    #[test]
    fn labels_are_split_at_the_first_equals_sign() {
        assert_eq!(label("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(label("alone").is_err());
    }
}
