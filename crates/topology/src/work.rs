//! Work that is counted: nothing of a tenant's making runs without a bound.
//!
//! A bound in time would judge the same value differently on a loaded machine. Steps are counted instead, before they are
//! taken: a step is about what one keyword of a schema costs on one small value (some ten nanoseconds).

use serde_json::Value;

/// The steps for checking the fields of one artifact, or the output of one work order at its gate: well below a second.
pub const CHECK_STEPS_MAX: u64 = 5_000_000;

/// The steps of all reviews of one artifact. They are taken inside a commit, which others wait for: about a millisecond.
pub(crate) const REVIEW_STEPS_MAX: u64 = 100_000;

/// Bytes of text that count as much as one value.
const TEXT_UNIT: u64 = 16;

/// Steps that are left.
#[derive(Debug)]
pub struct Work {
    limit: u64,
    left: u64,
}

impl Work {
    #[must_use]
    pub const fn new(steps: u64) -> Self {
        Self { limit: steps, left: steps }
    }

    /// What one check may cost.
    #[must_use]
    pub const fn of_check() -> Self {
        Self::new(CHECK_STEPS_MAX)
    }

    /// The steps that were taken.
    #[must_use]
    pub const fn spent(&self) -> u64 {
        self.limit - self.left
    }

    /// Takes steps. `Err` says that too few are left, and takes none.
    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), String> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(format!(
                "checking it takes {} steps, and at most {} are taken; make the value smaller, or its schema or condition simpler",
                self.spent().saturating_add(steps),
                self.limit
            )),
        }
    }
}

/// How large a value is: its values and members, and its text in units.
#[must_use]
pub fn size_of(value: &Value) -> u64 {
    let mut size = 0_u64;
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        size += 1;
        match value {
            Value::String(text) => size += units(text),
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => {
                size += members.keys().map(|name| units(name)).sum::<u64>();
                waiting.extend(members.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    size
}

fn units(text: &str) -> u64 {
    text.len() as u64 / TEXT_UNIT
}
