//! Every input that the fuzzer kept, and every input that once broke a property, must pass.

use std::path::{Path, PathBuf};

use hostile::TARGETS;

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// Replays a corpus and returns the number of its inputs; a failing input is printed before its panic.
fn replay(target: &str) -> usize {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let mut replayed = 0;
    for entry in std::fs::read_dir(corpus(target)).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let held = std::panic::catch_unwind(|| run(&bytes));
        assert!(held.is_ok(), "{} breaks the target `{target}`", path.display());
        replayed += 1;
    }
    replayed
}

#[test]
fn bodies() {
    assert!(replay("body") > 20);
}

#[test]
fn answers() {
    assert!(replay("answers") > 20);
}

#[test]
fn canonical_digests() {
    assert!(replay("canonical") > 20);
}

#[test]
fn cursors() {
    assert!(replay("cursor") > 3);
}

#[test]
fn decisions() {
    assert!(replay("decisions") > 20);
}

#[test]
fn plans() {
    assert!(replay("plan") > 8);
}

#[test]
fn tokens() {
    assert!(replay("token") > 3);
}

#[test]
fn every_target_has_a_fuzzer_and_a_corpus() {
    for (target, _) in TARGETS {
        let fuzzer = corpus(target).join("../../fuzz_targets").join(format!("{target}.rs"));
        assert!(fuzzer.is_file(), "{} is missing", fuzzer.display());
        assert!(corpus(target).is_dir(), "the corpus of {target} is missing");
    }
}
