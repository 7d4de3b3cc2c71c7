//! A recovery policy to set: what may be done about runs that failed.

use std::borrow::Borrow;
use std::time::Duration;

use wire::ApprovalDecision;
use wire::recovery::{EscalationTerms, SetRecoveryPolicy};
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

/// Who decides about what is escalated; any key with the role approver or admin when nothing is said.
impl RecoveryPolicy {
    /// Roles of API keys that may decide.
    pub fn approver_roles<R: Into<String>>(
        self,
        roles: impl IntoIterator<Item = R>,
    ) -> RecoveryPolicy {
        self.ask(|terms| terms.roles = roles.into_iter().map(Into::into).collect())
    }

    /// Ids of API keys that may decide.
    pub fn approver_keys<K: Into<String>>(
        self,
        keys: impl IntoIterator<Item = K>,
    ) -> RecoveryPolicy {
        self.ask(|terms| terms.keys = keys.into_iter().map(Into::into).collect())
    }

    /// How many must approve; 1 by default. One rejection rejects.
    pub fn quorum(self, people: u32) -> RecoveryPolicy {
        self.ask(|terms| terms.quorum = Some(people))
    }

    /// How long people may take; as long as the candidate may be acted on, when not given. Nothing is done after that.
    pub fn decide_within(self, span: Duration) -> RecoveryPolicy {
        self.ask(|terms| terms.expires_ms = Some(millis(span)))
    }

    /// How long people may take, and what counts as decided after that.
    pub fn decide_within_or(self, span: Duration, decision: ApprovalDecision) -> RecoveryPolicy {
        self.decide_within(span).ask(|terms| terms.default = Some(decision))
    }

    fn ask(mut self, say: impl FnOnce(&mut EscalationTerms)) -> RecoveryPolicy {
        say(self.0.approval.get_or_insert_default());
        self
    }
}

impl Borrow<SetRecoveryPolicy> for RecoveryPolicy {
    fn borrow(&self) -> &SetRecoveryPolicy {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_decides_about_what_is_escalated_can_be_said() {
        let policy =
            RecoveryPolicy::new().queue("mail").approver_roles(["ops"]).approver_keys(["k"]);
        let policy =
            policy.quorum(2).decide_within_or(Duration::from_secs(60), ApprovalDecision::Rejected);
        let said: &SetRecoveryPolicy = policy.borrow();
        let said = serde_json::to_value(said).unwrap();
        let terms = serde_json::json!({"roles": ["ops"], "keys": ["k"], "quorum": 2, "expiresMs": 60_000,
            "default": "REJECTED"});
        assert_eq!(said, serde_json::json!({"queue": "mail", "approval": terms}));
    }
}
