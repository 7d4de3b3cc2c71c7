//! `tenure runs continue`: a new run that starts from the recorded steps of one that was halted, failed or was cancelled.

use tenure::Client;
use wire::requests::Budget;

use crate::exit::{CommandResult, Exit};
use crate::output::{self, Format};
use crate::server;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The id of a run that was halted, failed or was cancelled
    #[arg(value_name = "RUN")]
    id: String,
    /// What the new run may use, as in `cost=500000,tokens=20000,steps=50,tools=100,wall=10m,active=5m`; as much as the old run
    /// could without it
    #[arg(long, value_name = "LIMITS", value_parser = crate::budget::limits)]
    budget: Option<Budget>,
    /// The key of the first step to execute again; without it, all recorded steps are taken over
    #[arg(long, value_name = "KEY")]
    from_step: Option<String>,
    /// A repeated call with the same key returns the run that the first one made
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    let Arguments { id, budget, from_step, idempotency_key } = arguments;
    let id = super::run_id(&id);
    let mut fork = client.run(&id).fork();
    if let Some(budget) = budget {
        fork = fork.budget(budget);
    }
    if let Some(step) = from_step {
        fork = fork.from_step(step);
    }
    if let Some(key) = idempotency_key {
        fork = fork.key(key);
    }
    let accepted = fork.accepted().await.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&accepted)?,
        Format::People => {
            output::line(&accepted.run_id)?;
            output::note(format_args!(
                "it continues {id}; follow it with `tenure runs watch {}`",
                accepted.run_id
            ));
        }
    }
    Ok(Exit::Done)
}
