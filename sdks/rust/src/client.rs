//! Every call of the HTTP interface as a typed method.
//!
//! Submissions always carry an idempotency key, made up here when the caller gives none: that is what
//! makes repeating them after a lost answer safe.

mod admin;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderValue;
use serde::Serialize;
use tokio::time::Instant;
use wire::answers::{
    CancelAccepted, CompletedAck, Explanation, HeartbeatAck, HeartbeatAnswers, History, Leases,
    Queues, Ready, Record, ReportAnswers, Run, RunAccepted, RunList, StartedAck, SubmitResults,
    Version,
};
use wire::requests::{
    CancelRun, Completed, Heartbeat, Heartbeats, HistoryQuery, LeaseRequest, ListRuns, RecordQuery,
    Reports, Started, SubmitMany, SubmitRun, WaitMs,
};

use crate::Error;
use crate::endpoints::Endpoints;
use crate::root_certificates::RootCertificates;
use crate::transport::{Call, Retries, Transport};

/// Where a coordinator listens unless told otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:7400";
/// The longest the coordinator holds a call open.
const WAIT_MS_MAX: u64 = *wire::limits::WAIT_MS.end();

/// A connection to a coordinator. Cloning is cheap and shares the connections.
///
/// ```no_run
/// # async fn example() -> Result<(), tenure::Error> {
/// use tenure::wire::{Json, requests::SubmitRun};
///
/// let client = tenure::Client::from_env()?;
/// let run = SubmitRun {
///     kind: "resize".into(),
///     queue: "images".into(),
///     input: Json::from_text(r#"{"width": 80}"#.into()).expect("a literal that is JSON"),
///     ..SubmitRun::default()
/// };
/// let accepted = client.submit(run, Some("avatar-42")).await?;
/// let ended = client.wait(&accepted.run_id, None).await?;
/// println!("{}", ended.state);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
    target: Arc<Target>,
}

#[derive(Debug)]
struct Target {
    base: Url,
    authorization: HeaderValue,
}

