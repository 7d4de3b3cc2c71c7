//! Every code that the command line prints has a page that says what happened, why, and what to do.
//!
//! The codes are read from the sources, because no test can provoke a full disk and a missing home in one run. A code
//! that is not written where its error is made is listed here, and so is each place that makes such errors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::home::Home;

/// Codes that a place chooses among, with their exit codes.
const CHOSEN: [(&str, u8); 11] = [
    ("copy_differs", 4),
    ("copy_interrupted", 4),
    ("database_untrusted", 4),
    ("invalid_line", 1),
    ("keyring", 4),
    ("rules_unknown", 4),
    ("signing_key_differs", 4),
    ("store_changed", 4),
    ("store_closed", 4),
    ("store_in_use", 4),
    ("store_not_empty", 4),
];

/// Where errors are made with a code that is chosen elsewhere: by the server, by the lists above, or by the caller.
const CHOOSING: [(&str, usize); 5] =
    [("exit.rs", 2), ("migrate.rs", 1), ("open_store.rs", 1), ("serve.rs", 1), ("server.rs", 2)];

/// The name of an exit code in the sources, and its number.
const EXITS: [(&str, u8); 7] = [
    ("Exit::Failed", 1),
    ("Exit::Usage", 2),
    ("Exit::NotFound", 3),
    ("Exit::Conflict", 4),
    ("Exit::Denied", 5),
    ("Exit::Unreachable", 6),
    ("Exit::Interrupted", 130),
];

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            found.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// The exit code and the code of an error that is made here; `None` if the code is not written here.
fn made(rest: &str, is_usage: bool) -> Option<(String, u8)> {
    let rest = rest.trim_start();
    let (exit, rest) = match is_usage {
        true => (2, rest),
        false => {
            let (exit, rest) = rest.split_once(',')?;
            (EXITS.iter().find(|(name, _)| *name == exit.trim())?.1, rest.trim_start())
        }
    };
    let (code, _) = rest.strip_prefix('"')?.split_once('"')?;
    Some((code.to_owned(), exit))
}

#[derive(Default)]
struct Found {
    codes: BTreeMap<String, BTreeSet<u8>>,
    /// How many places in a file make errors with a code that is chosen elsewhere.
    choosing: BTreeMap<String, usize>,
}

fn found() -> Found {
    let (mut files, mut found) = (Vec::new(), Found::default());
    sources(&folder("src"), &mut files);
    for (name, text) in files {
        for (call, is_usage) in [("CliError::new(", false), ("CliError::usage(", true)] {
            for (at, _) in text.match_indices(call) {
                match made(&text[at + call.len()..], is_usage) {
                    Some((code, exit)) => drop(found.codes.entry(code).or_default().insert(exit)),
                    None => *found.choosing.entry(name.clone()).or_default() += 1,
                }
            }
        }
    }
    for (code, exit) in CHOSEN {
        found.codes.entry(code.to_owned()).or_default().insert(exit);
    }
    found
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let Found { codes, choosing } = found();
    let known = CHOOSING.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(choosing, known.into(), "list new places, and the codes they choose, above");
    let pages = folder("../../docs/errors/cli");
    let names = std::fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<String> = names.map(|name| name.into_string().unwrap()).collect();
    let expected = codes.keys().map(|code| format!("{}.md", code.replace('_', "-")));
    assert_eq!(names, expected.collect(), "in docs/errors/cli");
    let index = std::fs::read_to_string(pages.join("../README.md")).unwrap();
    for (code, exits) in codes {
        let name = format!("{}.md", code.replace('_', "-"));
        let page = std::fs::read_to_string(pages.join(&name)).unwrap();
        let exits: Vec<String> = exits.iter().map(u8::to_string).collect();
        let exits = exits.join(" or ");
        assert!(page.starts_with(&format!("# {code}\n")), "the title of {name}");
        assert!(page.contains(&format!("exit code {exits}.")), "{name}: exit code {exits}");
        for section in ["## What happened\n", "## Usual cause\n", "## What to do next\n"] {
            assert!(page.contains(section), "{section} in {name}");
        }
        assert!(
            index.contains(&format!("| [{code}](cli/{name}) | {exits} |")),
            "{code} in the index"
        );
    }
}

#[test]
fn a_refusal_names_the_member_once() {
    let home = Home::new();
    let _server = home.serve();
    let ran = home.run(&["submit", "not a kind", "--queue", "q"]);
    let line = ran.stderr.lines().next().unwrap();
    assert!(line.starts_with("error: `kind` is not a valid name; a name is "), "{ran:?}");
    assert_eq!(line.matches("kind").count(), 1, "{ran:?}");
}
