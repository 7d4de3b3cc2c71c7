//! Dependency direction: arrows between crates point inward only.
//!
//! The manifests are read line by line. The same rule holds for dev-dependencies, so that no test needs an arrow that
//! the code may not have.

use crate::finding::Finding;
use crate::tree::Tree;

struct Member {
    folder: &'static str,
    /// The name under which other crates of the workspace depend on it.
    dependency: &'static str,
    may_know: &'static [&'static str],
    /// The only external crates it may use, if that is limited.
    outside: Option<&'static [&'static str]>,
}

/// The whole graph. `verdict` is pure: its only external crates are a hash, a seeded generator and an id format.
/// `faultpoint` is empty except in test builds.
const MEMBERS: &[Member] = &[
    Member {
        folder: "crates/verdict",
        dependency: "verdict",
        may_know: &["faultpoint"],
        outside: Some(&["sha2", "rand_chacha", "ulid"]),
    },
    Member {
        folder: "crates/wire",
        dependency: "wire",
        may_know: &["faultpoint"],
        outside: Some(&["serde", "serde_json", "serde_json_canonicalizer", "jiff", "utoipa"]),
    },
    Member {
        folder: "crates/edge",
        dependency: "edge",
        // Hostile text reaches this crate first, and fuzzers run it alone: no store, no runtime.
        may_know: &["faultpoint", "verdict", "wire"],
        outside: Some(&[
            "serde",
            "serde_json",
            "serde_json_canonicalizer",
            "sha2",
            "hmac",
            "ring",
            "base64",
            "thiserror",
        ]),
    },
    Member {
        folder: "crates/workflow",
        dependency: "workflow",
        // The engine of durable functions waits for nothing itself: no runtime, no client.
        may_know: &["wire"],
        outside: Some(&[
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
            "schemars",
            "futures-util",
            "proptest",
        ]),
    },
    Member {
        folder: "crates/calendar",
        dependency: "calendar",
        may_know: &[],
        outside: Some(&["jiff", "proptest"]),
    },
    Member {
        folder: "crates/topology",
        dependency: "topology",
        // Roles propose; it neither claims nor stores, so it knows neither rules nor wire.
        may_know: &[],
        outside: Some(&[
            "serde",
            "serde_json",
            "serde_json_canonicalizer",
            "serde-saphyr",
            "jsonschema",
            "sha2",
        ]),
    },
    Member {
        folder: "crates/webhook",
        dependency: "webhook",
        // Receivers verify with it: no runtime, no client.
        may_know: &[],
        outside: Some(&["sha2", "hmac", "base64", "thiserror", "serde_json"]),
    },
    Member {
        folder: "crates/delivery",
        dependency: "delivery",
        // It calls addresses that others chose, and has nothing that they could ask it for.
        may_know: &["faultpoint"],
        outside: None,
    },
    Member {
        folder: "crates/store",
        dependency: "store",
        // Its tests start databases; the library does not.
        may_know: &["faultpoint", "verdict", "pgserver", "storetest"],
        outside: None,
    },
    Member {
        folder: "crates/storetest",
        dependency: "storetest",
        may_know: &["pgserver", "store", "verdict"],
        outside: Some(&["tokio", "tokio-postgres"]),
    },
    Member {
        folder: "crates/coordinator",
        dependency: "coordinator",
        // Its tests start databases, like those of the store.
        may_know: &[
            "faultpoint",
            "calendar",
            "topology",
            "verdict",
            "edge",
            "store",
            "wire",
            "webhook",
            "delivery",
            "pgserver",
            "storetest",
        ],
        outside: None,
    },
    Member {
        folder: "crates/bench",
        dependency: "bench",
        // Its tests start databases, like those of the store.
        may_know: &["verdict", "store", "coordinator", "tenure", "storetest"],
        outside: None,
    },
    Member {
        folder: "crates/faultpoint",
        dependency: "faultpoint",
        may_know: &[],
        outside: Some(&["rustix"]),
    },
    Member {
        folder: "crates/pgserver",
        dependency: "pgserver",
        // It starts servers and knows nothing of their contents.
        may_know: &[],
        outside: Some(&["rustix", "tempfile", "thiserror"]),
    },
    Member {
        folder: "crates/historyck",
        dependency: "historyck",
        // It judges what the other crates recorded, so it must not share their defects.
        may_know: &[],
        outside: Some(&["serde", "serde_json", "thiserror"]),
    },
    Member {
        folder: "crates/sim",
        dependency: "sim",
        // Processes of outside roles decide by the functions of topologies.
        may_know: &[
            "verdict",
            "wire",
            "store",
            "storetest",
            "coordinator",
            "historyck",
            "topology",
        ],
        outside: None,
    },
    Member {
        folder: "crates/model",
        dependency: "model",
        may_know: &["verdict"],
        outside: Some(&["stateright"]),
    },
    Member {
        folder: "crates/hostile",
        dependency: "hostile",
        may_know: &["verdict", "wire", "edge"],
        outside: None,
    },
    Member { folder: "fuzz", dependency: "fuzz", may_know: &["hostile"], outside: None },
    Member {
        folder: "crates/crashlab",
        dependency: "crashlab",
        may_know: &["faultpoint", "historyck", "pgserver", "tenure", "wire"],
        outside: None,
    },
    Member {
        folder: "sdks/rust",
        dependency: "tenure",
        // In tests the kit proves it; no program that uses it contains the kit.
        may_know: &["faultpoint", "wire", "workflow", "webhook", "conform"],
        outside: None,
    },
    Member {
        folder: "crates/conform",
        dependency: "conform",
        // It proves SDKs of every language alike, so it knows none.
        may_know: &["historyck", "webhook", "wire"],
        outside: None,
    },
    Member {
        folder: "crates/cli",
        dependency: "cli",
        // In tests the lab breaks its binary; the binary contains nothing of the lab.
        may_know: &[
            "wire",
            "topology",
            "tenure",
            "coordinator",
            "store",
            "bench",
            "conform",
            "crashlab",
            "pgserver",
            "storetest",
        ],
        outside: None,
    },
    Member {
        folder: "crates/xtask",
        dependency: "xtask",
        may_know: &["faultpoint", "pgserver", "wire"],
        outside: None,
    },
];

