//! The part of a history that is about effects: what callers asked to be delivered, and what a receiver saw.
//!
//! An aggregate names one line of effects in which order matters. Contents are digests or texts, in any form that preserves
//! equality.

use serde::{Deserialize, Serialize};

/// A caller asks for an effect. It is written before the call, and again once the call was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    pub aggregate: String,
    /// Its place among the effects that were asked for in the aggregate, from 1.
    pub number: u64,
    pub body: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acknowledged: bool,
}

/// A delivery as the receiver saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivered {
    /// The id by which a receiver recognises a repetition.
    pub effect: String,
    pub aggregate: String,
    pub number: u64,
    pub body: String,
}
