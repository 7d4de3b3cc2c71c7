//! The filters of `tenure runs list` and `tenure runs retry`, and the pages that match them.

use tenure::Client;
use wire::answers::Run;
use wire::requests::ListRuns;
use wire::{ErrorCategory, State, Time};

use crate::exit::CliError;
use crate::{duration, server};

/// What the runs have in common. All filters must match.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "filters", multiple = true)]
pub(crate) struct Filters {
    /// Only runs in this state
    #[arg(long, value_name = "STATE", value_parser = state)]
    pub(crate) state: Option<State>,
    /// Only runs of this queue
    #[arg(long, short)]
    queue: Option<String>,
    /// Only runs of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only runs with this label, or with any value of it; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    label: Vec<String>,
    /// Only runs submitted since this time, or within this duration, such as 2h
    #[arg(long, value_name = "TIME", value_parser = duration::parse_past)]
    pub(crate) since: Option<Time>,
    /// Only runs submitted before this time, or this duration ago
    #[arg(long, value_name = "TIME", value_parser = duration::parse_past)]
    until: Option<Time>,
    /// Only runs of this worker: it holds the lease, or had the latest attempt
    #[arg(long, value_name = "WORKER")]
    worker: Option<String>,
    /// Only runs that failed with this category, such as USER_CODE
    #[arg(long, value_name = "CATEGORY", value_parser = category)]
    category: Option<ErrorCategory>,
}

/// States are written in lower case, but `FAILED` is what people see in reports.
fn state(text: &str) -> Result<State, String> {
    text.to_lowercase().parse().map_err(|_| {
        "write queued, running, retry, waiting, succeeded, failed, halted or cancelled".to_owned()
    })
}

fn category(text: &str) -> Result<ErrorCategory, String> {
    let spelled = text.to_uppercase().replace('-', "_");
    spelled.parse::<ErrorCategory>().ok().filter(|it| *it != ErrorCategory::Cancelled).ok_or_else(
        || "write USER_CODE, DATA_QUALITY, INFRASTRUCTURE, CONFIGURATION or TIMEOUT".to_owned(),
    )
}

impl Filters {
    pub(crate) fn is_empty(&self) -> bool {
        self.request() == ListRuns::default()
    }

    /// The request for the first page.
    pub(crate) fn request(&self) -> ListRuns {
        let Filters { state, queue, kind, label, since, until, worker, category } = self.clone();
        ListRuns {
            state,
            queue,
            kind,
            label,
            since,
            until,
            worker,
            category,
            ..ListRuns::default()
        }
    }
}

/// Runs that a command looks at for a filter that few of them pass. A person waits some seconds for that many.
const SEARCHED_MAX: u64 = 100_000;

/// Whether more runs match than were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    Yes,
    No,
    /// The newest runs were searched, back to this time, and older ones were not.
    Unsearched {
        searched: u64,
        to: Time,
    },
}

impl More {
    /// Whether there may be more.
    pub(crate) fn is_possible(self) -> bool {
        self != More::No
    }
}

/// The newest runs that match, at most `limit`. A page may be short or empty before the last one.
pub(crate) async fn pages(
    client: &Client,
    mut query: ListRuns,
    limit: u32,
) -> Result<(Vec<Run>, More), CliError> {
    let (mut runs, mut searched): (Vec<Run>, u64) = (Vec::new(), 0);
    loop {
        let missing = limit - u32::try_from(runs.len()).unwrap_or(limit);
        query.limit = Some(missing.min(super::PAGE));
        let page = client.runs_with(query.clone()).await.map_err(server::cli_error)?;
        runs.extend(page.runs);
        searched += page.searched.unwrap_or(0);
        let full = runs.len() >= limit as usize;
        match page.next_cursor {
            Some(_) if full => return Ok((runs, More::Yes)),
            Some(cursor) => match page.searched_to.filter(|_| searched >= SEARCHED_MAX) {
                Some(to) => return Ok((runs, More::Unsearched { searched, to })),
                None => query.cursor = Some(cursor),
            },
            None => return Ok((runs, More::No)),
        }
    }
}
