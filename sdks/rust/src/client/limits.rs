//! What a tenant may ask for: calls per second, and runs that have not ended.

use wire::admin::{SetLimits, TenantLimits};

use super::{Client, Request};
use crate::Error;

/// The limits of the tenants that a client's key may see. See [`Client::limits`].
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    client: &'a Client,
}

impl Client {
    /// Limits of tenants, to list and set them. Needs a key with the role admin.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// client.limits().set("acme").requests_per_second(50).unfinished_runs(10_000).await?;
    /// # Ok(()) }
    /// ```
    pub fn limits(&self) -> Limits<'_> {
        Limits { client: self }
    }
}

impl Limits<'_> {
    pub async fn list(&self) -> Result<wire::admin::Limits, Error> {
        self.client.get_json(&["v1", "limits"], &()).await
    }

    /// Replaces the limits of a tenant, from now on. What is not limited here is not limited any more.
    pub fn set(&self, tenant_id: impl Into<String>) -> Request<SetLimits, TenantLimits> {
        let wanted = SetLimits { tenant_id: tenant_id.into(), ..SetLimits::default() };
        Request::write(self.client, &["v1", "limits"], wanted)
    }
}

impl Request<SetLimits, TenantLimits> {
    /// Calls of clients and polls of workers.
    pub fn requests_per_second(self, requests: u32) -> Self {
        self.say(|it| it.requests_per_second = Some(requests))
    }

    /// How many may arrive at once after a pause; the number per second when not given.
    pub fn burst(self, requests: u32) -> Self {
        self.say(|it| it.burst = Some(requests))
    }

    /// Runs that wait or run; 0 accepts no new ones.
    pub fn unfinished_runs(self, runs: u64) -> Self {
        self.say(|it| it.unfinished_runs = Some(runs))
    }
}
