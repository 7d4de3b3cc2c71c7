//! The smallest stored values: ids, digests, names and states as text, times and lengths as numbers.

use verdict::{
    AttemptOutcome, Category, Digest, Fence, Json, LeaseId, Name, Reason, Span, State, TaskId,
    Text, Time,
};

/// A value with one spelling.
pub(super) trait Spelled: Sized {
    fn spell(&self) -> String;
    fn read(text: String) -> Option<Self>;
}

/// A value that is a number.
pub(super) trait Counted: Sized {
    fn count(&self) -> i64;
    fn from_count(count: i64) -> Self;
}

macro_rules! by_display {
    ($($type:ty),*) => {$(
        impl Spelled for $type {
            fn spell(&self) -> String {
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
        impl Spelled for $type {
            fn spell(&self) -> String {
                self.name().to_owned()
            }

            fn read(text: String) -> Option<Self> {
                Self::parse(&text)
            }
        }
    )*};
}

macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl Spelled for $type {
            fn spell(&self) -> String {
                self.as_str().to_owned()
            }

            fn read(text: String) -> Option<Self> {
                Some(Self::from(text))
            }
        }
    )*};
}

by_display!(TaskId, LeaseId, Digest);
by_name!(State, Reason, Category, AttemptOutcome);
as_text!(Name, Text, Json);

impl Counted for Time {
    fn count(&self) -> i64 {
        self.millis()
    }

    fn from_count(count: i64) -> Self {
        Self::from_millis(count)
    }
}

/// Spans and fences use all 64 bits; the sign of the stored number means nothing.
impl Counted for Span {
    fn count(&self) -> i64 {
        self.millis() as i64
    }

    fn from_count(count: i64) -> Self {
        Self::from_millis(count as u64)
    }
}

impl Counted for Fence {
    fn count(&self) -> i64 {
        self.as_u64() as i64
    }

    fn from_count(count: i64) -> Self {
        Self::from_u64(count as u64)
    }
}

pub(super) mod spelled {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Spelled;

    pub(in super::super) fn serialize<T: Spelled, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(&value.spell())
    }

    pub(in super::super) fn deserialize<'de, T: Spelled, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        let text = String::deserialize(from)?;
        T::read(text).ok_or_else(|| D::Error::custom("not a spelling we write"))
    }

    pub(in super::super) mod opt {
        use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

        use super::Spelled;

        pub(in super::super::super) fn serialize<T: Spelled, S: Serializer>(
            value: &Option<T>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            value.as_ref().map(Spelled::spell).serialize(to)
        }

        pub(in super::super::super) fn deserialize<'de, T: Spelled, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<T>, D::Error> {
            let text = Option::<String>::deserialize(from)?;
            let read = |text| T::read(text).ok_or_else(|| D::Error::custom("an unknown spelling"));
            text.map(read).transpose()
        }
    }
}

pub(super) mod counted {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Counted;

    pub(in super::super) fn serialize<T: Counted, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_i64(value.count())
    }

    pub(in super::super) fn deserialize<'de, T: Counted, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        i64::deserialize(from).map(T::from_count)
    }

    pub(in super::super) mod opt {
        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        use super::Counted;

        pub(in super::super::super) fn serialize<T: Counted, S: Serializer>(
            value: &Option<T>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            value.as_ref().map(Counted::count).serialize(to)
        }

        pub(in super::super::super) fn deserialize<'de, T: Counted, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<T>, D::Error> {
            Ok(Option::<i64>::deserialize(from)?.map(T::from_count))
        }
    }
}
