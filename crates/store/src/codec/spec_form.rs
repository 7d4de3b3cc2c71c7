//! The stored form of what a child is created with, while the message that creates it is saved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use verdict::{Digest, Json, Name, Text};

use super::forms::optional_resources;
use super::scalars::as_text;
use crate::row::{Resources, Spec};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Spec")]
pub(super) struct SpecForm {
    #[serde(with = "as_text")]
    input: Json,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    goal: Option<Text>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    task_key: Option<Name>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    asset_id: Option<Text>,
    #[serde(with = "optional_resources", default, skip_serializing_if = "Option::is_none")]
    resources: Option<Resources>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<Text>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    key: Option<Text>,
    #[serde(with = "as_text")]
    fingerprint: Digest,
}
