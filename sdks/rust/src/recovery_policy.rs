//! A recovery policy to set: what may be done about runs that failed.

use std::borrow::Borrow;
use std::time::Duration;

use wire::recovery::SetRecoveryPolicy;
pub use wire::{RecoveryAction, RecoveryEvaluator};

use crate::new_run::millis;

/// A policy for [`Recovery::set_policy`](crate::Recovery::set_policy).
///
/// ```no_run
/// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
/// use tenure::{RecoveryAction, RecoveryPolicy};
///
/// let policy = RecoveryPolicy::new().queue("mail").actions([RecoveryAction::Retry, RecoveryAction::Escalate]);
/// client.recovery().set_policy("mail", policy).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "nothing is set until it is given to a client"]
pub struct RecoveryPolicy(SetRecoveryPolicy);

impl RecoveryPolicy {
    /// For the failed runs of every queue and kind.
    pub fn new() -> RecoveryPolicy {
        RecoveryPolicy::default()
    }

    pub fn queue(mut self, queue: impl Into<String>) -> RecoveryPolicy {
        self.0.queue = Some(queue.into());
        self
    }

    pub fn kind(mut self, kind: impl Into<String>) -> RecoveryPolicy {
        self.0.kind = Some(kind.into());
        self
    }

    /// What may be done.
    pub fn actions(mut self, actions: impl IntoIterator<Item = RecoveryAction>) -> RecoveryPolicy {
        self.0.actions = Some(actions.into_iter().collect());
        self
    }

    /// How often something is done about one candidate.
    pub fn attempts(mut self, attempts: u32) -> RecoveryPolicy {
        self.0.attempts = Some(attempts);
        self
    }

    /// How many runs an action may touch.
    pub fn runs_max(mut self, runs: u32) -> RecoveryPolicy {
        self.0.runs_max = Some(runs);
        self
    }

    /// What its actions may cost together, in millionths of a unit of currency.
    pub fn cost_micros(mut self, micros: u64) -> RecoveryPolicy {
        self.0.cost_micros = Some(micros);
        self
    }

    /// How long a candidate waits for its decision.
    pub fn expires(mut self, span: Duration) -> RecoveryPolicy {
        self.0.expires_ms = Some(millis(span));
        self
    }

    /// What proposes an action.
    pub fn evaluator(mut self, evaluator: RecoveryEvaluator) -> RecoveryPolicy {
        self.0.evaluator = Some(evaluator);
        self
    }
}

impl Borrow<SetRecoveryPolicy> for RecoveryPolicy {
    fn borrow(&self) -> &SetRecoveryPolicy {
        &self.0
    }
}
