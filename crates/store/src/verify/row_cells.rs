//! The cells of a row with the names of their columns, to say in which columns two rows differ.

use crate::cells::Cells;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Number(Option<i64>),
}

#[derive(Default)]
pub(super) struct RowCells {
    column: &'static str,
    cells: Vec<(&'static str, Value)>,
}

impl RowCells {
    /// The cells that are written.
    pub(super) fn of(write: impl FnOnce(&mut Self)) -> Self {
        let mut cells = Self::default();
        write(&mut cells);
        cells
    }

    /// The columns in which the rows differ. Both have the same columns.
    pub(super) fn differing(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.cells.iter().zip(&other.cells);
        pairs.filter(|(own, other)| own != other).map(|((column, _), _)| *column).collect()
    }

    fn push(&mut self, value: Value) -> &mut Self {
        self.cells.push((self.column, value));
        self
    }
}

impl Cells for RowCells {
    fn begin(&mut self, column: &'static str) {
        self.column = column;
    }

    fn text(&mut self, value: Option<&str>) -> &mut Self {
        self.push(Value::Text(value.map(str::to_owned)))
    }

    fn bytes(&mut self, value: Option<&[u8]>) -> &mut Self {
        self.push(Value::Bytes(value.map(<[u8]>::to_vec)))
    }

    fn int(&mut self, value: Option<i32>) -> &mut Self {
        self.long(value.map(i64::from))
    }

    fn count(&mut self, value: Option<u32>) -> &mut Self {
        self.long(value.map(i64::from))
    }

    fn long(&mut self, value: Option<i64>) -> &mut Self {
        self.push(Value::Number(value))
    }

    fn flag(&mut self, value: Option<bool>) -> &mut Self {
        self.long(value.map(i64::from))
    }
}
