//! Effects and the endpoints that they go to: how endpoints are registered, and how deliveries are looked at and repaired.

use serde::{Deserialize, Serialize};

use crate::answers::RetryPolicy;
use crate::check::{Check, Checked, name, optional_name, refuse, within};
use crate::parse::Body;
use crate::requests::Retry;
use crate::{EffectState, EndpointState, Json, OnDead, Time};

/// Maximum characters of an endpoint's name.
const ENDPOINT_NAME_MAX: usize = 64;

/// Maximum words that an endpoint subscribes to.
const TYPES_MAX: usize = 64;

/// Maximum queues that work is pushed from to one endpoint.
const QUEUES_MAX: usize = 16;

/// Maximum characters of a URL.
const URL_MAX: usize = 2_048;

/// What a registration, and a change of one, says. What is absent is as by default, or stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateEndpoint {
    /// Where effects are sent: https, or http in ranges that the operator allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What it is told of: words such as `run.succeeded`, `run.*`, `task.*`, `approval.opened`, `approval.*` or `*`. By default `run.*`; an empty
    /// list for none. Effects that workers declare for it are sent whatever is listed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 64))]
    pub types: Option<Vec<String>>,
    /// Queues whose tasks are pushed to it: each task is leased for it and sent as the envelope that a poll would get. Without
    /// `types` it is told of nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 16))]
    pub queues: Option<Vec<String>>,
    /// Whether the receiver recognises a repeated `webhook-id`; true when absent. If not, a call without an answer is not
    /// repeated: the effect becomes unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Tries before an effect is dead; 20 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100))]
    pub max_tries: Option<u32>,
    /// The pause after the first failed try, which doubles up to the cap; 5 s and 6 h when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What becomes of an aggregate whose oldest effect is dead; block when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_dead: Option<OnDead>,
    /// Effects in flight from one coordinator, and tasks that are pushed and not done; 16 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 256))]
    pub concurrency: Option<u32>,
    /// Calls per second from one coordinator; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100000))]
    pub rate_per_second: Option<u32>,
    /// False disables it: effects wait. True enables it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// `POST /v1/endpoints`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateEndpoint {
    /// What workers call it.
    #[cfg_attr(feature = "openapi", schema(max_length = 64, pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    pub name: String,
    /// Where effects are sent: https, or http in ranges that the operator allows.
    pub url: String,
    /// What it is told of: words such as `run.succeeded`, `run.*`, `task.*`, `approval.opened`, `approval.*` or `*`. By default `run.*`; an empty
    /// list for none. Effects that workers declare for it are sent whatever is listed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 64))]
    pub types: Option<Vec<String>>,
    /// Queues whose tasks are pushed to it: each task is leased for it and sent as the envelope that a poll would get. Without
    /// `types` it is told of nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 16))]
    pub queues: Option<Vec<String>>,
    /// Whether the receiver recognises a repeated `webhook-id`; true when absent. If not, a call without an answer is not
    /// repeated: the effect becomes unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Tries before an effect is dead; 20 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100))]
    pub max_tries: Option<u32>,
    /// The pause after the first failed try, which doubles up to the cap; 5 s and 6 h when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What becomes of an aggregate whose oldest effect is dead; block when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_dead: Option<OnDead>,
    /// Effects in flight from one coordinator, and tasks that are pushed and not done; 16 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 256))]
    pub concurrency: Option<u32>,
    /// Calls per second from one coordinator; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100000))]
    pub rate_per_second: Option<u32>,
}

impl CreateEndpoint {
    /// The same as a change of an endpoint with default settings.
    pub fn into_update(self) -> (String, UpdateEndpoint) {
        let CreateEndpoint { name, url, types, idempotent, max_tries, .. } = self;
        let CreateEndpoint { retry, on_dead, concurrency, rate_per_second, queues, .. } = self;
        let update = UpdateEndpoint {
            url: Some(url),
            types,
            queues,
            idempotent,
            max_tries,
            retry,
            on_dead,
            concurrency,
            rate_per_second,
            enabled: None,
        };
        (name, update)
    }
}

/// `POST /v1/endpoints/{endpoint}/rotate`: a new secret. The old one signs beside it for a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateEndpoint {
    /// How long both sign; a day when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 2592000000u64))]
    pub overlap_ms: Option<u64>,
}

/// A secret that is shown once: 201 for a new endpoint, 200 for a new secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct EndpointSecret {
    pub name: String,
    /// `whsec_…`, for the receiver. It cannot be shown again.
    pub secret: String,
    pub endpoint: EndpointView,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct EndpointView {
    pub name: String,
    pub url: String,
    pub types: Vec<String>,
    /// Queues whose tasks are pushed to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    pub idempotent: bool,
    pub max_tries: u32,
    pub retry: RetryPolicy,
    pub on_dead: OnDead,
    pub concurrency: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<u32>,
    pub state: EndpointState,
    /// Why it is disabled, if nobody disabled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_because: Option<String>,
    pub created_at: Time,
    /// Until when the secret before the last rotation signs too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_secret_until: Option<Time>,
}

/// All endpoints of a workspace, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct EndpointList {
    pub endpoints: Vec<EndpointView>,
}

