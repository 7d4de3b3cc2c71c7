//! The chapter on approvals: a payout asks two people, and their word is on record.

use tenure::workflow::Digest;
use wire::State;
use wire::admin::NewKey;
use wire::approvals::ApprovalView;

use super::functions::{PAYOUT, Payout};
use super::processes::{QUEUE, expect, unexpected};
use super::{CHAPTER_LEASE, HEARTBEAT, Tour};
use crate::exit::CliError;
use crate::output::{BOLD, GOOD, WARN};
use crate::server;

/// Somebody with a key that may decide, and nothing else.
pub(super) struct Person {
    name: &'static str,
    key_id: String,
    pub(super) secret: String,
}

impl Tour {
    /// The chapter in full.
    pub(super) async fn approval(&self) -> Result<(), CliError> {
        self.say.act("A payout asks two people. No worker waits with it.")?;
        let (id, payout) = self.submit_payout(50_000).await?;
        let mut alice = self.server.order_worker("alice", None)?;
        self.work_done(&mut alice, "look-up").await?;
        let asked = self.asked(&id).await?;
        alice.kill().await?;
        self.say.tell("killed", "alice: there is no worker now, and none is needed")?;

        self.say.act("People decide about what they saw, each of them once.")?;
        let (ann, bob) = (self.person("ann").await?, self.person("bob").await?);
        self.say.tell("keys", "ann and bob may approve, and do nothing else")?;
        let other = Payout { cents: 50_001, ..payout.clone() };
        self.refused(&ann, &asked, &other, "about 50001 cents").await?;
        self.decide(&ann, "approve", &asked, &payout, "checked the invoice").await?;
        self.refused(&ann, &asked, &payout, "a second time").await?;
        self.decide(&bob, "approve", &asked, &payout, "").await?;

        self.say.act("The payout goes on, and its record says who decided.")?;
        let mut carol = self.server.order_worker("carol", None)?;
        self.work_done(&mut carol, "transfer").await?;
        self.payout_ended(&id, "paid 50000 cents").await?;
        self.votes(&asked, &[&ann, &bob]).await?;

        self.say.act("A rejection is a value and not a failure: the code says what follows.")?;
        let (id, payout) = self.submit_payout(90_000).await?;
        self.work_done(&mut carol, "look-up").await?;
        let asked = self.asked(&id).await?;
        self.decide(&bob, "reject", &asked, &payout, "too dear").await?;
        self.payout_ended(&id, "not paid: too dear").await
    }

    /// The chapter in one act, for the tour of everything.
    pub(super) async fn approval_in_short(&self) -> Result<(), CliError> {
        self.say.act("A payout asks two people, and needs no worker until both have decided.")?;
        let (id, payout) = self.submit_payout(50_000).await?;
        let mut alice = self.server.order_worker("alice", None)?;
        self.work_done(&mut alice, "look-up").await?;
        let asked = self.asked(&id).await?;
        let (ann, bob) = (self.person("ann").await?, self.person("bob").await?);
        self.decide(&ann, "approve", &asked, &payout, "checked the invoice").await?;
        self.refused(&ann, &asked, &payout, "a second time").await?;
        self.decide(&bob, "approve", &asked, &payout, "").await?;
        self.work_done(&mut alice, "transfer").await?;
        self.payout_ended(&id, "paid 50000 cents").await
    }

    async fn submit_payout(&self, cents: u64) -> Result<(String, Payout), CliError> {
        let payout = Payout { to: "Ada".to_owned(), cents };
        let run = self
            .server
            .client
            .submit(PAYOUT, &payout)
            .queue(QUEUE)
            .lease(CHAPTER_LEASE)
            .heartbeat_interval(HEARTBEAT);
        let run = run.await.map_err(server::cli_error)?;
        self.say.tell("submitted", format_args!("{} payout: {}", run.id(), payout.subject()))?;
        Ok((run.id().to_owned(), payout))
    }

