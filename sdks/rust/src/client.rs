//! The connection to a coordinator, and the calls that do not concern a single run.
//!
//! Submissions always carry an idempotency key; the client generates one if the caller gives none.
//! The key makes it safe to repeat a submission after a lost answer. Calls about one run are
//! methods of [`RunHandle`]; the calls of workers and administrators are in separate files.

mod approvals;
mod audit;
mod budgets;
mod deployments;
mod effects;
mod keys;
mod limits;
mod many;
mod queues;
mod recovery;
mod request;
mod roles;
mod runs;
mod schedules;
mod session;
mod submissions;
mod submit_and_wait;
mod waits;
mod worker_protocol;
mod workers;

use std::path::Path;
use std::sync::Arc;

use reqwest::Url;
use reqwest::header::HeaderValue;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::admin::SetAside;
use wire::answers::{Ready, RunAccepted, SignalAccepted, Version};
use wire::requests::{ForkRun, RetryRun, SendSignal};
use workflow::RunKind;

pub use self::approvals::Approvals;
pub use self::audit::Audit;
pub use self::budgets::Budgets;
pub use self::deployments::Deployments;
pub use self::effects::{Effects, WebhookEndpoints};
pub use self::keys::Keys;
pub use self::limits::Limits;
pub use self::queues::Queues;
pub use self::recovery::Recovery;
pub use self::request::Request;
pub use self::roles::OutsideRole;
pub use self::runs::RunsRequest;
pub use self::schedules::Schedules;
use self::submissions::Submissions;
pub(crate) use self::waits::Found;
use self::waits::Waits;
pub use self::workers::{Kinds, Workers};
use crate::codec::{Codec, Sealer};
use crate::endpoints::Endpoints;
use crate::root_certificates::RootCertificates;
use crate::transport::{Call, Retries, Transport};
use crate::{Error, NewRun, RunHandle};

/// The default address of a coordinator.
pub const DEFAULT_URL: &str = "http://127.0.0.1:7400";

/// A connection to a coordinator. Cloning is cheap and shares the connections.
///
/// ```no_run
/// # async fn example() -> Result<(), tenure::Error> {
/// let client = tenure::Client::from_env()?;
/// use tenure::Kind;
///
/// const HELLO: Kind<String, String> = Kind::new("hello");
/// let run = client.submit(HELLO, "Ada").idempotency_key("greet-ada").await?;
/// println!("{}", run.result().await?);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
    target: Arc<Target>,
    /// Shared by clones, which make their calls in the same way.
    submissions: Arc<Submissions>,
    waits: Arc<Waits>,
    codec: Sealer,
}

#[derive(Debug)]
struct Target {
    base: Url,
    authorization: HeaderValue,
}

impl Client {
    /// A client of the coordinator at `url`, with an API key that has the required roles. Separate
    /// the addresses of several coordinators of one store with commas; when one gives no decision,
    /// the client tries the next.
    pub fn new(url: &str, api_key: &str) -> Result<Client, Error> {
        let endpoints = Endpoints::parse(url)?;
        let base = endpoints.base().clone();
        let root_certificates = if base.scheme() == "https" {
            RootCertificates::System
        } else {
            RootCertificates::Unused
        };
        let target = Arc::new(Target { base, authorization: bearer(api_key)? });
        Ok(Client {
            transport: Transport::new(Retries::default(), root_certificates, endpoints)?,
            target,
            submissions: Arc::default(),
            waits: Arc::default(),
            codec: Sealer::default(),
        })
    }

    /// Returns the client with these certificate authorities (PEM) as the only trusted ones,
    /// instead of those of the system.
    pub fn with_root_certificates(self, authorities: &[u8]) -> Result<Client, Error> {
        let transport =
            self.transport.with_root_certificates(RootCertificates::from_pem(authorities)?)?;
        Ok(Client { transport, submissions: Arc::default(), waits: Arc::default(), ..self })
    }

