//! Endpoints and effects: where what a run decided goes, and whether it arrived. Changes need a key with the role admin.

use std::borrow::Borrow;

use wire::effects::{
    CreateEndpoint, EffectList, EffectView, EndpointList, EndpointSecret, EndpointView,
    ListEffects, ReconcileEffect, RedriveEffects, Redriven, RotateEndpoint, UpdateEndpoint,
};

use super::Client;
use crate::Error;

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

    /// Changes what is given, and leaves the rest.
    pub async fn update(&self, name: &str, wanted: &UpdateEndpoint) -> Result<EndpointView, Error> {
        let request = self.client.post(&["v1", "endpoints", name], wanted)?;
        self.client.transport.call(&request).await
    }

    /// Makes a new secret. Tried once: a repetition would end the overlap of the secret in use.
    pub async fn rotate(&self, name: &str, how: &RotateEndpoint) -> Result<EndpointSecret, Error> {
        let request = self.client.post(&["v1", "endpoints", name, "rotate"], how)?;
        self.client.without_retries().call(&request).await
    }

    /// Deletes an endpoint. Its effects are given up.
    pub async fn delete(&self, name: &str) -> Result<EndpointView, Error> {
        let request = self.client.post(&["v1", "endpoints", name, "delete"], &nothing())?;
        self.client.without_retries().call(&request).await
    }
}

impl Effects<'_> {
    /// A page of them, by endpoint and aggregate.
    pub async fn list(&self, page: &ListEffects) -> Result<EffectList, Error> {
        self.client.transport.call(&self.client.get(&["v1", "effects"], page)?).await
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

    /// Says whether an unknown effect has arrived.
    pub async fn reconcile(&self, id: &str, found: &ReconcileEffect) -> Result<EffectView, Error> {
        let request = self.client.post(&["v1", "effects", id, "reconcile"], found)?;
        self.client.without_retries().call(&request).await
    }

    /// Gives new tries to all dead effects that are wanted, up to a limit for each call.
    pub async fn redrive_many(&self, wanted: &RedriveEffects) -> Result<Redriven, Error> {
        self.client.transport.call(&self.client.post(&["v1", "effects", "redrive"], wanted)?).await
    }
}
