//! The stored form of a flow key.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::flow::Rate;
use verdict::{FlowKey, Name};

use super::scalars::as_text;

/// A rate as the one number that orders rates.
mod optional_rate {
    use super::*;

    pub(super) fn serialize<S: Serializer>(rate: &Option<Rate>, to: S) -> Result<S::Ok, S::Error> {
        rate.map(Rate::rank).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Rate>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Rate::of_rank))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FlowKey")]
struct FlowKeyForm {
    #[serde(rename = "key", with = "as_text")]
    name: Name,
    limit: u32,
    #[serde(with = "optional_rate", default, skip_serializing_if = "Option::is_none")]
    rate: Option<Rate>,
}

super::budget_forms::optional_box!(optional_flow, FlowKey, "FlowKeyForm");
