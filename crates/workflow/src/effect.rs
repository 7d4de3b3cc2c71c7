//! Effects: what is sent to a registered endpoint because of a step, once.
//!
//! A step that is recorded has its effects with it: the coordinator delivers them, in order, until the receiver has them. A
//! replay reads the step and asks for nothing, so an effect is asked for once whatever happens to workers.
//!
//! Code may also wait, without a worker, for what becomes of an effect. That it failed, or that nobody knows, is a value: what
//! to do then is the code's business.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::requests::AwaitedEffect;
use wire::{Json, Time};

use crate::Failure;
use crate::command::Checkpoint;
use crate::flow::Flow;
use crate::key::OperationKind;
use crate::operation::Made;
use crate::step::{Step, StepCall};
use crate::stop::SourceLine;
use crate::wait::{Ask, Boxed, WaitCall, waits};

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
#[non_exhaustive]
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
    made: Made,
    effect: Effect,
}

impl EffectCall {
    pub(crate) fn new(flow: &Flow, name: String, effect: Effect, at: SourceLine) -> EffectCall {
        EffectCall { made: Made::new(flow, OperationKind::Step, name, at), effect }
    }

    /// Waits without a worker until the effect is delivered or given up, or nobody knows.
    pub fn delivered(self) -> DeliveryCall {
        let EffectCall { made, effect } = self;
        let step = EffectStep { name: made.name.clone(), effect, at: made.at };
        DeliveryCall { made: made.becomes(OperationKind::Delivery), step }
    }

    pub(crate) fn begun(mut self) -> EffectCall {
        self.made = self.made.begun();
        self
    }

    pub(crate) fn inside(mut self, flow: &Flow) -> EffectCall {
        self.made = self.made.inside(flow);
        self
    }
}

impl IntoFuture for EffectCall {
    type Output = Result<(), Failure>;
    type IntoFuture = Boxed<'static, Result<(), Failure>>;

    fn into_future(self) -> Self::IntoFuture {
        let made = self.made.begun();
        let step = EffectStep { name: made.name.clone(), effect: self.effect, at: made.at };
        step.call(&made.flow).into_future()
    }
}

/// The step that declares an effect.
pub(crate) struct EffectStep {
    name: String,
    effect: Effect,
    at: SourceLine,
}

impl EffectStep {
    /// Records the step in the branch of this context. Says which effect is on its way.
    pub(crate) async fn declare(self, flow: &Flow) -> Result<AwaitedEffect, Failure> {
        let key = self.effect.key.clone();
        let ((), step) = self.call(flow).keyed().await?;
        Ok(AwaitedEffect { step, key })
    }

    fn call(
        self,
        flow: &Flow,
    ) -> StepCall<'static, impl FnMut(Step) -> std::future::Ready<Result<(), Failure>> + use<>>
    {
        let asked = self.effect.clone();
        let work = move |step: Step| {
            step.effect(asked.clone());
            std::future::ready(Ok(()))
        };
        StepCall::new(flow, self.name, work, self.at).input(&self.effect)
    }
}

/// What becomes of an effect, which is asked for when this is awaited.
#[must_use = "an effect is asked for when it is awaited"]
pub struct DeliveryCall {
    made: Made,
    step: EffectStep,
}

impl DeliveryCall {
    /// Waits no longer than this; `None` if the effect is still on its way then. It is delivered all the same.
    pub fn within<'m>(self, span: Duration) -> WaitCall<'m, Option<Delivery>> {
        let read = |told: Option<Checkpoint>| told.map(read).transpose();
        WaitCall { within: Some(span), ..WaitCall::new(self.made, Ask::Delivery(self.step), read) }
    }

    fn into_wait_call<'m>(self) -> WaitCall<'m, Delivery> {
        // Recorded code may have had a limit. Then no delivery is what was recorded.
        let late = || Failure::timeout("the effect was not delivered in time");
        let ask = Ask::Delivery(self.step);
        WaitCall::new(self.made, ask, move |told| read(told.ok_or_else(late)?))
    }
}

waits!([] DeliveryCall, Delivery);

impl IntoFuture for DeliveryCall {
    type Output = Result<Delivery, Failure>;
    type IntoFuture = Boxed<'static, Result<Delivery, Failure>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.into_wait_call().wait())
    }
}

fn read(told: Checkpoint) -> Result<Delivery, Failure> {
    let Checkpoint { key, result, .. } = told;
    let Told { outcome, effect_id, at_ms, reason } =
        result.unwrap_or_default().read().map_err(|error| {
            Failure::data(format!("what became of the effect of `{key}` cannot be read: {error}"))
        })?;
    Ok(Delivery { outcome, effect_id, at: Time::from_ms(at_ms), reason })
}
