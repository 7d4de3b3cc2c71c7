//! Where runs wait: queues, pauses of queues, and flow keys.

use wire::answers::FlowKeys;
use wire::pausing::{PauseQueue, QueueStatus, ResumeQueue};
use wire::requests::ListFlowKeys;

use super::{Client, Request};
use crate::Error;

/// The queues of the client's workspace. See [`Client::queues`].
#[derive(Clone, Copy, Debug)]
pub struct Queues<'a> {
    client: &'a Client,
}

impl Client {
    /// Queues, to count what waits in them and to pause them. A pause needs a key with the role admin.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// client.queues().pause("mail").reason("the provider is down").await?;
    /// for queue in client.queues().list().await?.queues {
    ///     println!("{} has {} tasks ready", queue.queue, queue.ready);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn queues(&self) -> Queues<'_> {
        Queues { client: self }
    }
}

impl Queues<'_> {
    /// The waiting and running tasks of each queue.
    pub async fn list(&self) -> Result<wire::answers::Queues, Error> {
        self.client.get_json(&["v1", "queues"], &()).await
    }

    /// Pauses a queue: when the answer is there, nothing is leased from it any more. Everything else goes on.
    pub fn pause(&self, queue: &str) -> Request<PauseQueue, QueueStatus> {
        let path = ["v1", "queues", &in_path(queue), "pause"];
        Request::write(self.client, &path, PauseQueue::default())
    }

    /// Resumes a paused queue.
    pub fn resume(&self, queue: &str) -> Request<ResumeQueue, QueueStatus> {
        let path = ["v1", "queues", &in_path(queue), "resume"];
        Request::write(self.client, &path, ResumeQueue::default())
    }

    /// A page of the flow keys of runs that have not ended: who holds their slots, and how many wait for one.
    pub fn flow_keys(&self) -> Request<ListFlowKeys, FlowKeys> {
        Request::read(self.client, &["v1", "flow-keys"], ListFlowKeys::default())
    }
}

impl Request<PauseQueue, QueueStatus> {
    /// Why, for people who wonder.
    pub fn reason(self, reason: impl Into<String>) -> Self {
        self.say(|it| it.reason = Some(reason.into()))
    }

    /// The tenant of the queue; that of the client's key when not given.
    pub fn tenant(self, tenant_id: impl Into<String>) -> Self {
        self.say(|it| it.tenant_id = Some(tenant_id.into()))
    }

    /// The workspace of the queue; that of the client's key when not given.
    pub fn workspace(self, workspace_id: impl Into<String>) -> Self {
        self.say(|it| it.workspace_id = Some(workspace_id.into()))
    }
}

impl Request<ResumeQueue, QueueStatus> {
    /// The tenant of the queue; that of the client's key when not given.
    pub fn tenant(self, tenant_id: impl Into<String>) -> Self {
        self.say(|it| it.tenant_id = Some(tenant_id.into()))
    }

    /// The workspace of the queue; that of the client's key when not given.
    pub fn workspace(self, workspace_id: impl Into<String>) -> Self {
        self.say(|it| it.workspace_id = Some(workspace_id.into()))
    }
}

impl Request<ListFlowKeys, FlowKeys> {
    /// Only this key.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.say(|it| it.key = Some(key.into()))
    }
}

/// A queue's name as a segment of a path, which has no escapes.
fn in_path(queue: &str) -> String {
    queue.replace('/', "~")
}