    /// The approval that a run waits for.
    async fn asked(&self, id: &str) -> Result<ApprovalView, CliError> {
        self.until_waiting(id).await?;
        let pending = self.server.run_command(&["approvals", "--json"]).await?;
        let pending: Vec<ApprovalView> = serde_json::from_str(&pending.stdout)
            .map_err(|error| unexpected(format!("approvals: {error}: {}", pending.stderr)))?;
        let its = pending.into_iter().find(|approval| approval.run_id == id);
        let its = its.ok_or_else(|| unexpected("the payout asks for an approval"))?;
        let subject = its.subject.as_deref().unwrap_or_default();
        let quorum = its.quorum;
        self.say.tell("waiting", format_args!("for {quorum} approvers: \"{subject}\""))?;
        Ok(its)
    }

    pub(super) async fn person(&self, name: &'static str) -> Result<Person, CliError> {
        let create = ["keys", "create", "--role", "approver", "--name", name, "--json"];
        let made = self.server.run_command(&create).await?;
        let made: NewKey = serde_json::from_str(&made.stdout)
            .map_err(|error| unexpected(format!("keys: {error}: {}", made.stderr)))?;
        Ok(Person { name, key_id: made.key.key_id, secret: made.secret })
    }

    async fn decide(
        &self,
        person: &Person,
        verb: &str,
        asked: &ApprovalView,
        about: &Payout,
        comment: &str,
    ) -> Result<(), CliError> {
        let digest = Digest::of(about).map_err(unexpected)?.to_string();
        let word = ["approvals", verb, &asked.approval_id, "--digest", &digest];
        let more = ["--comment", comment, "--key", &person.secret];
        let said = self.server.run_command(&[&word[..], &more[..]].concat()).await?;
        expect(said.is_success, format_args!("{} may decide: {}", person.name, said.stderr))?;
        let came = match said.stdout.contains("needs more") {
            true => "the vote is recorded, and one more is needed".to_owned(),
            false => format!("the payout{}", said.stdout.trim().replace(&asked.approval_id, "")),
        };
        let why = if comment.is_empty() { String::new() } else { format!(", \"{comment}\"") };
        let word = if verb == "reject" { "rejected" } else { "approved" };
        self.say.tell(word, format_args!("by {BOLD}{}{BOLD:#}{why}: {came}", person.name))
    }

    async fn refused(
        &self,
        person: &Person,
        asked: &ApprovalView,
        about: &Payout,
        how: &str,
    ) -> Result<(), CliError> {
        let digest = Digest::of(about).map_err(unexpected)?.to_string();
        let word = ["approvals", "approve", &asked.approval_id, "--digest", &digest];
        let said =
            self.server.run_command(&[&word[..], &["--key", &person.secret]].concat()).await?;
        expect(!said.is_success, format_args!("{} is refused {how}", person.name))?;
        let code = said.stderr.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let code = code.map_or("", |(code, _)| code);
        self.say.tell("refused", format_args!("{}, {how}: {WARN}{code}{WARN:#}", person.name))
    }

    async fn payout_ended(&self, id: &str, says: &str) -> Result<(), CliError> {
        let run = self.ended(id).await?;
        let output = run.output.as_ref().map(|output| output.text()).unwrap_or_default();
        let is_so = run.state == State::Succeeded && output.contains(says);
        expect(is_so, format_args!("the payout ends with `{says}`: {} {output}", run.state))?;
        self.say.tell("ended", format_args!("{GOOD}{}{GOOD:#}, output {output}", run.state))
    }

    async fn votes(&self, asked: &ApprovalView, people: &[&Person]) -> Result<(), CliError> {
        let approvals = self.server.client.approvals();
        let shown = approvals.get(&asked.approval_id).await.map_err(server::cli_error)?;
        expect(shown.votes.len() == people.len(), "each vote is recorded once")?;
        for vote in &shown.votes {
            let who = people.iter().find(|person| person.key_id == vote.key_id);
            let name = who.map_or("somebody else", |person| person.name);
            let why = vote.comment.as_deref().filter(|text| !text.is_empty());
            let why = why.map_or_else(String::new, |why| format!(", \"{why}\""));
            let said = format_args!("{} by {name} at {}{why}", vote.decision, vote.at);
            self.say.tell("recorded", said)?;
        }
        Ok(())
    }
}
