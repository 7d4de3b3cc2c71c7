//! `cargo xtask dist`: an archive with the optimised binary and what is installed with it, its checksum, and the packages of
//! the SDKs for Python and Node.
//!
//! It builds with the `dist` profile (stripped), for musl if this machine can, else for glibc. Completions and manual
//! pages come from the binary itself, so they always match it. Nothing is published: the result is a folder.
//!
//! The archive depends only on its content: names are sorted, owners are root, times are those of the last commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::steps;
use crate::tidy::packages::PACKAGES;

/// Where each shell looks for a file of which name.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "tenure.bash"), ("zsh", "_tenure"), ("fish", "tenure.fish")];

/// Files of the repository that belong to an installation.
const FILES: [&str; 8] = [
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "deploy/tenure.toml",
    "deploy/systemd/tenure.service",
    "deploy/grafana/tenure.json",
];

const CHECKSUMS: &str = "SHA256SUMS";

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    let out = target_folder(root).join("dist");
    let target = Target::choose()?;
    let binary = match words {
        [] => build(root, &target)?,
        ["--binary", file] => PathBuf::from(file),
        _ => bail!("usage: cargo xtask dist [--binary FILE]"),
    };
    let package =
        Package { root, binary: &binary, version: version(root)?, triple: &target.triple };
    let archive = package.write(&out)?;
    println!("wrote {}", archive.display());
    println!("wrote {}", out.join(CHECKSUMS).display());
    println!("the binary links: {}", links(&binary));
    rust_packages(root, &out)?;
    sdk_packages(root, &out)
}

/// The crates that a user of the Rust SDK needs, as a registry takes them. They were built and tested with the tree.
fn rust_packages(root: &Path, out: &Path) -> Result<()> {
    let mut arguments = vec!["package", "--no-verify", "--allow-dirty", "--locked"];
    arguments.extend(PACKAGES.iter().flat_map(|package| ["--package", package]));
    steps::cargo(root, &arguments)?;
    let version = version(root)?;
    for package in PACKAGES {
        let file = format!("{package}-{version}.crate");
        let made = target_folder(root).join("package").join(&file);
        std::fs::copy(&made, out.join(&file))
            .with_context(|| format!("copy {}", made.display()))?;
        println!("wrote {}", out.join(&file).display());
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
    let mut folder = target_folder(root);
    if target.is_musl {
        arguments.extend(["--target", &target.triple]);
        folder.push(&target.triple);
    }
    steps::cargo(root, &arguments)?;
    Ok(folder.join("dist/tenure"))
}

fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The version of the workspace.
fn version(root: &Path) -> Result<String> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).context("read Cargo.toml")?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|line| line.strip_suffix('"'));
    Ok(version.context("Cargo.toml has no version")?.to_owned())
}

/// What goes into an archive.
struct Package<'a> {
    root: &'a Path,
    binary: &'a Path,
    version: String,
    triple: &'a str,
}

