//! A submission whose answer brings the end of the run along.

use std::time::Duration;

use wire::Code;
use wire::answers::RunAccepted;
use wire::limits::WAIT_MS;
use wire::requests::SubmitRun;

use super::{Call, Client, generate_key};
use crate::Error;
use crate::new_run::millis;

impl Client {
    /// Submits a run, and waits for its end up to `wait` in the same call. A repetition finds the run by its key. While many
    /// callers wait, and at a coordinator that is older than such calls, it is submitted without waiting.
    pub(crate) async fn submit_and_wait(
        &self,
        mut run: SubmitRun,
        wait: Duration,
    ) -> Result<RunAccepted, Error> {
        if run.idempotency_key.is_none() {
            run.idempotency_key = Some(generate_key()?);
        }
        let alone = self.submissions_may_wait().then(|| self.wait_alone()).flatten();
        if alone.is_none() {
            return self.send_submission(run).await;
        }
        let wait_ms = millis(wait).min(*WAIT_MS.end());
        match self.submit_within(run.clone(), wait_ms).await {
            Err(error) if is_unknown_parameter(&error) => {
                self.note_submissions_cannot_wait();
                self.send_submission(run).await
            }
            accepted => accepted,
        }
    }

    /// A single run sends its key in the header; the member is for batches.
    async fn submit_within(&self, mut run: SubmitRun, wait_ms: u64) -> Result<RunAccepted, Error> {
        let key = run.idempotency_key.take().map_or_else(generate_key, Ok)?;
        let mut url = self.url(&["v1", "runs"])?;
        url.query_pairs_mut().append_pair("waitMs", &wait_ms.to_string());
        let call = Call::post(url, self.target.authorization.clone(), &run)?;
        self.transport.call(&call.idempotency_key(&key)?.with_wait(Some(wait_ms))).await
    }
}

fn is_unknown_parameter(error: &Error) -> bool {
    let field = error.problem().and_then(|problem| problem.field.as_deref());
    error.code() == Some(Code::InvalidArgument) && field == Some("waitMs")
}
