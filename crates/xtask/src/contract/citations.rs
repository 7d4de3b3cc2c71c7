//! Finds the tests that cite each requirement, in their name or anywhere between their comment and their closing
//! brace.
//!
//! A test is a function marked as one, or any function in a file or item that exists for tests (a conformance suite
//! and a property macro mark theirs in other ways). In the tests of xtask itself only names and comments count,
//! because their strings are samples of citations.
//!
//! A test that was written to detect a violation of a requirement says so in a line that begins with `Proves:`. If a
//! requirement has such tests, tests that only mention it are not listed. Otherwise the strongest come first: a test that
//! cites few ids was written about them, so it comes before one that cites many; of equals, tests of the whole product come
//! before tests of a part. In which crate a test is does not matter.

use std::collections::{BTreeMap, BTreeSet};

use super::id::Id;
use crate::finding::Finding;
use crate::rust_source::{Function, RustSource, find_word};
use crate::tree::Tree;

const THIS_PROGRAM: &str = "crates/xtask/";
/// Starts the comment line that names the requirements a test proves.
const PROOF: &str = "Proves:";
/// Crates whose integration tests see the product as its users do.
const OUTSIDE: &[&str] = &["crates/cli/tests/", "crates/coordinator/tests/", "sdks/"];
const RANGE_SIGNS: &[&str] = &["..", "…", "–"];

#[derive(Debug, Default)]
pub(super) struct Citations {
    by_id: BTreeMap<Id, Vec<Place>>,
    ranges: Vec<(Id, Place)>,
}

/// Sort order by strength: proofs first, then few other ids, then tests of the whole product, then by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    rank: Rank,
    /// How many requirements the function cites.
    ids: usize,
    reach: Reach,
    name: String,
    file: String,
    line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Proof,
    MarkedTest,
    FunctionForTests,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Product,
    Crate,
    Module,
}

impl Citations {
    pub(super) fn of(tree: &Tree) -> Self {
        let mut citations = Self::default();
        for (path, source) in tree.rust().filter(|(path, _)| is_searched(path)) {
            let test_file = tree.is_test_file(path);
            for function in &source.functions {
                if test_file || function.is_test || function.in_test_item {
                    citations.collect(path, source, function);
                }
            }
        }
        for places in citations.by_id.values_mut() {
            places.sort();
            places.dedup_by(|a, b| a.name == b.name);
        }
        citations
    }

    fn collect(&mut self, path: &str, source: &RustSource, function: &Function) {
        let test = test_that_runs(source, function);
        let searched = if path.starts_with(THIS_PROGRAM) { &source.comments } else { &source.text };
        let text = &searched[function.span.clone()];
        let found = Id::in_text(text);
        let ids = found.iter().map(|(_, id)| id).collect::<BTreeSet<_>>().len();
        let rank = if test.is_test { Rank::MarkedTest } else { Rank::FunctionForTests };
        let place = |offset: usize| Place {
            rank,
            reach: reach(path),
            ids,
            name: test_name(path, test),
            file: path.to_owned(),
            line: source.line_of(offset),
        };
        for id in Id::in_name(&function.name) {
            self.by_id.entry(id).or_default().push(place(function.keyword));
        }
        for (offset, id) in found {
            let rank = if is_proof(text, offset) { Rank::Proof } else { rank };
            let place = Place { rank, ..place(function.span.start + offset) };
            let behind = &text[offset + id.to_string().len()..];
            if RANGE_SIGNS.iter().any(|sign| behind.trim_start().starts_with(sign)) {
                self.ranges.push((id, place.clone()));
            }
            self.by_id.entry(id).or_default().push(place);
        }
    }

    /// The strongest tests of an id. Mentions are left out if there is a proof.
    pub(super) fn names(&self, id: &Id, max: usize) -> Vec<String> {
        let places: &[Place] = self.by_id.get(id).map_or(&[], Vec::as_slice);
        let proofs = places.iter().take_while(|place| place.rank == Rank::Proof).count();
        let places = if proofs > 0 { &places[..proofs] } else { places };
        places.iter().take(max).map(|place| place.name.clone()).collect()
    }

    /// Citations that prove nothing: ids that do not exist, and ranges, which name only their ends.
    pub(super) fn unknown(&self, known: &[Id]) -> Vec<Finding> {
        let unknown = self.by_id.iter().filter(|(id, _)| !known.contains(id));
        let unknown = unknown.flat_map(|(id, places)| places.iter().map(move |place| (id, place)));
        let unknown = unknown.map(|(id, place)| {
            finding(
                place,
                format!("{id} is no requirement"),
                "correct the id; docs/contract.md lists all",
            )
        });
        let ranges = self.ranges.iter().map(|(id, place)| {
            finding(
                place,
                format!("{id} begins a range"),
                "cite each requirement the test proves, one by one",
            )
        });
        unknown.chain(ranges).collect()
    }
}

