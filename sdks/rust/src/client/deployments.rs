//! Deployments: topologies in force, their artifacts, and what waits for people.

use std::borrow::Borrow;

use wire::topologies::{
    ApplyTopology, ArtifactList, ArtifactView, ClaimList, ClosePauseState, CreateArtifact,
    DeploymentCall, DeploymentList, DeploymentView, EventRequested, ListArtifacts, ListDeployments,
    ListPauseStates, ListWorkOrders, MoveArtifact, PauseStateList, PauseStateView, RequestEvent,
    TopologyPlan, WorkOrderList,
};
use wire::{Json, PauseStateState, WorkOrderState};

use super::{Client, Request};
use crate::Error;

/// The deployments of the client's workspace. See [`Client::deployments`].
#[derive(Clone, Copy, Debug)]
pub struct Deployments<'a> {
    pub(super) client: &'a Client,
}

impl Client {
    /// Topologies in force, and what they have.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// use serde_json::json;
    /// use tenure::{ArtifactMove, NewArtifact};
    ///
    /// let ticket = NewArtifact::new("T-1", &json!({"title": "fix it"}))?;
    /// client.deployments().create_artifact("bugs", "ticket", ticket).await?;
    /// client.deployments().move_artifact("bugs", "ticket", "T-1", ArtifactMove::to("READY")).await?;
    /// # Ok(()) }
    /// ```
    pub fn deployments(&self) -> Deployments<'_> {
        Deployments { client: self }
    }
}

impl Deployments<'_> {
    /// A page of them, by name.
    pub fn list(&self) -> Request<ListDeployments, DeploymentList> {
        Request::read(self.client, &["v1", "deployments"], ListDeployments::default())
    }

    pub async fn get(&self, deployment: &str) -> Result<DeploymentView, Error> {
        self.client.get_json(&["v1", "deployments", deployment], &()).await
    }

    /// Puts a topology in force, or another version of it. The same version again changes nothing.
    pub async fn apply(&self, deployment: &str, topology: Json) -> Result<DeploymentView, Error> {
        let body = ApplyTopology { topology };
        self.client.post_json(&["v1", "deployments", deployment], &body).await
    }

    /// What a version would change, and what stands in its way.
    pub async fn plan(&self, deployment: &str, topology: Json) -> Result<TopologyPlan, Error> {
        let body = ApplyTopology { topology };
        self.client.post_json(&["v1", "deployments", deployment, "plan"], &body).await
    }

    /// Its roles do nothing until it is resumed. What executors have goes on.
    pub async fn pause(&self, deployment: &str) -> Result<DeploymentView, Error> {
        self.call(deployment, "pause").await
    }

    pub async fn resume(&self, deployment: &str) -> Result<DeploymentView, Error> {
        self.call(deployment, "resume").await
    }

    /// Deletes a deployment that has no active work order.
    pub async fn delete(&self, deployment: &str) -> Result<DeploymentView, Error> {
        self.call(deployment, "delete").await
    }

    async fn call(&self, deployment: &str, verb: &str) -> Result<DeploymentView, Error> {
        let path = ["v1", "deployments", deployment, verb];
        self.client.post_json(&path, &DeploymentCall {}).await
    }

    /// Tried once: a repetition after a lost answer is refused, because the id is taken.
    pub async fn create_artifact(
        &self,
        deployment: &str,
        artifact_type: &str,
        artifact: impl Borrow<CreateArtifact>,
    ) -> Result<ArtifactView, Error> {
        let path = ["v1", "deployments", deployment, "artifacts", artifact_type];
        let request = self.client.post(&path, artifact.borrow())?;
        self.client.without_retries().call(&request).await
    }

    /// A page of the artifacts of a type, by id.
    pub fn artifacts(
        &self,
        deployment: &str,
        artifact_type: &str,
    ) -> Request<ListArtifacts, ArtifactList> {
        let path = ["v1", "deployments", deployment, "artifacts", artifact_type];
        Request::read(self.client, &path, ListArtifacts::default())
    }

    pub async fn artifact(
        &self,
        deployment: &str,
        artifact_type: &str,
        id: &str,
    ) -> Result<ArtifactView, Error> {
        let path = ["v1", "deployments", deployment, "artifacts", artifact_type, id];
        self.client.get_json(&path, &()).await
    }

    /// Moves an artifact, where the topology lets any person do that. Tried once: a status may be entered twice.
    pub async fn move_artifact(
        &self,
        deployment: &str,
        artifact_type: &str,
        id: &str,
        to: impl Borrow<MoveArtifact>,
    ) -> Result<ArtifactView, Error> {
        self.change(deployment, artifact_type, id, "transition", to.borrow()).await
    }

    /// Moves an artifact, where the topology wants an approval. Needs a key with the role approver or admin.
    pub async fn approve_artifact(
        &self,
        deployment: &str,
        artifact_type: &str,
        id: &str,
        to: impl Borrow<MoveArtifact>,
    ) -> Result<ArtifactView, Error> {
        self.change(deployment, artifact_type, id, "approve", to.borrow()).await
    }

    async fn change(
        &self,
        deployment: &str,
        artifact_type: &str,
        id: &str,
        verb: &str,
        to: &MoveArtifact,
    ) -> Result<ArtifactView, Error> {
        let path = ["v1", "deployments", deployment, "artifacts", artifact_type, id, verb];
        let request = self.client.post(&path, to)?;
        self.client.without_retries().call(&request).await
    }

    /// Asks for an event of a type that is made on request. The same key is the same event.
    pub async fn event(
        &self,
        deployment: &str,
        event_type: impl Into<String>,
        key: impl Into<String>,
    ) -> Result<EventRequested, Error> {
        let event = RequestEvent { event_type: event_type.into(), key: key.into() };
        self.client.post_json(&["v1", "deployments", deployment, "events"], &event).await
    }

    /// A page of work orders with their run records, by id.
    pub fn work_orders(&self, deployment: &str) -> Request<ListWorkOrders, WorkOrderList> {
        let path = ["v1", "deployments", deployment, "workorders"];
        Request::read(self.client, &path, ListWorkOrders::default())
    }

    /// The claims on events and work orders.
    pub async fn claims(&self, deployment: &str) -> Result<ClaimList, Error> {
        self.client.get_json(&["v1", "deployments", deployment, "claims"], &()).await
    }

    /// A page of what waits for a person.
    pub fn pause_states(&self, deployment: &str) -> Request<ListPauseStates, PauseStateList> {
        let path = ["v1", "deployments", deployment, "pause-states"];
        Request::read(self.client, &path, ListPauseStates::default())
    }

    /// Says that a person has seen to it.
    pub async fn close_pause_state(
        &self,
        deployment: &str,
        id: &str,
    ) -> Result<PauseStateView, Error> {
        let body = ClosePauseState { id: id.to_owned() };
        let path = ["v1", "deployments", deployment, "pause-states", "close"];
        self.client.post_json(&path, &body).await
    }
}

impl Request<ListArtifacts, ArtifactList> {
    pub fn status(self, status: impl Into<String>) -> Self {
        self.say(|it| it.status = Some(status.into()))
    }
}

impl Request<ListWorkOrders, WorkOrderList> {
    pub fn state(self, state: WorkOrderState) -> Self {
        self.say(|it| it.state = Some(state))
    }
}

impl Request<ListPauseStates, PauseStateList> {
    pub fn state(self, state: PauseStateState) -> Self {
        self.say(|it| it.state = Some(state))
    }
}
