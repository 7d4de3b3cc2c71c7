//! Rows on their way into one statement: a column of values for each column of a table, unnested by
//! the database.
//!
//! One statement writes any number of rows, and its text is the same for all of them. A single row, as an idle system
//! writes it, goes as plain values instead: taking forty arrays apart costs the database more than the row does.

use tokio_postgres::types::{ToSql, Type};

use crate::cells::Cells;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bytes,
    Int,
    Long,
    Bool,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Bytes => "bytea",
            Kind::Int => "int4",
            Kind::Long => "int8",
            Kind::Bool => "bool",
        }
    }
}

/// Names and types of a sheet's columns.
pub(super) type Heading = &'static [(&'static str, Kind)];

enum Column {
    Text(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
    Int(Vec<Option<i32>>),
    Long(Vec<Option<i64>>),
    Bool(Vec<Option<bool>>),
}

impl Column {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Text => Column::Text(Vec::new()),
            Kind::Bytes => Column::Bytes(Vec::new()),
            Kind::Int => Column::Int(Vec::new()),
            Kind::Long => Column::Long(Vec::new()),
            Kind::Bool => Column::Bool(Vec::new()),
        }
    }

    /// The first value alone.
    fn value(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Column::Text(values) => (&values[0], Type::TEXT),
            Column::Bytes(values) => (&values[0], Type::BYTEA),
            Column::Int(values) => (&values[0], Type::INT4),
            Column::Long(values) => (&values[0], Type::INT8),
            Column::Bool(values) => (&values[0], Type::BOOL),
        }
    }

    fn values(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Column::Text(values) => (values, Type::TEXT_ARRAY),
            Column::Bytes(values) => (values, Type::BYTEA_ARRAY),
            Column::Int(values) => (values, Type::INT4_ARRAY),
            Column::Long(values) => (values, Type::INT8_ARRAY),
            Column::Bool(values) => (values, Type::BOOL_ARRAY),
        }
    }
}

pub(super) struct Sheet {
    columns: Vec<Column>,
    rows: usize,
    next: usize,
    /// Whether every number fits into its column. What does not is never sent.
    is_sound: bool,
}

impl Sheet {
    pub(super) fn new(heading: Heading) -> Self {
        let columns = heading.iter().map(|(_, kind)| Column::new(*kind)).collect();
        Self { columns, rows: 0, next: 0, is_sound: true }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Begins a row; its values follow in the order of the heading.
    pub(super) fn row(&mut self) -> &mut Self {
        assert!(self.next == 0 || self.next == self.columns.len(), "the row before is whole");
        self.rows += 1;
        self.next = 0;
        self
    }

    fn column(&mut self) -> &mut Column {
        self.next += 1;
        &mut self.columns[self.next - 1]
    }

    pub(super) fn is_sound(&self) -> bool {
        self.is_sound
    }

    /// A number that may be missing. The database's integer has a sign and half the range.
    pub(super) fn optional_count(&mut self, value: Option<u32>) -> &mut Self {
        let fitting = value.map(i32::try_from).transpose();
        self.is_sound &= fitting.is_ok();
        match self.column() {
            Column::Int(values) => values.push(fitting.unwrap_or_default()),
            _ => unreachable!("the heading says an integer"),
        }
        self
    }

    pub(super) fn parameters(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let parameter = if self.rows == 1 { Column::value } else { Column::values };
        self.columns.iter().map(parameter).collect()
    }
}

impl Cells for Sheet {
    fn text(&mut self, value: Option<&str>) -> &mut Self {
        match self.column() {
            Column::Text(values) => values.push(value.map(str::to_owned)),
            _ => unreachable!("the heading says text"),
        }
        self
    }

    fn bytes(&mut self, value: Option<&[u8]>) -> &mut Self {
        match self.column() {
            Column::Bytes(values) => values.push(value.map(<[u8]>::to_vec)),
            _ => unreachable!("the heading says bytes"),
        }
        self
    }

    fn int(&mut self, value: i32) -> &mut Self {
        match self.column() {
            Column::Int(values) => values.push(Some(value)),
            _ => unreachable!("the heading says an integer"),
        }
        self
    }

    fn count(&mut self, value: u32) -> &mut Self {
        self.optional_count(Some(value))
    }

    fn long(&mut self, value: Option<i64>) -> &mut Self {
        match self.column() {
            Column::Long(values) => values.push(value),
            _ => unreachable!("the heading says a long integer"),
        }
        self
    }

    fn flag(&mut self, value: Option<bool>) -> &mut Self {
        match self.column() {
            Column::Bool(values) => values.push(value),
            _ => unreachable!("the heading says a flag"),
        }
        self
    }
}

/// A statement over the rows of a sheet, in both forms.
pub(super) struct Statement {
    one: String,
    many: String,
}

impl Statement {
    /// Made of whatever stands for the rows.
    pub(super) fn over(heading: Heading, text: impl Fn(&Rows) -> String) -> Self {
        let form = |form| text(&Rows { heading, form });
        Self { one: form(Form::One), many: form(Form::Many) }
    }

    pub(super) fn texts(&self) -> [&str; 2] {
        [&self.one, &self.many]
    }

    pub(super) fn text_for(&self, sheet: &Sheet) -> &str {
        if sheet.rows == 1 { &self.one } else { &self.many }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    One,
    Many,
}

/// The rows of a sheet in the text of a statement.
pub(super) struct Rows {
    heading: Heading,
    form: Form,
}

impl Rows {
    /// As a table of this name, in which `ord` numbers the rows.
    pub(super) fn table(&self, name: &str) -> String {
        let suffix = if self.form == Form::One { "" } else { "[]" };
        let parameter =
            |(i, (_, kind)): (usize, &(&str, Kind))| format!("${}::{}{suffix}", i + 1, kind.name());
        let parameters: Vec<String> = self.heading.iter().enumerate().map(parameter).collect();
        let (parameters, names) = (parameters.join(", "), names(self.heading, "").join(", "));
        match self.form {
            Form::One => format!("(SELECT {parameters}, 1::int8) AS {name}({names}, ord)"),
            Form::Many => format!("unnest({parameters}) WITH ORDINALITY AS {name}({names}, ord)"),
        }
    }
}

/// The heading's column names, each with a prefix.
pub(super) fn names(heading: Heading, prefix: &str) -> Vec<String> {
    heading.iter().map(|(name, _)| format!("{prefix}{name}")).collect()
}