    /// The same with the authorities in a file.
    pub fn with_root_certificates_file(self, path: &Path) -> Result<Client, Error> {
        let pem = std::fs::read(path).map_err(|source| {
            Error::Setup(format!(
                "the certificate authorities in {} cannot be read: {source}",
                path.display()
            ))
        })?;
        self.with_root_certificates(&pem)
    }

    /// Reads `TENURE_URL` (one address, or several with commas; absent: a coordinator on this
    /// machine), `TENURE_API_KEY` and, for a server whose certificate a private authority signed,
    /// `TENURE_CA_FILE`.
    pub fn from_env() -> Result<Client, Error> {
        let url = std::env::var("TENURE_URL").unwrap_or_else(|_| DEFAULT_URL.to_owned());
        let api_key = std::env::var("TENURE_API_KEY").map_err(|_| {
            Error::Setup(
                "TENURE_API_KEY is not set; `tenure dev` prints a key and the command to set it"
                    .to_owned(),
            )
        })?;
        let client = Client::new(&url, &api_key)?;
        match std::env::var_os("TENURE_CA_FILE").filter(|path| !path.is_empty()) {
            Some(path) => client.with_root_certificates_file(Path::new(&path)),
            None => Ok(client),
        }
    }

    /// Returns the client with another API key and the same connections, for a program that passes on the calls of others,
    /// each with the rights of its own key.
    pub fn with_api_key(mut self, api_key: &str) -> Result<Client, Error> {
        let authorization = bearer(api_key)?;
        self.target = Arc::new(Target { base: self.target.base.clone(), authorization });
        // Submissions and waits that share a call share its key.
        (self.submissions, self.waits) = (Arc::default(), Arc::default());
        Ok(self)
    }

    /// Returns the client with another limit on retries.
    pub fn with_retries(mut self, retries: Retries) -> Client {
        self.transport = self.transport.with_retries(retries);
        (self.submissions, self.waits) = (Arc::default(), Arc::default());
        self
    }

    /// Returns the client with a codec: inputs, outputs, signals and what durable functions record are stored in a form that
    /// the coordinator cannot read. Workers of such runs need a client with the same codec.
    pub fn with_codec(mut self, codec: impl Codec + 'static) -> Client {
        self.codec = Sealer::new(codec);
        self
    }

    pub(crate) fn codec(&self) -> &Sealer {
        &self.codec
    }

    /// Returns the client with new connections, for use on another runtime.
    pub(crate) fn with_new_connections(&self) -> Result<Client, Error> {
        Ok(Client {
            transport: self.transport.with_new_connections()?,
            target: Arc::clone(&self.target),
            submissions: Arc::default(),
            waits: Arc::default(),
            codec: self.codec.clone(),
        })
    }

    /// Describes a run of a [`Kind`](crate::Kind) with an input of its type, or of a name with any value that has a JSON form.
    /// Choose the other options of [`NewRun`], then await it to submit.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// use tenure::Kind;
    ///
    /// const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
    /// let greeting = client.submit(GREET, "Ada").await?.result().await?;
    /// let by_name: String = client.submit("greet", "Ada").queue("mail").await?.output().await?;
    /// # Ok(()) }
    /// ```
    pub fn submit<J, K>(&self, kind: K, input: &J) -> NewRun<K::Output, Client>
    where
        J: Serialize + ?Sized,
        K: RunKind<J>,
    {
        NewRun::new(kind, input).bind(self.clone())
    }

    /// [`Client::submit`] for a run that was described earlier, or for a plan.
    pub fn submit_run<O>(&self, run: impl Into<NewRun<O>>) -> NewRun<O, Client> {
        run.into().bind(self.clone())
    }

    /// The run with this id. Makes no call: the first call about the run shows whether it exists.
    pub fn run(&self, run_id: impl Into<String>) -> RunHandle {
        RunHandle::new(self.clone(), run_id.into())
    }

    /// Tasks that the answering server cannot continue, and why. Needs a key with the role admin.
    pub async fn set_aside(&self) -> Result<SetAside, Error> {
        self.get_json(&["v1", "set-aside"], &()).await
    }

