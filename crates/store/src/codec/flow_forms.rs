//! The stored form of a flow key.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::{FlowKey, Name};

use super::scalars::as_text;

#[derive(Serialize, Deserialize)]
#[serde(remote = "FlowKey")]
struct FlowKeyForm {
    #[serde(rename = "key", with = "as_text")]
    name: Name,
    limit: u32,
}

super::budget_forms::optional_box!(optional_flow, FlowKey, "FlowKeyForm");
