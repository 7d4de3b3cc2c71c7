//! The repository's text files in memory, so that every check is a pure function of a `Tree`.
//!
//! The tree is read from the working directory and not from a commit: a check has the same result before and after
//! `git commit`. Tests build small trees from strings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::rust_source::RustSource;

/// Folders without our files. Hidden folders are skipped too, except for `KEPT_HIDDEN`.
const SKIPPED_FOLDERS: &[&str] = &["target", "node_modules"];
const KEPT_HIDDEN: &[&str] = &[".ci", ".cargo", ".config", ".github"];
/// Larger files are data, not text for people.
const TEXT_BYTES_MAX: u64 = 2 << 20;

/// Folders and files in which every line is test code. The conformance suite is library code in form and test code in
/// purpose.
const TEST_FOLDERS: &[&str] = &["tests", "conformance"];
const TEST_FILES: &[&str] = &["/tests.rs", "/conformance.rs"];

#[derive(Debug, Default)]
pub(crate) struct Tree {
    texts: BTreeMap<String, String>,
    rust: BTreeMap<String, RustSource>,
    /// Files that are not text, such as pictures: no rule reads them, but documents link to them.
    binaries: BTreeSet<String>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let entries =
                folder.read_dir().with_context(|| format!("list {}", folder.display()))?;
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let kind = entry.file_type()?;
                if kind.is_dir() && is_ours(&name) {
                    folders.push(entry.path());
                } else if kind.is_file() && entry.metadata()?.len() <= TEXT_BYTES_MAX {
                    let path = entry.path();
                    let relative =
                        path.strip_prefix(root).context("a walk stays below its root")?;
                    tree.read_file(&path, relative.to_string_lossy().replace('\\', "/"))?;
                }
            }
        }
        Ok(tree)
    }

    /// Of a file that is not UTF-8 only the path is kept.
    fn read_file(&mut self, path: &Path, relative: String) -> Result<()> {
        let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
        if let Ok(text) = String::from_utf8(bytes) {
            self.insert(relative, text);
        } else {
            self.binaries.insert(relative);
        }
        Ok(())
    }

    fn insert(&mut self, path: String, text: String) {
        if path.ends_with(".rs") {
            self.rust.insert(path.clone(), RustSource::new(&text));
        }
        self.texts.insert(path, text);
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &RustSource)> {
        self.rust.iter().map(|(path, source)| (path.as_str(), source))
    }

    /// Whether everything in this file is test code: it is in a test folder, or it is a module under `cfg(test)`.
    pub(crate) fn is_test_file(&self, path: &str) -> bool {
        let by_name = path.split('/').any(|part| TEST_FOLDERS.contains(&part))
            || TEST_FILES.iter().any(|name| path.ends_with(name));
        by_name || self.parent_of_test_module(path)
    }

    fn parent_of_test_module(&self, path: &str) -> bool {
        self.rust.iter().any(|(parent, source)| {
            let folder = submodule_folder(parent);
            source.test_module_files.iter().any(|name| {
                path == format!("{folder}/{name}.rs")
                    || path.starts_with(&format!("{folder}/{name}/"))
            })
        })
    }

    pub(crate) fn has_file_or_folder(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.texts.contains_key(path)
            || self.binaries.contains(path)
            || self.texts.keys().any(|known| known.starts_with(&folder))
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.insert((*path).to_owned(), (*text).to_owned());
        }
        tree
    }

    #[cfg(test)]
    pub(crate) fn with_binary(mut self, path: &str) -> Self {
        self.binaries.insert(path.to_owned());
        self
    }
}

fn is_ours(folder: &str) -> bool {
    let hidden = folder.starts_with('.') && !KEPT_HIDDEN.contains(&folder);
    !hidden && !SKIPPED_FOLDERS.contains(&folder)
}

/// The folder of the modules that a file declares.
fn submodule_folder(file: &str) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => file.trim_end_matches(".rs").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_known_by_folder_by_name_and_by_declaration() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod scenarios;\nmod real;"),
            ("crates/a/src/real.rs", "#[cfg(test)]\nmod table;"),
        ]);
        for test in
            ["crates/a/tests/it/x.rs", "crates/a/src/b/tests.rs", "crates/a/src/scenarios.rs"]
        {
            assert!(tree.is_test_file(test), "{test}");
        }
        assert!(tree.is_test_file("crates/a/src/real/table.rs"));
        assert!(!tree.is_test_file("crates/a/src/real.rs"));
        assert!(!tree.is_test_file("crates/a/src/table.rs"));
    }

    #[test]
    fn build_output_and_version_control_are_not_part_of_the_tree() {
        assert!(!is_ours("target"));
        assert!(!is_ours(".git"));
        assert!(is_ours(".ci"));
        assert!(is_ours("crates"));
    }

    #[test]
    fn a_folder_exists_when_a_file_below_it_does() {
        let tree = Tree::of(&[("docs/errors/a.md", "")]);
        assert!(tree.has_file_or_folder("docs/errors/a.md"));
        assert!(tree.has_file_or_folder("docs/errors/"));
        assert!(tree.has_file_or_folder("docs"));
        assert!(!tree.has_file_or_folder("docs/err"));
    }
}