impl Package<'_> {
    /// Writes the archive and its checksum into a folder, and returns the path of the archive.
    fn write(&self, out: &Path) -> Result<PathBuf> {
        let name = format!("tenure-{}-{}", self.version, self.triple);
        let staging = tempfile::tempdir().context("create a folder for the content")?;
        self.collect(&staging.path().join(&name))?;
        std::fs::create_dir_all(out).with_context(|| format!("create {}", out.display()))?;
        let archive = out.join(format!("{name}.tar.gz"));
        self.pack(staging.path(), &name, &archive)?;
        let sum = format!("{}  {name}.tar.gz\n", checksum(&archive)?);
        std::fs::write(out.join(CHECKSUMS), sum).context("write the checksum")?;
        Ok(archive)
    }

    fn collect(&self, folder: &Path) -> Result<()> {
        let completions = folder.join("completions");
        std::fs::create_dir_all(&completions).context("create the folder of completions")?;
        // Keeps the permission to execute it.
        copy(self.binary, &folder.join("tenure"))?;
        for file in FILES {
            let name = Path::new(file).file_name().context("a file has a name")?;
            copy(&self.root.join(file), &folder.join(name))?;
        }
        let program = path_text(self.binary)?;
        for (shell, name) in COMPLETIONS {
            let script = output(program, &["completions", shell])?;
            std::fs::write(completions.join(name), script)
                .with_context(|| format!("write {name}"))?;
        }
        output(program, &["man", path_text(&folder.join("man/man1"))?])?;
        Ok(())
    }

    fn pack(&self, folder: &Path, name: &str, archive: &Path) -> Result<()> {
        let root = path_text(self.root)?;
        let time = output("git", &["-C", root, "log", "-1", "--format=%ct"]);
        // Without a history every file is of the epoch.
        let time = format!("--mtime=@{}", time.as_deref().unwrap_or("0").trim());
        let (folder, archive) = (path_text(folder)?, path_text(archive)?);
        // gzip stores no time when it reads from a pipe, as here.
        let fixed = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", &time];
        output("tar", &[&fixed[..], &["-C", folder, "-czf", archive, name]].concat())?;
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
    Ok(())
}

fn path_text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not text", path.display()))
}

fn checksum(file: &Path) -> Result<String> {
    let bytes = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Stands in for the binary, so that no test waits for an optimised build.
    const PROGRAM: &str = "#!/bin/sh\n\
        case \"$1\" in\n\
        completions) echo \"completions for $2\" ;;\n\
        man) mkdir -p \"$2\" && echo page > \"$2/tenure.1\" ;;\n\
        esac\n";

    fn packed(folder: &Path) -> PathBuf {
        let binary = folder.join("program");
        std::fs::write(&binary, PROGRAM).unwrap();
        std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let version = version(&root).unwrap();
        let package = Package { root: &root, binary: &binary, version, triple: "here" };
        package.write(&folder.join("out")).unwrap()
    }

    #[test]
    fn an_archive_holds_the_binary_and_what_is_installed_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let archive = packed(folder.path());
        let name = format!("tenure-{}-here", env!("CARGO_PKG_VERSION"));
        assert_eq!(archive.file_name().unwrap().to_str(), Some(&*format!("{name}.tar.gz")));
        let listed = output("tar", &["-tzf", path_text(&archive).unwrap()]).unwrap();
        let files: BTreeSet<&str> = listed
            .lines()
            .filter(|line| !line.ends_with('/'))
            .map(|line| line.strip_prefix(&format!("{name}/")).unwrap())
            .collect();
        let expected = [
            "CHANGELOG.md",
            "LICENSE",
            "LICENSE-APACHE",
            "LICENSE-MIT",
            "README.md",
            "completions/_tenure",
            "completions/tenure.bash",
            "completions/tenure.fish",
            "man/man1/tenure.1",
            "tenure",
            "tenure.json",
            "tenure.service",
            "tenure.toml",
        ];
        assert_eq!(files, expected.into());
        unpack(folder.path(), &archive);
        let unpacked = folder.path().join(name);
        let mode = std::fs::metadata(unpacked.join("tenure")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "the binary can be executed");
        let script = std::fs::read_to_string(unpacked.join("completions/_tenure")).unwrap();
        assert_eq!(script, "completions for zsh\n");
    }

    fn unpack(folder: &Path, archive: &Path) {
        let (folder, archive) = (path_text(folder).unwrap(), path_text(archive).unwrap());
        output("tar", &["-C", folder, "-xzf", archive]).unwrap();
    }

    #[test]
    fn the_checksum_is_that_of_the_archive_and_the_same_content_gives_the_same_archive() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let sums = [&one, &other].map(|folder| {
            packed(folder.path());
            std::fs::read_to_string(folder.path().join("out").join(CHECKSUMS)).unwrap()
        });
        assert_eq!(sums[0], sums[1]);
        let out = one.path().join("out");
        let checked = Command::new("sha256sum").args(["-c", CHECKSUMS]).current_dir(out).output();
        assert!(checked.unwrap().status.success());
    }
}
