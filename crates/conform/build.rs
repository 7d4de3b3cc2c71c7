//! Embeds the case files, so that a binary proves SDKs without this repository.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo says where the crate is");
    let cases = Path::new(&manifest).join("../../protocol/conformance");
    println!("cargo::rerun-if-changed={}", cases.display());
    let mut list = String::from("&[\n");
    for file in files(&cases) {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.strip_prefix(&cases).expect("it was found there").with_extension("");
        writeln!(list, "({:?}, include_str!({:?})),", name.display().to_string(), file)
            .expect("a text can be written to");
    }
    list.push_str("]\n");
    let out = env::var("OUT_DIR").expect("cargo says where to write");
    fs::write(Path::new(&out).join("cases.rs"), list).expect("the output folder can be written to");
}

/// All JSON files below a folder, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            found.extend(files(&path));
        } else if path.extension().is_some_and(|it| it == "json") {
            found.push(path);
        }
    }
    found
}
