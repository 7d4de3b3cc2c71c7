//! The stored form of a flow key.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::flow::{Debounced, Hold, Rate};
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

fn is_lease(hold: &Hold) -> bool {
    *hold == Hold::Lease
}

/// How long a slot is held: `true` for life.
mod hold_word {
    use super::*;

    pub(super) fn serialize<S: Serializer>(hold: &Hold, to: S) -> Result<S::Ok, S::Error> {
        (*hold == Hold::Life).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Hold, D::Error> {
        let is_life = bool::deserialize(from)?;
        Ok(if is_life { Hold::Life } else { Hold::Lease })
    }
}

mod names {
    use super::*;

    pub(super) fn serialize<S: Serializer>(names: &[Name], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(names.iter().map(Name::as_str))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Name>, D::Error> {
        Ok(Vec::<String>::deserialize(from)?.into_iter().map(Name::from).collect())
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
    #[serde(with = "hold_word", default, skip_serializing_if = "is_lease")]
    hold: Hold,
    #[serde(with = "names", default, skip_serializing_if = "Vec::is_empty")]
    above: Vec<Name>,
}

super::budget_forms::optional_box!(optional_flow, FlowKey, "FlowKeyForm");
