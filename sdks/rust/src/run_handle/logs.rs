//! The lines that workers logged about a run.

use wire::answers::{LoggedLine, Logs};
use wire::requests::LogsQuery;

use super::RunHandle;
use crate::Error;

impl<O> RunHandle<O> {
    /// The lines that workers logged about the run, oldest first: of each attempt the newest 64 KiB.
    pub async fn logs(&self) -> Result<Vec<LoggedLine>, Error> {
        let mut lines = Vec::new();
        let mut next = LogsQuery::default();
        loop {
            let page = self.logs_page(&next).await?;
            lines.extend(page.lines);
            if page.next_after.is_none() {
                return Ok(lines);
            }
            next.after = page.next_after;
        }
    }

    /// A page of these lines. Only a page without `next_after` is the last.
    pub async fn logs_page(&self, page: &LogsQuery) -> Result<Logs, Error> {
        self.client.get_json(&["v1", "runs", &self.id, "logs"], page).await
    }
}
