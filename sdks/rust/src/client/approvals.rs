//! Approvals: what runs wait for people to decide. Deciding needs a key with the role approver or admin.

use wire::approvals::{ApprovalDecided, ApprovalList, ApprovalView, DecideApproval, ListApprovals};
use wire::{ApprovalDecision, ApprovalState};

use super::{Client, Request};
use crate::Error;

/// The approvals of the client's scope. See [`Client::approvals`].
#[derive(Clone, Copy, Debug)]
pub struct Approvals<'a> {
    client: &'a Client,
}

impl Client {
    /// Approvals, to list, show and decide them.
    ///
    /// ```no_run
    /// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
    /// use tenure::{ApprovalDecision, ApprovalState};
    ///
    /// let approvals = client.approvals();
    /// for asked in approvals.list().state(ApprovalState::Pending).await?.approvals {
    ///     let mut vote = approvals.decide(&asked.approval_id, ApprovalDecision::Approved).comment("checked");
    ///     if let Some(digest) = asked.digest {
    ///         vote = vote.digest(digest);
    ///     }
    ///     vote.await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals { client: self }
    }
}

impl Approvals<'_> {
    /// A page of them, in the order in which their runs were submitted.
    pub fn list(&self) -> Request<ListApprovals, ApprovalList> {
        Request::read(self.client, &["v1", "approvals"], ListApprovals::default())
    }

    pub async fn get(&self, id: &str) -> Result<ApprovalView, Error> {
        self.client.get_json(&["v1", "approvals", id], &()).await
    }

    /// Votes. Tried once: a repetition after a lost answer is refused, and [`Approvals::get`] says what was recorded.
    pub fn decide(
        &self,
        id: &str,
        decision: ApprovalDecision,
    ) -> Request<DecideApproval, ApprovalDecided> {
        let vote = DecideApproval { decision, digest: None, comment: None };
        Request::write_once(self.client, &["v1", "approvals", id, "decide"], vote)
    }
}

impl Request<ListApprovals, ApprovalList> {
    pub fn state(self, state: ApprovalState) -> Self {
        self.say(|it| it.state = Some(state))
    }
}

impl Request<DecideApproval, ApprovalDecided> {
    /// The digest that the approval showed. An approval about a content needs it.
    pub fn digest(self, digest: impl Into<String>) -> Self {
        self.say(|it| it.digest = Some(digest.into()))
    }

    pub fn comment(self, comment: impl Into<String>) -> Self {
        self.say(|it| it.comment = Some(comment.into()))
    }
}
