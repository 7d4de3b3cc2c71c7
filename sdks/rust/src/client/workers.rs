//! Workers that poll or hold leases, and what they announced that they can do.

use wire::answers;
use wire::requests::{ListKinds, ListWorkers};

use super::{Client, Request};

/// The workers of the client's workspace. See [`Client::workers`].
#[derive(Clone, Copy, Debug)]
pub struct Workers<'a> {
    client: &'a Client,
}

/// The kinds that workers announced. See [`Client::kinds`].
#[derive(Clone, Copy, Debug)]
pub struct Kinds<'a> {
    client: &'a Client,
}

impl Client {
    /// Workers, to see what they poll for and which leases they hold.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// for worker in client.workers().list().await?.workers {
    ///     let held: u64 = worker.leases.iter().map(|leases| leases.count).sum();
    ///     println!("{} holds {held} leases", worker.worker_id);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn workers(&self) -> Workers<'_> {
        Workers { client: self }
    }

    /// Kinds that workers announced at the coordinator that answers.
    pub fn kinds(&self) -> Kinds<'_> {
        Kinds { client: self }
    }
}

impl Workers<'_> {
    /// A page of the workers that poll at the coordinator that answers, or hold leases. Only a page without a `next_after` is
    /// the last.
    pub fn list(&self) -> Request<ListWorkers, answers::Workers> {
        Request::read(self.client, &["v1", "workers"], ListWorkers::default())
    }
}

impl Kinds<'_> {
    /// A page of them. Only a page without a `next_after` is the last.
    pub fn list(&self) -> Request<ListKinds, answers::Kinds> {
        Request::read(self.client, &["v1", "kinds"], ListKinds::default())
    }
}

impl Request<ListKinds, answers::Kinds> {
    /// Only this kind, with its schemas.
    pub fn kind(self, kind: impl Into<String>) -> Self {
        self.say(|it| it.kind = Some(kind.into()))
    }
}
