//! Errors for a store whose rules in force this program does not know. Each engine stores the version in force;
//! `verdict::rules` defines which versions exist.

use verdict::{Rules, SupportedRules};

use crate::failure::{Failure, FailureKind};

/// The version with this number, or the reason why nothing can be decided.
pub fn known(in_force: u32, known: SupportedRules) -> Result<Rules, Failure> {
    known.rules(in_force).ok_or_else(|| unknown(in_force, known))
}

/// A sentence, then a semicolon and the remedy.
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
