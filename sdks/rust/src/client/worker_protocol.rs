//! The calls of a worker, one by one, for programs with their own worker loop.
//!
//! Nothing here applies the rules of leases, such as when to send a heartbeat and when to stop;
//! [`crate::Worker`] does.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::answers::{
    CheckpointAck, CheckpointAnswers, Checkpoints, CompletedAck, HeartbeatAck, HeartbeatAnswers,
    Leases, ReportAnswers, StartAnswers, StartedAck,
};
use wire::requests::{
    CheckpointCall, CheckpointCalls, CheckpointItem, Completed, Heartbeat, Heartbeats,
    LeaseRequest, RecordsQuery, Report, Reports, Started, Starts,
};

use super::{Client, bearer};
use crate::Error;
use crate::transport::Call;

impl Client {
    /// Polls for work. A repetition with the same `pollId` returns what the first poll was granted.
    pub async fn lease(&self, request: &LeaseRequest) -> Result<Leases, Error> {
        let call = self.post(&["v1", "leases"], request)?.with_wait(request.wait_ms);
        self.transport.call(&call).await
    }

    /// Reports that execution begins.
    pub async fn started(
        &self,
        task_id: &str,
        task_token: &str,
        body: &Started,
    ) -> Result<StartedAck, Error> {
        self.task_call(task_id, "started", task_token, body).await
    }

    /// Sends a heartbeat, which renews the lease.
    pub async fn heartbeat(
        &self,
        task_id: &str,
        task_token: &str,
        body: &Heartbeat,
    ) -> Result<HeartbeatAck, Error> {
        self.task_call(task_id, "heartbeat", task_token, body).await
    }

    /// Reports the outcome of the attempt.
    pub async fn completed(
        &self,
        task_id: &str,
        task_token: &str,
        body: &Completed,
    ) -> Result<CompletedAck, Error> {
        self.task_call(task_id, "completed", task_token, body).await
    }

    /// Records steps of a durable run, starts children and waits, in one call that takes effect as a whole.
    pub async fn checkpoint(
        &self,
        task_id: &str,
        task_token: &str,
        body: &CheckpointCall,
    ) -> Result<CheckpointAck, Error> {
        self.task_call(task_id, "checkpoints", task_token, body).await
    }

    /// Many calls with checkpoints at once, one answer each.
    pub async fn checkpoints(&self, batch: &CheckpointCalls) -> Result<CheckpointAnswers, Error> {
        self.checkpoints_of(batch.checkpoints.iter()).await
    }

    /// [`Client::checkpoints`] without a copy of the calls.
    pub(crate) async fn checkpoints_of<'a>(
        &self,
        checkpoints: impl Iterator<Item = &'a CheckpointItem>,
    ) -> Result<CheckpointAnswers, Error> {
        #[derive(Serialize)]
        struct Batch<'a> {
            checkpoints: Vec<&'a CheckpointItem>,
        }
        let batch = Batch { checkpoints: checkpoints.collect() };
        self.transport.call(&self.post(&["v1", "checkpoints"], &batch)?).await
    }

    /// What a task has recorded after the checkpoint with this number, a page of it.
    pub async fn checkpoints_after(
        &self,
        task_id: &str,
        task_token: &str,
        number: u32,
    ) -> Result<Checkpoints, Error> {
        let query = RecordsQuery { after: Some(number), limit: None };
        let call = self.get(&["v1", "tasks", task_id, "checkpoints"], &query)?;
        self.transport.call(&call.authorization(bearer(task_token)?)).await
    }

    /// Many reports at once, one verdict each.
    pub async fn reports(&self, batch: &Reports) -> Result<ReportAnswers, Error> {
        self.transport.call(&self.post(&["v1", "reports"], batch)?).await
    }

    /// The call of [`Client::reports`], without a copy of the reports.
    pub(crate) fn reports_call<'a>(
        &self,
        reports: impl Iterator<Item = &'a Report>,
    ) -> Result<Call, Error> {
        #[derive(Serialize)]
        struct Batch<'a> {
            reports: Vec<&'a Report>,
        }
        let batch = Batch { reports: reports.collect() };
        self.post(&["v1", "reports"], &batch)
    }

    pub(crate) async fn send_reports(&self, call: &Call) -> Result<ReportAnswers, Error> {
        self.transport.call(call).await
    }

    /// Many starts at once, one answer each.
    pub async fn starts(&self, batch: &Starts) -> Result<StartAnswers, Error> {
        self.transport.call(&self.post(&["v1", "starts"], batch)?).await
    }

    /// [`Client::starts`] with a time limit for the answer.
    pub(crate) async fn starts_with_timeout(
        &self,
        batch: &Starts,
        timeout: Duration,
    ) -> Result<StartAnswers, Error> {
        self.transport.call(&self.post(&["v1", "starts"], batch)?.with_timeout(timeout)).await
    }

    /// Many heartbeats at once, one answer each.
    pub async fn heartbeats(&self, batch: &Heartbeats) -> Result<HeartbeatAnswers, Error> {
        self.transport.call(&self.post(&["v1", "heartbeats"], batch)?).await
    }

    /// [`Client::heartbeats`] with a time limit for the answer.
    pub(crate) async fn heartbeats_with_timeout(
        &self,
        batch: &Heartbeats,
        timeout: Duration,
    ) -> Result<HeartbeatAnswers, Error> {
        self.transport.call(&self.post(&["v1", "heartbeats"], batch)?.with_timeout(timeout)).await
    }

    async fn task_call<T: DeserializeOwned>(
        &self,
        task_id: &str,
        what: &str,
        task_token: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let url = self.url(&["v1", "tasks", task_id, what])?;
        self.transport.call(&Call::post(url, bearer(task_token)?, body)?).await
    }
}
