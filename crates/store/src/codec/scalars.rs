//! The smallest stored values: ids, digests, names and states as text, times and lengths as numbers.

use verdict::{
    AttemptOutcome, Category, Digest, Fence, Json, LeaseId, Name, OnStall, Reason, Span, State,
    TaskId, Text, Time,
    recovery::{Action, Because, CandidateState, Evaluator},
    schedule::{CatchUp, Overlap},
};

/// A value with exactly one spelling.
pub(super) trait TextScalar: Sized {
    fn to_text(&self) -> String;
    fn read(text: String) -> Option<Self>;
}

/// A value that is a number.
pub(super) trait NumberScalar: Sized {
    fn to_number(&self) -> i64;
    fn from_number(number: i64) -> Self;
}

macro_rules! by_display {
    ($($type:ty),*) => {$(
        impl TextScalar for $type {
            fn to_text(&self) -> String {
                self.to_string()
            }

            fn read(text: String) -> Option<Self> {
                Self::parse(&text)
            }
        }
    )*};
}

macro_rules! by_name {
    ($($type:ty),*) => {$(
        impl TextScalar for $type {
            fn to_text(&self) -> String {
                self.name().to_owned()
            }

            fn read(text: String) -> Option<Self> {
                Self::parse(&text)
            }
        }
    )*};
}

macro_rules! by_as_str {
    ($($type:ty),*) => {$(
        impl TextScalar for $type {
            fn to_text(&self) -> String {
                self.as_str().to_owned()
            }

            fn read(text: String) -> Option<Self> {
                Some(Self::from(text))
            }
        }
    )*};
}

by_display!(TaskId, LeaseId, Digest);
by_name!(State, Reason, Category, AttemptOutcome, OnStall, Overlap, CatchUp);
by_name!(Action, Because, CandidateState, Evaluator);
by_name!(verdict::approval::Decision, verdict::approval::Outcome);
by_as_str!(Name, Text, Json);

impl NumberScalar for Time {
    fn to_number(&self) -> i64 {
        self.millis()
    }

    fn from_number(number: i64) -> Self {
        Self::from_millis(number)
    }
}

/// Spans and fences use all 64 bits; the sign of the stored number has no meaning.
impl NumberScalar for Span {
    fn to_number(&self) -> i64 {
        self.millis() as i64
    }

    fn from_number(number: i64) -> Self {
        Self::from_millis(number as u64)
    }
}

impl NumberScalar for Fence {
    fn to_number(&self) -> i64 {
        self.as_u64() as i64
    }

    fn from_number(number: i64) -> Self {
        Self::from_u64(number as u64)
    }
}

pub(super) mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::TextScalar;

    pub(in super::super) fn serialize<T: TextScalar, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(&value.to_text())
    }

    pub(in super::super) fn deserialize<'de, T: TextScalar, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        let text = String::deserialize(from)?;
        T::read(text).ok_or_else(|| D::Error::custom("the text is in no form that Tenure writes"))
    }

    pub(in super::super) mod opt {
        use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

        use super::TextScalar;

        pub(in super::super::super) fn serialize<T: TextScalar, S: Serializer>(
            value: &Option<T>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            value.as_ref().map(TextScalar::to_text).serialize(to)
        }

        pub(in super::super::super) fn deserialize<'de, T: TextScalar, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<T>, D::Error> {
            let text = Option::<String>::deserialize(from)?;
            let read = |text| T::read(text).ok_or_else(|| D::Error::custom("an unknown spelling"));
            text.map(read).transpose()
        }
    }
}

pub(super) mod as_number {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::NumberScalar;

    pub(in super::super) fn serialize<T: NumberScalar, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_i64(value.to_number())
    }

    pub(in super::super) fn deserialize<'de, T: NumberScalar, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        i64::deserialize(from).map(T::from_number)
    }

    pub(in super::super) mod opt {
        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        use super::NumberScalar;

        pub(in super::super::super) fn serialize<T: NumberScalar, S: Serializer>(
            value: &Option<T>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            value.as_ref().map(NumberScalar::to_number).serialize(to)
        }

        pub(in super::super::super) fn deserialize<'de, T: NumberScalar, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<T>, D::Error> {
            Ok(Option::<i64>::deserialize(from)?.map(T::from_number))
        }
    }
}
