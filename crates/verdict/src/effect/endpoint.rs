//! Endpoints: where effects go, on which terms, and which ends they want to hear of.
//!
//! A worker names an endpoint and never an address. What an endpoint subscribes to are words: the kinds of ends
//! (`run.succeeded`), all ends of one sort (`run.*`), or everything (`*`). What a worker declares for an endpoint goes
//! there whatever the endpoint subscribes to.

use super::terms::{EffectTerms, OnDead, TRIES_DEFAULT};
use crate::id::{Name, Text};
use crate::task::State;
use crate::time::Span;

/// How many calls to one endpoint a coordinator has in flight unless the endpoint says otherwise.
pub const CONCURRENCY_DEFAULT: u32 = 16;

/// Maximum calls in flight that an endpoint may ask for.
pub const CONCURRENCY_MAX: u32 = 256;

/// Maximum calls per second that an endpoint may ask for.
pub const RATE_MAX: u32 = 100_000;

/// Maximum words that an endpoint subscribes to.
pub const TYPES_MAX: usize = 64;

/// Maximum queues that an endpoint is registered for.
pub const QUEUES_MAX: usize = 16;

/// Maximum endpoints of one scope: every end of a task asks each of them.
pub const ENDPOINTS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointStatus {
    Enabled,
    /// By an administrator, or because the receiver said that it is gone. Its effects wait.
    Disabled,
    /// Its effects are given up.
    Deleted,
}

impl EndpointStatus {
    pub const fn name(self) -> &'static str {
        match self {
            EndpointStatus::Enabled => "enabled",
            EndpointStatus::Disabled => "disabled",
            EndpointStatus::Deleted => "deleted",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        let all = [EndpointStatus::Enabled, EndpointStatus::Disabled, EndpointStatus::Deleted];
        all.into_iter().find(|status| status.name() == name)
    }
}

/// A registered endpoint, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub name: Name,
    pub url: Text,
    /// What it subscribes to.
    pub types: Vec<Name>,
    /// Queues whose tasks are pushed to it ([`crate::push`]).
    pub queues: Vec<Name>,
    pub is_idempotent: bool,
    pub tries_max: u32,
    pub retry_base: Span,
    pub retry_cap: Span,
    pub on_dead: OnDead,
    /// Effects in flight of one coordinator, and leases that it holds of pushed work through all of them.
    pub concurrency: u32,
    /// Calls per second of one coordinator; `None` for no limit.
    pub rate: Option<u32>,
    pub status: EndpointStatus,
    /// Why it was disabled, if nobody asked for it.
    pub disabled_because: Option<Text>,
}

impl Endpoint {
    /// An endpoint with the default terms, which hears of the ends of runs.
    pub fn new(name: Name, url: Text) -> Self {
        let terms = EffectTerms::default();
        Self {
            name,
            url,
            types: vec!["run.*".into()],
            queues: Vec::new(),
            is_idempotent: terms.is_idempotent,
            tries_max: TRIES_DEFAULT,
            retry_base: terms.retry_base,
            retry_cap: terms.retry_cap,
            on_dead: terms.on_dead,
            concurrency: CONCURRENCY_DEFAULT,
            rate: None,
            status: EndpointStatus::Enabled,
            disabled_because: None,
        }
    }

    pub fn terms(&self) -> EffectTerms {
        EffectTerms {
            is_idempotent: self.is_idempotent,
            is_enabled: self.status == EndpointStatus::Enabled,
            is_registered: self.status != EndpointStatus::Deleted,
            tries_max: self.tries_max,
            retry_base: self.retry_base,
            retry_cap: self.retry_cap,
            on_dead: self.on_dead,
        }
    }
}

/// Whether one of these words subscribes to effects of this kind.
pub fn wants(types: &[Name], kind: &str) -> bool {
    types.iter().any(|word| match word.as_str().strip_suffix('*') {
        Some(beginning) => kind.starts_with(beginning),
        None => word.as_str() == kind,
    })
}

/// The kind of effect that tells of an end: of a run, or of a task that has a parent.
pub fn end_kind(is_root: bool, state: State) -> String {
    format!("{}.{}", if is_root { "run" } else { "task" }, state.name())
}
