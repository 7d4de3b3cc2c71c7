//! The program: its input, its output and its exit status.

use std::path::Path;
use std::process::{Command, Output};

fn run(files: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_historyck")).args(files).output().unwrap()
}

fn history(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("histories").join(name)
}

#[test]
fn it_names_the_invariant_the_events_and_why_and_ends_with_one() {
    let ran = run(&[&history("A2/refused-same-fence.jsonl")]);
    let said = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(1));
    assert!(said.contains("A2 of t1: fence 1 came after fence 1"), "{said}");
    assert!(said.contains("must hold: the fences of a task grow"), "{said}");
    assert!(said.contains(r#""cause":"grant""#), "{said}");
}

#[test]
fn it_ends_with_zero_when_nothing_is_wrong_and_with_two_when_it_cannot_read() {
    assert_eq!(run(&[&history("A2/passes-gap.jsonl")]).status.code(), Some(0));
    assert_eq!(run(&[Path::new("no-such-file")]).status.code(), Some(2));
}

#[test]
fn several_files_are_one_history() {
    // Each file alone passes; merged, one task's fence decreases.
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(history("A2/refused-same-fence.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let files = [folder.path().join("one"), folder.path().join("two")];
    std::fs::write(&files[0], lines[..2].join("\n")).unwrap();
    std::fs::write(&files[1], lines[2..].join("\n")).unwrap();
    assert_eq!(run(&[&files[0]]).status.code(), Some(0));
    assert_eq!(run(&[&files[1], &files[0]]).status.code(), Some(1));
}
