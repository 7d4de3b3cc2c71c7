//! Functions of users behind one shape: a turn as it was told in, a decision as it is sent out.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::Json;
use workflow::Failure;

use super::decision::{ArtifactDecision, GateDecision, SchedulerDecision};
use super::told::{ArtifactTurn, EventTurn, OrderTurn, Version};
use crate::payload::{self, Unreadable};

/// Decides one turn; an error means that the turn is not one of this logic.
pub(super) type Decider = Arc<dyn Fn(&Json, Context) -> Result<Deciding, Unreadable> + Send + Sync>;

pub(super) type Deciding = BoxFuture<'static, Result<Json, Failure>>;

/// What a turn has beside what is told.
pub(super) struct Context {
    pub(super) version: Version,
    /// Why the decision before was refused.
    pub(super) refusal: Option<String>,
}

/// A turn of one logic, with what belongs to it.
pub(super) trait Told: DeserializeOwned + Clone + Send + 'static {
    fn with(self, context: Context) -> Self;
}

/// A decision of one logic.
pub(super) trait Decision<T> {
    fn said(self, turn: &T) -> Result<Json, serde_json::Error>;
}

impl Told for EventTurn {
    fn with(self, Context { version, refusal }: Context) -> EventTurn {
        EventTurn { version, refusal, ..self }
    }
}

impl Told for OrderTurn {
    fn with(self, Context { version, refusal }: Context) -> OrderTurn {
        OrderTurn { version, refusal, ..self }
    }
}

impl Told for ArtifactTurn {
    /// A refused decision about an artifact leaves nothing to decide about: the artifact is told again.
    fn with(self, Context { version, refusal: _ }: Context) -> ArtifactTurn {
        ArtifactTurn { version, ..self }
    }
}

impl Decision<EventTurn> for SchedulerDecision {
    fn said(self, _: &EventTurn) -> Result<Json, serde_json::Error> {
        json(&self)
    }
}

impl Decision<OrderTurn> for GateDecision {
    fn said(self, _: &OrderTurn) -> Result<Json, serde_json::Error> {
        json(&self)
    }
}

impl Decision<ArtifactTurn> for ArtifactDecision {
    fn said(self, turn: &ArtifactTurn) -> Result<Json, serde_json::Error> {
        json(&self.about(turn))
    }
}

fn json(decision: &impl Serialize) -> Result<Json, serde_json::Error> {
    Json::from_value(decision)
}

pub(super) fn decider<T, D, F, Fut>(decide: F) -> Decider
where
    T: Told,
    D: Decision<T>,
    F: Fn(T) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<D, Failure>> + Send + 'static,
{
    let decide = Arc::new(decide);
    Arc::new(move |told, context| {
        let turn = payload::read::<T>(told)?.with(context);
        let decide = Arc::clone(&decide);
        // Called inside the future, so that a panic in the call is attributed to the turn.
        Ok(Box::pin(async move {
            let told = turn.clone();
            let decided = decide(turn).await?;
            let said = decided.said(&told);
            said.map_err(|why| Failure::permanent(format!("the decision has no JSON form: {why}")))
        }))
    })
}