/// `GET /v1/effects?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListEffects {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<EffectState>,
    /// The `cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// A page of effects, by endpoint and aggregate, in the order in which each aggregate is delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct EffectList {
    pub effects: Vec<EffectView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct EffectView {
    /// The same as `webhook-id`.
    pub effect_id: String,
    pub run_id: String,
    pub task_id: String,
    pub endpoint: String,
    pub r#type: String,
    /// What stays in order: the task, unless its worker named something else.
    pub aggregate: String,
    /// Its place in its aggregate at this endpoint, from 1.
    pub sequence: u64,
    pub state: EffectState,
    /// Why it is dead: tries_exhausted, gone, endpoint_deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether its aggregate waits for it, though nothing is tried any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<bool>,
    /// Tries since it was decided or redriven.
    pub tries: u32,
    pub decided_at: Time,
    /// When it is tried next, or when the try under way counts as lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Time>,
    /// When it was delivered, became unknown or died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_try: Option<TryView>,
    /// What is sent, byte for byte. Only where one effect is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Json>,
    /// Everything that happened to it, oldest first. Only where one effect is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<EffectChange>,
}

/// What came of a try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct TryView {
    pub at: Time,
    /// What the receiver answered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there is no status, or the beginning of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One change of an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct EffectChange {
    pub at: Time,
    pub state: EffectState,
    pub tries: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_try: Option<TryView>,
    /// The API key of the person who asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
}

/// `POST /v1/effects/{effectId}/reconcile`: what a person found out about an unknown effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReconcileEffect {
    /// Whether the receiver has it. If not, it is sent again.
    pub arrived: bool,
}

/// `POST /v1/effects/redrive`: new tries for dead effects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedriveEffects {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Only those that were decided at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// How many effects have new tries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Redriven {
    pub redriven: u64,
    /// Whether a repeated call may find more.
    pub more: bool,
}

impl Body for CreateEndpoint {}
impl Body for ReconcileEffect {}

impl Body for UpdateEndpoint {}

impl Body for RotateEndpoint {
    fn from_empty() -> Option<RotateEndpoint> {
        Some(RotateEndpoint::default())
    }
}

impl Body for RedriveEffects {
    fn from_empty() -> Option<RedriveEffects> {
        Some(RedriveEffects::default())
    }
}

impl Check for CreateEndpoint {
    fn check(&self) -> Checked {
        endpoint_name("name", &self.name)?;
        self.clone().into_update().1.check()
    }
}

impl Check for UpdateEndpoint {
    fn check(&self) -> Checked {
        if self.url.as_ref().is_some_and(|url| url.is_empty() || url.len() > URL_MAX) {
            return refuse("url", format!("must have 1 to {URL_MAX} characters"));
        }
        let types = self.types.as_deref().unwrap_or_default();
        if types.len() > TYPES_MAX {
            return refuse("types", format!("may have {TYPES_MAX} words"));
        }
        for (at, word) in types.iter().enumerate() {
            let beginning = word.strip_suffix('*').unwrap_or(word);
            if !beginning.is_empty() || word.is_empty() {
                name(&format!("types[{at}]"), beginning)?;
            }
        }
        let queues = self.queues.as_deref().unwrap_or_default();
        if queues.len() > QUEUES_MAX {
            return refuse("queues", format!("may have {QUEUES_MAX} names"));
        }
        for (at, queue) in queues.iter().enumerate() {
            name(&format!("queues[{at}]"), queue)?;
        }
        within("maxTries", self.max_tries.map(u64::from), 1..=100)?;
        if let Some(Retry { base_ms, cap_ms }) = &self.retry {
            within("retry.baseMs", *base_ms, 100..=3_600_000)?;
            within("retry.capMs", *cap_ms, base_ms.unwrap_or(100)..=86_400_000)?;
        }
        within("concurrency", self.concurrency.map(u64::from), 1..=256)?;
        within("ratePerSecond", self.rate_per_second.map(u64::from), 1..=100_000)
    }
}

impl Check for RotateEndpoint {
    fn check(&self) -> Checked {
        within("overlapMs", self.overlap_ms, 0..=2_592_000_000)
    }
}

impl Check for ReconcileEffect {
    fn check(&self) -> Checked {
        Ok(())
    }
}

impl Check for RedriveEffects {
    fn check(&self) -> Checked {
        optional_name("runId", self.run_id.as_deref())?;
        optional_name("endpoint", self.endpoint.as_deref())
    }
}

impl Check for ListEffects {
    fn check(&self) -> Checked {
        optional_name("runId", self.run_id.as_deref())?;
        optional_name("endpoint", self.endpoint.as_deref())?;
        within("limit", self.limit.map(u64::from), 1..=1000)
    }
}

/// The name of an endpoint is part of paths and of keys, so it has neither slashes nor colons.
pub(crate) fn endpoint_name(field: &str, value: &str) -> Checked {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if value.is_empty() || value.len() > ENDPOINT_NAME_MAX || !value.bytes().all(is_plain) {
        let allowed = "letters, digits, `.`, `_` and `-`";
        return refuse(field, format!("must have 1 to {ENDPOINT_NAME_MAX} {allowed}"));
    }
    Ok(())
}
