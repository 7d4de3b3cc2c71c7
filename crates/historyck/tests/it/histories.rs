//! The hand-written histories under `histories/`, one folder per invariant: each `refused-…` must violate that
//! invariant; each `passes-…` is a border case and must satisfy all of them.

use std::fs;
use std::path::{Path, PathBuf};

use historyck::{Event, Invariant};

const REFUSED_MIN: usize = 2;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("histories")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn read(invariant: Invariant, name: &str) -> Vec<Event> {
    let path = folder().join(invariant.id()).join(name);
    let text = fs::read_to_string(&path).unwrap();
    historyck::text::read(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn every_invariant_refuses_what_breaks_it_and_passes_what_hardly_does_not() {
    for invariant in Invariant::ALL {
        let names = names(&folder().join(invariant.id()));
        let (refused, passing): (Vec<_>, Vec<_>) =
            names.iter().partition(|name| name.starts_with("refused-"));
        assert!(refused.len() >= REFUSED_MIN, "{invariant} refuses only {refused:?}");
        assert!(!passing.is_empty(), "{invariant} has no border");
        for name in refused {
            let found = historyck::check(&read(*invariant, name)).unwrap();
            let is_found = found.iter().any(|finding| finding.invariant == *invariant);
            assert!(is_found, "{invariant} does not see {name}; found was {found:?}");
        }
        for name in passing {
            assert!(name.starts_with("passes-"), "{invariant}/{name} says neither");
            let found = historyck::check(&read(*invariant, name)).unwrap();
            assert_eq!(found, [], "{invariant}/{name} must pass");
        }
    }
}

#[test]
fn no_folder_is_left_without_its_invariant() {
    let known: Vec<&str> = Invariant::ALL.iter().map(|invariant| invariant.id()).collect();
    for name in names(&folder()) {
        assert!(known.contains(&name.as_str()), "{name} is no invariant");
    }
}

#[test]
fn a_misspelt_member_turns_no_check_off() {
    let line = r#"{"at":1,"who":"w","event":"invoke","call":1,"op":"get","tsak":"t1"}"#;
    let refused = historyck::text::read(line).unwrap_err();
    assert!(refused.to_string().contains("tsak"), "{refused}");
}

#[test]
fn what_is_written_is_what_is_read() {
    for invariant in Invariant::ALL {
        for name in names(&folder().join(invariant.id())) {
            let events = read(*invariant, &name);
            let text: Vec<String> = events.iter().map(historyck::text::write).collect();
            assert_eq!(historyck::text::read(&text.join("\n")).unwrap(), events, "{name}");
        }
    }
}

#[test]
fn an_answer_without_a_question_is_no_history() {
    let alone = r#"{"at":1,"who":"w","event":"return","call":7,"answer":"ok"}"#;
    let events = historyck::text::read(alone).unwrap();
    assert!(historyck::check(&events).is_err());
}
