//! What is wrong with a plan, for the person who wrote it.

use std::fmt;

/// Maximum problems that one check reports: a plan that is wrong as a whole needs no more.
pub const PROBLEMS_MAX: usize = 100;

/// One thing that is wrong: the step, the member, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanProblem {
    /// The place of the step in the plan, from 0; `None` if the plan as a whole is wrong.
    pub step: Option<usize>,
    /// The step's key, as it is written.
    pub key: Option<String>,
    /// A path such as `steps[3].dependsOn[1]`.
    pub field: String,
    /// What is wrong and what is allowed.
    pub message: String,
}

impl fmt::Display for PlanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "step `{key}`: `{}` {}", self.field, self.message),
            None => write!(f, "`{}` {}", self.field, self.message),
        }
    }
}

impl std::error::Error for PlanProblem {}