/// A library has typed errors; only programs may use a catch-all error.
const ANY_ERROR: &str = "anyhow";
const MAY_USE_ANY_ERROR: &[&str] = &["crates/cli", "crates/crashlab", "crates/xtask"];

/// Test tools for stores: a dev-dependency, except in crates that are tests.
const TEST_TOOLS: &str = "storetest";
const MAY_BE_MADE_OF_TEST_TOOLS: &[&str] = &["crates/sim"];

/// What programs of users compile. Only with the feature [`MUSEUM`], which nothing turns on but the lab's build, it contains
/// what plays bugs.
const COMPILED_BY_USERS: &[&str] =
    &["crates/verdict", "crates/wire", "crates/workflow", "crates/webhook", "sdks/rust"];
const FAULT_POINTS: &str = "faultpoint";
const MUSEUM: &str = "museum";

const WHY: &str = "arrows between crates point inward only";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.texts()
        .filter_map(|(path, text)| Some((path, path.strip_suffix("/Cargo.toml")?, text)))
        .flat_map(|(path, folder, text)| {
            match MEMBERS.iter().find(|member| member.folder == folder) {
                Some(member) => manifest(path, text, member),
                None => vec![unlisted(path)],
            }
        })
        .collect()
}

/// The workspace crates that a manifest's product code depends on.
pub(super) fn known_by(manifest: &str) -> Vec<String> {
    let product = dependencies(manifest).into_iter().filter(|found| found.kind == Kind::Product);
    let ours = |name: &String| MEMBERS.iter().any(|member| member.dependency == name);
    product.map(|found| found.name).filter(ours).collect()
}

fn unlisted(path: &str) -> Finding {
    Finding {
        file: path.to_owned(),
        line: 1,
        what: "this crate has no row in the table of dependency directions".to_owned(),
        why: WHY,
        remedy: "give it a row in crates/xtask/src/tidy/edges.rs".to_owned(),
    }
}

