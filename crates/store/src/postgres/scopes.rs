//! The scopes a transaction works in, which the database's policies compare every row with.

use std::collections::BTreeSet;

use verdict::Scope;

/// Between tenant and workspace, and between scopes. Names hold no control characters.
const HALVES: char = '\u{1f}';
const SCOPES: char = '\u{1e}';

/// What concerns every scope: sweeps, verification, administration.
pub(super) const ALL: &str = "*";

pub(super) const SET: &str = "SELECT set_config('tenure.scopes', $1, true)";

/// The scopes named so far. They only grow within a transaction; `*` holds for one step.
#[derive(Default)]
pub(super) struct Scopes {
    named: BTreeSet<Scope>,
    is_all: bool,
}

impl Scopes {
    /// Adds scopes. Says what must be set before the next statement, if anything.
    pub(super) fn add<'s>(&mut self, scopes: impl Iterator<Item = &'s Scope>) -> Option<String> {
        let before = self.named.len();
        for scope in scopes {
            if !self.named.contains(scope) {
                self.named.insert(scope.clone());
            }
        }
        let is_changed = self.named.len() > before || self.is_all;
        self.is_all = false;
        is_changed.then(|| self.setting())
    }

    pub(super) fn all(&mut self) -> Option<String> {
        (!std::mem::replace(&mut self.is_all, true)).then(|| ALL.to_owned())
    }

    fn setting(&self) -> String {
        let scopes: Vec<String> = self.named.iter().map(setting).collect();
        scopes.join(&SCOPES.to_string())
    }
}

/// One scope as the policies spell it.
pub(super) fn setting(scope: &Scope) -> String {
    format!("{}{HALVES}{}", scope.tenant.as_str(), scope.workspace.as_str())
}
