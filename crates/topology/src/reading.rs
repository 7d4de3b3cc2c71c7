//! Reads a topology file: text in, a checked [`Topology`] or everything that is wrong with it out.

use crate::check::{self, Finding, Origin, Topology};
use crate::declaration::Declaration;
use crate::places::Places;
use crate::problem::{Place, Problem};

/// The largest file that is read. The largest shipped topology has 10 kB.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;

/// Reads and checks a topology in YAML or JSON.
pub fn read(text: &str) -> Result<Topology, Vec<Problem>> {
    read_from(Origin::File, text)
}

/// Reads a topology that came into force before. Its schemas are compiled when they are first tested, so that reading it is cheap
/// inside a batch. One that costs too much by the bounds of today fits nothing, and everything else about the topology works:
/// what it left can be ended, and another version can take its place.
pub fn read_stored(text: &str) -> Result<Topology, Vec<Problem>> {
    read_from(Origin::Store, text)
}

fn read_from(origin: Origin, text: &str) -> Result<Topology, Vec<Problem>> {
    let declaration = parse::<Declaration>(text).map_err(|problem| vec![problem])?;
    check::compile(declaration, origin).map_err(|findings| problems(text, findings))
}

fn problems(text: &str, findings: Vec<Finding>) -> Vec<Problem> {
    let places = Places::of(text);
    let mut problems: Vec<Problem> = findings
        .into_iter()
        .map(|finding| Problem {
            place: places.find(&finding.path),
            path: finding.path,
            message: finding.message,
        })
        .collect();
    problems.sort_by_key(|problem| problem.place);
    problems
}

/// Reads a value of a known shape. What has another shape is a problem with its place.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Problem> {
    if text.len() > FILE_BYTES_MAX {
        let message =
            format!("the file has {} bytes; at most {FILE_BYTES_MAX} are read", text.len());
        return Err(Problem { path: String::new(), place: None, message });
    }
    values(text).map_err(|error: serde_saphyr::Error| {
        let error = error.without_snippet();
        let place = error.location().map(|at| Place { line: at.line(), column: at.column() });
        Problem {
            path: String::new(),
            place: place.filter(|at| at.line > 0),
            message: plain(error),
        }
    })
}

/// YAML 1.2, in which `y`, `no` and `on` are texts and only `true` and `false` are truth values.
pub(crate) fn values<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { strict_booleans: true })
}

/// The message without the place, which the problem carries by itself.
fn plain(error: &serde_saphyr::Error) -> String {
    let message = error.to_string();
    let message = message.lines().next().unwrap_or_default();
    let end = message.rfind(" at line ").unwrap_or(message.len());
    message[..end].to_owned()
}