fn manifest(path: &str, text: &str, member: &Member) -> Vec<Finding> {
    let finding = |line, (what, remedy)| {
        let file = path.to_owned();
        Finding { file, line, what, why: WHY, remedy }
    };
    let found = dependencies(text);
    let arrows = found.iter().filter_map(|it| Some(finding(it.line, objection(member, it)?)));
    let turned_on = text.lines().zip(1..).filter(|(line, _)| turns_museum_on(line));
    arrows.chain(turned_on.map(|(_, line)| finding(line, museum_on(member)))).collect()
}

/// Whether a line of a manifest turns the bugs on, and does not only say what that means.
fn turns_museum_on(line: &str) -> bool {
    let line = line.trim();
    !line.starts_with('#') && !line.starts_with(MUSEUM) && line.contains(MUSEUM)
}

fn museum_on(member: &Member) -> (String, String) {
    let remedy = "only the lab's build may turn it on, on its command line".to_owned();
    (format!("{} turns on the feature `{MUSEUM}`", member.folder), remedy)
}

fn objection(member: &Member, found: &Dependency) -> Option<(String, String)> {
    let Member { folder, may_know, outside, .. } = member;
    let name = found.name.as_str();
    let ours = MEMBERS.iter().any(|other| other.dependency == name);
    if ours && !may_know.contains(&name) {
        let remedy =
            format!("{folder} may know {may_know:?}; move the code to where the arrow allows it");
        return Some((format!("{folder} depends on `{name}`"), remedy));
    }
    let for_tests = found.kind == Kind::Tests;
    let is_linked = !for_tests && !found.is_optional;
    if name == FAULT_POINTS && is_linked && COMPILED_BY_USERS.contains(folder) {
        let remedy = format!("make it optional, for the feature `{MUSEUM}`");
        return Some((format!("{folder}, which users compile, depends on `{name}`"), remedy));
    }
    if !ours && !for_tests && outside.is_some_and(|allowed| !allowed.contains(&name)) {
        let remedy = format!("{folder} may use {outside:?}; do this work in a crate further out");
        return Some((format!("{folder} depends on the outside crate `{name}`"), remedy));
    }
    if name == TEST_TOOLS && !for_tests && !MAY_BE_MADE_OF_TEST_TOOLS.contains(folder) {
        let remedy = "name it under [dev-dependencies]".to_owned();
        return Some((format!("{folder} is built with `{name}`"), remedy));
    }
    if name == ANY_ERROR && !for_tests && !MAY_USE_ANY_ERROR.contains(folder) {
        let remedy = "define an error type with thiserror".to_owned();
        return Some((format!("the library {folder} depends on `{name}`"), remedy));
    }
    None
}

#[derive(Debug, PartialEq, Eq)]
struct Dependency {
    name: String,
    kind: Kind,
    is_optional: bool,
    line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Product,
    Tests,
}

fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut section = None;
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        let line_number = index + 1;
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let (kind, name) = dependency_section(header);
            section = kind;
            if let (Some(kind), Some(name)) = (kind, name) {
                found.push(Dependency { name, kind, is_optional: false, line: line_number });
                section = None;
            }
        } else if let Some(kind) = section
            && let Some(name) = entry_name(line)
        {
            let is_optional = line.contains("optional = true");
            found.push(Dependency { name, kind, is_optional, line: line_number });
        }
    }
    found
}

/// `[dependencies]`, `[target.….dev-dependencies]` and `[dependencies.name]`.
fn dependency_section(header: &str) -> (Option<Kind>, Option<String>) {
    for (word, kind) in [
        ("dev-dependencies", Kind::Tests),
        ("build-dependencies", Kind::Product),
        ("dependencies", Kind::Product),
    ] {
        if header == word || header.ends_with(&format!(".{word}")) {
            return (Some(kind), None);
        }
        if let Some((_, name)) = header.rsplit_once(&format!("{word}.")) {
            return (Some(kind), Some(name.to_owned()));
        }
    }
    (None, None)
}

