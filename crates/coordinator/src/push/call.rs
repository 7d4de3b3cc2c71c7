//! One call: the envelope of one attempt, signed and bound to its URL, and what the answer means.
//!
//! | the endpoint answers | what follows |
//! |---|---|
//! | 2xx with a report | the report is decided, as if the worker had sent it |
//! | 2xx without one | the attempt has started; the worker calls back |
//! | 429, 503 | the task is handed back and keeps its place; the endpoint is left alone for a while |
//! | 410 | the same, and the endpoint is disabled |
//! | another status | the attempt has failed |
//! | nothing: no connection | the grant goes back as undelivered |
//! | nothing: it may have the request | the lease runs out |
//!
//! The time for an answer is the lease: its first period, unless the worker renews it. So a function that lives only as long as
//! the request may take as long as it likes, if it sends heartbeats.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use delivery::{Answered, Outgoing, RetryAfter, SendOutcome, parse_retry_after};
use serde_json::{Value, json};
use store::Browse;
use store::effects::StoredEndpoint;
use verdict::request::Started;
use verdict::{Answer, Span, Time};
use webhook::{
    HEADER_ID, HEADER_PUSH_TOKEN, HEADER_SIGNATURE, HEADER_TIMESTAMP, push_tokens, signatures,
};
use wire::requests::Completed;

use crate::http::{AppState, push_envelope, report_item};
use crate::item::Granted;
use crate::outbox::secrets;

/// The longest call. A worker that renews its lease for longer acknowledges first and calls back.
const CALL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum bytes of an answer: as much as a report may have.
const ANSWER_MAX: usize = 2 * 1024 * 1024;

pub(super) struct Call {
    pub(super) app: AppState,
    pub(super) endpoint: Arc<StoredEndpoint>,
    pub(super) granted: Granted,
}

/// What came of a call, as far as the next ones are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handed {
    /// The endpoint took it.
    Over,
    /// It did not. It may have asked for a pause.
    Back { asked: Option<Span> },
    /// The endpoint is gone for ever.
    Gone,
}

impl Call {
    pub(super) async fn hand_over(self) -> Handed {
        let sent = match self.outgoing().await {
            Ok(Some(outgoing)) => self.send(&outgoing).await,
            // The stage ended instead, because its input cannot be resolved.
            Ok(None) => return Handed::Over,
            Err(why) => {
                tracing::warn!(why, endpoint = %self.endpoint.endpoint.name, "cannot push");
                return self.undelivered();
            }
        };
        match sent {
            SendOutcome::Refused(_) | SendOutcome::NotSent(_) => self.undelivered(),
            SendOutcome::Unanswered(_) => Handed::Back { asked: None },
            SendOutcome::Answered(answered) => self.answered(answered).await,
        }
    }

