//! `tenure explain`: why a run is not running or has not ended.

use tenure::Client;
use wire::answers::{Explanation, Gate};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BOLD, FAINT, Format};
use crate::runs::run_id;
use crate::{duration, server};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The id of a run, or of its task
    #[arg(value_name = "RUN")]
    id: String,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    let answer = client.run(run_id(&arguments.id)).explain().await.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&answer)?,
        Format::People => print(&answer)?,
    }
    Ok(Exit::Done)
}

fn print(answer: &Explanation) -> Result<(), CliError> {
    let style = output::style_of(answer.state);
    let Explanation { run_id, state, .. } = answer;
    output::line(format_args!("{BOLD}{run_id}{BOLD:#}  {style}{state}{style:#}"))?;
    for gate in &answer.gates {
        print_gate(gate, answer.server_time)?;
    }
    Ok(())
}

fn print_gate(gate: &Gate, now: wire::Time) -> Result<(), CliError> {
    output::line(format_args!("{BOLD}{:<14}{BOLD:#} {}", gate.gate, gate.now))?;
    if let Some(change) = &gate.change {
        output::line(format_args!("{FAINT}{:>14}{FAINT:#} {change}", "changes with"))?;
    }
    if let Some(at) = gate.at {
        let left = match at > now {
            true => format!("in {}", duration::between(now, at)),
            false => "now".to_owned(),
        };
        output::line(format_args!("{FAINT}{:>14}{FAINT:#} {left} ({at})", "at the latest"))?;
    }
    Ok(())
}
