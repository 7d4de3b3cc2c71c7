//! `docs/contract.md`: one line per requirement, with the tests that prove it or, if there are none, the tests that
//! cite it.
//!
//! The requirement column is frozen text (S2-116) and the source of the rows; only the column `proved by` is
//! generated. A requirement that no test cites says `later`, so that a missing proof is visible.

mod citations;
mod id;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use crate::finding::Finding;
use crate::tree::Tree;
use citations::Citations;
use id::Id;

const FILE: &str = "docs/contract.md";
const LATER: &str = "later";
/// Enough to show a requirement from several sides, and short enough for a table.
const NAMES_MAX: usize = 3;

/// The number of requirements of each source: without it, a lost row would go unnoticed.
const SOURCES: &[(&str, u16)] =
    &[("S0", 58), ("S1", 40), ("S2", 116), ("S3", 68), ("S4", 75), ("R", 40), ("W", 32)];

/// Checksum of ids and requirement texts. It changes only with an entry in docs/amendments.md, in the same commit.
const FROZEN: u64 = 0xfb84_5ff1_4831_d489;

pub(crate) fn write(root: &Path, tree: &Tree) -> Result<()> {
    let text = tree.text(FILE).with_context(|| format!("{FILE} is missing"))?;
    let fresh = refresh(text, &Citations::of(tree));
    std::fs::write(root.join(FILE), &fresh).with_context(|| format!("write {FILE}"))?;
    let rows: Vec<Row<'_>> = fresh.lines().filter_map(Row::parse).collect();
    let open = rows.iter().filter(|row| row.proved_by == LATER).count();
    println!(
        "wrote {FILE}: {} of {} requirements are cited by tests",
        rows.len() - open,
        rows.len()
    );
    Ok(())
}

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(FILE) else {
        return vec![finding(1, "this file is missing".to_owned(), "restore it")];
    };
    let citations = Citations::of(tree);
    let mut findings = check_rows(text);
    findings.extend(check_frozen(text));
    findings.extend(check_fresh(text, &citations));
    findings.extend(citations.unknown(&known(text)));
    findings
}

fn known(text: &str) -> Vec<Id> {
    text.lines().filter_map(Row::parse).map(|row| row.id).collect()
}

fn check_rows(text: &str) -> Vec<Finding> {
    let mut lines: BTreeMap<Id, Vec<usize>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(row) = Row::parse(line) {
            lines.entry(row.id).or_default().push(index + 1);
        }
    }
    let expected =
        SOURCES.iter().flat_map(|(source, last)| (1..=*last).map(|n| Id::new(source, n)));
    let missing: Vec<Finding> = expected
        .filter(|id| !lines.contains_key(id))
        .map(|id| finding(1, format!("the row of {id} is missing"), "restore it"))
        .collect();
    let twice = lines.iter().filter(|(_, at)| at.len() > 1).map(|(id, at)| {
        finding(at[1], format!("{id} has a second row"), "keep one row per requirement")
    });
    missing.into_iter().chain(twice).collect()
}

fn check_frozen(text: &str) -> Option<Finding> {
    (checksum(text) != FROZEN).then(|| {
        let what = format!("a requirement's text changed (checksum {:#x})", checksum(text));
        finding(1, what, "restore it; or amend: say why in docs/amendments.md and set the new checksum in crates/xtask/src/contract.rs")
    })
}

fn check_fresh(text: &str, citations: &Citations) -> Option<Finding> {
    let fresh = refresh(text, citations);
    let stale = text.lines().zip(fresh.lines()).position(|(old, new)| old != new)?;
    let what = "the tests that cite this requirement have changed".to_owned();
    Some(finding(stale + 1, what, "run `cargo xtask contract` and commit the result"))
}

fn finding(line: usize, what: String, remedy: &str) -> Finding {
    Finding {
        file: FILE.to_owned(),
        line,
        what,
        why: "it says which promise is proved and by what",
        remedy: remedy.to_owned(),
    }
}

/// Every line unchanged, except for the last cell of the rows.
fn refresh(text: &str, citations: &Citations) -> String {
    let line = |line: &str| match Row::parse(line) {
        Some(row) => {
            let names = citations.names(&row.id, NAMES_MAX);
            let proved_by = if names.is_empty() { LATER.to_owned() } else { quoted(&names) };
            format!("| {} | {} | {proved_by} |\n", row.id, row.requirement)
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

struct Row<'a> {
    id: Id,
    requirement: &'a str,
    proved_by: &'a str,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let (id, rest) = cells.split_once(" | ")?;
        let (requirement, proved_by) = rest.rsplit_once(" | ")?;
        Some(Row { id: Id::parse(id)?, requirement, proved_by })
    }
}

/// FNV-1a: sufficient to notice a change, which is its only purpose.
fn checksum(text: &str) -> u64 {
    let rows = text.lines().filter_map(Row::parse);
    let frozen: String = rows.map(|row| format!("{} {}\n", row.id, row.requirement)).collect();
    frozen.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Title\n| id | requirement | proved by |\n|---|---|---|\n| S3-36 | One. | later |\n| R-5 | Two \\| b. | `gone::x` |\n";

    fn citing(test: &str) -> Citations {
        Citations::of(&Tree::of(&[("crates/store/tests/it/a.rs", test)]))
    }

    #[test]
    fn only_the_last_column_is_made_anew() {
        let fresh = refresh(TABLE, &citing("#[test]\nfn again() { // S3-36\n}"));
        assert_eq!(
            fresh,
            "# Title\n| id | requirement | proved by |\n|---|---|---|\n| S3-36 | One. | `store::it::a::again` |\n| R-5 | Two \\| b. | later |\n"
        );
        assert_eq!(refresh(&fresh, &citing("#[test]\nfn again() { // S3-36\n}")), fresh);
    }

    #[test]
    fn a_stale_column_is_found_at_its_line() {
        let stale = check_fresh(TABLE, &citing("#[test]\nfn again() { // S3-36\n}"));
        assert_eq!(stale.map(|finding| finding.line), Some(4));
    }

    #[test]
    fn lost_and_repeated_rows_are_found() {
        let found = check_rows(&format!("{TABLE}| R-5 | Two. | later |\n"));
        let says = |what: &str| found.iter().any(|finding| finding.what == what);
        assert!(says("R-5 has a second row"));
        assert!(says("the row of S3-35 is missing"));
        assert!(says("the row of W-32 is missing"));
        assert!(!says("the row of S3-36 is missing"));
    }

    #[test]
    fn the_text_of_a_requirement_changes_only_with_an_amendment() {
        // S2-116: the contract is frozen; the checksum covers ids and texts, not the generated column.
        let proved = TABLE.replace("later", "`x::y`");
        assert_eq!(checksum(TABLE), checksum(&proved));
        assert_ne!(checksum(TABLE), checksum(&TABLE.replace("One.", "One, or not.")));
        assert!(check_frozen(TABLE).is_some());
    }
}
