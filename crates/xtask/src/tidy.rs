//! Rules of the tree that no compiler checks. Each is a pure function from a `Tree` to findings, but for the fuzzers'
//! lock file, which only cargo can judge.
//!
//! A rule belongs here if reviewers would otherwise have to repeat it. Rules that clippy or rustc can enforce belong
//! there.

mod answers;
mod architecture;
mod calls;
mod dialect;
mod edges;
mod error_pages;
mod indexes;
mod links;
mod llms;
mod machine_paths;
mod module_comments;
pub(crate) mod packages;
mod size;
mod unfinished;

use std::path::Path;

use anyhow::{Result, bail};

use crate::finding::Finding;
use crate::tree::Tree;
use crate::{contract, fuzz, generated};

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    edges::check,
    answers::check,
    calls::check,
    dialect::check,
    unfinished::check,
    size::check,
    module_comments::check,
    error_pages::check,
    generated::check,
    contract::check,
    architecture::check,
    links::check,
    llms::check,
    indexes::check,
    machine_paths::check,
    packages::check,
];

pub(crate) fn run(root: &Path) -> Result<()> {
    fuzz::check_lock_file(root)?;
    let tree = Tree::read(root)?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, nothing to say", tree.texts().count());
            Ok(())
        }
        1 => bail!("tidy has 1 finding"),
        many => bail!("tidy has {many} findings"),
    }
}
