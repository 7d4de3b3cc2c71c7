//! What the tests need from the machine, and how to get it there.
//!
//! One row per need, and only what some test needs today. Everything that is installed is printed first, with its reason.
//! Without root nothing of the system is changed: the command is printed instead.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

struct Need {
    name: &'static str,
    why: &'static str,
    /// A command that succeeds where the need is met.
    probe: &'static [&'static str],
    source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Packages of Debian and its relatives.
    Debian(&'static str),
    /// A program from the Rust registry.
    Cargo(&'static str),
    /// A part of the Rust toolchain.
    Toolchain(&'static str),
}

const NEEDS: &[Need] = &[
    Need {
        name: "a C compiler",
        why: "SQLite is built from source into the binary",
        probe: &["cc", "--version"],
        source: Source::Debian("gcc libc6-dev"),
    },
    Need {
        name: "rustfmt",
        why: "the formatting is checked",
        probe: &["cargo", "fmt", "--version"],
        source: Source::Toolchain("rustfmt"),
    },
    Need {
        name: "clippy",
        why: "lints are denied",
        probe: &["cargo", "clippy", "--version"],
        source: Source::Toolchain("clippy"),
    },
    Need {
        name: "cargo-nextest",
        why: "it runs each test in a process of its own, so that a killed server cannot disturb a neighbour",
        probe: &["cargo", "nextest", "--version"],
        source: Source::Cargo("cargo-nextest"),
    },
    Need {
        name: "curl",
        why: "the guide for workers in any language is run as it is printed",
        probe: &["curl", "--version"],
        source: Source::Debian("curl"),
    },
];

/// Installs what is missing; fails when something had to be left to the user.
pub(crate) fn meet() -> Result<()> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !is_met(need)).collect();
    let rights = if missing.is_empty() { Rights::User } else { rights() };
    let mut left: Vec<String> = Vec::new();
    for need in missing {
        let commands = commands(need.source, rights);
        println!("missing: {} (needed because {})", need.name, need.why);
        for line in &commands {
            match line {
                Action::Run(words) => install(need, words)?,
                Action::Print(line) => left.push(line.clone()),
            }
        }
    }
    if !left.is_empty() {
        bail!(
            "without root nothing is installed on the system; run this, then start again:\n  {}",
            left.join("\n  ")
        );
    }
    Ok(())
}

fn is_met(need: &Need) -> bool {
    let [program, arguments @ ..] = need.probe else { return false };
    quiet(program, arguments)
}

fn quiet(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    Root,
    User,
}

fn rights() -> Rights {
    let id = Command::new("id").arg("-u").output();
    match id {
        Ok(output) if output.stdout.trim_ascii() == b"0" => Rights::Root,
        _ => Rights::User,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Action {
    Run(Vec<String>),
    Print(String),
}

fn commands(source: Source, rights: Rights) -> Vec<Action> {
    match (source, rights) {
        (Source::Cargo(name), _) => vec![run(&format!("cargo install {name} --locked"))],
        (Source::Toolchain(part), _) => vec![run(&format!("rustup component add {part}"))],
        (Source::Debian(packages), Rights::Root) => vec![
            run("apt-get update"),
            run(&format!("apt-get install --yes --no-install-recommends {packages}")),
        ],
        (Source::Debian(packages), Rights::User) => {
            vec![Action::Print(format!("sudo apt-get install --yes {packages}"))]
        }
    }
}

fn run(line: &str) -> Action {
    Action::Run(line.split(' ').map(str::to_owned).collect())
}

fn install(need: &Need, words: &[String]) -> Result<()> {
    let line = words.join(" ");
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    println!("  running: {line}");
    let status = Command::new(program)
        .args(arguments)
        .status()
        .with_context(|| format!("start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status}); install {} by hand, then start again", need.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_root_the_system_is_left_alone_and_the_command_is_printed() {
        for need in NEEDS {
            let actions = commands(need.source, Rights::User);
            let touches_system = matches!(need.source, Source::Debian(_));
            let prints_only = actions.iter().all(|action| matches!(action, Action::Print(_)));
            assert_eq!(prints_only, touches_system, "{}", need.name);
        }
    }

    #[test]
    fn with_root_packages_are_installed() {
        let actions = commands(Source::Debian("curl"), Rights::Root);
        assert_eq!(
            actions.last(),
            Some(&run("apt-get install --yes --no-install-recommends curl"))
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_a_need_that_is_not_met() {
        let need = Need {
            name: "x",
            why: "y",
            probe: &["no-such-program-as-this", "--version"],
            source: Source::Debian("x"),
        };
        assert!(!is_met(&need));
    }
}
