//! An endpoint to register: where effects, ends of runs and pushed tasks are sent.

use std::borrow::Borrow;
use std::time::Duration;

pub use wire::OnDead;
use wire::effects::CreateEndpoint;
use wire::requests::Retry;

use crate::new_run::millis;

/// An endpoint to register with [`WebhookEndpoints::create`](crate::WebhookEndpoints::create).
///
/// ```no_run
/// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
/// use tenure::Endpoint;
///
/// let crm = Endpoint::new("crm", "https://crm.example.org/hooks").types(["run.failed"]);
/// let registered = client.endpoints().create(crm).await?;
/// println!("{}", registered.secret);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "nothing is registered until it is given to a client"]
pub struct Endpoint(CreateEndpoint);

impl Endpoint {
    /// The name that workers use for it, and its address: https, or http in ranges that the operator allows.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Endpoint {
        let (name, url) = (name.into(), url.into());
        Endpoint(CreateEndpoint {
            name,
            url,
            types: None,
            queues: None,
            idempotent: None,
            max_tries: None,
            retry: None,
            on_dead: None,
            concurrency: None,
            rate_per_second: None,
        })
    }

    /// The ends that it is told of: `run.succeeded`, `run.*`, `task.*` or `*`. By default `run.*`; none for an empty list.
    pub fn types<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Endpoint {
        self.0.types = Some(types.into_iter().map(Into::into).collect());
        self
    }

    /// Queues whose tasks are pushed to it.
    pub fn queues<T: Into<String>>(mut self, queues: impl IntoIterator<Item = T>) -> Endpoint {
        self.0.queues = Some(queues.into_iter().map(Into::into).collect());
        self
    }

    /// The receiver does not recognise a repeated `webhook-id`: a call without an answer is not repeated, and its effect becomes
    /// unknown.
    pub fn not_idempotent(mut self) -> Endpoint {
        self.0.idempotent = Some(false);
        self
    }

    /// Tries before an effect is dead; 20 by default.
    pub fn max_tries(mut self, tries: u32) -> Endpoint {
        self.0.max_tries = Some(tries);
        self
    }

    /// The pause after the first failed try, which doubles up to `max`; 5 s and 6 h by default.
    pub fn retry_backoff(mut self, initial: Duration, max: Duration) -> Endpoint {
        self.0.retry = Some(Retry { base_ms: Some(millis(initial)), cap_ms: Some(millis(max)) });
        self
    }

    /// What becomes of an aggregate whose oldest effect is dead; it is blocked by default.
    pub fn on_dead(mut self, then: OnDead) -> Endpoint {
        self.0.on_dead = Some(then);
        self
    }

    /// Effects in flight from one coordinator, and tasks that are pushed and not done; 16 by default.
    pub fn concurrency(mut self, calls: u32) -> Endpoint {
        self.0.concurrency = Some(calls);
        self
    }

    /// Calls per second from one coordinator; no limit by default.
    pub fn rate_per_second(mut self, calls: u32) -> Endpoint {
        self.0.rate_per_second = Some(calls);
        self
    }
}

impl Borrow<CreateEndpoint> for Endpoint {
    fn borrow(&self) -> &CreateEndpoint {
        &self.0
    }
}
