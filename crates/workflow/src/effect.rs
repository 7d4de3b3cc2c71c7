//! Effects: what is sent to a registered endpoint because of a step, once.
//!
//! A step that is recorded has its effects with it: the coordinator delivers them, in order, until the receiver has them. A
//! replay reads the step and asks for nothing, so an effect is asked for once whatever happens to workers.

use serde::{Deserialize, Serialize};
use wire::Json;

use crate::Failure;

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