    /// Sends a retry under its key, so that a repetition cannot submit the run twice.
    pub(crate) async fn send_retry(
        &self,
        run_id: &str,
        asked: &RetryRun,
        key: Option<String>,
    ) -> Result<RunAccepted, Error> {
        let key = key.map_or_else(generate_key, Ok)?;
        let call = self.post(&["v1", "runs", run_id, "retry"], asked)?;
        self.transport.call(&call.idempotency_key(&key)?).await
    }

    /// Sends a fork under its key, so that a repetition cannot continue the run twice.
    pub(crate) async fn send_fork(
        &self,
        run_id: &str,
        asked: &ForkRun,
        key: Option<String>,
    ) -> Result<RunAccepted, Error> {
        let key = key.map_or_else(generate_key, Ok)?;
        let call = self.post(&["v1", "runs", run_id, "fork"], asked)?;
        self.transport.call(&call.idempotency_key(&key)?).await
    }

    /// Sends a signal under its key, so that a repetition cannot be recorded twice.
    pub(crate) async fn send_signal(
        &self,
        run_id: &str,
        signal: &SendSignal,
        key: Option<String>,
    ) -> Result<SignalAccepted, Error> {
        let key = key.map_or_else(generate_key, Ok)?;
        let call = self.post(&["v1", "runs", run_id, "signals"], signal)?;
        self.transport.call(&call.idempotency_key(&key)?).await
    }

    /// Whether the coordinator makes progress; "not ready" is an answer and not an error.
    pub async fn ready(&self) -> Result<Ready, Error> {
        self.transport.probe(&self.get(&["readyz"], &())?).await
    }

    pub async fn version(&self) -> Result<Version, Error> {
        self.transport.call(&self.get(&["version"], &())?).await
    }

    pub(crate) async fn post_json<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, Error> {
        self.transport.call(&self.post(path, body)?).await
    }

    pub(crate) async fn get_json<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &impl Serialize,
    ) -> Result<T, Error> {
        self.transport.call(&self.get(path, query)?).await
    }

    /// A read that the server holds open for up to `wait_ms`.
    pub(crate) async fn long_poll<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &impl Serialize,
        wait_ms: Option<u64>,
    ) -> Result<T, Error> {
        self.transport.call(&self.get(path, query)?.with_wait(wait_ms)).await
    }

    fn post(&self, path: &[&str], body: &impl Serialize) -> Result<Call, Error> {
        Call::post(self.url(path)?, self.target.authorization.clone(), body)
    }

    fn get(&self, path: &[&str], query: &impl Serialize) -> Result<Call, Error> {
        let mut url = self.url(path)?;
        let members = serde_json::to_value(query)
            .map_err(|source| Error::Setup(format!("the query has no JSON form: {source}")))?;
        for (name, value) in members.as_object().into_iter().flatten() {
            // A list is sent as repetitions of its parameter.
            let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            for value in values {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                url.query_pairs_mut().append_pair(name, &text);
            }
        }
        Ok(Call::get(url, self.target.authorization.clone()))
    }

    fn url(&self, path: &[&str]) -> Result<Url, Error> {
        // URLs drop such segments, and the call would reach another route.
        if let Some(part) = path.iter().find(|part| matches!(**part, "" | "." | "..")) {
            return Err(Error::Setup(format!("`{part}` is not an id")));
        }
        let mut url = self.target.base.clone();
        url.path_segments_mut()
            .expect("an http address has a path, and new() let no other through")
            .pop_if_empty()
            .extend(path);
        Ok(url)
    }
}

fn bearer(secret: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(&format!("Bearer {secret}")).map_err(|_| {
        Error::Setup("an API key or token holds printable ASCII characters only".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn generate_key() -> Result<String, Error> {
    Ok(format!("auto-{}", random_hex()?))
}

/// 128 random bits, enough to be unique.
pub(crate) fn random_hex() -> Result<String, Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|source| Error::Setup(format!("the system gave no randomness: {source}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
