//! Endpoints and effects: where what a run decided goes, and whether it arrived. Changes need a key with the role admin.

use std::borrow::Borrow;
use std::time::Duration;

use wire::effects::{
    CreateEndpoint, EffectList, EffectView, EndpointList, EndpointSecret, EndpointView,
    ListEffects, ReconcileEffect, RedriveEffects, Redriven, RotateEndpoint, UpdateEndpoint,
};
use wire::requests::Retry;
use wire::{EffectState, OnDead, Time};

use super::{Client, Request};
use crate::Error;
use crate::new_run::millis;

/// The endpoints of the client's workspace. See [`Client::endpoints`].
#[derive(Clone, Copy, Debug)]
pub struct WebhookEndpoints<'a> {
    client: &'a Client,
}

/// The effects of the client's workspace. See [`Client::effects`].
#[derive(Clone, Copy, Debug)]
pub struct Effects<'a> {
    client: &'a Client,
}

impl Client {
    /// Endpoints, to register and change them.
    pub fn endpoints(&self) -> WebhookEndpoints<'_> {
        WebhookEndpoints { client: self }
    }

    /// Effects, to see what became of them and to repair what did not arrive.
    pub fn effects(&self) -> Effects<'_> {
        Effects { client: self }
    }
}

/// A body without members.
fn nothing() -> serde_json::Map<String, serde_json::Value> {
    serde_json::Map::new()
}

impl WebhookEndpoints<'_> {
    /// Registers an endpoint. Tried once: a repetition after a lost answer would find it registered, and its secret lost.
    pub async fn create(
        &self,
        wanted: impl Borrow<CreateEndpoint>,
    ) -> Result<EndpointSecret, Error> {
        let request = self.client.post(&["v1", "endpoints"], wanted.borrow())?;
        self.client.without_retries().call(&request).await
    }

    pub async fn list(&self) -> Result<EndpointList, Error> {
        self.client.transport.call(&self.client.get(&["v1", "endpoints"], &())?).await
    }

    pub async fn get(&self, name: &str) -> Result<EndpointView, Error> {
        self.client.transport.call(&self.client.get(&["v1", "endpoints", name], &())?).await
    }

    /// Changes what is chosen, and leaves the rest.
    pub fn update(&self, name: &str) -> Request<UpdateEndpoint, EndpointView> {
        Request::write(self.client, &["v1", "endpoints", name], UpdateEndpoint::default())
    }

    /// Nothing is sent until it is resumed: effects wait.
    pub async fn pause(&self, name: &str) -> Result<EndpointView, Error> {
        self.update(name).enabled(false).await
    }

    pub async fn resume(&self, name: &str) -> Result<EndpointView, Error> {
        self.update(name).enabled(true).await
    }

    /// Makes a new secret. Tried once: a repetition would end the overlap of the secret in use.
    pub fn rotate(&self, name: &str) -> Request<RotateEndpoint, EndpointSecret> {
        let path = ["v1", "endpoints", name, "rotate"];
        Request::write_once(self.client, &path, RotateEndpoint::default())
    }

    /// Deletes an endpoint. Its effects are given up.
    pub async fn delete(&self, name: &str) -> Result<EndpointView, Error> {
        let request = self.client.post(&["v1", "endpoints", name, "delete"], &nothing())?;
        self.client.without_retries().call(&request).await
    }
}

impl Effects<'_> {
    /// A page of them, by endpoint and aggregate.
    pub fn list(&self) -> Request<ListEffects, EffectList> {
        Request::read(self.client, &["v1", "effects"], ListEffects::default())
    }

    /// One effect, with what is sent and everything that happened to it.
    pub async fn get(&self, id: &str) -> Result<EffectView, Error> {
        self.client.transport.call(&self.client.get(&["v1", "effects", id], &())?).await
    }

    /// Gives new tries to a dead effect.
    pub async fn redrive(&self, id: &str) -> Result<EffectView, Error> {
        let request = self.client.post(&["v1", "effects", id, "redrive"], &nothing())?;
        self.client.without_retries().call(&request).await
    }

    /// Lets the aggregate go on behind a dead effect.
    pub async fn release(&self, id: &str) -> Result<EffectView, Error> {
        let request = self.client.post(&["v1", "effects", id, "release"], &nothing())?;
        self.client.without_retries().call(&request).await
    }

    /// Says whether the receiver has an effect whose outcome is unknown. If not, it is sent again.
    pub async fn reconcile(&self, id: &str, has_arrived: bool) -> Result<EffectView, Error> {
        let found = ReconcileEffect { arrived: has_arrived };
        self.client.post_once(&["v1", "effects", id, "reconcile"], &found, None).await
    }

    /// Gives new tries to all dead effects that are chosen, up to a limit for each call.
    pub fn redrive_all(&self) -> Request<RedriveEffects, Redriven> {
        let path = ["v1", "effects", "redrive"];
        Request::write(self.client, &path, RedriveEffects::default())
    }
}

