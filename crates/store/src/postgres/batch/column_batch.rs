//! Rows for one statement: an array for each column of a table, unnested by the database.
//!
//! One statement writes any number of rows, and its text is the same for all of them. A single row, as an idle system
//! writes it, is sent as plain values instead: unnesting forty arrays costs the database more than the row does.

use tokio_postgres::types::{ToSql, Type};

use crate::cells::Cells;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) enum ColumnType {
    Text,
    Bytes,
    Int,
    Long,
    Bool,
}

impl ColumnType {
    fn name(self) -> &'static str {
        match self {
            ColumnType::Text => "text",
            ColumnType::Bytes => "bytea",
            ColumnType::Int => "int4",
            ColumnType::Long => "int8",
            ColumnType::Bool => "bool",
        }
    }
}

/// Names and types of a column batch's columns.
pub(in crate::postgres) type ColumnDefs = &'static [(&'static str, ColumnType)];

enum Column {
    Text(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
    Int(Vec<Option<i32>>),
    Long(Vec<Option<i64>>),
    Bool(Vec<Option<bool>>),
}

impl Column {
    fn new(kind: ColumnType) -> Self {
        match kind {
            ColumnType::Text => Column::Text(Vec::new()),
            ColumnType::Bytes => Column::Bytes(Vec::new()),
            ColumnType::Int => Column::Int(Vec::new()),
            ColumnType::Long => Column::Long(Vec::new()),
            ColumnType::Bool => Column::Bool(Vec::new()),
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
    columns: Vec<Column>,
    rows: usize,
    next: usize,
    /// Whether every number fits into its column. A batch with one that does not is never sent.
    fits_columns: bool,
}

impl ColumnBatch {
    pub(in crate::postgres) fn new(column_defs: ColumnDefs) -> Self {
        let columns = column_defs.iter().map(|(_, kind)| Column::new(*kind)).collect();
        Self { columns, rows: 0, next: 0, fits_columns: true }
    }

    pub(in crate::postgres) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Begins a row; its values follow in the order of the column definitions.
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

    /// Adds an optional number. The database's integer is signed and has half the range.
    pub(in crate::postgres) fn optional_count(&mut self, value: Option<u32>) -> &mut Self {
        let fitting = value.map(i32::try_from).transpose();
        self.fits_columns &= fitting.is_ok();
        match self.column() {
            Column::Int(values) => values.push(fitting.unwrap_or_default()),
            _ => unreachable!("the heading says an integer"),
        }
        self
    }

    pub(in crate::postgres) fn parameters(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let parameter = if self.rows == 1 { Column::value } else { Column::values };
        self.columns.iter().map(parameter).collect()
    }
}

impl Cells for ColumnBatch {
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

/// A statement over the rows of a column batch, in both forms.
pub(in crate::postgres) struct Statement {
    one: String,
    many: String,
}

impl Statement {
    /// Builds both forms of a statement.
    pub(in crate::postgres) fn over(
        column_defs: ColumnDefs,
        text: impl Fn(&Rows) -> String,
    ) -> Self {
        let form = |form| text(&Rows { column_defs, form });
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
    column_defs: ColumnDefs,
    form: RowForm,
}

impl Rows {
    /// The rows as a table of this name, in which `ord` numbers the rows.
    pub(in crate::postgres) fn table(&self, name: &str) -> String {
        let suffix = if self.form == RowForm::One { "" } else { "[]" };
        let parameter = |(i, (_, kind)): (usize, &(&str, ColumnType))| {
            format!("${}::{}{suffix}", i + 1, kind.name())
        };
        let parameters: Vec<String> = self.column_defs.iter().enumerate().map(parameter).collect();
        let (parameters, names) = (parameters.join(", "), names(self.column_defs, "").join(", "));
        match self.form {
            RowForm::One => format!("(SELECT {parameters}, 1::int8) AS {name}({names}, ord)"),
            RowForm::Many => {
                format!("unnest({parameters}) WITH ORDINALITY AS {name}({names}, ord)")
            }
        }
    }
}

/// The names of the columns, each with a prefix.
pub(in crate::postgres) fn names(column_defs: ColumnDefs, prefix: &str) -> Vec<String> {
    column_defs.iter().map(|(name, _)| format!("{prefix}{name}")).collect()
}
