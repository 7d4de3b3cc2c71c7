//! The stored form of a flow key.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::flow::{Debounced, Rate};
use verdict::{FlowKey, Name, Span, Time};

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

/// A debounce as its three numbers: its span and its maximum in milliseconds, and the instant since which its line waits.
mod optional_debounce {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        debounce: &Option<Debounced>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let numbers = |it: &Debounced| (it.span.millis(), it.max.millis(), it.since.millis());
        debounce.as_ref().map(numbers).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Debounced>, D::Error> {
        let read = |(span, max, since)| Debounced {
            span: Span::from_millis(span),
            max: Span::from_millis(max),
            since: Time::from_millis(since),
        };
        Ok(Option::<(u64, u64, i64)>::deserialize(from)?.map(read))
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
    #[serde(with = "optional_debounce", default, skip_serializing_if = "Option::is_none")]
    debounce: Option<Debounced>,
}

super::budget_forms::optional_box!(optional_flow, FlowKey, "FlowKeyForm");
