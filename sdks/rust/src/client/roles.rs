//! Turns of a role outside of the server: the calls by which one process takes, keeps and decides them.

use std::time::Duration;

use serde::Serialize;
use wire::Json;
use wire::topologies::{
    Propose, Proposed, RenewTurn, ReturnTurn, TakeTurns, Turn, TurnClaim, Turns,
};

use super::{Client, Deployments, Request};
use crate::Error;
use crate::new_run::millis;

/// The turns of one role, for a program with a loop of its own. [`RoleProcess`](crate::roles::RoleProcess) has one ready. See
/// [`Deployments::role`].
#[derive(Clone, Copy, Debug)]
pub struct OutsideRole<'a> {
    client: &'a Client,
    deployment: &'a str,
    role: &'a str,
    worker_id: &'a str,
}

impl<'a> Deployments<'a> {
    /// The turns of a role with `outside: true`, for the process with this id, which no other process has. Needs a worker's key
    /// that names the role, or one that is an administrator's as well.
    pub fn role(&self, deployment: &'a str, role: &'a str, worker_id: &'a str) -> OutsideRole<'a> {
        OutsideRole { client: self.client, deployment, role, worker_id }
    }
}

impl OutsideRole<'_> {
    /// Takes a turn, or several. Tried once: turns whose answer is lost come again when their leases end.
    pub fn take(&self) -> Request<TakeTurns, Turns> {
        let one =
            TakeTurns { worker_id: self.worker_id.to_owned(), max: 1, ..TakeTurns::default() };
        Request::write_once(self.client, &self.path(&["turns"]), one)
    }

    /// Keeps a turn, and reads it again.
    pub async fn renew(&self, claim: &TurnClaim) -> Result<Turn, Error> {
        let kept = RenewTurn { worker_id: self.worker_id.to_owned(), claim: claim.clone() };
        self.client.post_json(&self.path(&["turns", "renew"]), &kept).await
    }

    /// Gives a turn back, to be tried again after a pause. The reason is for people.
    pub async fn give_back(
        &self,
        claim: &TurnClaim,
        reason: impl Into<String>,
    ) -> Result<Proposed, Error> {
        let (worker_id, claim) = (self.worker_id.to_owned(), claim.clone());
        let back = ReturnTurn { worker_id, claim, reason: reason.into() };
        self.client.post_json(&self.path(&["turns", "return"]), &back).await
    }

    /// Decides a turn. The same decision again gets the same answer.
    pub async fn propose(
        &self,
        turn: &Turn,
        decision: &(impl Serialize + ?Sized),
    ) -> Result<Proposed, Error> {
        let decision = Json::from_value(decision)
            .map_err(|why| Error::Setup(format!("the decision has no JSON form: {why}")))?;
        let (worker_id, claim) = (self.worker_id.to_owned(), turn.claim.clone());
        let decided = Propose { worker_id, claim, decision };
        self.client.post_json(&self.path(&["proposals"]), &decided).await
    }

    fn path<'p>(&'p self, rest: &[&'p str]) -> Vec<&'p str> {
        let role = ["v1", "deployments", self.deployment, "roles", self.role];
        [&role[..], rest].concat()
    }
}

impl Request<TakeTurns, Turns> {
    /// At most this many, up to 64; 1 by default.
    pub fn max(self, turns: u32) -> Self {
        self.say(|it| it.max = turns)
    }

    /// Waits this long, at most 30 s, while there is none.
    pub fn wait(self, wait: Duration) -> Self {
        let wait_ms = Some(millis(wait));
        self.say(|it| it.wait_ms = wait_ms).holding(wait_ms)
    }

    /// Versions, by digest, whose declarations are known and need not be sent.
    pub fn known<V: Into<String>>(self, versions: impl IntoIterator<Item = V>) -> Self {
        self.say(|it| it.known = versions.into_iter().map(Into::into).collect())
    }
}
