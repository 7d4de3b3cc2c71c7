//! Where coordinators of several versions of the rules meet, for the tests of store and coordinator.

use std::sync::Arc;

use store::ManualClock;
use store::postgres::{Notify, Options};
use verdict::{Rules, SupportedRules};

use super::server::Database;

/// What a coordinator of the first version knows.
pub(crate) const OLDER: SupportedRules = SupportedRules::only(Rules::V1, Rules::V1);

/// A database and a clock that stands still: nobody is missed because a machine is slow.
pub(crate) struct Stage {
    pub(crate) database: Database,
    pub(crate) clock: Arc<ManualClock>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self { database: Database::create(), clock: Arc::default() }
    }

    /// How one of them opens the database, under a name.
    pub(crate) fn options(&self, name: &str, rules: SupportedRules, notify: Notify) -> Options {
        let clock = Some(self.clock.clone() as Arc<dyn store::Clock>);
        Options { clock, notify, rules, ..Options::new(name) }
    }
}