    /// The call, with the envelope as every worker gets it.
    async fn outgoing(&self) -> Result<Option<Outgoing>, &'static str> {
        let envelope = push_envelope(&self.app, &self.granted).await;
        let envelope = envelope.map_err(|_| "what the task has recorded cannot be read")?;
        let Some(envelope) = envelope else { return Ok(None) };
        let body = serde_json::to_vec(&envelope).expect("an envelope is plain JSON");
        let (now, scope) = (self.app.coordinator.now(), &self.granted.task.scope);
        let secrets = secrets::valid(&self.app.inner.keyring, scope, &self.endpoint, now);
        if secrets.is_empty() {
            return Err("the secret of the endpoint cannot be opened here");
        }
        let (id, timestamp) = (self.id(), now.millis() / 1_000);
        let url = self.endpoint.endpoint.url.to_string();
        let headers = vec![
            (HEADER_SIGNATURE, signatures(&secrets, &id, timestamp, &body)),
            (HEADER_PUSH_TOKEN, push_tokens(&secrets, &url, &id, timestamp)),
            (HEADER_ID, id),
            (HEADER_TIMESTAMP, timestamp.to_string()),
        ];
        let tenant = scope.tenant.to_string();
        Ok(Some(Outgoing { tenant, url, headers, body: Bytes::from(body) }))
    }

    /// The same for every copy of this attempt, and for no other: a receiver drops the second one by it.
    fn id(&self) -> String {
        format!("push_{}_{}", self.granted.task.id, self.granted.task.attempt)
    }

    /// Sends, and waits for the answer as long as the worker has its lease.
    async fn send(&self, outgoing: &Outgoing) -> SendOutcome {
        let sending = self.app.inner.sender.call(outgoing, CALL_MAX, ANSWER_MAX);
        tokio::pin!(sending);
        loop {
            let left = self.lease_left().await;
            if left == Span::ZERO {
                return SendOutcome::Unanswered("no answer within the lease");
            }
            let pause = Duration::from_millis(left.millis());
            tokio::select! {
                biased;
                sent = &mut sending => return sent,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// What is left of the lease, which its worker may have renewed. Nothing if it has ended.
    async fn lease_left(&self) -> Span {
        let (ours, now) = (self.granted.lease(), self.app.coordinator.now());
        let first = self.granted.task.lease().map_or(now, |lease| lease.expires_at);
        if !first.has_come(now) {
            return first.since(now);
        }
        let found = self.app.coordinator.browse().find(&self.granted.key()).await;
        let found = found.ok().flatten();
        let lease = found.as_ref().and_then(|stored| stored.subject.live()?.lease());
        let lease = lease.filter(|lease| lease.id == ours);
        lease.map_or(Span::ZERO, |lease| lease.expires_at.since(now))
    }

    async fn answered(&self, answered: Answered) -> Handed {
        let Answered { status, retry_after, excerpt, body } = answered;
        match status {
            200..=299 => {
                match report(&body) {
                    None => self.started().await,
                    Some(said) => self.report(said).await,
                }
                Handed::Over
            }
            429 | 503 => {
                self.report(br#"{"outcome":"RELEASED"}"#.to_vec()).await;
                Handed::Back { asked: asked(retry_after.as_deref(), self.app.coordinator.now()) }
            }
            410 => {
                self.report(br#"{"outcome":"RELEASED"}"#.to_vec()).await;
                Handed::Gone
            }
            _ => {
                let message = format!("the endpoint answered {status}: {excerpt}");
                self.report(failure("INFRASTRUCTURE", &message)).await;
                Handed::Back { asked: None }
            }
        }
    }

    fn undelivered(&self) -> Handed {
        self.app.coordinator.release(vec![(self.granted.key(), self.granted.lease())]);
        Handed::Back { asked: None }
    }

    /// The worker has the attempt: its lease begins anew. If it has called back already, that was its start.
    async fn started(&self) {
        let started = Started { caller: self.granted.caller(), claimed_at: None };
        let reply = self.app.coordinator.started(self.granted.key(), started).await;
        if let Err(error) = reply {
            tracing::debug!(%error, "cannot note that a pushed attempt has started");
        }
    }

    /// Decides a report of the worker. One that makes no sense is a failure of the attempt.
    async fn report(&self, said: Vec<u8>) {
        let item = match self.item(&said).await {
            Ok(item) => Ok(item),
            Err(fault) => {
                let message = format!("the answer of the endpoint is no report: {fault}");
                self.item(&failure("DATA_QUALITY", &message)).await
            }
        };
        let Ok(item) = item else { return };
        let replies = self.app.coordinator.ask(vec![item]).await;
        let refused = replies.into_iter().find_map(|reply| match reply {
            Err(error) => Some(error.to_string()),
            Ok(answered) => match answered.answer {
                Answer::Refused(refusal) => Some(format!("{refusal:?}")),
                _ => None,
            },
        });
        if let Some(why) = refused {
            tracing::debug!(why, "the report of a pushed attempt was not taken");
        }
    }

    async fn item(&self, said: &[u8]) -> Result<crate::item::Item, String> {
        let caller = self.granted.caller();
        let completed: Completed = match wire::parse(said) {
            Ok(completed) => completed,
            Err(_) => {
                wire::parse(&with_identity(said, &caller)).map_err(|fault| fault.to_string())?
            }
        };
        if completed.attempt != caller.attempt {
            return Err(format!("it is about attempt {}", completed.attempt));
        }
        report_item(&self.app, self.granted.key(), caller, completed).await
    }
}

/// The body, if it says how the attempt ended.
fn report(body: &[u8]) -> Option<Vec<u8>> {
    let said: Value = serde_json::from_slice(body).ok()?;
    said.get("outcome").is_some().then(|| body.to_vec())
}

/// The same with the members that an answer may leave out, because the call says them.
fn with_identity(said: &[u8], caller: &verdict::request::Caller) -> Vec<u8> {
    let identity = format!(r#"{{"attempt":{},"workerId":"{}","#, caller.attempt, caller.worker);
    let rest = said.iter().position(|byte| *byte == b'{').map_or(said, |at| &said[at + 1..]);
    [identity.as_bytes(), rest].concat()
}

fn failure(category: &str, message: &str) -> Vec<u8> {
    let error = json!({"category": category, "message": message, "retryable": true});
    json!({"outcome": "FAILED", "error": error}).to_string().into_bytes()
}

fn asked(retry_after: Option<&str>, now: Time) -> Option<Span> {
    retry_after.and_then(parse_retry_after).map(|asked| match asked {
        RetryAfter::Seconds(seconds) => Span::from_secs(seconds.min(u64::from(u32::MAX))),
        RetryAfter::At(second) => Time::from_millis(second.saturating_mul(1_000)).since(now),
    })
}
