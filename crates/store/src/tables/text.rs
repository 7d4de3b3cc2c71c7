//! Lists of columns as text: computed by the compiler, or once when a statement is built.

use super::{Column, ColumnList};

/// The names of all columns of these groups, each after a prefix, separated by commas.
pub(crate) fn names(list: ColumnList, prefix: &str) -> String {
    let names = list.iter().copied().flatten().map(|column| format!("{prefix}{}", column.name));
    names.collect::<Vec<_>>().join(", ")
}

const SEPARATOR: &str = ", ";

/// The length of [`list_text`].
pub(crate) const fn list_len(letter: &str, columns: &[Column]) -> usize {
    let (mut length, mut next) = (0, 0);
    while next < columns.len() {
        length += letter.len() + 1 + columns[next].name.len();
        next += 1;
    }
    length + SEPARATOR.len() * (columns.len() - 1)
}

/// The names of the columns, each after the letter of its table and a dot, separated by commas.
pub(crate) const fn list_text<const N: usize>(letter: &str, columns: &[Column]) -> [u8; N] {
    let mut text = [0; N];
    let (mut at, mut next) = (0, 0);
    while next < columns.len() {
        if next > 0 {
            at = append(&mut text, at, SEPARATOR);
        }
        at = append(&mut text, at, letter);
        at = append(&mut text, at, ".");
        at = append(&mut text, at, columns[next].name);
        next += 1;
    }
    text
}

/// Copies the part to this position, and returns the position after it.
const fn append<const N: usize>(text: &mut [u8; N], at: usize, part: &str) -> usize {
    let part = part.as_bytes();
    let mut next = 0;
    while next < part.len() {
        text[at + next] = part[next];
        next += 1;
    }
    at + part.len()
}

#[cfg(test)]
mod tests {
    use crate::tables::{Names, names, select};

    #[test]
    fn a_list_of_columns_names_each_after_its_table() {
        let constant: &str = select!("l", Names);
        assert_eq!(constant, "l.tenant, l.workspace, l.queue, l.kind");
        assert_eq!(names(&[Names::COLUMNS], "l."), constant);
    }
}
