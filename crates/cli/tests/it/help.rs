//! The help texts of the program.

use crate::home::Home;

const COMMANDS: [&str; 37] = [
    "tour",
    "dev",
    "console",
    "serve",
    "submit",
    "runs",
    "queues",
    "workers",
    "kinds",
    "flow",
    "keys",
    "audit",
    "mcp",
    "work",
    "step",
    "sleep",
    "wait-for",
    "ask",
    "child",
    "effect",
    "spend",
    "progress",
    "verify",
    "coordinators",
    "bench",
    "backup",
    "restore",
    "explain",
    "plan",
    "topology",
    "export",
    "replay",
    "doctor",
    "completions",
    "man",
    "prune",
    "config",
];

#[test]
fn without_arguments_the_first_five_minutes_are_shown() {
    let ran = Home::new().run(&[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    for expected in
        ["tenure dev", "tenure work --queue", "tenure submit", "tenure tour", "Exit codes:"]
    {
        assert!(ran.stdout.contains(expected), "{expected} in {}", ran.stdout);
    }
    for command in COMMANDS {
        assert!(ran.stdout.contains(&format!("\n  {command} ")), "{command} in {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("tour-worker"));
    assert!(!ran.stdout.contains('\u{1b}'), "no colour but on a terminal");
}

#[test]
fn every_command_and_flag_says_what_it_does_in_one_line() {
    let home = Home::new();
    let verbs = ["list", "show", "watch", "cancel", "history", "record"];
    let keys = ["create", "list", "rotate", "revoke", "rotate-signing"]
        .map(|verb| vec!["keys", verb, "-h"]);
    let nested = verbs.iter().map(|verb| vec!["runs", verb, "-h"]).chain(keys);
    for arguments in COMMANDS.iter().map(|command| vec![*command, "-h"]).chain(nested) {
        let ran = home.tenure(&arguments).env("COLUMNS", "200").output().unwrap();
        assert!(ran.status.success());
        let text = String::from_utf8(ran.stdout).unwrap();
        assert!(!text.starts_with("Usage"), "{arguments:?} says what it is for: {text}");
        for line in text.lines().filter(|line| line.trim_start().starts_with("--")) {
            assert!(line.trim().contains("  "), "{arguments:?}: {line} has no help");
        }
    }
}

#[test]
fn the_exit_codes_in_the_help_are_all_there_are() {
    let help = Home::new().run(&["--help"]).stdout;
    for code in [
        "0 done",
        "1 failed",
        "2 usage",
        "3 not found",
        "4 conflict",
        "5 no valid key",
        "6 server unreachable",
        "130 interrupted",
        "10 failed",
        "11 halted",
        "12 cancelled",
        "124 timed out",
    ] {
        assert!(help.contains(code), "{code} in {help}");
    }
}

#[test]
fn the_version_is_one_line() {
    let ran = Home::new().run(&["--version"]);
    assert_eq!(ran.stdout, format!("tenure {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn colour_is_for_terminals_and_for_those_who_insist() {
    let home = Home::new();
    let stderr = |name: &str, value: &str| {
        let output = home.tenure(&["queues"]).env(name, value).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(stderr("CLICOLOR_FORCE", "1").contains('\u{1b}'));
    assert!(!stderr("NO_COLOR", "1").contains('\u{1b}'));
    assert!(!stderr("TERM", "xterm").contains('\u{1b}'));
}

fn repository(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_front_page_names_the_rust_version_and_the_crate_that_exist() {
    let manifest = repository("Cargo.toml");
    let version = manifest.split_once("rust-version = \"").unwrap().1.split_once('"').unwrap().0;
    for page in ["README.md", "docs/guide/rust.md"] {
        let text = repository(page);
        assert!(text.contains(&format!("Rust {version} or newer")), "{version} in {page}");
        let line = text.lines().find(|line| line.starts_with("tenure = { ")).expect(page);
        assert_eq!(line, "tenure = { package = \"tenure-sdk\", path = \"../tenure/sdks/rust\" }");
    }
    let sdk = repository("sdks/rust/Cargo.toml");
    assert!(sdk.contains("name = \"tenure-sdk\"\n") && sdk.contains("[lib]\nname = \"tenure\""));
}