/// A helper function of a test is listed under the test's name, because the test can be run by name.
fn test_that_runs<'a>(source: &'a RustSource, function: &'a Function) -> &'a Function {
    let calls = |test: &&Function| {
        test.is_test && !find_word(&source.code[test.span.clone()], &function.name).is_empty()
    };
    if function.is_test {
        function
    } else {
        source.functions.iter().find(calls).unwrap_or(function)
    }
}

/// Whether the line of an id says that the test proves it.
fn is_proof(text: &str, offset: usize) -> bool {
    let start = text[..offset].rfind('\n').map_or(0, |end| end + 1);
    let line = text[start..offset].trim_start();
    // A comment may also follow the opening brace on the same line.
    let comment = line.find("//").map_or(line, |at| &line[at..]);
    comment.trim_start_matches('/').trim_start().starts_with(PROOF)
}

fn reach(path: &str) -> Reach {
    match path {
        _ if OUTSIDE.iter().any(|outside| path.starts_with(outside)) => Reach::Product,
        _ if path.contains("/tests/") => Reach::Crate,
        _ => Reach::Module,
    }
}

fn finding(place: &Place, what: String, remedy: &str) -> Finding {
    Finding {
        file: place.file.clone(),
        line: place.line,
        what,
        why: "docs/contract.md is made from these citations",
        remedy: remedy.to_owned(),
    }
}

fn is_searched(path: &str) -> bool {
    path.starts_with("crates/") || path.starts_with("sdks/")
}

/// `store::sqlite::tests::name` for our crates; the file for an SDK, since its language may have no modules.
fn test_name(path: &str, function: &Function) -> String {
    let mut parts: Vec<String> = match path.strip_prefix("crates/") {
        Some(inside) => modules_of(inside),
        None => vec![path.to_owned()],
    };
    parts.extend(function.modules.iter().cloned());
    parts.push(function.name.clone());
    parts.join("::")
}

