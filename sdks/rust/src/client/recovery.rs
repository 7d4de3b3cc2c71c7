//! Recovery: what may be done about runs that failed alike, and what was done.

use std::borrow::Borrow;

use wire::recovery::{
    CandidateHistory, CandidateHistoryQuery, CandidateList, CandidateView, DecideCandidate,
    DeleteRecoveryPolicy, ListCandidates, RecoveryPolicyList, RecoveryPolicyView,
    SetRecoveryPolicy,
};

use wire::{CandidateState, RecoveryAction};

use super::{Client, Request};
use crate::Error;

/// The recovery of the client's workspace. See [`Client::recovery`].
#[derive(Clone, Copy, Debug)]
pub struct Recovery<'a> {
    client: &'a Client,
}

impl Client {
    /// Recovery: policies, and candidates with their evidence.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// use tenure::{RecoveryAction, RecoveryPolicy};
    ///
    /// let policy = RecoveryPolicy::new().queue("mail").actions([RecoveryAction::Retry]);
    /// client.recovery().set_policy("mail", policy).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// A worker that evaluates candidates itself (`evaluator: workers`) is a worker of the queue `tenure.recovery`: its input is
    /// a [`wire::recovery::EvaluationInput`], its output a [`wire::recovery::EvaluationOutput`].
    pub fn recovery(&self) -> Recovery<'_> {
        Recovery { client: self }
    }
}

impl Recovery<'_> {
    /// All policies, by name.
    pub async fn policies(&self) -> Result<RecoveryPolicyList, Error> {
        let request = self.client.get(&["v1", "recovery", "policies"], &())?;
        self.client.transport.call(&request).await
    }

    /// Makes a policy, or replaces it.
    pub async fn set_policy(
        &self,
        name: &str,
        policy: impl Borrow<SetRecoveryPolicy>,
    ) -> Result<RecoveryPolicyView, Error> {
        let path = ["v1", "recovery", "policies", name];
        let request = self.client.post(&path, policy.borrow())?;
        self.client.transport.call(&request).await
    }

    /// Deletes a policy. Nothing more is done under it.
    pub async fn delete_policy(&self, name: &str) -> Result<RecoveryPolicyView, Error> {
        let path = ["v1", "recovery", "policies", name, "delete"];
        let request = self.client.post(&path, &DeleteRecoveryPolicy {})?;
        self.client.without_retries().call(&request).await
    }

    /// A page of candidates.
    pub fn list(&self) -> Request<ListCandidates, CandidateList> {
        Request::read(self.client, &["v1", "recovery", "candidates"], ListCandidates::default())
    }

    /// A candidate with its evidence.
    pub async fn get(&self, id: &str) -> Result<CandidateView, Error> {
        self.client.get_json(&["v1", "recovery", "candidates", id], &()).await
    }

    /// What became of a candidate, the newest first.
    pub fn history(&self, id: &str) -> Request<CandidateHistoryQuery, CandidateHistory> {
        let path = ["v1", "recovery", "candidates", id, "history"];
        Request::read(self.client, &path, CandidateHistoryQuery::default())
    }

    /// Decides what is done about a candidate. Tried once: a repetition after a lost answer is refused, because the candidate is
    /// closed.
    pub fn decide(
        &self,
        id: &str,
        action: RecoveryAction,
    ) -> Request<DecideCandidate, CandidateView> {
        let path = ["v1", "recovery", "candidates", id, "decide"];
        Request::write_once(self.client, &path, DecideCandidate { action, comment: None })
    }
}

impl Request<ListCandidates, CandidateList> {
    pub fn state(self, state: CandidateState) -> Self {
        self.say(|it| it.state = Some(state))
    }
}

impl Request<DecideCandidate, CandidateView> {
    pub fn comment(self, comment: impl Into<String>) -> Self {
        self.say(|it| it.comment = Some(comment.into()))
    }
}
