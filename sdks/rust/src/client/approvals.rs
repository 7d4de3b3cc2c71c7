//! Approvals: what runs wait for people to decide. Deciding needs a key with the role approver or admin.

use wire::approvals::{ApprovalDecided, ApprovalList, ApprovalView, DecideApproval, ListApprovals};

use super::Client;
use crate::Error;

/// The approvals of the client's scope. See [`Client::approvals`].
#[derive(Clone, Copy, Debug)]
pub struct Approvals<'a> {
    client: &'a Client,
}

impl Client {
    /// Approvals, to list, show and decide them.
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals { client: self }
    }
}

impl Approvals<'_> {
    /// A page of them, in the order in which their runs were submitted.
    pub async fn list(&self, page: &ListApprovals) -> Result<ApprovalList, Error> {
        self.client.transport.call(&self.client.get(&["v1", "approvals"], page)?).await
    }

    pub async fn get(&self, id: &str) -> Result<ApprovalView, Error> {
        self.client.transport.call(&self.client.get(&["v1", "approvals", id], &())?).await
    }

    /// Votes. Tried once: a repetition after a lost answer is refused, and [`Approvals::get`] says what was recorded.
    pub async fn decide(&self, id: &str, word: &DecideApproval) -> Result<ApprovalDecided, Error> {
        let request = self.client.post(&["v1", "approvals", id, "decide"], word)?;
        self.client.without_retries().call(&request).await
    }
}