fn modules_of(path_in_crates: &str) -> Vec<String> {
    let stem = path_in_crates.trim_end_matches(".rs");
    let named = |part: &&str| !matches!(*part, "src" | "tests" | "lib" | "main" | "mod");
    let mut parts = stem.split('/');
    let crate_name = parts.next().into_iter();
    let in_tests_folder = path_in_crates.contains("/tests/");
    let inside = parts.filter(move |part| named(part) || (*part == "tests" && !in_tests_folder));
    crate_name.chain(inside).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[(&str, &str)], id: &str) -> Vec<String> {
        let id = Id::parse(id).expect("the sample is an id");
        Citations::of(&Tree::of(files)).names(&id, 2)
    }

    const RULE: (&str, &str) = (
        "crates/verdict/src/report.rs",
        "// S3-1 outside.\nfn rule() { /* S3-2 */ }\n#[cfg(test)]\nmod tests {\n    /// S3-3\n    #[test]\n    fn late() { assert!(true, \"S3-4\"); }\n    #[test]\n    fn s3_5_by_name() {}\n}\n",
    );

    #[test]
    fn comments_bodies_and_names_of_tests_count_and_code_does_not() {
        for cited in ["S3-3", "S3-4"] {
            assert_eq!(names(&[RULE], cited), ["verdict::report::tests::late"], "{cited}");
        }
        assert_eq!(names(&[RULE], "S3-5"), ["verdict::report::tests::s3_5_by_name"]);
        for uncited in ["S3-1", "S3-2"] {
            assert_eq!(names(&[RULE], uncited), Vec::<String>::new(), "{uncited}");
        }
    }

    #[test]
    fn suites_properties_and_sdk_tests_have_names_too() {
        let suite = (
            "crates/storetest/src/conformance/leases.rs",
            "pub fn grants_once(s: &S) { /* W-1 */ }",
        );
        assert_eq!(names(&[suite], "W-1"), ["storetest::conformance::leases::grants_once"]);
        let property = (
            "crates/verdict/tests/it/props.rs",
            "proptest! {\n    #[test]\n    fn fence_grows(x in 0..9u8) { /* R-1 */ }\n}",
        );
        assert_eq!(names(&[property], "R-1"), ["verdict::it::props::fence_grows"]);
        let sdk =
            ("sdks/rust/tests/it/worker.rs", "#[tokio::test]\nasync fn stops() { /* S3-28 */ }");
        assert_eq!(names(&[sdk], "S3-28"), ["sdks/rust/tests/it/worker.rs::stops"]);
        let beside = ("crates/verdict/src/report/tests.rs", "#[test]\nfn x() { /* R-9 */ }");
        assert_eq!(names(&[beside], "R-9"), ["verdict::report::tests::x"]);
    }

    #[test]
    fn a_part_of_a_test_goes_by_the_name_of_the_test() {
        let parts = (
            "crates/wire/tests/it/a.rs",
            "fn check_answers() { /* S4-16 */ }\n#[test]\nfn shapes() { check_answers(); }",
        );
        assert_eq!(names(&[parts], "S4-16"), ["wire::it::a::shapes"]);
    }

    #[test]
    fn a_test_about_one_requirement_is_stronger_than_one_that_cites_many_in_whatever_crate() {
        let one = (
            "crates/store/tests/it/a.rs",
            "#[test]\nfn a() { /* R-5 */ }\n#[test]\nfn b() { /* R-5 */ }",
        );
        let other = ("crates/verdict/tests/it/a.rs", "#[test]\nfn c() { /* R-5 R-6 R-7 */ }");
        assert_eq!(names(&[one, other], "R-5"), ["store::it::a::a", "store::it::a::b"]);
        let outside = ("crates/cli/tests/it/a.rs", "#[test]\nfn d() { /* R-5 R-6 R-7 */ }");
        assert_eq!(names(&[outside, other], "R-5"), ["cli::it::a::d", "verdict::it::a::c"]);
    }

    #[test]
    fn a_test_that_proves_leaves_mentions_out_and_may_mention_more() {
        let mention = ("crates/coordinator/tests/it/a.rs", "#[test]\nfn a() { /* R-5 */ }");
        let proof = (
            "crates/verdict/src/b.rs",
            "#[test]\nfn b() {\n    // Proves: R-5, R-6: twice is once.\n    // R-7: and more.\n}",
        );
        assert_eq!(names(&[mention, proof], "R-5"), ["verdict::b::b"]);
        assert_eq!(names(&[mention, proof], "R-6"), ["verdict::b::b"]);
        let seven = ("crates/store/src/c.rs", "#[test]\nfn c() { /* R-7 */ }");
        assert_eq!(names(&[seven, proof], "R-7"), ["store::c::c", "verdict::b::b"]);
        let inline = ("crates/store/src/d.rs", "#[test]\nfn d() { // Proves: R-7.\n}");
        assert_eq!(names(&[seven, proof, inline], "R-7"), ["store::d::d"]);
    }

    #[test]
    fn tests_about_little_come_first_and_of_those_tests_from_outside() {
        let inside = ("crates/coordinator/src/a.rs", "#[test]\nfn a() { /* R-5 */ }");
        let outside = ("crates/coordinator/tests/it/z.rs", "#[test]\nfn z() { /* R-5 R-6 R-7 */ }");
        let focused = ("crates/coordinator/tests/it/zz.rs", "#[test]\nfn zz() { /* R-5 */ }");
        let found = names(&[inside, outside, focused], "R-5");
        assert_eq!(found, ["coordinator::it::zz::zz", "coordinator::a::a"]);
    }

    #[test]
    fn unknown_ids_and_ranges_are_found() {
        let file = (
            "crates/store/tests/it/a.rs",
            "#[test]\nfn a() {\n    // R-5 and S3-99\n    // W-1..W-4\n}",
        );
        let known: Vec<Id> = ["R-5", "W-1", "W-4"].iter().filter_map(|id| Id::parse(id)).collect();
        let found: Vec<_> = Citations::of(&Tree::of(&[file]))
            .unknown(&known)
            .into_iter()
            .map(|finding| (finding.line, finding.what))
            .collect();
        assert_eq!(
            found,
            [(3, "S3-99 is no requirement".to_owned()), (4, "W-1 begins a range".to_owned())]
        );
    }

    #[test]
    fn samples_in_this_programs_strings_are_no_citations() {
        let own = ("crates/xtask/src/a.rs", "#[test]\nfn a() { f(\"R-5\"); // R-9\n}");
        assert_eq!(names(&[own], "R-5"), Vec::<String>::new());
        assert_eq!(names(&[own], "R-9"), ["xtask::a::a"]);
    }
}
