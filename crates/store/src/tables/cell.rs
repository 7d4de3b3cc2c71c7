//! How the value of a Rust type is stored in a cell: its kind, whether it may be absent, how it is written and read.
//!
//! The type of a column says all of this, so a group lists only types. A value that cannot be read is an error that
//! names its column. Numbers are checked by the engine that stores them.

use std::collections::BTreeMap;

use verdict::flow::Rate;
use verdict::plan::{Blame, PlanStep};
use verdict::run::{Awaited, Body, Recorded, RunState, Waiting};
use verdict::{
    AttemptOutcome, CancelRequest, Digest, Fault, Fence, Json, LeaseId, Name, ObjectType, Progress,
    Reason, Request, Span, State, TaskId, Text, Time, WorkerVerdict,
};

use crate::cells::Cells;
use crate::codec::Stored;
use crate::codec::inline_history::InlineHistory;
use crate::codec::packed_terms::Terms;
use crate::columns::{Columns, Row};
use crate::row::{Renewals, Resources, Spec};

/// What a database calls the type of a column, apart from its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Bytes,
    /// 32 bits.
    Int,
    /// 64 bits.
    Long,
    Bool,
}

/// A type that a column can have.
pub(crate) trait ColumnValue: Sized {
    const KIND: Kind;
    const NULLABLE: bool;
    /// What is written: the value by reference.
    type Written<'a>;

    fn write<C: Cells>(value: Self::Written<'_>, cells: &mut C);
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error>;
}

/// A type whose absence is NULL and nothing else: `T` is a column that is never NULL, `Option<T>` one that may be.
pub(crate) trait Cell: Sized {
    const KIND: Kind;

    fn write<C: Cells>(value: Option<&Self>, cells: &mut C);
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Option<Self>, R::Error>;
}

impl<T: Cell + 'static> ColumnValue for T {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = false;
    type Written<'a> = &'a T;

    fn write<C: Cells>(value: &T, cells: &mut C) {
        T::write(Some(value), cells);
    }

    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<T, R::Error> {
        <T as Cell>::read(columns)?.ok_or_else(|| columns.unreadable("it is null"))
    }
}

impl<T: Cell + 'static> ColumnValue for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;
    type Written<'a> = Option<&'a T>;

    fn write<C: Cells>(value: Option<&T>, cells: &mut C) {
        T::write(value, cells);
    }

    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Option<T>, R::Error> {
        <T as Cell>::read(columns)
    }
}

/// An inline history without entries is not stored.
impl ColumnValue for InlineHistory {
    const KIND: Kind = Kind::Bytes;
    const NULLABLE: bool = true;
    type Written<'a> = &'a InlineHistory;

    fn write<C: Cells>(value: &InlineHistory, cells: &mut C) {
        cells.bytes(value.bytes());
    }

    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        columns.inline_history()
    }
}

/// Labels, as JSON. An empty set is not stored.
impl ColumnValue for BTreeMap<String, String> {
    const KIND: Kind = Kind::Text;
    const NULLABLE: bool = true;
    type Written<'a> = &'a BTreeMap<String, String>;

    fn write<C: Cells>(value: &Self, cells: &mut C) {
        let text = || serde_json::to_string(value).expect("labels are text");
        cells.text((!value.is_empty()).then(text).as_deref());
    }

    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        let Some(text) = columns.optional_str()? else { return Ok(BTreeMap::new()) };
        serde_json::from_str(text).map_err(|error| columns.unreadable(error))
    }
}

/// `Type: Kind, writer(how a value becomes what the writer takes), reader(how what was read becomes a value);`
macro_rules! cells {
    ($($type:ty: $kind:ident, $write:ident($out:expr), $read:ident($in:expr);)*) => {$(
        impl Cell for $type {
            const KIND: Kind = Kind::$kind;

            fn write<C: Cells>(value: Option<&Self>, cells: &mut C) {
                cells.$write(value.map($out));
            }

            fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Option<Self>, R::Error> {
                Ok(columns.$read()?.map($in))
            }
        }
    )*};
}

