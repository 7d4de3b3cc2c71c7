//! `tenure queues`.

use comfy_table::Cell;
use tenure::Client;

use crate::exit::{CommandResult, Exit};
use crate::output::{self, Format};
use crate::{duration, server};

pub(crate) async fn run(client: Client, format: Format) -> CommandResult {
    let answer = client.queues().await.map_err(server::cli_error)?;
    if format == Format::Json {
        output::json(&answer.queues)?;
        return Ok(Exit::Done);
    }
    if answer.queues.is_empty() {
        output::note("no tasks are waiting or running");
        return Ok(Exit::Done);
    }
    let mut table = output::table(&["QUEUE", "READY", "DELAYED", "RUNNING", "OLDEST"]);
    for queue in &answer.queues {
        let oldest = queue.oldest_ready_at.map(|at| duration::between(at, duration::now()));
        table.add_row([
            Cell::new(&queue.queue),
            Cell::new(queue.ready),
            Cell::new(queue.delayed),
            Cell::new(queue.running),
            Cell::new(oldest.unwrap_or_default()),
        ]);
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}
