//! The tables and the code name the same fault points and bugs.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report, in its helpers too")]

mod ordinary_build;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Every name in the sources of the workspace between `before` and `after`, with its count.
fn named(before: &str, after: char) -> BTreeMap<String, usize> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut files = Vec::new();
    for folder in ["crates", "sdks"] {
        sources(&root.join(folder), &mut files);
    }
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.to_string_lossy().contains("crates/faultpoint/")) {
        let text = fs::read_to_string(file).unwrap();
        for part in text.split(before).skip(1) {
            let name = part.split(after).next().unwrap();
            *found.entry(name.to_owned()).or_default() += 1;
        }
    }
    found
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn every_place_has_one_row_and_every_row_one_place() {
    let in_code = named("faultpoint::point!(\"", '"');
    let in_table: BTreeMap<String, usize> =
        faultpoint::POINTS.iter().map(|point| (point.name.to_owned(), 1)).collect();
    assert_eq!(in_code, in_table);
}

#[test]
fn every_mutant_in_the_code_has_one_row_and_every_row_is_in_the_code() {
    // Text that mentions mutants without a number is no mutant.
    let names = named("faultpoint::mutant(", ')');
    let mut in_code: Vec<u8> = names.keys().filter_map(|number| number.parse().ok()).collect();
    in_code.extend(planted_in_the_rules());
    in_code.sort_unstable();
    assert_eq!(in_code, faultpoint::MUTANTS);
}

/// Bugs of the rules are rows `(number, function),` of one table.
fn planted_in_the_rules() -> impl Iterator<Item = u8> {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../verdict/src/planted.rs");
    let text = fs::read_to_string(table).unwrap();
    let row = |line: &str| line.trim().strip_prefix('(')?.split_once(", ")?.0.parse().ok();
    text.lines().filter_map(row).collect::<Vec<u8>>().into_iter()
}

#[test]
fn nothing_turns_the_lab_on() {
    // X33: a manifest that enables the test feature would enable it in every build.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut manifests = vec![root.join("Cargo.toml"), root.join("sdks/rust/Cargo.toml")];
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        manifests.push(entry.unwrap().path().join("Cargo.toml"));
    }
    for manifest in manifests {
        let text = fs::read_to_string(&manifest).unwrap();
        let turned_on =
            text.lines().any(|line| line.contains("faultpoint") && line.contains("lab"));
        assert!(!turned_on, "{} turns the lab on", manifest.display());
        assert!(!text.contains("default = [\"lab\"]"), "{}", manifest.display());
    }
}
