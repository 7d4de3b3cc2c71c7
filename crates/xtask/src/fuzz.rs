//! `cargo xtask fuzz`: runs libFuzzer on each target of `crates/hostile`, with the toolchain that builds everything else.
//!
//! libFuzzer only needs to know which code an input reaches. LLVM's coverage pass provides the counters, so neither a
//! nightly toolchain nor a sanitizer is needed. Each target is a separate process with bounded memory and time, and
//! one runs per processor. New inputs go to a folder beside the build; with `--keep` they are reduced to those that
//! reach new code, and added to the corpus that the tests replay.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{parallel, steps};

/// Long enough to find shallow bugs; the duration for every change.
pub(crate) const SECONDS: u32 = 30;

/// Counters at every edge, a table of their locations, and a trace of compared values.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Limits for one input: seconds until it counts as a hang, bytes beyond which it reaches nothing new, megabytes of
/// memory.
const INPUT_SECONDS_MAX: u32 = 10;
const INPUT_BYTES_MAX: u32 = 4_096;
const MEMORY_MB_MAX: u32 = 1_024;

/// Kept inputs are read by people when they fail, and replayed in every test run.
const KEPT_BYTES_MAX: u32 = 512;

/// How many lines of a failing fuzzer's output are shown.
const TOLD_LINES: usize = 60;

#[derive(Debug, PartialEq, Eq)]
struct FuzzOptions {
    seconds: u32,
    keep: bool,
    only: Vec<String>,
}

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    let options = wanted(words)?;
    let known = targets(root)?;
    if let Some(unknown) = options.only.iter().find(|name| !known.contains(name)) {
        bail!("there is no target `{unknown}`; there are {}", known.join(", "));
    }
    let chosen =
        known.into_iter().filter(|name| options.only.is_empty() || options.only.contains(name));
    let bench = FuzzBuild::build(root)?;
    parallel::for_each(chosen, |target| bench.fuzz(&target, &options)).map(drop)
}

fn wanted(words: &[&str]) -> Result<FuzzOptions> {
    let mut options = FuzzOptions { seconds: SECONDS, keep: false, only: Vec::new() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--keep" => options.keep = true,
            "--seconds" => {
                let count = words.next().and_then(|count| count.parse().ok());
                options.seconds =
                    count.filter(|count| *count > 0).context("--seconds needs a number above 0")?;
            }
            name if !name.starts_with('-') => options.only.push(name.to_owned()),
            other => bail!("`{other}` is not `--seconds N`, `--keep` or a target"),
        }
    }
    Ok(options)
}

fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in folder.read_dir().with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort_unstable();
    Ok(names)
}

/// The fuzzers are a workspace of their own, so a build of the tree does not update their lock file, and theirs refuses
/// to. Found here, before any long step.
pub(crate) fn check_lock_file(root: &Path) -> Result<()> {
    let mut cargo = steps::cargo_command(&root.join("fuzz"));
    cargo.args(["metadata", "--format-version", "1", "--locked"]).stdout(Stdio::null());
    ensure!(
        cargo.status().context("start cargo")?.success(),
        "fuzz/Cargo.lock does not fit the manifests: run `cargo metadata --manifest-path fuzz/Cargo.toml` and commit it"
    );
    Ok(())
}

/// The built fuzzers and their folders.
struct FuzzBuild {
    root: PathBuf,
    built: PathBuf,
    scratch: PathBuf,
}

impl FuzzBuild {
    fn build(root: &Path) -> Result<FuzzBuild> {
        let machine = this_machine()?;
        let target = root.join("target/fuzz");
        let mut cargo = steps::cargo_command(&root.join("fuzz"));
        // The target is explicit, so that build scripts and macros are built without counters.
        cargo.args(["build", "--quiet", "--release", "--bins", "--locked", "--target", &machine]);
        cargo.env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", &target);
        ensure!(cargo.status().context("start cargo")?.success(), "the fuzzers cannot be built");
        let built = target.join(machine).join("release");
        Ok(FuzzBuild { root: root.to_owned(), built, scratch: target.join("found") })
    }

    fn fuzz(&self, target: &str, options: &FuzzOptions) -> Result<()> {
        let corpus = self.root.join("fuzz/corpus").join(target);
        let found = self.scratch.join(target);
        std::fs::create_dir_all(&found).with_context(|| format!("make {}", found.display()))?;
        let mut fuzzer = self.fuzzer(target);
        fuzzer.arg(format!("-max_total_time={}", options.seconds)).arg("-print_final_stats=1");
        // New inputs go to the first folder; the second is only read.
        let (held, said) = listen(fuzzer.arg(&found).arg(&corpus))?;
        ensure!(held, "{}", self.broken(target, &said));
        let count = |name: &str| {
            said.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim()
        };
        let inputs = count("stat::number_of_executed_units:");
        println!("fuzz {target}: {inputs} inputs in {} s, nothing broke", options.seconds);
        if options.keep { self.keep(target, &corpus, &found) } else { Ok(()) }
    }

    /// Adds the inputs that reach code the corpus does not reach, the smallest one for each.
    fn keep(&self, target: &str, corpus: &Path, found: &Path) -> Result<()> {
        let before = corpus.read_dir()?.count();
        let mut merger = self.fuzzer(target);
        merger.arg("-set_cover_merge=1").arg(format!("-max_len={KEPT_BYTES_MAX}"));
        let (merged, said) = listen(merger.arg(corpus).arg(found))?;
        ensure!(merged, "{}", self.broken(target, &said));
        println!("fuzz {target}: {} inputs joined the corpus", corpus.read_dir()?.count() - before);
        Ok(())
    }

    fn fuzzer(&self, target: &str) -> Command {
        let mut fuzzer = Command::new(self.built.join(target));
        fuzzer.arg(format!("-timeout={INPUT_SECONDS_MAX}"));
        fuzzer.arg(format!("-max_len={INPUT_BYTES_MAX}"));
        fuzzer.arg(format!("-rss_limit_mb={MEMORY_MB_MAX}"));
        fuzzer.arg(format!("-artifact_prefix={}/{target}-", self.scratch.display()));
        fuzzer
    }

    fn broken(&self, target: &str, said: &str) -> String {
        let lines: Vec<&str> = said.lines().collect();
        let last = &lines[lines.len().saturating_sub(TOLD_LINES)..];
        format!(
            "{}\n`{target}` found something; copy the input it names to fuzz/corpus/{target}, so that the tests replay it",
            last.join("\n")
        )
    }
}

/// Runs a command; returns whether it succeeded, and its output.
fn listen(command: &mut Command) -> Result<(bool, String)> {
    let output = command.stdin(Stdio::null()).output().context("start a fuzzer")?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

/// The target triple of this machine.
fn this_machine() -> Result<String> {
    let told = Command::new("rustc").arg("-vV").output().context("start rustc")?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc says which machine it builds for")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_targets_or_options() {
        let options = wanted(&["--seconds", "600", "body", "--keep", "token"]).unwrap();
        let only = vec!["body".to_owned(), "token".to_owned()];
        assert_eq!(options, FuzzOptions { seconds: 600, keep: true, only });
        let usual = FuzzOptions { seconds: SECONDS, keep: false, only: Vec::new() };
        assert_eq!(wanted(&[]).unwrap(), usual);
        for wrong in [&["--seconds"][..], &["--seconds", "0"], &["--seconds", "x"], &["--long"]] {
            assert!(wanted(wrong).is_err(), "{wrong:?}");
        }
    }
}