cells! {
    Name: Text, text(|value| value.as_str()), optional_str(Self::from);
    Text: Text, text(|value| value.as_str()), optional_str(Self::from);
    Json: Text, text(|value| value.as_str()), optional_str(Self::from);
    String: Text, text(|value| value.as_str()), optional_str(Self::from);
    i32: Int, int(|value| *value), optional_int(|value| value);
    u32: Int, count(|value| *value), optional_count(|value| value);
    i64: Long, long(|value| *value), optional_long(|value| value);
    bool: Bool, flag(|value| *value), optional_flag(|value| value);
    Time: Long, long(|value| value.millis()), optional_long(Self::from_millis);
    Span: Long, long(|value| value.millis() as i64), optional_long(|value| Self::from_millis(value as u64));
    Rate: Long, long(|value| value.rank() as i64), optional_long(|value| Self::of_rank(value as u64));
    Fence: Long, long(|value| value.as_u64() as i64), optional_long(|value| Self::from_u64(value as u64));
    Digest: Bytes, bytes(|value| &value.bytes()[..]), optional_fixed(Self::from_bytes);
}

/// Sixteen bytes, largest first.
macro_rules! ids {
    ($($type:ty)*) => {$(
        impl Cell for $type {
            const KIND: Kind = Kind::Bytes;

            fn write<C: Cells>(value: Option<&Self>, cells: &mut C) {
                let bytes = value.map(|id| id.as_u128().to_be_bytes());
                cells.bytes(bytes.as_ref().map(|bytes| &bytes[..]));
            }

            fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Option<Self>, R::Error> {
                let bytes = columns.optional_fixed()?;
                Ok(bytes.map(|bytes| Self::from_u128(u128::from_be_bytes(bytes))))
            }
        }
    )*};
}

ids! { TaskId LeaseId }

impl<const N: usize> Cell for [u8; N] {
    const KIND: Kind = Kind::Bytes;

    fn write<C: Cells>(value: Option<&Self>, cells: &mut C) {
        cells.bytes(value.map(|bytes| &bytes[..]));
    }

    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Option<Self>, R::Error> {
        columns.optional_fixed()
    }
}

/// Values with a name that is stored. The second part says what a text is that is no such name.
macro_rules! named {
    ($($type:ty, $name:expr, $parse:expr, $what:literal;)*) => {$(
        impl Cell for $type {
            const KIND: Kind = Kind::Text;

            fn write<C: Cells>(value: Option<&Self>, cells: &mut C) {
                let name: fn($type) -> &'static str = $name;
                cells.text(value.map(|value| name(*value)));
            }

            fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Option<Self>, R::Error> {
                let Some(name) = columns.optional_str()? else { return Ok(None) };
                let parse: fn(&str) -> Option<$type> = $parse;
                parse(name).map(Some).ok_or_else(|| columns.unknown_value($what))
            }
        }
    )*};
}

named! {
    State, State::name, State::parse, "state";
    Reason, Reason::name, Reason::parse, "reason";
    AttemptOutcome, AttemptOutcome::name, AttemptOutcome::parse, "outcome";
    ObjectType, ObjectType::name, ObjectType::parse, "type of object";
    WorkerVerdict, worker_verdict_name, worker_verdict, "stamp";
}

const fn worker_verdict_name(worker_verdict: WorkerVerdict) -> &'static str {
    match worker_verdict {
        WorkerVerdict::Committed => "committed",
        WorkerVerdict::Cancelled => "cancelled",
        WorkerVerdict::Rejected => "rejected",
    }
}

fn worker_verdict(name: &str) -> Option<WorkerVerdict> {
    [WorkerVerdict::Committed, WorkerVerdict::Cancelled, WorkerVerdict::Rejected]
        .into_iter()
        .find(|worker_verdict| worker_verdict_name(*worker_verdict) == name)
}

/// Values with a stored form in JSON.
macro_rules! stored {
    ($($type:ty)*) => {$(
        impl Cell for $type {
            const KIND: Kind = Kind::Text;

            fn write<C: Cells>(value: Option<&Self>, cells: &mut C) {
                cells.text(value.map(Stored::write).as_deref());
            }

            fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Option<Self>, R::Error> {
                columns.optional_stored()
            }
        }
    )*};
}

stored! {
    CancelRequest Progress Fault Resources Renewals Request RunState Waiting Recorded Body Spec
    Vec<Awaited> Vec<Name> PlanStep Blame
}

/// Packed, because it is written with every task.
impl Cell for Terms {
    const KIND: Kind = Kind::Bytes;

    fn write<C: Cells>(value: Option<&Self>, cells: &mut C) {
        cells.bytes(value.map(Terms::write).as_deref());
    }

    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Option<Self>, R::Error> {
        let Some(bytes) = columns.optional_bytes()? else { return Ok(None) };
        Terms::read(bytes).map(Some).map_err(|error| columns.unreadable(error))
    }
}
