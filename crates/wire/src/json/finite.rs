//! Finds numbers that JSON does not have, before they are written: `serde_json` writes NaN and the infinities as null, and a
//! reader would take that for "no value".
//!
//! The value is walked and nothing is written or allocated.

use serde::ser::{Error as _, Serialize, Serializer};
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};
use serde_json::Error;

/// Refuses a value that holds such a number.
pub(super) fn check<T: Serialize + ?Sized>(value: &T) -> Result<(), Error> {
    value.serialize(Finite)
}

struct Finite;

fn finite(number: f64) -> Result<(), Error> {
    if number.is_finite() {
        return Ok(());
    }
    Err(Error::custom(format_args!("JSON has no number {number}; use null or a text")))
}

/// What cannot hold a number needs no look.
macro_rules! harmless {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, _: $type) -> Result<(), Error> { Ok(()) })*
    };
}

impl Serializer for Finite {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Finite;
    type SerializeTuple = Finite;
    type SerializeTupleStruct = Finite;
    type SerializeTupleVariant = Finite;
    type SerializeMap = Finite;
    type SerializeStruct = Finite;
    type SerializeStructVariant = Finite;

    harmless! {
        serialize_bool: bool, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
        serialize_unit_struct: &'static str,
    }

    fn serialize_f32(self, number: f32) -> Result<(), Error> {
        finite(f64::from(number))
    }

    fn serialize_f64(self, number: f64) -> Result<(), Error> {
        finite(number)
    }

    fn serialize_none(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        check(value)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        check(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        check(value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Finite, Error> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Finite, Error> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Finite, Error> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Finite, Error> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Finite, Error> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Finite, Error> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Finite, Error> {
        Ok(self)
    }

    /// Texts are made only to be written.
    fn collect_str<T: std::fmt::Display + ?Sized>(self, _: &T) -> Result<(), Error> {
        Ok(())
    }
}

macro_rules! elements {
    ($($trait:ident::$method:ident),* $(,)?) => {
        $(impl $trait for Finite {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                check(value)
            }

            fn end(self) -> Result<(), Error> {
                Ok(())
            }
        })*
    };
}

elements! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

macro_rules! members {
    ($($trait:ident),* $(,)?) => {
        $(impl $trait for Finite {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), Error> {
                check(value)
            }

            fn end(self) -> Result<(), Error> {
                Ok(())
            }
        })*
    };
}

members!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Finite {
    type Ok = ();
    type Error = Error;

    /// `serde_json` itself refuses a key that has no text.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        check(value)
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}
