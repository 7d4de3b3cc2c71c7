//! `cargo xtask dist`: everything that a release consists of, in `target/dist`: an archive with the optimised binary and what is
//! installed with it, packages that bring the binary to Python, Node and Debian, and the packages of the SDKs.
//!
//! It builds with the `dist` profile (stripped), for musl if this machine can, else for glibc. Nothing is published: the
//! result is a folder. `deploy/packages` makes the archive and the packages of the binary; its `check` installs each of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{docs, rust_packages, steps};

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    let out = steps::target_folder(root).join("dist");
    let target = Target::choose()?;
    let binary = match words {
        [] => build(root, &target)?,
        ["--binary", file] => PathBuf::from(file),
        _ => bail!("usage: cargo xtask dist [--binary FILE]"),
    };
    // Everything in the folder gets a checksum, so nothing of an earlier version may be left in it.
    if out.exists() {
        std::fs::remove_dir_all(&out).with_context(|| format!("empty {}", out.display()))?;
    }
    std::fs::create_dir_all(&out).with_context(|| format!("create {}", out.display()))?;
    rust_packages(root, &out)?;
    sdk_packages(root, &out)?;
    binary_packages(root, &binary, &target, &out)?;
    println!("the binary links: {}", links(&binary));
    Ok(())
}

/// The archive, the packages that have the binary inside, and the checksums of all files. The archive and the Debian package
/// have the documents, too.
fn binary_packages(root: &Path, binary: &Path, target: &Target, out: &Path) -> Result<()> {
    let site = docs::run(root, &["--binary", path_text(binary)?])?;
    let mut command = Command::new("python3");
    command.arg("-B").arg(root.join("deploy/packages/build.py")).arg("--binary").arg(binary);
    command.args(["--triple", &target.triple]).arg("--documents").arg(site).arg("--out").arg(out);
    let done = command.status();
    if !done.context("start deploy/packages/build.py")?.success() {
        bail!("the packages of the binary were not made");
    }
    Ok(())
}

/// The crates that a user of the Rust SDK needs, as a registry takes them.
fn rust_packages(root: &Path, out: &Path) -> Result<()> {
    for made in rust_packages::files(root)? {
        let name = made.file_name().context("a package has a name")?;
        std::fs::copy(&made, out.join(name)).with_context(|| format!("copy {}", made.display()))?;
        println!("wrote {}", out.join(name).display());
    }
    Ok(())
}

/// Scripts of the SDKs that write their packages into a folder. Each works once its SDK's `check` has fetched its tools.
const SDK_PACKAGES: [&str; 2] = ["sdks/python/tools/dist", "sdks/typescript/scripts/dist"];

fn sdk_packages(root: &Path, out: &Path) -> Result<()> {
    for script in SDK_PACKAGES {
        println!("{script}");
        let done = Command::new(root.join(script)).arg(out).status();
        if !done.with_context(|| format!("start {script}"))?.success() {
            bail!("{script} failed");
        }
    }
    Ok(())
}

/// What the binary is built for.
struct Target {
    triple: String,
    /// Passed to cargo only if it is not this machine's own: the output folder depends on it.
    is_musl: bool,
}

impl Target {
    /// The musl variant of this machine, if both its standard library and a C compiler for it are installed.
    fn choose() -> Result<Target> {
        let host = host()?;
        let musl = host.replace("-gnu", "-musl");
        let installed = output("rustup", &["target", "list", "--installed"]).unwrap_or_default();
        let has_library = installed.lines().any(|line| line == musl);
        let has_compiler = output("musl-gcc", &["--version"]).is_ok();
        let is_musl = host.ends_with("-linux-gnu") && has_library && has_compiler;
        Ok(Target { triple: if is_musl { musl } else { host }, is_musl })
    }
}

fn host() -> Result<String> {
    let about = output("rustc", &["--version", "--verbose"])?;
    let line = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("rustc does not say for which machine it builds")?.to_owned())
}

fn build(root: &Path, target: &Target) -> Result<PathBuf> {
    let mut arguments = vec!["build", "--profile", "dist", "--locked", "--package", "tenure"];
    let mut folder = steps::target_folder(root);
    if target.is_musl {
        arguments.extend(["--target", &target.triple]);
        folder.push(&target.triple);
    }
    steps::cargo(root, &arguments)?;
    Ok(folder.join("dist/tenure"))
}

fn path_text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not text", path.display()))
}

/// The shared libraries that a binary needs, by name.
fn links(binary: &Path) -> String {
    let told = path_text(binary).and_then(|binary| output("ldd", &[binary])).unwrap_or_default();
    let libraries = told.lines().filter_map(|line| line.trim().split(' ').next());
    let libraries: Vec<&str> = libraries.filter(|name| name.starts_with("lib")).collect();
    if libraries.is_empty() { "nothing, it is static".to_owned() } else { libraries.join(", ") }
}

/// What a program prints, if it succeeds.
fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let ran = Command::new(program).args(arguments).output();
    let ran = ran.with_context(|| format!("start `{program}`"))?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        bail!("`{program} {}` failed: {}", arguments.join(" "), said.trim());
    }
    String::from_utf8(ran.stdout).with_context(|| format!("read what `{program}` printed"))
}
