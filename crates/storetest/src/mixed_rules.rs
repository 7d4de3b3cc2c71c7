//! A database for coordinators that support different versions of the rules.

use std::sync::Arc;

use store::postgres::{Notify, Options};
use verdict::{Rules, SupportedRules};

use crate::{Database, ManualClock};

/// What a coordinator of the first version supports.
pub const OLDER: SupportedRules = SupportedRules::only(Rules::V1, Rules::V1);

/// A database, and a clock that stands still, so that a slow machine makes no coordinator seem absent.
pub struct MixedRules {
    pub database: Database,
    pub clock: Arc<ManualClock>,
}

impl MixedRules {
    #[expect(clippy::new_without_default, reason = "it starts a database")]
    pub fn new() -> Self {
        Self { database: Database::create(), clock: Arc::default() }
    }

    /// The options of one coordinator with this name.
    pub fn options(&self, name: &str, rules: SupportedRules, notify: Notify) -> Options {
        let clock = Some(self.clock.clone() as Arc<dyn store::Clock>);
        Options { clock, notify, rules, ..Options::new(name) }
    }
}