impl Request<UpdateEndpoint, EndpointView> {
    /// Where effects are sent from now on.
    pub fn url(self, url: impl Into<String>) -> Self {
        self.say(|it| it.url = Some(url.into()))
    }

    /// See [`Endpoint::types`](crate::Endpoint::types).
    pub fn types<T: Into<String>>(self, types: impl IntoIterator<Item = T>) -> Self {
        self.say(|it| it.types = Some(types.into_iter().map(Into::into).collect()))
    }

    /// See [`Endpoint::queues`](crate::Endpoint::queues).
    pub fn queues<T: Into<String>>(self, queues: impl IntoIterator<Item = T>) -> Self {
        self.say(|it| it.queues = Some(queues.into_iter().map(Into::into).collect()))
    }

    /// Whether the receiver recognises a repeated `webhook-id`.
    pub fn idempotent(self, is_idempotent: bool) -> Self {
        self.say(|it| it.idempotent = Some(is_idempotent))
    }

    /// See [`Endpoint::max_tries`](crate::Endpoint::max_tries).
    pub fn max_tries(self, tries: u32) -> Self {
        self.say(|it| it.max_tries = Some(tries))
    }

    /// See [`Endpoint::retry_backoff`](crate::Endpoint::retry_backoff).
    pub fn retry_backoff(self, initial: Duration, max: Duration) -> Self {
        let retry = Retry { base_ms: Some(millis(initial)), cap_ms: Some(millis(max)) };
        self.say(|it| it.retry = Some(retry))
    }

    /// See [`Endpoint::on_dead`](crate::Endpoint::on_dead).
    pub fn on_dead(self, then: OnDead) -> Self {
        self.say(|it| it.on_dead = Some(then))
    }

    /// See [`Endpoint::concurrency`](crate::Endpoint::concurrency).
    pub fn concurrency(self, calls: u32) -> Self {
        self.say(|it| it.concurrency = Some(calls))
    }

    /// See [`Endpoint::rate_per_second`](crate::Endpoint::rate_per_second).
    pub fn rate_per_second(self, calls: u32) -> Self {
        self.say(|it| it.rate_per_second = Some(calls))
    }

    /// False disables it, as [`WebhookEndpoints::pause`] does.
    pub fn enabled(self, is_enabled: bool) -> Self {
        self.say(|it| it.enabled = Some(is_enabled))
    }
}

impl Request<RotateEndpoint, EndpointSecret> {
    /// How long both secrets sign: a day when not given.
    pub fn overlap(self, span: Duration) -> Self {
        self.say(|it| it.overlap_ms = Some(millis(span)))
    }
}

impl Request<ListEffects, EffectList> {
    /// Only what this run decided.
    pub fn run(self, run_id: impl Into<String>) -> Self {
        self.say(|it| it.run_id = Some(run_id.into()))
    }

    pub fn endpoint(self, name: impl Into<String>) -> Self {
        self.say(|it| it.endpoint = Some(name.into()))
    }

    pub fn state(self, state: EffectState) -> Self {
        self.say(|it| it.state = Some(state))
    }
}

impl Request<RedriveEffects, Redriven> {
    /// Only what this run decided.
    pub fn run(self, run_id: impl Into<String>) -> Self {
        self.say(|it| it.run_id = Some(run_id.into()))
    }

    pub fn endpoint(self, name: impl Into<String>) -> Self {
        self.say(|it| it.endpoint = Some(name.into()))
    }

    /// Only what was decided at this time or later.
    pub fn since(self, time: Time) -> Self {
        self.say(|it| it.since = Some(time))
    }
}
