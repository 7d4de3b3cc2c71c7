//! People: they look at what runs ask, decide, repeat themselves, and sometimes decide about what they have not seen.
//!
//! What a person was told to count goes into the history (E7). A vote whose answer was lost is sent again, and may be
//! refused then because it counts.

use std::collections::BTreeSet;
use std::rc::Rc;

use historyck::event::{EventKind, Vote};
use serde_json::{Value, json};
use wire::approvals::{ApprovalDecided, ApprovalList, ApprovalView};

use crate::actor_context::{ActorContext, CallOutcome, FinishedCall, OutgoingCall};
use crate::coverage::CoverageGoal;
use crate::network::HttpRequest;
use crate::rng::{SimRng, Stream};

/// How long a person does other things, and how long for an answer.
const PAUSE_MS: (u64, u64) = (100, 1_500);
const TIMEOUT_MS: u64 = 2_000;
/// How many decisions in a thousand reject, are about something else, and are sent again although they were answered.
const REJECTS: u32 = 150;
const BLIND: u32 = 100;
const AGAIN: u32 = 250;

struct Person {
    ctx: Rc<ActorContext>,
    who: String,
    key: String,
    rng: SimRng,
    /// Approvals about which this person has nothing more to say.
    done: BTreeSet<String>,
}

pub(crate) async fn person(ctx: Rc<ActorContext>, number: u32) {
    let rng = SimRng::new(ctx.seed, Stream::Person(number));
    let key = ctx.accesses[0].approver_keys[number as usize].clone();
    let who = format!("person-{number}");
    let mut person = Person { ctx, who, key, rng, done: BTreeSet::new() };
    while !person.ctx.is_over.get() {
        person.pause().await;
        if let Some(asked) = person.look().await {
            person.decide(&asked).await;
        }
    }
}

impl Person {
    /// Something that waits for this person.
    async fn look(&mut self) -> Option<ApprovalView> {
        let mut cursor = String::new();
        loop {
            let path = format!("/v1/approvals?state=pending&limit=5{cursor}");
            let called = self.call("GET", path, None).await;
            let CallOutcome::Ok(page) = self.ctx.read::<ApprovalList>(&self.who, &called) else {
                return None;
            };
            let new = |asked: &ApprovalView| !self.done.contains(&asked.approval_id);
            if let Some(asked) = page.approvals.into_iter().find(new) {
                return Some(asked);
            }
            cursor = format!("&cursor={}", page.cursor?);
        }
    }

    async fn decide(&mut self, asked: &ApprovalView) {
        let is_hasty = !self.ctx.faults_stopped.get() && self.rng.chance(BLIND);
        if is_hasty {
            let other = "0".repeat(64);
            if let Some(said) = self.vote_until_known(asked, true, &other).await {
                let told = format_args!("{} was told {said:?} about {other}", self.who);
                self.ctx.log.violate("E7", told);
            }
            return;
        }
        let approves = !self.rng.chance(REJECTS);
        let digest = asked.digest.clone().unwrap_or_default();
        let said = self.vote_until_known(asked, approves, &digest).await;
        self.done.insert(asked.approval_id.clone());
        if let Some(said) = said {
            self.counts(asked, approves, &said);
            if self.rng.chance(AGAIN)
                && self.vote_until_known(asked, approves, &digest).await.is_some()
            {
                let told = format_args!("{} voted twice on {}", self.who, asked.approval_id);
                self.ctx.log.violate("E7", told);
            }
        }
    }

    /// What the vote came to; `None` if it was refused, or if the world is over.
    async fn vote_until_known(
        &mut self,
        asked: &ApprovalView,
        approves: bool,
        digest: &str,
    ) -> Option<ApprovalDecided> {
        let path = format!("/v1/approvals/{}/decide", asked.approval_id);
        let decision = if approves { "APPROVED" } else { "REJECTED" };
        while !self.ctx.is_over.get() {
            let body = json!({ "decision": decision, "digest": digest });
            let called = self.call("POST", path.clone(), Some(&body)).await;
            match self.ctx.read::<ApprovalDecided>(&self.who, &called) {
                CallOutcome::Ok(said) => return Some(said),
                CallOutcome::Refused(problem) => {
                    self.refused(&problem.error);
                    return None;
                }
                CallOutcome::NotNow(_) | CallOutcome::Unknown => self.pause().await,
            }
        }
        None
    }

    fn refused(&self, code: &str) {
        match code {
            "already_voted" => self.ctx.log.reach_goal(CoverageGoal::VoteRefusedAsSecond),
            "approval_closed" => self.ctx.log.reach_goal(CoverageGoal::VoteRefusedAsLate),
            "approval_digest_mismatch" | "history_full" => {}
            other => self.ctx.log.violate("E7", format_args!("{} got {other}", self.who)),
        }
    }

    fn counts(&self, asked: &ApprovalView, approves: bool, said: &ApprovalDecided) {
        let vote = Vote {
            approval: asked.approval_id.clone(),
            key: self.who.clone(),
            approves,
            quorum: asked.quorum,
            outcome: said.outcome.map(|outcome| outcome.as_str().to_owned()),
        };
        self.ctx.history.borrow_mut().record(self.ctx.now(), &self.who, EventKind::Vote(vote));
    }

    async fn call(
        &mut self,
        method: &'static str,
        path: String,
        body: Option<&Value>,
    ) -> FinishedCall {
        let ask = HttpRequest {
            method,
            path,
            bearer: self.key.clone(),
            idempotency_key: None,
            body: body.map(|body| body.to_string().into_bytes()),
        };
        let to = self.ctx.pick_host(&mut self.rng);
        let calling =
            OutgoingCall { who: &self.who, to, ask, timeout_ms: TIMEOUT_MS, invokes: Vec::new() };
        self.ctx.call(calling).await
    }

    async fn pause(&mut self) {
        let pause = self.rng.between(PAUSE_MS.0, PAUSE_MS.1);
        self.ctx.sleep(pause).await;
    }
}