fn entry_name(line: &str) -> Option<String> {
    let (key, _) = line.split_once('=')?;
    let name = key.trim().split('.').next()?.trim_matches('"');
    (!name.starts_with('#') && !name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, manifest: &str) -> Vec<String> {
        check(&Tree::of(&[(path, manifest)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_arrows_of_the_design_are_allowed() {
        let coordinator = "[dependencies]\nverdict.workspace = true\nstore.workspace = true\nwire = { path = \"x\" }\n";
        assert!(findings("crates/coordinator/Cargo.toml", coordinator).is_empty());
        let cli = "[dependencies]\ntenure.workspace = true\nanyhow.workspace = true\n";
        assert!(findings("crates/cli/Cargo.toml", cli).is_empty());
    }

    #[test]
    fn an_arrow_that_points_outward_is_found_with_its_line() {
        // S2-108: a check of the manifests enforces which crate may depend on which.
        let found = findings(
            "crates/store/Cargo.toml",
            "[dependencies]\nserde.workspace = true\nwire.workspace = true\n",
        );
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/store/Cargo.toml:3: crates/store depends on `wire`"));
    }

    #[test]
    fn the_engine_of_durable_functions_reaches_neither_dispatch_nor_delivery() {
        // Proves: S2-16: there is no arrow from the engine to what grants leases or to what leaves the process.
        for other in ["verdict", "store", "coordinator", "delivery", "webhook"] {
            let manifest = format!("[dependencies]\n{other}.workspace = true\n");
            assert_eq!(findings("crates/workflow/Cargo.toml", &manifest).len(), 1, "{other}");
        }
    }

    #[test]
    fn dev_dependencies_and_long_forms_are_no_way_round() {
        let by_section =
            findings("sdks/rust/Cargo.toml", "[dependencies.coordinator]\nworkspace = true\n");
        assert_eq!(by_section.len(), 1);
        let for_tests =
            findings("crates/wire/Cargo.toml", "[dev-dependencies]\nstore.workspace = true\n");
        assert_eq!(for_tests.len(), 1);
        let for_target = findings(
            "crates/wire/Cargo.toml",
            "[target.'cfg(unix)'.dependencies]\nverdict.workspace = true\n",
        );
        assert_eq!(for_target.len(), 1);
    }

    #[test]
    fn the_rules_take_nothing_from_outside_but_small_pure_crates() {
        let found = findings(
            "crates/verdict/Cargo.toml",
            "[dependencies]\nsha2.workspace = true\nserde.workspace = true\n[dev-dependencies]\nproptest.workspace = true\n",
        );
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("outside crate `serde`"));
    }

    #[test]
    fn nothing_that_runs_in_production_is_built_with_test_tools() {
        let manifest = |section| format!("[{section}]\nstoretest.workspace = true\n");
        let found = findings("crates/coordinator/Cargo.toml", &manifest("dependencies"));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("is built with `storetest`"));
        assert!(
            findings("crates/coordinator/Cargo.toml", &manifest("dev-dependencies")).is_empty()
        );
        assert!(findings("crates/sim/Cargo.toml", &manifest("dependencies")).is_empty());
    }

    #[test]
    fn what_users_compile_plays_no_bugs() {
        let linked = "[dependencies]\nfaultpoint.workspace = true\n";
        for folder in ["crates/verdict", "crates/wire", "sdks/rust"] {
            let found = findings(&format!("{folder}/Cargo.toml"), linked);
            assert!(found.len() == 1 && found[0].contains("which users compile"), "{found:?}");
        }
        assert!(findings("crates/store/Cargo.toml", linked).is_empty());
        let optional = "[features]\nmuseum = [\"dep:faultpoint\"]\n[dependencies]\n\
            faultpoint = { workspace = true, optional = true }\n";
        assert!(findings("crates/wire/Cargo.toml", optional).is_empty());
        for turned_on in [
            "[features]\ndefault = [\"museum\"]\n",
            "[dependencies]\nwire = { workspace = true, features = [\"museum\"] }\n",
        ] {
            assert_eq!(findings("sdks/rust/Cargo.toml", turned_on).len(), 1, "{turned_on}");
        }
    }

    #[test]
    fn libraries_name_their_errors() {
        let found =
            findings("crates/store/Cargo.toml", "[dependencies]\nanyhow.workspace = true\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("thiserror"));
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        let found = findings("crates/novel/Cargo.toml", "[package]\nname = \"novel\"\n");
        assert!(found[0].contains("no row"));
    }
}
