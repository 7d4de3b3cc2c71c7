//! Effects: what is sent to a registered endpoint because of a step, once.
//!
//! A step that is recorded has its effects with it: the coordinator delivers them, in order, until the receiver has them. A
//! replay reads the step and asks for nothing, so an effect is asked for once whatever happens to workers.
//!
//! Code may also wait, without a worker, for what becomes of an effect. That it failed, or that nobody knows, is a value: what
//! to do then is the code's business.

use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::requests::AwaitedEffect;
use wire::{ErrorCategory, Json, Time};

use crate::Failure;
use crate::command::{Awaited, Checkpoint, Mode};
use crate::flow::Flow;
use crate::key::{Kind, TIMEOUT};
use crate::operation::{Operation, later};
use crate::step::{Step, StepCall};
use crate::stop::SourceLine;

/// A call to the outside, by the name of an endpoint and never by its URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// Its name among the effects of its step.
    pub key: String,
    pub endpoint: String,
    /// What happened, in a word.
    pub r#type: String,
    /// What stays in order; the task when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<String>,
    /// What the receiver gets.
    pub body: Json,
}

impl Effect {
    /// Sends this body to an endpoint. Its key is its type: give another to a second one of the same type.
    pub fn to<T: Serialize + ?Sized>(
        endpoint: impl Into<String>,
        r#type: impl Into<String>,
        body: &T,
    ) -> Result<Effect, Failure> {
        let unwritable = |error| Failure::named("EFFECT_UNWRITABLE", error);
        let body = Json::from_value(body).map_err(unwritable)?;
        let r#type = r#type.into();
        Ok(Effect { key: r#type.clone(), endpoint: endpoint.into(), r#type, aggregate: None, body })
    }

    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Effect {
        Effect { key: key.into(), ..self }
    }

    /// Effects with the same name arrive at the endpoint in the order in which they were recorded, whichever runs they are
    /// from.
    #[must_use]
    pub fn aggregate(self, aggregate: impl Into<String>) -> Effect {
        Effect { aggregate: Some(aggregate.into()), ..self }
    }
}

/// What became of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DeliveryOutcome {
    /// The receiver has it.
    Delivered,
    /// It was given up. A person may still redrive it.
    Failed,
    /// It was sent to a receiver that must not get it twice, and nobody knows whether it arrived.
    Unknown,
}

/// What became of an effect, since when, and why if it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub outcome: DeliveryOutcome,
    /// What the receiver sees as `webhook-id`.
    pub effect_id: String,
    pub at: Time,
    /// Why it was given up: `tries_exhausted`, `gone`, `endpoint_deleted`.
    pub reason: Option<String>,
}

impl Delivery {
    #[must_use]
    pub fn is_delivered(&self) -> bool {
        self.outcome == DeliveryOutcome::Delivered
    }
}

/// What a task is told: the value of the signal that the coordinator sends.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    pub(crate) outcome: DeliveryOutcome,
    pub(crate) effect_id: String,
    pub(crate) at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// An effect that is asked for when it is awaited.
#[must_use = "an effect is asked for when it is awaited"]
pub struct EffectCall {
    ctx: Flow,
    name: String,
    effect: Effect,
    at: SourceLine,
}

impl EffectCall {
    pub(crate) fn new(ctx: Flow, name: String, effect: Effect, at: SourceLine) -> EffectCall {
        EffectCall { ctx, name, effect, at }
    }

    /// Waits without a worker until the effect is delivered or given up, or nobody knows.
    pub async fn delivered(self) -> Result<Delivery, Failure> {
        // Recorded code may have had a limit. Then no delivery is what was recorded.
        let none = || Failure::new(ErrorCategory::Timeout, "the effect was not delivered in time");
        self.wait(None).await?.ok_or_else(none)
    }

    /// Waits no longer than this; `None` if the effect is still on its way then. It is delivered all the same.
    pub async fn delivered_within(self, span: Duration) -> Result<Option<Delivery>, Failure> {
        self.wait(Some(span)).await
    }

    async fn wait(self, within: Option<Duration>) -> Result<Option<Delivery>, Failure> {
        let (ctx, name, at) = (self.ctx.clone(), self.name.clone(), self.at);
        let effect = self.effect.key.clone();
        let ((), step) = self.step().keyed().await?;
        let mut operation = Operation::begin(&ctx, Kind::Delivery, &name, at).await;
        let (key, _) = operation.enter(None).await;
        let timer = format!("{key}.{TIMEOUT}");
        let is_here = operation.shared.with(|core| core.has(&key) || core.has(&timer));
        if !is_here {
            let effect = AwaitedEffect { step, key: effect };
            let mut items = vec![Awaited::Effect { key: key.clone(), effect }];
            if let Some(span) = within {
                let until = later(operation.record().await, span);
                items.push(Awaited::Timer { key: timer.clone(), until });
            }
            operation.arrival(Mode::Any, items).await;
        }
        let first = |core: &mut crate::core::Core| {
            core.take_first(&operation.branch, &[key.as_str(), timer.as_str()])
        };
        let first = operation.shared.with(first).expect("one of them has arrived");
        operation.shared.with(|core| core.forget_parts(&key));
        operation.end();
        (first.key == key).then(|| read(first)).transpose()
    }

    fn step(
        self,
    ) -> StepCall<'static, impl FnMut(Step) -> std::future::Ready<Result<(), Failure>>> {
        let asked = self.effect.clone();
        let work = move |step: Step| {
            step.effect(asked.clone());
            std::future::ready(Ok::<(), Failure>(()))
        };
        StepCall::new(self.ctx, self.name, work, self.at).input(&self.effect)
    }
}

impl IntoFuture for EffectCall {
    type Output = Result<(), Failure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        self.step().into_future()
    }
}

fn read(told: Checkpoint) -> Result<Delivery, Failure> {
    let Checkpoint { key, result, .. } = told;
    let Told { outcome, effect_id, at_ms, reason } =
        result.unwrap_or_default().read().map_err(|error| {
            let message = format!("what became of the effect of `{key}` cannot be read: {error}");
            Failure::new(ErrorCategory::DataQuality, message)
        })?;
    Ok(Delivery { outcome, effect_id, at: Time::from_ms(at_ms), reason })
}
