//! Lists of runs, with filters.

use futures_util::future::BoxFuture;
use wire::answers::RunList;
use wire::requests::ListRuns;
use wire::{ErrorCategory, State, Time};

use super::Client;
use crate::Error;

/// A page of runs, newest first; await it to read it.
///
/// ```no_run
/// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
/// let mut page = client.runs().state(tenure::State::Failed).queue("images").await?;
/// while let Some(cursor) = page.next_cursor {
///     page = client.runs().state(tenure::State::Failed).queue("images").cursor(cursor).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is read until this is awaited"]
pub struct RunsRequest {
    client: Client,
    filters: ListRuns,
}

impl Client {
    /// One page of runs. Only a page without a `next_cursor` is the last: a page may be short, or empty,
    /// before that.
    pub fn runs(&self) -> RunsRequest {
        self.runs_with(ListRuns::default())
    }

    /// [`Client::runs`] with all its filters at once, for programs that use the wire's own shape.
    pub fn runs_with(&self, filters: ListRuns) -> RunsRequest {
        RunsRequest { client: self.clone(), filters }
    }
}

impl RunsRequest {
    pub fn state(mut self, state: State) -> RunsRequest {
        self.filters.state = Some(state);
        self
    }

    pub fn queue(mut self, queue: impl Into<String>) -> RunsRequest {
        self.filters.queue = Some(queue.into());
        self
    }

    pub fn kind(mut self, kind: impl Into<String>) -> RunsRequest {
        self.filters.kind = Some(kind.into());
        self
    }

    /// Only runs whose label has this value. Every label that is given must match.
    pub fn label(mut self, name: &str, value: &str) -> RunsRequest {
        self.filters.label.push(format!("{name}={value}"));
        self
    }

    /// Only runs that have this label, whatever its value.
    pub fn has_label(mut self, name: impl Into<String>) -> RunsRequest {
        self.filters.label.push(name.into());
        self
    }

    /// Only runs that were submitted at this time or later.
    pub fn since(mut self, time: Time) -> RunsRequest {
        self.filters.since = Some(time);
        self
    }

    /// Only runs that were submitted before this time.
    pub fn until(mut self, time: Time) -> RunsRequest {
        self.filters.until = Some(time);
        self
    }

    /// Only runs whose lease this worker holds, or whose latest attempt it had.
    pub fn worker(mut self, worker_id: impl Into<String>) -> RunsRequest {
        self.filters.worker = Some(worker_id.into());
        self
    }

    /// Only runs that ended with a failure of this category.
    pub fn category(mut self, category: ErrorCategory) -> RunsRequest {
        self.filters.category = Some(category);
        self
    }

    /// At most this many runs in a page.
    pub fn limit(mut self, runs: u32) -> RunsRequest {
        self.filters.limit = Some(runs);
        self
    }

    /// Continues after an earlier page: its `next_cursor`.
    pub fn cursor(mut self, cursor: impl Into<String>) -> RunsRequest {
        self.filters.cursor = Some(cursor.into());
        self
    }

    /// Includes each run's input, which a list leaves out.
    pub fn include_input(self) -> RunsRequest {
        self.include("input")
    }

    /// Includes each run's output, which a list leaves out.
    pub fn include_output(self) -> RunsRequest {
        self.include("output")
    }

    /// Includes the stack trace of each run's error, which a list leaves out.
    pub fn include_stack_trace(self) -> RunsRequest {
        self.include("stackTrace")
    }

    fn include(mut self, body: &str) -> RunsRequest {
        self.filters.include = match self.filters.include.take() {
            Some(bodies) => Some(format!("{bodies},{body}")),
            None => Some(body.to_owned()),
        };
        self
    }
}

impl IntoFuture for RunsRequest {
    type Output = Result<RunList, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.client.get_json(&["v1", "runs"], &self.filters).await })
    }
}
