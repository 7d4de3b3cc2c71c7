//! `tenure workers`: who polls for what, and who holds leases.

use comfy_table::Cell;
use tenure::Client;
use wire::answers::{WorkerPolls, WorkerView, Workers};
use wire::requests::ListWorkers;
use wire::{Time, limits};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::{duration, server};

/// More workers than a person reads, and fewer than a terminal can hold.
const LIMIT_MAX: usize = 10_000;

/// The maximum page size of the server.
const PAGE: u32 = *limits::PAGE_ITEMS.end() as u32;

pub(crate) async fn run(client: Client, format: Format) -> CommandResult {
    let answer = all(&client).await?;
    if format == Format::Json {
        output::json(&answer.workers)?;
        return Ok(Exit::Done);
    }
    if answer.workers.is_empty() {
        output::note("no worker polls here or holds a lease; `tenure work` starts one");
    } else {
        print(&answer)?;
    }
    if answer.next_after.is_some() {
        output::note(format_args!("… and more workers; only the first {LIMIT_MAX} are listed"));
    }
    if answer.coordinators > 1 {
        output::note(format_args!(
            "leases are those of all {} coordinators; polls are those of the one that answered",
            answer.coordinators
        ));
    }
    Ok(Exit::Done)
}

/// The pages as one answer, up to a limit.
async fn all(client: &Client) -> Result<Workers, CliError> {
    let mut page = ListWorkers { after: None, limit: Some(PAGE) };
    let mut answer = client.workers().list().with(page.clone()).await.map_err(server::cli_error)?;
    while let Some(after) = answer.next_after.take_if(|_| answer.workers.len() < LIMIT_MAX) {
        page.after = Some(after);
        let next = client.workers().list().with(page.clone()).await.map_err(server::cli_error)?;
        answer.workers.extend(next.workers);
        answer.next_after = next.next_after;
    }
    Ok(answer)
}

fn print(answer: &Workers) -> Result<(), CliError> {
    let heads = ["WORKER", "POLLS FOR", "KINDS", "LEASES", "OLDEST", "HEARTBEAT", "EXPIRES"];
    let mut table = output::table(&heads);
    for worker in &answer.workers {
        table.add_row(row(worker, answer.server_time));
    }
    output::print_table(&table)
}

fn row(worker: &WorkerView, now: Time) -> [Cell; 7] {
    let leases = &worker.leases;
    let held: u64 = leases.iter().map(|leases| leases.count).sum();
    let oldest = leases.iter().map(|leases| leases.oldest_acquired_at).min();
    let heartbeat = leases.iter().map(|leases| leases.latest_heartbeat_at).max();
    let expires = leases.iter().map(|leases| leases.next_expires_at).min();
    let ago = |at: Option<Time>| at.map(|at| duration::between(at, now)).unwrap_or_default();
    [
        Cell::new(&worker.worker_id),
        Cell::new(names(&worker.polls, |polls| polls.queues.clone())),
        Cell::new(names(&worker.polls, |polls| {
            polls.kinds.clone().unwrap_or_else(|| vec!["every".to_owned()])
        })),
        Cell::new(held),
        Cell::new(ago(oldest)),
        Cell::new(heartbeat.map(|at| format!("{} ago", ago(Some(at)))).unwrap_or_default()),
        Cell::new(expires.map(|at| duration::between(now, at)).unwrap_or_default()),
    ]
}

/// The names that a worker's polls have, each once.
fn names(polls: &[WorkerPolls], of: impl Fn(&WorkerPolls) -> Vec<String>) -> String {
    let mut names: Vec<String> = polls.iter().flat_map(of).collect();
    names.sort_unstable();
    names.dedup();
    names.join(",")
}
