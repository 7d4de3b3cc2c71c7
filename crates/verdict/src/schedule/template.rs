//! What a schedule submits, and how much one run of it writes.
//!
//! A template is not known here. How large it is was counted where it came in, because whoever shares commits and rates among tenants
//! must know it before the template is read.

use crate::allowance::requests_for;
use crate::id::Json;

/// How many units the runs of one decision may write: about what one commit takes. A plan, of which no single one writes more, is
/// submitted all the same.
pub const FIRING_WEIGHT_MAX: u32 = 1_024;

/// What is submitted for each instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub run: Json,
    pub size: RunSize,
}

/// What one run of a template writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunSize {
    /// The run, and the steps of its plan.
    pub tasks: u32,
    /// In units of about one task with its rows.
    pub weight: u32,
}

impl RunSize {
    /// A run without a plan, and with a small input.
    pub const ONE: Self = Self { tasks: 1, weight: 1 };

    /// How many runs one decision submits, at least one.
    pub const fn runs_per_decision(self) -> usize {
        let runs = match self.weight {
            0 => FIRING_WEIGHT_MAX,
            weight => FIRING_WEIGHT_MAX / weight,
        };
        if runs == 0 { 1 } else { runs as usize }
    }

    /// What a run takes from the rate of its tenant.
    pub const fn requests(self) -> u64 {
        requests_for(self.tasks as u64)
    }
}

/// A run that nothing else is known of.
impl Default for RunSize {
    fn default() -> Self {
        Self::ONE
    }
}
