//! The tools that the tests need on the machine, and how to install them.
//!
//! One row per prerequisite, and only those that some test needs today. Each installation is printed first, with its
//! reason. Without root no system package is installed: the command is printed instead.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

struct Prerequisite {
    name: &'static str,
    why: &'static str,
    probe: Probe,
    source: Source,
}

/// How to check that a prerequisite is met.
#[derive(Clone, Copy)]
enum Probe {
    /// A command that succeeds.
    Command(&'static [&'static str]),
    /// A function of the code that uses the tool, which knows where to search.
    Look(fn() -> bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Packages of Debian and its derivatives.
    Debian(&'static str),
    /// A program from crates.io.
    Cargo(&'static str),
    /// A component of the Rust toolchain.
    Toolchain(&'static str),
}

const fn prerequisite(
    name: &'static str,
    why: &'static str,
    probe: &'static [&'static str],
    source: Source,
) -> Prerequisite {
    Prerequisite { name, why, probe: Probe::Command(probe), source }
}

const fn server(
    name: &'static str,
    why: &'static str,
    look: fn() -> bool,
    source: Source,
) -> Prerequisite {
    Prerequisite { name, why, probe: Probe::Look(look), source }
}

/// One line per prerequisite: name, reason, probe, source.
#[rustfmt::skip]
const PREREQUISITES: &[Prerequisite] = &[
    prerequisite("a C compiler", "SQLite is built from source into the binary", &["cc", "--version"], Source::Debian("gcc libc6-dev")),
    prerequisite("a C++ compiler", "the fuzzer is built from source", &["c++", "--version"], Source::Debian("g++")),
    prerequisite("rustfmt", "the formatting is checked", &["cargo", "fmt", "--version"], Source::Toolchain("rustfmt")),
    prerequisite("clippy", "lints are denied", &["cargo", "clippy", "--version"], Source::Toolchain("clippy")),
    prerequisite("cargo-nextest", "it runs each test in a process of its own", &["cargo", "nextest", "--version"], Source::Cargo("cargo-nextest")),
    server("PostgreSQL", "the engine for several coordinators is tested on a real server", || pgserver::Programs::find().is_ok(), Source::Debian("postgresql")),
    server("pgbouncer", "the engine for several coordinators is tested through a pooler", pgserver::Pooler::is_installed, Source::Debian("pgbouncer")),
    prerequisite("curl", "the guide for workers in any language is run as printed", &["curl", "--version"], Source::Debian("curl")),
    prerequisite("Node", "the guide's worker for Node, the TypeScript SDK and the console's tests are run", &["node", "--version"], Source::Debian("nodejs")),
    prerequisite("npm", "the TypeScript SDK and the console are built and checked", &["npm", "--version"], Source::Debian("npm")),
    prerequisite("Chromium", "the console is used through a browser", &["chromium", "--version"], Source::Debian("chromium")),
    prerequisite("openssl", "the recipe for a private certificate authority is run as printed", &["openssl", "version"], Source::Debian("openssl")),
    prerequisite("Python with venv", "schemathesis tries hostile input on a live server, and the guide's worker in Python is run", &["python3", "-c", "import ensurepip, venv"], Source::Debian("python3 python3-venv")),
];

/// Installs what is missing; fails if something is left for the user to install.
pub(crate) fn ensure_installed() -> Result<()> {
    let missing: Vec<&Prerequisite> =
        PREREQUISITES.iter().filter(|prerequisite| !is_installed(prerequisite)).collect();
    if missing.is_empty() {
        println!(
            "all there: {}",
            PREREQUISITES
                .iter()
                .map(|prerequisite| prerequisite.name)
                .collect::<Vec<_>>()
                .join(", ")
        );
        return Ok(());
    }
    let machine = machine();
    let mut left: Vec<String> = Vec::new();
    for prerequisite in missing {
        println!("missing: {} (needed because {})", prerequisite.name, prerequisite.why);
        for action in actions(prerequisite.source, machine) {
            match action {
                Action::Run(words) => install(prerequisite, &words)?,
                Action::Print(line) => left.push(line),
            }
        }
    }
    if !left.is_empty() {
        bail!("this needs you; run it, then start again:\n  {}", left.join("\n  "));
    }
    Ok(())
}

fn is_installed(prerequisite: &Prerequisite) -> bool {
    match prerequisite.probe {
        Probe::Command([program, arguments @ ..]) => quiet(program, arguments),
        Probe::Command([]) => false,
        Probe::Look(look) => look(),
    }
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
enum Machine {
    DebianAsRoot,
    DebianAsUser,
    Other,
}

fn machine() -> Machine {
    let id = Command::new("id").arg("-u").output();
    let root = id.is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    match (quiet("apt-get", &["--version"]), root) {
        (true, true) => Machine::DebianAsRoot,
        (true, false) => Machine::DebianAsUser,
        (false, _) => Machine::Other,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Action {
    Run(Vec<String>),
    Print(String),
}

fn actions(source: Source, machine: Machine) -> Vec<Action> {
    match (source, machine) {
        (Source::Cargo(name), _) => vec![run(&format!("cargo install {name} --locked"))],
        (Source::Toolchain(part), _) => vec![run(&format!("rustup component add {part}"))],
        (Source::Debian(packages), Machine::DebianAsRoot) => vec![
            run("apt-get update"),
            run(&format!("apt-get install --yes --no-install-recommends {packages}")),
        ],
        (Source::Debian(packages), Machine::DebianAsUser) => {
            vec![Action::Print(format!("sudo apt-get install --yes {packages}"))]
        }
        (Source::Debian(packages), Machine::Other) => {
            vec![Action::Print(format!("install what Debian calls `{packages}`"))]
        }
    }
}

fn run(line: &str) -> Action {
    Action::Run(line.split(' ').map(str::to_owned).collect())
}

fn install(prerequisite: &Prerequisite, words: &[String]) -> Result<()> {
    let line = words.join(" ");
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    println!("  running: {line}");
    let status = Command::new(program)
        .args(arguments)
        .status()
        .with_context(|| format!("start `{line}`"))?;
    if !status.success() {
        bail!(
            "`{line}` failed ({status}); install {} by hand, then start again",
            prerequisite.name
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_root_the_system_is_left_alone_and_the_command_is_printed() {
        for machine in [Machine::DebianAsUser, Machine::Other] {
            for prerequisite in PREREQUISITES {
                let actions = actions(prerequisite.source, machine);
                let touches_system = matches!(prerequisite.source, Source::Debian(_));
                let prints_only = actions.iter().all(|action| matches!(action, Action::Print(_)));
                assert_eq!(prints_only, touches_system, "{} on {machine:?}", prerequisite.name);
            }
        }
    }

    #[test]
    fn with_root_packages_are_installed() {
        let actions = actions(Source::Debian("curl"), Machine::DebianAsRoot);
        let install = run("apt-get install --yes --no-install-recommends curl");
        assert_eq!(actions.last(), Some(&install));
    }

    #[test]
    fn a_program_that_is_not_there_is_a_need_that_is_not_met() {
        let prerequisite = Prerequisite {
            name: "x",
            why: "y",
            probe: Probe::Command(&["no-such-program-as-this", "--version"]),
            source: Source::Debian("x"),
        };
        assert!(!is_installed(&prerequisite));
    }
}
