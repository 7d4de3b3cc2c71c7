//! A submission whose answer brings the end of the run along.

use std::time::Duration;

use wire::answers::RunAccepted;
use wire::limits::WAIT_MS;
use wire::requests::SubmitRun;

use super::{Call, Client, generate_key};
use crate::Error;
use crate::new_run::millis;

impl Client {
    /// Submits a run, and waits for its end up to `wait` in the same call. A repetition finds the run by its key.
    pub(crate) async fn submit_and_wait(
        &self,
        mut run: SubmitRun,
        wait: Duration,
    ) -> Result<RunAccepted, Error> {
        let key = run.idempotency_key.take().map_or_else(generate_key, Ok)?;
        let wait_ms = millis(wait).min(*WAIT_MS.end());
        let mut url = self.url(&["v1", "runs"])?;
        url.query_pairs_mut().append_pair("waitMs", &wait_ms.to_string());
        let call = Call::post(url, self.target.authorization.clone(), &run)?;
        self.transport.call(&call.idempotency_key(&key)?.with_wait(Some(wait_ms))).await
    }
}
