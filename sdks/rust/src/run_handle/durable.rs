//! What a client asks of a durable run: signals for it, what it has recorded, its children, and another chance after its
//! code was mended.

use futures_util::future::BoxFuture;
use serde::Serialize;
use wire::Json;
use wire::answers::{
    Checkpoint, ChildView, Children, Run, RunResumed, RunUnpinned, SignalAccepted, Steps,
};
use wire::requests::{GetRun, RecordsQuery, ResumeRun, SendSignal, UnpinRun};

use super::RunHandle;
use crate::Error;
use crate::payload::encode_payload;

impl<O> RunHandle<O> {
    /// Sends a value to the run, by name. The run takes it when its function awaits a signal of this name, now or
    /// later; signals of one name are taken in the order in which they were sent.
    ///
    /// ```no_run
    /// # async fn example(run: tenure::RunHandle) -> Result<(), tenure::Error> {
    /// run.signal("approve", &"Ada").await?;
    /// # Ok(()) }
    /// ```
    pub fn signal(
        &self,
        name: impl Into<String>,
        payload: &(impl Serialize + ?Sized),
    ) -> SignalRequest {
        let payload = encode_payload(&payload)
            .and_then(|payload| self.client.codec().seal(payload))
            .map_err(|problem| Error::Setup(format!("the payload of the signal {problem}")));
        SignalRequest { run: self.untyped(), name: name.into(), payload, key: None }
    }

    /// Everything that the run has recorded: steps, waits, and the starts and ends of children, in the order of the
    /// commits.
    pub async fn steps(&self) -> Result<Vec<Checkpoint>, Error> {
        let mut steps = Vec::new();
        let mut next = RecordsQuery::default();
        loop {
            let page = self.steps_page(&next).await?;
            steps.extend(page.steps);
            if page.next_after.is_none() {
                return Ok(steps);
            }
            next.after = page.next_after;
        }
    }

    /// A page of what the run has recorded. Only a page without `next_after` is the last.
    pub async fn steps_page(&self, page: &RecordsQuery) -> Result<Steps, Error> {
        self.client.get_json(&["v1", "runs", &self.id, "steps"], page).await
    }

    /// The children of the run, in the order in which they were started.
    pub async fn children(&self) -> Result<Vec<ChildView>, Error> {
        let mut children = Vec::new();
        let mut next = RecordsQuery::default();
        loop {
            let page = self.children_page(&next).await?;
            children.extend(page.children);
            if page.next_after.is_none() {
                return Ok(children);
            }
            next.after = page.next_after;
        }
    }

    /// A page of the run's children. Only a page without `next_after` is the last.
    pub async fn children_page(&self, page: &RecordsQuery) -> Result<Children, Error> {
        self.client.get_json(&["v1", "runs", &self.id, "children"], page).await
    }

    /// The run as it is now, with at most this many of its descendants as a tree.
    pub async fn tree(&self, descendants: u32) -> Result<Run, Error> {
        let query = GetRun { wait_ms: None, tree: Some(descendants) };
        self.client.get_json(&["v1", "runs", &self.id], &query).await
    }

    /// Lets a run that was stopped as diverged continue: deploy code that fits its record first.
    pub async fn resume(&self) -> Result<RunResumed, Error> {
        self.client.post_json(&["v1", "runs", &self.id, "resume"], &ResumeRun {}).await
    }

    /// Lets workers of every build continue a run that is pinned to one. If their code does not fit its record, the run stops
    /// as diverged.
    pub async fn unpin(&self) -> Result<RunUnpinned, Error> {
        self.client.post_json(&["v1", "runs", &self.id, "unpin"], &UnpinRun {}).await
    }
}

/// A signal, sent by awaiting it.
#[derive(Debug)]
#[must_use = "nothing is sent until this is awaited"]
pub struct SignalRequest {
    run: RunHandle,
    name: String,
    payload: Result<Json, Error>,
    key: Option<String>,
}

impl SignalRequest {
    /// An idempotency key: a repeated signal under the same key is recorded once. Without one, each is recorded.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> SignalRequest {
        self.key = Some(key.into());
        self
    }

    async fn send(self) -> Result<SignalAccepted, Error> {
        let SignalRequest { run, name, payload, key } = self;
        let signal = SendSignal { name, payload: Some(payload?) };
        run.client.send_signal(&run.id, &signal, key).await
    }
}

impl IntoFuture for SignalRequest {
    type Output = Result<SignalAccepted, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
