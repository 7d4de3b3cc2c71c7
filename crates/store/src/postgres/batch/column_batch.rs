//! Rows for one statement: an array for each column of a table, unnested by the database.
//!
//! One statement writes any number of rows, and its text is the same for all of them. A single row, as an idle system
//! writes it, is sent as plain values instead: unnesting forty arrays costs the database more than the row does.

use tokio_postgres::types::{ToSql, Type};

use crate::cells::Cells;
use crate::tables::{self, ColumnList, Kind, names};

/// The database's name of a type.
pub(in crate::postgres) fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Bytes => "bytea",
        Kind::Int => "int4",
        Kind::Long => "int8",
        Kind::Bool => "bool",
    }
}

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

    /// The first value, as a scalar.
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

pub(in crate::postgres) struct ColumnBatch {
    list: ColumnList,
    columns: Vec<Column>,
    rows: usize,
    next: usize,
    /// Whether every number fits into its column. A batch with one that does not is never sent.
    fits_columns: bool,
}

impl ColumnBatch {
    pub(in crate::postgres) fn new(list: ColumnList) -> Self {
        let columns = list.iter().copied().flatten().map(|column| Column::new(column.kind));
        Self { list, columns: columns.collect(), rows: 0, next: 0, fits_columns: true }
    }

    pub(in crate::postgres) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Begins a row; its values follow in the order of its columns.
    pub(in crate::postgres) fn row(&mut self) -> &mut Self {
        assert!(self.next == 0 || self.next == self.columns.len(), "the row before is whole");
        self.rows += 1;
        self.next = 0;
        self
    }

    fn column(&mut self) -> &mut Column {
        self.next += 1;
        &mut self.columns[self.next - 1]
    }

    pub(in crate::postgres) fn fits_columns(&self) -> bool {
        self.fits_columns
    }

    pub(in crate::postgres) fn parameters(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let parameter = if self.rows == 1 { Column::value } else { Column::values };
        self.columns.iter().map(parameter).collect()
    }
}

impl Cells for ColumnBatch {
    fn begin(&mut self, column: &'static str) {
        tables::expect_next(self.list, self.next, column);
    }

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

    fn int(&mut self, value: Option<i32>) -> &mut Self {
        match self.column() {
            Column::Int(values) => values.push(value),
            _ => unreachable!("the heading says an integer"),
        }
        self
    }

    /// The database's integer is signed and has half the range.
    fn count(&mut self, value: Option<u32>) -> &mut Self {
        let fitting = value.map(i32::try_from).transpose();
        self.fits_columns &= fitting.is_ok();
        self.int(fitting.unwrap_or_default())
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

/// A statement over the rows of a column batch, in both forms.
pub(in crate::postgres) struct Statement {
    one: String,
    many: String,
}

impl Statement {
    /// Builds both forms of a statement.
    pub(in crate::postgres) fn over(list: ColumnList, text: impl Fn(&Rows) -> String) -> Self {
        let form = |form| text(&Rows { list, form });
        Self { one: form(RowForm::One), many: form(RowForm::Many) }
    }

    pub(in crate::postgres) fn texts(&self) -> [&str; 2] {
        [&self.one, &self.many]
    }

    pub(in crate::postgres) fn text_for(&self, column_batch: &ColumnBatch) -> &str {
        if column_batch.rows == 1 { &self.one } else { &self.many }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowForm {
    One,
    Many,
}

/// The rows of a column batch in the text of a statement.
pub(in crate::postgres) struct Rows {
    list: ColumnList,
    form: RowForm,
}

impl Rows {
    /// The rows as a table of this name, in which `ord` numbers the rows.
    pub(in crate::postgres) fn table(&self, name: &str) -> String {
        let suffix = if self.form == RowForm::One { "" } else { "[]" };
        let parameter = |(i, column): (usize, &tables::Column)| {
            format!("${}::{}{suffix}", i + 1, type_name(column.kind))
        };
        let columns = self.list.iter().copied().flatten();
        let parameters: Vec<String> = columns.enumerate().map(parameter).collect();
        let (parameters, names) = (parameters.join(", "), names(self.list, ""));
        match self.form {
            RowForm::One => format!("(SELECT {parameters}, 1::int8) AS {name}({names}, ord)"),
            RowForm::Many => {
                format!("unnest({parameters}) WITH ORDINALITY AS {name}({names}, ord)")
            }
        }
    }
}
