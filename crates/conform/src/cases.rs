//! The cases that the binary has with it, or those of a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde_json::Value;

use crate::case::{Case, Expect, Pick};
use crate::fault;
use crate::value;

const EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// Why a case cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    #[error("cannot read {}", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("the case {name} is not valid")]
    Invalid { name: String, source: serde_json::Error },
    #[error("the case {name} is not valid: {why}")]
    Senseless { name: String, why: String },
}

/// The cases of a folder, or those that the binary was built with.
pub fn all(folder: Option<&Path>) -> Result<Vec<Arc<Case>>, CaseError> {
    let texts: Vec<(String, String)> = match folder {
        Some(folder) => read(folder, "")?,
        None => {
            EMBEDDED.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        }
    };
    texts.iter().map(|(name, text)| one(name, text)).collect()
}

fn read(folder: &Path, under: &str) -> Result<Vec<(String, String)>, CaseError> {
    let unreadable = |file: &Path, source| CaseError::Unreadable { file: file.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, error))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{under}{stem}");
        if path.is_dir() {
            found.extend(read(&path, &format!("{name}/"))?);
        } else if path.extension().is_some_and(|it| it == "json") {
            let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, error))?;
            found.push((name, text));
        }
    }
    Ok(found)
}

fn one(name: &str, text: &str) -> Result<Arc<Case>, CaseError> {
    let invalid = |source| CaseError::Invalid { name: name.to_owned(), source };
    let case: Case = serde_json::from_str(text).map_err(invalid)?;
    let value: Value = serde_json::from_str(text).map_err(invalid)?;
    match senseless(name, &case, &value) {
        None => Ok(Arc::new(case)),
        Some(why) => Err(CaseError::Senseless { name: name.to_owned(), why }),
    }
}

/// What a case says that cannot be meant.
fn senseless(name: &str, case: &Case, value: &Value) -> Option<String> {
    if case.case != name {
        return Some(format!("it calls itself {}", case.case));
    }
    if !fault::is_known(&case.fault) {
        return Some(format!("no fault is called {}", case.fault));
    }
    if let Some(test) = value::unknown_test(&value["expect"]) {
        return Some(format!("no test is called {test}"));
    }
    let names: Vec<&str> = case.offer.iter().map(|offer| offer.name.as_str()).collect();
    let is_known = |of: &String| names.iter().any(|name| of.starts_with(name));
    let unknown = case.expect.iter().flat_map(picks).find_map(|pick| {
        let named = pick.of.iter().chain(&pick.lease_end);
        named.into_iter().find(|of| !is_known(of)).cloned()
    });
    if let Some(of) = unknown {
        return Some(format!("no task is called {of}"));
    }
    let is_empty = |expect: &Expect| {
        picks(expect).is_empty()
            && expect.says.is_none()
            && expect.exit.is_none()
            && expect.gone.is_none()
    };
    case.expect.iter().any(is_empty).then(|| "a judgement judges nothing".to_owned())
}

fn picks(expect: &Expect) -> Vec<&Pick> {
    let single = [
        &expect.count,
        &expect.with,
        &expect.never,
        &expect.after,
        &expect.gap,
        &expect.same,
        &expect.differ,
        &expect.rising,
    ];
    let pairs = [&expect.before, &expect.within];
    let mut all: Vec<&Pick> = single.into_iter().flatten().collect();
    all.extend(pairs.into_iter().flatten().flatten());
    all.extend(expect.order.iter().flatten());
    all.extend(expect.any.iter().flatten().flat_map(picks));
    all
}

/// Whether a name fits a pattern in which `*` stands for any text.
pub fn is_like(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    let mut rest = rest;
    for part in parts {
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_valid_and_named_like_its_file() {
        let cases = all(None).unwrap();
        assert!(cases.len() >= 100, "only {} cases are embedded", cases.len());
    }

    #[test]
    fn a_pattern_has_stars() {
        assert!(is_like("worker/*", "worker/echo"));
        assert!(is_like("*lost*", "worker/poll-answer-lost"));
        assert!(is_like("worker/echo", "worker/echo"));
        assert!(!is_like("worker/echo", "worker/echo-2"));
        assert!(!is_like("client/*", "worker/echo"));
        assert!(!is_like("*/echo", "worker/echo-2"));
    }
}
