//! What to say when a store is decided by rules that somebody does not know. Which version that is each engine
//! remembers; which it may be `verdict::rules` says.

use verdict::{Rules, SupportedRules};

use crate::failure::{Failure, FailureKind};

/// The version with this number, or why nothing can be decided.
pub fn known(in_force: u32, known: SupportedRules) -> Result<Rules, Failure> {
    known.rules(in_force).ok_or_else(|| unknown(in_force, known))
}

/// A sentence, and after a semicolon the remedy.
pub fn unknown(in_force: u32, known: SupportedRules) -> Failure {
    let remedy = if in_force > known.newest() {
        "start the newer Tenure that the others run"
    } else {
        "stop the older coordinators first, or upgrade through a version that knows both"
    };
    let what = format!(
        "version {in_force} of the rules is in force and this Tenure knows {known}; {remedy}"
    );
    Failure::new(FailureKind::UnknownRules, what)
}