impl Client {
    /// A client of the coordinator at `url`, with an API key that has the roles it will need. Several
    /// coordinators of one store are named with commas between them; when one gives no decision, the
    /// next is asked.
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
        })
    }

    /// The same client, which believes a server only if one of these authorities vouches for it (PEM),
    /// instead of those the system trusts.
    pub fn with_root_certificates(self, authorities: &[u8]) -> Result<Client, Error> {
        let transport =
            self.transport.with_root_certificates(RootCertificates::from_pem(authorities)?)?;
        Ok(Client { transport, ..self })
    }

    /// The same with the authorities of a file.
    pub fn with_root_certificates_file(self, path: &Path) -> Result<Client, Error> {
        let pem = std::fs::read(path).map_err(|source| {
            Error::Setup(format!(
                "the certificate authorities in {} cannot be read: {source}",
                path.display()
            ))
        })?;
        self.with_root_certificates(&pem)
    }

    /// Reads `TENURE_URL` (one address, or several with commas; absent: a coordinator on this machine), `TENURE_API_KEY` and, for a server
    /// whose certificate a private authority signed, `TENURE_CA_FILE`.
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

    /// The same client with another bound on repetitions.
    pub fn with_retries(mut self, retries: Retries) -> Client {
        self.transport = self.transport.with_retries(retries);
        self
    }

    /// The same client with connections of its own, for use on another runtime.
    pub(crate) fn with_new_connections(&self) -> Result<Client, Error> {
        Ok(Client {
            transport: self.transport.with_new_connections()?,
            target: Arc::clone(&self.target),
        })
    }

    /// Submits one run. Without a key one is made up, so that a repetition cannot submit it twice.
    pub async fn submit(
        &self,
        mut run: SubmitRun,
        idempotency_key: Option<&str>,
    ) -> Result<RunAccepted, Error> {
        // A single run names its key in the header; the member is for batches.
        let member = run.idempotency_key.take();
        let key = match idempotency_key.map(str::to_owned).or(member) {
            Some(key) => key,
            None => generate_key()?,
        };
        let call = self.post(&["v1", "runs"], &run)?.idempotency_key(&key)?;
        self.transport.call(&call).await
    }

    /// Submits many runs at once; each is accepted or refused on its own, in the order given.
    pub async fn submit_many(&self, mut runs: Vec<SubmitRun>) -> Result<SubmitResults, Error> {
        for run in runs.iter_mut().filter(|run| run.idempotency_key.is_none()) {
            run.idempotency_key = Some(generate_key()?);
        }
        self.transport.call(&self.post(&["v1", "runs"], &SubmitMany { runs })?).await
    }

    /// A run as it is now.
    pub async fn run(&self, run_id: &str) -> Result<Run, Error> {
        self.transport.call(&self.get(&["v1", "runs", run_id], &())?).await
    }

    /// A run once it has ended, or as it is when `timeout` is over; without one, waits for ever.
    pub async fn wait(&self, run_id: &str, timeout: Option<Duration>) -> Result<Run, Error> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = until.map_or(Duration::MAX, |until| until - Instant::now());
            let wait_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).min(WAIT_MS_MAX);
            let query = WaitMs { wait_ms: Some(wait_ms) };
            let call = self.get(&["v1", "runs", run_id], &query)?.with_wait(query.wait_ms);
            let run: Run = self.transport.call(&call).await?;
            let is_over = until.is_some_and(|until| Instant::now() >= until);
            if run.state.is_terminal() || is_over {
                return Ok(run);
            }
        }
    }

    /// One page of runs, newest first; `nextCursor` goes into [`ListRuns::cursor`] for the next. Only a page
    /// without one is the last: a page may be short, or empty, before that. Runs come without their bodies,
    /// unless [`ListRuns::include`] names them.
    pub async fn list(&self, filters: &ListRuns) -> Result<RunList, Error> {
        self.transport.call(&self.get(&["v1", "runs"], filters)?).await
    }

    /// Asks a run to stop, or with [`CancelMode::Immediate`] takes its lease back at once.
    pub async fn cancel(
        &self,
        run_id: &str,
        reason: Option<&str>,
        force: CancelMode,
    ) -> Result<CancelAccepted, Error> {
        let body = CancelRun {
            reason: reason.map(str::to_owned),
            force: (force == CancelMode::Immediate).then_some(true),
        };
        self.transport.call(&self.post(&["v1", "runs", run_id, "cancel"], &body)?).await
    }

    /// What was decided about a run, after an entry, waiting for the next one if asked.
    pub async fn history(&self, run_id: &str, query: &HistoryQuery) -> Result<History, Error> {
        let call = self.get(&["v1", "runs", run_id, "history"], query)?.with_wait(query.wait_ms);
        self.transport.call(&call).await
    }

    /// The provenance of an ended run, with all its attempts.
    pub async fn record(&self, run_id: &str) -> Result<Record, Error> {
        let mut record = self.record_page(run_id, None).await?;
        while let Some(after) = record.next_after.take() {
            let page = self.record_page(run_id, Some(after)).await?;
            record.attempts.extend(page.attempts);
            record.next_after = page.next_after;
        }
        Ok(record)
    }

    async fn record_page(&self, run_id: &str, after: Option<u32>) -> Result<Record, Error> {
        let query = RecordQuery { after, limit: None };
        self.transport.call(&self.get(&["v1", "runs", run_id, "record"], &query)?).await
    }

    /// Why a run is not running, or not ended.
    pub async fn explain(&self, run_id: &str) -> Result<Explanation, Error> {
        self.transport.call(&self.get(&["v1", "runs", run_id, "explain"], &())?).await
    }

    /// What waits and runs, per queue.
    pub async fn queues(&self) -> Result<Queues, Error> {
        self.transport.call(&self.get(&["v1", "queues"], &())?).await
    }

    /// Asks for work. With a `pollId` a repetition returns what the first try was granted.
    pub async fn lease(&self, request: &LeaseRequest) -> Result<Leases, Error> {
        let call = self.post(&["v1", "leases"], request)?.with_wait(request.wait_ms);
        self.transport.call(&call).await
    }

    /// Says that execution begins.
    pub async fn started(
        &self,
        task_id: &str,
        task_token: &str,
        body: &Started,
    ) -> Result<StartedAck, Error> {
        self.task_call(task_id, "started", task_token, body).await
    }

    /// Says that the worker lives.
    pub async fn heartbeat(
        &self,
        task_id: &str,
        task_token: &str,
        body: &Heartbeat,
    ) -> Result<HeartbeatAck, Error> {
        self.task_call(task_id, "heartbeat", task_token, body).await
    }

    /// Says what became of the attempt.
    pub async fn completed(
        &self,
        task_id: &str,
        task_token: &str,
        body: &Completed,
    ) -> Result<CompletedAck, Error> {
        self.task_call(task_id, "completed", task_token, body).await
    }

    /// Many reports at once, one verdict each.
    pub async fn reports(&self, batch: &Reports) -> Result<ReportAnswers, Error> {
        self.transport.call(&self.post(&["v1", "reports"], batch)?).await
    }

    /// Many heartbeats at once, one answer each.
    pub async fn heartbeats(&self, batch: &Heartbeats) -> Result<HeartbeatAnswers, Error> {
        self.transport.call(&self.post(&["v1", "heartbeats"], batch)?).await
    }

    /// [`Client::heartbeats`] whose answer is of no use later than `timeout`.
    pub(crate) async fn heartbeats_with_timeout(
        &self,
        batch: &Heartbeats,
        timeout: Duration,
    ) -> Result<HeartbeatAnswers, Error> {
        self.transport.call(&self.post(&["v1", "heartbeats"], batch)?.with_timeout(timeout)).await
    }

    /// Whether the coordinator makes progress; an unready one is an answer and not an error.
    pub async fn ready(&self) -> Result<Ready, Error> {
        self.transport.probe(&self.get(&["readyz"], &())?).await
    }

    pub async fn version(&self) -> Result<Version, Error> {
        self.transport.call(&self.get(&["version"], &())?).await
    }

    async fn task_call<T: serde::de::DeserializeOwned>(
        &self,
        task_id: &str,
        what: &str,
        task_token: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let url = self.url(&["v1", "tasks", task_id, what])?;
        self.transport.call(&Call::post(url, bearer(task_token)?, body)?).await
    }

    fn post(&self, path: &[&str], body: &impl Serialize) -> Result<Call, Error> {
        Call::post(self.url(path)?, self.target.authorization.clone(), body)
    }

    fn get(&self, path: &[&str], query: &impl Serialize) -> Result<Call, Error> {
        let mut url = self.url(path)?;
        let members = serde_json::to_value(query)
            .map_err(|source| Error::Setup(format!("the query has no JSON form: {source}")))?;
        for (name, value) in members.as_object().into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            url.query_pairs_mut().append_pair(name, &text);
        }
        Ok(Call::get(url, self.target.authorization.clone()))
    }

    fn url(&self, path: &[&str]) -> Result<Url, Error> {
        // Addresses drop such segments, and the call would go to another route.
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

/// What a cancel does to a run that a worker holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CancelMode {
    /// Ask the worker, and give it the grace period.
    #[default]
    Graceful,
    /// Take the lease back at once.
    Immediate,
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

/// 128 random bits: nobody else's name.
pub(crate) fn random_hex() -> Result<String, Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|source| Error::Setup(format!("the system gave no randomness: {source}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
